"""Multistart: samples, workers, minima, failures."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import sys
import threading
from collections import Counter

import numpy as np
import pytest
from scipy.stats import qmc

import odefit as of
from odefit.gallery import load
from odefit.native.threads import allowed_threads
from odefit.study import Multistart, StartRun
from odefit.study.executors import can_fork, run_all
from odefit.study.multistart import _best
from odefit.study.sampling import latin_hypercube, sample_starts, start_box
from odefit.transcribe import SingleShooting


@pytest.fixture(scope="module")
def barnes():
    return load("barnes")


@pytest.fixture(scope="module")
def result(barnes):
    return of.fit(barnes, starts=24, seed=1, workers=1)


@pytest.mark.parametrize(("n", "dimension", "seed"), [(1, 1, 0), (7, 3, 1), (200, 2, 5)])
def test_samples_are_those_of_scipy(n, dimension, seed):
    sampler = qmc.LatinHypercube(dimension, seed=seed)
    np.testing.assert_array_equal(latin_hypercube(n, dimension, seed), sampler.random(n))


def test_no_samples():
    assert latin_hypercube(0, 3, 1).shape == (0, 3)


def test_the_best_fit_is_an_ordinary_result(barnes, result):
    assert result.converged
    assert result.objective == pytest.approx(0.08223068, rel=1e-6)
    assert result.parameters["k1"].standard_error > 0
    record = result.multistart
    assert len(record.runs) == 24
    assert record.runs[0].start == {"k1": 1, "k2": 1, "k3": 1}
    assert record.runs[record.best].objective == result.objective
    lowest = min(run.objective for run in record.runs if run.converged)
    assert lowest <= result.objective <= lowest * (1 + 1e-6)


def test_runs_are_sorted_into_minima_and_failures(result):
    record = result.multistart
    assert sum(m.count for m in record.minima) + sum(record.failures.values()) == 24
    objectives = [m.objective for m in record.minima]
    assert objectives == sorted(objectives)
    assert len(objectives) > 1  # Barnes' problem has several
    assert all(b > 1.001 * a for a, b in zip(objectives, objectives[1:], strict=False))
    assert record.minima[0].spread < 1e-3
    assert f"{record.minima[0].count} of them to the best" in record.text
    plain = result.to_dict()["multistart"]
    assert len(plain["runs"]) == 24
    assert plain["minima"][0]["count"] == record.minima[0].count


@pytest.mark.parametrize("workers", [2, 3])
def test_the_same_seed_gives_the_same_result_whatever_the_workers(barnes, result, workers):
    again = of.fit(barnes, starts=24, seed=1, workers=workers)
    assert repr(again.multistart) == repr(result.multistart)
    assert again.estimates == result.estimates


@contextlib.contextmanager
def no_fork():
    """Somebody's thread runs, so that workers are threads."""
    done = threading.Event()
    other = threading.Thread(target=done.wait, name="somebody else's")
    other.start()
    try:
        assert not can_fork()
        yield
    finally:
        done.set()
        other.join()


def test_threads_do_the_same_where_a_fork_is_not_safe(barnes, result):
    with no_fork():
        again = of.fit(barnes, starts=24, seed=1, workers=2)
    assert repr(again.multistart) == repr(result.multistart)


def threads_for_experiments(_: int) -> tuple[int, set[tuple[int, int]]]:
    """Evaluate something whose experiments pay for threads.

    Returns how many are allowed for it, and those there are, by process and thread.
    """
    objective = SingleShooting(load("arrhenius"))
    x = objective.compiled.theta_start
    for _ in range(3):
        objective.refresh(x)
    listed = [t for t in threading.enumerate() if t.name.startswith("odefit-experiments")]
    return allowed_threads(), {(os.getpid(), t.native_id) for t in listed if t.native_id}  # not those about to begin


@pytest.mark.parametrize(("workers", "allowed"), [(4, 1), (3, 1), (2, 2)])
@pytest.mark.parametrize("where", [contextlib.nullcontext, no_fork], ids=["processes", "threads"])
def test_workers_share_the_cores(workers, allowed, where, monkeypatch):
    """Each of them would open a thread for every core."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(4), raising=False)
    monkeypatch.setattr("odefit.transcribe.shooting.WORTH_A_THREAD", 0.0)
    alone, before = threads_for_experiments(0)
    with where():
        told = [answer for _, answer in run_all(threads_for_experiments, 8, workers)]
    assert {number for number, _ in told} == {allowed}
    begun = set.union(*(threads for _, threads in told)) - before
    counts = Counter(process for process, _ in begun).values()
    in_one_process = workers if where is no_fork else 1
    assert all(count <= allowed * in_one_process for count in counts)
    assert bool(counts) == (allowed > 1)
    assert alone == allowed_threads() == 4


class Poller(threading.Thread):
    """A thread of a class that a notebook's kernel defines."""

    __module__ = "ipykernel.parentpoller"


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
@pytest.mark.parametrize(
    ("kind", "name"), [(Poller, "Thread-1"), (threading.Thread, "IOPub"), (threading.Thread, "odefit-stop")]
)
def test_threads_of_notebooks_do_not_hinder_a_fork(kind, name):
    done = threading.Event()
    idle = kind(target=done.wait, name=name)
    idle.start()
    try:
        assert can_fork()
    finally:
        done.set()
        idle.join()


def test_another_seed_gives_other_starts(barnes):
    a, b = sample_starts(barnes, 5, 1), sample_starts(barnes, 5, 2)
    assert a[0] == b[0]
    assert a[1:] != b[1:]
    assert sample_starts(barnes, 5, 1) == a


def test_progress_is_told_of_every_run(barnes):
    seen = []
    of.fit(barnes, starts=6, workers=2, progress=lambda run, done: seen.append((run.number, done)))
    assert sorted(number for number, _ in seen) == list(range(6))
    assert [done for _, done in seen] == list(range(1, 7))


def model_with(**parameters):
    text = "A' = " + " + ".join(f"{name}*0.1" for name in parameters) + "\nA(0) = 0"
    data = of.Measurements.from_columns([1.0, 2.0], {"A": [1.0, 2.0]})
    listed = [of.Parameter(name, **options) for name, options in parameters.items()]
    return of.Problem(model=of.Model.from_text(text), parameters=listed, measurements=data)


def test_the_box_is_that_of_the_bounds_or_around_the_start():
    problem = model_with(
        a={"start": 2.0}, b={"start": -3.0}, c={"start": 0.0}, d={"start": 5.0, "scale": "log"},
        e={"start": 1.0, "lower": 0.5, "upper": 1.5}, f={"start": 1.0, "lower": -1.0},
        g={"start": 1.0, "scale": "log10", "lower": 0.1, "upper": 10.0},
        h={"start": 0.5, "scale": "logit", "lower": 0, "upper": 1},
    )  # fmt: skip
    lower, upper = start_box(problem)
    residuals, jacobian = of.Evaluator(problem).residuals_and_jacobian({})
    far = 10.0 * np.linalg.norm(residuals) / np.linalg.norm(jacobian[:, 2])  # zero tells no size, its influence does
    np.testing.assert_allclose(lower, [0, -30, -far, math.log(0.05), 0.5, -1, -1, -math.log(99)])
    np.testing.assert_allclose(upper, [20, 0, far, math.log(500), 1.5, 10, 1, math.log(99)])
    starts = sample_starts(problem, 50, 3)
    for name, low, high in (("a", 0, 20), ("d", 0.05, 500), ("g", 0.1, 10), ("h", 0, 1)):
        drawn = np.array([start[name] for start in starts])
        assert low <= drawn.min() < drawn.max() <= high
    logs = np.log([start["d"] for start in starts[1:]])
    assert abs(logs.mean() - math.log(5)) < 0.2  # even on the log scale


def test_failures_are_counted_by_cause():
    model = of.Model.from_text("x' = k*x^2\nx(0) = 1")
    t = np.linspace(0.2, 2, 10)
    data = of.Measurements.from_columns(t, {"x": 1 / (1 - 0.3 * t)})
    problem = of.Problem(model=model, parameters=[of.Parameter("k", 0.1, lower=0, upper=10)], measurements=data)
    result = of.fit(problem, starts=20, workers=1)
    assert result.estimates["k"] == pytest.approx(0.3, rel=1e-5)
    assert result.multistart.failures["failed"] > 10  # the solution ends before t = 2 for k > 0.5
    assert "failed" in result.multistart.text
    failed = [run for run in result.multistart.runs if run.status == "failed"]
    assert all("cannot be computed" in run.message for run in failed)


def test_a_multistart_of_failures_only_is_a_failure():
    model = of.Model.from_text("x' = k*x^2\nx(0) = 1")
    data = of.Measurements.from_columns([1.0, 2.0], {"x": [1.1, 1.2]})
    problem = of.Problem(model=model, parameters=[of.Parameter("k", 5.0, lower=3, upper=9)], measurements=data)
    result = of.fit(problem, starts=4, workers=1)
    assert result.status == "failed"
    assert result.multistart.minima == ()
    assert result.to_dict()["multistart"]["runs"][0]["objective"] is None


def test_settings_ask_for_it_and_matched_values_take_part():
    problem = load("lotka_volterra_iss").with_settings(starts=3, seed=4, start="auto")
    result = of.fit(problem, workers=1)
    assert len(result.multistart.runs) == 3
    assert result.multistart.seed == 4
    assert result.multistart.best == 0
    assert result.start_values is not None
    matched = result.start_values.values
    assert result.multistart.runs[0].start == matched
    for run in result.multistart.runs[1:]:  # no bounds: the box reaches from zero to ten times the matched values
        assert all(0.0 <= value <= 10.0 * matched[name] for name, value in run.start.items())
    with pytest.raises(of.OdefitError, match="at least one"):
        of.fit(problem, starts=0)
    with pytest.raises(of.ProblemError, match="'seed' is -1"):
        problem.with_settings(seed=-1)


def test_one_value_per_experiment_is_drawn_for_each():
    starts = sample_starts(load("arrhenius"), 4, 0)
    assert {"A0[b330]", "A0[b345]", "A0[b360]"} <= starts[1].keys()
    assert starts[1]["A0[b330]"] != starts[1]["A0[b345]"]


def test_a_stop_ends_the_work_early():
    from odefit.native.stop import StopFlag

    stop = StopFlag()
    seen = []
    for i, value in run_all(lambda i: i * i, 1000, 1, stop):
        seen.append((i, value))
        if i == 3:
            stop.set()
    assert seen == [(0, 0), (1, 1), (2, 4), (3, 9)]


def test_a_problem_without_free_parameters_is_refused(barnes):
    with pytest.raises(of.FitError, match="no parameter is free"):
        of.fit(barnes.with_fixed("k1", "k2", "k3"), starts=5)


def sum_of_exponentials():
    t = np.linspace(0, 5, 11)
    noise = 0.003 * np.random.default_rng(1).standard_normal(t.size)
    data = of.Measurements.from_columns(t, {"y": 3 * np.exp(-0.3 * t) + 2 * np.exp(-2 * t) + noise})
    names = ("a", "b", "k1", "k2")
    return of.Problem(
        model=of.Model.from_text("y = a*exp(-k1*t) + b*exp(-k2*t)"),
        parameters=[of.Parameter(name, 1.0 + 0.3 * i, lower=0, upper=6) for i, name in enumerate(names)],
        measurements=data,
    )


def ended(number: int, status: str, objective: float) -> StartRun:
    return StartRun(number, {}, status, "", objective, {"k": 1.0}, 1, 1)


def test_fits_that_ended_lower_without_converging_are_told():
    runs = (
        ended(0, "converged", 2.0),
        ended(1, "stalled", 1.9),
        ended(2, "failed", math.nan),
        ended(3, "stalled", 1.5),
    )
    record = Multistart((*runs, ended(4, "flat-valley", 1.9995)), 0, 5, 0)
    assert [run.number for run in record.lower] == [3, 1]
    assert record.doubt in record.text
    assert record.doubt.startswith("2 fits that did not converge ended lower than the best minimum (start 3, stalled,")
    assert Multistart(runs[:1], 0, 1, 0).doubt == ""
    assert Multistart(runs[1:], 0, 3, 1).lower == ()  # without a minimum there is nothing to doubt


def best_of(*runs: StartRun) -> int:
    return _best(list(runs), 0.0)


def test_the_lowest_objective_wins_whatever_its_status():
    valley = [ended(i, "flat-valley", 68.7) for i in range(1, 20)]
    runs = (ended(0, "converged", 12267.0), *valley)
    assert best_of(*runs) == 1
    record = Multistart(runs, 0, 20, 1)
    assert record.best_run == valley[0]
    assert "19 fits that did not converge ended lower" in record.text
    assert "the result is the lowest of these fits" in record.text


def test_of_equally_good_fits_one_that_converged_wins():
    assert best_of(ended(0, "stalled", 1.0), ended(1, "flat-valley", 0.9995), ended(2, "converged", 1.0)) == 2
    assert best_of(ended(0, "stalled", -1.0), ended(1, "flat-valley", -1.0005), ended(2, "converged", -1.0)) == 2
    assert best_of(ended(0, "stalled", -0.9), ended(1, "converged", -1.0), ended(2, "converged", -1.00001)) == 1


def test_fits_without_an_objective_or_that_miss_exact_data_do_not_win():
    missed = dataclasses.replace(ended(1, "iteration-limit", 0.1), feasible=False)
    runs = (ended(0, "failed", math.nan), missed, ended(2, "stalled", math.inf), ended(3, "stalled", 3.0))
    assert best_of(*runs) == 3
    assert best_of(*runs[:3]) == 1
    assert best_of(runs[0]) == 0
    assert Multistart((ended(4, "converged", 2.0), missed), 0, 2, 4).lower == ()


def test_where_nothing_converged_the_lowest_objective_is_told():
    record = Multistart((ended(0, "stalled", 3.0), ended(1, "flat-valley", 2.5)), 0, 2, 1)
    assert "0 converged; the lowest objective reached is 2.5." in record.text


def test_a_fit_that_missed_exact_data_says_so():
    t = np.array([0.0, 1.0, 2.0, 3.0])
    weight = np.array([1.0, np.inf, 1.0, 1.0])
    data = of.Measurements.from_columns(t, {"y": np.array([1.0, 5.0, 0.4, 0.3])}, weight={"y": weight})
    problem = of.Problem(
        model=of.Model.from_text("y = a*exp(-k*t)"),
        parameters=[of.Parameter("a", 1.0, lower=0, upper=2), of.Parameter("k", 1.0, lower=0, upper=2)],
        measurements=data,
    )
    record = of.fit(problem, starts=3, seed=1, workers=1).multistart
    assert [run.feasible for run in record.runs] == [False] * 3
    assert [run.feasible for run in of.fit(load("barnes"), starts=2, workers=1).multistart.runs] == [True] * 2


def test_the_warning_of_lower_ends_is_part_of_the_result(result):
    record = dataclasses.replace(result.multistart, runs=(*result.multistart.runs, ended(24, "stalled", 1e-9)))
    doubtful = dataclasses.replace(result, multistart=record)
    assert "multistart.lower" in [notice.code for notice in doubtful.warnings]
    assert "multistart.lower" not in [notice.code for notice in result.warnings]


def test_equally_good_minima_are_told_apart_by_their_estimates():
    result = of.fit(sum_of_exponentials(), starts=16, seed=2, workers=1)
    record = result.multistart
    assert len(record.equal) == 2
    one, other = record.equal
    assert one.objective == pytest.approx(other.objective, rel=1e-5)
    assert [one.estimates[n] for n in ("a", "k1")] == pytest.approx([other.estimates[n] for n in ("b", "k2")], rel=1e-3)
    assert one.spread < 1e-3
    assert other.spread < 1e-3
    assert set(record.exchanged) == {"a", "b", "k1", "k2"}
    assert "2 different minima are equally good (a, b, k1 and k2 exchange their values)" in record.text
    assert [n.code for n in result.warnings].count("multistart.equal") == 1
    assert result.to_dict()["multistart"]["equally_good"] == 2
    lines = result.summary().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("minimum"))
    assert lines[first].split() == ["minimum", "objective", "fits", "spread", "a", "b", "k1", "k2"]
    assert [lines[first + i].split()[2] for i in (2, 3)] == [str(one.count), str(other.count)]


def test_of_equally_good_fits_the_first_start_counts():
    for start, larger in (({"k1": 0.2, "k2": 3.0}, "k2"), ({"k1": 3.0, "k2": 0.2}, "k1")):
        result = of.fit(sum_of_exponentials().with_start(**start), starts=16, seed=2, workers=1)
        assert len(result.multistart.equal) == 2
        assert result.multistart.best == 0
        assert max(("k1", "k2"), key=lambda n: result.estimates[n]) == larger


def test_a_parameter_that_the_data_leave_free_makes_no_minima_of_its_own():
    t = np.linspace(0.5, 4, 8)
    noise = 0.01 * np.random.default_rng(0).standard_normal(8)
    data = of.Measurements.from_columns(t, {"A": np.exp(-0.5 * t) + noise})
    model = of.Model.from_text("A' = -k*A\nZ' = -m*Z\nA(0) = 1\nZ(0) = 1")
    parameters = [of.Parameter("k", 1.0), of.Parameter("m", 1.0)]
    result = of.fit(of.Problem(model=model, parameters=parameters, measurements=data), starts=8, workers=1)
    [only] = result.multistart.minima
    assert only.count == 8
    assert only.spread > 0.5
    assert result.multistart.ambiguity == ""


def test_minima_do_not_depend_on_the_unit_of_the_data():
    t = np.linspace(0, 2 * np.pi, 25)
    found = []
    for unit in (1.0, 1e-9):
        data = of.Measurements.from_columns(t, {"y": unit * (np.sin(3 * t) + 0.1 * np.cos(17 * t))})
        problem = of.Problem(
            model=of.Model.from_text(f"y = {unit}*sin(w*t)"),
            parameters=[of.Parameter("w", 2.7, lower=0.1, upper=8)],
            measurements=data,
        )
        found.append([m.count for m in of.fit(problem, starts=20, seed=5, workers=1).multistart.minima])
    assert len(found[0]) > 2
    assert found[0] == found[1]


def test_causes_of_failures_have_an_example_in_the_summary():
    model = of.Model.from_text("x' = k*x^2\nx(0) = 1")
    t = np.linspace(0.2, 2, 10)
    data = of.Measurements.from_columns(t, {"x": 1 / (1 - 0.3 * t)})
    problem = of.Problem(model=model, parameters=[of.Parameter("k", 0.1, lower=0, upper=10)], measurements=data)
    result = of.fit(problem, starts=10, workers=1)
    [cause] = [c for c in result.multistart.causes if c.status == "failed"]
    assert cause.count == result.multistart.failures["failed"]
    assert cause.message == result.multistart.runs[cause.number].message
    lines = result.summary().splitlines()
    assert any(line.startswith("failed ") and line.split()[1] == str(cause.count) for line in lines)
    assert any(line.startswith(f"start {cause.number}, failed: ") for line in lines)


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_keeps_the_best_of_the_fits_that_were_done(barnes, workers):
    from odefit.native.stop import StopFlag
    from odefit.study import fit_from_many

    stop, seen = StopFlag.shared(), []

    def watch(run, done):
        seen.append(run)
        if done == 5:
            stop.set()

    result = fit_from_many("single", barnes, starts=400, seed=1, workers=workers, stop=stop, progress=watch)
    assert result.status == "interrupted"
    record = result.multistart
    assert 5 <= len(record.runs) < 400
    assert all(run.status != "interrupted" for run in record.runs)
    assert f"stopped after {len(record.runs)} of 400 starts" in result.message
    chosen = record.runs[[run.number for run in record.runs].index(record.best)]
    assert result.objective == pytest.approx(chosen.objective, rel=1e-6)
    assert result.estimates == pytest.approx(chosen.estimates, rel=1e-4)
    assert result.objective == pytest.approx(min(r.objective for r in record.runs if r.converged), rel=1e-4)


def test_matched_start_values_are_reported_whichever_start_was_the_best():
    model = of.Model.from_text("x' = k*x^2\nx(0) = 1")
    t = np.linspace(0.2, 2, 10)
    data = of.Measurements.from_columns(t, {"x": 1 / (1 - 0.3 * t)})
    problem = of.Problem(model=model, parameters=[of.Parameter("k", 0.1)], measurements=data)
    for seed in range(3):
        assert of.fit(problem, starts=4, seed=seed, start="auto", workers=1).start_values is not None


def without_a_minimum() -> of.Problem:
    """y = a/(a + t) below data that do not fall: the larger a, the better, and ever less so."""
    model = of.Model.from_text("y = a/(a + t)")
    data = of.Measurements.from_columns([1.0, 2.0, 3.0], {"y": [1.01, 1.02, 1.03]})
    return of.Problem(model, (of.Parameter("a", 1.0, lower=0.0),), data)


def test_what_the_data_do_not_fix_is_said_of_the_place_unless_all_starts_agree():
    alone = of.fit(without_a_minimum())
    assert alone.status == "flat-valley"
    assert "'a' keeps moving: from here the data do not fix it" in alone.message
    several = of.fit(without_a_minimum(), starts=4, workers=1)
    assert {run.message for run in several.multistart.runs} == {alone.message}
    assert several.message.endswith("'a' keeps moving: all 4 starts agree that the data do not fix it")
