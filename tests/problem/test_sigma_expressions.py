"""A sigma that is an expression of the time and of what is known before a fit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import odefit as of
from odefit.compile import compile_problem
from odefit.errors import MeasurementError, OdefitError, UnsupportedError

TEXT = "A' = -k*A\nA(0) = 1\ny = c*A\nd = 0.1 + 0.05*f\ne = d*A"
MODEL = of.Model.from_text(TEXT)
MAIN = (of.Experiment("main"),)
TIMES = np.linspace(0, 4, 9)
PARAMETERS = (
    of.Parameter("k", 0.5),
    of.Parameter("c", 2.0),
    of.Parameter("f", 3.0, fixed=True),
    of.Parameter("s0", 0.02, fixed=True),
    of.Parameter("s1", expression="s0*f"),
)


def data(names=("A", "y"), experiments=("main",)) -> of.Measurements:
    rng = np.random.default_rng(2)
    rows = [(e, t, name) for e in experiments for t in TIMES for name in names]
    value = [(2 if name == "y" else 1) * np.exp(-0.5 * t) + 0.02 * rng.normal() for _, t, name in rows]
    columns = zip(*rows, strict=True)
    return of.Measurements(*columns, value)


def problem(noise, measurements=None, parameters=PARAMETERS, experiments=MAIN) -> of.Problem:
    # every parameter has to occur somewhere
    derived = {"unused": "s0 + s1"}
    return of.Problem(
        MODEL, parameters, data() if measurements is None else measurements, experiments, noise=noise, derived=derived
    )


EXPRESSIONS = {
    "0.02 + 0.01*t": 0.02 + 0.01 * TIMES,
    "s0*10": np.full(9, 0.2),  # a parameter that does not stand in the equations
    "s1 + f": np.full(9, 3.06),
    "d": np.full(9, 0.25),
    "0.3": np.full(9, 0.3),
    "if(t < 1, s0, d)": np.where(TIMES < 1, 0.02, 0.25),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_values(text):
    made = problem({"A": text, "y": 0.5})
    np.testing.assert_allclose(made.sigma[::2], EXPRESSIONS[text], rtol=1e-14)
    assert (made.sigma[1::2] == 0.5).all()
    assert np.isnan(made.measurements.sigma).all()


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_fits_are_those_of_values_with_the_same_sigma_each(text):
    measured = data()
    by_value = problem({}, dataclasses.replace(measured, sigma=np.repeat(EXPRESSIONS[text], 2)))
    one, other = of.fit(problem({"default": text})), of.fit(by_value)
    assert one.chi2 == pytest.approx(other.chi2, rel=1e-10)
    assert one.standard_errors() == pytest.approx(other.standard_errors(), rel=1e-8)
    assert (one.dof, one.n_data) == (other.dof, other.n_data) == (16, 18)


def test_experiments_replace_what_it_is_made_of():
    runs = (
        of.Experiment("main"),
        of.Experiment("number", (of.Period(0.0, {"d": 0.5}),)),
        of.Experiment("time", (of.Period(0.0, {"d": "0.1 + t"}),)),
        of.Experiment("parameter", (of.Period(0.0, {"f": 4.0}),)),
    )
    made = problem({"A": "2*d"}, data(("A",), [run.name for run in runs]), experiments=runs)
    expected = [np.full(9, 0.5), np.full(9, 1.0), 2 * (0.1 + TIMES), np.full(9, 0.6)]
    np.testing.assert_allclose(made.sigma, np.concatenate(expected), rtol=1e-14)


def test_parameters_with_several_values():
    model = of.Model.from_text("y = a*t")
    measured = of.Measurements(
        experiment=["b1", "b1", "b2"], time=[1, 1, 1], observable=["y"] * 3, value=[1, 2, 3],
        groups={"gel": np.array(["g1", "g2", "g1"], dtype=object)},
    )  # fmt: skip
    parameters = (
        of.Parameter("a", 1.0),
        of.Parameter("s", 0.1, fixed=True, per="gel"),
        of.Parameter("r", 1.0, fixed=True, per="experiment"),
    )
    made = of.Problem(
        model, parameters, measured, (of.Experiment("b1"), of.Experiment("b2")), noise={"y": "r*s"},
        starts={"s[g2]": 0.3, "r[b2]": 5.0},
    )  # fmt: skip
    np.testing.assert_allclose(made.sigma, [0.1, 0.3, 0.5], rtol=1e-14)
    other = made.with_start(**{"s[g1]": 0.2})
    np.testing.assert_allclose(other.sigma, [0.2, 0.3, 1.0], rtol=1e-14)


def test_own_sigmas_and_weights_have_precedence():
    measured = dataclasses.replace(data(("A",)), sigma=[7.0, *[np.nan] * 8], weight=[np.nan, 2.0, 0.0, *[np.nan] * 6])
    sigma = problem({"A": "1 + t"}, measured).sigma
    np.testing.assert_array_equal(sigma, [7, np.nan, np.nan, *(1 + TIMES[3:])])


def test_nothing_is_compiled_for_numbers():
    assert compile_problem(problem({"default": 0.1, "A": "5 %"})).sigma(0) is None
    function = compile_problem(problem({"A": "1 + t"})).sigma(0)
    assert function is not None
    assert function.n_out == 2


REFUSED = {
    "state": ({"A": "0.1*A"}, r"sigma in \[noise\] A \(\"0.1\*A\"\) that depends on the state 'A' \(for 'A' in exp"),
    "state behind a definition": ({"default": "0.1*y"}, r"\[noise\] default .* depends on the state 'A'"),
    "free": ({"y": "k/10"}, "depends on the parameter 'k', which is estimated .*; fix the parameter, or give"),
    "free behind a definition": ({"A": "0.1", "y": "y/A"}, "depends on the parameter 'c'"),
}


@pytest.mark.parametrize(("noise", "words"), REFUSED.values(), ids=REFUSED)
def test_what_changes_during_a_fit_is_refused(noise, words):
    with pytest.raises(UnsupportedError, match=f"not supported yet: an expression for .*{words}"):
        problem(noise)


def test_a_parameter_that_becomes_free():
    made = problem({"default": "s0*10"})
    with pytest.raises(UnsupportedError, match="depends on the parameter 's0', which is estimated"):
        made.with_free("s0")
    fixed = (of.Parameter("k", 0.5, fixed=True), *PARAMETERS[1:])
    assert problem({"default": "k/10"}, parameters=fixed).sigma[0] == 0.05


def test_only_experiments_with_data_count():
    runs = (of.Experiment("main", (of.Period(0.0, {"e": 0.2}),)), of.Experiment("other", until=3.0))
    assert problem({"A": "e"}, data(("A",)), experiments=runs).sigma.tolist() == [0.2] * 9
    with pytest.raises(UnsupportedError, match="depends on the state 'A' .*in experiment 'other'"):
        problem({"A": "e"}, data(("A",), ("main", "other")), experiments=runs)


@pytest.mark.parametrize(
    ("text", "place", "value"),
    [("1 - t", "'main', time 1, 'A'", "0"), ("0.25 - t", "time 0.5, 'A'", "-0.25"), ("1/t", "time 0, 'A'", "inf")],
)
def test_a_sigma_that_is_none(text, place, value):
    with pytest.raises(MeasurementError, match=f"{place}: its sigma, .* is {value}; a standard deviation is positive"):
        of.fit(problem({"default": text}))


def test_values_that_take_no_part_need_none():
    measured = data(("A",))
    weight = np.where(TIMES >= 1, 0.0, np.nan)
    assert np.isnan(problem({"A": "1 - t"}, dataclasses.replace(measured, weight=weight)).sigma[2:]).all()


def test_text_that_is_no_expression():
    with pytest.raises(OdefitError, match=r"\[noise\] A: .*unknown name 'nope'"):
        problem({"A": "0.1*nope"})


def test_a_parameter_may_occur_in_noise_only():
    made = of.Problem(
        of.Model.from_text("y = a*t"),
        (of.Parameter("a", 1.0), of.Parameter("s", 0.5, fixed=True)),
        of.Measurements.from_columns([1.0, 2.0], {"y": [1.0, 2.5]}),
        noise={"y": "s*t"},
    )
    assert made.sigma.tolist() == [0.5, 1.0]
    assert of.fit(made).chi2 == pytest.approx(0.125)


def test_weights_follow_a_fixed_parameter_that_gets_another_value():
    """Problems that differ in start values share their weights, unless a sigma depends on what was changed."""
    noise = {"A": "s0*10", "y": 0.5}
    made = problem(noise)
    before = of.fit(made)
    changed = made.with_start(s0=0.04)
    np.testing.assert_allclose(changed.sigma[::2], 0.4, rtol=1e-14)
    np.testing.assert_allclose(made.sigma[::2], 0.2, rtol=1e-14)
    other = of.fit(changed)
    assert other.plan.root_weights.tolist() == [2.5, 2.0] * 9
    assert other.chi2 != pytest.approx(before.chi2, rel=1e-3)
    same = [p if p.name != "s0" else dataclasses.replace(p, start=0.04) for p in PARAMETERS]
    expected = of.fit(problem(noise, parameters=tuple(same)))
    assert other.estimates == expected.estimates
    assert made.with_start(k=0.7).structure is made.structure
