"""Residuals of zero, of one value, of 1e-170 and 1e154: statistics exist, or are left out, and nothing raises."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

import odefit as of
from odefit.criteria import SumOfSquares
from odefit.errors import OdefitError
from odefit.formats import write_result
from odefit.formats.result_file import result_json
from odefit.native.norm import norm, unit_of
from odefit.statistics import Residuals, lag_test
from odefit.statistics.autocorrelation import first_order_errors
from odefit.statistics.quality import misfits, r_squared
from odefit.statistics.residual_tests import residual_tests
from odefit.strategy.uncertainty import KINDS, Uncertainty

SIZES = (0.0, 1e-320, 1e-170, 1e-20, 1.0, 1e20, 1e154, 1e300)
PATTERNS = {
    "constant": np.ones_like,
    "alternating": lambda t: (-1.0) ** np.arange(t.size),
    "random": lambda t: np.random.default_rng(t.size).normal(size=t.size),
    "one point": lambda t: np.arange(t.size) == 1,
    "mixture": lambda t: 10.0 ** np.linspace(-200.0, 0.0, t.size),
}


def residuals_of(value, model=None):
    n = value.size
    model = np.linspace(0.0, 1.0, n) if model is None else model
    zeros = np.zeros(n, dtype=np.int64)
    return Residuals(
        value, model, model - value, np.ones(n), np.arange(n), zeros, zeros, np.arange(n, dtype=float), np.array([0, n])
    )


@pytest.mark.parametrize("n", [1, 2, 5, 30])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_residual_is_too_odd(pattern, size, n):
    value = size * PATTERNS[pattern](np.zeros(n)).astype(float)
    q = np.full((n, 1), 1.0 / math.sqrt(n))
    for model in (None, np.full(n, 3.0), 1e300 * np.linspace(-0.5, 0.5, n)):
        residuals = residuals_of(value, model)
        lag = lag_test(residuals, q)
        found = residual_tests(residuals, lag)
        for p in found._asdict().values():
            assert p is None or not math.isnan(p)
        for p in (found.autocorrelation_p, found.runs_p, found.normality_p, found.equal_variance_p):
            assert p is None or 0.0 <= p <= 1.0
        r2 = r_squared(residuals)
        assert r2 is None or r2 <= 1.0
        assert misfits(residuals.in_units_of(unit_of(value)), by_observable=True)
        if lag is not None:
            scaled = residuals.in_units_of(unit_of(value))
            assert 0.0 <= first_order_errors(scaled, q, lag.lag1, absolute=False).rho < 1.0


@pytest.mark.parametrize("power", [-500, -300, -40, 40, 300, 500])
def test_tests_do_not_depend_on_the_unit(power):
    """Powers of two change no bit."""
    rng = np.random.default_rng(5)
    value, model = rng.normal(size=40), rng.normal(size=40)
    q = np.full((40, 1), 1.0 / math.sqrt(40.0))
    plain, other = residuals_of(value, model), residuals_of(2.0**power * value, 2.0**power * model)
    assert residual_tests(plain, lag_test(plain, q)) == residual_tests(other, lag_test(other, q))
    assert r_squared(plain) == r_squared(other)
    assert norm(other.value) == 2.0**power * norm(plain.value)


def test_log_likelihood_of_tiny_and_huge_residuals():
    rng = np.random.default_rng(6)
    z, roots = rng.normal(size=12), np.ones(12)
    plain = SumOfSquares().log_likelihood(z, roots, absolute=False)
    for size in (1e-170, 1e154):
        found = SumOfSquares().log_likelihood(size * z, roots, absolute=False)
        assert found == pytest.approx(plain - 12 * math.log(size), rel=1e-12)


def fitted(values, **settings):
    t = np.arange(float(len(values)))
    start = values[0] if values[0] else 1.0
    problem = of.Problem(
        of.Model.from_text("y = a + b*t"),
        [of.Parameter("a", start), of.Parameter("b", 0.1 * start)],
        of.Measurements.from_columns(t, {"y": values}),
        settings=of.Settings(**settings),
    )
    return of.fit(problem)


@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e-100, 1e100, 1e150])
def test_every_fit_has_a_report(size, tmp_path):
    rng = np.random.default_rng(7)
    result = fitted(size * (1.0 + 0.3 * np.arange(25.0) + 0.1 * rng.normal(size=25)))
    assert result.summary()
    content = json.loads(write_result(result, tmp_path).read_text())
    assert content["parameters"]["a"]["estimate"] == result.estimates["a"]


@pytest.mark.parametrize("values", [[0.0] * 25, [2.0] * 25, [3.0], [1.0, 2.0], [5.0] + [0.0] * 24])
def test_every_odd_set_of_data_has_a_report(values, tmp_path):
    result = fitted(np.array(values))
    assert result.summary()
    assert json.loads(write_result(result, tmp_path).read_text())["parameters"].keys() == {"a", "b"}


@pytest.mark.parametrize("power", [-500, -200, 200, 500])
def test_standard_errors_scale_with_the_residuals(power):
    """With the same linearisation, residuals whose squares are no numbers still tell the noise."""
    result = fitted(1.0 + 0.3 * np.arange(25.0) + 0.1 * np.random.default_rng(8).normal(size=25))
    point = result.solution.evaluation
    larger = point._replace(differences=2.0**power * point.differences)
    plain, other = (
        Uncertainty(result.plan, dataclasses.replace(result.solution, evaluation=one), floored=False)
        for one in (point, larger)
    )
    for kind in KINDS:
        expected = 2.0**power * plain.statistics(kind).standard_error
        np.testing.assert_allclose(other.statistics(kind).standard_error, expected, rtol=1e-12)
    assert other.independent.deviation == 2.0**power * plain.independent.deviation


def test_a_statistic_that_fails_does_not_take_the_fit_with_it(tmp_path, monkeypatch):
    result = fitted(1.0 + 0.3 * np.arange(8.0) + 0.01 * np.cos(np.arange(8.0)))

    def broken(residuals):
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr("odefit.strategy.result.r_squared", broken)
    with pytest.raises(OdefitError, match=r"could not be computed \(ZeroDivisionError: float division by zero\)"):
        write_result(result, tmp_path)
    content = json.loads((tmp_path / "result.json").read_text())
    assert content["parameters"]["a"]["estimate"] == result.estimates["a"]
    assert content["parameters"]["a"]["standard_error"] is not None
    assert set(content["failed"]) == {"r2", "warnings"}
    assert content["r2"] is None


def test_estimates_are_written_before_statistics_are_computed(tmp_path, monkeypatch):
    result = fitted(1.0 + 0.3 * np.arange(8.0) + 0.01 * np.cos(np.arange(8.0)))
    seen = {}

    def look(residuals):
        seen.update(json.loads((tmp_path / "result.json").read_text()))
        return 0.5

    monkeypatch.setattr("odefit.strategy.result.r_squared", look)
    content = json.loads(write_result(result, tmp_path).read_text())
    assert seen["parameters"]["a"] == {
        "estimate": result.estimates["a"], "standard_error": None, "interval": None, "verdict": None,
    }  # fmt: skip
    assert seen["failed"]["r2"] == "not computed yet"
    assert "failed" not in content
    assert content == json.loads(result_json(result))
