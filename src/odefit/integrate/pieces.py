"""The pieces of a task: where its conditions in time change, what they are in between, and how that moves.

The mathematics of inputs u and switches g(t, p, u) is at the top of `odefit.compile.switches`.  Here the ends of pieces
are found, at every evaluation, since they may depend on parameters.

**Ends.**  Level by level: between two ends that are known, the inputs of lower levels are constant, and the switches of
this level are smooth functions of t, whose zeros `odefit.integrate.switch_times` finds.  How ends move stands in
`odefit.integrate.piece_motion`.

**Equal times.**  Two conditions may change at one time: two lags that start with the same value.  With moving ends both
stay, with a piece of length zero between them, whose derivative dL = dtau_2 - dtau_1 is not zero; F_L dL = f dL is
then what the order of the two contributes.  In such a piece, inputs whose switch is yet to come have their value from
before, all others that from behind.  A condition that changes at the start of the task is kept in the same way: a lag
of zero has a derivative.  With fixed ends equal times are one, except where something happens: every event ends a
piece of its own, in the order in which they act.

**Replay.**  Steps belong to pieces.  If the order of the switches has changed, or their number, steps cannot be taken
again, and a status says so.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.integrate.contract import Counters, Status
from odefit.integrate.events import FIRST_OWNER, TOO_EARLY, moments_of
from odefit.integrate.piece_motion import motions_of_ends
from odefit.integrate.present_piece import mark_piece
from odefit.integrate.switch_times import MOST_PIECES, changes_at_start, note_end, note_ends_in, set_inputs
from odefit.integrate.task import KEEPING, Switching, Task, bordering_at, switching_at, task_at
from odefit.native.kernel import kernel

_COUNTERS = len(Counters._fields)
_OK, _SWITCHED, _ROOM, _TOO_MANY, _UNDEFINED, _TOO_EARLY, _UNDEFINED_EVENT = (
    int(one)
    for one in (
        Status.OK,
        Status.SWITCHED,
        Status.ROOM_FOR_PIECES,
        Status.TOO_MANY_PIECES,
        Status.UNDEFINED_CONDITION,
        Status.EVENT_TOO_EARLY,
        Status.UNDEFINED_EVENT,
    )
)
_BEFORE = 1e-6  # of the horizon: how long before the start it is told what a condition was that changes there

_write_pieces = KEEPING.writer(Task, "ends", "u")
_write_inputs = KEEPING.writer(Switching, "inputs", "end_slopes", "end_bends")


@kernel
def _in_order(found, owners, count):
    """Return `count` ends, and what owns them, by time; what happens at one time stays in its order."""
    for k in range(1, count):
        if not found[k - 1] <= found[k]:
            by_time = np.argsort(found[:count], kind="mergesort")
            return found[:count][by_time], owners[:count][by_time]
    return found, owners


@kernel
def _known_ends(task, sw):
    """Return the ends that are known without switches, what owns them (-1: nothing), and how many there are.

    These are stops and moments of events, a stop before the events at its time.
    """
    stops, n_stops = sw.stops, sw.stops.size
    moments, causes, n_events = moments_of(task, sw, stops[n_stops - 1])
    moments, causes = _in_order(moments, causes, n_events)
    count = n_stops + n_events
    found, owners = np.empty(count + 8), np.empty(count + 8, np.int64)
    stop = 0
    for k in range(count):
        event = k - stop
        if event == n_events or (stop < n_stops and not stops[stop] > moments[event]):
            found[k], owners[k] = stops[stop], -1
            stop += 1
        else:
            found[k], owners[k] = moments[event], causes[event]
    return found, owners, count


@kernel
def _all_ends(task, sw, u, levels, work):
    """Return the ends of the pieces, sorted, the switch of each (-1: none), and their number."""
    start, p, t_end = task.start, task.p, sw.stops[sw.stops.size - 1]
    found, owners, count = _known_ends(task, sw)
    if not found[0] >= start:
        return found, owners, count
    for level in range(1, levels + 1):
        known = count
        for k in range(known):
            begin, end = start if k == 0 else found[k - 1], found[k]
            if not begin < end:
                continue
            set_inputs(sw, begin + 0.5 * (end - begin), p, u, level - 1, work)
            for j in range(sw.level.size):
                if sw.level[j] == level:
                    if task.moving != 0 and begin == start and changes_at_start(sw, j, start, p, u, work):
                        found, owners, count = note_end(found, owners, count, start, j)
                    found, owners, count = note_ends_in(
                        sw, j, p, u, begin, end, t_end - start, found, owners, count, work
                    )  # fmt: skip
                    if count > MOST_PIECES:
                        return found, owners, count
        found, owners = _in_order(found, owners, count)
    if task.moving == 0:
        kept = 0
        for k in range(count):
            if kept == 0 or owners[k] <= FIRST_OWNER or not found[k] <= found[kept - 1]:  # what is not a number stays
                found[kept], owners[kept] = found[k], owners[k]
                kept += 1
        count = kept
    return found, owners, count


@kernel
def _all_inputs(sw, start, p, u, levels, ends, owners, inputs, work):
    """Fill the inputs of all pieces, a row of `inputs` each: those at the middle."""
    n_u, m = sw.kind.size, ends.size if sw.kind.size > 0 else 0
    for k in range(m):
        begin = start if k == 0 else ends[k - 1]
        if begin < ends[k]:
            set_inputs(sw, begin + 0.5 * (ends[k] - begin), p, u, levels, work)
            for j in range(n_u):
                inputs[k * n_u + j] = u[j]
    first = 0
    while first < m:  # pieces of length zero, a group after the other
        if ends[first] > (start if first == 0 else ends[first - 1]):
            first += 1
            continue
        behind = first
        while behind < m and not ends[behind] > (start if behind == 0 else ends[behind - 1]):
            behind += 1
        if behind == m:  # nothing follows: what holds at the very end
            set_inputs(sw, ends[m - 1], p, u, levels, work)
            for k in range(first, behind):
                for j in range(n_u):
                    inputs[k * n_u + j] = u[j]
        if first == 0:
            set_inputs(sw, start - _BEFORE * (ends[m - 1] - start), p, u, levels, work)
        for k in range(first, behind):
            for j in range(n_u):
                ahead = False
                for other in range(k, behind):
                    ahead = ahead or owners[other] == sw.switch_of[j]
                if ahead:
                    inputs[k * n_u + j] = u[j] if first == 0 else inputs[(first - 1) * n_u + j]
                elif behind < m:
                    inputs[k * n_u + j] = inputs[behind * n_u + j]
        first = behind


@kernel
def lay_pieces(table, i, order, replay):
    """Find the pieces of task `i`, which has switches, at its present parameters, and write them into its row.

    Returns
    -------
    status, count, memory
        OK; UNDEFINED_CONDITION if a switch is not a number; SWITCHED if the grid to `replay` has other pieces;
        EVENT_TOO_EARLY, UNDEFINED_EVENT; ROOM_FOR_PIECES if counts and `passed` are too short for `count` pieces;
        TOO_MANY_PIECES.  `memory` must be kept alive as long as the row is used.
    """
    task, sw = task_at(table, i), switching_at(table, i)
    n_s, n_u, q = sw.level.size, sw.kind.size, task.n_directions if order >= 1 and task.moving != 0 else 0
    levels = 0
    for j in range(n_s):
        levels = max(levels, sw.level[j])
    work, u = np.empty(1 + 2 * n_s), np.zeros(n_u)
    n_all = n_u + bordering_at(table, i).kind.size
    if sw.stops.size == 0:
        _write_pieces(table, i, (work[:0], task.u if task.slots > 0 else u))
        return _OK, 0, u
    found, owners, m = _all_ends(task, sw, u, levels, work)
    for k in range(m):
        if math.isnan(found[k]):
            return (_UNDEFINED_EVENT if owners[k] <= FIRST_OWNER else _UNDEFINED), m, u
        if found[k] == TOO_EARLY:
            return _TOO_EARLY, m, u
    if m > MOST_PIECES:
        return _TOO_MANY, m, u
    if replay and (sw.passed.size == 0 or sw.passed[0] != m):
        return _SWITCHED, m, u
    if sw.passed.size <= m or task.counts.size < _COUNTERS + m:
        return _ROOM, m, u
    for k in range(m):
        if replay and sw.passed[1 + k] != owners[k]:
            return _SWITCHED, m, u
        sw.passed[1 + k] = owners[k]
    sw.passed[0] = m
    n_pairs = q * (q + 1) // 2 if order == 2 else 0
    memory = np.empty(m * (1 + n_u + q + n_pairs) + n_all)
    ends, inputs = memory[:m], memory[m : m * (1 + n_u)]
    slopes = memory[m * (1 + n_u) : m * (1 + n_u + q)]
    bends, now = memory[m * (1 + n_u + q) : m * (1 + n_u + q + n_pairs)], memory[m * (1 + n_u + q + n_pairs) :]
    ends[:] = found[:m]
    _all_inputs(sw, task.start, task.p, u, levels, ends, owners, inputs, work)
    if q > 0:
        motions_of_ends(task, sw, ends, owners, inputs, order, slopes, bends)
    _write_pieces(table, i, (ends, task.u if task.slots > 0 else now))
    _write_inputs(table, i, (inputs, slopes, bends))
    if task.moving != 0:
        mark_piece(task, order)
    return _OK, m, memory
