"""Where a piece of equations in several derivatives begins: a state that is consistent, under conditions that hold.

Conditions on states decide which equations hold, and equations decide which state is consistent.  So the two are found
in turn, until nothing changes.  There are three beginnings:

* At the *start* regions are those of the given state first, which is made consistent in them; while that changes
  regions, the given state is made consistent anew, in those.  Only then events are looked for.
* Behind a *border* that was crossed, the state is one between steps, where algebraic equations hold to tolerance.  It
  is made consistent in the equations before the border: what this changes is no jump, for no border.  Then it is made
  consistent in those behind it.
* Behind an *event at a time* it is what the event has made of it.

A border on an algebraic unknown is then not met exactly: the shift of its region bridges that, until a step ends inside
the region without it.

What a consistent state then differs in from what was noted before is a jump (see `odefit.integrate.borders`), unless it
is rounding.  Events that this sets off change the state, which is made consistent again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from odefit.integrate.borders import find_regions, resume_piece, settle
from odefit.integrate.contract import Status
from odefit.integrate.course import (
    DIRECTION,
    FIRED,
    PHASE,
    RESUMED,
    STARTED,
    bound_of,
    course_of,
    cross_border,
    look_at,
    put_inputs,
    remember_regions,
)
from odefit.integrate.present_piece import enter_piece
from odefit.integrate.task import bordering_at, switching_at, task_at
from odefit.native.calls import call_model
from odefit.native.kernel import kernel

_OK, _UNDEFINED, _CHATTERING = (int(one) for one in (Status.OK, Status.UNDEFINED_BORDER, Status.CHATTERING))
_AT_START, _AT_BORDER, _JUMPED = 0.0, 1.0, 2.0
_MOST_TURNS = 100
_ROUNDING = 1e3 * float(np.finfo(float).eps)
_FLOOR = 1e-9  # of the absolute tolerance of a state: below, it is rounding too


@kernel(inline=True)
def _other_region(b, c):
    """Return a border whose region is not the one that was remembered, or -1."""
    nb = b.level.size
    for j in range(nb):
        if c.lower[j] != c.saved[j] or c.upper[j] != c.saved[nb + j]:
            return np.int64(j)
    return np.int64(-1)


@kernel(inline=True)
def _copy(source, row, target, target_row):
    for k in range(source.shape[1]):
        target[target_row, k] = source[row, k]


@kernel(inline=True)
def _leave_out_rounding(task, b, c, time, y, row):
    """Note borders that differ from before by rounding as they are now: they have not jumped."""
    look_at(task, b, c, time, y, row)
    call_model(b.jacobian, 0.0, c.work, 0, task.p, task.u, c.nonzeros, 0)
    for j in range(b.level.size):
        least = 0.0
        for e in range(b.row_ptr[j], b.row_ptr[j + 1]):
            k = np.int64(b.col[e]) - 1
            if 0 <= k < task.n:
                least += abs(c.nonzeros[e]) * (_ROUNDING * abs(y[row, k]) + _FLOOR * abs(task.atol[k]))
        moved = c.values[j] - c.before[j]
        if abs(moved) <= least:
            c.before[j] = c.values[j]
            if c.shift[j] != 0.0:
                c.shift[j] += moved


@kernel
def _begin_turns(table, i, order, y, s, s2, row, pool, kept):
    """Set the inputs with which a state is made consistent first; return status and what to blame.

    At the start the state and its directions are `kept`.
    """
    task, b = task_at(table, i), bordering_at(table, i)
    c, time = course_of(task, b, order, pool), task.p[task.n_parameters - 2]
    if c.memory[STARTED] == 0.0:
        c.memory[PHASE] = _AT_START
        _copy(y, row, kept[0], 0)
        _copy(s, row, kept[1], 0)
        _copy(s2, row, kept[2], 0)
        undefined = find_regions(task, b, c, time, y, row, True)
        return (_UNDEFINED, undefined) if undefined >= 0 else (_OK, np.int64(-1))
    border = np.int64(c.memory[FIRED])
    c.memory[PHASE] = _JUMPED
    if c.memory[RESUMED] != 0.0 and border >= 0:
        c.memory[PHASE] = _AT_BORDER
        cross_border(b, c, border, -c.memory[DIRECTION])
        put_inputs(task, b, c, border)
    return _OK, np.int64(-1)


@kernel
def _next_turn(table, i, order, y, s, s2, row, pool, scratch, kept):
    """Find regions and let events happen at a state that is consistent; return whether it is to be made so again.

    Beside it status and what to blame: a border that has changed, or what ends the integration.
    """
    task, b = task_at(table, i), bordering_at(table, i)
    c, time = course_of(task, b, order, pool), task.p[task.n_parameters - 2]
    remember_regions(c)
    if c.memory[PHASE] == _AT_START:
        undefined = find_regions(task, b, c, time, y, row, True)
        if undefined >= 0:
            return False, _UNDEFINED, undefined
        other = _other_region(b, c)
        if other >= 0:
            _copy(kept[0], 0, y, row)
            _copy(kept[1], 0, s, row)
            _copy(kept[2], 0, s2, row)
            return True, _OK, other
    elif c.memory[PHASE] == _AT_BORDER:
        border, way = np.int64(c.memory[FIRED]), c.memory[DIRECTION]
        look_at(task, b, c, time, y, row)
        for j in range(b.level.size):
            c.before[j] = c.values[j]
        c.shift[border] = c.values[border] - bound_of(c, border, way)
        cross_border(b, c, border, way)
        put_inputs(task, b, c, border)
        c.memory[PHASE] = _JUMPED
        return True, _OK, border
    else:
        _leave_out_rounding(task, b, c, time, y, row)
    _copy(y, row, kept[0], 0)
    status, blamed = settle(table, i, order, y, s, s2, row, pool, scratch)
    c.memory[PHASE] = _JUMPED
    if status != _OK:
        return False, status, blamed
    other = _other_region(b, c)
    again = other >= 0
    for k in range(task.n):
        again = again or kept[0][0, k] != y[row, k]
    return again, _OK, max(other, np.int64(0))


@kernel
def forget_shifts(table, i, order, y, time, pool):
    """Let go of the shift of each border that is inside its region without it, at the end of a step, in the state y[0].

    What is left of a border where it was crossed is not rounding alone here, and has derivatives that nobody computes.
    """
    task, b = task_at(table, i), bordering_at(table, i)
    c = course_of(task, b, order, pool)
    looked = False
    for j in range(b.level.size):
        if c.shift[j] != 0.0:
            if not looked:
                look_at(task, b, c, task.p[task.n_parameters - 2] + task.p[task.n_parameters - 1] * time, y, 0)
                looked = True
            if c.lower[j] <= c.values[j] <= c.upper[j]:
                c.shift[j] = 0.0
    return 0


def consistent_entrance(seed: Any, current: Any, consistent: Any) -> Any:
    """Return the kernel that enters a piece, see `odefit.integrate.loop_parts.entrance`, at a consistent state."""

    @kernel(inline=True, allocating=True)
    def enter(table, i, task, elimination, room, piece, order, t, course, scratch, cause):
        enter_piece(task, switching_at(table, i), bordering_at(table, i).kind.size, piece, order)
        t_end, unit, status, blamed, again = task.ends[piece], 1.0, _OK, np.int64(-1), True
        (y, s, s2, row), kept = current(room), (room.y_out, room.s_out, room.s2_out)
        if task.moving != 0:
            if course.size > 0:
                resume_piece(table, i, order, course, piece)
                status, blamed = _begin_turns(table, i, order, y, s, s2, row, course, kept)
            seed(task, elimination, room)
            t, t_end, unit = 0.0, 1.0, task.p[task.n_parameters - 1]
        for _ in range(_MOST_TURNS):
            if status != _OK or not again:
                break
            status, blamed = consistent(task, elimination, room, t)
            again = False
            if status == _OK and course.size > 0:
                again, status, blamed = _next_turn(table, i, order, y, s, s2, row, course, scratch, kept)
        if status == _OK and again:
            status = _CHATTERING
        return t, t_end, unit, status, (cause if status == _OK else blamed)

    return enter
