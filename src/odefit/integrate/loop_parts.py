"""The loop over time in parts: how a piece is entered and left, a step is tried and finished, a border is met.

Makers of kernels, which `odefit.integrate.time_loop` puts together for a method.
"""

from __future__ import annotations

from typing import Any

from odefit.integrate.borders import forget_step, look_before_jump, note_crossing, resume_piece, settle
from odefit.integrate.contract import Status
from odefit.integrate.course import leaves_to_conditions
from odefit.integrate.crossing import ENDLESS, crosser
from odefit.integrate.events import FIRST_OWNER, apply_event
from odefit.integrate.landing import lander
from odefit.integrate.output import output_within_steps
from odefit.integrate.present_piece import enter_piece
from odefit.integrate.sizes import any_without_size, note_accepted, note_rejected
from odefit.integrate.task import bordering_at, switching_at, task_at
from odefit.native.kernel import kernel

_OK, _NONFINITE_START, _SWITCHED, _CHATTERING = (
    int(one) for one in (Status.OK, Status.NONFINITE_START, Status.SWITCHED, Status.CHATTERING)
)
_MORE_THAN_GRID = 10  # steps, where a border is crossed later than the grid tells

_INSIDE = 0.1  # of a step: a border further away from its ends than that makes it shorter
BEYOND = 1.05
"""By how much such a step is longer than up to the border: this may move with parameters, and stays within the step."""
SHORTER = -3
"""In place of a border: it is crossed inside a step, which is to be taken again up to there."""
SOLVED, UNSOLVED, NOT_FINITE = 0, -1, -2
"""How an attempt ends; a positive number is a `Status` that ends the integration."""


@kernel(inline=True)
def step_again(task, t, h, t_end, step, behind, stride, awaited):
    """Return status, size and whether it is the last one, of a step that is replayed.

    Where a border is awaited that is not crossed yet behind the steps of the grid, some more follow of the size of the
    last ones; the very last one may have been short.
    """
    if step < behind:
        return _OK, task.steps[step], awaited < 0 and step + stride == behind
    if t >= t_end or step - behind >= _MORE_THAN_GRID * stride:
        return _SWITCHED, h, False
    longest = h
    for k in range(max(0, behind - _MORE_THAN_GRID * stride), behind):
        longest = max(longest, task.steps[k])
    return _OK, min(2.0 * h, longest, (t_end - t) / stride), False


def entrance(seed: Any, current: Any) -> Any:
    """Return the kernel that enters a piece at `t`, or resumes it behind a border.

    It returns where the piece begins and ends in the method's time, its unit, status and what to blame.
    """

    @kernel(inline=True, allocating=True)
    def enter(table, i, task, elimination, room, piece, order, t, course, scratch, cause):
        enter_piece(task, switching_at(table, i), bordering_at(table, i).kind.size, piece, order)
        if task.moving == 0:
            return t, task.ends[piece], 1.0, _OK, cause
        status = _OK
        if course.size > 0:
            resume_piece(table, i, order, course, piece)
            y, s, s2, row = current(room)
            status, blamed = settle(table, i, order, y, s, s2, row, course, scratch)
            cause = cause if status == _OK else blamed
        seed(task, elimination, room)
        return 0.0, 1.0, task.p[task.n_parameters - 1], status, cause

    return enter


def beginner(begin: Any) -> Any:
    """Return the kernel that lets a method begin a piece; beyond a border perhaps with the conditions themselves."""

    @kernel(inline=True)
    def begin_piece(table, i, task, elimination, room, t, t_end, h, replay, order, course):
        status, cause, first = _OK, -1, h
        for _ in range(2):
            status, cause, first = begin(task, elimination, room, t, t_end, h, replay)
            if status != _NONFINITE_START or not leaves_to_conditions(table, i, order, course):
                break
        return status, cause, first

    return begin_piece


def leaver(current: Any) -> Any:
    """Return the kernel that lets happen what ends a piece, or goes on in it behind the border that was crossed.

    It returns status, what to blame, and the numbers of the next piece and step.
    """

    @kernel(inline=True, allocating=True)
    def leave(table, i, room, piece, order, course, scratch, cause, border, step, behind):
        switching = switching_at(table, i)
        y, s, s2, row = current(room)
        if border >= 0:
            for j in range(room.y_out.shape[1]):
                y[row, j] = room.y_out[0, j]
            for j in range(room.s_out.shape[1]):
                s[row, j] = room.s_out[0, j]
            for j in range(room.s2_out.shape[1]):
                s2[row, j] = room.s2_out[0, j]
            status, blamed = note_crossing(table, i, order, course, border, piece, step, behind < 0)
            return status, (cause if status == _OK else blamed), piece, (step if behind < 0 else behind)
        if course.size > 0:
            look_before_jump(table, i, order, task_at(table, i).ends[piece], y, row, course)
        if switching.event_kind.size == 0 or switching.passed[1 + piece] > FIRST_OWNER:
            return _OK, cause, piece + 1, step
        status, blamed = apply_event(table, i, piece, order, y, s, s2, row, scratch)
        return status, (cause if status == _OK else blamed), piece + 1, step

    return leave


def trial(attempt: Any, differentiate: Any) -> Any:
    """Return the kernel that attempts a step and, if it is taken, differentiates it.

    It returns status, how the attempt ended, the largest error over tolerance, and the state that this belongs to.
    """

    @kernel(inline=True)
    def try_step(task, elimination, room, t, h, t_new, t_out, step, differentiates):
        outcome, ratio, worst = attempt(task, elimination, room, t, h, t_new, t_out, step)
        if outcome > 0:
            return outcome, outcome, ratio, worst
        if differentiates and outcome == SOLVED and (step >= 0 or ratio <= 1.0):
            status, bad, other = differentiate(task, elimination, room, t, h, t_new)
            if status != _OK:
                return status, outcome, ratio, bad
            if other > ratio:
                ratio, worst = other, bad
        return _OK, outcome, ratio, worst

    return try_step


def border_finder(name: str, peek: Any, forget: Any = None) -> Any:
    """Return the kernel that tells which border is crossed in a step (-1: none), where, status and what to blame.

    Methods are more accurate at the ends of their steps than between them.  Therefore a step that is chosen ends where
    a border is crossed: it is taken again, and the border found anew, close to its end.  Where none is crossed,
    `forget` is told, if it is given, see `odefit.integrate.consistent_pieces.forget_shifts`.
    """
    cross = crosser(name, peek)

    @kernel(inline=True)
    def find(table, i, room, t, h, t_new, order, course, replay, awaited, cause):
        if course.size == 0:
            return -1, t_new, _OK, cause
        border, until = cross(table, i, room, t, h, t_new, order, course)
        if border <= ENDLESS:
            return -1, t_new, _CHATTERING, ENDLESS - border
        if border >= 0 and replay and border != awaited:
            return -1, t_new, _SWITCHED, -1
        if border >= 0 and not replay and _INSIDE * (t_new - t) < until - t < (1.0 - _INSIDE) * (t_new - t):
            forget_step(table, i, order, course)
            return SHORTER, until, _OK, cause
        return border, until, _OK, cause

    if forget is None:
        return find

    @kernel(inline=True)
    def find_and_forget(table, i, room, t, h, t_new, order, course, replay, awaited, cause):
        border, until, status, cause = find(table, i, room, t, h, t_new, order, course, replay, awaited, cause)
        if border == -1 and status == _OK and course.size > 0:
            peek(task_at(table, i), room, t, h, t_new, t_new, 0)
            forget(table, i, order, room.y_out, t_new, course)
        return border, until, status, cause

    return find_and_forget


def finisher(name: str, interpolate: Any) -> Any:
    """Return the kernel that hands over what was asked for in a step, and computes where a border is crossed.

    It returns which output is next, status and what to blame.
    """
    write_outputs, land = output_within_steps(name, interpolate), lander(name, interpolate)

    @kernel(inline=True)
    def finish(table, i, task, room, step, next_time, piece, gather, scratch, largest, crossing):
        border, order, course, status, cause = crossing
        next_time = write_outputs(table, i, task, room, step, next_time, piece, gather, scratch, largest)
        if border >= 0:
            t, h, t_new, until = step
            status, blamed = land(table, i, room, t, h, t_new, until, border, order, course)
            cause = cause if status == _OK else blamed
        return next_time, status, cause

    return finish


def watchers(interpolate: Any) -> tuple[Any, Any]:
    """Return the kernels that learn the sizes of states from an attempt, rejected or accepted (by a pilot)."""

    @kernel(inline=True)
    def watch_rejected(task, room, t, h, t_new, outcome, pilot):
        if outcome == SOLVED and any_without_size(task.aims, task.atol):
            interpolate(task, room, t, h, t_new, t_new, 0)
            note_rejected(task.aims, room.y_out, task.atol, pilot)

    @kernel(inline=True)
    def watch_accepted(task, room, t, h, t_new, sizes):
        if sizes.size > 0:
            interpolate(task, room, t, h, t_new, t_new, 0)
            note_accepted(task.aims, room.y_out, sizes, task.atol)

    return watch_rejected, watch_accepted
