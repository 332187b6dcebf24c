"""Failure is a status with time, place and cause; work is bounded; what was not reached is NaN."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from initial_value_problems import (
    AT_ONCE,
    CASES,
    LOOSER,
    by_method,
    by_method_and_order,
    counts_of,
    make_run,
    run_of,
    solve,
)

from odefit.integrate import METHODS, Status
from odefit.native.stop import StopFlag

DECAY = "x' = -k*x\nx(0) = 1"
OSCILLATOR = "x' = v\nv' = -w^2*x\nx(0) = 1\nv(0) = 0"
LOTKA_VOLTERRA = "y1' = -k1*y1 + k2*y1*y2\ny2' = k3*y2 - k4*y1*y2\ny1(0) = 0.4\ny2(0) = 1"
SQUARE = "x' = k*x^2\nx(0) = 1"
RELAY = "x' = if(x < 1, 1, -1)\nx(0) = 0"

# text, p, y0, output times, status, time of the end, its tolerance, states that may be to blame
FAILURES = {
    "pole": (SQUARE, [1.0], [1.0], [0.5, 2.0], Status.STEP_UNDERFLOW, 1.0, 1e-5, "x"),
    "pole at another place": (SQUARE, [4.0], [0.5], [0.1, 0.2, 9.0], Status.STEP_UNDERFLOW, 0.5, 1e-5, "x"),
    "pole of time alone": ("x' = 1/(c - t)\nx(0) = 0", [1.0], [0.0], [0.5, 2.0], Status.STEP_UNDERFLOW, 1.0, 1e-9, "x"),
    "Lotka-Volterra that explodes": (
        LOTKA_VOLTERRA,
        [0.5, 0.5, 0.5, -0.2],
        [0.4, 1.0],
        [1.0, 2.0, 3.0, 10.0],
        Status.STEP_UNDERFLOW,
        3.3064,
        1e-3,
        "y1 y2",
    ),
    "parameter NaN": (DECAY, [np.nan], [1.0], [0.5, 1.0], Status.NONFINITE_START, 0.0, 0.0, "x"),
    "parameter infinite": (DECAY, [np.inf], [1.0], [0.5, 1.0], Status.NONFINITE_START, 0.0, 0.0, "x"),
    "initial state NaN": (OSCILLATOR, [1.0], [1.0, np.nan], [1.0], Status.NONFINITE_START, 0.0, 0.0, "v"),
    "initial state outside a domain": (
        "x' = 1\ny' = sqrt(x)\nx(0) = 0\ny(0) = 0",
        [],
        [-1.0, 0.0],
        [2.0],
        Status.NONFINITE_START,
        0.0,
        0.0,
        "y",
    ),
    "overflow at the start": ("x' = exp(x)\nx(0) = 0", [], [800.0], [1.0], Status.NONFINITE_START, 0.0, 0.0, "x"),
    "sqrt leaves its domain": (
        "x' = -k\ny' = sqrt(x)\nx(0) = 1\ny(0) = 0",
        [1.0],
        [1.0, 0.0],
        [0.5, 2.0],
        Status.NONFINITE,
        1.0,
        1e-9,
        "y",
    ),
    "log leaves its domain": (
        "a' = 1\nx' = -k\ny' = log(x)\na(0) = 0\nx(0) = 1\ny(0) = 0",
        [2.0],
        [0.0, 1.0, 0.0],
        [0.1, 2.0],
        Status.NONFINITE,
        0.5,
        1e-9,
        "y",
    ),
    "no value behind the start": ("x' = sqrt(-t)\nx(0) = 1", [], [1.0], [1.0], Status.NONFINITE, 0.0, 0.0, "x"),
}
REACHED = {
    "dopri5": (1.07, 0.1), "dop853": (6.3, 0.1), "rk32": (0.049, 0.1), "bdf3": (0.15, 0.5), "ddm": (0.77, 0.1),
    "limex": (3.35, 0.1),
}  # fmt: skip
"""Where ten thousand steps end on an oscillator, and how exactly that is known: those of bdf3 are the first one times a
power of two, so that its guess decides by how much they are shorter than they could be."""


@by_method_and_order(0, 1, 2)
def test_sliding_along_a_discontinuity_ends(method, order):
    model, run = run_of(RELAY, [], [0.0], [0.5, 2.0])
    found = method.solve(model, run, rtol=1e-7, atol=1e-9, order=order)
    assert found.status is Status.CHATTERING
    assert found.t_end == pytest.approx(1.0, abs=1e-5)
    assert "the condition 'x<1' changes to and fro without end at t = 1:" in found.sentence(model)
    np.testing.assert_allclose(found.y[:, 0], [0.5, np.nan], rtol=1e-6)


@by_method_and_order(0, 1, 2)
def test_the_limit_on_steps_ends_where_the_order_of_the_method_lets_it(method, order):
    model, run = run_of(OSCILLATOR, [1e3], [1.0, 0.0], [1e-4, 100.0])
    found = method.solve(model, run, rtol=1e-7, atol=1e-9, order=order, max_steps=10_000)
    assert found.status is Status.TOO_MANY_STEPS
    expected, spread = REACHED[method.name]
    assert found.t_end == pytest.approx(expected, rel=spread)
    assert model.states[found.cause] in ("x", "v")  # they take turns
    assert np.isfinite(found.y[0]).all()
    assert np.isnan(found.y[1]).all()


@by_method_and_order(0, 1, 2)
@pytest.mark.parametrize("name", FAILURES)
def test_failure_is_a_status(method, name, order):
    text, p, y0, times, status, t_end, tolerance, suspects = FAILURES[name]
    model, run = run_of(text, p, y0, times)
    found = method.solve(model, run, rtol=1e-7, atol=1e-9, order=order, max_steps=10_000)
    assert found.status is status
    assert found.t_end == pytest.approx(t_end, abs=tolerance * LOOSER[method.name])
    cause = model.states[found.cause]
    assert cause in suspects.split()
    assert f"'{cause}'" in found.sentence(model)
    assert f"t = {found.t_end:.6g}" in found.sentence(model)
    assert found.counters.steps + found.counters.rejected <= 10_000
    reached = np.array(times) <= found.t_end
    for array in (found.y, found.S, found.S2):
        assert np.isfinite(array[reached]).all()
        assert np.isnan(array[~reached]).all()
    assert found.S.shape[2] == (len(p) + len(y0) if order else 0)


@by_method_and_order(0, 1, 2)
def test_overflow_on_the_way(method, order):
    """exp(t) overflows at t = 709.8; its derivatives, which carry powers of t, a little earlier."""
    model, run = run_of("x' = k*x\nx(0) = 1", [1.0], [1.0], [0.5, 1000.0])
    found = method.solve(model, run, rtol=1e-7, atol=1e-9, order=order)
    assert found.status is (Status.NONFINITE_DERIVATIVE if order else Status.NONFINITE)
    assert 690.0 < found.t_end < 709.8
    assert np.isfinite(found.S[0]).all()
    assert np.isnan(found.y[1]).all()


@by_method_and_order(0, 1, 2)
def test_overflow_with_finite_slopes(method, order):
    """The new state is infinite, its slope and the estimated error are not: no success all the same."""
    model, run = run_of("x' = c\nx(0) = 0", [1e307], [0.0], [1.0, 100.0])
    found = method.solve(model, run, rtol=1e-7, atol=1e-9, order=order)
    assert found.status is Status.NONFINITE
    assert found.t_end == pytest.approx(np.finfo(float).max / 1e307)
    assert np.isfinite(found.y[0]).all()
    assert np.isnan(found.y[1]).all()


@by_method
def test_grid_of_a_failure_ends_there(method):
    model, run = run_of(SQUARE, [1.0], [1.0], [0.5, 2.0])
    found = method.solve(model, run, rtol=1e-7, atol=1e-9)
    assert sum(counts_of(found.grid)) == found.grid.steps.size
    assert found.grid.steps.sum() == pytest.approx(found.t_end, rel=1e-12)


@by_method
@pytest.mark.parametrize("max_steps", [1, 2, 17])
def test_limit_on_steps(method, max_steps):
    model, run = run_of(OSCILLATOR, [100.0], [1.0, 0.0], [100.0], stops=[1e-3, 1.0])
    found = method.solve(model, run, rtol=1e-7, atol=1e-9, max_steps=max_steps)
    assert found.status is Status.TOO_MANY_STEPS
    attempts = found.counters.steps + found.counters.rejected
    assert max_steps - AT_ONCE[method.name] < attempts <= max_steps
    assert "raise max_steps" in found.sentence(model)


@by_method
def test_limit_that_is_just_enough(method):
    model, run = run_of(DECAY, [1.0], [1.0], [1.0])
    counters = method.solve(model, run, rtol=1e-7, atol=1e-9).counters
    attempts = counters.steps + counters.rejected
    assert method.solve(model, run, rtol=1e-7, atol=1e-9, max_steps=attempts).status is Status.OK
    short = method.solve(model, run, rtol=1e-7, atol=1e-9, max_steps=attempts - 1)
    assert short.status is Status.TOO_MANY_STEPS


@by_method
def test_long_horizon_does_not_make_small_steps_at_the_start_impossible(method):
    """Near t = 0 steps far below the rounding of the end are fine numbers."""
    model, run = run_of(OSCILLATOR, [1e5], [1.0, 0.0], [1e-5, 1e4])
    found = method.solve(model, run, rtol=1e-7, atol=1e-9, max_steps=2000)
    assert found.status is Status.TOO_MANY_STEPS
    assert found.y[0, 0] == pytest.approx(np.cos(1.0), rel=1e-5)


@by_method
@pytest.mark.parametrize("place", [0.1234, 1.2345, 1.9999])
def test_jump_that_no_step_knows_of_is_passed(method, place):
    """Where a state tells the time, steps find the jump by themselves."""
    text = "clock' = 1\nx' = if(clock < c, 1, -1)\nclock(0) = 0\nx(0) = 0"
    model, run = run_of(text, [place], [0.0, 0.0], [2.0])
    found = method.solve(model, run, rtol=1e-7, atol=1e-9, max_steps=500)
    assert found.status is Status.OK
    assert found.y[0, 1] == pytest.approx(2 * place - 2.0, abs=1e-4)


@by_method_and_order(1, 2)
def test_derivative_that_does_not_exist(method, order):
    """At x = 0 the slope of sqrt is infinite; the solution itself is fine."""
    model, run = run_of("a' = -a\nx' = k*sqrt(x)\na(0) = 1\nx(0) = 0", [1.0], [1.0, 0.0], [0.0, 1.0])
    assert method.solve(model, run, rtol=1e-7, atol=1e-9).status is Status.OK
    found = method.solve(model, run, rtol=1e-7, atol=1e-9, order=order)
    assert found.status is Status.NONFINITE_DERIVATIVE
    assert (found.t_end, model.states[found.cause]) == (0.0, "x")
    assert "a derivative of 'x' with respect to a parameter is not a finite number at t = 0" in found.sentence(model)
    assert np.isfinite(found.S[0]).all()
    assert np.isnan(found.S[1]).all()
    assert np.isnan(found.y[1]).all()


@by_method_and_order(1, 2)
def test_derivative_that_does_not_exist_at_the_start_of_a_step_only(method, order):
    """y = (2/3) t^1.5: infinite slope of sqrt(x) at t = 0, finite ones at all later stages."""
    model, run = run_of("x' = k\ny' = sqrt(x)\nx(0) = 0\ny(0) = 0", [1.0], [0.0, 0.0], [1.0, 2.0])
    found = method.solve(model, run, rtol=1e-7, atol=1e-9, order=order)
    if method.name == "ddm":  # the start is not among the points where it differentiates
        assert found.status is Status.OK
        assert np.isfinite(found.S).all()
    else:
        assert found.status is Status.NONFINITE_DERIVATIVE
        assert model.states[found.cause] == "y"


@by_method_and_order(1, 2)
def test_derivative_that_does_not_exist_on_the_way(method, order):
    """sqrt(abs(x - 1)) where a stop puts a grid point exactly on the kink."""
    text = "x' = 1\ny' = sqrt(abs(x - 1))\nx(0) = 0\ny(0) = 0"
    model, run = run_of(text, [], [0.0, 0.0], [0.5, 2.0], stops=[1.0])
    found = method.solve(model, run, rtol=1e-5, atol=1e-5, order=order)
    good = found.status is Status.OK and np.isfinite(found.S).all()
    assert good or (found.status is Status.NONFINITE_DERIVATIVE and np.isnan(found.S[1]).all())
    assert np.isfinite(found.S[0]).all()


@by_method
@pytest.mark.parametrize("stops", [None, [1.0, 2.0]])
def test_stop_flag_set_before(method, stops):
    flag = StopFlag()
    flag.set()
    model, run = run_of(DECAY, [1.0], [1.0], [0.0, 3.0], stops=stops)
    found = method.solve(model, run, rtol=1e-7, atol=1e-9, order=1, stop=flag)
    assert found.status is Status.STOPPED
    assert found.t_end == 0.0
    assert found.counters.steps == 0
    assert found.y[0, 0] == 1.0
    assert np.isnan(found.y[1]).all()
    assert found.sentence(model) == "the integration was stopped at t = 0"


@by_method_and_order(0, 1, 2)
def test_stop_flag_set_by_another_thread(method, order):
    """A kernel that did not listen would run into the limit on steps much later."""
    flag = StopFlag()
    model, run = run_of(OSCILLATOR, [1e3], [1.0, 0.0], [1e-3, 1e5])
    timer = threading.Timer(0.2, flag.set)
    timer.start()
    found = method.solve(model, run, rtol=1e-7, atol=1e-9, order=order, max_steps=10**8, stop=flag)
    timer.join()
    assert found.status is Status.STOPPED
    assert 1e-3 < found.t_end < 1e5
    assert np.isfinite(found.y[0]).all()
    assert np.isnan(found.y[1]).all()


@by_method
def test_stop_flag_that_is_not_set_changes_nothing(method):
    model, run = run_of(DECAY, [1.0], [1.0], [3.0])
    plain, flagged = (method.solve(model, run, rtol=1e-7, atol=1e-9, stop=stop) for stop in (None, StopFlag()))
    np.testing.assert_array_equal(plain.y, flagged.y)


TINY, HUGE = 1e-300, 1e300


@by_method
@pytest.mark.parametrize(
    ("rtol", "atol"),
    [(TINY, TINY), (0.0, 0.0), (0.0, TINY), (TINY, 1.0), (1.0, TINY), (HUGE, HUGE), (1e-16, TINY), (np.inf, np.inf)],
)
@pytest.mark.parametrize("y0", [1.0, 0.0, 1e-300, 1e300])
def test_extreme_tolerances_end_in_a_status(method, rtol, atol, y0):
    model, run = run_of(DECAY, [1.0], [y0], [0.5, 1.0])
    found = method.solve(model, run, rtol=rtol, atol=atol, order=1, max_steps=5000)
    assert found.counters.steps + found.counters.rejected <= 5000
    if found.status is Status.OK:
        assert found.t_end == 1.0
        assert np.isfinite(found.y).all()
    else:
        assert found.t_end < 1.0
        assert np.isnan(found.y[1]).all()


@by_method
def test_unreachable_tolerance_is_a_failure(method):
    model, run = run_of(DECAY, [1.0], [1.0], [1.0])
    # steps below rounding, or so many tiny ones whose error happens to round to zero: both are bounded and honest
    found = method.solve(model, run, rtol=TINY, atol=TINY, max_steps=5000)
    assert found.status in (Status.STEP_UNDERFLOW, Status.TOO_MANY_STEPS)
    assert np.isnan(found.y).all()


@by_method
@pytest.mark.parametrize("p", [1e30, 1e200, np.nan, np.inf])
def test_failed_replay_leaves_the_grid_as_it_was(method, p):
    """Another point on the same grid must not see what happened at this one."""
    model, run = run_of(SQUARE, [0.5], [1.0], [0.3, 0.7, 1.0], stops=[0.5])
    good = method.solve(model, run, rtol=1e-7, atol=1e-9, order=1)
    kept = good.grid.steps.copy(), counts_of(good.grid)
    _, wild = run_of(SQUARE, [p], [1.0], [0.3, 0.7, 1.0], stops=[0.5])
    failed = method.solve(model, wild, rtol=1e-7, atol=1e-9, order=1, grid=good.grid)
    if method.name == "limex" and np.isfinite(p):  # nothing is iterated that could fail: the estimated error tells
        assert failed.status is Status.OK
        assert failed.error_ratio > 1e4
    else:
        assert failed.status in (Status.NONFINITE, Status.NONFINITE_START, Status.NOT_SOLVED)
        assert np.isnan(failed.y).all()
    np.testing.assert_array_equal(good.grid.steps, kept[0])
    assert counts_of(good.grid) == kept[1]
    again = method.solve(model, run, rtol=1e-7, atol=1e-9, order=1, grid=good.grid)
    assert again.status is Status.OK
    np.testing.assert_array_equal(again.S, good.S)


@by_method
def test_stopped_replay_leaves_the_grid_as_it_was(method):
    case = CASES[1]
    good = solve(method, case, make_run(case), order=1)
    counts = counts_of(good.grid)
    flag = StopFlag()
    flag.set()
    assert solve(method, case, make_run(case), order=1, grid=good.grid, stop=flag).status is Status.STOPPED
    assert counts_of(good.grid) == counts
    again = solve(method, case, make_run(case), order=1, grid=good.grid)
    np.testing.assert_array_equal(again.y, good.y)


@by_method
def test_overflow_on_replay_is_a_status(method):
    """The frozen steps reach beyond the pole of the new parameters."""
    model, run = run_of(SQUARE, [0.5], [1.0], [1.0])
    grid = method.solve(model, run, rtol=1e-7, atol=1e-9).grid
    _, beyond = run_of(SQUARE, [50.0], [1.0], [1.0])
    found = method.solve(model, beyond, rtol=1e-7, atol=1e-9, grid=grid)
    assert found.status is Status.NONFINITE or found.error_ratio > 1e3


MISFIT = """
import sys
sys.path.insert(0, sys.argv[1])
from initial_value_problems import *
from odefit.errors import OdefitError
from odefit.integrate import METHODS

method, case = METHODS[sys.argv[2]], CASES[0]
for stops, counts in ([], [20, 20]), ([2.0], [40]), ([1.0, 2.0, 3.0], [10, 10]):
    try:
        found = solve(
            method, case, make_run(case, times=[1.0, 4.0], stops=stops),
            grid=grid_of(method, [[0.1] * n for n in counts]),
        )
    except OdefitError as error:
        print("refused:", error, flush=True)
    else:
        print(found.status.name, found.t_end, flush=True)
"""


@by_method
def test_grid_with_another_number_of_pieces_is_refused(method):
    """In a process of its own: a kernel that reads beyond its arrays may take the interpreter with it."""
    done = subprocess.run(
        [sys.executable, "-c", MISFIT, str(Path(__file__).parent), method.name],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == 3, done.stdout + done.stderr
    for line in lines:
        assert line.startswith("refused: "), done.stdout + done.stderr
        assert "piece" in line


@pytest.mark.parametrize("status", Status, ids=lambda status: status.name)
def test_every_status_has_a_sentence(status):
    words = status.sentence.format(t="1.5", cause="abc")
    assert "{" not in words
    if status is not Status.OK:
        assert "t = 1.5" in words or "after a time of 1.5" in words


def test_cause_outside_the_states_is_the_model():
    model, run = run_of(DECAY, [1.0], [1.0], [1.0])
    found = METHODS["dopri5"].solve(model, run, rtol=1e-7, atol=1e-9)
    changed = found._replace(cause=-1, status=Status.NONFINITE)
    assert "the equation of 'the model'" in changed.sentence(model)
