"""Likelihood, criteria, R2, chi2, exact data: against published numbers and definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import odefit as of
from odefit.criteria import SumOfSquares
from odefit.gallery import load
from odefit.statistics.quality import information_criteria

T = np.linspace(0.2, 4.0, 20)


def line(values, **data):
    model = of.Model.from_text("y = a + b*t")
    parameters = (of.Parameter("a", 0.5), of.Parameter("b", 1.0))
    return of.fit(of.Problem(model, parameters, of.Measurements.from_columns(T, {"y": values}, **data)))


def test_conventions_are_those_of_statsmodels():
    """Longley's data: residual sum of squares certified by NIST; what statsmodels prints for OLS."""
    differences = np.full(16, np.sqrt(836424.055505915 / 16))
    loglik = SumOfSquares().log_likelihood(differences, np.ones(16), absolute=False)
    found = information_criteria(loglik, 16, 7)
    assert round(loglik, 2) == -109.62
    assert round(found.aic, 1) == 233.2
    assert round(found.bic, 1) == 238.6
    assert found.aicc == pytest.approx(found.aic + 2 * 7 * 8 / (16 - 7 - 1))


def test_criteria_that_do_not_exist():
    assert information_criteria(None, 10, 2) == (None, None, None)
    assert information_criteria(-3.0, 3, 2).aicc is None


@pytest.mark.parametrize("weighted", [False, True])
def test_straight_line(weighted):
    values = 1 + 2 * T + 0.3 * np.random.default_rng(1).normal(size=T.size)
    weight = np.linspace(0.5, 2.0, T.size) if weighted else np.ones(T.size)
    result = line(values, **({"weight": {"y": weight}} if weighted else {}))
    residual = values - result.estimates["a"] - result.estimates["b"] * T
    squares = float(weight @ residual**2)
    mean = float(weight @ values / weight.sum())
    assert result.r2 == pytest.approx(1 - squares / float(weight @ (values - mean) ** 2), rel=1e-6)
    loglik = float(stats.norm.logpdf(residual, scale=np.sqrt(squares / T.size / weight)).sum())
    assert result.loglik == pytest.approx(loglik, rel=1e-9)
    assert result.criteria.aic == pytest.approx(4 - 2 * loglik)
    assert result.criteria.bic == pytest.approx(2 * math.log(20) - 2 * loglik)
    correlation = result.to_dict()["correlation"]
    assert correlation["a"]["a"] == 1.0
    roots = np.sqrt(weight)
    inverse = np.linalg.inv((lambda x: x.T @ x)(np.stack([roots, roots * T], axis=1)))
    assert correlation["a"]["b"] == pytest.approx(inverse[0, 1] / math.sqrt(inverse[0, 0] * inverse[1, 1]), rel=1e-6)


def test_r2_over_observables_of_different_size():
    model = of.Model.from_text("y = a + b*t\nz = 100 + y")
    values = 1 + 2 * T + 0.3 * np.random.default_rng(1).normal(size=T.size)
    data = of.Measurements.from_columns(T, {"y": values, "z": values + 100})
    result = of.fit(of.Problem(model, (of.Parameter("a", 0.5), of.Parameter("b", 1.0)), data))
    assert result.r2 == pytest.approx(line(values).r2, rel=1e-6)  # 100 explains nothing


def test_hopeless_chi2_is_said():
    values = 1 + 2 * T + np.sin(3 * T)
    result = line(values, sigma={"y": 0.05})
    notice = next(n for n in result.warnings if n.code == "fit.chi2")
    assert notice.text == (
        "The model does not describe the data to within their standard deviations "
        f"(chi2 {result.chi2:.4g} for 18 degrees of freedom)."
    )
    good = line(1 + 2 * T + 0.05 * np.random.default_rng(2).normal(size=T.size), sigma={"y": 0.05})
    assert good.warnings == ()


@pytest.mark.parametrize("rtol", [1e-5, 1e-8])
def test_exact_data_give_the_integration_error(rtol):
    """Residuals that only show the integration are no estimate of noise; the error of the estimate is covered."""
    exact = 2.0 * np.exp(-0.7 * T)
    problem = of.Problem(
        of.Model.from_text("x' = -k*x\nx(0) = A"),
        [of.Parameter("k", 0.5, scale="log"), of.Parameter("A", 1.0, scale="log")],
        of.Measurements.from_columns(T, {"x": exact}),
    ).with_settings(rtol=rtol, atol=1e-2 * rtol)
    result = of.fit(problem)
    assert [n.code for n in result.warnings] == ["residuals.exact"]
    for name, truth in (("k", 0.7), ("A", 2.0)):
        low, high = result.parameters[name].interval
        assert low <= truth <= high
        assert result.parameters[name].verdict == "determined"
    resolution = np.linalg.norm(rtol * exact + 1e-2 * rtol)
    assert result.statistics.variance == pytest.approx(resolution**2, rel=1e-4)
    assert result.standard_errors("robust") == result.standard_errors()


def test_standard_deviations_smaller_than_the_integration_error():
    exact = 2.0 * np.exp(-0.7 * T)
    problem = of.Problem(
        of.Model.from_text("x' = -k*x\nx(0) = 2"),
        [of.Parameter("k", 0.5)],
        of.Measurements.from_columns(T, {"x": exact}, sigma={"x": 1e-12}),
    )
    result = of.fit(problem)
    notice = next(n for n in result.warnings if n.code == "residuals.exact")
    assert notice.text.startswith("The given standard deviations are smaller than the error of the integration")
    low, high = result.parameters["k"].interval
    assert low <= 0.7 <= high


def test_large_finite_weights_are_no_data_for_the_noise():
    """A value of weight 1e10 is met: it takes a direction away, and is not counted among the random data."""
    values = 1 + 2 * T + 0.3 * np.random.default_rng(1).normal(size=T.size)
    weight = np.ones(T.size)
    weight[7] = 1e10
    heavy = line(values, weight={"y": weight})
    weight[7] = np.inf
    exact = line(values, weight={"y": weight})
    assert heavy.dof == exact.dof == 18
    for name in "ab":
        assert heavy.parameters[name].standard_error == pytest.approx(exact.parameters[name].standard_error, rel=1e-4)


def test_summary_of_several_experiments():
    text = of.fit(load("arrhenius")).summary()
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    start = next(i for i, line in enumerate(lines) if line.startswith("misfit "))
    assert [line.split()[0] for line in lines[start + 2 : start + 5]] == ["b330", "b345", "b360"]
    assert sum(int(line.split()[1]) for line in lines[start + 2 : start + 5]) == 61
    assert "on its scale" in text
    assert "ln k1ref" in text


def test_summary_of_many_experiments_shows_the_worst():
    rng = np.random.default_rng(4)
    names = [f"run{i}" for i in range(20)]
    data = of.Measurements(
        experiment=np.repeat(names, 4),
        time=np.tile([1.0, 2.0, 3.0, 4.0], 20),
        observable=np.full(80, "y"),
        value=np.tile([1.0, 2.0, 3.0, 4.0], 20) + np.repeat(np.linspace(0.1, 1.0, 20), 4) * rng.normal(size=80),
    )
    problem = of.Problem(
        of.Model.from_text("y = a*t"), [of.Parameter("a", 0.5)], data, [of.Experiment(name) for name in names]
    )
    text = of.fit(problem).summary()
    assert "and 8 more with smaller residuals" in text
    assert "run0 " not in text
