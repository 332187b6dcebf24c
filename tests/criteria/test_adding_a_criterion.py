"""The smallest real examples of criteria of one's own: docs/extending.md shows them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize

import odefit as of
from odefit.criteria import CRITERIA, Quadratic, Rows, SumOfSquares
from odefit.gallery import path_of


class PseudoHuber(SumOfSquares):
    """Per datum: loss sqrt(1 + z^2) - 1, quadratic near zero, linear far from it, so that outliers count less."""

    name = "pseudo-huber"
    words = "sum of pseudo-Huber losses"
    takes_heavy = False

    def assess(self, differences, half_square, jacobian):
        root = np.sqrt(1.0 + differences**2)
        slope = root**-0.5  # its square, 1/root, is never below the second derivative, 1/root^3
        return Rows(float(np.sum(root - 1.0)), differences / root / slope, slope)


class LogOfSum(SumOfSquares):
    """Joint: N/2 log of the sum of squares, which is the likelihood with its own best variance."""

    name = "log-of-sum"
    words = "N/2 log of the sum of squares"
    joint = True
    takes_heavy = False

    def assess(self, differences, half_square, jacobian):
        n, square = differences.size, 2.0 * half_square
        value, size = 0.5 * n * math.log(square), math.sqrt(n)
        if jacobian is None:
            return Quadratic(value, None, None, size)
        return Quadratic(value, n / square * (jacobian.T @ differences), n / square * (jacobian.T @ jacobian), size)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for criterion in (PseudoHuber(), LogOfSum()):
        monkeypatch.setitem(CRITERIA, criterion.name, criterion)


def barnes(criterion: str, **parameters) -> of.Problem:
    problem = of.load(path_of("barnes")).with_settings(criterion=criterion, tol=1e-8)
    return problem.with_start(**parameters) if parameters else problem


def values_along(problem: of.Problem):
    """Return the weighted differences as a function of the natural values, integrated accurately."""
    tight = problem.with_settings(criterion="least-squares", rtol=1e-11, atol=1e-13)
    names = [p.name for p in problem.free]
    return lambda x: tight.evaluate(dict(zip(names, x.tolist(), strict=True)), order=0).residuals


def test_a_robust_criterion_is_minimised():
    problem = barnes("pseudo-huber")
    outlier = problem.measurements.value.copy()
    outlier[4] += 3.0
    problem = problem.with_measurements(_with_values(problem.measurements, outlier))
    result = of.fit(problem)
    assert result.status == "converged"
    assert "(sum of pseudo-Huber losses)" in result.summary()
    differences = values_along(problem)
    start = np.array(list(result.estimates.values()))
    found = minimize(
        lambda x: np.sum(np.sqrt(1 + differences(x) ** 2) - 1), 1.02 * start, method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-14, "maxiter": 2000},
    )  # fmt: skip
    np.testing.assert_allclose(start, found.x, rtol=2e-5)
    assert result.objective == pytest.approx(found.fun, rel=1e-7)
    assert result.sum_of_squares == pytest.approx(np.sum(differences(start) ** 2), rel=1e-5)
    plain = of.fit(problem.with_settings(criterion="least-squares"))
    truth = of.fit(barnes("least-squares"))
    for name, value in truth.estimates.items():
        assert abs(result.estimates[name] - value) < abs(plain.estimates[name] - value)


def test_a_joint_criterion_finds_the_least_squares_estimates():
    """N/2 log SS has its minimum where SS has."""
    joint, plain = of.fit(barnes("log-of-sum")), of.fit(barnes("least-squares"))
    assert joint.status == plain.status == "converged"
    for name, value in plain.estimates.items():
        assert joint.estimates[name] == pytest.approx(value, rel=1e-6)
    assert joint.objective == pytest.approx(0.5 * 22 * math.log(2.0 * plain.objective), rel=1e-9)


@pytest.mark.parametrize("name", ["pseudo-huber", "log-of-sum"])
def test_residuals_and_their_derivatives_are_those_of_the_data(name):
    """Whatever the criterion makes of them; only the objective is its own."""
    own, plain = of.Evaluator(barnes(name)), of.Evaluator(barnes("least-squares"))
    x = np.array([0.9, 2.0, 1.7])
    for mine, theirs in zip(own.residuals_and_jacobian(x), plain.residuals_and_jacobian(x), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    z = plain.residuals(x)
    expected = {"pseudo-huber": np.sum(np.sqrt(1 + z**2) - 1), "log-of-sum": 11 * math.log(z @ z)}
    assert own.objective(x) == pytest.approx(expected[name], rel=1e-14)
    assert own.loglik(x) == plain.loglik(x)
    np.testing.assert_array_equal(own.gradient(x), plain.gradient(x))


def test_priors_count_for_every_criterion():
    """An additional residual (k1 - 2)/0.01 that only the objective knows."""
    for name in CRITERIA:
        problem = barnes(name)
        parameters = [
            of.Parameter(p.name, p.start, prior="normal(2, 0.01)" if p.name == "k1" else None)
            for p in problem.parameters
        ]
        pulled = of.fit(of.Problem(problem.model, parameters, problem.measurements, settings=problem.settings))
        assert pulled.converged, name
        assert pulled.estimates["k1"] > of.fit(problem).estimates["k1"] + 0.5, name


@pytest.mark.parametrize("name", ["pseudo-huber", "log-of-sum"])
def test_data_of_infinite_weight_need_a_criterion_that_takes_them(name):
    problem = barnes(name)
    weight = np.full(len(problem.measurements), np.nan)
    weight[3] = np.inf
    exact = problem.with_measurements(_with_values(problem.measurements, problem.measurements.value, weight))
    with pytest.raises(of.FitError, match="cannot meet data of very large or infinite weight"):
        of.fit(exact)


def test_an_unknown_criterion_is_named():
    with pytest.raises(of.ProblemError, match="no criterion 'log-of-sun'; did you mean 'log-of-sum'"):
        of.fit(barnes("log-of-sun"))


def _with_values(data: of.Measurements, value: np.ndarray, weight: np.ndarray | None = None) -> of.Measurements:
    return of.Measurements(data.experiment, data.time, data.observable, value, row=data.row, weight=weight)
