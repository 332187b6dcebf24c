"""Standard errors from sensitivities that step control does not look at."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from benchmarks.reliability.families.relaxation import make as make_relaxation

import odefit as of
from odefit.gallery import load
from odefit.solve import SolverResult, SolverStatus
from odefit.strategy.uncertainty import Uncertainty
from odefit.transcribe import SingleShooting

TIMES = np.linspace(0.05, 2.0, 40)


def relaxation_oscillation(e: float, observable: str) -> of.Problem:
    """Return van der Pol's equation with data of one of its states."""
    model = of.Model.from_text(f"x' = y\ny' = (a*(1 - x^2)*y - b*x)/{e!r}\nx(0) = 2\ny(0) = -0.66")
    parameters = (of.Parameter("a", 1.0), of.Parameter("b", 1.0))

    def problem(values):
        return of.Problem(model, parameters, of.Measurements.from_columns(TIMES, {observable: values}))

    exact = of.simulate(problem(np.zeros(40)).with_settings(rtol=1e-11), times=TIMES)[observable].to_numpy()
    return problem(exact * (1.0 + 0.01 * np.random.default_rng(1).standard_normal(40)))


def at_tolerance(result: of.FitResult, rtol: float) -> np.ndarray:
    """Return the standard errors with sensitivities of this tolerance."""
    tight = SingleShooting(result.problem.with_settings(rtol=rtol))
    tight.refresh(result.solution.x)
    linear = tight.evaluate(result.solution.x, 1).linear
    point = result.solution.evaluation._replace(linear=linear)
    return errors_of(result, dataclasses.replace(result.solution, evaluation=point))


def errors_of(result: of.FitResult, solution) -> np.ndarray:
    return Uncertainty(result.plan, solution, 0.0).independent.standard_error


@pytest.mark.parametrize("observable", ["x", "y"])
@pytest.mark.parametrize("e", [1e-5, 1e-6])
def test_relaxation_oscillations_get_the_true_standard_errors(e, observable):
    result = of.fit(relaxation_oscillation(e, observable))
    true, check = at_tolerance(result, 1e-13), result.derivatives
    assert np.max(np.abs(errors_of(result, result.solution) / true - 1.0)) > 0.09
    np.testing.assert_allclose(errors_of(result, check.solution), true, rtol=5e-3)
    text = next(notice.text for notice in result.warnings if notice.code == "statistics.sensitivities")
    assert text.startswith("Sensitivities computed at rtol 1e-07 are wrong: at 1e-11 the standard error of 'b' is 1.")
    assert text.endswith("Standard errors and intervals are those at 1e-11.")
    assert result.to_dict()["derivatives"] == {"rtol": check.rtol, "settled": True}


@pytest.mark.parametrize("name", ["barnes", "pyridine"])
def test_ordinary_fits_keep_their_own(name):
    result = of.fit(load(name))
    assert result.derivatives.solution is result.solution
    assert result.derivatives.settled
    assert not [notice for notice in result.warnings if notice.code.startswith("statistics.")]
    assert result.to_dict()["derivatives"] == {"rtol": result.problem.settings.rtol, "settled": True}


def test_nothing_is_checked_where_nothing_is_integrated():
    data = of.Measurements.from_columns([0.0, 1.0, 2.0], {"y": [1.0, 2.0, 3.1]})
    parameters = [of.Parameter("a", 0.0), of.Parameter("b", 1.0)]
    result = of.fit(of.Problem(of.Model.from_text("y = a + b*t"), parameters, data))
    assert result.derivatives.settled is None


def test_check_that_fails_says_so():
    problem = load("barnes").with_settings(integrator="dopri5")
    problem = problem.with_start(**of.fit(problem).estimates)
    objective = SingleShooting(problem)
    objective.refresh(objective.compiled.theta_start)
    # at a tolerance a hundred times tighter the method of order 5 needs 2.5 times as many steps
    result = of.fit(problem.with_settings(max_steps=2 * objective.n_steps))
    assert result.converged
    text = next(notice.text for notice in result.warnings if notice.code == "statistics.unconfirmed")
    assert text.startswith("Standard errors could not be confirmed at a tighter tolerance than rtol 1e-07 (the limit")


@pytest.mark.parametrize("seed", [5, 15, 37])
def test_bias_of_the_integration_is_what_a_tighter_fit_shows(seed):
    """Relaxation oscillations, whose phase an integration misses by a good part of the noise."""
    problem = make_relaxation(seed, 0).problem
    result = of.fit(problem)
    tight = of.fit(problem.with_settings(rtol=1e-10).with_start(**result.estimates))
    moved = tight.solution.x - result.solution.x
    assert result.derivatives.shift is not None
    np.testing.assert_allclose(result.derivatives.shift, moved / result.statistics.standard_error, rtol=0.1, atol=0.02)
    said = [notice.text for notice in result.warnings if notice.code == "integrator.bias"]
    assert bool(said) == bool(np.max(np.abs(result.derivatives.shift)) > 0.1)
    for text in said:
        assert text.startswith("The error of the integration moves estimates: without it 'e' would be -")
        assert text.endswith("standard errors from here. Fit again with rtol = 1e-09 in [integrator].")


@pytest.mark.parametrize("rtol", [1e-4, 1e-5])
def test_parameters_that_only_wrong_sensitivities_leave_undetermined(rtol):
    """One jump that is missed makes a column so large that the others seem to be lost beside it."""
    model = of.Model.from_text("x' = v\nv' = (mu*(1 - x^2)*v - x)/e\nx(0) = 2\nv(0) = -0.66")
    parameters = (of.Parameter("mu", 1.0, scale="log"), of.Parameter("e", 1e-6, scale="log"))
    times = np.linspace(0.1, 4.0, 40)
    blank = of.Measurements.from_columns(times, {"x": np.zeros(40), "v": np.zeros(40)})
    settings = {"integrator": "ddm", "max_steps": 10**6}
    exact = of.simulate(of.Problem(model, parameters, blank).with_settings(rtol=1e-10, **settings), times=times)
    columns = {name: exact[name].to_numpy() for name in ("x", "v")}
    sigma = {name: 0.01 * float(np.abs(values).max()) for name, values in columns.items()}
    data = of.Measurements.from_columns(times, columns, sigma=sigma)
    problem = of.Problem(model, parameters, data).with_settings(rtol=rtol, atol=rtol, **settings)
    objective = SingleShooting(problem)
    x = objective.compiled.theta_start
    objective.refresh(x)
    solution = SolverResult(SolverStatus.CONVERGED, "", x, objective.evaluate(x, 1), 0, 1, 1, np.zeros(2, bool), 2)
    result = of.FitResult(problem, solution, objective.methods)
    assert np.isnan(errors_of(result, solution)).any()
    assert np.isfinite(errors_of(result, result.derivatives.solution)).all()
    text = next(notice.text for notice in result.warnings if notice.code == "statistics.sensitivities")
    assert "nan" not in text
