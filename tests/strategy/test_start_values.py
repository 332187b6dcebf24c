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


def by_hand(t, measured, terms, lower=-np.inf, upper=np.inf):
    """Integral matching without odefit: dense trapezoids through PCHIP, differences of neighbouring data.

    `terms[k](t, y)` is the contribution (n,) of parameter k to the rates of the measured states; the known initial
    value at t[0] has a twentieth of the standard deviation of the others.
    """
    from scipy.interpolate import PchipInterpolator
    from scipy.optimize import lsq_linear

    curve = PchipInterpolator(t, measured)
    columns = []
    for term in terms:
        parts = []
        for a, b in zip(t[:-1], t[1:], strict=True):
            s = np.linspace(a, b, 2001)
            parts.append(np.trapezoid(np.array([term(x, y) for x, y in zip(s, curve(s), strict=True)]), s, axis=0))
        columns.append(np.array(parts))
    sigma = np.append(0.05, np.ones(t.size - 1))
    weight = 1 / np.sqrt(sigma[1:] ** 2 + sigma[:-1] ** 2)
    a = np.stack([(c * weight[:, None]).ravel() for c in columns], axis=1)
    return lsq_linear(a, (np.diff(measured, axis=0) * weight[:, None]).ravel(), (lower, upper)).x


def test_matched_values_are_those_of_an_independent_computation():
    noise = 0.02 * np.random.default_rng(3).standard_normal((T.size, 2))
    measured = np.stack([CHAIN_VALUES["A"], CHAIN_VALUES["B"]], axis=1) + noise
    measured[0] = [1, 0]
    text = "A' = -k1*A\nB' = k1*A - k2*B\nA(0) = 1\nB(0) = 0"
    data = of.Measurements.from_columns(T, {"A": measured[:, 0], "B": measured[:, 1]})
    problem = of.Problem(
        model=of.Model.from_text(text), parameters=[of.Parameter(n, 9.0) for n in ("k1", "k2")], measurements=data
    )
    terms = (lambda t, y: np.array([-y[0], y[0]]), lambda t, y: np.array([0, -y[1]]))
    expected = by_hand(T, measured, terms)
    assert list(values_of(problem).values.values()) == pytest.approx(expected, rel=1e-4)


def test_matched_values_within_bounds_are_those_of_an_independent_computation():
    noise = 0.03 * np.random.default_rng(5).standard_normal((T.size, 1))
    measured = CHAIN_VALUES["A"][:, None] + noise
    measured[0] = 1
    data = of.Measurements.from_columns(T, {"A": measured[:, 0]})
    text = "A' = -k1*A + k2*A^2 + k3\nA(0) = 1"  # k2 and k3 are zero
    names = ("k1", "k2", "k3")
    parameters = [of.Parameter(n, 9.0, lower=0.0) for n in names]
    problem = of.Problem(model=of.Model.from_text(text), parameters=parameters, measurements=data)
    terms = (lambda t, y: -y, lambda t, y: y**2, lambda t, y: np.ones(1))
    expected = by_hand(T, measured, terms, 0.0)
    assert min(expected) < 1e-6  # the bounds count
    found = values_of(problem)
    assert list(found.values.values()) == pytest.approx(expected, rel=1e-4, abs=2e-3)
    assert "within bounds" in found.used


def test_a_measured_combination_is_matched_like_the_states_themselves():
    text = CHAIN + "total = A + B\ntwice = 2*A - 1"
    columns = {"total": CHAIN_VALUES["A"] + CHAIN_VALUES["B"], "twice": 2 * CHAIN_VALUES["A"] - 1}
    data = of.Measurements.from_columns(T, columns)
    parameters = [of.Parameter(n, 50.0) for n in ("k1", "k2")]
    found = values_of(of.Problem(model=of.Model.from_text(text), parameters=parameters, measurements=data))
    assert found.values == pytest.approx({"k1": 0.8, "k2": 0.3}, rel=5e-3)
    assert "linear" in found.used


def decay(values=None, text="A' = -k*A\nA(0) = 1", **parameters):
    data = of.Measurements.from_columns(T, values or {"A": CHAIN_VALUES["A"]})
    listed = [of.Parameter(name, **options) for name, options in parameters.items()]
    return of.Problem(model=of.Model.from_text(text), parameters=listed, measurements=data)


NOISY = {"A": CHAIN_VALUES["A"] + 0.02 * np.random.default_rng(2).standard_normal(T.size)}
EXCLUDED = {
    "above": ({"start": 2.0, "lower": 1.2, "upper": 3.0}, r"\[1.2, 3\]"),
    "below": ({"start": 0.1, "lower": 0.01, "upper": 0.2}, r"\[0.01, 0.2\]"),
    "sign": ({"start": -0.1, "upper": 0.0}, r"\[-inf, 0\]"),
}


@pytest.mark.parametrize("case", EXCLUDED)
def test_bounds_that_exclude_a_noisy_match_are_named_on_either_side(case):
    options, bounds = EXCLUDED[case]
    result = of.fit(decay(NOISY, k=options), start="auto")
    assert re.search(rf"The data suggest 0\.[78]\d* for 'k', outside its bounds {bounds}", result.start_values.text)
    assert any(n.code == "start.values" and "outside its bounds" in n.text for n in result.warnings)
    assert result.parameters["k"].verdict == "at its bound"


def test_a_log_scale_that_excludes_the_match_is_named():
    found = values_of(decay(NOISY, "A' = k*A\nA(0) = 1", k={"start": 1.0, "scale": "log"}))
    assert re.search(r"The data suggest -0\.[78]\d* for 'k', outside its bounds \[0, inf\]", found.text)
    assert found.values["k"] > 0


def test_a_value_that_noise_puts_outside_its_bounds_is_not_called_excluded():
    problem = decay(NOISY, "A' = -k*A - m*A^2\nA(0) = 1", k={"start": 1.0}, m={"start": 1.0, "lower": 0.0})
    free = values_of(decay(NOISY, "A' = -k*A - m*A^2\nA(0) = 1", k={"start": 1.0}, m={"start": 1.0}))
    assert free.values["m"] != 0
    assert not values_of(problem).moved


def test_bounds_that_exclude_a_nonlinear_match_are_named():
    from scipy.integrate import solve_ivp

    s = solve_ivp(lambda t, y: -1.2 * y / (0.7 + y), (0, 4), [3.0], t_eval=T, rtol=1e-9, atol=1e-12).y[0]
    problem = decay(
        {"S": s}, "S' = -V*S/(K + S)\nS(0) = 3",
        V={"start": 0.1, "lower": 0.0, "upper": 0.5}, K={"start": 0.3, "lower": 0.1, "upper": 5.0},
    )  # fmt: skip
    assert "The data suggest a value above 0.5 for 'V', outside its bounds [0, 0.5]" in values_of(problem).text


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e12])
def test_matching_does_not_depend_on_units(unit):
    from scipy.integrate import solve_ivp

    s = solve_ivp(lambda t, y: -1.2 * y / (0.7 + y), (0, 4), [3.0], t_eval=T, rtol=1e-9, atol=1e-12).y[0]
    for text, values in (
        (f"S' = -V*S/(K + S)\nS(0) = {3 * unit}", {"S": unit * s}),
        (f"S' = -V*S/(K + S)\nP' = V*S/(K + S) - 0.1*P\nS(0) = {3 * unit}\nP(0) = 0", {"S": unit * s}),
    ):
        start = {"start": 30 * unit, "lower": 0.0}
        found = values_of(decay(values, text, V=start, K=start)).values
        assert found == pytest.approx({"V": 1.2 * unit, "K": 0.7 * unit}, rel=0.03)


def test_a_product_is_matched_and_said_to_be_tied():
    found = values_of(decay(None, "A' = -k*m*A\nA(0) = 1", k={"start": 3.0}, m={"start": 5.0}))
    assert found.values["k"] * found.values["m"] == pytest.approx(0.8, rel=0.01)
    assert found.values["m"] == pytest.approx(5.0) or found.values["k"] == pytest.approx(3.0)  # near the given start
    assert "The data tell only a combination of k, m" in found.text


def test_states_that_nothing_measured_depends_on_need_no_integration():
    found = values_of(decay(None, CHAIN, k1={"start": 50.0}, k2={"start": 50.0}))
    assert found.values == pytest.approx({"k1": 0.8}, rel=0.01)
    assert "linear least squares" in found.used
    assert found.missing == {"k2": "without influence on what is measured"}


def test_a_term_that_is_switched_on_late_breaks_conservation():
    b = 1 - CHAIN_VALUES["A"] + 0.5 * np.maximum(T - 2, 0)
    text = "A' = -k*A\nB' = k*A + if(t > 2, q, 0)\nA(0) = 1\nB(0) = 0"
    problem = decay({"B": b}, text, k={"start": 3.0}, q={"start": 2.0})
    [model] = matching_models(problem)
    assert model.conserved(0.0, 4.0).shape[0] == 0
    assert model.conserved(0.0, 1.9).shape[0] == 1
    assert values_of(problem).values == pytest.approx({"k": 0.8, "q": 0.5}, rel=0.02)


def test_an_observable_whose_factor_changes_in_time_is_not_taken_for_the_state():
    factor = np.where((T > 1) & (T < 3), 2.0, 1.0)
    text = "A' = -k*A\nA(0) = 1\ns = if(t > 1 and t < 3, 2, 1)*A"  # the same factor at both ends
    found = values_of(decay({"s": factor * CHAIN_VALUES["A"]}, text, k={"start": 3.0}))
    assert found.missing == {"k": "'s' has a factor or offset that changes in time"}


def test_a_series_over_a_short_time_does_not_confine_the_others():
    early = np.where(T <= 0.2, CHAIN_VALUES["B"], np.nan)
    text = "A' = -k1*A\nB' = k1*A - k2*B\nA(0) = 1\nB(0) = 0"
    found = values_of(decay(NOISY | {"B": early}, text, k1={"start": 9.0}, k2={"start": 9.0}))
    assert found.values["k1"] == pytest.approx(0.8, rel=0.1)
    assert "cover much more time: B" in found.text


WHY_NOT = {
    "the model has no differential equations to match": ("A = a*exp(-k*t)", "A"),
    "'L' is no sum of states with known factors": ("A' = -k*A\nA(0) = a\nL = log(A)", "L"),
    "'s' has a factor or offset that is itself unknown": ("A' = -k*A\nA(0) = 1\ns = A + a", "s"),
}


@pytest.mark.parametrize("why", WHY_NOT)
def test_it_is_said_why_nothing_can_be_matched(why):
    text, name = WHY_NOT[why]
    found = values_of(decay({name: CHAIN_VALUES["A"]}, text, k={"start": 1.0}, a={"start": 1.0}))
    assert not found.values
    assert set(found.missing.values()) == {why}


def test_data_at_one_time_only_are_named():
    data = of.Measurements.from_columns([0.0, 0.0], {"A": [1.0, 1.01]})
    problem = of.Problem(
        model=of.Model.from_text("A' = -k*A\nA(0) = 1"), parameters=[of.Parameter("k", 1.0)], measurements=data
    )
    assert values_of(problem).missing == {"k": "'A' is measured at one time only"}


@pytest.mark.parametrize(
    ("times", "values", "why"),
    [
        ([1.0, 2.0, 3.0], [1.0, 1e200, 2.0], "the numbers of 'A' are larger than 1e100"),
        ([1.0, 1.0 + 1e-15, 3.0], [1.0, 1e90, 2.0], "values of 'A' change too fast between two times"),
    ],
)
def test_numbers_beyond_reason_are_not_matched(times, values, why):
    data = of.Measurements.from_columns(times, {"A": values})
    model = of.Model.from_text("A' = -k*A\nA(0) = 1")
    problem = of.Problem(model=model, parameters=[of.Parameter("k", 1.0)], measurements=data)
    assert values_of(problem).missing == {"k": why}
