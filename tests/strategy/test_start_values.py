"""Start values from the data by integral matching."""

from __future__ import annotations

import re

import numpy as np
import pytest

import odefit as of
from odefit.gallery import load
from odefit.strategy.matching_model import matching_models
from odefit.strategy.start_values import matched_start

T = np.linspace(0, 4, 21)
CHAIN = """
A' = -k1*A
B' = k1*A - k2*B
C' = k2*B
A(0) = 1
B(0) = 0
C(0) = 0
"""
CHAIN_VALUES = {
    "A": np.exp(-0.8 * T),
    "B": 0.8 / (0.3 - 0.8) * (np.exp(-0.8 * T) - np.exp(-0.3 * T)),
}
CHAIN_VALUES["C"] = 1 - CHAIN_VALUES["A"] - CHAIN_VALUES["B"]


def chain(measured, text=CHAIN, times=T, **parameters):
    columns = {name: CHAIN_VALUES[name][: times.size] if times is T else CHAIN_VALUES[name][times] for name in measured}
    data = of.Measurements.from_columns(T if times is T else T[times], columns)
    given = {"k1": {}, "k2": {}} | parameters
    return of.Problem(
        model=of.Model.from_text(text),
        parameters=[of.Parameter(name, **({"start": 50.0} | options)) for name, options in given.items()],
        measurements=data,
    )


def values_of(problem, names=None):
    return matched_start(problem, names or [p.name for p in problem.free])[1]


def test_exact_data_give_nearly_the_exact_constants():
    found = values_of(chain("ABC"))
    assert found.values == pytest.approx({"k1": 0.8, "k2": 0.3}, rel=2e-3)
    assert "linear least squares" in found.used
    assert not found.missing
    assert not found.moved


def test_the_error_falls_with_the_distance_of_the_data():
    error = []
    for n in (11, 21, 41):
        t = np.linspace(0, 4, n)
        data = of.Measurements.from_columns(t, {"A": np.exp(-0.8 * t)})
        model = of.Model.from_text("A' = -k*A\nA(0) = 1")
        problem = of.Problem(model=model, parameters=[of.Parameter("k", 9.0)], measurements=data)
        error.append(abs(values_of(problem).values["k"] - 0.8))
    order = np.log2(np.array(error[:-1]) / error[1:])
    assert (order > 1.8).all()  # PCHIP is of second order at least


def test_linear_values_do_not_depend_on_the_start():
    near, far = chain("ABC").with_start(k1=1, k2=1), chain("ABC").with_start(k1=-1e3, k2=1e6)
    assert values_of(near).values == pytest.approx(values_of(far).values, rel=1e-9)


@pytest.mark.parametrize("measured", ["AB", "AC", "BC"])
def test_a_state_is_completed_by_conservation(measured):
    found = values_of(chain(measured))
    assert found.values == pytest.approx({"k1": 0.8, "k2": 0.3}, rel=0.02)
    assert "conservation" in found.used


def test_hidden_states_are_integrated():
    found = values_of(chain("C", k1={"start": 5.0, "lower": 0.0}, k2={"start": 2.0, "lower": 0.0}))
    assert sorted(found.values.values()) == pytest.approx([0.3, 0.8], rel=0.05)  # the two are interchangeable
    assert "integrated" in found.used


def test_conserved_relations_are_found_numerically():
    [model] = matching_models(load("pyridine"))
    w = model.conserved(0.0, 5.0)
    assert w.shape == (2, 7)
    for row in ([1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 2, 2, 0, 1]):
        np.testing.assert_allclose(w.T @ (w @ row), row, atol=1e-8)


def test_affinity_is_seen_in_the_equations():
    [model] = matching_models(chain("A", "A' = -k1*A/(k2 + A)\nA(0) = 1"))
    np.testing.assert_array_equal(model.pairs, [[False, True], [True, True]])
    [model] = matching_models(chain("ABC"))
    assert not model.pairs.any()


def test_a_nonlinear_parameter_is_found():
    t = np.linspace(0, 20, 41)
    model = of.Model.from_text("V' = c*(V - V^3/3 + R)\nR' = -(V - a + b*R)/c\nV(0) = -1\nR(0) = 1")
    names = ("a", "b", "c")
    blank = of.Measurements.from_columns(t, {"V": t, "R": t})
    parameters = [of.Parameter(n, 5.0, lower=1e-3, upper=100.0) for n in names]
    problem = of.Problem(model=model, parameters=parameters, measurements=blank)
    frame = of.simulate(problem, {"a": 0.2, "b": 0.2, "c": 3.0}, times=t)
    data = of.Measurements.from_columns(t, {"V": frame["V"].to_numpy(), "R": frame["R"].to_numpy()})
    result = of.fit(problem.with_measurements(data), start="auto")
    assert result.converged
    assert result.estimates == pytest.approx({"a": 0.2, "b": 0.2, "c": 3.0}, rel=1e-5)


@pytest.mark.parametrize("name", ["lotka_volterra_iss", "barnes", "barnes/b", "pyridine", "arrhenius", "bioprocess"])
def test_gallery_problems_reach_their_minimum_from_any_start(name):
    problem = load(name)
    poor = problem.with_start(**{p.name: 3.0 * p.start for p in problem.free if p.upper > 3.0 * p.start})
    result = of.fit(poor, start="auto")
    assert result.objective == pytest.approx(of.fit(problem).objective, rel=1e-3, abs=1e-8)
    assert result.start_values is not None
    assert result.to_dict()["start_values"] == result.start_values.text


def test_initial_values_are_matched_to_data_and_run_back():
    text = CHAIN.replace("A(0) = 1", "A(0) = a0")
    found = values_of(chain("ABC", text, np.arange(2, 21), a0={"start": 7.0}))
    assert found.values["a0"] == pytest.approx(1.0, rel=0.02)
    at_start = values_of(chain("ABC", text, a0={"start": 7.0}))
    assert at_start.values["a0"] == pytest.approx(1.0, rel=1e-12)


def test_single_parameters_are_auto_in_a_problem_file(tmp_path):
    (tmp_path / "d.csv").write_text("time,A\n" + "".join(f"{t},{np.exp(-0.8 * t)}\n" for t in T))
    text = """
    [model]
    equations = "A' = -k*A + s\\nA(0) = 1"
    [parameters]
    k = { start = "auto", scale = "log", upper = 0.9 }
    s = 0
    [data]
    file = "d.csv"
    """
    (tmp_path / "p.toml").write_text(text)
    problem = of.load(tmp_path / "p.toml")
    result = of.fit(problem)
    assert list(result.start_values.values) == ["k"]
    assert result.estimates["k"] == pytest.approx(0.8, rel=1e-3)
    problem.save(tmp_path / "again.toml")
    assert of.load(tmp_path / "again.toml").parameters == problem.parameters
    assert not problem.with_start(k=0.5).parameters[0].auto


def test_the_setting_in_the_file_counts():
    problem = chain("ABC").with_settings(start="auto")
    assert of.fit(problem).start_values is not None
    assert of.fit(problem, start="given").start_values is None
    with pytest.raises(of.ProblemError, match="given"):
        chain("ABC").with_settings(start="automatic")


def test_bounds_that_exclude_the_matched_value_are_named():
    found = values_of(chain("ABC", k1={"start": 2.0, "lower": 1.5, "upper": 3.0}))
    assert 1.5 <= found.values["k1"] <= 3.0
    assert re.search(r"The data suggest 0\.\d+ for 'k1', outside its bounds \[1.5, 3\]", found.text)
    problem, _ = matched_start(chain("ABC", k1={"start": 2.0, "lower": 1.5, "upper": 3.0}), ["k1", "k2"])
    result = of.fit(problem)
    assert result.parameters["k1"].verdict == "at its bound"


def test_an_initial_value_outside_its_bounds_is_moved_and_named():
    text = CHAIN.replace("A(0) = 1", "A(0) = a0")
    found = values_of(chain("ABC", text, a0={"start": 7.0, "lower": 5.0, "upper": 9.0}))
    assert "The data suggest 1 for 'a0', outside its bounds [5, 9]" in found.text
    assert 5.0 < found.values["a0"] < 9.0


def test_parameters_that_the_data_say_nothing_of_are_named():
    text = CHAIN.replace("B(0) = 0", "B(0) = 0*b0 + 0\nD' = -k3*D + k4*0\nD(0) = d0")
    found = values_of(chain("ABC", text, b0={}, k3={}, k4={}, d0={}))
    assert found.values == pytest.approx({"k1": 0.8, "k2": 0.3}, rel=0.01)
    assert found.missing.keys() == {"b0", "k3", "k4", "d0"}
    scaled = values_of(chain("A", "A' = -k1*A\nA(0) = 1\nsignal = k2*A"))
    assert "no equation" in scaled.missing["k2"]


def test_indistinguishable_parameters_keep_their_start():
    found = values_of(chain("A", "A' = -(k1 + k2)*A\nA(0) = 1"))
    assert found.missing.keys() == {"k1", "k2"}
    assert "apart from others" in found.text


def test_an_observable_with_an_unknown_factor_cannot_be_used():
    data = of.Measurements.from_columns(T, {"signal": 3 * CHAIN_VALUES["A"]})
    model = of.Model.from_text("A' = -k*A\nA(0) = 1\nsignal = s*A")
    problem = of.Problem(model=model, parameters=[of.Parameter("k", 1.0), of.Parameter("s", 2.0)], measurements=data)
    result = of.fit(problem, start="auto")
    assert "'signal' has a factor or offset that is itself unknown" in result.start_values.text
    assert any(notice.code == "start.values" for notice in result.warnings)
    assert result.estimates == pytest.approx({"k": 0.8, "s": 3.0}, rel=1e-4)
    with_factor = values_of(problem.with_start(s=3.0), ["k"])  # a given factor is a known one
    assert with_factor.values["k"] == pytest.approx(0.8, rel=2e-3)


def test_two_data_are_enough_for_a_rough_value_and_said_to_be_few():
    found = values_of(chain("ABC", times=np.array([5, 10])))
    assert found.values == pytest.approx({"k1": 0.8, "k2": 0.3}, rel=0.3)
    assert "very few data of A, B, C" in found.text


def test_log_parameters_at_zero_start_where_the_data_can_tell():
    problem = chain("ABC", CHAIN.replace("k2*B", "k2*B - 0*k3*C").replace("-k1*A\n", "-k1*A + k3*C\n", 1), k3={})
    logs = of.Problem(
        model=problem.model,
        parameters=[of.Parameter(p.name, p.start, scale="log") for p in problem.parameters],
        measurements=problem.measurements,
    )
    found = values_of(logs)
    assert all(value > 0 for value in found.values.values())
    assert found.values["k3"] < 0.05
