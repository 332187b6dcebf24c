"""Problems and their parts are values: read-only, compared by content, copied and pickled without loss."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import subprocess
import sys
import weakref
from collections.abc import Mapping

import numpy as np
import pytest

import odefit as of
from odefit import Experiment, Measurements, Model, Parameter, Period, Problem, Settings
from odefit.compile import store
from odefit.errors import ProblemError
from odefit.gallery import load, names
from odefit.problem.values import FrozenMapping

THROUGH = {
    "pickle": lambda one: pickle.loads(pickle.dumps(one)),
    "old pickle": lambda one: pickle.loads(pickle.dumps(one, 2)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
by_way = pytest.mark.parametrize("way", THROUGH)


def data(**columns) -> Measurements:
    given = {"experiment": ["a", "a", "b"], "time": [1.0, 2.0, 1.0], "observable": ["y", "y", "y"]}
    given |= {"value": [1.0, math.nan, 3.0], "groups": {"gel": ["g1", "g2", "g1"]}}
    return Measurements(**(given | columns))


VALUES = {
    "Parameter": Parameter("k", 1.0, lower=0.5, scale="log", prior="normal(1, 2)", unit="1/s"),
    "uniform Parameter": Parameter("k", auto=True, prior="uniform(2, 3)"),
    "Parameter of an expression": Parameter("k", expression="2*a"),
    "Period": Period(1.0, {"k": 2.0, "A(0)": "2*a"}),
    "Experiment": Experiment("e", (Period(1.0, {"k": 2.0}),), use="validate"),
    "Settings": Settings(rtol=1e-5, horizons=(1.0, 2.0)),
    "Measurements": data(),
}


@by_way
@pytest.mark.parametrize("name", VALUES)
def test_parts_are_equal_to_their_copies(name, way):
    value = VALUES[name]
    other = THROUGH[way](value)
    assert type(other) is type(value)
    assert other == value
    assert hash(other) == hash(value)
    assert {value: 1}[other] == 1


@pytest.mark.parametrize("name", VALUES)
def test_parts_differ_from_others(name):
    others = [value for other, value in VALUES.items() if other != name]
    assert VALUES[name] not in [*others, None, "k"]


# --- read-only ---

COLUMNS = ("experiment", "time", "observable", "value", "row", "sigma", "weight", "side", "since", "censoring")


@pytest.mark.parametrize("way", [*THROUGH, "as made"])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_cannot_be_written_to(name, way):
    measurements = data() if way == "as made" else THROUGH[way](data())
    with pytest.raises(ValueError, match="read-only"):
        getattr(measurements, name)[0] = getattr(measurements, name)[1]
    with pytest.raises(ValueError, match="read-only"):
        measurements.groups["gel"][0] = "g3"
    with pytest.raises(TypeError, match="does not support item assignment"):
        measurements.groups["gel"] = ["g1"] * 3


def test_columns_are_copies():
    given = {
        "experiment": np.array(["a"] * 3, dtype=object),
        "time": np.array([1.0, 2.0, 3.0]),
        "observable": np.array(["y"] * 3, dtype=object),
        "value": np.array([1.0, 2.0, 3.0]),
        "row": np.arange(3),
        "sigma": np.array([1.0, 1.0, 2.0]),
        "side": np.full(3, -1),
        "weight": np.full(3, math.nan),
        "since": np.full(3, math.nan),
        "censoring": np.zeros(3, dtype=np.int64),
    }
    group = np.array(["g1", "g1", "g2"], dtype=object)
    measurements, expected = Measurements(**given, groups={"gel": group}), data()
    before = pickle.dumps(measurements)
    for column in given.values():
        column[0] = column[0] * 2 if isinstance(column[0], str) else 7
    group[0] = "other"
    assert pickle.dumps(measurements) == before
    assert measurements != expected


def test_a_fit_does_not_see_later_changes_of_the_arrays_it_was_made_from():
    times, values = np.arange(1.0, 6.0), np.exp(-0.5 * np.arange(1.0, 6.0))
    model = Model.from_text("A' = -k*A\nA(0) = 1")
    problem = Problem(model, [Parameter("k", 1.0)], Measurements.from_columns(times, {"A": values}))
    values[:] = 0.0
    times[:] = 1.0
    assert of.fit(problem).estimates["k"] == pytest.approx(0.5, rel=1e-5)


@pytest.mark.parametrize("name", ["derived", "units", "starts", "tables", "noise"])
def test_mappings_of_a_problem_are_read_only(name):
    with pytest.raises(TypeError, match="does not support item assignment"):
        getattr(load("barnes"), name)["k1"] = 1.0


def test_a_frozen_mapping_does_not_follow_the_dict_it_was_made_from():
    entries = {"a": 1.0}
    frozen = FrozenMapping(entries)
    entries["a"] = 2.0
    assert frozen == {"a": 1.0}
    assert frozen == FrozenMapping([("a", 1.0)])
    assert hash(frozen) == hash(FrozenMapping({"a": 1.0}))
    assert isinstance(frozen, Mapping)
    assert repr(frozen) == "FrozenMapping({'a': 1.0})"


# --- equality of measurements ---

CHANGES = {
    "value": {"value": [1.0, math.nan, 3.5]},
    "missing": {"value": [1.0, 2.0, 3.0]},
    "time": {"time": [1.0, 2.5, 1.0]},
    "sign of zero": {"time": [-0.0, 2.0, 1.0]},
    "experiment": {"experiment": ["a", "b", "b"]},
    "observable": {"observable": ["y", "z", "y"]},
    "row": {"row": [0, 1, 1]},
    "sigma": {"sigma": [1.0, 1.0, 1.0]},
    "weight": {"weight": [1.0, 1.0, 0.0]},
    "side": {"side": [1, -1, -1]},
    "group": {"groups": {"gel": ["g1", "g2", "g2"]}},
    "name of a group": {"groups": {"lane": ["g1", "g2", "g1"]}},
    "no group": {"groups": {}},
}


@pytest.mark.parametrize("change", CHANGES)
def test_measurements_are_compared_by_content(change):
    assert data(**CHANGES[change]) == data(**CHANGES[change])
    assert data(**CHANGES[change]) != data()


def test_missing_values_are_equal_whatever_their_bits():
    other = np.array([1.0, -math.nan, 3.0])
    other[1] = np.frombuffer(b"\x01\x00\x00\x00\x00\x00\xf8\xff")[0]
    assert data(value=other) == data()


# --- whole problems ---


@pytest.mark.parametrize("way", ["pickle", "deepcopy"])
@pytest.mark.parametrize("name", names())
def test_every_problem_of_the_gallery_survives(name, way):
    problem = load(name)
    other = THROUGH[way](problem)
    for field in ("parameters", "experiments", "measurements", "constraints", "derived", "units", "settings", "title"):
        assert getattr(other, field) == getattr(problem, field)
    assert other.starts == problem.starts
    mine, theirs = problem.evaluate(), other.evaluate()
    assert mine.status == theirs.status
    np.testing.assert_array_equal(theirs.residuals, mine.residuals)
    np.testing.assert_array_equal(theirs.jacobian, mine.jacobian)


def test_another_process_fits_the_same_without_the_function_that_was_traced():
    def rhs(t, y, p):
        return {"A": -p.k * y.A / (1 + y.A)}

    model = Model.from_function(rhs, ["A"], ["k"], {"A": 1.0})
    measured = Measurements.from_columns([1.0, 2.0, 3.0], {"A": [0.7, 0.5, 0.4]})
    problem = Problem(model, [Parameter("k", 1.0)], measured)
    program = "import pickle, sys, odefit; p = pickle.load(sys.stdin.buffer); print(odefit.fit(p).estimates['k'].hex())"
    told = subprocess.run([sys.executable, "-c", program], input=pickle.dumps(problem), capture_output=True, check=True)
    assert told.stdout.decode().strip() == float(of.fit(problem).estimates["k"]).hex()


@by_way
def test_fits_are_equal_to_the_bit(way):
    problem = load("barnes").with_bounds(k1=(0.1, 5.0)).with_fixed("k3")
    mine, theirs = of.fit(problem), of.fit(THROUGH[way](problem))
    assert dict(theirs.estimates) == dict(mine.estimates)
    assert theirs.objective == mine.objective
    assert theirs.iterations == mine.iterations


def test_changes_of_a_pickle_are_checked_like_others():
    other = pickle.loads(pickle.dumps(load("barnes")))
    assert other.with_start(k1=2.0).parameters[0].start == 2.0
    with pytest.raises(ProblemError, match=r"there is no parameter 'k9'"):
        other.with_start(k9=2.0)


def test_problems_are_equal_to_themselves_only():
    problem = load("barnes")
    assert problem != problem.with_start()
    assert problem != pickle.loads(pickle.dumps(problem))
    assert copy.deepcopy(problem) is problem
    assert len({problem, problem.with_start(), problem}) == 2


def test_native_code_is_found_again(monkeypatch):
    """On disk, by content: nothing is compiled for what comes out of a pickle."""
    data = Measurements.from_columns([0.5, 1.0], {"x": [1.0, 0.5]})
    model = Model.from_function(lambda t, y, p: {"x": of.exp(-t) - p.k * y.x}, ["x"], ["k", "a"], {"x": "2*a"})
    problem = Problem(model, [Parameter("k", 1.0), Parameter("a", 0.5, prior="normal(0.4, 1)")], data)
    expected = problem.evaluate()
    saved = []
    monkeypatch.setattr(store, "save", lambda name, stored: saved.append(name))
    other = pickle.loads(pickle.dumps(problem))
    found = other.evaluate()
    assert not saved
    np.testing.assert_array_equal(found.residuals, expected.residuals)
    np.testing.assert_array_equal(found.jacobian, expected.jacobian)


# --- structure ---

SAME = {
    "start": lambda p: p.with_start(k1=2.0),
    "bounds": lambda p: p.with_bounds(k1=(0.0, 9.0)),
    "settings": lambda p: p.with_settings(rtol=1e-9),
    "equal data": lambda p: p.with_measurements(pickle.loads(pickle.dumps(p.measurements))),
    "fixed already": lambda p: p.with_free("k1"),
}
OTHER = {
    "fixed": lambda p: p.with_fixed("k1"),
    "data": lambda p: p.with_measurements(Measurements.from_columns([1.0], {"y1": [1.0]})),
}


@pytest.mark.parametrize("change", SAME)
def test_numbers_do_not_change_the_structure(change):
    problem = load("barnes")
    assert SAME[change](problem).structure is problem.structure


@pytest.mark.parametrize("change", OTHER)
def test_what_is_fixed_or_measured_changes_the_structure(change):
    problem = load("barnes")
    changed = OTHER[change](problem)
    assert changed.structure is not problem.structure
    assert changed.structure.expressions is problem.structure.expressions
    assert changed.evaluate().status == "ok"
    assert problem.evaluate().status == "ok"


def test_what_problems_share_they_share_out_of_a_pickle():
    problem = load("barnes")
    first, second, third = pickle.loads(pickle.dumps([problem, problem.with_start(k1=3.0), problem.with_fixed("k1")]))
    assert first.structure is second.structure
    assert third.structure is not first.structure
    assert first.model is second.model is third.model
    assert second.parameters[0].start == 3.0


def test_a_structure_keeps_no_problem_alive():
    problem = load("barnes")
    changed = problem.with_start(k1=2.0)
    changed.evaluate()
    watch = weakref.ref(changed)
    del changed
    gc.collect()
    assert watch() is None


# --- what a change can make wrong is checked ---


def groups() -> Problem:
    """A parameter with a slot per experiment, one of which starts elsewhere."""
    measurements = Measurements.from_columns([1.0, 1.0], {"A": [1.0, 2.0]}, experiment=["a", "b"])
    parameters = [Parameter("k", 1.0), Parameter("A0", 1.0, 0.0, 10.0, per="experiment")]
    experiments = [Experiment("a"), Experiment("b")]
    model = Model.from_text("A' = -k*A\nA(0) = A0")
    return Problem(model, parameters, measurements, experiments, starts={"A0[b]": 5.0})


WRONG = {
    "start outside": (lambda p: p.with_start(A0=11.0), r"'A0' has start value 11 outside its bounds"),
    "single start outside": (lambda p: p.with_start(**{"A0[a]": 11.0}), r"'A0\[a\]' has start value 11 outside"),
    "no slot": (lambda p: p.with_start(**{"A0[c]": 1.0}), r"there is no parameter 'A0\[c\]'"),
    "single start left outside": (lambda p: p.with_bounds(A0=(0.0, 2.0)), r"'A0\[b\]' has start value 5 outside"),
    "freed outside": (
        lambda p: p.with_fixed("A0").with_start(**{"A0[b]": 50.0}).with_free("A0"),
        r"'A0\[b\]' has start value 50 outside",
    ),
    "unknown data": (
        lambda p: p.with_measurements(Measurements.from_columns([1.0], {"C": [1.0]}, experiment="a")),
        r"the data have a column 'C', which is no state",
    ),
    "setting": (lambda p: p.with_settings(rtol=2.0), r"'rtol' is 2; it must lie between 0 and 1"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_changes_are_checked(mistake):
    change, words = WRONG[mistake]
    with pytest.raises(ProblemError, match=words):
        change(groups())


def test_a_start_for_all_replaces_single_ones():
    changed = groups().with_start(A0=2.0)
    assert dict(changed.starts) == {}
    assert dict(groups().with_start(k=2.0).starts) == {"A0[b]": 5.0}
