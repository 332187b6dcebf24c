"""simulate and evaluate: closed forms, derivatives, and what happens beyond a pole."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import odefit as of
from odefit.errors import OdefitError, ProblemError
from odefit.gallery import path_of

DECAY = "x' = -k*x\nx(0) = a\ndouble = 2*x + t"
T = np.array([0.0, 0.5, 2.0])


def problem_of(text, parameters, measurements, **rest) -> of.Problem:
    made = tuple(p if isinstance(p, of.Parameter) else of.Parameter(*p) for p in parameters)
    return of.Problem(of.Model.from_text(text), made, measurements, **rest)


def decay(**rest) -> of.Problem:
    data = of.Measurements.from_columns(T, {"x": [1.0, 0.8, 0.3]})
    return problem_of(DECAY, [("k", 0.7), ("a", 2.0)], data, **rest)


def test_simulation_at_the_times_of_the_data():
    frame = of.simulate(decay())
    assert list(frame.columns) == ["experiment", "time", "x", "double"]
    assert frame["experiment"].tolist() == ["main"] * 3
    np.testing.assert_array_equal(frame["time"], T)
    np.testing.assert_allclose(frame["x"], 2.0 * np.exp(-0.7 * T), rtol=1e-6)
    np.testing.assert_allclose(frame["double"], 4.0 * np.exp(-0.7 * T) + T, rtol=1e-6)


@pytest.mark.parametrize("times", [[3.0, 1.0, 1.0, 0.0], (0.0, 1.0, 3.0), np.array([1.0, 0.0, 3.0])])
def test_simulation_at_other_times(times):
    frame = of.simulate(decay(), {"k": 2.0}, times)
    assert frame["time"].tolist() == [0.0, 1.0, 3.0]
    np.testing.assert_allclose(frame["x"], 2.0 * np.exp([0.0, -2.0, -6.0]), rtol=1e-5)


def test_simulation_does_not_change_the_problem():
    problem = decay()
    of.simulate(problem, {"k": 2.0})
    assert [p.start for p in problem.parameters] == [0.7, 2.0]


def test_simulation_may_leave_the_bounds():
    """Bounds are for a fit; a simulation is asked for what it is asked for."""
    frame = of.simulate(decay().with_bounds(k=(0.0, 1.0)), {"k": 3.0}, [1.0])
    assert frame["x"][0] == pytest.approx(2.0 * math.exp(-3.0), rel=1e-5)


def test_simulation_of_several_experiments():
    data = of.Measurements(["one", "two"], [1.0, 2.0], ["x", "x"], [1.0, 1.0])
    experiments = (
        of.Experiment("one", (of.Period(0.0, {"a": 5.0}),)),
        of.Experiment("two", (of.Period(1.0, {"x(0)": "3*k"}),)),
        of.Experiment("three", use="predict", until=2.0),
    )
    frame = of.simulate(problem_of(DECAY, [("k", 0.7), ("a", 2.0)], data, experiments=experiments))
    one, two, three = (frame[frame["experiment"] == name] for name in ("one", "two", "three"))
    np.testing.assert_allclose(one["x"], [5.0 * math.exp(-0.7)], rtol=1e-6)
    np.testing.assert_allclose(two["x"], [2.1 * math.exp(-0.7)], rtol=1e-6)
    assert len(three) == 101
    np.testing.assert_allclose(three["x"], 2.0 * np.exp(-0.7 * three["time"]), rtol=1e-5)
    assert three["time"].iloc[-1] == 2.0


def test_simulation_without_data_runs_to_the_last_datum_of_the_others():
    data = of.Measurements.from_columns([1.0, 4.0], {"x": [1.0, 1.0]})
    experiments = (of.Experiment("main"), of.Experiment("other", (of.Period(0.0, {"k": 1.0}),)))
    frame = of.simulate(problem_of(DECAY, [("k", 0.7), ("a", 2.0)], data, experiments=experiments))
    assert frame["time"].max() == 4.0


def test_simulation_without_an_end():
    data = of.Measurements.from_columns([0.0], {"x": [1.0]})
    experiments = (of.Experiment("main"), of.Experiment("other"))
    with pytest.raises(ProblemError, match=r"experiment 'other' has no data and no end; give times or until"):
        of.simulate(problem_of(DECAY, [("k", 0.7), ("a", 2.0)], data, experiments=experiments))


def test_curves_that_only_some_experiments_have():
    """`seen` depends on the single measurement unless an experiment replaces it."""
    data = of.Measurements(
        ["one", "one"], [1.0, 1.0], ["seen", "seen"], [1.0, 2.0], groups={"lamp": np.array(["a", "b"])}
    )
    experiments = (
        of.Experiment("one"),
        of.Experiment("two", (of.Period(0.0, {"seen": 4.0}),), use="predict", until=1.0),
    )
    parameters = [("k", 0.7), of.Parameter("e", 1.0, per="lamp")]
    text = "x' = -k*x\nx(0) = 1\nseen = e*x\nhalf = x/2"
    frame = of.simulate(problem_of(text, parameters, data, experiments=experiments), times=[0.0, 1.0])
    assert list(frame.columns) == ["experiment", "time", "x", "half", "seen"]
    assert frame["experiment"].tolist() == ["one", "one", "two", "two"]
    np.testing.assert_array_equal(frame["seen"], [np.nan, np.nan, 4.0, 4.0])
    np.testing.assert_allclose(frame["half"], 0.5 * np.exp([0.0, -0.7, 0.0, -0.7]), rtol=1e-6)


def test_a_definition_may_be_called_time():
    data = of.Measurements.from_columns([1.0], {"x": [1.0]})
    frame = of.simulate(problem_of("x' = -k*x\nx(0) = 1\ntime = 60*t", [("k", 0.7)], data), times=[0.0, 2.0])
    assert sorted(frame.columns) == ["experiment", "time", "x"]
    assert frame["time"].tolist() == [0.0, 120.0]


def test_simulation_at_no_time():
    frame = of.simulate(decay(), times=[])
    assert list(frame.columns) == ["experiment", "time", "x", "double"]
    assert len(frame) == 0


def test_simulation_of_an_explicit_model():
    data = of.Measurements.from_columns([1.0], {"y": [1.0]})
    frame = of.simulate(problem_of("y = a + b*t", [("a", 1.0), ("b", 2.0)], data), times=[0.0, 1.0, 2.5])
    np.testing.assert_allclose(frame["y"], [1.0, 3.0, 6.0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"times": [-1.0]}, r"a simulation was asked for at -1, before experiment 'main' starts at 0"),
        ({"times": [math.nan]}, "a simulation was asked for at a time that is not a number"),
        ({"times": [1.0, -math.inf]}, "a simulation was asked for at a time that is not a number"),
        ({"parameters": {"kk": 1.0}}, r"there is no parameter 'kk'"),
        ({"parameters": {"k": math.nan}}, r"'k' has start value nan; give a finite number"),
    ],
)
def test_mistakes_in_a_simulation(arguments, words):
    with pytest.raises(ProblemError, match=words):
        of.simulate(decay(), **arguments)


POLE = """
x' = k*x^2
x(0) = 1
large = if(x > 1.5, 1, 0)
capped = min(x, 5)
at_least = max(x, 0)
square = x^2
"""


def pole() -> of.Problem:
    return problem_of(POLE, [("k", 1.0)], of.Measurements.from_columns([0.5], {"x": [2.0]}))


def test_simulation_beyond_a_pole_warns():
    with pytest.warns(
        of.SimulationWarning, match="experiment 'main': the solution could not be continued beyond t = 1: 'x'"
    ):
        frame = of.simulate(pole(), times=[0.0, 0.5, 2.0, 3.0])
    np.testing.assert_allclose(frame["x"][:2], [1.0, 2.0], rtol=1e-6)
    assert frame["x"][2:].isna().all()


@pytest.mark.parametrize("name", ["large", "capped", "at_least", "square"])
def test_definitions_beyond_a_pole_are_missing(name):
    """A number there would look like a result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", of.SimulationWarning)
        frame = of.simulate(pole(), times=[0.0, 0.5, 2.0, 3.0])
    assert frame[name][:2].notna().all()
    assert frame[name][2:].isna().all()


def test_simulation_that_cannot_start():
    problem = problem_of(
        "x' = log(k)*x\nx(0) = 1", [("k", -1.0)], of.Measurements.from_columns([0.0, 1.0], {"x": [1, 1]})
    )
    with pytest.warns(of.SimulationWarning, match="the derivative of 'x' is not a finite number at the start, t = 0"):
        frame = of.simulate(problem)
    assert np.isnan(frame["x"][1])


# --- evaluate ---


def test_evaluation():
    found = of.evaluate(decay())
    assert (found.status, found.message) == ("ok", "")
    expected = 2.0 * np.exp(-0.7 * T) - [1.0, 0.8, 0.3]
    np.testing.assert_allclose(found.residuals, expected, atol=1e-6)
    assert found.objective == pytest.approx(0.5 * expected @ expected, rel=1e-5)
    jacobian = np.stack([-2.0 * T * np.exp(-0.7 * T), np.exp(-0.7 * T)], axis=1)
    np.testing.assert_allclose(found.jacobian, jacobian, atol=1e-5)


def test_evaluation_elsewhere():
    found = of.evaluate(decay(), {"k": 1.5})
    np.testing.assert_allclose(found.residuals, 2.0 * np.exp(-1.5 * T) - [1.0, 0.8, 0.3], atol=1e-6)


@pytest.mark.parametrize("scale", ["linear", "log", "log10", "logit"])
def test_jacobian_is_by_natural_values(scale):
    """Whatever the solver sees, the user differentiates by the numbers of the file."""
    problem = of.load(path_of("barnes/b"))
    bounds = {"lower": 0.0, "upper": 9.0} if scale == "logit" else {}
    parameters = tuple(of.Parameter(p.name, p.start, scale=scale, **bounds) for p in problem.parameters)
    problem = of.Problem(problem.model, parameters, problem.measurements).with_settings(rtol=1e-11, atol=1e-13)
    point = {"k1": 0.9, "k2": 2.0, "k3": 1.8, "a": 1.0, "b": 0.25}
    found = of.evaluate(problem, point)
    for column, (name, value) in enumerate(point.items()):
        h = 1e-3 * value
        shifted = [of.evaluate(problem, {**point, name: value + j * h}, order=0).residuals for j in (-2, -1, 1, 2)]
        numeric = (shifted[0] - 8 * shifted[1] + 8 * shifted[2] - shifted[3]) / (12 * h)
        np.testing.assert_allclose(found.jacobian[:, column], numeric, atol=1e-7)


def test_fixed_parameters_have_no_column():
    found = of.evaluate(decay().with_fixed("k"), {"k": 1.0, "a": 3.0})
    np.testing.assert_allclose(found.jacobian, np.exp(-T)[:, None], atol=1e-6)


def test_values_alone():
    assert of.evaluate(decay(), order=0).jacobian is None


def test_failed_evaluation_is_a_value():
    found = of.evaluate(pole(), {"k": 9.0})
    assert found.status == "failed"
    assert "the solution could not be continued beyond t = 0.111" in found.message
    assert np.isnan(found.residuals).all()
    assert math.isnan(found.objective)
    assert found.jacobian is None


@pytest.mark.parametrize("order", [-1, 2, 3])
def test_order_that_does_not_exist(order):
    with pytest.raises(OdefitError, match=f"evaluate was asked for order {order}; residuals have orders 0 and 1"):
        of.evaluate(decay(), order=order)


def test_unknown_parameter():
    with pytest.raises(ProblemError, match=r"there is no parameter 'zz'"):
        of.evaluate(decay(), {"zz": 1.0})


def test_evaluations_do_not_depend_on_earlier_ones():
    first = of.evaluate(decay(), {"k": 1.0}).residuals
    of.evaluate(decay(), {"k": 30.0})
    np.testing.assert_array_equal(of.evaluate(decay(), {"k": 1.0}).residuals, first)
