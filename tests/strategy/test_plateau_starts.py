"""Fits from starts up to fourteen decades away: none is called converged away from the minimum, and most come back."""

from __future__ import annotations

import numpy as np
import pytest
from plateau_starts import MODELS, case
from scipy.optimize import least_squares

import odefit as of


def goes_on(result: of.FitResult) -> bool:
    """Tell whether SciPy finds a lower objective from where the fit ended: then that was no minimum."""
    evaluator = of.Evaluator(result.problem)
    start = np.array([result.estimates[name] for name in evaluator.names])
    found = least_squares(
        evaluator.residuals, start, evaluator.jacobian, bounds=(evaluator.lower, evaluator.upper), x_scale="jac",
        max_nfev=50,
    )  # fmt: skip
    return bool(found.cost < 0.99 * result.objective)


def ends(name: str, seeds, method: str = "single") -> list[tuple[of.FitResult, bool]]:
    """Return fits, and whether they are at the minimum that is found from the truth."""
    found = []
    for seed in seeds:
        one = case(name, seed)
        best = of.fit(one.near).objective
        result = of.fit(one.far, method=method)
        found.append((result, result.objective <= 1.001 * best + 1e-12))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_none_converges_on_a_plateau_and_most_come_back(name):
    found = ends(name, range(100, 112))
    assert all(at_best for result, at_best in found if result.converged)
    assert np.mean([at_best for _, at_best in found]) >= 0.75


@pytest.mark.slow
@pytest.mark.parametrize("method", ["single", "incremental"])
@pytest.mark.parametrize("name", MODELS)
def test_a_larger_family(name, method):
    found = ends(name, range(200, 240), method)
    for result, at_best in found:  # there are other minima, a peak at the first datum say
        assert at_best or not result.converged or not goes_on(result)
    assert np.mean([at_best for _, at_best in found]) >= 0.85


def decay(start: float) -> of.Problem:
    t = np.linspace(0.5, 6.0, 12)
    data = 2.0 * np.exp(-0.7 * t) + 0.01 * np.cos(17 * t)
    return of.Problem(
        of.Model.from_text("y' = -k*y\ny(0) = a"),
        [of.Parameter("a", 1.0), of.Parameter("k", start, scale="log")],
        of.Measurements.from_columns(t, {"y": data}),
    )


@pytest.mark.parametrize("method", ["single", "incremental", "incremental-dense"])
@pytest.mark.parametrize("start", [1e-14, 1e-12, 1e-10, 1e12])
def test_a_rate_from_a_plateau(start, method):
    result = of.fit(decay(start), method=method)
    assert result.converged
    assert result.estimates["k"] == pytest.approx(0.7, rel=0.05)
    assert result.parameters["k"].verdict == "determined"


def test_a_rate_that_vanishes_is_not_called_converged():
    t = np.linspace(0.5, 6.0, 12)
    problem = of.Problem(
        of.Model.from_text("y' = -k*y\ny(0) = a"),
        [of.Parameter("a", 1.0), of.Parameter("k", 1e-12, scale="log")],
        of.Measurements.from_columns(t, {"y": 2.0 + 0.001 * t}),
    )
    result = of.fit(problem)
    assert result.status == "flat-valley"
    assert "'k' keeps moving: from here the data do not fix it" in result.message
    assert result.parameters["k"].verdict == "not determined here"
    assert "not determined by these data" not in result.summary()
