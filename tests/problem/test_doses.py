"""Doses: what a problem knows of them, and what is said about mistakes."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from odefit import Dose, Experiment, Measurements, Model, Parameter, Period, Problem, Table
from odefit.errors import OdefitError, ProblemError, UnsupportedError

TEXT = "depot' = -ka*depot\ncentral' = ka*depot - k*central\ndepot(0) = 0\ncentral(0) = 0\nC = central/V\n"
MODEL = Model.from_text(TEXT)
PARAMETERS = (Parameter("ka", 1.0), Parameter("k", 0.1), Parameter("V", 20.0, fixed=True))
DATA = Measurements.from_columns([1.0, 2.0], {"C": [1.0, 0.5]})
ONE = Dose(0.0, "depot", 100.0)


def problem(*doses: Dose, **changes) -> Problem:
    parts = {"model": MODEL, "parameters": PARAMETERS, "measurements": DATA}
    return Problem(**(parts | {"experiments": (Experiment("main", events=doses),)} | changes))


def own(*names: str) -> dict[str, tuple[Parameter, ...]]:
    return {"parameters": (*PARAMETERS, *(Parameter(name, 0.5) for name in names))}


def test_doses_are_values():
    dose = Dose(0, "depot", np.float64(100), every=12, count=3)
    assert dose == Dose(0.0, "depot", 100.0, every=12.0, count=3)
    assert hash(dose) == hash(pickle.loads(pickle.dumps(dose)))
    assert pickle.loads(pickle.dumps(dose)) == dose
    assert Dose(0.0, "depot", 1.0) == Dose(0.0, "depot", 1.0, duration=float("nan"))
    assert (dose.is_infusion, Dose(0, "x", 1, duration="d").is_infusion) == (False, True)
    assert Dose(0, "depot", 1).count == 1


def test_a_problem_with_doses_goes_through_a_pickle():
    made = problem(ONE, lag={"depot": "tlag"}, fraction={"depot": 0.8}, **own("tlag"))
    other = pickle.loads(pickle.dumps(made))
    assert other.experiments == made.experiments
    assert (other.lag, other.fraction) == ({"depot": "tlag"}, {"depot": 0.8})
    structure = pickle.loads(pickle.dumps(made.structure))
    assert (structure.lag, structure.fraction) == (made.lag, made.fraction)


def test_parameters_of_doses_lags_and_fractions_are_used():
    dose = Dose("t1", "depot", "F0*100", duration="dur")
    made = problem(dose, lag={"depot": "tlag"}, fraction={"depot": "F"}, **own("t1", "F0", "dur", "tlag", "F"))
    assert {"t1", "F0", "dur", "tlag", "F"} == {*made.own_symbols}


def test_infusions_have_rates():
    made = problem(Dose(0, "central", 1, duration=2), Dose(5, "depot", 1, duration=2), Dose(9, "central", 1))
    assert made.model.states == ("depot", "central", "rate into depot", "rate into central")
    assert made.model.shown == MODEL.states
    again = problem(Dose(0, "depot", 1, duration=1), Dose(0, "central", 1, duration=1))
    assert again.model is made.model
    assert problem(ONE).model is MODEL
    assert Problem(made.model, PARAMETERS, DATA, made.experiments).model is made.model
    assert pickle.loads(pickle.dumps(made)).model.held == made.model.held


MISTAKES = {
    "no state": (lambda: problem(Dose(0, "depo", 1)), "'depo' is no state; did you mean 'depot'?"),
    "a parameter": (
        lambda: problem(Dose(3, "ka", 1)),
        "'ka' is no state; write 'at t=3.0: ka = ...' in the equations to change it.",
    ),
    "a definition": (lambda: problem(Dose(3, "C", 1)), "'C' is no state; write 'at t=3.0: C = ...'"),
    "how": (lambda: problem(Dose(0, "depot", 1, how="put")), 'how = \'put\'; it is "add" or "set".'),
    "time": (lambda: problem(Dose(math.inf, "depot", 1)), "the time is inf; give a finite number."),
    "amount": (lambda: problem(Dose(0, "depot", math.nan)), "the amount is nan; give a finite number."),
    "no duration": (lambda: problem(Dose(0, "depot", 1, duration=0)), "the duration is 0; it must be above 0"),
    "negative duration": (lambda: problem(Dose(0, "depot", 1, duration=-2)), "the duration is -2; it must be above 0"),
    "set over a time": (
        lambda: problem(Dose(0, "depot", 1, "set", duration=2)),
        "what is set is set at once; remove the duration, or add.",
    ),
    "count": (lambda: problem(Dose(0, "depot", 1, every=1, count=0)), "count is 0; it must be between 1 and 100000."),
    "many": (lambda: problem(Dose(0, "depot", 1, every=1, count=10**9)), "it must be between 1 and 100000."),
    "no every": (lambda: problem(Dose(0, "depot", 1, count=3)), "is given 3 times, but 'every' is missing"),
    "every": (lambda: problem(Dose(0, "depot", 1, every=-1, count=3)), "every is -1; it must be above 0."),
    "early": (lambda: problem(Dose(-1, "depot", 1)), "is before the experiment's start at 0; move the start (t0)"),
    "state in time": (
        lambda: problem(Dose("2*depot", "depot", 1)),
        "the time \"2*depot\" of the dose of 'depot' at 2*depot uses the state 'depot'; only parameters may stand",
    ),
    "time in amount": (lambda: problem(Dose(0, "depot", "t")), "uses the independent variable 't'"),
    "unknown name": (lambda: problem(Dose(0, "depot", "doze")), "unknown name 'doze'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_in_doses_name_experiment_and_dose(name):
    make, message = MISTAKES[name]
    with pytest.raises(OdefitError, match=r"experiment 'main': .*the dose of '\w+' at ") as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"every": 12}, r"the dose of 'depot' at 0 is given every 12, but not how often; give 'count' too\."),
        ({"every": "tau", "count": 2}, r"'every' is the text 'tau'; give a number\."),
        ({"count": 1.5, "every": 2}, r"'count' is 1\.5; give a whole number\."),
        ({"duration": None}, r"'duration' is None; give a number or the text of an expression of parameters\."),
        ({"time": True}, r"'time' is True; give a number"),
    ],
)
def test_mistakes_in_one_dose(arguments, message):
    with pytest.raises(ProblemError, match=message):
        Dose(**({"time": 0, "target": "depot", "amount": 1} | arguments))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lag": {"central": 1}}, r"a lag is given for 'central', to which nothing is given\."),
        ({"lag": {"depo": 1}}, r"a lag is given for 'depo', which is no state; did you mean 'depot'\?"),
        ({"fraction": {"depot": -0.5}}, r"the fraction of 'depot' is -0\.5; it must be a finite number"),
        ({"lag": {"depot": math.nan}}, r"the lag of 'depot' is nan; it must be a finite number"),
        ({"lag": {"depot": "tlag"}}, r"the lag \"tlag\" of 'depot': .*unknown name 'tlag'"),
        ({"fraction": {"depot": "C"}}, r"the fraction \"C\" of 'depot' uses the state 'central'"),
    ],
)
def test_mistakes_in_lags_and_fractions(changes, message):
    with pytest.raises(OdefitError, match=message):
        problem(ONE, **changes)


def test_an_event_of_the_equations_is_not_before_the_start():
    model = Model.from_text(TEXT + "at t=3: ka = 0\nat t=-1: depot = 5, ka = 2")
    with pytest.raises(
        ProblemError,
        match=r"experiment 'main': the event 'at t=-1: depot = 5, ka = 2' is before the experiment's start at 0; move",
    ):
        problem(model=model)
    assert len(problem(model=model, experiments=(Experiment("main", (Period(-1.0),)),)).model.events) == 2


def test_a_lag_counts_for_the_beginning():
    assert problem(Dose(-1, "depot", 1), lag={"depot": 1.5}).lag == {"depot": 1.5}
    with pytest.raises(ProblemError, match=r"with its lag of 0\.5 is before the experiment's start at 0"):
        problem(Dose(-1, "depot", 1), lag={"depot": 0.5})


def test_a_parameter_of_single_measurements_cannot_say_a_dose():
    data = Measurements(
        experiment=["main"] * 2, time=[1.0, 2.0], observable=["C"] * 2, value=[1.0, 2.0], groups={"gel": ["a", "b"]}
    )
    parameters = (*PARAMETERS, Parameter("s", 1.0, per="gel"))
    with pytest.raises(ProblemError, match="uses 's', which has one value per gel"):
        problem(Dose(0, "depot", "s"), parameters=parameters, measurements=data)


def test_tables_in_doses_are_refused():
    with pytest.raises(UnsupportedError, match="which calls the table 'U'"):
        problem(
            Dose(0, "depot", "U(3)"),
            model=Model.from_text(TEXT.replace("- k*central", "- k*central*U(t)")),
            tables={"U": Table([0, 10], [1, 2])},
        )


def test_times_of_events_and_doses():
    model = Model.from_text(TEXT + "at t=2*t1 + s: ka = 0\ns = 1")
    parameters = (*PARAMETERS, Parameter("t1", 3.0), Parameter("tlag", 0.5, per="experiment"))
    doses = (Dose(0, "depot", 1, every=2, count=3), Dose("t1", "central", 1, duration=0.25))
    experiments = (
        Experiment("a", events=doses),
        Experiment("b", (Period(overrides={"s": 5.0}),)),
    )
    data = Measurements.from_columns([1.0, 2.0], {"C": [1.0, 0.5]}, experiment=["a", "b"])
    made = Problem(model, parameters, data, experiments, lag={"depot": "tlag"})
    assert made.event_times({}, 0) == [0.5, 2.5, 3.0, 3.25, 4.5, 7.0]
    assert made.event_times({"t1": 4.0, "tlag[a]": 1.0}, 0) == [1.0, 3.0, 4.0, 4.25, 5.0, 9.0]
    assert made.event_times({"t1": 4.0}, 1) == [13.0]
    assert problem().event_times({}, 0) == []


HELD = Model.from_text(TEXT + "W = 2*k\nat t=5: k = 0, V = 1\nV = V0")
HELD_PARTS = {"model": HELD, "parameters": (Parameter("ka", 1.0), Parameter("k", 0.1), Parameter("V0", 20.0))}


def overriding(**overrides) -> Problem:
    return problem(**HELD_PARTS, experiments=(Experiment("main", (Period(overrides=overrides),)),))


def test_experiments_may_set_the_start_of_what_events_change():
    made = overriding(k=3.0, **{"central(0)": "2*k + W"})
    assert made.event_times({}, 0) == [5.0]


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (
            lambda: overriding(V=3.0),
            UnsupportedError,
            "experiment 'main' sets 'V', a definition that an event changes too; make it a parameter",
        ),
        (
            lambda: overriding(W="3*k"),
            ProblemError,
            r"'W' in experiment 'main' uses 'k', which an event changes; write a definition of it in the equations",
        ),
        (
            lambda: overriding(k="0.1*t"),
            ProblemError,
            "'k' in experiment 'main' uses the independent variable 't'; only parameters may stand there",
        ),
        (lambda: overriding(**{"k (held)": 3.0}), ProblemError, "which the model does not have"),
        (lambda: overriding(**{"k (held)(0)": 3.0}), ProblemError, r"'k \(held\)' is not a state"),
        (
            lambda: problem(**HELD_PARTS, derived={"q": "W"}),
            ProblemError,
            "the derived quantity 'q' uses 'k', which an event changes, through a definition",
        ),
        (
            lambda: problem(**HELD_PARTS, noise={"C": "0.1 + k"}),
            ProblemError,
            r"\[noise\] C uses 'k', which an event changes",
        ),
        (
            lambda: problem(
                **(HELD_PARTS | {"parameters": (*HELD_PARTS["parameters"][1:], Parameter("ka", expression="2*k"))})
            ),
            ProblemError,
            "the expression of 'ka' uses 'k', which an event changes",
        ),
        (lambda: problem(Dose(0, "depot", "W"), **HELD_PARTS), ProblemError, "uses 'k', which an event changes"),
    ],
)
def test_what_events_change_is_refused_where_it_would_not_follow_them(make, kind, message):
    with pytest.raises(kind, match=message):
        make()


def test_values_of_what_events_change_are_not_compared_with_what_experiments_set():
    data = Measurements.from_columns([1.0, 7.0], {"C": [1.0, 0.5], "k": [3.0, 0.0]})
    experiments = (Experiment("main", (Period(overrides={"k": 3.0}),)),)
    made = problem(**HELD_PARTS, experiments=experiments, measurements=data)
    assert made.observables == ("C",)


def test_derived_quantities_mean_the_parameter():
    assert problem(**HELD_PARTS, derived={"half": "log(2)/k"}).derived == {"half": "log(2)/k"}


def test_sides_of_measurements():
    assert DATA.after.tolist() == [False, False]
    columns = {"experiment": ["main"] * 2, "time": [1.0, 1.0], "observable": ["C"] * 2, "value": [1.0, 2.0]}
    data = Measurements(**columns, side=[-1, 1])
    assert data.after.tolist() == [False, True]
    assert data.selected(np.array([False, True])).after.tolist() == [True]
    with pytest.raises(ProblemError, match="its side is 0; -1 is before an event at its time, 1 after it"):
        Measurements(**columns, side=[0, 1])
