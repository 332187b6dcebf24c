"""Fits that creep: intervals at regular minima, from the curvature of the objective, and none elsewhere."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from benchmarks.reliability.families.compartments import make

import odefit as of
from odefit.gallery import load
from odefit.solve import SolverResult, SolverStatus
from odefit.strategy.result import NO_MINIMUM
from odefit.transcribe import SingleShooting

ABSORBED = range(1, 60, 2)
"""Data sets after absorption; absorption and distribution may be exchanged, and the minimum is often on the fold."""


def crept(result: of.FitResult) -> of.FitResult:
    """Return the same result, as if the fit had crept there."""
    return dataclasses.replace(result, solution=dataclasses.replace(result.solution, status=SolverStatus.SLOW))


def at_start(problem: of.Problem) -> of.FitResult:
    """Return what a fit would be that crept and ended at its start values."""
    objective = SingleShooting(problem)
    x = objective.compiled.theta_start
    objective.refresh(x)
    solution = SolverResult(
        SolverStatus.SLOW, "", x, objective.evaluate(x, 1), 0, 1, 1, np.zeros(x.size, dtype=bool), x.size
    )
    return of.FitResult(problem, solution, objective.methods)


def codes(result: of.FitResult) -> set[str]:
    return {notice.code for notice in result.warnings}


@pytest.mark.slow
def test_every_regular_minimum_has_intervals():
    slow = 0
    for data in ABSORBED:
        result = of.fit(make(data, 0).problem)
        if result.status is not SolverStatus.SLOW:
            continue
        slow += 1
        assert "statistics.curvature" in codes(result), data
        for name, row in result.parameters.items():
            assert row.interval is not None, (data, name)
            assert row.interval[0] < row.estimate < row.interval[1]
    assert slow >= 5


@pytest.mark.parametrize("data", [15, 43])
def test_standard_errors_are_those_of_the_profile(data):
    """Along a fold J'J says nothing; the profile of the objective rises by half a variance at one standard error."""
    result = of.fit(make(data, 0).problem)
    assert result.status is SolverStatus.SLOW
    assert result.statistics is not None
    place = result.plan.names.index("ka")
    error, variance = result.statistics.standard_error[place], result.statistics.variance
    rises = []
    for share in (0.3, -0.3):
        moved = result.estimates["ka"] * np.exp(share * error)
        fixed = of.fit(result.problem.with_start(**{**result.estimates, "ka": moved}).with_fixed("ka"))
        rises.append((fixed.objective - result.objective) / (0.5 * share**2 * variance))
    assert 0.9 < np.mean(rises) < 1.2  # the two sides differ by a cubic term


def test_what_is_said_at_a_regular_minimum():
    result = of.fit(make(15, 0).problem)
    text = next(notice.text for notice in result.warnings if notice.code == "statistics.curvature")
    assert text.startswith("The objective has a regular minimum here: its slope vanishes to ")
    assert "standard errors and intervals are those of the curvature of the objective" in text
    assert result.dof == result.n_data - 5
    assert result.uncertainty is not None
    assert result.uncertainty.kind == "independent"


def test_the_hessian_of_good_data_is_that_of_the_linearised_model():
    result = of.fit(load("barnes"))
    assert result.second_order is None
    again = crept(result)
    assert again.second_order is not None
    assert again.second_order.distance < 1e-3
    expected = list(result.standard_errors("independent").values())
    np.testing.assert_allclose(list(again.standard_errors().values()), expected, rtol=0.1)


def test_no_intervals_where_the_minimum_is_elsewhere():
    problem = load("barnes")
    best = of.fit(problem)
    off = {name: best.estimates[name] + best.standard_errors()[name] for name in ("k1", "k2", "k3")}
    result = at_start(problem.with_start(**off))
    assert result.second_order is not None
    assert result.second_order.distance > 0.5
    assert {row.verdict for row in result.parameters.values()} == {NO_MINIMUM}
    assert all(row.interval is None and row.standard_error is None for row in result.parameters.values())
    assert np.isnan(list(result.standard_errors().values())).all()
    assert result.to_dict()["parameters"]["k1"]["interval"] is None
    assert NO_MINIMUM in result.summary()
    text = next(notice.text for notice in result.warnings if notice.code == "statistics.no-minimum")
    assert text.startswith("There are no standard errors and no intervals: a minimum should be ")


def test_no_intervals_on_a_saddle():
    """The objective falls along u, on both sides of u = 0, where its slope vanishes."""
    t = np.linspace(0.0, 2.0, 12)
    data = of.Measurements.from_columns(t, {"y": 1.0 + 0.5 * t + 1e-2 * np.cos(9.0 * t)})
    model = of.Model.from_text("y = a + u^2*t")
    problem = of.Problem(model, [of.Parameter("a", 1.0), of.Parameter("u", 1e-9)], data)
    result = at_start(problem)
    assert result.second_order is not None
    assert result.second_order.hessian is None
    text = next(notice.text for notice in result.warnings if notice.code == "statistics.no-minimum")
    assert text == "There are no standard errors and no intervals: the objective does not rise in every direction."


def test_unknowns_pressed_against_a_bound_stay_there():
    t = np.linspace(0.1, 3.0, 20)
    noise = 0.01 * np.random.default_rng(4).standard_normal(20)
    data = of.Measurements.from_columns(t, {"y": np.exp(-t) - 0.05 * t + noise})
    model = of.Model.from_text("y = a*exp(-k*t) + c*t")
    parameters = [of.Parameter("a", 1.0), of.Parameter("k", 1.0), of.Parameter("c", 1e-25, lower=0.0)]
    bounded = of.fit(of.Problem(model, parameters, data))
    result = at_start(bounded.problem.with_start(**{**bounded.estimates, "c": 1e-25}))
    assert result.parameters["c"].verdict == "at its bound"
    for name in ("a", "k"):
        expected = bounded.standard_errors("independent")[name]
        assert result.parameters[name].standard_error == pytest.approx(expected, rel=0.3)


def test_a_curvature_that_is_no_number_decides_nothing(monkeypatch):
    result = crept(of.fit(load("barnes")))
    monkeypatch.setattr("odefit.strategy.curvature._differences", lambda *_: np.full((3, 3), np.inf))
    assert result.second_order is None
