"""What an integration does not resolve follows from what is integrated, not from the size of the data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import least_squares

import odefit as of

T = np.linspace(0.0, 5.0, 30)
NOISE = np.random.default_rng(0).normal(size=T.size)
EPS = float(np.finfo(float).eps)
EXPLICIT = "y = a + b*exp(-k*t)"
INTEGRATED = "x' = -k*x\nx(0) = b\ny = a + x"


def offset_problem(text, offset, noise, **settings):
    data = offset + 2.0 * np.exp(-0.7 * T) + noise * NOISE
    parameters = [of.Parameter("a", offset + 1.0), of.Parameter("b", 1.0), of.Parameter("k", 1.0)]
    measurements = of.Measurements.from_columns(T, {"y": data})
    return of.Problem(of.Model.from_text(text), parameters, measurements, settings=of.Settings(**settings)), data


@pytest.mark.parametrize("text", [EXPLICIT, INTEGRATED], ids=["explicit", "integrated"])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_an_offset_is_not_integrated(text, offset):
    """The minimum and its intervals do not depend on an offset: only rounding does."""
    problem, data = offset_problem(text, offset, 1e-3)
    result = of.fit(problem)
    best = least_squares(
        lambda p: p[0] + p[1] * np.exp(-p[2] * T) - (data - offset), [1, 1, 1], xtol=1e-15, ftol=1e-15, gtol=1e-15
    )
    assert result.converged
    assert result.sum_of_squares == pytest.approx(2 * best.cost, rel=1e-5)
    assert result.estimates["k"] == pytest.approx(best.x[2], rel=1e-6)
    covariance = np.linalg.inv(best.jac.T @ best.jac) * 2 * best.cost / (T.size - 3)
    assert result.parameters["k"].standard_error == pytest.approx(math.sqrt(covariance[2, 2]), rel=1e-4)
    assert "residuals.exact" not in [n.code for n in result.warnings]


@pytest.mark.parametrize("noise", [1e-4, 1e-8, 1e-12])
def test_explicit_data_are_fitted_to_their_digits(noise):
    """Also where the noise is far below the tolerance of an integration that does not take place."""
    problem, _ = offset_problem(EXPLICIT, 0.0, noise)
    result = of.fit(problem)
    assert result.converged
    assert math.sqrt(result.sum_of_squares / 27) == pytest.approx(noise, rel=0.3)
    for name, truth in (("a", 0.0), ("b", 2.0), ("k", 0.7)):
        assert abs(result.estimates[name] - truth) < 4 * result.parameters[name].standard_error
    assert "residuals.exact" not in [n.code for n in result.warnings]


def test_exact_explicit_data_show_rounding():
    result = of.fit(offset_problem(EXPLICIT, 3.0, 0.0)[0])
    assert result.converged
    np.testing.assert_allclose(list(result.estimates.values()), [3.0, 2.0, 0.7], rtol=1e-13)
    (notice,) = result.warnings
    assert notice.code == "residuals.exact"
    assert notice.text.startswith("The residuals are no larger than rounding: standard errors are those of that error")


def test_the_resolution_is_that_of_the_states():
    """Of y = a + s x the state is known to rtol |x| + atol, whatever the offset."""
    text = "x' = -k*x\nx(0) = 2\ny = a + s*x"
    data = 1e5 + 3.0 * 2.0 * np.exp(-0.7 * T) + 0.01 * NOISE
    parameters = [of.Parameter("a", 1e5), of.Parameter("s", 3.0, fixed=True), of.Parameter("k", 0.7)]
    problem = of.Problem(of.Model.from_text(text), parameters, of.Measurements.from_columns(T, {"y": data}))
    problem = problem.with_settings(rtol=1e-6, atol=1e-8)
    result = of.fit(problem)
    states = 2.0 * np.exp(-result.estimates["k"] * T)
    integration = 3.0 * np.linalg.norm(1e-6 * states + 1e-8)
    rounding = 4 * EPS * np.linalg.norm(data)
    assert result.resolution == pytest.approx(math.hypot(integration, rounding), rel=1e-4)


def test_exact_values_are_met_beside_an_offset():
    """A value of infinite weight is missed by no more than its own integration leaves open."""
    data = 1e6 + 2.0 * np.exp(-0.7 * T) + 1e-3 * NOISE
    weight = np.ones(T.size)
    weight[7] = math.inf
    parameters = [of.Parameter("a", 1e6 + 1.0), of.Parameter("b", 1.0), of.Parameter("k", 1.0)]
    for text in (EXPLICIT, INTEGRATED):
        measurements = of.Measurements.from_columns(T, {"y": data}, weight={"y": weight})
        result = of.fit(of.Problem(of.Model.from_text(text), parameters, measurements))
        assert result.converged
        found = result.estimates["a"] - 1e6 + result.estimates["b"] * math.exp(-result.estimates["k"] * T[7])
        assert found == pytest.approx(data[7] - 1e6, abs=1e-6)


def test_minima_of_many_starts_are_not_merged_by_an_offset():
    """Two minima whose objectives differ by far less than (rtol ||data||)^2 are two."""
    t = np.linspace(0.0, 10.0, 40)
    data = 1e5 + np.sin(1.3 * t) + 1e-3 * np.random.default_rng(1).normal(size=t.size)
    problem = of.Problem(
        of.Model.from_text("y = a + sin(w*t)"),
        [of.Parameter("a", 1e5, lower=0.9e5, upper=1.1e5), of.Parameter("w", 1.0, lower=0.2, upper=6.0)],
        of.Measurements.from_columns(t, {"y": data}),
    )
    result = of.fit(problem, starts=12, seed=1, workers=1)
    assert result.estimates["w"] == pytest.approx(1.3, abs=1e-3)
    assert result.multistart is not None
    assert len(result.multistart.minima) > 1
