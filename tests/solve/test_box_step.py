"""The damped step in a box: optimality, the radius, heavy rows, and steps that used to crawl."""

from __future__ import annotations

import numpy as np
import pytest
from dense_objectives import minimise_function
from scipy.optimize import lsq_linear

from odefit.solve import SCALED, Scaling, TrustStep
from odefit.solve.box_step import FRACTION, LONGEST, box_step
from odefit.solve.dense import DenseLinear
from odefit.solve.factor_step import FactorSteps
from odefit.solve.scaled_step import ScaledSteps


def problem(seed: int, n: int = 6, m: int = 9):
    """A problem whose solution without bounds is mostly outside of the box, with columns that nearly depend."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(m, n)) @ np.diag(10.0 ** rng.uniform(-2, 2, n))
    a[:, 0] = a[:, 1] + 1e-3 * a[:, 0]
    c = 5.0 * rng.normal(size=m)
    low, high = -rng.uniform(0.0, 1.0, n), rng.uniform(0.0, 1.0, n)
    low[rng.random(n) < 0.3] = 0.0
    return a, c, low, high


def solved(a, c, low, high, radius=np.inf, damping=0.0, n_heavy=0):
    n = a.shape[1]
    side, z = np.empty(n, np.int64), np.zeros(n)
    decrement = float(np.linalg.norm(a @ np.linalg.lstsq(a, c, rcond=None)[0]))
    mu, length = box_step(a, c, n_heavy, np.eye(n), low, high, radius, damping, decrement, side, z)
    return z, mu, length, side


@pytest.mark.parametrize("seed", range(60))
def test_full_steps_are_the_solution_in_the_box(seed):
    a, c, low, high = problem(seed)
    z, mu, _, side = solved(a, c, low, high)
    inside = low < high
    reference = lsq_linear(a[:, inside], c, (low[inside], high[inside]), method="bvls", tol=1e-14, max_iter=200)
    assert mu == 0.0
    assert (z >= low).all()
    assert (z <= high).all()
    assert 0.5 * np.sum((a @ z - c) ** 2) == pytest.approx(reference.cost, rel=1e-9)
    assert (z[side < 0] == low[side < 0]).all()
    assert (z[side > 0] == high[side > 0]).all()


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("radius", [0.1, 0.5])
def test_damped_steps_are_optimal_for_their_damping(seed, radius):
    a, c, low, high = problem(seed)
    z, mu, length, side = solved(a, c, low, high, radius)
    assert length == pytest.approx(np.linalg.norm(z))
    assert length <= LONGEST * radius
    share = FRACTION if mu > 0.0 else 1.0
    slope = a.T @ (c - a @ z) - mu * z
    size = np.linalg.norm(a, axis=0) * np.linalg.norm(c)
    assert (z >= share * low).all()
    assert (z <= share * high).all()
    assert (np.abs(slope[side == 0]) <= 1e-8 * size[side == 0]).all()
    open_side = low < high
    assert (slope[(side < 0) & open_side] <= 1e-8 * size[(side < 0) & open_side]).all()
    assert (slope[(side > 0) & open_side] >= -1e-8 * size[(side > 0) & open_side]).all()


def test_heavy_rows_hold_as_well_as_bounds_allow():
    rng = np.random.default_rng(4)
    light, right = rng.normal(size=(6, 4)), rng.normal(size=6)
    heavy = np.array([1.0, 1.0, 0.0, 0.0])
    a, c = np.vstack([1e10 * heavy, light]), np.append(1e10 * 0.5, right)
    low, high = np.array([-1.0, 0.0, -0.1, -0.1]), np.array([0.2, 1.0, 0.1, 0.1])
    z, *_ = solved(a, c, low, high, n_heavy=1)
    assert z[0] + z[1] == pytest.approx(0.5, abs=1e-9)
    assert (z >= low).all()
    assert (z <= high).all()


@pytest.mark.parametrize("kind", [FactorSteps, ScaledSteps])
@pytest.mark.parametrize("seed", range(30))
def test_both_metrics_promise_what_the_box_allows(kind, seed):
    a, c, low, high = problem(seed)
    x = np.zeros(low.size)
    steps = kind(Scaling(np.full(x.size, 10.0), np.zeros(x.size, bool)), low, high, np.empty(0))
    steps.move(DenseLinear(a, -c), x)
    step = steps.step(np.inf)
    reference = lsq_linear(a[:, low < high], c, (low[low < high], high[low < high]), method="bvls", tol=1e-14)
    best = 0.5 * float(c @ c) - reference.cost
    assert (step.x >= low).all()
    assert (step.x <= high).all()
    # unknowns that the gradient presses against their bounds stay there
    assert 0.0 < step.promised <= best * (1 + 1e-9)
    if not steps.held.any():
        assert step.promised == pytest.approx(best, rel=1e-6)


def vanishing(x):
    """Sums of exponentials with amplitudes of which some vanish: nearly dependent columns, and bounds at zero."""
    t = np.linspace(0.1, 5.0, 20)
    data = 2.0 * np.exp(-0.4 * t) + 0.01 * np.cos(20 * t)
    rates = np.array([0.1, 0.3, 0.5, 1.0, 2.0, 4.0])
    return np.exp(-np.outer(t, rates)) @ x - data


@pytest.mark.parametrize("metric", [None, SCALED])
@pytest.mark.parametrize("seed", range(10))
def test_amplitudes_of_which_most_vanish(metric, seed):
    start = np.random.default_rng(seed).uniform(0.01, 5.0, 6)
    lower, upper = np.zeros(6), np.full(6, np.inf)
    result, _ = minimise_function(vanishing, start, lower=lower, upper=upper, step=TrustStep(metric=metric))
    design = np.stack([vanishing(unit) - vanishing(np.zeros(6)) for unit in np.eye(6)], axis=1)
    reference = lsq_linear(design, -vanishing(np.zeros(6)), (lower, upper), method="bvls", tol=1e-14)
    assert result.value == pytest.approx(reference.cost, rel=1e-5)
    assert result.iterations <= 25
