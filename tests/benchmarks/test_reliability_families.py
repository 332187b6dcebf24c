"""The instrument itself: families are what they say, and false successes are seen as such."""

from __future__ import annotations

import dataclasses
import functools
import math
import multiprocessing

import numpy as np
import pytest
from benchmarks.reliability import runner
from benchmarks.reliability.__main__ import main
from benchmarks.reliability.case import Case, Family, problem_of
from benchmarks.reliability.ends import (
    BEST,
    CRASHED,
    FALSE,
    HUNG,
    OTHER,
    REFUSED,
    WARNED,
    WRONG,
    FamilyEnd,
    fitted,
    looked_at,
)
from benchmarks.reliability.families import FAMILIES
from benchmarks.reliability.families.closed_forms import (
    absorbed,
    decay,
    infused,
    logistic,
    saturated,
    second,
    two_compartments,
)
from benchmarks.reliability.family_table import (
    AT_BEST,
    SILENT,
    best_of,
    comparison,
    counted,
    false_successes,
    read_tally,
    table,
    write_tally,
)
from benchmarks.reliability.reference import best_known, standard_errors
from scipy.integrate import solve_ivp

import odefit as of

TIMES = np.linspace(0.3, 6, 15)


# --- closed forms ---


def integrated(rhs, start, times=TIMES, breaks=()):
    """Integrate by SciPy, piece by piece, so that no step crosses a break."""
    y, values, ends = np.array(start, float), [], [0.0, *breaks, float(times[-1])]
    for first, last in zip(ends, ends[1:], strict=False):
        inner = times[(times > first) & (times <= last)]
        side = functools.partial(rhs, middle=0.5 * (first + last))
        at = np.unique([*inner, last])
        found = solve_ivp(side, (first, last), y, "DOP853", at, rtol=1e-11, atol=1e-13)
        values.append(found.y[:, : inner.size])
        y = found.y[:, -1]
    return np.hstack(values)


@pytest.mark.parametrize(
    ("curve", "rhs", "start"),
    [
        (decay(TIMES, 0.7, 1.3), lambda t, y, middle: -0.7 * y, [1.3]),
        (saturated(TIMES, 0.8, 0.6, 2.0), lambda t, y, middle: -0.8 * y / (0.6 + y), [2.0]),
        (logistic(TIMES, 1.2, 2.0, 0.1), lambda t, y, middle: 1.2 * y * (1 - y / 2.0), [0.1]),
        (second(TIMES, 0.9, 0.3, 1.5), lambda t, y, middle: [-0.9 * y[0], 0.9 * y[0] - 0.3 * y[1]], [1.5, 0.0]),
        (second(TIMES, 0.9, 0.9, 1.5), lambda t, y, middle: [-0.9 * y[0], 0.9 * y[0] - 0.9 * y[1]], [1.5, 0.0]),
        (
            two_compartments(TIMES, 0.5, 2.0, 0.8, 4.0),
            lambda t, y, middle: [-0.65 * y[0] + 0.4 * y[1], 0.2 * (y[0] - y[1])],
            [0.5, 0.0],
        ),
        (
            two_compartments(TIMES, 0.5, 2.0, 0.8, 4.0, 1.5),
            lambda t, y, middle: [-1.5 * y[0], 0.75 * y[0] - 0.65 * y[1] + 0.4 * y[2], 0.2 * (y[1] - y[2])],
            [1.0, 0.0, 0.0],
        ),
    ],
)
def test_closed_forms_solve_their_equations(curve, rhs, start):
    states = integrated(rhs, start)
    place = 0 if len(start) == 1 else 1 if len(start) == 3 or start[0] == 1.5 else 0
    np.testing.assert_allclose(curve, states[place], rtol=1e-5)


def test_infusions_solve_their_equations_on_both_sides_of_each_break():
    def one(t, y, middle):
        return 3.0 / 0.5 * (2.0 <= middle < 2.5) - 0.4 * y

    def two(t, y, middle):
        return [5.0 / 0.5 * (2.0 <= middle < 2.5) - 1.1 * y[0], 1.1 * y[0] - 0.3 * y[1]]

    np.testing.assert_allclose(
        infused(TIMES, 0.4, 3.0, 2.0, 0.5), integrated(one, [0.0], breaks=(2.0, 2.5))[0], atol=1e-9
    )
    found = integrated(two, [0.0, 0.0], breaks=(2.0, 2.5))[1]
    np.testing.assert_allclose(absorbed(TIMES, 1.1, 0.3, 5.0, 2.0, 0.5), found, atol=1e-9)


# --- families ---


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_cases_depend_on_nothing_but_their_seed(family):
    for seed in (0, family.count - 1):
        one, other = family.case(seed), family.case(seed)
        assert one.problem.measurements == other.problem.measurements
        assert [p.start for p in one.problem.parameters] == [p.start for p in other.problem.parameters]
    assert family.case(0).problem.measurements != family.case(family.count - 1).problem.measurements


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_true_values_explain_the_data(family):
    """As well as any start does, which may lie nearer to the minimum by chance."""
    for seed in range(0, family.count, family.count // 5):
        case = family.case(seed)
        started = case.nice({p.name: p.start for p in case.problem.free})
        assert case.names == tuple(p.name for p in case.problem.free)
        assert math.isfinite(case.objective(case.truth))
        assert case.objective(case.truth) <= 2.0 * case.objective(started) + case.floor


def test_a_full_run_is_large_enough():
    assert sum(family.count for family in FAMILIES.values()) >= 2000


# --- judgement ---


def simple(**changes) -> Case:
    """Return a decay that nothing is wrong with."""
    t = np.linspace(0.2, 5, 12)
    y = decay(t, 0.7, 1.3) + 0.01 * np.cos(17.0 * t)
    free = [of.Parameter("k", 2.0), of.Parameter("A", 0.3)]
    problem = problem_of("x' = -k*x\nx(0) = A\ny = x", free, t, {"y": y})
    case = Case(problem, ("k", "A"), np.array([0.7, 1.3]), lambda x: decay(t, *x) - y)
    return dataclasses.replace(case, **changes)


def seen(case: Case) -> str:
    known = best_known(case)
    family = Family("simple", "", 1, lambda data, start: case)
    return looked_at(*fitted(family, 0, case, known), case, known).kind(known.objective)


def test_a_fit_without_fault_is_at_the_best():
    assert seen(simple()) == BEST


def test_a_fit_that_stops_early_is_a_false_success():
    assert seen(simple(settings={"tol": 0.5})) == FALSE


def test_settings_that_are_refused_are_counted_so():
    assert seen(simple(settings={"rtol": 2.0})) == REFUSED


def test_a_claim_that_fails_is_untrue():
    assert seen(simple(claims=(lambda result, case: "it is not so",))) == WRONG


@pytest.mark.parametrize(
    ("residuals", "words"),
    [
        (lambda case, best: lambda x: 3.0 * case.residuals(x), "the norm of the residuals"),
        (lambda case, best: lambda x: case.residuals(best + 3.0 * (x - best)), "the standard error of k"),
    ],
)
def test_wrong_objectives_and_standard_errors_are_seen(residuals, words):
    case = simple()
    other = simple(residuals=residuals(case, best_known(case).x))
    known = best_known(other)
    family = Family("simple", "", 1, lambda data, start: other)
    end = looked_at(*fitted(family, 0, other, known), other, known)
    assert end.kind(known.objective) == WRONG
    assert [text.split(" is ")[0] for text in end.wrong] == [words]


def test_standard_errors_are_those_of_the_fit():
    case = simple()
    result = of.fit(case.problem)
    mine = standard_errors(case, case.nice(result.estimates), np.zeros(2, bool))
    np.testing.assert_allclose(mine, list(result.standard_errors("independent").values()), rtol=1e-4)


def end(**changes) -> FamilyEnd:
    return dataclasses.replace(FamilyEnd("f", 0, 0, "converged", value=2.0, reference=1.0, iterations=5), **changes)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"value": 1.0}, BEST),
        ({"value": 1.0005}, BEST),
        ({"lower": 2.0}, OTHER),
        ({"lower": 1.0}, FALSE),
        ({"lower": 1.0, "warnings": ("fit.poor",)}, WARNED),
        ({"lower": 1.0, "warnings": ("fit.poor",), "iterations": 0}, FALSE),
        ({"lower": 1.0, "warnings": ("residuals.exact",)}, FALSE),
        ({"lower": 1.0, "warnings": ("residuals.exact",), "excused": ("residuals.exact",)}, WARNED),
        ({"value": 1.0, "wrong": ("it",)}, WRONG),
        ({"value": 1.0, "wrong": ("it",), "warnings": ("residuals.exact",)}, WARNED),
        ({"value": 1.0, "wrong": ("it",), "warnings": ("residuals.exact",), "unexcused": ("residuals.exact",)}, WRONG),
        ({"value": 1.0, "wrong": ("it",), "warnings": ("fit.poor",)}, WRONG),
        ({"lower": 2.0, "wrong": ("it",), "warnings": ("fit.poor",)}, WARNED),
        ({"status": "stalled"}, "stalled"),
    ],
)
def test_kinds_of_ends(changes, kind):
    assert end(**changes).kind(1.0) == kind


# --- runs and tables ---


def test_a_fit_that_hangs_or_kills_its_process_costs_itself(monkeypatch):
    mine, other = multiprocessing.Pipe()
    monkeypatch.setattr(runner, "FIT_LIMIT", 0.01)
    other.send(1.5)
    lost = runner._answer(mine, FAMILIES["units"], 3)
    assert (lost.status, lost.seed, lost.reference) == (HUNG, 3, 1.5)
    other.send(1.5)
    other.close()
    assert runner._answer(mine, FAMILIES["units"], 4).status == CRASHED


def test_a_benchmark_that_fails_itself_is_no_result():
    mine, other = multiprocessing.Pipe()
    other.close()
    with pytest.raises(RuntimeError, match="the benchmark itself failed on units, seed 3"):
        runner._answer(mine, FAMILIES["units"], 3)


@pytest.mark.slow
def test_fits_in_a_process_of_their_own_end_as_here():
    family = FAMILIES["compartments"]
    ends = list(runner.run_family(family, [0, 2]))
    case = family.case(0)
    known = best_known(case)
    here = looked_at(*fitted(family, 0, case, known), case, known)
    assert [one.seed for one in ends] == [0, 2]
    assert dataclasses.replace(ends[0], seconds=0.0) == dataclasses.replace(here, seconds=0.0, lower=ends[0].lower)


def test_results_survive_files_and_runs_stand_side_by_side(tmp_path, capsys):
    before = [end(lower=1.0), end(seed=1, status=CRASHED, value=math.inf), end(seed=2, value=1.0, silent=("k",))]
    after = [end(value=1.0), end(seed=1, value=0.9999), end(seed=2, value=1.0)]
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"
    runner.write_ends(old, before)
    runner.write_ends(new, after[:1])
    runner.write_ends(new, after[1:], first=False)
    again = runner.read_ends(old)
    assert [one.value for one in again] == [2.0, math.inf, 1.0]
    assert again[2].silent == ("k",)
    best = best_of(again, runner.read_ends(new))
    assert best == {("f", 0): 0.9999}
    counts = counted(again, best)
    assert counts == {"f": {FALSE: 1, CRASHED: 1, BEST: 1, AT_BEST: 1, SILENT: 1}}
    assert false_successes(counts["f"]) == 1
    assert "1 crashed" in table(counts)
    assert "| 1 → 0         | 33.3 % → 100.0 % |" in comparison(counts, counted(after, best))
    write_tally(tmp_path / "old.json", counts)
    assert read_tally(tmp_path / "old.json") == counts
    for against in (old, tmp_path / "old.json"):
        main(["--families", "--results", str(new), "--against", str(against), "--list", "best"])
        shown = capsys.readouterr().out
        assert "3 fits, false success 0" in shown
        assert "1 → 0" in shown
        assert "best: f 1: objective 0.9999" in shown
