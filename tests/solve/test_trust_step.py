"""The step: a diagonal trust-region problem in the metric of the pivoted QR factors, in a box."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import qr
from scipy.optimize import brentq, minimize

from odefit.solve import LeastSquares, Scaling, Triangle, TrustStep
from odefit.solve.factor_step import FactorSteps

SEEDS = range(20)
INF = np.inf


def random_problem(seed: int, n: int, condition: float = 1e3):
    """Return R, b and x; columns of very different size, scales of linear unknowns."""
    rng = np.random.default_rng(1000 * n + seed)
    r = np.linalg.qr(rng.normal(size=(2 * n, n)))[1] * condition ** rng.uniform(-0.5, 0.5, size=n)
    x = rng.normal(size=n) * 10.0 ** rng.integers(-2, 3, size=n)
    return r, rng.normal(size=n), x


def prepare(r, b, x, lower=None, upper=None, logarithmic=False):
    n = b.size
    scaling = Scaling(x.copy(), np.full(n, logarithmic))
    lower = np.full(n, -INF) if lower is None else lower
    upper = np.full(n, INF) if upper is None else upper
    problem = FactorSteps(scaling, lower, upper, np.empty(0))
    problem.move(TriangularLinear(np.ascontiguousarray(r), b), x)
    return problem, scaling.of(x)


def trial_with(residual, heavy=None):
    """Return a trial point with this residual."""
    return LeastSquares(np.empty(0), 1, 1.0, residual, None, 1.0, 0.0, heavy)


class TriangularLinear:
    """A linear model that is reduced already: its residual is -b."""

    def __init__(self, r, b):
        self.reduced = Triangle(r, b)

    def triangle(self):
        return self.reduced

    def residual_in_triangle(self, residual):
        return -residual


def diagonal_form(r, b, scale):
    """Return d, c and the map U P' S^-1 of a step to x, from SciPy's factorisation."""
    q, du, pivot = qr(r * scale, pivoting=True)
    d = np.diag(du)
    unit = du / d[:, None]
    metric = unit @ np.eye(b.size)[:, pivot].T / scale
    return d, q.T @ b, metric


@pytest.mark.parametrize("n", [1, 2, 3, 6])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("radius", [1e-3, 0.1, 1.0, 10.0, 1e6])
def test_first_order_conditions(seed, n, radius):
    """x = d c/(d^2 + mu) with mu >= 0, ||x|| <= radius, and mu > 0 only at the boundary."""
    r, b, x = random_problem(seed, n)
    problem, scale = prepare(r, b, x)
    step = problem.step(radius)
    d, c, metric = diagonal_form(r, b, scale)
    z = metric @ step.v

    def length(mu):
        return np.linalg.norm(d * c / (d**2 + mu))

    assert step.rank == n
    assert step.length == pytest.approx(np.linalg.norm(z), rel=1e-8)
    assert step.length <= radius * 1.0011
    if length(0.0) <= radius:
        assert step.damping == 0.0
        np.testing.assert_allclose(r @ step.v, b, rtol=1e-9, atol=1e-9 * np.linalg.norm(b))
    else:
        assert step.length == pytest.approx(radius, rel=1.1e-3)
        exact = brentq(lambda mu: length(mu) - step.length, 0.0, 1e20, xtol=1e-300, rtol=1e-14)
        assert step.damping == pytest.approx(exact, rel=1e-6)
    np.testing.assert_allclose(np.abs(z), np.abs(d * c / (d**2 + step.damping)), rtol=1e-8, atol=1e-10 * radius)
    np.testing.assert_array_equal(step.x, x + step.v)
    assert step.decrement == pytest.approx(np.linalg.norm(b), rel=1e-10)
    assert step.promised == pytest.approx(0.5 * (b @ b - np.sum((r @ step.v - b) ** 2)), rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_better_step_of_this_length(seed):
    """Against a general optimiser on the same constrained problem."""
    r, b, x = random_problem(seed, 3, condition=10.0)
    problem, scale = prepare(r, b, x)
    step = problem.step(0.5)
    d, c, _ = diagonal_form(r, b, scale)
    best = minimize(
        lambda z: 0.5 * np.sum((d * z - c) ** 2),
        np.zeros(3),
        jac=lambda z: d * (d * z - c),
        constraints={"type": "ineq", "fun": lambda z: step.length**2 - z @ z, "jac": lambda z: -2 * z},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    assert 0.5 * b @ b - step.promised <= best.fun * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("seed", SEEDS)
def test_longer_radius_promises_more(seed):
    r, b, x = random_problem(seed, 4)
    problem, _ = prepare(r, b, x)
    promised = [problem.step(radius).promised for radius in (1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)]
    assert all(new >= old * (1 - 1e-9) for old, new in zip(promised, promised[1:], strict=False))
    assert all(p > 0 for p in promised)


@pytest.mark.parametrize("logarithmic", [False, True])
def test_scale_of_the_metric(logarithmic):
    """Radius 1 means a change by 100 % of a linear unknown, by 1 of a logarithmic one."""
    x = np.array([40.0])
    problem, _ = prepare(np.array([[1.0]]), np.array([1e6]), x, logarithmic=logarithmic)
    assert problem.step(1.0).v[0] == pytest.approx(1.0 if logarithmic else 40.0, rel=1.1e-3)


@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_rank_deficient(seed, rank):
    """Directions without influence are left alone; the others are solved for."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(7, rank)) @ rng.normal(size=(rank, 4)) if rank else np.zeros((7, 4))
    residual = rng.normal(size=7)
    q, r = np.linalg.qr(a)
    problem, _ = prepare(np.triu(r), -q.T @ residual, np.ones(4))
    step = problem.step(1e6)
    assert step.rank == rank
    best = 0.5 * np.sum((a @ np.linalg.lstsq(a, residual, rcond=None)[0]) ** 2)
    assert step.promised == pytest.approx(best, rel=1e-9, abs=1e-20)
    assert step.decrement == pytest.approx(np.sqrt(2 * best), rel=1e-9, abs=1e-10)


def random_box(seed: int, n: int):
    """Return a problem with some unknowns on their bounds, some close, some far."""
    r, b, _ = random_problem(seed, n, condition=10.0)
    rng = np.random.default_rng(7 * seed + n)
    lower, upper = -rng.uniform(0.5, 2.0, size=n), rng.uniform(0.5, 2.0, size=n)
    x = rng.uniform(lower, upper)
    kind = rng.integers(0, 4, size=n)
    x = np.where(kind == 0, lower, np.where(kind == 1, upper, x))
    return r, b, x, lower, upper


def projected_path_promise(r, b, x, scale, lower, upper, radius):
    """Return the best reduction along the projected, scaled gradient path within the radius."""
    direction = scale**2 * (r.T @ b)
    best = 0.0
    for t in np.geomspace(1e-8, 1.0, 60) * radius / np.linalg.norm(direction / scale):
        v = np.clip(x + t * direction, lower, upper) - x
        best = max(best, 0.5 * (b @ b - np.sum((r @ v - b) ** 2)))
    return best


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("radius", [0.1, 1.0, 1e3])
def test_step_in_a_box(seed, n, radius):
    r, b, x, lower, upper = random_box(seed, n)
    problem, scale = prepare(r, b, x, lower, upper)
    step = problem.step(radius)
    descent = r.T @ b
    held = ((x == lower) & (descent <= 0)) | ((x == upper) & (descent >= 0))
    np.testing.assert_array_equal(problem.held, held)
    assert (step.x >= lower).all()
    assert (step.x <= upper).all()
    np.testing.assert_array_equal(step.x[held], x[held])
    assert step.promised == pytest.approx(0.5 * (b @ b - np.sum((r @ step.v - b) ** 2)), rel=1e-6, abs=1e-12)
    # a fraction of what the projected gradient promises is what global convergence needs
    assert step.promised >= 0.01 * projected_path_promise(r, b, x, scale, lower, upper, min(radius, 1.0))


@pytest.mark.parametrize("seed", range(60))
def test_bounds_are_met_exactly(seed):
    """Arriving one rounding error inside a bound would leave the unknown free, pressing for ever."""
    rng = np.random.default_rng(seed)
    n = 6
    lower, upper = -rng.uniform(0.1, 1.0, size=n), rng.uniform(0.1, 1.0, size=n)
    x = rng.uniform(lower, upper)
    target = np.where(rng.uniform(size=n) < 0.5, lower - 1.0, upper + 1.0)
    problem, _ = prepare(np.eye(n), target - x, x, lower, upper)
    step = problem.step(1e6)
    np.testing.assert_array_equal(step.x, np.clip(target, lower, upper))


def test_pressed_bound_does_not_hide_another_that_should_be_left():
    """x0 presses its bound; x1 sits on one that the gradient leads away from, but a free step would not."""
    r = np.array([[1.0, -2.0], [0.0, 1.0]])
    x, lower, upper = np.array([1e-16, 0.0]), np.zeros(2), np.full(2, 10.0)
    b = np.linalg.solve(r.T, np.array([-3.0, 0.1]))
    problem, scale = prepare(r, b, x, lower, upper, logarithmic=True)
    step = problem.step(1.0)
    assert step.promised >= 0.01 * projected_path_promise(r, b, x, scale, lower, upper, 1.0)
    assert step.x[1] > 1e-3


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("radius", [0.1, 1e6])
def test_second_order_correction(seed, radius):
    """For a trial residual r(x + v) = r + J v + w the correction removes w, through the filter of the step."""
    r, b, x = random_problem(seed, 4)
    rng = np.random.default_rng(seed)
    curvature = 1e-3 * rng.normal(size=4) * np.linalg.norm(b)
    problem, scale = prepare(r, b, x)
    step = problem.step(radius)
    corrected, length = problem.correction(step, trial_with(-(b - r @ step.v - curvature)))
    d, _, metric = diagonal_form(r, b, scale)
    q = qr(r * scale, pivoting=True)[0]
    expected = d / (d**2 + step.damping) * (q.T @ (-2 * curvature))
    assert length == pytest.approx(np.linalg.norm(expected), rel=1e-8)
    moved = np.linalg.solve(metric, expected)
    np.testing.assert_allclose(corrected, x + step.v + 0.5 * moved, rtol=1e-8, atol=1e-10)
    if radius > 1e3:
        np.testing.assert_allclose(r @ (corrected - x), b - curvature, rtol=1e-8, atol=1e-8 * np.linalg.norm(b))


def test_correction_stays_in_the_box():
    r, b, x, lower, upper = random_box(3, 4)
    problem, _ = prepare(r, b, x, lower, upper)
    step = problem.step(1.0)
    corrected, _ = problem.correction(step, trial_with(-(b + 100.0)))
    assert (corrected >= lower).all()
    assert (corrected <= upper).all()


@pytest.mark.parametrize(
    ("ratio", "promised", "wanted"), [(0.5, 1.0, True), (0.95, 1.0, False), (0.5, 1e-3, False), (-3.0, 0.5, True)]
)
def test_when_a_correction_is_worth_it(ratio, promised, wanted):
    assert TrustStep(correct_below=0.9, correct_above=1e-2).wants_correction(ratio, promised, 1.0) is wanted
