"""Covariance, standard errors, intervals and verdicts against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from independent_errors_of_rows import statistics_of_rows
from scipy.stats import linregress, norm
from scipy.stats import t as student

import odefit as of

T = np.linspace(0.0, 5.0, 11)
Y = 1.0 + 2.0 * T + 0.1 * np.sin(7 * T)


def line(parameters=None, **data) -> of.Problem:
    """y = a + b t: the explicit model without states."""
    made = parameters or (of.Parameter("a", 0.5), of.Parameter("b", 1.0))
    return of.Problem(of.Model.from_text("y = a + b*t"), made, of.Measurements.from_columns(T, {"y": Y}, **data))


def factor(jacobian: np.ndarray) -> np.ndarray:
    m, n = jacobian.shape
    r = np.linalg.qr(jacobian)[1]
    return np.vstack([r, np.zeros((max(n - m, 0), n))])


def statistics_of(jacobian, active=None, *, squares=1.0, absolute=False):
    n = jacobian.shape[1]
    held = np.zeros(n, dtype=bool) if active is None else np.array(active)
    return statistics_of_rows(factor(jacobian), held, squares, jacobian.shape[0], absolute=absolute)


# --- on a fit ---


def test_straight_line_with_estimated_sigma():
    result = of.fit(line())
    reference = linregress(T, Y)
    assert result.status == "converged"
    assert result.estimates["b"] == pytest.approx(reference.slope, rel=1e-7)
    assert result.estimates["a"] == pytest.approx(reference.intercept, rel=1e-7)
    assert result.parameters["b"].standard_error == pytest.approx(reference.stderr, rel=1e-6)
    assert result.parameters["a"].standard_error == pytest.approx(reference.intercept_stderr, rel=1e-6)
    assert result.dof == 9
    reach = student.ppf(0.975, 9) * reference.stderr
    assert result.parameters["b"].interval == pytest.approx(
        (reference.slope - reach, reference.slope + reach), rel=1e-6
    )


def test_straight_line_with_known_sigma():
    """The covariance is sigma^2 (J'J)^-1 whatever the residuals are."""
    result = of.fit(line(sigma={"y": 0.25}))
    design = np.stack([np.ones_like(T), T], axis=1)
    covariance = 0.25**2 * np.linalg.inv(design.T @ design)
    np.testing.assert_allclose(result.statistics.covariance, covariance, rtol=1e-9)
    assert result.statistics.variance == 1.0
    assert result.statistics.quantile == pytest.approx(norm.ppf(0.975))
    reach = norm.ppf(0.975) * math.sqrt(covariance[1, 1])
    low, high = result.parameters["b"].interval
    assert high - low == pytest.approx(2 * reach, rel=1e-9)
    assert result.chi2 == pytest.approx(np.sum((Y - design @ list(result.estimates.values())) ** 2) / 0.25**2, rel=1e-6)


@pytest.mark.parametrize("factor_of_all", [0.01, 1.0, 400.0])
def test_common_factor_of_weights_is_estimated(factor_of_all):
    weight = np.linspace(1.0, 3.0, T.size)
    plain, scaled = (of.fit(line(weight={"y": w})) for w in (weight, factor_of_all * weight))
    for name in ("a", "b"):
        assert scaled.estimates[name] == pytest.approx(plain.estimates[name], rel=1e-6)
        assert scaled.parameters[name].standard_error == pytest.approx(plain.parameters[name].standard_error, rel=1e-6)


def test_sigma_is_absolute():
    small, large = (of.fit(line(sigma={"y": s})) for s in (0.1, 0.3))
    ratio = large.parameters["a"].standard_error / small.parameters["a"].standard_error
    assert ratio == pytest.approx(3.0, rel=1e-9)


@pytest.mark.parametrize("scale", ["log", "log10"])
def test_interval_is_symmetric_on_the_scale(scale):
    parameters = (of.Parameter("a", 0.5, scale=scale), of.Parameter("b", 1.0, scale=scale))
    plain, logarithmic = of.fit(line()), of.fit(line(parameters))
    for name in ("a", "b"):
        estimate = logarithmic.estimates[name]
        low, high = logarithmic.parameters[name].interval
        assert low * high == pytest.approx(estimate**2, rel=1e-9)
        assert logarithmic.parameters[name].standard_error == pytest.approx(
            plain.parameters[name].standard_error, rel=1e-5
        )
        reach = student.ppf(0.975, 9) * plain.parameters[name].standard_error / estimate
        assert high == pytest.approx(estimate * math.exp(reach), rel=1e-4)


def test_interval_on_the_logit_scale_stays_between_the_bounds():
    parameters = (of.Parameter("a", 0.5, 0.0, 1.2, scale="logit"), of.Parameter("b", 1.0))
    result = of.fit(line(parameters, weight={"y": 1e-3}))
    low, high = result.parameters["a"].interval
    assert 0.0 < low < result.estimates["a"] < high < 1.2


def test_active_bound_leaves_the_others_conditional_on_it():
    result = of.fit(line((of.Parameter("a", 0.5, upper=0.8), of.Parameter("b", 1.0))))
    assert result.estimates["a"] == 0.8
    assert result.parameters["a"] == (0.8, None, None, "at its bound")
    residual = 0.8 + result.estimates["b"] * T - Y
    variance = residual @ residual / (T.size - 1)
    assert result.parameters["b"].standard_error == pytest.approx(math.sqrt(variance / (T @ T)), rel=1e-6)
    assert [notice.code for notice in result.warnings] == ["parameter.bound"]
    assert result.dof == 10


def test_fixed_parameter_has_no_uncertainty():
    result = of.fit(line().with_fixed("a"))
    assert result.parameters["a"] == (0.5, None, None, "fixed")
    assert result.parameters["b"].verdict == "determined"


def test_only_the_sum_is_determined():
    model = of.Model.from_text("y = (a + b)*t + c")
    parameters = (of.Parameter("a", 1.0), of.Parameter("b", 0.4), of.Parameter("c", 1.0))
    result = of.fit(of.Problem(model, parameters, of.Measurements.from_columns(T, {"y": Y})))
    assert result.status == "converged"
    assert result.estimates["a"] + result.estimates["b"] == pytest.approx(linregress(T, Y).slope, rel=1e-6)
    for name in "ab":
        assert result.parameters[name].verdict == "only in the combination a + b"
        assert result.parameters[name].standard_error is None
        assert result.parameters[name].interval is None
    assert result.parameters["c"].standard_error == pytest.approx(linregress(T, Y).intercept_stderr, rel=1e-6)
    assert result.statistics.rank == 2


def test_decay_against_the_closed_form():
    """x = x0 exp(-k t), both estimated: the Jacobian is known."""
    times = np.linspace(0.2, 4.0, 12)
    rng = np.random.default_rng(8)
    values = 2.0 * np.exp(-0.7 * times) + 0.01 * rng.normal(size=12)
    model = of.Model.from_text("x' = -k*x\nx(0) = x0")
    parameters = (of.Parameter("k", 0.5), of.Parameter("x0", 1.0))
    result = of.fit(
        of.Problem(model, parameters, of.Measurements.from_columns(times, {"x": values}, sigma={"x": 0.01}))
    )
    k, x0 = result.estimates["k"], result.estimates["x0"]
    jacobian = np.stack([-x0 * times * np.exp(-k * times), np.exp(-k * times)], axis=1) / 0.01
    expected = np.sqrt(np.diag(np.linalg.inv(jacobian.T @ jacobian)))
    np.testing.assert_allclose(result.statistics.standard_error, expected, rtol=1e-5)


@pytest.mark.parametrize("absolute", [True, False])
def test_standard_errors_are_those_of_repeated_experiments(absolute):
    """Spread of the estimates over 400 simulated data sets, and the coverage of the intervals."""
    rng = np.random.default_rng(12)
    problem = line()
    estimates, errors, covered = [], [], 0
    for _ in range(400):
        data = of.Measurements.from_columns(
            T, {"y": 1.0 + 2.0 * T + 0.3 * rng.normal(size=T.size)}, sigma={"y": 0.3} if absolute else None
        )
        result = of.fit(problem.with_measurements(data))
        estimates.append(result.estimates["b"])
        errors.append(result.parameters["b"].standard_error)
        low, high = result.parameters["b"].interval
        covered += low <= 2.0 <= high
    assert np.std(estimates) == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=0.1)
    assert 0.92 <= covered / 400 <= 0.98


# --- the function itself ---


@pytest.mark.parametrize("seed", range(5))
def test_covariance(seed):
    rng = np.random.default_rng(seed)
    jacobian = rng.normal(size=(20, 4)) * 10.0 ** rng.integers(-6, 6, size=4)
    found = statistics_of(jacobian, squares=3.2)
    expected = 3.2 / 16 * np.linalg.inv(jacobian.T @ jacobian)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(found.covariance / scale, expected / scale, atol=1e-6)
    np.testing.assert_allclose(found.standard_error, np.sqrt(np.diag(expected)), rtol=1e-6)
    assert found.verdict == ("determined",) * 4
    assert (found.rank, found.variance) == (4, 3.2 / 16)
    assert found.quantile == pytest.approx(student.ppf(0.975, 16), rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_active_parameters(seed):
    jacobian = np.random.default_rng(seed).normal(size=(15, 3))
    found = statistics_of(jacobian, [False, True, False], squares=2.0)
    others = jacobian[:, [0, 2]]
    expected = 2.0 / 13 * np.linalg.inv(others.T @ others)
    np.testing.assert_allclose(found.covariance[np.ix_([0, 2], [0, 2])], expected, rtol=1e-9)
    assert not found.covariance[1].any()  # not random; it has no standard error either
    assert not found.covariance[:, 1].any()
    assert np.isnan(found.standard_error[1])
    assert found.verdict == ("determined", "at its bound", "determined")
    assert found.rank == 2


def test_all_parameters_at_bounds():
    found = statistics_of(np.ones((5, 2)), [True, True])
    assert found.verdict == ("at its bound",) * 2
    assert found.rank == 0
    assert np.isnan(found.standard_error).all()


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
def test_rank_deficiency_does_not_depend_on_units(scale):
    rng = np.random.default_rng(4)
    base = rng.normal(size=(12, 2))
    jacobian = np.stack([base[:, 0], scale * base[:, 0], base[:, 1]], axis=1)
    found = statistics_of(jacobian)
    assert found.verdict == ("not determined by these data", "not determined by these data", "determined")
    assert found.rank == 2
    assert np.isnan(found.standard_error[:2]).all()
    assert found.standard_error[2] == pytest.approx(math.sqrt(1.0 / 10 * np.linalg.inv(base.T @ base)[1, 1]), rel=1e-6)


def test_parameter_without_influence():
    jacobian = np.array([[1.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    found = statistics_of(jacobian)
    assert found.verdict == ("determined", "not determined by these data")
    assert found.rank == 1


def test_no_influence_at_all():
    found = statistics_of(np.zeros((4, 2)))
    assert found.verdict == ("not determined by these data",) * 2
    assert found.rank == 0


@pytest.mark.parametrize("m", [1, 2])
def test_fewer_data_than_parameters(m):
    found = statistics_of(np.random.default_rng(m).normal(size=(m, 3)))
    assert found.rank == m
    assert "determined" not in found.verdict
    assert math.isnan(found.variance)


def test_as_many_data_as_parameters():
    """Without a known sigma nothing is left to estimate it from; with one there is no difficulty."""
    jacobian = np.array([[1.0, 0.0], [1.0, 1.0]])
    estimated, known = statistics_of(jacobian, squares=0.0), statistics_of(jacobian, squares=0.0, absolute=True)
    assert np.isnan(estimated.standard_error).all()
    assert math.isnan(estimated.quantile)
    np.testing.assert_allclose(known.standard_error, [1.0, math.sqrt(2.0)])
