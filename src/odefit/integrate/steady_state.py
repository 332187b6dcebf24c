"""The steady state that a solution comes to.

The solution is followed through *legs*, each four times as long as the one before, without sensitivities.  Behind each
of them Newton's method (`odefit.integrate.steady_point`) looks for a steady state.  It is accepted if

* it is close to where the solution stands, beside the size of every state,
* the equations are nearly linear between the two: the second step of Newton's method is much shorter than the first,
* it is stable.

A stable point that is so close in equations that are so nearly linear is where the solution goes.  So of several steady
states the one is found that the solution comes to, and it is the same to rounding whatever the legs were: its
derivatives are those of `odefit.integrate.steady_point`, without any integration.

A solution that oscillates, drifts or grows is given up behind `MOST_LEGS` legs, or when all steps that a task may take
are used up; a status says which.  So does one for a steady state at which the reduced Jacobian is singular: one of a
continuum that no conserved total tells apart (what is left of the susceptible behind an epidemic), which depends on the
whole way there, or one that is approached ever more slowly.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from odefit.integrate.border_record import Bordering
from odefit.integrate.contract import Counters, Status
from odefit.integrate.directions import place_of
from odefit.integrate.sizes import usual_tolerance
from odefit.integrate.steady_point import (
    FOUND,
    OF_SIZE,
    SINGULAR,
    UNSTABLE,
    differentiate_steady,
    differentiate_twice,
    find_nearby,
    is_stable,
    linearise,
    manifold_of,
    room_for,
)
from odefit.integrate.steady_weights import motion_of_totals, weigh
from odefit.integrate.task import KEEPING, METHOD, Gathering, Kept, Switching, Task, task_at
from odefit.native.calls import call_model
from odefit.native.kernel import kernel
from odefit.native.kernel_calls import kernel_call
from odefit.native.linear_systems import Elimination
from odefit.native.pool import keep_alive
from odefit.native.records import Floats, Integers, Layout, Unsigned

MOST_LEGS = 30
_LONGER = 4.0  # a leg than the one before
_SOME_TIMES = 10.0  # a time of relaxation, in the first leg
_GROWN = 1e6
_NO_INDICES = np.empty(0, np.int64)
_COUNTERS = len(Counters._fields)
_OK, _NONFINITE_START = int(Status.OK), int(Status.NONFINITE_START)
_NONFINITE, _UNDERFLOW, _TOO_MANY = int(Status.NONFINITE), int(Status.STEP_UNDERFLOW), int(Status.TOO_MANY_STEPS)
_NOT_AT_REST, _GROWS = int(Status.NOT_AT_REST), int(Status.GROWS)
_UNSTABLE, _DEGENERATE = int(Status.UNSTABLE), int(Status.DEGENERATE)


class Equilibrium(NamedTuple):
    """What a task needs that is to come to rest, and what it comes to.

    Attributes
    ----------
    keeper
        Address of `keep_states`; 0: the task is no such one.
    laws, varying, lead, stays
        See `odefit.compile.Laws`; weights row by row.
    row_ptr, col
        Pattern of the Jacobian of the right-hand side.
    state, first, second
        Filled: the steady state and its derivatives by the columns of the seeds, (n, q) and (n, pairs) row by row.
    follows
        Whether the task is integrated first, to the last of its events, and comes to rest behind it.
    """

    keeper: int = 0
    laws: Floats = np.empty(0)
    varying: Integers = _NO_INDICES
    lead: Integers = _NO_INDICES
    stays: Integers = _NO_INDICES
    row_ptr: Integers = _NO_INDICES
    col: Unsigned = np.empty(0, np.uint64)
    state: Floats = np.empty(0)
    first: Floats = np.empty(0)
    second: Floats = np.empty(0)
    follows: int = 0


RESTING = Layout(Task, Elimination, Switching, Gathering, Bordering, Equilibrium)
"""Rows of tasks that are to come to rest; longer rows may begin in the same way."""

equilibrium_at = RESTING.reader(Equilibrium)
_call_method = kernel_call(METHOD)
_write_kept = KEEPING.writer(Kept)
_write_fixed = KEEPING.writer(
    Task, "max_step", "n_columns", "n_directions", "counts", "after", "kinks", "sink", "moving"
)
_write_leg = KEEPING.writer(Task, "start", "ends", "times", "y0", "aims", "max_steps")
_COMMON, _WIDTH = KEEPING.place(Switching, "value"), KEEPING.width


@kernel
def keep_end(table, i, index, y, s, s2):
    """Keep state and directions where a task comes to its end: a sink."""
    task, e = task_at(table, i), equilibrium_at(table, i)
    n, q = task.n, task.n_columns
    for j in range(n):
        e.state[j] = y[0, j]
        for c in range(q if s.shape[1] > 0 else 0):
            e.first[j * q + c] = s[0, place_of(c, j, n)] if c < task.n_directions else 0.0
    return index


@kernel
def rest_behind(table, i, order):
    """Find the steady state that task `i` comes to from its end, which `keep_end` has kept."""
    task, e = task_at(table, i), equilibrium_at(table, i)
    q = task.n_columns if order >= 1 else 0
    for j in range(task.n):
        task.y0[j] = e.state[j]
        for c in range(q):
            task.dy0[j * q + c] = e.first[j * q + c]
    return reach_steady_state(table, i, order)


@kernel
def _first_leg(task, m, room):
    """Return how long the first leg is: some times the middle one, in decades, of the times that states change in."""
    fast, slow = 0.0, np.inf
    for a in range(m.independent.size):
        rate = abs(room.matrix[a, a])
        if rate > 0.0 and math.isfinite(rate):
            fast, slow = max(fast, rate), min(slow, rate)
    if fast == 0.0:
        return 1.0
    return _SOME_TIMES / (math.sqrt(fast) * math.sqrt(slow))


@kernel
def _aims_of_leg(task, size, aims):
    """Set the absolute tolerances of a leg: beside the largest value that a state has had, not the present one."""
    for j in range(task.n):
        given = task.aims[j]
        aims[j] = given if given > 0.0 or math.isnan(given) or size[j] == 0.0 else usual_tolerance(task.rtol) * size[j]
    return 0


@kernel
def _restless(y, before, size):
    """Return the state that changed most in the last leg."""
    worst, most = -1, 0.0
    for j in range(y.size):
        change = abs(y[j] - before[j])
        scale = max(abs(y[j]), abs(before[j])) + OF_SIZE * size[j]
        if change > 0.0 and not change / scale <= most:
            worst, most = j, change / scale
    return worst


@kernel
def _ending(status, outcome, y, before, size, first_size):
    """Return status and state to blame of a solution that came to no rest; -1 if the method's own is to be taken."""
    if status != _OK and status != _TOO_MANY and status != _NONFINITE and status != _UNDERFLOW:
        return status, -1
    for j in range(y.size):
        if abs(y[j]) > _GROWN * first_size[j] > 0.0:
            return _GROWS, j
    if outcome == SINGULAR:
        return _DEGENERATE, -1
    if status == _NONFINITE or status == _UNDERFLOW:
        return status, -1
    return _NOT_AT_REST, _restless(y, before, size)


@kernel
def _own_table(table, i, counts, kept, keeper):
    """Return a table of one row for the legs of task `i`, without conditions, events and aggregates."""
    task = task_at(table, i)
    own = np.zeros((1, _WIDTH), np.int64)
    for word in range(_COMMON):
        own[0, word] = table[i, word]
    nothing = kept[:0]
    _write_kept(own, 0, (kept, nothing, nothing))
    _write_fixed(own, 0, (np.inf, 0, 0, counts, task.counts[:0], nothing, keeper, 0))
    return own


@kernel
def _settle(task, e, laws, m, y, size, room, order):
    """Write the steady state `y`, at which equations are linearised, and its derivatives."""
    for j in range(task.n):
        e.state[j] = y[j]
    if order >= 1:
        motion = np.zeros((m.dependent.size, task.n_columns))
        motion_of_totals(task, e, laws, y, size, motion)
        differentiate_steady(task, e, m, room, motion, e.first)
    if order == 2:
        differentiate_twice(task, e, m, room, y, e.first, e.second)
    return 0


@kernel
def _rests(task, e, m, f):
    """Tell whether nothing changes at all."""
    for a in range(m.independent.size):
        if f[m.independent[a]] != 0.0:
            return False
    return True


@kernel
def reach_steady_state(table, i, order):
    """Find the steady state that task `i` comes to from its initial state, with derivatives up to `order`.

    Returns
    -------
    status, t, cause
        As of a method; `t` is the time since the beginning.
    """
    task, e = task_at(table, i), equilibrium_at(table, i)
    n, t, left, outcome = task.n, 0.0, task.max_steps, FOUND
    y, kept, size, aims = task.y0.copy(), np.empty(n), np.abs(task.y0), np.empty(n)
    before, earlier, first_size, point, end = y.copy(), y.copy(), size.copy(), np.empty(n), np.empty(1)
    counts, taken, orders = np.zeros(_COUNTERS + 1, np.int64), np.empty(64), np.empty(64, np.int64)
    own = _own_table(table, i, counts, kept, e.keeper)
    laws = e.laws.copy()
    if not weigh(task, e, laws, size):
        return _DEGENERATE, t, -1
    m = manifold_of(laws, n, size)
    room = room_for(n, e.col.size, m.independent.size)
    call_model(task.value, task.start, y, 0, task.p, task.u, room.f, 0)
    for a in range(m.independent.size):
        if not math.isfinite(room.f[m.independent[a]]):
            return _NONFINITE_START, t, m.independent[a]
    linearise(task, e, m, y, size, room)
    length, status, cause = _first_leg(task, m, room), _OK, -1
    for leg in range(MOST_LEGS + 1):
        for j in range(n):
            point[j] = y[j]
        outcome = find_nearby(task, e, m, point, size, room)
        if outcome == FOUND and not is_stable(room.matrix):
            outcome = UNSTABLE
        if outcome == FOUND:
            _settle(task, e, laws, m, point, size, room, order)
            return _OK, t, -1
        if outcome >= SINGULAR and leg == 0:
            call_model(task.value, task.start, y, 0, task.p, task.u, room.f, 0)
            if _rests(task, e, m, room.f):
                return (_UNSTABLE if outcome == UNSTABLE else _DEGENERATE), t, -1
        if leg == MOST_LEGS or left <= 0:
            break
        end[0] = length
        if leg == 0:
            aims[:] = task.aims
        else:
            _aims_of_leg(task, size, aims)
        for j in range(n):
            earlier[j], before[j] = before[j], y[j]
        _write_leg(own, 0, (0.0, end, end, before, aims, left))
        status, reached, cause, _, _, _, _, _ = _call_method(task.method, (own, 0, 0, False, taken, orders, 0))
        left -= counts[0] + counts[1]
        t += reached
        if status != _OK:
            break
        length *= _LONGER
        for j in range(n):
            y[j] = kept[j]
            size[j] = max(size[j], abs(y[j]))
            if leg == 0:
                first_size[j] = size[j]
        m = manifold_of(laws, n, size)
    keep_alive((own, kept, counts, end, before, aims))
    ended, blamed = _ending(status, outcome, y, earlier, size, first_size)
    return ended, t, (cause if ended == status else blamed)
