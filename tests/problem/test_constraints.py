"""Rules that must hold: how they are read, what is refused, and the rows that they become."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest

import odefit as of
from odefit.errors import OdefitError
from odefit.formats import load_problem, save_problem
from odefit.problem.constrained import check_constraints, constrained, names_in_constraints, path_times
from odefit.problem.constraints import (
    AT_TIMES,
    PARAMETERS,
    PATH,
    Constraint,
    constraints_from,
    is_prior,
    read_constraints,
)

TIMES = (1.0, 2.0, 4.0)
CHAIN = "A' = -k1*A\nB' = k1*A - k2*B\nA(0) = A0\nB(0) = 0\ntotal = A + B"


def parameters(**options):
    return [of.Parameter(name, 1.0, **options.get(name, {})) for name in ("k1", "k2", "A0")]


def data_of(times=TIMES, experiments=("main",), **options):
    t = [time for _ in experiments for time in times]
    names = [name for name in experiments for _ in times]
    return of.Measurements.from_columns(t, {"A": np.exp(-np.array(t))}, experiment=names, **options)


def problem_of(*rules, text=CHAIN, more=(), experiments=("main",), of_parameters=None, settings=None, **options):
    given = [of.Experiment(one) if isinstance(one, str) else one for one in experiments]
    options.setdefault("measurements", data_of(experiments=[one.name for one in given]))
    return of.Problem(
        model=of.Model.from_text(text),
        parameters=[*parameters(**(of_parameters or {})), *more],
        experiments=given,
        constraints=rules,
        settings=settings or of.Settings(),
        **options,
    )


SIMPLE = {
    "k1 <= k2": ("k2", "k1", True),
    "k1 >= k2": ("k1", "k2", True),
    "k1 = k2": ("k1", "k2", False),
    "k1 == 2*k2": ("k1", "2*k2", False),
    "x(t=5) >= 0": ("x(t=5)", "0", True),
    "x(0) = x(t=T)": ("x(0)", "x(t=T)", False),
    "if(k1 > k2, k1, k2) <= 3": ("3", "if(k1 > k2, k1, k2)", True),
    "max(k1, k2) <= (k3 + 1)*2": ("(k3 + 1)*2", "max(k1, k2)", True),
    "mean(x, over=t, from=0, to=5) = 1": ("mean(x, over=t, from=0, to=5)", "1", False),
    "α/β >= γ": ("α/β", "γ", True),
}


@pytest.mark.parametrize("text", SIMPLE)
def test_one_relation_is_read(text):
    greater, less, at_least = SIMPLE[text]
    assert constraints_from(text) == (Constraint(text, greater, less, at_least),)
    assert constraints_from(f"  {text} ") == (Constraint(text, greater, less, at_least),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 <= x <= 1", [("0 <= x", "x", "0"), ("x <= 1", "1", "x")]),
        ("1 >= x(t=2) >= k", [("1 >= x(t=2)", "1", "x(t=2)"), ("x(t=2) >= k", "x(t=2)", "k")]),
    ],
)
def test_two_relations_of_one_direction_are_two_rules(text, expected):
    assert constraints_from(text) == tuple(Constraint(*one, True) for one in expected)


def test_rules_with_a_tilde_are_priors():
    assert is_prior("k1/k2 ~ normal(2, 0.1)")
    assert not is_prior("k1 <= k2")
    problem = problem_of("k1/k2 ~ normal(2, 0.1)", "k1 <= k2")
    assert len(problem.rules) == len(problem.structure.restrictions) == 1
    assert len(constrained(problem).problem.rules) == 1
    assert constrained(problem_of("k1/k2 ~ normal(2, 0.1)")) is None
    assert constrained(problem_of()) is None


NOT_READ = {
    "": "is not one relation",
    "k1": "has no relation",
    "k1 + k2": "has no relation",
    "(k1 <= k2)": "has no relation",
    "k1 <": "the text ends after '<'; something has to follow it",
    "k1 < k2": "'<' cannot be held by a fit; write <=",
    "k1 > k2": "'>' cannot be held by a fit; write >=",
    "k1 != k2": "'!=' cannot be held by a fit; write =",
    "0 <= k1 <= k2 <= 3": "one relation, or two of one direction",
    "0 <= k1 >= k2": "one relation, or two of one direction",
    "k1 = k2 = 3": "one relation, or two of one direction",
    "0 <= k1 = k2": "one relation, or two of one direction",
    "<= k1": "has nothing on one side",
    "k1 =": "the text ends after '='; something has to follow it",
    "<= 2 <= k1": "has nothing on one side",
    "k1 <= k2\nk2 <= 3": "is not one relation",
}


@pytest.mark.parametrize("text", NOT_READ)
def test_what_is_no_rule_is_refused_with_its_text(text):
    with pytest.raises(OdefitError, match=NOT_READ[text]) as caught:
        constraints_from(text)
    assert text.strip().split("\n")[0] in str(caught.value)


KINDS = {
    "k1 <= k2": PARAMETERS,
    "k1 + k2 = 3": PARAMETERS,
    "k1*A(0) <= 3": PARAMETERS,
    "A(0) = 2*k1": PARAMETERS,
    "A(t=1) >= 0": AT_TIMES,
    "A(0) = A(t=2)": AT_TIMES,
    "A(t=1) = B(t=k1)": AT_TIMES,
    "total(t=3) <= k1": AT_TIMES,
    "mean(A, over=t, from=0, to=2) <= 1": AT_TIMES,
    "max(A, over=t, from=0, to=2) <= 1": AT_TIMES,
    "integral(A, over=t, from=0, to=2) = k2": AT_TIMES,
    "A >= 0": PATH,
    "total <= 2*k1": PATH,
    "total <= 2 + t": PATH,
    "if(A > B, A, B) <= 3": PATH,
    "A >= 0.1*A(0)": PATH,
}


@pytest.mark.parametrize("text", KINDS)
def test_rules_are_about_parameters_times_or_all_times(text):
    [one] = read_constraints(problem_of(text)).constraints
    assert one.kind == KINDS[text]
    assert one.constraint.text == text


def test_values_at_numbers_are_observed_at_the_last_of_them():
    read = read_constraints(problem_of("A(t=1) = A(t=3) + B(t=3)", "A(t=2) >= 0"))
    first, second = read.constraints
    assert (first.at, len(first.reached)) == (3.0, 1)  # the value at 1 is held until 3
    assert (second.at, second.reached) == (2.0, ())
    assert len(read.aggregates.readings) == 1


def test_definitions_that_are_constant_are_no_path():
    text = CHAIN + "\nratio = k1/k2"
    [one] = read_constraints(problem_of("ratio <= 2", text=text)).constraints
    assert one.kind == PARAMETERS


REFUSED = {
    "A = 1": "would have to hold at all times; give a time, A\\(t=5\\) say",
    "total = A0": "would have to hold at all times",
    "A(t=1) <= B": "values at a time beside 'B' at all times; write B\\(t=...\\)",
    "mean(A, over=t, from=0, to=2) <= A": "beside 'A' at all times",
    "k9 <= k1": "k9",
    "C(t=1) <= k1": "C",
    "k1 <= ": "something has to follow it",
    "1 <= 2": "has no parameter and no state; remove it",
    "1 = 2": "has no parameter and no state; remove it",
    "A(0) = A0": "has no parameter and no state; remove it",
    "A(t=-1) >= 0": "looks at t = -1, before the start of experiment 'main' at 0",
    "A(t=-1) = A(t=2)": "looks at t = -1, before the start of experiment 'main' at 0",
}


@pytest.mark.parametrize("text", REFUSED)
def test_rules_that_mean_nothing_are_refused(text):
    with pytest.raises(OdefitError, match=REFUSED[text]) as caught:
        constrained(problem_of(text))
    assert text.strip() in str(caught.value)


@pytest.mark.parametrize("text", [text for text in REFUSED if "t=-1" not in text])
def test_most_are_refused_when_the_problem_is_made(text):
    with pytest.raises(OdefitError, match=REFUSED[text]):
        problem_of(text)


def test_a_value_per_measurement_is_refused():
    data = data_of(arguments={"s": ["s1", "s2", "s1"]})
    text = CHAIN + "\nseen = s*A"
    more = [of.Parameter("s1", 1.0), of.Parameter("s2", 1.0)]
    for rule in ("s <= 2", "seen(t=1) >= 0"):
        with pytest.raises(of.UnsupportedError, match="with a value per measurement"):
            problem_of(rule, text=text, more=more, measurements=data)
    assert constrained(problem_of("s1 <= s2", text=text, more=more, measurements=data)).rows


def test_times_need_an_experiment_that_is_run():
    data = of.Measurements.from_columns([math.inf], {"B": [0.5]})
    text = "B' = 1 - k2*B\nB(0) = A0*k1"
    with pytest.raises(of.ProblemError, match="experiment 'main' has data of its steady state only"):
        constrained(problem_of("B(t=1) >= 0", text=text, measurements=data))
    with pytest.raises(of.ProblemError, match="experiment 'main' has data of its steady state only"):
        constrained(problem_of("B >= 0", text=text, measurements=data))
    [row] = constrained(problem_of("k1 <= k2", text=text, measurements=data)).rows
    assert row.measurement == 1


def rows_of(problem):
    """Return rule, experiment, time, side of all measurements that are rules."""
    whole = constrained(problem)
    data = whole.problem.measurements
    found = []
    for row in whole.rows:
        k = row.measurement
        assert data.observable[k] == f'rule "{whole.constraints[row.constraint].text}"'
        assert data.value[k] == 0.0
        assert np.isinf(data.weight[k])
        found.append((whole.constraints[row.constraint].text, data.experiment[k], data.time[k], data.side[k]))
    assert [row.measurement for row in whole.rows] == list(range(len(problem.measurements), len(data)))
    return found


def test_a_rule_of_parameters_is_observed_once_at_the_start():
    assert rows_of(problem_of("k1 <= k2", experiments=("a", "b"))) == [("k1 <= k2", "a", 0.0, -1)]
    assert constrained(problem_of("k1 <= k2", experiments=("a", "b"))).is_everywhere(0)


def test_it_is_observed_in_each_experiment_that_differs():
    experiments = [of.Experiment("a"), of.Experiment("b", (of.Period(0.0, {"k2": 3.0}),))]
    assert [row[1] for row in rows_of(problem_of("k1 <= k2", experiments=experiments))] == ["a", "b"]
    assert [row[1] for row in rows_of(problem_of("k1 <= 3", experiments=experiments))] == ["a"]
    per = {"A0": {"per": "experiment"}}
    assert [row[1] for row in rows_of(problem_of("A0 <= 3", experiments=("a", "b"), of_parameters=per))] == ["a", "b"]


def test_values_at_times_are_observed_in_each_experiment_that_is_fitted():
    experiments = [of.Experiment("a"), of.Experiment("b"), of.Experiment("c", use="validate")]
    problem = problem_of("A(t=1) >= 0", "B(t=9) <= 2", experiments=experiments)
    assert rows_of(problem) == [
        ("A(t=1) >= 0", "a", 1.0, -1), ("A(t=1) >= 0", "b", 1.0, -1),
        ("B(t=9) <= 2", "a", 9.0, -1), ("B(t=9) <= 2", "b", 9.0, -1),
    ]  # fmt: skip


def test_a_path_is_held_on_a_grid_and_at_the_data():
    problem = problem_of("A >= 0", settings=of.Settings(path_times=4), measurements=data_of((0.5, 2.0, 4.0)))
    assert path_times(problem, 0) == [0.0, 0.5, 1.0, 2.0, 3.0, 4.0]
    assert [row[2] for row in rows_of(problem)] == path_times(problem, 0)
    listed = problem.with_settings(path_times=(-1.0, 0.3, 5.0))
    assert [row[2] for row in rows_of(listed)] == [0.3, 5.0]
    with pytest.raises(of.ProblemError, match="none of them lies behind the start of experiment 'main' at 0"):
        constrained(problem.with_settings(path_times=(-2.0, -1.0)))


@pytest.mark.parametrize(
    ("wanted", "words"),
    [(0, "at least one part"), (-3, "at least one part"), ((), "a number of parts, or a list of times"),
     ((math.nan,), "a number of parts, or a list of times")],
)  # fmt: skip
def test_grids_that_are_none_are_refused(wanted, words):
    with pytest.raises(of.ProblemError, match=words):
        of.Settings(path_times=wanted)


def test_a_time_that_moves_is_observed_behind_all_that_bounds_allow():
    more = [of.Parameter("T", 3.0, lower=2.0, upper=11.0)]
    problem = problem_of("A(0) = A(t=T)", "B(t=T/2) <= 3", more=more)
    assert rows_of(problem) == [("A(0) = A(t=T)", "main", 11.0, 1), ("B(t=T/2) <= 3", "main", 5.5, 1)]
    whole = constrained(problem)
    assert whole.windows == {0: (1.0, 11.0)}
    assert whole.too_late({"T": 11.0}) == ""
    assert whole.too_late({"T": 11.5}) == 'the rule "A(0) = A(t=T)" looks at t = 11.5, behind t = 11, the last time'
    assert whole.too_late({"T": -1.0}) == 'the rule "A(0) = A(t=T)" looks at t = -1, before the start'
    assert not whole.is_everywhere(0)


def test_without_bounds_a_time_may_double():
    problem = problem_of("A(0) = A(t=T)", more=[of.Parameter("T", 3.0)])
    assert constrained(problem).windows == {0: (1.5, 6.0)}
    assert rows_of(problem)[0][2] == 6.0
    later = problem.with_start(T=5.0)
    assert constrained(later).windows == {0: (2.5, 10.0)}
    assert rows_of(later)[0][2] == 10.0


@pytest.mark.parametrize(
    "options",
    [{"sigma": {"A": 0.1}}, {"weight": {"A": [1.0, 2.0, math.inf]}}, {}],
    ids=["sigma", "weight", "neither"],
)
def test_rows_fit_to_data_of_every_kind(options):
    problem = problem_of("k1 <= k2", "A >= 0", measurements=data_of(**options))
    data = constrained(problem).problem.measurements
    n = len(problem.measurements)
    for name in ("time", "value", "sigma", "weight", "observable", "experiment", "side"):
        np.testing.assert_array_equal(getattr(data, name)[:n], getattr(problem.measurements, name))
    assert np.all(np.isfinite(data.sigma[n:]) == ("sigma" in options))
    assert (np.diff(np.unique(data.row[n:])) == 1).all()
    assert of.fit(problem).converged


def test_rows_fit_to_noise_in_percent():
    problem = problem_of("k1 <= k2", noise={"default": "5 %"})
    assert of.fit(problem).converged
    assert np.isinf(constrained(problem).problem.measurements.weight[-1])


def test_groups_are_those_of_the_experiment():
    t = np.array([1.0, 2.0, 1.0, 2.0])
    data = of.Measurements(
        experiment=np.array(["a", "a", "b", "b"], object), time=t, observable=np.full(4, "A", object),
        value=np.exp(-t), groups={"gel": np.array(["x", "x", "y", "y"], object)},
    )  # fmt: skip
    problem = problem_of("A0 >= 0.5", experiments=("a", "b"), measurements=data, of_parameters={"A0": {"per": "gel"}})
    whole = constrained(problem).problem.measurements
    assert whole.groups["gel"].tolist() == ["x", "x", "y", "y", "x", "y"]
    assert of.fit(problem).converged


def test_derived_quantities_stay_with_the_problem():
    problem = problem_of("k1 <= 0.5*k2", derived={"half": "log(2)/k1"})
    result = of.fit(problem)
    assert result.derived["half"].estimate == pytest.approx(math.log(2) / result.estimates["k1"], rel=1e-12)


def test_a_parameter_may_occur_in_a_rule_alone():
    problem = problem_of("k1 = c*k2", "c <= 0.5", more=[of.Parameter("c", 0.5)])
    assert names_in_constraints(problem) >= {"c"}
    result = of.fit(problem)
    assert result.converged
    assert result.estimates["k1"] == pytest.approx(result.estimates["c"] * result.estimates["k2"], rel=1e-9)


def test_names_in_rules_are_told():
    problem = problem_of("mean(c*A, over=t, from=0, to=d) <= 3", more=[of.Parameter("c", 0.5), of.Parameter("d", 2.0)])
    assert names_in_constraints(problem) >= {"c", "d"}
    assert names_in_constraints(problem_of()) == set()
    check_constraints(problem)


def test_start_values_and_settings_share_the_structure():
    problem = problem_of("k1 <= k2", "A(t=5) >= 0.01")
    whole = constrained(problem).problem
    for other in (
        problem.with_start(k1=0.3),
        problem.with_bounds(k1=(0.1, 3.0)),
        problem.with_settings(tol=1e-8),
        problem.with_settings(method="multiple"),
    ):
        again = constrained(other).problem
        assert again is not whole
        assert again.structure is whole.structure
    assert constrained(problem.with_start(k1=0.3)).problem.slots.slots[0].parameter.start == 0.3
    assert constrained(problem) is constrained(problem)


def test_greek_names_are_read():
    problem = problem_of("λ_1 <= k2", more=[of.Parameter("λ_1", 0.3)])
    assert of.fit(problem).rules[0].text == "λ_1 <= k2"


def test_problems_and_results_with_rules_go_through_pickle():
    problem = problem_of("0.2 <= A(t=1) <= 0.3", "k1 = k2", "A >= 0")
    result = of.fit(problem)
    assert result.standard_errors()["k2"] == pytest.approx(result.standard_errors()["k1"], rel=1e-9)
    again, of_result = pickle.loads(pickle.dumps((problem, result)))
    assert again.constraints == problem.constraints
    assert of_result.problem.constraints == problem.constraints
    assert of.fit(again).estimates == result.estimates
    assert repr(of_result.rules) == repr(result.rules)  # times are NaN
    assert of_result.standard_errors() == pytest.approx(result.standard_errors(), rel=1e-9)
    assert copy.copy(problem).constraints == copy.deepcopy(problem).constraints == problem.constraints


def test_rules_are_saved_and_loaded(tmp_path):
    rules = ("0.2 <= A(t=1) <= 0.3", "k1 = k2", "A >= 0", "α <= k1", "k1 ~ normal(1, 0.5)", "A(0) = A(t=T)")
    more = [of.Parameter("α", 0.3), of.Parameter("T", 1.0)]
    problem = problem_of(*rules, more=more, settings=of.Settings(path_times=(1.0, 3.0)))
    save_problem(problem, tmp_path / "p.toml")
    again = load_problem(tmp_path / "p.toml")
    assert again.constraints == rules
    assert again.settings.path_times == (1.0, 3.0)
    assert rows_of(again) == rows_of(problem)


def test_what_only_experiments_set_may_have_a_rule():
    text = CHAIN.replace("A(0) = A0", "A(0) = 1") + "\nlimit = 2\nseen = A0*A"
    experiments = [of.Experiment("a", (of.Period(0.0, {"A(0)": "2*A0", "limit": "k1"}),)), of.Experiment("b")]
    problem = problem_of("A(0) <= 3", "limit >= 0.1", text=text, experiments=experiments)
    assert [row[:2] for row in rows_of(problem)] == [
        ("A(0) <= 3", "a"), ("A(0) <= 3", "b"), ("limit >= 0.1", "a"), ("limit >= 0.1", "b"),
    ]  # fmt: skip
    with pytest.raises(of.ProblemError, match="has no parameter and no state"):
        problem_of("A(0) <= 3", text=text, experiments=("a", "b"))


def test_rules_see_what_an_experiment_sets():
    experiments = [
        of.Experiment("a", (of.Period(0.0, {"A(0)": 2.0}),)),
        of.Experiment("b", (of.Period(5.0, {"A(0)": "3*A0"}),)),
    ]
    data = of.Measurements.from_columns(
        [6.0, 7.0, 6.0, 7.0], {"A": [1.0, 0.5, 1.0, 0.5]}, experiment=["a", "a", "b", "b"]
    )
    problem = problem_of("A(0) <= 9", experiments=experiments, measurements=data)
    assert rows_of(problem) == [("A(0) <= 9", "a", 0.0, -1), ("A(0) <= 9", "b", 5.0, -1)]
    with pytest.raises(of.ProblemError, match="looks at t = 2, before the start of experiment 'b' at 5"):
        constrained(problem_of("A(t=2) <= 9", experiments=experiments, measurements=data))
