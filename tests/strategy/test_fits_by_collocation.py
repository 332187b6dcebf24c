"""Fits by collocation: they agree with single shooting, from starts that it cannot use, and say what went wrong."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of
from odefit.gallery import load
from odefit.native.stop import StopFlag
from odefit.solve import solver_named
from odefit.strategy.collocation import fit_collocation

FITZHUGH = "V' = c*(V - V^3/3 + R)\nR' = -(V - a + b*R)/c\nV(0) = -1\nR(0) = 1"
LORENZ = "x' = s*(y - x)\ny' = x*(r - z) - y\nz' = x*y - b*z\nx(0) = 1\ny(0) = 1\nz(0) = 20"


def simulated(text: str, truth: dict[str, float], times, names, sigma: float) -> of.Problem:
    """Return a problem with data made at the truth, where it starts."""
    model = of.Model.from_text(text)
    parameters = [of.Parameter(name, start=value) for name, value in truth.items()]
    blank = of.Measurements.from_columns(times, {name: np.zeros(times.size) for name in names})
    table = of.simulate(of.Problem(model=model, parameters=parameters, measurements=blank), times=times)
    noise = np.random.default_rng(1)
    values = {name: table[name].to_numpy() + sigma * noise.standard_normal(times.size) for name in names}
    data = of.Measurements.from_columns(times, values, sigma=dict.fromkeys(names, sigma))
    return of.Problem(model=model, parameters=parameters, measurements=data)


def fitzhugh(names=("V", "R")) -> of.Problem:
    return simulated(FITZHUGH, {"a": 0.2, "b": 0.2, "c": 3.0}, np.linspace(0.0, 20.0, 41), names, 0.05)


def agree(problem: of.Problem, reference: of.Problem | None = None) -> of.FitResult:
    """See that estimates and standard errors are those of single shooting."""
    problem = problem.with_settings(tol=1e-8)
    single = of.fit(problem if reference is None else reference.with_settings(tol=1e-8))
    found = of.fit(problem, method="collocation")
    assert found.status == "converged", found.message
    assert [attempt.method for attempt in found.attempts] == ["collocation", "single"]
    assert [attempt.status for attempt in found.attempts] == ["converged", "converged"]
    assert found.objective == pytest.approx(single.objective, rel=1e-5)
    errors = single.standard_errors()
    for name, estimate in single.estimates.items():  # integrators choose other steps from other starts
        assert found.estimates[name] == pytest.approx(estimate, rel=1e-5, abs=1e-4 * errors[name])
    assert found.standard_errors() == pytest.approx(errors, rel=1e-4)
    return found


@pytest.mark.parametrize(
    "name",
    [
        "barnes",
        "barnes/b",
        "barnes/d_y1",
        "pyridine",
        "lotka_volterra_iss",
        "dow",
        "oral_doses",
        "urease",
        "transistor",
    ],
)
def test_results_are_those_of_single_shooting(name):
    agree(load(name))


@pytest.mark.slow
def test_results_are_those_of_single_shooting_in_equations_of_the_dow_problem():
    agree(load("dow/dae"))


@pytest.mark.parametrize("names", [("V", "R"), ("V",)])
def test_fitzhugh_nagumo_from_afar(names):
    problem = fitzhugh(names)
    agree(problem.with_start(a=1.0, b=1.0, c=6.0), problem)


def test_starts_that_single_shooting_cannot_use():
    problem = load("lotka_volterra_iss")
    best = of.fit(problem).estimates
    for row in np.random.default_rng(1).uniform(0.0, 10.0, (20, 4)).tolist():
        start = dict(zip(best, row, strict=True))
        found = of.fit(problem.with_start(**start), method="collocation")
        assert found.converged
        assert found.estimates == pytest.approx(best, rel=1e-4)


@pytest.mark.slow
def test_chaos_is_left_to_multiple_shooting():
    times = np.linspace(0.0, 20.0, 201)[1:]
    problem = simulated(LORENZ, {"s": 10.0, "r": 28.0, "b": 8 / 3}, times, ("x", "y", "z"), 0.1)
    found = of.fit(problem.with_start(s=8.0, r=25.0, b=2.0), method="collocation")
    assert [attempt.method for attempt in found.attempts][:2] == ["collocation", "multiple"]
    assert found.objective < 330.0  # half of 600 data
    assert found.estimates == pytest.approx({"s": 10.0, "r": 28.0, "b": 8 / 3}, rel=1e-2)


def test_the_result_belongs_to_the_problem_that_was_asked_for():
    problem = load("barnes")
    found = of.fit(problem, method="collocation")
    assert found.problem is problem
    assert found.method == "collocation"
    summary = found.summary()
    assert "collocation  converged" in summary
    assert found.to_dict()["attempts"][0]["method"] == "collocation"


def test_a_failure_of_collocation_is_told_and_polished_all_the_same():
    problem = load("barnes").with_settings(max_iterations=2)
    found = of.fit(problem, method="collocation")
    assert found.attempts[0].status == "iteration-limit"
    assert any("Collocation failed (the limit of iterations" in one.text for one in found.warnings)


def test_several_starts_share_the_program():
    found = of.fit(load("barnes"), method="collocation", starts=4, seed=1, workers=1)
    assert found.converged
    assert found.objective == pytest.approx(0.0822307, rel=1e-4)


def test_a_stop_ends_it():
    stop = StopFlag()
    stop.set()
    found = fit_collocation(load("barnes"), solver_named("trust"), stop)
    assert found.status == "interrupted"
    assert found.attempts[0].status == "interrupted"
