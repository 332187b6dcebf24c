"""The merit function: weights as small as (24) allows, never smaller than before, never above the data's own."""

from __future__ import annotations

import numpy as np
import pytest

from odefit.solve import Heavy, HeavyMisfit, LeastSquares, Triangle
from odefit.solve.factor_step import FactorSteps
from odefit.solve.merit import Merit
from odefit.solve.scaling import Scaling
from odefit.solve.steps import StepInfo

INF = np.inf


class Linear:
    def __init__(self, reduced):
        self.reduced = reduced

    def triangle(self):
        return self.reduced

    @property
    def heavy(self):
        return self.reduced.heavy

    @property
    def right(self):
        return self.reduced.b

    def times(self, steps):
        return steps @ self.reduced.R.T

    def heavy_times(self, v):
        return self.reduced.heavy.rows @ v

    def residual_in_triangle(self, residual):
        return -residual


def random_linear(seed, roots):
    rng = np.random.default_rng(seed)
    n, k = 3, len(roots)
    r = np.linalg.qr(rng.normal(size=(6, n)))[1]
    return Linear(Triangle(r, rng.normal(size=n), Heavy(rng.normal(size=(k, n)), rng.normal(size=k), np.array(roots))))


def full_step(linear):
    reduced = linear.triangle()
    n, root = reduced.b.size, reduced.heavy.root
    problem = FactorSteps(Scaling(np.zeros(n), np.ones(n, bool)), np.full(n, -INF), np.full(n, INF), root)
    problem.move(linear, np.zeros(n))
    return problem.step(INF)


def step_of(v):
    return StepInfo(v, v, v.size, 0.0, 1.0, 1.0, 1.0, 1.0)


def point_missing(misfit):
    """A point at which heavy rows miss this, and others nothing."""
    heavy = HeavyMisfit(misfit, np.full(misfit.size, INF), 0.0)
    return LeastSquares(misfit, 1, 0.0, misfit, None, 0.0, 0.0, heavy)


def merit_weights(merit, k):
    """Read the weights off the merit function itself: its value with one unit of misfit."""
    points = np.eye(k)
    return np.array([2 * merit.of(point_missing(c)) for c in points])


def best_multiple(linear, v, weights):
    """Return the minimiser of (24)."""
    r, b, heavy = linear.triangle()
    p, q = r @ v, heavy.rows @ v
    return (p @ b + weights @ (q * heavy.right)) / (p @ p + weights @ q**2)


ROOTS = [(INF,), (INF, INF), (INF, 1e3), (1e3, 40.0), (1e10, 1e5), (40.0,)]


@pytest.mark.parametrize("roots", ROOTS, ids=str)
@pytest.mark.parametrize("seed", range(20))
def test_best_multiple_of_a_full_step(seed, roots):
    linear = random_linear(seed, roots)
    merit = Merit(linear.triangle().heavy.root)
    step = full_step(linear)
    promised = merit.promised(linear, step)
    weights = merit_weights(merit, len(roots))
    assert best_multiple(linear, step.v, weights) >= 0.8 * (1 - 1e-9)
    assert (weights <= np.square(roots) * (1 + 1e-12)).all()
    assert (weights >= 1.0 - 1e-12).all()
    r, b, heavy = linear.triangle()
    before = b @ b + weights @ heavy.right**2
    after = np.sum((r @ step.v - b) ** 2) + weights @ (heavy.rows @ step.v - heavy.right) ** 2
    assert promised == pytest.approx(0.5 * (before - after), rel=1e-8)
    assert promised > 0.0


@pytest.mark.parametrize("roots", ROOTS, ids=str)
@pytest.mark.parametrize("seed", range(10))
def test_no_smaller_weight_would_do(seed, roots):
    linear = random_linear(seed, roots)
    merit = Merit(linear.triangle().heavy.root)
    step = full_step(linear)
    merit.promised(linear, step)
    weights = merit_weights(merit, len(roots))
    m = weights.max()
    if m > 1.0 + 1e-9:
        smaller = np.minimum(weights, 0.99 * m)
        assert best_multiple(linear, step.v, smaller) < 0.8


def test_rows_whose_weight_is_below_the_common_one_count_with_their_own():
    """The closed form with one m for all rows would choose 9, and leave the best multiple at 9/13."""
    heavy = Heavy(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1.0, 1.0]), np.array([INF, np.sqrt(2.0)]))
    linear = Linear(Triangle(np.eye(2), np.array([-1.0, -1.0]), heavy))
    merit = Merit(heavy.root)
    v = np.array([1.0, 1.0])
    merit.promised(linear, step_of(v))
    weights = merit_weights(merit, 2)
    assert weights[1] == pytest.approx(2.0)
    assert best_multiple(linear, v, weights) == pytest.approx(0.8)


def test_weights_never_become_smaller():
    merit = Merit(np.array([INF, INF]))
    largest = np.ones(2)
    for seed in range(40):
        linear = random_linear(seed, (INF, INF))
        merit.promised(linear, full_step(linear))
        weights = merit_weights(merit, 2)
        assert (weights >= largest).all()
        largest = weights
    assert largest.max() > 1.0


def test_without_heavy_rows_the_merit_function_is_the_objective():
    merit = Merit(np.empty(0))
    point = LeastSquares(np.zeros(1), 1, 3.5, np.zeros(1), None, np.sqrt(7.0), 0.0)
    assert merit.of(point) == 3.5
    assert merit.violation(point) == 0.0


@pytest.mark.parametrize(("misfit", "violation"), [((3.0, 4.0, 100.0), 5.0), ((0.0, 0.0, 1.0), 0.0)])
def test_violation_is_that_of_the_rows_of_infinite_weight(misfit, violation):
    merit = Merit(np.array([INF, INF, 1e3]))
    point = point_missing(np.array(misfit))
    assert merit.violation(point) == violation
