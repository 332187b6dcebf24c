"""A data column that experiments set is a condition: checked, never fitted."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import odefit as of
from odefit.errors import MeasurementError, ProblemError

TEXT = "A' = -k*A\nk = k0*exp(-E*(1/T - 1/320))\nT = 320\nA(0) = 1"
MODEL = of.Model.from_text(TEXT)
PARAMETERS = (of.Parameter("k0", 0.5), of.Parameter("E", 900.0))
RUNS = {"b1": 310.0, "b2": 330.0, "b3": 340.0}
TIMES = np.linspace(0, 6, 11)


def experiments(**changes) -> tuple[of.Experiment, ...]:
    values = dict(RUNS) | changes
    return tuple(of.Experiment(name, (of.Period(0.0, {} if T is None else {"T": T}),)) for name, T in values.items())


def data(**temperatures) -> of.Measurements:
    """Return values of A, and of T where it is given, for every run."""
    rng = np.random.default_rng(3)
    columns: dict[str, list] = {"experiment": [], "time": [], "observable": [], "value": []}
    for name, T in RUNS.items():
        A = np.exp(-0.4 * np.exp(-1000 * (1 / T - 1 / 320)) * TIMES) + 0.01 * rng.normal(size=TIMES.size)
        for t, value in zip(TIMES, A, strict=True):
            for observable, one in (("A", value), ("T", temperatures.get(name))):
                if one is not None:
                    for column, cell in zip(columns.values(), (name, t, observable, one), strict=True):
                        column.append(cell)
    return of.Measurements(**columns)


def problem(measurements, **changes) -> of.Problem:
    return of.Problem(MODEL, PARAMETERS, measurements, experiments(**changes))


def test_statistics_are_those_of_the_data_without_the_column():
    with_column, without = (of.fit(problem(data(**given))) for given in (RUNS, {}))
    assert with_column.problem.observables == ("A",)
    assert with_column.n_data == without.n_data == 33
    assert with_column.dof == without.dof == 31
    assert with_column.standard_errors() == without.standard_errors()


def test_rounding_is_no_difference():
    assert len(problem(data(**{name: T * (1 + 1e-10) for name, T in RUNS.items()})).measurements) == 33


def test_a_value_that_differs():
    with pytest.raises(
        MeasurementError, match="'b2', time 0, 'T': the value is 331, but experiment 'b2' sets 'T' to 330; correct"
    ):
        problem(data(**RUNS | {"b2": 331.0}))


@pytest.mark.parametrize("value", ["160 + 5*b", "320 + 3*t", "320 + A"])
def test_an_expression_is_not_compared(value):
    model = of.Model.from_text(f"{TEXT}\nb = 2*E")
    made = of.Problem(model, PARAMETERS, data(**RUNS), experiments(b2=value))
    assert made.observables == ("A",)


def test_an_expression_that_is_a_number_is_compared():
    assert problem(data(**RUNS), b2="2*165").observables == ("A",)
    with pytest.raises(MeasurementError, match="the value is 330, but experiment 'b2' sets 'T' to 332"):
        problem(data(**RUNS), b2="2*166")


def test_an_experiment_that_does_not_set_it_has_the_number_of_the_model():
    assert problem(data(**RUNS | {"b2": 320.0}), b2=None).observables == ("A",)
    with pytest.raises(MeasurementError, match="the value is 330, but 'T' is 320; correct one"):
        problem(data(**RUNS), b2=None)


def test_an_experiment_that_does_not_set_it_measures_what_is_no_number():
    model = of.Model.from_text(TEXT.replace("T = 320", "T = 320 + 5*A"))
    made = of.Problem(model, PARAMETERS, data(**RUNS), experiments(b2=None))
    assert made.observables == ("A", "T")
    measured = made.measurements.experiment[made.measurements.observable == "T"]
    assert measured.tolist() == ["b2"] * 11


def test_nobody_sets_it():
    model = of.Model.from_text(TEXT.replace("T = 320", "T = 320 + 5*A"))
    made = of.Problem(model, PARAMETERS, data(**RUNS), tuple(of.Experiment(name) for name in RUNS))
    assert made.observables == ("A", "T")


def test_values_that_take_no_part_are_not_compared():
    measured = data(**RUNS)
    wrong = measured.observable == "T"
    for changes in (
        {"value": np.where(wrong, np.nan, measured.value)},
        {"value": np.where(wrong, 1.0, measured.value), "weight": np.where(wrong, 0.0, np.nan)},
    ):
        assert problem(dataclasses.replace(measured, **changes)).observables == ("A",)


def test_a_parameter_is_a_condition_too():
    model = of.Model.from_text(TEXT.replace("T = 320\n", ""))
    made = of.Problem(model, PARAMETERS, data(**RUNS), experiments())
    assert made.observables == ("A",)
    with pytest.raises(ProblemError, match="sets 'T' to 330"):
        of.Problem(model, PARAMETERS, data(**RUNS | {"b2": 331.0}), experiments())
    fixed = (*PARAMETERS, of.Parameter("T", 330.0, fixed=True))
    with pytest.raises(MeasurementError, match="since other experiments set it, but experiment 'b2' does not; set it"):
        of.Problem(model, fixed, data(**RUNS), experiments(b2=None))
    missing = {name: T for name, T in RUNS.items() if name != "b2"}
    assert of.Problem(model, fixed, data(**missing), experiments(b2=None)).observables == ("A",)


def test_an_initial_value_makes_no_condition():
    made = of.Problem(
        MODEL, PARAMETERS, data(), tuple(of.Experiment(name, (of.Period(0.0, {"A(0)": 1.0}),)) for name in RUNS)
    )
    assert made.observables == ("A",)


def test_groups_and_rows_of_the_other_values_stay():
    measured = data(**RUNS)
    gels = np.array([f"g{i}" for i in range(len(measured))], dtype=object)
    made = problem(dataclasses.replace(measured, groups={"gel": gels}))
    assert made.measurements.groups["gel"].tolist() == gels[::2].tolist()
    assert made.measurements.row.tolist() == list(range(0, 66, 2))
    again = made.with_start(k0=0.3)
    assert again.measurements.row.tolist() == list(range(0, 66, 2))


def test_data_of_an_experiment_that_is_not_described():
    with pytest.raises(ProblemError, match="an experiment 'b3', which is not described"):
        of.Problem(MODEL, PARAMETERS, data(**RUNS), experiments()[:2])
