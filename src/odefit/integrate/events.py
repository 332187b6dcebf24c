"""Events of a task: when they happen, and what becomes of states and directions.

Moments tau = T(p, a) and changes y+ = E(tau, y-, p, a) are those of `odefit.compile.events`.  An event ends a piece.
The directions that a method has there are total derivatives along the end of the piece, d/dtheta y(tau(theta), theta);
so is what they become: with z_a = (dtau_a, y_a, p_a) and E' by (tau, y, p),

    y+_a  = E' z_a
    y+_ab = E' z_ab + E''[z_a, z_b] ,        dtau_a = T' p_a,    d2tau_ab = T' p_ab + T''[p_a, p_b] .

What is usually added to the jump of sensitivities, (f- - f+) dtau, is in the pieces before and behind, which stretch.

A task may have thousands of events, and a step of a small model takes a fifth of a microsecond: nothing is allocated
for an event, only what E' is not zero for is read, and kernels that are called for each of them find task and events
in the table by themselves (to hand these over, some forty arrays, takes as long as two steps).
"""

from __future__ import annotations

import math

import numpy as np

from odefit.integrate.contract import Status
from odefit.integrate.directions import place_of
from odefit.integrate.task import switching_at, task_at
from odefit.native.calls import call_model, call_second
from odefit.native.kernel import kernel
from odefit.native.pool import SLACK, cut

_OK, _NONFINITE_EVENT = int(Status.OK), int(Status.NONFINITE_EVENT)
_N_ARGUMENTS = 3
FIRST_OWNER = -2
"""The end of a piece that event number o brings about is owned by ``FIRST_OWNER - o``."""
TOO_EARLY = -np.inf
"""The moment of an event that happens before the task begins."""


@kernel
def moments_of(task, sw, t_end):
    """Return the moments of events up to `t_end`, their owners, and how many there are."""
    n = sw.event_kind.size
    found, owners, count = np.empty(n), np.empty(n, np.int64), 0
    out = np.empty(max(0, sw.moments_row_ptr.size - 1))
    for occurrence in range(n):
        _, a = cut(sw.event_arguments, _N_ARGUMENTS * occurrence, (_N_ARGUMENTS,))
        call_model(sw.moments, 0.0, out, 0, task.p, a, out, 0)
        t = out[sw.event_kind[occurrence]]
        if t > t_end or (sw.over != 0 and t <= task.start):
            continue
        found[count] = TOO_EARLY if t < task.start else t
        owners[count] = FIRST_OWNER - occurrence
        count += 1
    return found, owners, count


@kernel(inline=True, allocating=True)
def motion_room(task, sw):
    """Return what `motion_of` works in: derivatives and values of moments, and two directions of p."""
    nonzeros, out = np.empty(sw.moments_col.size), np.empty(max(0, sw.moments_row_ptr.size - 1))
    return nonzeros, out, np.empty(task.n_parameters), np.empty(task.n_parameters)


@kernel(inline=True)
def motion_of(task, sw, piece, occurrence, order, room, slopes, bends):
    """Fill the derivatives of the moment of an event, which ends a piece, by all directions, and by all their pairs."""
    q, n_columns, n_p = task.n_directions, task.n_columns, task.n_parameters
    kind = sw.event_kind[occurrence]
    nonzeros, out, v, w = room
    _, a = cut(sw.event_arguments, _N_ARGUMENTS * occurrence, (_N_ARGUMENTS,))
    first, last = sw.moments_row_ptr[kind], sw.moments_row_ptr[kind + 1]
    call_model(sw.moments_jacobian, 0.0, out, 0, task.p, a, nonzeros, 0)
    for c in range(q):
        total = 0.0
        for e in range(first, last):
            total += nonzeros[e] * task.dp[np.int64(sw.moments_col[e]) * n_columns + c]
        slopes[piece * q + c] = total
    if order < 2:
        return
    n_pairs, pair = q * (q + 1) // 2, 0
    for c in range(q):
        for i in range(n_p):
            v[i] = task.dp[i * n_columns + c]
        for d in range(c, q):
            for i in range(n_p):
                w[i] = task.dp[i * n_columns + d]
            call_second(sw.moments_second, 0.0, out, 0, task.p, a, v, w, out, 0)
            total = out[kind]
            for e in range(first, last):
                total += nonzeros[e] * task.d2p[np.int64(sw.moments_col[e]) * n_pairs + pair]
            bends[piece * n_pairs + pair] = total
            pair += 1


@kernel(inline=True, allocating=True)
def event_scratch(task, sw, order):
    """Return what `apply_event` and `apply_change` work in; without events something that is not used."""
    if sw.first_change.size == 0:
        return task.times
    size = _N_ARGUMENTS + 1 + 1 + task.n + 2 * sw.target.size + sw.changes_col.size + 6 * SLACK
    return np.empty(size + (2 * (1 + task.n + task.n_parameters) if order == 2 else 0))


@kernel(inline=True)
def _first(task, sw, piece, s, row, c, column):
    """Return entry number `column` of direction `c` of (tau, y, p) at the end of a piece, or where one begins (-1)."""
    n = task.n
    if column == 0:
        if piece < 0:
            return task.dp[(task.n_parameters - 2) * task.n_columns + c]
        return sw.end_slopes[piece * task.n_directions + c] if task.moving != 0 else 0.0
    if column <= n:
        return s[row, place_of(c, column - 1, n)]
    return task.dp[(column - 1 - n) * task.n_columns + c]


@kernel(inline=True)
def _second(task, sw, piece, s2, row, pair, column):
    """Return entry number `column` of the second derivative of (tau, y, p) by a pair of directions."""
    n, n_pairs = task.n, task.n_directions * (task.n_directions + 1) // 2
    if column == 0:
        if piece < 0:
            return task.d2p[(task.n_parameters - 2) * n_pairs + pair]
        return sw.end_bends[piece * n_pairs + pair] if task.moving != 0 else 0.0
    if column <= n:
        return s2[row, place_of(pair, column - 1, n)]
    return task.d2p[(column - 1 - n) * n_pairs + pair]


@kernel(inline=True)
def _change_first(task, sw, piece, kind, nonzeros, new, s, row):
    """Change the directions of the states that an event changes; those of all of them are computed before."""
    for c in range(task.n_directions):
        for r in range(sw.first_change[kind], sw.first_change[kind + 1]):
            total = 0.0
            for e in range(sw.changes_row_ptr[r], sw.changes_row_ptr[r + 1]):
                total += nonzeros[e] * _first(task, sw, piece, s, row, c, np.int64(sw.changes_col[e]))
            new[r] = total
        for r in range(sw.first_change[kind], sw.first_change[kind + 1]):
            s[row, place_of(c, sw.target[r], task.n)] = new[r]


@kernel(inline=True)
def _change_second(task, sw, piece, kind, nonzeros, new, work, a, vectors, s, s2, row):
    """Do the same for pairs of directions, as long as those of first order are what they were before."""
    v, w = vectors
    pair = 0
    for c in range(task.n_directions):
        for i in range(v.size):
            v[i] = _first(task, sw, piece, s, row, c, i)
        for d in range(c, task.n_directions):
            for i in range(w.size):
                w[i] = _first(task, sw, piece, s, row, d, i)
            call_second(sw.changes_second, 0.0, work, 0, task.p, a, v, w, new, 0)
            for r in range(sw.first_change[kind], sw.first_change[kind + 1]):
                total = new[r]
                for e in range(sw.changes_row_ptr[r], sw.changes_row_ptr[r + 1]):
                    total += nonzeros[e] * _second(task, sw, piece, s2, row, pair, np.int64(sw.changes_col[e]))
                new[r] = total
            for r in range(sw.first_change[kind], sw.first_change[kind + 1]):
                s2[row, place_of(pair, sw.target[r], task.n)] = new[r]
            pair += 1


@kernel
def apply_event(table, i, piece, order, y, s, s2, row, scratch):
    """Let the event happen that ends a piece: change states and directions, which stand in row `row`.

    Returns status and the state to blame.
    """
    task, sw = task_at(table, i), switching_at(table, i)
    occurrence = FIRST_OWNER - sw.passed[1 + piece]
    _, a = cut(sw.event_arguments, _N_ARGUMENTS * occurrence, (_N_ARGUMENTS,))
    kind = sw.event_kind[occurrence]
    return _change(task, sw, piece, kind, a, task.ends[piece], order, (y, s, s2, row), scratch)


@kernel
def apply_change(table, i, kind, order, y, s, s2, row, scratch):
    """Let an event of this kind happen where a piece with moving ends begins; it has no numbers of its own."""
    task, sw = task_at(table, i), switching_at(table, i)
    _, a = cut(scratch, 0, (_N_ARGUMENTS,))
    for k in range(_N_ARGUMENTS):
        a[k] = 0.0
    return _change(task, sw, -1, kind, a, task.p[task.n_parameters - 2], order, (y, s, s2, row), scratch)


@kernel(inline=True)
def _change(task, sw, piece, kind, a, time, order, present, scratch):
    n, n_z = task.n, 1 + task.n + task.n_parameters if order == 2 else 0
    y, s, s2, row = present
    at, work = cut(scratch, _N_ARGUMENTS + 1, (1 + n,))
    at, out = cut(scratch, at, (sw.target.size,))
    at, new = cut(scratch, at, (sw.target.size,))
    at, nonzeros = cut(scratch, at, (sw.changes_col.size,))
    at, v = cut(scratch, at, (n_z,))
    at, w = cut(scratch, at, (n_z,))
    work[0] = time
    for j in range(n):
        work[1 + j] = y[row, j]
    call_model(sw.changes, 0.0, work, 0, task.p, a, out, 0)
    for r in range(sw.first_change[kind], sw.first_change[kind + 1]):
        if not math.isfinite(out[r]):
            return _NONFINITE_EVENT, sw.target[r]
    if order >= 1 and task.n_directions > 0:
        call_model(sw.changes_jacobian, 0.0, work, 0, task.p, a, nonzeros, 0)
        if order == 2:
            _change_second(task, sw, piece, kind, nonzeros, new, work, a, (v, w), s, s2, row)
        _change_first(task, sw, piece, kind, nonzeros, new, s, row)
    for r in range(sw.first_change[kind], sw.first_change[kind + 1]):
        y[row, sw.target[r]] = out[r]
    return _OK, -1
