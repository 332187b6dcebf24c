"""Cells that hold a number or the name of a parameter: what they come to, and what is refused."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest

import odefit as of
from odefit.errors import MeasurementError, OdefitError, ProblemError, UnsupportedError
from odefit.problem.cells import cells_of, names_of_cells, numbers_in

NAN = float("nan")
MODEL = of.Model.from_text("A' = -k*A\nA(0) = 1\ny = s*A + o\nz = 2*A")
K, S1, S2 = of.Parameter("k", 0.5), of.Parameter("s1", 1.0), of.Parameter("s2", 2.0)
FIXED = of.Parameter("e1", 0.1, fixed=True)
BASE = {"experiment": ["main"] * 3, "time": [0.0, 1.0, 2.0], "observable": ["y", "y", "z"], "value": [1.0, 0.6, 0.8]}


def measured(**changes) -> of.Measurements:
    arguments = {"s": ["s1", "s2", ""], "o": [0.0, 0.1, None]}
    return of.Measurements(**({**BASE, "arguments": arguments} | changes))


def problem(data=None, parameters=(K, S1, S2), **others) -> of.Problem:
    return of.Problem(others.pop("model", MODEL), parameters, measured() if data is None else data, **others)


def test_cells_are_numbers_names_and_nothing():
    given = ["k", " s1 ", "2.5", 3, np.float32(0.5), None, NAN, "", "nan", "1_0", "µ", True]
    cells = cells_of("s", given)
    assert cells.tolist() == ["k", "s1", 2.5, 3.0, 0.5, "", "", "", "", "1_0", "μ", 1.0]
    np.testing.assert_array_equal(numbers_in(cells), [NAN, NAN, 2.5, 3, 0.5, *[NAN] * 6, 1])
    assert names_of_cells(cells).tolist() == ["k", "s1", *[""] * 7, "1_0", "μ", ""]
    # NumPy makes text of an array of both
    assert cells_of("s", np.array(["k", 2.0])).tolist() == ["k", 2.0]
    with pytest.raises(ProblemError, match=r"column 's' holds \[1\], which is neither a number nor the name"):
        cells_of("s", [[1]])


def test_measurements_are_values():
    data = measured(sigma=["e1", 0.2, NAN])
    assert data.named == {"s1", "s2", "e1"}
    assert data.sigma_names.tolist() == ["e1", "", ""]
    np.testing.assert_array_equal(data.sigma_numbers, [NAN, 0.2, NAN])
    assert data.has_sigma.tolist() == [True, True, False]
    assert data == measured(sigma=["e1", 0.2, ""]) == pickle.loads(pickle.dumps(data)) == copy.deepcopy(data)
    assert data != measured(sigma=["e2", 0.2, NAN])
    assert data != measured(sigma=["e1", 0.2, NAN], arguments={"s": ["s1", "s1", ""], "o": [0.0, 0.1, None]})
    with pytest.raises(ValueError, match="read-only"):
        data.arguments["s"][0] = "s2"
    some = data.selected(np.array([False, True, True]))
    assert some.arguments["s"].tolist() == ["s2", ""]
    assert some.sigma.dtype == float
    assert dataclasses.replace(data, sigma=[0.1, 0.1, 0.1]).sigma.dtype == float
    with pytest.raises(ProblemError, match="column 's' has 2 entries but there are 3 values"):
        measured(arguments={"s": ["s1", "s2"]})


def test_wide_columns():
    data = of.Measurements.from_columns(
        [0, 1], {"y": [1, 2], "z": [3, 4]}, sigma={"y": "e1", "z": [0.1, "e2"]}, arguments={"s": ["s1", 2], "o": "k"}
    )
    assert data.sigma.tolist() == ["e1", 0.1, "e1", "e2"]
    assert data.arguments["s"].tolist() == ["s1", "s1", 2.0, 2.0]
    assert data.arguments["o"].tolist() == ["k"] * 4
    with pytest.raises(ProblemError, match="the argument 's' has 3 entries but there are 2 times"):
        of.Measurements.from_columns([0, 1], {"y": [1, 2]}, arguments={"s": ["a", "b", "c"]})


REFUSED_CELLS = {
    "unknown": (["s3", "s2", ""], "time 0, 'y': its argument 's' is 's3', which is no number and no parameter"),
    "nothing alike": (["qqqq", "s2", ""], "its argument 's' is 'qqqq', which is no number and no parameter"),
    "state": (["A", "s2", ""], "is 'A', a state or definition of the model; a cell holds a number or the name of a pa"),
    "definition": (["s1", "z", ""], "is 'z', a state or definition of the model"),
    "time": (["t", "s2", ""], "is 't', the independent variable"),
    "another argument": (["o", "s2", ""], "is 'o', which is no number and no parameter"),
    "unknown where it is not needed": (["s1", "s2", "s9"], "time 2, 'z': its argument 's' is 's9'"),
    "empty": (["s1", "", ""], "time 1, 'y': its argument 's' is missing, but 'y' depends on it"),
    "infinite": (["s1", np.inf, ""], "time 1, 'y': its argument 's' is infinite"),
}


@pytest.mark.parametrize("mistake", REFUSED_CELLS)
def test_cells_that_are_refused(mistake):
    cells, message = REFUSED_CELLS[mistake]
    with pytest.raises(MeasurementError, match=message):
        problem(measured(arguments={"s": cells, "o": ["s1", "s2", 0]}), (K, S1, S2))


def test_the_nearest_parameter_is_suggested_though_nothing_else_names_it():
    data = of.Measurements(["main"], [1], ["y"], [1], arguments={"s": ["scale"], "o": [0]})
    with pytest.raises(MeasurementError, match="'scale', which is no number and no parameter; did you mean 'scale1'"):
        problem(data, (K, of.Parameter("scale1", 1.0)))


def test_an_argument_may_be_called_sigma():
    data = of.Measurements(["main"] * 2, [0, 1], ["y"] * 2, [1, 1], sigma=[1, "e1"], arguments={"sigma": [2, "e1"]})
    made = of.Problem(of.Model.from_text("A' = -k*A\nA(0) = 1\ny = sigma*A"), (K, FIXED), data)
    np.testing.assert_allclose(made.evaluate().residuals, [1, np.exp(-0.5) - 10], rtol=1e-6)
    with pytest.raises(MeasurementError, match="its argument 'sigma' is 'e2'"):
        made.with_measurements(dataclasses.replace(data, arguments={"sigma": [2, "e2"]}))


def test_values_that_take_no_part_need_no_cell():
    data = of.Measurements(
        ["main"] * 3, [0, 1, 2], ["y"] * 3, [1, NAN, 3], weight=[1, 1, 0], arguments={"s": ["s1", "", ""], "o": [0] * 3}
    )
    made = problem(data, (K, S1))
    assert made.evaluate().residuals.size == 1
    # an experiment may replace what would need it
    model = of.Model.from_text("A' = -k*A\nA(0) = 1\ny = gain*A\ngain = s")
    runs = (of.Experiment("main", (of.Period(0.0, {"gain": 2.0}),)),)
    data = of.Measurements(["main"], [1], ["y"], [1], arguments={"s": [""]})
    assert problem(data, (K,), model=model, experiments=runs).evaluate().residuals == pytest.approx(
        2 * np.exp(-0.5) - 1, rel=1e-6
    )


SYMBOLS = {
    "parameter": ({"parameters": (K, S1, S2, of.Parameter("s", 1.0))}, "'s' is an argument of the data, and also a pa"),
    "state": ({"arguments": {"A": ["s1", "s2", 1]}}, "'A' is an argument .* also a name with an equation of its own"),
    "definition": ({"arguments": {"z": ["s1", "s2", 1]}}, "'z' is an argument .* also a name with an equation of its"),
    "time": (
        {"arguments": {"t": ["s1", "s2", 1]}},
        "'t' is an argument of the data, and also the independent variable",
    ),
    "experiment": (
        {"experiments": (of.Experiment("main", (of.Period(0.0, {"s": 2.0}),)),)},
        "'s' is an argument of the data, and also set by experiment 'main'; its value is in the cells of the rows",
    ),
    "unused": (
        {"arguments": {"S": ["s1", "s2", 1]}},
        r"the argument 'S' of the data does not occur in the equations or in \[noise\]",
    ),
    "alike": (
        {"arguments": {"o": [0, 0, 0], "scal": [1, 1, 1]}, "noise": {"y": "scale", "z": 1.0}},
        "unknown name 'scale'; did you mean 'scal'",
    ),
    "derived": (
        {"derived": {"d": "2*s"}},
        "the derived quantity 'd' uses 's', an argument of the data, which has a va",
    ),
    "derived by a definition": ({"derived": {"d": "y"}}, "uses '(o|s)', an argument of the data|uses the state 'A'"),
    "rule": ({"constraints": ("s/k ~ normal(1, 1)",)}, "uses 's', an argument of the data"),
    "unused parameter": (
        {"parameters": (K, S1, S2, FIXED)},
        "parameter 'e1' does not occur in the equations or in cells of the data",
    ),
}


@pytest.mark.parametrize("mistake", SYMBOLS)
def test_symbols_that_are_refused(mistake):
    changes, message = SYMBOLS[mistake]
    changes = dict(changes)
    arguments = {"s": ["s1", "s2", ""], "o": [0, 0, 0]} | changes.pop("arguments", {})
    with pytest.raises(OdefitError, match=message):
        problem(measured(arguments=arguments), changes.pop("parameters", (K, S1, S2)), **changes)


def test_states_cannot_depend_on_arguments():
    model = of.Model.from_text("A' = -k*s*A\nA(0) = 1")
    data = of.Measurements(["main"], [1], ["A"], [1], arguments={"s": ["s1"]})
    with pytest.raises(ProblemError, match="equation of 'A' uses 's', which has a different value for single measure"):
        problem(data, (K, S1), model=model).evaluate()
    model = of.Model.from_text("A' = -k*A\nA(0) = s")
    with pytest.raises(ProblemError, match=r"'A\(0\)' depends on 's', which has a different value for single measure"):
        problem(data, (K, S1), model=model).evaluate()


def test_what_changes_in_time_is_no_argument():
    data = of.Measurements(["main"], [1], ["y"], [1], arguments={"s": ["s1"], "o": [0]})
    events = of.Model.from_text("A' = -k*A + 0*s1\nA(0) = 1\ny = s*A + o\nat t=0.5: s1 = 3")
    with pytest.raises(MeasurementError, match="its argument 's' is 's1', which an event changes"):
        problem(data, (K, S1), model=events)
    events = of.Model.from_text("A' = -k*A\nA(0) = 1\ny = s*A + o\nat t=0.5: s = 3")
    with pytest.raises(ProblemError, match="'s' is an argument of the data, and also changed by an event"):
        problem(data, (K, S1), model=events)
    runs = (of.Experiment("main", (of.Period(0.0, {"s1": "1 + t"}),)),)
    model = of.Model.from_text("A' = -k*A\nA(0) = 1\ny = s*A + o\nw = s1*A")
    with pytest.raises(MeasurementError, match="is 's1', which changes along the trajectory of experiment 'main'"):
        problem(data, (K, S1), model=model, experiments=runs)


def test_simulations_show_what_does_not_depend_on_the_row():
    frame = of.simulate(problem(), times=[0.0, 1.0])
    assert [*frame.columns] == ["experiment", "time", "A", "z"]


def test_other_data_may_have_other_cells():
    made = problem()
    other = made.with_measurements(measured(arguments={"s": [3.0, "s1", ""], "o": ["s2", 0, ""]}))
    assert other.evaluate().residuals == pytest.approx([4.0, np.exp(-0.5) - 0.6, 2 * np.exp(-1.0) - 0.8], abs=1e-6)
    with pytest.raises(MeasurementError, match="its argument 's' is 'q'"):
        made.with_measurements(measured(arguments={"s": [3.0, "q", ""], "o": [0, 0, 0]}))
    with pytest.raises(ProblemError, match="'o' is used in the equations but has no value"):
        made.with_measurements(measured(arguments={"s": [3.0, "s1", "s2"]}))
    with pytest.raises(ProblemError, match="the argument 'w' of the data does not occur"):
        made.with_measurements(measured(arguments={"s": [3.0, "s1", "s2"], "o": [0, 0, 0], "w": [1, 1, 1]}))


def test_other_arguments_where_doses_are_given_over_some_time():
    runs = (of.Experiment("main", events=(of.Dose(0.0, "A", 1.0, duration=0.5),)),)
    made = problem(experiments=runs)
    other = made.with_measurements(of.Measurements(["main"], [1], ["z"], [1], arguments={"s": [1], "o": ["s1"]}))
    with pytest.raises(ProblemError, match="'s' is used in the equations"):
        made.with_measurements(of.Measurements(["main"], [1], ["z"], [1], arguments={"o": ["s1"]}))
    assert other.evaluate().residuals.size == 1


# standard deviations


def deviations(cells, parameters, **others) -> of.Problem:
    n = len(cells)
    data = of.Measurements(
        others.pop("experiment", ["main"] * n),
        np.arange(n),
        ["z"] * n,
        np.ones(n),
        sigma=cells,
        **others.pop("columns", {}),
    )
    return of.Problem(of.Model.from_text("A' = -k*A\nA(0) = 1\nz = 2*A"), (K, *parameters), data, **others)


def test_standard_deviations_are_numbers_and_parameters():
    parameters = [
        FIXED,
        of.Parameter("run", 0.3, per="experiment", fixed=True),
        of.Parameter("gel", 0.4, per="gel", fixed=True),
        of.Parameter("sum", expression="e1 + run"),
    ]
    made = deviations(
        [0.5, "e1", "run", "gel", "sum", "run", "gel", "sum"],
        parameters,
        experiment=["one"] * 5 + ["two"] * 3,
        columns={"groups": {"gel": ["a", "b", "a", "b", "a", "b", "a", "b"]}},
        experiments=(of.Experiment("one"), of.Experiment("two")),
        starts={"run[two]": 0.7, "gel[a]": 0.2},
    )
    np.testing.assert_allclose(made.sigma, [0.5, 0.1, 0.3, 0.4, 0.4, 0.7, 0.2, 0.8], rtol=1e-14)
    other = made.with_start(e1=0.2, **{"run[one]": 0.6})
    np.testing.assert_allclose(other.sigma, [0.5, 0.2, 0.6, 0.4, 0.8, 0.7, 0.2, 0.9], rtol=1e-14)
    assert made.evaluate().residuals.size == 8


@pytest.mark.parametrize("seed", range(3))
def test_standard_deviations_in_cells_are_those_of_noise_written_by_hand(seed):
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 3, 30))
    names = rng.choice(["e1", "e2", "e3", "0.05"], 30)
    size = {"e1": 0.02, "e2": 0.1, "e3": 0.04, "0.05": 0.05}
    value = np.exp(-0.5 * t) + [size[name] * rng.normal() for name in names]
    parameters = [
        K,
        of.Parameter("e1", 0.02, fixed=True),
        of.Parameter("e2", 0.1, fixed=True),
        of.Parameter("e3", expression="2*e1"),
    ]
    decay = "A' = -k*A\nA(0) = 1\n"
    one = of.Problem(
        of.Model.from_text(decay), parameters, of.Measurements.from_columns(t, {"A": value}, sigma={"A": names})
    )
    kinds = {name: f"A_{i}" for i, name in enumerate(size)}
    other = of.Problem(
        of.Model.from_text(decay + "\n".join(f"{name} = A" for name in kinds.values())),
        parameters,
        of.Measurements(["main"] * 30, t, [kinds[name] for name in names], value),
        noise={kinds[name]: name for name in kinds},
    )
    mine, theirs = of.fit(one), of.fit(other)
    np.testing.assert_array_equal(one.sigma, [size[name] for name in names])
    assert mine.chi2 == pytest.approx(theirs.chi2, rel=1e-10)
    assert mine.loglik == pytest.approx(theirs.loglik, rel=1e-10)
    assert mine.standard_errors() == pytest.approx(theirs.standard_errors(), rel=1e-8)


def test_arguments_of_noise():
    """An argument that only [noise] uses, beside one that equations and [noise] use."""
    data = of.Measurements(
        ["main"] * 3,
        [0.0, 1.0, 2.0],
        ["y"] * 3,
        [1.0, 1.0, 1.0],
        arguments={"s": [1, "c", 3], "w": ["e1", 0.2, "twice"]},
    )
    parameters = (
        K, of.Parameter("c", 2.0, fixed=True), FIXED, of.Parameter("twice", expression="2*e1")
    )  # fmt: skip
    made = of.Problem(of.Model.from_text("A' = -k*A\nA(0) = 1\ny = s*A"), parameters, data, noise={"y": "w*s + 0.01*t"})
    np.testing.assert_allclose(made.sigma, [0.1, 0.41, 0.62], rtol=1e-14)
    root = made.evaluate().residuals * made.sigma
    np.testing.assert_allclose(root, np.array([1, 2, 3]) * np.exp(-0.5 * np.arange(3)) - 1, atol=1e-6)
    empty = dataclasses.replace(data, arguments={"s": [1, "c", 3], "w": ["e1", "", 1]})
    with pytest.raises(MeasurementError, match="time 1, 'y': its argument 'w' is missing, but 'y' depends on it"):
        made.with_measurements(empty)
    own = dataclasses.replace(empty, sigma=[NAN, 0.3, NAN])  # a sigma of its own needs none
    np.testing.assert_allclose(made.with_measurements(own).sigma, [0.1, 0.3, 3.02], rtol=1e-14)
    with pytest.raises(UnsupportedError, match="sigma that depends on the estimated parameter 'c' .*time 1, 'y'"):
        made.with_free("c")


WRONG = {
    "unknown": (["e2", 1.0], [FIXED], "time 0, 'z': its sigma is 'e2', which is no number and no parameter"),
    "zero": (["e1", 0.0], [FIXED], "time 1, 'z': its sigma is 0; a standard deviation is positive"),
    "negative": ([-1.0, "e1"], [FIXED], "time 0, 'z': its sigma is -1; a standard deviation is positive"),
    "a state": (["A", "e1"], [FIXED], "its sigma is 'A', a state or definition of the model"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_standard_deviations_that_are_refused(mistake):
    cells, parameters, message = WRONG[mistake]
    with pytest.raises(MeasurementError, match=message):
        deviations(cells, parameters)


def test_parameters_that_are_no_standard_deviations():
    for start in (0.0, -0.1):
        made = deviations([1.0, "e"], [of.Parameter("e", start, fixed=True)])
        with pytest.raises(
            MeasurementError, match=f"time 1, 'z': its sigma, the parameter 'e', is {start:g}; a standard"
        ):
            of.fit(made)
    made = deviations([1.0, "e"], [of.Parameter("e", 1.0, fixed=True)]).with_start(e=-2.0)
    with pytest.raises(MeasurementError, match="the parameter 'e', is -2"):
        of.fit(made)


def test_estimated_standard_deviations_are_not_offered_yet():
    with pytest.raises(
        UnsupportedError, match=r"estimated parameter 'e' \(experiment 'main', time 1, 'z'\); fix the pa"
    ):
        deviations([1.0, "e"], [of.Parameter("e", 1.0, lower=0.0)])
    twice = of.Parameter("twice", expression="2*e")
    with pytest.raises(UnsupportedError, match="the estimated parameter 'e' through 'twice'"):
        deviations(["twice", 1.0], [of.Parameter("e", 1.0), twice])
    made = deviations(["twice", 1.0], [of.Parameter("e", 1.0, fixed=True), twice])
    with pytest.raises(UnsupportedError, match="the estimated parameter 'e' through 'twice'"):
        made.with_free("e")


def test_sigma_and_weight():
    with pytest.raises(MeasurementError, match="time 0, 'z': it has both a sigma and a weight"):
        deviations(["e1", 1.0], [FIXED], columns={"weight": [2.0, NAN]})
    made = deviations(["e1", "e1", 1.0], [FIXED], columns={"weight": [0.0, np.inf, NAN]})
    assert made.evaluate().residuals.size == 2
    # what is given to a value has precedence over [noise]
    made = deviations(["e1", NAN], [FIXED], noise={"z": 3.0})
    np.testing.assert_array_equal(made.sigma, [0.1, 3.0])
