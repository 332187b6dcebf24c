"""Problems with events on conditions and switching equations, from their text to numbers and fits."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of
from odefit.integrate import CHOICES
from odefit.report.check import check

NOTHING = of.Measurements.from_columns([1.0], {"x": [1.0]})
by_integrator = pytest.mark.parametrize("integrator", CHOICES)


def problem(text: str, values: dict[str, float], data=NOTHING, *, integrator: str = "auto", **settings) -> of.Problem:
    parameters = [of.Parameter(name, value) for name, value in values.items()]
    made = of.Problem(of.Model.from_text(text), parameters, data)
    return made.with_settings(integrator=integrator, **{"rtol": 1e-8, **settings})


def simulated(made: of.Problem, times, name: str = "x") -> np.ndarray:
    return of.simulate(made, times=times)[name].to_numpy()


BALL = "x' = v\nv' = -g\nx(0) = 1\nv(0) = 0\nwhen x < 0: v = -e*v"


def ball_height(times: np.ndarray, g: float, e: float) -> np.ndarray:
    """Return the height of a ball that falls from 1, bounce by bounce."""
    begin, speed = np.sqrt(2 / g), np.sqrt(2 * g)
    height = 1 - g * times**2 / 2
    while begin < times[-1]:
        speed *= e
        here = times > begin
        height[here] = speed * (times[here] - begin) - g * (times[here] - begin) ** 2 / 2
        begin += 2 * speed / g
    return height


@by_integrator
def test_a_ball_through_twenty_bounces(integrator):
    e, g = 0.9, 9.81
    last = np.sqrt(2 / g) * (1 + 2 * sum(e**k for k in range(1, 20))) + 0.05
    times = np.linspace(0.05, last, 101)
    made = problem(BALL, {"g": g, "e": e}, integrator=integrator)
    tolerance = 1e-4 if integrator == "bdf3" else 3e-6
    np.testing.assert_allclose(simulated(made, times), ball_height(times, g, e), rtol=0, atol=tolerance)


ROOM = "T' = -k*(T - 5) + heat*P\nheat = 0\nT(0) = 22\nwhen T < low: heat = 1\nwhen T > high: heat = 0"
ROOM_VALUES = {"k": 0.3, "P": 12.0, "low": 19.0, "high": 22.0}


@pytest.mark.parametrize("integrator", ["dopri5", "dop853", "ddm"])
def test_a_thermostat_keeps_its_period_over_a_thousand_switches(integrator):
    k, power, low, high = ROOM_VALUES.values()
    limit = 5 + power / k
    period = np.log((high - 5) / (low - 5)) / k + np.log((limit - low) / (limit - high)) / k
    data = of.Measurements.from_columns([1.0], {"T": [20.0]})
    made = problem(ROOM, ROOM_VALUES, data, integrator=integrator)
    cold = np.log((high - 5) / (low - 5)) / k / 2  # half of the time without heating
    times = cold + period * np.array([0.0, 1.0, 10.0, 100.0, 500.0])
    expected = 5 + (high - 5) * np.exp(-k * cold)
    np.testing.assert_allclose(simulated(made, times, "T"), expected, rtol=5e-5 if integrator == "ddm" else 2e-6)


def test_a_state_that_reaches_zero_stays_there():
    made = problem("x' = if(x > 0, -k, 0)\nx(0) = 1", {"k": 0.5})
    times = np.array([1.0, 1.9, 2.1, 5.0, 50.0])
    np.testing.assert_allclose(simulated(made, times), np.maximum(1 - 0.5 * times, 0.0), atol=1e-9)


def test_what_does_not_exist_behind_a_border_is_not_needed():
    made = problem("x' = -k*sqrt(max(x, 0))\nx(0) = 1", {"k": 1.0})
    times = np.array([1.0, 1.9, 2.1, 5.0])
    np.testing.assert_allclose(simulated(made, times), np.maximum(1 - times / 2, 0.0) ** 2, atol=1e-6)


TWO_RATES = "x' = if(x > a, -k1, -k2)*x\nx(0) = 2"


@pytest.mark.parametrize("start", [0.45, 1.9])
def test_a_fit_from_other_sequences_of_crossings(start):
    """From 0.45 x is below a at no time of the data; from 1.9 at all of them."""
    a, k1, k2 = 0.7, 0.4, 1.5
    times = np.linspace(0.2, 4.0, 20)
    tau = np.log(2 / a) / k1
    x = np.where(times < tau, 2 * np.exp(-k1 * times), a * np.exp(-k2 * (times - tau)))
    data = of.Measurements.from_columns(times, {"x": x})
    parameters = [of.Parameter("a", start, lower=0.1, upper=2), of.Parameter("k1", 0.35), of.Parameter("k2", 0.9)]
    result = of.fit(of.Problem(of.Model.from_text(TWO_RATES), parameters, data), starts=8, seed=1)
    assert result.objective < 1e-9
    np.testing.assert_allclose([result.parameters[n].estimate for n in ("a", "k1", "k2")], [a, k1, k2], rtol=1e-4)


def test_an_event_that_never_happens_changes_nothing():
    plain = problem("x' = -k*x\nx(0) = 1", {"k": 0.5})
    made = problem("x' = -k*x\nx(0) = 1\nwhen x > 3: x = 0", {"k": 0.5})
    times = np.linspace(0.5, 5, 10)
    np.testing.assert_allclose(simulated(made, times), simulated(plain, times), rtol=1e-7)


@pytest.mark.parametrize(("words", "expected"), [("", 1.0), (" initially false", 3.0)])
def test_a_condition_that_is_true_at_the_start(words, expected):
    made = problem(f"x' = 0*k\nx(0) = 1\nwhen x > 0.5{words}: x = 3", {"k": 1.0})
    np.testing.assert_array_equal(simulated(made, [0.5, 1.0]), expected)


@pytest.mark.parametrize("kind", ["linear", "pchip"])
def test_a_condition_may_look_up_a_table(kind):
    """U(x) = 3 - 2 x, which both kinds are exactly, is 2 where x = exp(-t) is 1/2."""
    model = of.Model.from_text("x' = -x\nx(0) = 1\nz' = 1\nz(0) = 0\nwhen U(x) > 2: z = 0", tables=("U",))
    made = of.Problem(model, (), NOTHING, tables={"U": of.Table(x=[0, 0.2, 1], y=[3, 2.6, 1], kind=kind)})
    times = np.array([0.6, 1.0, 2.0])
    expected = np.where(times > np.log(2), times - np.log(2), times)
    np.testing.assert_allclose(of.simulate(made, times=times).z, expected, atol=1e-6)


def test_events_set_off_each_other_and_happen_in_the_order_of_the_text():
    text = "x' = k\ny' = 0\nz' = 0\nx(0) = 0\ny(0) = 0\nz(0) = 0\n"
    made = problem(
        text + "when y > 0: z = 10*z + 3\nwhen x > 1: z = 10*z + 1, y = 1\nwhen x > 1: z = 10*z + 2", {"k": 1}
    )
    np.testing.assert_allclose(simulated(made, [0.9, 1.1], "z"), [0.0, 123.0])


def test_what_an_event_sets_exactly_to_its_border_is_decided_by_the_condition():
    """x > 1 is false behind the event and true at once: this has no end."""
    made = problem("x' = k\nx(0) = 0\nwhen x > 1: x = 1", {"k": 1.0})
    with pytest.warns(of.SimulationWarning, match="changes to and fro without end at t = 1"):
        found = simulated(made, [0.5, 2.0])
    assert found[0] == pytest.approx(0.5)
    assert np.isnan(found[1])


ENDINGS = {
    "slides": ("x' = if(x > 0, -1, 1)\nx(0) = k", "the condition '0<x' changes to and fro without end at t = 1"),
    "comes to rest": (
        "x' = v\nv' = -10\nx(0) = k\nv(0) = 0\nwhen x < 0: v = -0.5*v",
        "events follow each other without end at t = 1.34",
    ),
    "a cascade": (
        "x' = k\nx(0) = 0\nwhen x > 1: x = 0\nwhen x < 1: x = 2", "events set off each other without end at t = 1",
    ),
    "is stopped": (
        'x\' = -k*x\nx(0) = 2\nwhen x < 1: stop "cut-off"', "stop \"cut-off\"' ends the experiment at t = 0.693",
    ),
    "is no number": ("x' = if(log(x - 2) > 0, 1, k)\nx(0) = 1", "compares something that is not a number at t = 0"),
    "too often": (
        "x' = 1e6*v\nv' = -1e6*x\nx(0) = k\nv(0) = 0\nn' = 0\nn(0) = 0\nwhen x > 0: n += 1",
        "have changed 100 000 times",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDINGS)
def test_what_cannot_go_on_says_why(name):
    text, words = ENDINGS[name]
    made = problem(text, {"k": 1.0}, max_steps=10_000_000)
    with pytest.warns(of.SimulationWarning) as caught:
        found = simulated(made, [0.5, 3.0])
    assert words in str(caught[0].message)
    assert np.isnan(found[-1])


def test_rows_behind_a_stop_fail_in_words():
    data = of.Measurements.from_columns([0.5, 1.0], {"x": [1.2, 0.7]})
    made = problem('x\' = -k*x\nx(0) = 2\nwhen x < 1: stop "cut-off"', {"k": 1.0}, data)
    found = of.Evaluator(made).evaluate()
    assert found.status == "failed"
    assert "ends the experiment at t = 0.693147" in found.message


def test_conditions_need_no_warning_but_equalities_do():
    assert "not smooth" not in check(problem(TWO_RATES, {"a": 0.5, "k1": 1.0, "k2": 2.0})).text
    assert "(x==1)" in check(problem("x' = if(x == 1, 0, -k)\nx(0) = 2", {"k": 1.0})).text
    with pytest.raises(of.ProblemError, match="compares with == or !="):
        simulated(problem("x' = -k\nx(0) = 2\nwhen x == 1: x = 3", {"k": 1.0}), [1.0])


def test_thresholds_and_restitution_are_estimated():
    rng = np.random.default_rng(5)
    times = np.linspace(0.05, 3.0, 60)
    height = ball_height(times, 9.81, 0.8) + rng.normal(0, 1e-3, times.size)
    data = of.Measurements.from_columns(times, {"x": height})
    result = of.fit(problem(BALL, {"g": 9.5, "e": 0.78}, data))
    assert result.converged
    for name, true in {"g": 9.81, "e": 0.8}.items():
        assert abs(result.parameters[name].estimate - true) < 4 * result.parameters[name].standard_error
