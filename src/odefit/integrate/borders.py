"""What becomes of regions and events where a piece begins, and of states that events change there.

Behind a border that was crossed, an event at a time, or the start, conditions on states have another truth for one of
three reasons: the border itself was crossed; what it compares has *jumped*, since an event or another input has changed
it; or it is crossed at this very time, too, which has a derivative of its own and is found as a crossing of a piece of
length zero.  Only what has jumped is looked at here.

Events whose conditions have become true happen in the order of the text; what they change may make others true, which
happen next.  Their changes y+ = E(tau, y-, p) are those of `odefit.compile.events`; tau is where the piece begins, an
entry of p with derivatives of its own.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.integrate.border_record import PER_CROSSING
from odefit.integrate.contract import Status
from odefit.integrate.course import (
    BLAMED,
    COUNT,
    FIRED,
    OF_ONE,
    PIECE_END,
    PLAIN,
    RESUMED,
    SHORT,
    STARTED,
    bound_of,
    course_of,
    cross_border,
    find_region,
    ignore_noise,
    leave_to_conditions,
    look_at,
    put_inputs,
)
from odefit.integrate.events import apply_change
from odefit.integrate.task import bordering_at, switching_at, task_at
from odefit.native.calls import call_model
from odefit.native.kernel import kernel

_OK, _UNDEFINED, _CASCADE, _ENDED, _ROOM, _TOO_MANY, _ZENO, _CHATTERING = (
    int(one)
    for one in (
        Status.OK,
        Status.UNDEFINED_BORDER,
        Status.CASCADE,
        Status.ENDED,
        Status.ROOM_FOR_CROSSINGS,
        Status.TOO_MANY_CROSSINGS,
        Status.ZENO,
        Status.CHATTERING,
    )
)
MOST_CROSSINGS = 100_000
_MOST_ROUNDS = 100  # of events that set off each other at one time
_SHORT, _VERY_SHORT = 1e-8, 1e-12  # between crossings that follow each other, relative to the length of the task
_MOST_SHORT, _MOST_OF_ONE, _MOST_VERY_SHORT = 50, 20, 2  # how many: of all borders, of one, and very soon of one


@kernel(inline=True)
def find_regions(task, b, c, time, y, row, first):
    """Find the regions of borders that have jumped, at the `first` time of all; return one to blame, or -1."""
    highest = 0
    for j in range(b.level.size):
        highest = max(highest, b.level[j])
    for level in range(1, highest + 1):
        look_at(task, b, c, time, y, row)
        for j in range(b.level.size):
            if b.level[j] != level:
                continue
            g = c.values[j]
            if math.isnan(g):
                return j
            if first or g != c.before[j]:
                find_region(b, c, j, g)
            put_inputs(task, b, c, j)
    for j in range(b.level.size):
        c.before[j] = c.values[j]
    return -1


@kernel(inline=True)
def look_for_events(task, b, c):
    """Compute which conditions of events are true; tell whether one has become so."""
    any_new, plain = False, c.memory[PLAIN] != 0.0
    if plain:
        for j in range(b.level.size):
            put_inputs(task, b, c, j)
    call_model(b.triggers, 0.0, c.work, 0, task.p, task.u, c.now, 0)
    if plain:
        leave_to_conditions(task, b)
    for k in range(c.now.size):
        any_new = any_new or (c.now[k] != 0.0 and c.truth[k] == 0.0)
    return any_new


@kernel(inline=True)
def _note_jumps(sw, b, c, kind):
    """Note that borders jump which depend on a state that this kind of event changes, even if to the same value."""
    for j in range(b.level.size):
        for e in range(b.row_ptr[j], b.row_ptr[j + 1]):
            for r in range(sw.first_change[kind], sw.first_change[kind + 1]):
                if np.int64(b.col[e]) - 1 == sw.target[r]:
                    c.before[j] = np.nan


@kernel
def settle(table, i, order, y, s, s2, row, pool, scratch):
    """Find regions and let events happen where a piece begins; states and directions stand in row `row`.

    Returns status and what to blame: the number of a border, or of an event.
    """
    task, b = task_at(table, i), bordering_at(table, i)
    c, time = course_of(task, b, order, pool), task.p[task.n_parameters - 2]
    first = c.memory[STARTED] == 0.0
    c.memory[PLAIN], c.memory[STARTED] = 0.0, 1.0
    for turn in range(_MOST_ROUNDS):
        undefined = find_regions(task, b, c, time, y, row, first and turn == 0)
        if undefined >= 0:
            return _UNDEFINED, undefined
        found = look_for_events(task, b, c)
        if first and turn == 0:
            found = False
            for k in range(c.now.size):
                c.truth[k] = 0.0 if b.from_false[k] != 0 else c.now[k]
                found = found or (c.now[k] != 0.0 and c.truth[k] == 0.0)
        if not found:
            break
        if turn == _MOST_ROUNDS - 1:
            return _CASCADE, np.int64(c.memory[BLAMED])
        for k in range(c.now.size):
            happens = c.now[k] != 0.0 and c.truth[k] == 0.0
            c.truth[k] = c.now[k]
            if not happens:
                continue
            c.memory[BLAMED] = k
            if b.stops[k] != 0:
                return _ENDED, k
            status, blamed = apply_change(table, i, b.first_event + k, order, y, s, s2, row, scratch)
            if status != _OK:
                return status, blamed
            _note_jumps(switching_at(table, i), b, c, b.first_event + k)
    for k in range(c.now.size):
        c.truth[k] = c.now[k]
    if b.level.size > 0:
        ignore_noise(task, b, c, y, row)
    return _OK, -1


@kernel
def look_before_jump(table, i, order, time, y, row, pool):
    """Note the borders at the end of a piece, before anything happens there."""
    task, b = task_at(table, i), bordering_at(table, i)
    c = course_of(task, b, order, pool)
    look_at(task, b, c, time, y, row)
    for j in range(b.level.size):
        c.before[j] = c.values[j]
    c.memory[RESUMED] = 0.0
    c.memory[FIRED] = -1.0
    return 0


@kernel
def sets_off(table, i, order, border, direction, pool):
    """Cross a border that only events wait for, unless one of them happens then; tell whether one does."""
    task, b = task_at(table, i), bordering_at(table, i)
    c = course_of(task, b, order, pool)
    lower, upper = c.lower[border], c.upper[border]
    bound = bound_of(c, border, direction)
    by_region = c.memory[PLAIN] == 0.0
    cross_border(b, c, border, direction)
    if by_region:
        put_inputs(task, b, c, border)
    if look_for_events(task, b, c):
        c.lower[border], c.upper[border] = lower, upper
        if by_region:
            put_inputs(task, b, c, border)
        return True
    for k in range(c.now.size):
        c.truth[k] = c.now[k]
    c.shift[border] = c.values[border] - bound
    return False


@kernel
def forget_step(table, i, order, pool):
    """Take back what was done about borders since `remember_step`, in a step that is taken again."""
    task, b = task_at(table, i), bordering_at(table, i)
    c = course_of(task, b, order, pool)
    nb = b.level.size
    for j in range(nb):
        c.lower[j], c.upper[j], c.shift[j] = c.saved[j], c.saved[nb + j], c.saved[2 * nb + j]
        if c.memory[PLAIN] == 0.0:
            put_inputs(task, b, c, j)
    for k in range(c.truth.size):
        c.truth[k] = c.saved[3 * nb + k]
    return 0


@kernel(inline=True)
def end_of_stretch(table, i, replay, order, pool, piece, step, steps_of_piece):
    """Return, of steps that are replayed, the number of the one behind this stretch, and the border that ends it.

    Or -1 for both.
    """
    if not replay:
        return -1, -1
    if pool.size == 0:
        return step + steps_of_piece, -1
    return _step_behind(table, i, order, pool, piece, step, steps_of_piece)


@kernel
def _step_behind(table, i, order, pool, piece, step, steps_of_piece):
    """Return the same, of a task with borders."""
    task, b = task_at(table, i), bordering_at(table, i)
    c = course_of(task, b, order, pool)
    if c.memory[RESUMED] == 0.0:
        c.memory[PIECE_END] = step + steps_of_piece
    e = np.int64(c.memory[COUNT])
    if e < b.crossed[0] and b.crossed[2 + PER_CROSSING * e] == piece:
        return b.crossed[3 + PER_CROSSING * e], b.crossed[1 + PER_CROSSING * e]
    return np.int64(c.memory[PIECE_END]), -1


@kernel
def note_crossing(table, i, order, pool, border, piece, step, noting):
    """Note that a border was crossed behind so many steps, where `noting`; refuse those that follow without end.

    Returns status and what to blame.
    """
    task, b = task_at(table, i), bordering_at(table, i)
    c = course_of(task, b, order, pool)
    begin, end = task.p[task.n_parameters - 2], c.start[0]
    if c.memory[FIRED] == border and end <= begin:
        return _CHATTERING, border
    length = task.ends[task.ends.size - 1] - task.start
    is_short = end - begin <= _SHORT * length
    c.memory[SHORT] = c.memory[SHORT] + 1.0 if is_short else 0.0
    c.memory[OF_ONE] = c.memory[OF_ONE] + 1.0 if is_short and c.memory[FIRED] == border else 0.0
    if c.memory[SHORT] >= _MOST_SHORT or c.memory[OF_ONE] >= _MOST_OF_ONE:
        return _ZENO, border
    if c.memory[OF_ONE] >= _MOST_VERY_SHORT and end - begin <= _VERY_SHORT * length:
        return _ZENO, border
    e = np.int64(c.memory[COUNT])
    c.memory[FIRED], c.memory[RESUMED], c.memory[COUNT] = border, 1.0, e + 1.0
    if noting:
        if e >= MOST_CROSSINGS:
            return _TOO_MANY, border
        if 1 + PER_CROSSING * (e + 1) > b.crossed.size:
            return _ROOM, 4 * (e + 1)
        at = 1 + PER_CROSSING * e
        b.crossed[0], b.crossed[at], b.crossed[at + 1], b.crossed[at + 2] = e + 1, border, piece, step
    return _OK, -1


@kernel
def resume_piece(table, i, order, pool, piece):
    """Let a piece begin where its border was crossed: set its start and length and their seeds."""
    task, b = task_at(table, i), bordering_at(table, i)
    c = course_of(task, b, order, pool)
    if c.memory[RESUMED] == 0.0:
        return 0
    n_p, q, n_columns = task.n_parameters, task.n_directions, task.n_columns
    task.p[n_p - 2], task.p[n_p - 1] = c.start[0], max(0.0, task.ends[piece] - c.start[0])
    for a in range(q if order >= 1 else 0):
        moved = c.start[1 + a] - task.dp[(n_p - 2) * n_columns + a]
        task.dp[(n_p - 2) * n_columns + a] += moved
        task.dp[(n_p - 1) * n_columns + a] -= moved
    n_pairs = q * (q + 1) // 2 if order == 2 else 0
    for pair in range(n_pairs):
        moved = c.start[1 + q + pair] - task.d2p[(n_p - 2) * n_pairs + pair]
        task.d2p[(n_p - 2) * n_pairs + pair] += moved
        task.d2p[(n_p - 1) * n_pairs + pair] -= moved
    return 0
