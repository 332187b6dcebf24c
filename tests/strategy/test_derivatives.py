"""Standard errors from sensitivities that step control does not look at."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of
from odefit.gallery import load
from odefit.strategy.uncertainty import Uncertainty
from odefit.transcribe import SingleShooting

TIMES = np.linspace(0.1, 2.0, 20)


def relaxation_oscillation(e: float) -> of.Problem:
    """Return van der Pol's equation with data of its first state."""
    model = of.Model.from_text("x' = y\ny' = (a*(1 - x^2)*y - x)/e\nx(0) = 2\ny(0) = -0.66")
    parameters = (of.Parameter("a", 1.0, scale="log"), of.Parameter("e", e, scale="log"))

    def problem(values):
        return of.Problem(model, parameters, of.Measurements.from_columns(TIMES, {"x": values}))

    exact = of.simulate(problem(np.zeros(20)).with_settings(rtol=1e-10), times=TIMES)["x"].to_numpy()
    return problem(exact + 0.01 * np.random.default_rng(1).standard_normal(20))


def standard_errors(result: of.FitResult, solution) -> np.ndarray:
    return Uncertainty(result.plan, solution, 0.0).independent.standard_error


@pytest.mark.slow
@pytest.mark.parametrize("e", [1e-5, 1e-6])
def test_relaxation_oscillations_get_the_true_standard_errors(e):
    result = of.fit(relaxation_oscillation(e))
    own, used = (standard_errors(result, one) for one in (result.solution, result.derivatives.solution))
    tight = of.fit(relaxation_oscillation(e).with_start(**result.estimates).with_settings(rtol=1e-12, max_iterations=1))
    true = standard_errors(tight, tight.solution)
    np.testing.assert_allclose(used, true, rtol=0.1)
    if np.max(np.abs(own / true - 1.0)) > 0.1:
        text = next(notice.text for notice in result.warnings if notice.code == "statistics.sensitivities")
        assert "Sensitivities computed at rtol 1e-07 are wrong" in text
        assert result.to_dict()["derivatives"]["rtol"] < 1e-7


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
