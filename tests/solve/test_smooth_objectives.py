"""Objectives known by value, gradient and Hessian."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dense_objectives import minimise

from odefit.solve import SOLVERS, Failed, quadratic_model, smooth_point
from odefit.solve.status import SolverStatus


class SmoothObjective:
    """A function that returns value, gradient and Hessian."""

    def __init__(self, function, n, size=1.0, shift=0.0):
        self.function, self.size, self.shift = function, size, shift
        self.names = tuple(f"x{i}" for i in range(n))
        self.evaluations = 0

    def refresh(self, x):
        return 1

    def evaluate(self, x, order):
        self.evaluations += 1
        value, gradient, hessian = self.function(x)
        if not math.isfinite(value):
            return Failed(x, 1, "no value")
        return smooth_point(x, 1, value + self.shift, (gradient, hessian) if order else None, self.size)


def rosenbrock(x):
    a, b = x
    value = 100 * (b - a * a) ** 2 + (1 - a) ** 2
    gradient = np.array([-400 * a * (b - a * a) - 2 * (1 - a), 200 * (b - a * a)])
    return value, gradient, np.array([[1200 * a * a - 400 * b + 2, -400 * a], [-400 * a, 200.0]])


def poisson(x):
    """Negative log likelihood of counts with mean exp(a + b t)."""
    mean = np.exp(x[0] + x[1] * T)
    rows = np.stack([np.ones_like(T), T], axis=1)
    return float(np.sum(mean - COUNTS * np.log(mean))), rows.T @ (mean - COUNTS), rows.T @ (mean[:, None] * rows)


T = np.linspace(0.0, 2.0, 30)
COUNTS = np.random.default_rng(0).poisson(np.exp(0.5 + 0.8 * T)).astype(float)


def saddle(x):
    """x^2 - y^2 + y^4/4: minima at y = +-sqrt(2), a saddle at 0."""
    a, b = x
    return a * a - b * b + b**4 / 4, np.array([2 * a, -2 * b + b**3]), np.diag([2.0, -2.0 + 3 * b * b])


@pytest.mark.parametrize("shift", [0.0, -1e3, 1e3])
@pytest.mark.parametrize("solver", ["trust", "trust-linear", "subspace", "diffpar", "damped"])
def test_newtons_method_by_the_common_loop(solver, shift):
    parts = SOLVERS[solver]
    result = minimise(
        SmoothObjective(rosenbrock, 2, shift=shift), (-1.2, 1.0), step=parts.step, globalisation=parts.globalisation
    )
    assert result.status is SolverStatus.CONVERGED
    np.testing.assert_allclose(result.x, 1.0, atol=1e-5)
    assert result.iterations < 40


@pytest.mark.parametrize("units", [1.0, 1e6])
def test_a_likelihood(units):
    def scaled(x):
        value, gradient, hessian = poisson(x * np.array([1.0, units]))
        return value, gradient * [1.0, units], hessian * np.outer([1.0, units], [1.0, units])

    result = minimise(SmoothObjective(scaled, 2, size=math.sqrt(T.size)), (1.0, 0.1 / units))
    assert result.converged
    assert np.abs(scaled(result.x)[1] / [1.0, units]).max() < 1e-4
    assert result.iterations < 15


def test_saddle_points_are_left():
    result = minimise(SmoothObjective(saddle, 2), (1.0, 1e-6))
    assert result.converged
    assert abs(result.x[1]) == pytest.approx(math.sqrt(2.0), rel=1e-6)


def test_bounds():
    upper = np.array([0.5, np.inf])
    result = minimise(SmoothObjective(rosenbrock, 2), (-1.2, 1.0), upper=upper)
    assert result.converged
    np.testing.assert_allclose(result.x, [0.5, 0.25], rtol=1e-6)
    assert result.active.tolist() == [True, False]


@pytest.mark.parametrize("seed", range(10))
def test_the_quadratic_model_has_gradient_and_hessian_of_the_objective(seed):
    rng = np.random.default_rng(seed)
    n = 4
    root = rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-4, 4, n)
    gradient, hessian = rng.normal(size=n), root.T @ root
    linear = quadratic_model(gradient, hessian)
    np.testing.assert_allclose(linear.descent(), -gradient, rtol=1e-6)
    np.testing.assert_allclose(
        linear.factor().T @ linear.factor(), hessian, rtol=1e-8, atol=1e-10 * np.abs(hessian).max()
    )
