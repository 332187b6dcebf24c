"""The loop over time, the same for every method: pieces, steps chosen or replayed, output, limits.

A method is its steps (`Method`): the loop asks it to begin a piece, to attempt a step, to differentiate one that is
taken, to interpolate in it, and to move on.  `time_loop` joins the two to one kernel, so that nothing is called through
a pointer inside the loop but model functions and the sink.

**Pieces with moving ends** (see `odefit.compile.switches`) are integrated in the fraction of them, from 0 to 1: for a
method this is time like any other, and only output and messages know better.

What a method must remember from step to step stands in its *room*, a named tuple of arrays, cut from one `pool`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from odefit.integrate.borders import end_of_stretch
from odefit.integrate.consistent_pieces import consistent_entrance, forget_shifts
from odefit.integrate.contract import Counters, Status
from odefit.integrate.course import leaves_to_conditions, new_course
from odefit.integrate.events import event_scratch
from odefit.integrate.gathering import aggregates_of, scratch_for_output
from odefit.integrate.loop_parts import (
    BEYOND,
    NOT_FINITE,
    SHORTER,
    SOLVED,
    UNSOLVED,
    beginner,
    border_finder,
    entrance,
    finisher,
    leaver,
    step_again,
    trial,
    watchers,
)
from odefit.integrate.moving_output import next_output
from odefit.integrate.output import output_at_ends
from odefit.integrate.present_piece import enter_piece, time_in_task
from odefit.integrate.sizes import (
    MOST_REPEATS,
    PILOT_RTOL,
    PILOT_STEPS,
    begin_pilot,
    is_complete,
    may_be_small,
    needs_pilot,
    set_tolerances,
    tighten_small,
)
from odefit.integrate.solved_along import forget_solutions, noting_solutions
from odefit.integrate.stepping import JACOBIAN, RHS, longer
from odefit.integrate.task import KEEPING, Task, bordering_at, elimination_at, switching_at, task_at
from odefit.native.calls import call_model
from odefit.native.kernel import kernel, named
from odefit.native.pool import keep_alive
from odefit.native.table_slots import REFUSED, SLOT

_OK, _NONFINITE_START, _NONFINITE, _UNDERFLOW, _TOO_MANY, _STOPPED, _, _NOT_SOLVED = map(int, tuple(Status)[:8])
_OUTSIDE_TABLE, _NONFINITE_DERIVATIVE = int(Status.OUTSIDE_TABLE), int(Status.NONFINITE_DERIVATIVE)
_COUNTERS = len(Counters._fields)
_write_limits = KEEPING.writer(Task, "rtol", "max_steps")
_SMALLEST_STEP = 1e-290
_STEPS_OF_REPEAT, _MORE_STEPS = 1000, 20
_TINY = 4.0 * float(np.finfo(float).eps)


class Method(NamedTuple):
    """The steps of a method, as kernels.

    Attributes
    ----------
    stride
        Number of equal steps that are attempted together.
    make_room(task, elimination, order)
        Return the room, initial state and directions in it.
    seed(task, elimination, room)
        Read the seeds of p again: those of start and length of a piece with moving ends have changed.
    begin(task, elimination, room, t, t_end, h, replay)
        Begin a piece at `t`: return status, the state to blame, and the first step size to try (unused on replay).  The
        piece before, if there is one, would have gone on with steps of size `h`, else this is 0.
    attempt(task, elimination, room, t, h, t_new, t_out, step)
        Try steps of size `h` from `t` to `t_new`; the next output is at `t_out`.  On replay `step` is the number of the
        step in the grid, else -1.  Return how it ended, the largest error over tolerance, and the state it belongs to.
    differentiate(task, elimination, room, t, h, t_new)
        Compute the directions of a step that is taken: return status, the state to blame, and their error over
        tolerance (0: they take no part in the error test).
    retry(task, room, ratio, outcome)
        Return by how much to shorten a step that was rejected.
    interpolate(task, room, t, h, t_new, t_out, derivative)
        Write states and directions at `t_out`, or their first or second derivative by time if `derivative` is 1 or 2,
        to ``room.y_out``, ``room.s_out`` and ``room.s2_out``, in row 0.
    current(room)
        Return the arrays that hold the states where the method stands, and their directions of first and second order,
        and the row of all three: what an event changes.
    advance(task, room, t, h, t_new, ratio, replay)
        Move to the end of a step that is taken: return status, the factor of the next step size, and what the grid
        notes as its order.
    peek(task, room, t, h, t_new, t_out, derivative)
        The same as `interpolate`, for states alone.
    consistent(task, elimination, room, t)
        Make the states where the method stands, and their directions, consistent: return status and the state to blame.
        None for ``y' = f``, where every state is; only methods for equations in several derivatives have it.
    """

    stride: int
    make_room: Callable[..., Any]
    seed: Callable[..., Any]
    begin: Callable[..., Any]
    attempt: Callable[..., Any]
    differentiate: Callable[..., Any]
    retry: Callable[..., Any]
    interpolate: Callable[..., Any]
    advance: Callable[..., Any]
    current: Callable[..., Any]
    peek: Callable[..., Any]
    consistent: Callable[..., Any] | None = None


@kernel(inline=True)
def _step_length(t, h, t_end, stride, attempts, task, was_nonfinite):
    """Return status, the step size, and whether the step is the last one of its piece."""
    longest = task.max_step
    if task.moving != 0:  # steps are fractions of the piece, whose length is the last entry of p
        longest /= task.p[task.n_parameters - 1]
    h = min(h, longest)
    if t + stride * 1.01 * h >= t_end:
        h = (t_end - t) / stride  # may be as short as rounding: data that close to the start are no failure
        last = h <= longest
        if not last:
            h *= 0.5
    else:
        last = False
        if h <= _TINY * abs(t) or h < _SMALLEST_STEP:
            return (_NONFINITE if was_nonfinite else _UNDERFLOW), h, last
    return (_TOO_MANY if attempts + stride > task.max_steps else _OK), h, last


@kernel(inline=True)
def _note_steps(taken, orders, n_taken, h, mark, stride):
    """Note steps that are taken, for which there is room; return how many are noted."""
    for k in range(n_taken, n_taken + stride):
        taken[k], orders[k] = h, mark
    return n_taken + stride


@kernel(inline=True)
def _next_step(task, t, h, t_end, kink, stride, attempts, was_nonfinite, grid):
    """Return what `_step_length` does, for a step that ends at the next kink at the latest, and which kink is next.

    On replay the step is that of the grid, see `step_again`.
    """
    replay, step, behind, awaited = grid
    if task.stop[0] != 0:
        return _STOPPED, h, False, kink
    if replay:
        status, h, last = step_again(task, t, h, t_end, step, behind, stride, awaited)
        return status, h, last, kink
    kinks = task.kinks
    while kink < kinks.size and kinks[kink] - t <= _TINY * max(abs(t), abs(kinks[kink])):
        kink += 1
    t_stop = kinks[kink] if kink < kinks.size and kinks[kink] < t_end else t_end
    status, h, last = _step_length(t, h, t_stop, stride, attempts, task, was_nonfinite)
    return status, h, last and t_stop == t_end, kink


@kernel(inline=True)
def _wanted_next(wanted, unit, h, factor, asked):
    """Return what step control wants behind a step of size `h`, in the time of the task.

    A step that an end cut short was shorter than `asked` for: it does not tell that the next one must be short, too.
    Nor does a piece of length zero.
    """
    if unit == 0.0:
        return wanted
    return unit * (h * factor if h >= asked else max(h * factor, asked))


@kernel(inline=True, allocating=True)
def _cleared(task, replay):
    """Let go of what an earlier integration counted and found, and of what tables were asked for in vain.

    Returns where it is counted.
    """
    for j in range(_COUNTERS if replay else task.counts.size):
        task.counts[j] = 0
    for slot in range(task.slots):
        at = 1 + SLOT * slot + REFUSED
        task.u[at], task.u[at + 1] = np.nan, np.nan
    forget_solutions(task)
    return task.counts


@kernel(inline=True)
def _or_refused(task, status):
    """Return `status`, or OUTSIDE_TABLE where something is not finite since a table or equation has no such value."""
    if status == _NONFINITE_START or status == _NONFINITE or status == _NONFINITE_DERIVATIVE:
        for slot in range(task.slots):
            at = 1 + SLOT * slot + REFUSED
            if not (math.isnan(task.u[at]) and math.isnan(task.u[at + 1])):
                return _OUTSIDE_TABLE
    return status


def time_loop(name: str, method: Method, *, implicit: bool = False) -> Any:
    """Return the kernel `name` that integrates by `method`, see `METHOD`.

    In an `implicit` one, states that begin at zero and stay small keep the usual tolerance: what is solved for has
    rounding errors of larger states in it, which may be all there is of a small one.
    """
    integrate, explicit = _loop(name, noting_solutions(method)), method.consistent is None

    @kernel
    @named(name)
    def solve(table, i, order, replay, taken, orders, n_taken):
        """Integrate task `i` of a table: to choose steps, a pilot may go ahead, a run may be repeated (sizes)."""
        task, switching = task_at(table, i), switching_at(table, i)
        pilot = not replay and needs_pilot(task.aims, task.y0)
        sizes, slopes = np.zeros(task.n if pilot else 0), np.zeros(task.n if pilot else 0)
        largest = np.zeros(task.n if not (implicit or replay) and may_be_small(task.aims, task.y0) else 0)
        n_rhs = n_jacobian = repeats = 0
        if pilot:
            if task.ends.size > 0:  # inputs, start and length of the first piece
                enter_piece(task, switching, bordering_at(table, i).kind.size, 0, 0)
            if explicit:  # else a state that begins at zero counts once it has left it
                start = 0.0 if task.moving != 0 else task.start
                call_model(task.value, start, task.y0, 0, task.p, task.u, slopes, 0)
            n_rhs = 1
            begin_pilot(task.aims, task.rtol, task.y0, slopes, sizes, task.atol)
            _write_limits(table, i, (PILOT_RTOL, min(task.max_steps, PILOT_STEPS)))
        elif not replay:
            set_tolerances(task.aims, task.rtol, task.y0, sizes, task.atol)
        while True:
            result = integrate(
                table, i, 0 if pilot else order, replay, sizes if pilot else sizes[:0], largest, taken, orders, n_taken
            )  # one call, since the loop over the steps is compiled wherever it is called
            max_steps = task.max_steps
            if pilot:
                pilot = False
                set_tolerances(task.aims, task.rtol, task.y0, sizes, task.atol)
            elif largest.size == 0 or result[0] == _STOPPED or repeats > MOST_REPEATS:
                break
            elif repeats > 0 and (result[0] == _TOO_MANY or result[0] == _UNDERFLOW):
                repeats = MOST_REPEATS + 1
                set_tolerances(task.aims, task.rtol, task.y0, sizes, task.atol)
            elif repeats < MOST_REPEATS and tighten_small(task.aims, task.rtol, task.y0, largest, task.atol):
                repeats += 1
                max_steps = min(max_steps, _STEPS_OF_REPEAT + _MORE_STEPS * (result[5] - n_taken))
            else:
                break
            _write_limits(table, i, (task.rtol, max_steps))
            n_rhs, n_jacobian = n_rhs + task.counts[RHS], n_jacobian + task.counts[JACOBIAN]
        _write_limits(table, i, (task.rtol, task.max_steps))
        task.counts[RHS] += n_rhs
        task.counts[JACOBIAN] += n_jacobian
        return result

    return solve


@kernel(inline=True)
def _goes_on(replay, step, behind, awaited, t, t_end, sizes):
    """Tell whether a piece has more steps."""
    return step < behind or awaited >= 0 if replay else t < t_end and not is_complete(sizes)


def _entrance(method: Method) -> tuple[Any, Any]:
    """Return the kernel that enters a piece, and what lets go of shifts of borders where states are made consistent."""
    if method.consistent is None:
        return entrance(method.seed, method.current), None
    return consistent_entrance(method.seed, method.current, method.consistent), forget_shifts


def _loop(name: str, method: Method) -> Any:
    """Return the loop over the steps of `method`; with an array of `sizes` it is a pilot, without output."""
    stride, make_room, retry, advance = method.stride, method.make_room, method.retry, method.advance
    (enter, forget), begin_piece, leave = _entrance(method), beginner(method.begin), leaver(method.current)
    try_step, find = trial(method.attempt, method.differentiate), border_finder(name, method.peek, forget)
    finish, (begin_output, open_piece, write_rest) = finisher(name, method.interpolate), output_at_ends(method)
    watch_rejected, watch_accepted = watchers(method.interpolate)

    @kernel(inline=True, allocating=True)
    def integrate(table, i, order, replay, sizes, largest, taken, orders, n_taken):
        """Integrate task `i` of a table through all its pieces."""
        task, elimination, pilot = task_at(table, i), elimination_at(table, i), sizes.size > 0
        counts = _cleared(task, replay)
        room, course = make_room(task, elimination, order), new_course(table, i, order, replay)
        scratch, events = scratch_for_output(table, i, room), event_scratch(task, switching_at(table, i), order)
        gather, derives, watched = aggregates_of(table, i), order >= 1 and task.n_directions > 0, course.size > 0
        t, h, asked, ratio_most, wanted, rejected, attempts, step = task.start, 0.0, 0.0, 0.0, 0.0, 0, 0, 0
        next_time, kink, begun, border = task.times.size if pilot else 0, 0, n_taken, -1
        piece = np.int64(0)  # no literal, for which all that is handed it would be compiled once more
        status, cause, next_time = begin_output(table, i, room, next_time, gather, scratch)
        while status == _OK and piece < task.ends.size and task.n > 0:
            is_start = piece == 0 and border < 0
            t, t_end, unit, status, cause = enter(
                table, i, task, elimination, room, piece, order, t, course, events, cause
            )
            at = (t, is_start, status, cause)
            status, cause, next_time = open_piece(table, i, room, at, next_time, gather, scratch)
            begun, was_nonfinite = n_taken if border < 0 else begun, False
            behind, awaited = end_of_stretch(table, i, replay, order, course, piece, step, counts[_COUNTERS + piece])
            if status == _OK and t < t_end:  # several events at one time have nothing between them
                h = wanted / unit if unit > 0.0 else 0.0  # 0 means none
                status, cause, h = begin_piece(table, i, task, elimination, room, t, t_end, h, replay, order, course)
            status, border = _NONFINITE if status == _NONFINITE_START and not is_start else status, -1
            while status == _OK and border < 0 and _goes_on(replay, step, behind, awaited, t, t_end, sizes):
                asked, grid = h, (replay, step, behind, awaited)
                status, h, last, kink = _next_step(task, t, h, t_end, kink, stride, attempts, was_nonfinite, grid)
                if status != _OK:
                    break
                t_new, number = t_end if last else t + stride * h, min(step, behind - stride) if replay else -1
                t_out = next_output(task, gather[1] or watched, next_time, t_new, piece)
                status, outcome, ratio, worst = try_step(task, elimination, room, t, h, t_new, t_out, number, derives)
                if status == _OK and not math.isfinite(ratio):
                    if leaves_to_conditions(table, i, order, course):
                        continue  # the step is tried again
                    status = (_NOT_SOLVED if outcome == UNSOLVED else _NONFINITE) if replay else _OK
                attempts += stride
                if status != _OK:
                    cause = worst
                    break
                if not replay and not ratio <= 1.0:
                    rejected, cause = rejected + stride, worst
                    was_nonfinite = outcome == NOT_FINITE or (outcome == SOLVED and not math.isfinite(ratio))
                    watch_rejected(task, room, t, h, t_new, outcome, pilot)
                    h *= retry(task, room, ratio, outcome)
                    continue
                if ratio > ratio_most:
                    ratio_most, cause = ratio, worst
                border, until, status, cause = find(table, i, room, t, h, t_new, order, course, replay, awaited, cause)
                if border == SHORTER:  # the step ends at the border
                    rejected, border, h = rejected + stride, -1, (until - t) / stride * BEYOND
                    continue
                next_time, status, cause = finish(
                    table, i, task, room, (t, h, t_new, until), next_time, piece, gather, scratch, largest,
                    (border, order, course, status, cause),
                )  # fmt: skip
                watch_accepted(task, room, t, h, t_new, sizes)
                if status != _OK:
                    break
                status, factor, mark = advance(task, room, t, h, t_new, ratio, replay)
                step, t, was_nonfinite = step + stride, until, False
                if not (replay or pilot):
                    if n_taken + stride > taken.size:  # here, where it is rare: to hand on arrays that may be new costs
                        taken, orders = longer(taken), longer(orders)
                    n_taken = _note_steps(taken, orders, n_taken, h, mark, stride)
                wanted = _wanted_next(wanted, unit, h, factor, asked)
                h *= factor
            if not replay:
                counts[_COUNTERS + piece] = n_taken - begun
            if status == _OK:
                status, cause, piece, step = leave(
                    table, i, room, piece, order, course, events, cause, border, step, behind
                )
        if status == _OK and not pilot:
            status, cause, next_time = write_rest(table, i, room, (t, False, status, cause), next_time, gather, scratch)
        t, status = time_in_task(task, t), _or_refused(task, status)
        keep_alive((room.pool, scratch, events, course))
        counts[0], counts[1] = attempts - rejected, rejected
        return status, t, cause, ratio_most, next_time, n_taken, taken, orders

    return integrate
