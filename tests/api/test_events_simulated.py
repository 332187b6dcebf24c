"""Problems with events and doses, from their text to numbers: against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of

NOTHING = of.Measurements.from_columns([10.0], {"x": [1.0]})
TIMES = np.array([0.5, 1.5, 2.5, 4.0])


def problem(text: str, *doses: of.Dose, start: float = 0.0, overrides=None, data=NOTHING, **options) -> of.Problem:
    experiment = of.Experiment("main", (of.Period(start, overrides or {}),), events=doses)
    names = options.pop("parameters", {"k": 0.7})
    parameters = [of.Parameter(name, value) for name, value in names.items()]
    return of.Problem(of.Model.from_text(text), parameters, data, (experiment,), **options)


def simulated(made: of.Problem, name: str = "x", times=TIMES) -> np.ndarray:
    return of.simulate(made.with_settings(rtol=1e-10), times=times)[name].to_numpy()


DECAY = "x' = -k*x\nx(0) = 0\n"


def test_repeated_doses_are_superposed():
    made = problem(DECAY, of.Dose(1.0, "x", "2*k", every=1.0, count=3), lag={"x": 0.25}, fraction={"x": 0.5})
    given = np.array([1.25, 2.25, 3.25])
    expected = [np.sum(0.7 * np.exp(-0.7 * (t - given[given < t]))) for t in TIMES]
    np.testing.assert_allclose(simulated(made), expected, rtol=1e-8, atol=1e-12)


def test_an_infusion_has_a_constant_rate():
    made = problem(DECAY, of.Dose(1.0, "x", 6.0, duration="3*k"))
    reached = np.clip(TIMES - 1.0, 0.0, 2.1)
    expected = 6.0 / 2.1 / 0.7 * (1 - np.exp(-0.7 * reached)) * np.exp(-0.7 * np.maximum(TIMES - 3.1, 0.0))
    np.testing.assert_allclose(simulated(made), expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("overrides", [{}, {"k": 1.3}])
def test_a_parameter_that_an_event_changes(overrides):
    """The initial value and the time of the event mean its value at the start, through definitions too."""
    made = problem("x' = -k*x\nx(0) = d\nd = 2*k\nat t=d: k = k + x", overrides=overrides)
    k = overrides.get("k", 0.7)
    tau = 2 * k
    at_event = 2 * k * np.exp(-k * tau)
    after = at_event * np.exp(-(k + at_event) * (TIMES - tau))
    expected = np.where(tau >= TIMES, 2 * k * np.exp(-k * TIMES), after)
    np.testing.assert_allclose(simulated(made), expected, rtol=1e-8)
    changed = simulated(made, "d")
    np.testing.assert_allclose(changed, 2 * np.where(tau >= TIMES, k, k + at_event), rtol=1e-8)


def test_a_definition_that_an_event_changes():
    made = problem("x' = r\nx(0) = 0\nr = k*t\nat t=2: r = 10 + r")
    expected = np.where(TIMES <= 2.0, 0.35 * TIMES**2, 1.4 + 11.4 * (TIMES - 2.0))
    np.testing.assert_allclose(simulated(made), expected, rtol=1e-8)
    np.testing.assert_allclose(simulated(made, "r"), np.where(TIMES <= 2.0, 0.7 * TIMES, 11.4), rtol=1e-12)


def test_assignments_of_one_event_act_at_once_and_events_at_one_time_in_their_order():
    made = problem("x' = 0*k\nx(0) = 1\ny' = 0\ny(0) = 2\nat t=1: x = y, y = x\nat t=1: x += 10*y", of.Dose(1, "y", 5))
    frame = of.simulate(made, times=TIMES)
    np.testing.assert_allclose(frame["x"], np.where(TIMES < 1, 1.0, 12.0))
    np.testing.assert_allclose(frame["y"], np.where(TIMES < 1, 2.0, 6.0))


def test_held_states_are_not_shown():
    made = problem(DECAY + "r = 2*t\nat t=1: k = 2, r = 3", of.Dose(0.0, "x", 1.0, duration=1.0))
    assert list(of.simulate(made, times=TIMES).columns) == ["experiment", "time", "x", "r"]


def test_sides_of_a_dose():
    columns = {"experiment": ["main"] * 2, "time": [1.0, 1.0], "observable": ["x"] * 2, "value": [0.0, 0.0]}
    made = problem(DECAY, of.Dose(1.0, "x", 3.0), data=of.Measurements(**columns, side=[-1, 1]))
    np.testing.assert_allclose(np.abs(made.evaluate().residuals), [0.0, 3.0])


def test_the_state_behind_a_dose_where_nothing_else_was_measured():
    columns = {"experiment": ["main"] * 2, "time": [0.0, 0.0], "observable": ["x"] * 2, "value": [0.0, 0.0]}
    made = problem(DECAY, of.Dose(0.0, "x", 3.0), data=of.Measurements(**columns, side=[-1, 1]))
    np.testing.assert_allclose(np.abs(made.evaluate().residuals), [0.0, 3.0])


def test_a_dose_at_the_start_comes_after_the_initial_value():
    made = problem(DECAY, of.Dose(2.0, "x", 3.0), start=2.0)
    np.testing.assert_allclose(simulated(made, times=np.array([2.0, 3.0])), [0.0, 3.0 * np.exp(-0.7)], rtol=1e-8)


def test_an_explicit_model_whose_parameter_changes():
    made = problem("x = k*t\nat t=2: k = 2*k")
    np.testing.assert_allclose(simulated(made), np.where(TIMES <= 2.0, 0.7, 1.4) * TIMES)
