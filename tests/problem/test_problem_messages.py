"""Every mistake in a problem has its own message: what is wrong, what was required, what to do."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from odefit import Experiment, Measurements, Model, Parameter, Period, Problem, Settings
from odefit.errors import OdefitError, ProblemError, UnsupportedError

NAN, INF = math.nan, math.inf
TEXT = "x' = -k1*x + c\ny' = k2*x\ndouble = 2*x\nc = k3\nx(0) = 1\ny(0) = 0"
MODEL = Model.from_text(TEXT)
RATE = Model.from_text(TEXT.replace("k3", "rate"))
PARAMETERS = (Parameter("k1", 1.0), Parameter("k2", 2.0), Parameter("k3", 0.5))
DATA = Measurements.from_columns([0.0, 1.0], {"x": [1.0, 0.5], "double": [2.0, NAN]})


def problem(**changes) -> Problem:
    return Problem(**({"model": MODEL, "parameters": PARAMETERS, "measurements": DATA} | changes))


def experiment(**overrides) -> tuple[Experiment, ...]:
    return (Experiment("main", (Period(0.0, overrides),)),)


PARAMETER_MISTAKES = {
    "unknown scale": ({"start": 1.0, "scale": "ln"}, r"'k' has scale 'ln'; the scales are linear, log, log10, logit\."),
    "no start": ({}, r"'k' has start value nan; give a finite number\."),
    "infinite start": ({"start": INF}, r"'k' has start value inf; give a finite number\."),
    "bound NaN": ({"start": 1.0, "lower": NAN}, r"'k' has a bound that is not a number; leave it out"),
    "other bound NaN": ({"start": 1.0, "upper": NAN}, r"'k' has a bound that is not a number"),
    "bounds exchanged": (
        {"start": 1.0, "lower": 2.0, "upper": 0.0},
        r"'k' has lower bound 2 and upper bound 0; the lower",
    ),
    "bounds equal": (
        {"start": 1.0, "lower": 1.0, "upper": 1.0},
        r"must be the smaller \(to hold a value use fixed = true\)",
    ),
    "start below": (
        {"start": -1.0, "lower": 0.0},
        r"'k' has start value -1 outside its bounds \[0, inf\]; move the start",
    ),
    "start above": ({"start": 9.0, "upper": 5.0}, r"'k' has start value 9 outside its bounds \[-inf, 5\]"),
    "log of a negative start": (
        {"start": -1.0, "scale": "log"},
        r"'k' has start value -1 but scale 'log' needs a positive one; set start > 0 or scale = 'linear'\.",
    ),
    "log10 of zero": (
        {"start": 0.0, "scale": "log10"},
        r"'k' has start value 0 but scale 'log10' needs a positive one",
    ),
    "logit without bounds": (
        {"start": 1.0, "scale": "logit"},
        r"'k' has scale 'logit', which needs finite lower and upper",
    ),
    "logit with one bound": ({"start": 1.0, "lower": 0.0, "scale": "logit"}, r"needs finite lower and upper bounds\."),
    "logit at a bound": (
        {"start": 0.0, "lower": 0.0, "upper": 1.0, "scale": "logit"},
        r"'k' has start value 0 at a bound; scale 'logit' needs it strictly between\.",
    ),
    "start and expression": (
        {"start": 1.0, "expression": "2*k1"},
        r"'k' has both a start value and an expression; an expression is computed",
    ),
}


@pytest.mark.parametrize("mistake", PARAMETER_MISTAKES)
def test_parameter(mistake):
    options, words = PARAMETER_MISTAKES[mistake]
    with pytest.raises(ProblemError, match=words):
        Parameter("k", **options)


def test_parameter_that_is_not_supported():
    with pytest.raises(UnsupportedError, match="not supported yet: 'linear' of parameter 'k'"):
        Parameter("k", 1.0, linear=True)


PRIOR_MISTAKES = {
    "no call": ("normal", r"the prior \"normal\" of 'k' cannot be read"),
    "one number": ("normal(1)", "cannot be read"),
    "unknown kind": ("nromal(1, 2)", r"unknown prior 'nromal'; did you mean 'normal'\?"),
    "no number": ("normal(a, 2)", "needs two numbers"),
    "not finite": ("normal(inf, 2)", "a number that is not finite"),
    "width": ("normal(1, 0)", "has width 0; it must be positive"),
    "median": ("lognormal(-1, 1)", "has median -1; it must be positive"),
    "empty": ("uniform(2, 1)", r"uniform\(2, 1\) of 'k' is empty"),
}


@pytest.mark.parametrize("mistake", PRIOR_MISTAKES)
def test_prior(mistake):
    text, words = PRIOR_MISTAKES[mistake]
    with pytest.raises(ProblemError, match=words):
        Parameter("k", 1.0, prior=text)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start": 1.0, "fixed": True, "prior": "normal(1, 2)"}, "is fixed and has a prior"),
        ({"expression": "2*k1", "prior": "normal(1, 2)"}, "has an expression and 'prior'"),
        ({"expression": "2*k1", "per": "experiment"}, "has an expression and 'per'"),
        ({"start": 1.0, "prior": "uniform(2, 3)"}, "outside its bounds"),
    ],
)
def test_prior_that_contradicts(options, words):
    with pytest.raises(ProblemError, match=words):
        Parameter("k", **options)


@pytest.mark.parametrize(
    "options",
    [
        {"start": 1.0},
        {"start": 0.0, "lower": 0.0},
        {"start": 5.0, "upper": 5.0},
        {"start": 1.0, "lower": -1.0, "scale": "log"},
        {"start": -1.0, "scale": "log", "fixed": True},
        {"start": 1.0, "lower": 2.0, "upper": 0.0, "fixed": True},
        {"expression": "k1 + k2"},
        {"start": 0.5, "lower": 0.0, "upper": 1.0, "scale": "logit", "unit": "1/h"},
    ],
)
def test_parameter_that_is_fine(options):
    made = Parameter("k", **options)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'start'"):
        made.start = 3.0


EXPERIMENT_MISTAKES = {
    "no finite start": (lambda: Period(INF), ProblemError, r"an experiment starts at inf; give a finite time\."),
    "start NaN": (lambda: Period(NAN), ProblemError, r"an experiment starts at nan; give a finite time\."),
    "steady state": (lambda: Period(steady_state=True), UnsupportedError, "experiment that starts from a steady state"),
    "nothing but the time before": (
        lambda: Experiment("a", [Period(-INF)]),
        ProblemError,
        r"experiment 'a' has nothing but a time before its start; give the period with which it begins, Period\(0\.0\)",
    ),
    "time before comes later": (
        lambda: Experiment("a", [Period(0.0), Period(-INF)]),
        ProblemError,
        "experiment 'a': a period that begins at -inf comes before all others",
    ),
    "no period": (
        lambda: Experiment("a", ()),
        ProblemError,
        r"experiment 'a' has no period; give at least Period\(start\)",
    ),
    "start is text": (
        lambda: Experiment("a", (Period("t1"),)),
        ProblemError,
        r"experiment 'a' starts at 't1'; the start of an experiment is a number \(that of a later period may be an",
    ),
    "events": (
        lambda: Experiment("a", events=("e",)),
        ProblemError,
        r"experiment 'a' has the event 'e'; give odefit\.Dose objects\.",
    ),
    "use": (
        lambda: Experiment("a", use="train"),
        ProblemError,
        r"experiment 'a' has use = 'train'; the uses are fit, validate, predict\.",
    ),
}


@pytest.mark.parametrize("mistake", EXPERIMENT_MISTAKES)
def test_experiment(mistake):
    make, kind, words = EXPERIMENT_MISTAKES[mistake]
    with pytest.raises(kind, match=words):
        make()


@pytest.mark.parametrize("until", [INF, -INF])
def test_experiment_without_a_finite_end(until):
    with pytest.raises(ProblemError, match="'a'.*until"):
        Experiment("a", until=until)


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_override_that_is_no_finite_number(value):
    with pytest.raises(ProblemError, match="k1"):
        problem(experiments=experiment(k1=value))


def test_overrides_cannot_be_changed():
    period = Period(0.0, {"k1": 2.0})
    with pytest.raises(TypeError, match="does not support item assignment"):
        period.overrides["k1"] = 3.0


def columns(**changes) -> Measurements:
    base = {"experiment": ["main"] * 2, "time": [0.0, 1.0], "observable": ["x"] * 2, "value": [1.0, 2.0]}
    return Measurements(**(base | changes))


MEASUREMENT_MISTAKES = {
    "short time": ({"time": [0.0]}, ProblemError, "the data column 'time' has 1 entries but there are 2 values"),
    "long experiment": (
        {"experiment": ["a"] * 3},
        ProblemError,
        "the data column 'experiment' has 3 entries but there",
    ),
    "short observable": ({"observable": ["x"]}, ProblemError, "the data column 'observable' has 1 entries"),
    "short sigma": ({"sigma": [1.0]}, ProblemError, "the data column 'sigma' has 1 entries"),
    "short weight": ({"weight": [1.0] * 3}, ProblemError, "the data column 'weight' has 3 entries"),
    "short row": ({"row": [1]}, ProblemError, "the data column 'row' has 1 entries"),
    "time NaN": (
        {"time": [0.0, NAN]},
        ProblemError,
        "'main', time nan, 'x': the time is nan; every value needs the time",
    ),
    "time infinite": ({"time": [0.0, -INF]}, ProblemError, "the time is -inf; every value"),
    "value infinite": (
        {"value": [1.0, -INF]},
        ProblemError,
        "experiment 'main', time 1, 'x': the value is infinite; leave a missing value empty",
    ),
    "sigma zero": (
        {"sigma": [0.1, 0.0]},
        ProblemError,
        "experiment 'main', time 1, 'x': its sigma is 0; a standard deviation is positive",
    ),
    "sigma negative": ({"sigma": [-2.0, 1.0]}, ProblemError, "time 0, 'x': its sigma is -2; a standard deviation"),
    "sigma infinite": ({"sigma": [INF, 1.0]}, ProblemError, "its sigma is inf; a standard deviation"),
    "weight negative": (
        {"weight": [-1.0, 1.0]},
        ProblemError,
        "its weight is -1; weights lie between 0 and inf",
    ),
    "sigma and weight": (
        {"sigma": [1.0, 1.0], "weight": [NAN, 2.0]},
        ProblemError,
        "time 1, 'x': it has both a sigma and a weight; give one",
    ),
    "since": ({"since": [5.0, NAN]}, ProblemError, r"its interval is from 5 to 0; it must begin before it ends\."),
    "censoring": ({"censoring": [0, 1]}, UnsupportedError, "censored measurements"),
    "coords": ({"coords": {"r": [0.0, 1.0]}}, UnsupportedError, "measurements with coords"),
    "text in value": ({"value": [1.0, "high"]}, ProblemError, "value.*high"),
    "text in time": ({"time": ["monday", 1.0]}, ProblemError, "time.*monday"),
}


@pytest.mark.parametrize("mistake", MEASUREMENT_MISTAKES)
def test_measurements(mistake):
    changes, kind, words = MEASUREMENT_MISTAKES[mistake]
    with pytest.raises(kind, match=words):
        columns(**changes)


FROM_COLUMNS_MISTAKES = {
    "short column": (
        lambda: Measurements.from_columns([0, 1], {"x": [1.0]}),
        "the data column 'x' has 1 values but there",
    ),
    "no column": (lambda: Measurements.from_columns([0, 1], {}), "no.*column"),
    "text": (lambda: Measurements.from_columns([0, 1], {"x": ["a", 1.0]}), "x"),
    "sigma of another column": (lambda: Measurements.from_columns([0, 1], {"x": [1, 2]}, sigma={"X": 0.1}), "'X'"),
    "weight of another column": (lambda: Measurements.from_columns([0, 1], {"x": [1, 2]}, weight={"z": 1}), "'z'"),
    "sigma of another length": (
        lambda: Measurements.from_columns([0, 1], {"x": [1, 2]}, sigma={"x": [1, 2, 3]}),
        "'x'",
    ),
    "experiments of another length": (
        lambda: Measurements.from_columns([0, 1], {"x": [1, 2]}, experiment=["a"]),
        "the data column 'experiment'",
    ),
}


@pytest.mark.parametrize("mistake", FROM_COLUMNS_MISTAKES)
def test_from_columns(mistake):
    make, words = FROM_COLUMNS_MISTAKES[mistake]
    with pytest.raises(ProblemError, match=words):
        make()


PROBLEM_MISTAKES = {
    "tables": ({"tables": {"u": 1}}, ProblemError, "the table 'u' is 1; give an odefit.Table"),
    "constraints": ({"constraints": ("k1 < k2",)}, OdefitError, "'<' cannot be held by a fit; write <="),
    "rule without expression": ({"constraints": ("~ normal(0, 1)",)}, ProblemError, "has nothing before '~'"),
    "uniform rule": ({"constraints": ("k1 ~ uniform(0, 1)",)}, ProblemError, "a uniform prior is bounds"),
    "rule of a state": ({"constraints": ("x ~ normal(0, 1)",)}, ProblemError, "uses the state 'x'"),
    "rule of an unknown name": ({"constraints": ("k9 ~ normal(0, 1)",)}, OdefitError, "unknown name 'k9'"),
    "derived of time": ({"derived": {"r": "k1*t"}}, ProblemError, "uses the independent variable 't'"),
    "derived with a name taken": ({"derived": {"k1": "2*k2"}}, ProblemError, "has the name of something else"),
    "data of a prediction": (
        {"experiments": (Experiment("main", use="predict"),)},
        ProblemError,
        'has data but use = "predict"',
    ),
    "single start": ({"starts": {"k1[a]": 1.0}}, ProblemError, r"there is no parameter 'k1\[a\]'"),
    "parameter twice": (
        {"parameters": (*PARAMETERS, PARAMETERS[0])},
        ProblemError,
        "the parameter 'k1' is given twice; keep",
    ),
    "experiment twice": (
        {"experiments": (Experiment("main"), Experiment("main"))},
        ProblemError,
        "the experiment 'main' is given twice",
    ),
    "no experiment": ({"experiments": ()}, ProblemError, "the problem has no experiment; give at least one"),
    "parameter without a value": (
        {"parameters": (*PARAMETERS[:2], Parameter("raet", 1.0)), "model": RATE},
        ProblemError,
        r"'rate' is used in the equations but has no value; did you mean 'raet'\? Add it to the parameters",
    ),
    "parameter without a value or a similar name": (
        {"parameters": PARAMETERS[:2], "model": RATE},
        ProblemError,
        r"'rate' is used in the equations but has no value[.;:] ?Add it to the parameters",
    ),
    "parameter that is not used": (
        {"parameters": (*PARAMETERS[:2], Parameter("rate", 1.0), Parameter("raet", 1.0)), "model": RATE},
        ProblemError,
        r"parameter 'raet' does not occur in the equations; did you mean 'rate'\?",
    ),
    "parameter with an equation": (
        {"parameters": (*PARAMETERS, Parameter("c", 1.0))},
        ProblemError,
        "'c' is both a parameter and a name with an equation of its own in the model; remove one",
    ),
    "parameter that is a state": (
        {"parameters": (*PARAMETERS, Parameter("x", 1.0))},
        ProblemError,
        "'x' is both a parameter and a name with an equation",
    ),
    "initial value of what is no state": (
        {"experiments": experiment(**{"xx(0)": 1.0})},
        ProblemError,
        r"experiment 'main' sets 'xx\(0\)', but 'xx' is not a state; did you mean 'x'\?",
    ),
    "a state itself": (
        {"experiments": experiment(x=1.0)},
        ProblemError,
        r"sets the state 'x'; write \"x\(0\)\" for its initial value",
    ),
    "unknown name": (
        {"experiments": experiment(k11=1.0)},
        ProblemError,
        r"sets 'k11', which the model does not have; did you mean 'k1'\?",
    ),
    "time": (
        {"experiments": experiment(t=1.0)},
        ProblemError,
        "experiment 'main' sets 't', which the model does not have",
    ),
    "unknown observable": (
        {"measurements": columns(observable=["x", "doubel"])},
        ProblemError,
        r"the data have a column 'doubel', which is no state and no definition of the model; did you mean 'double'",
    ),
    "parameter as observable": (
        {"measurements": columns(observable=["k1", "x"])},
        ProblemError,
        "a column 'k1', which is no state and no definition",
    ),
    "unknown experiment": (
        {"measurements": columns(experiment=["main", "mian"])},
        ProblemError,
        r"the data have an experiment 'mian', which is not described; did you mean 'main'\?",
    ),
    "data before the start": (
        {"experiments": (Experiment("main", (Period(0.5),)),)},
        ProblemError,
        r"experiment 'main' has a measurement at t = 0, before its start at 0.5; move the start \(t0\)",
    ),
}


@pytest.mark.parametrize("mistake", PROBLEM_MISTAKES)
def test_problem(mistake):
    changes, kind, words = PROBLEM_MISTAKES[mistake]
    with pytest.raises(kind, match=words):
        problem(**changes)


@pytest.mark.parametrize("value", [0.0, -1e-3, NAN, INF])
def test_absolute_tolerance(value):
    with pytest.raises(ProblemError, match=f"'atol' is {value}; it must be \"auto\" or a number above 0"):
        Settings(atol=value)


@pytest.mark.parametrize("name", ["rtol", "tol"])
@pytest.mark.parametrize("value", [0.0, -1e-3, 1.0, 2.0, NAN, INF])
def test_tolerances(name, value):
    with pytest.raises(ProblemError, match=f"'{name}' is {value:g}; it must lie between 0 and 1"):
        Settings(**{name: value})


def test_absolute_tolerance_in_any_unit():
    assert Settings(atol=1e20).atol == 1e20


@pytest.mark.parametrize("name", ["max_steps", "max_iterations"])
@pytest.mark.parametrize("value", [0, -5])
def test_limits(name, value):
    with pytest.raises(ProblemError, match=f"'{name}' is {value}; it must be at least 1"):
        Settings(**{name: value})


CHANGE_MISTAKES = {
    "start of an unknown": (lambda p: p.with_start(k11=1.0), r"there is no parameter 'k11'; did you mean 'k1'\?"),
    "bounds of an unknown": (lambda p: p.with_bounds(q=(0, 1)), "there is no parameter 'q'"),
    "fixed unknown": (lambda p: p.with_fixed("k1", "z"), "there is no parameter 'z'"),
    "unknown setting": (lambda p: p.with_settings(rtoll=1e-3), r"there is no setting 'rtoll'; did you mean 'rtol'\?"),
    "start outside": (
        lambda p: p.with_bounds(k1=(0, 2)).with_start(k1=5.0),
        r"'k1' has start value 5 outside its bounds",
    ),
    "bounds around nothing": (
        lambda p: p.with_bounds(k1=(2, 3)),
        r"'k1' has start value 1 outside its bounds \[2, 3\]",
    ),
    "bad setting": (lambda p: p.with_settings(rtol=2.0), "'rtol' is 2; it must lie between 0 and 1"),
}


@pytest.mark.parametrize("mistake", CHANGE_MISTAKES)
def test_changes(mistake):
    change, words = CHANGE_MISTAKES[mistake]
    with pytest.raises(ProblemError, match=words):
        change(problem())


def test_every_error_has_one_root():
    assert issubclass(ProblemError, OdefitError)
    assert issubclass(UnsupportedError, OdefitError)


# --- what is right ---


def test_changes_make_new_problems():
    first = problem()
    second = first.with_start(k1=3.0).with_bounds(k2=(0.0, 9.0)).with_fixed("k3").with_settings(rtol=1e-9)
    assert [p.start for p in first.parameters] == [1.0, 2.0, 0.5]
    assert [p.start for p in second.parameters] == [3.0, 2.0, 0.5]
    assert (second.parameters[1].lower, second.parameters[1].upper) == (0.0, 9.0)
    assert [p.name for p in first.free] == ["k1", "k2", "k3"]
    assert [p.name for p in second.free] == ["k1", "k2"]
    assert (first.settings.rtol, second.settings.rtol) == (1e-7, 1e-9)


def test_problems_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'title'"):
        problem().title = "other"


def test_observables_in_order_of_appearance():
    assert problem().observables == ("x", "double")


def test_value_given_by_every_experiment_needs_no_parameter():
    both = (Experiment("main", (Period(0.0, {"k3": 1.0}),)), Experiment("two", (Period(0.0, {"k3": "2*k1"}),)))
    assert len(problem(parameters=PARAMETERS[:2], experiments=both).parameters) == 2


def test_value_given_by_one_of_two_experiments():
    both = (Experiment("main", (Period(0.0, {"k3": 1.0}),)), Experiment("two"))
    with pytest.raises(ProblemError, match="'k3' is used in the equations but has no value"):
        problem(parameters=PARAMETERS[:2], experiments=both)


def test_expressions_are_not_free():
    parameters = (Parameter("k1", 1.0), Parameter("k2", expression="2*k1"), Parameter("k3", 1.0, fixed=True))
    assert [p.name for p in problem(parameters=parameters).free] == ["k1"]


def test_measurements_are_filled_in():
    data = columns()
    assert len(data) == 2
    assert np.isnan(data.sigma).all()
    assert np.isnan(data.weight).all()
    assert data.row.tolist() == [0, 1]
    assert data.side.tolist() == [-1, -1]
    assert data.censoring.tolist() == [0, 0]


def test_wide_tables_become_rows():
    data = Measurements.from_columns(
        [0.0, 1.0], {"x": [1.0, NAN], "y": [3.0, 4.0]}, experiment=["a", "b"], sigma={"x": 0.1, "y": [0.2, 0.3]}
    )
    assert data.time.tolist() == [0.0, 0.0, 1.0, 1.0]
    assert data.observable.tolist() == ["x", "y", "x", "y"]
    assert data.experiment.tolist() == ["a", "a", "b", "b"]
    assert data.row.tolist() == [0, 0, 1, 1]
    assert data.sigma.tolist() == [0.1, 0.2, 0.1, 0.3]
    np.testing.assert_array_equal(data.value, [1.0, 3.0, NAN, 4.0])
