"""Events of a task: when they happen, and what becomes of states and directions.

Moments tau = T(p, a) and changes y+ = E(tau, y-, p, a) are those of `odefit.compile.events`.  An event ends a piece.
The directions that a method has there are total derivatives along the end of the piece, d/dtheta y(tau(theta), theta);
so is what they become: with z_a = (dtau_a, y_a, p_a) and E' by (tau, y, p),

    y+_a  = E' z_a
    y+_ab = E' z_ab + E''[z_a, z_b] ,        dtau_a = T' p_a,    d2tau_ab = T' p_ab + T''[p_a, p_b] .

What is usually added to the jump of sensitivities, (f- - f+) dtau, is in the pieces before and behind, which stretch.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.integrate.contract import Status
from odefit.native.calls import call_model, call_second
from odefit.native.kernel import kernel

_OK, _NONFINITE_EVENT = int(Status.OK), int(Status.NONFINITE_EVENT)
_N_ARGUMENTS = 3
FIRST_OWNER = -2
"""The end of a piece that event number o brings about is owned by ``FIRST_OWNER - o``."""
TOO_EARLY = -np.inf
"""The moment of an event that happens before the task begins."""


@kernel(inline=True, allocating=True)
def event_arguments(sw, occurrence):
    """Return the numbers of an occurrence."""
    return sw.event_arguments[_N_ARGUMENTS * occurrence : _N_ARGUMENTS * (occurrence + 1)]


@kernel
def moments_of(task, sw, t_end, found, owners, count):
    """Put the moments of events up to `t_end`, and their owners, behind `count` others; return how many there are."""
    out = np.empty(sw.moments_row_ptr.size - 1)
    for occurrence in range(sw.event_kind.size):
        call_model(sw.moments, 0.0, out, 0, task.p, event_arguments(sw, occurrence), out, 0)
        t = out[sw.event_kind[occurrence]]
        if t > t_end:
            continue
        found[count] = TOO_EARLY if t < task.start else t
        owners[count] = FIRST_OWNER - occurrence
        count += 1
    return count


@kernel(inline=True)
def _index(c, i, n):
    """Return where entry `i` of direction `c` stands in a row of blocks."""
    return ((c // 4) * n + i) * 4 + c % 4


@kernel
def motion_of(task, sw, occurrence, order, slopes, bends):
    """Fill the derivatives of the moment of an event by all directions, and by all pairs of these."""
    q, n_columns, n_p = task.n_directions, task.n_columns, task.n_parameters
    kind, a = sw.event_kind[occurrence], event_arguments(sw, occurrence)
    first, last = sw.moments_row_ptr[kind], sw.moments_row_ptr[kind + 1]
    nonzeros, out = np.empty(sw.moments_col.size), np.empty(sw.moments_row_ptr.size - 1)
    call_model(sw.moments_jacobian, 0.0, out, 0, task.p, a, nonzeros, 0)
    for c in range(q):
        slopes[c] = 0.0
        for e in range(first, last):
            slopes[c] += nonzeros[e] * task.dp[np.int64(sw.moments_col[e]) * n_columns + c]
    if order < 2:
        return
    n_pairs, pair = q * (q + 1) // 2, 0
    v, w = np.empty(n_p), np.empty(n_p)
    for c in range(q):
        for i in range(n_p):
            v[i] = task.dp[i * n_columns + c]
        for d in range(c, q):
            for i in range(n_p):
                w[i] = task.dp[i * n_columns + d]
            call_second(sw.moments_second, 0.0, out, 0, task.p, a, v, w, out, 0)
            bends[pair] = out[kind]
            for e in range(first, last):
                bends[pair] += nonzeros[e] * task.d2p[np.int64(sw.moments_col[e]) * n_pairs + pair]
            pair += 1


@kernel(inline=True)
def _direction(task, sw, piece, s, row, c, z):
    """Set `z` to direction `c` of (tau, y, p) at the end of a piece."""
    n, q = task.n, task.n_directions
    z[0] = sw.end_slopes[piece * q + c] if task.moving != 0 else 0.0
    for i in range(n):
        z[1 + i] = s[row, _index(c, i, n)]
    for i in range(task.n_parameters):
        z[1 + n + i] = task.dp[i * task.n_columns + c]


@kernel(inline=True)
def _second_direction(task, sw, piece, s2, row, pair, z):
    """Set `z` to the second derivative of (tau, y, p) by a pair of directions."""
    n, q = task.n, task.n_directions
    n_pairs = q * (q + 1) // 2
    z[0] = sw.end_bends[piece * n_pairs + pair] if task.moving != 0 else 0.0
    for i in range(n):
        z[1 + i] = s2[row, _index(pair, i, n)]
    for i in range(task.n_parameters):
        z[1 + n + i] = task.d2p[i * n_pairs + pair]


@kernel(inline=True)
def _product(sw, nonzeros, r, z):
    """Return row `r` of E' times `z`."""
    total = 0.0
    for e in range(sw.changes_row_ptr[r], sw.changes_row_ptr[r + 1]):
        total += nonzeros[e] * z[sw.changes_col[e]]
    return total


@kernel
def _first_order(task, sw, piece, nonzeros, first, last, s, row):
    """Return the new directions of the states that change, a row of numbers for each direction."""
    q, z = task.n_directions, np.empty(1 + task.n + task.n_parameters)
    new = np.empty((q, last - first))
    for c in range(q):
        _direction(task, sw, piece, s, row, c, z)
        for r in range(first, last):
            new[c, r - first] = _product(sw, nonzeros, r, z)
    return new


@kernel
def _second_order(task, sw, piece, nonzeros, first, last, work, a, s, s2, row):
    """Do the same for pairs of directions."""
    q, size = task.n_directions, 1 + task.n + task.n_parameters
    v, w, z, out = np.empty(size), np.empty(size), np.empty(size), np.empty(sw.target.size)
    new, pair = np.empty((q * (q + 1) // 2, last - first)), 0
    for c in range(q):
        _direction(task, sw, piece, s, row, c, v)
        for d in range(c, q):
            _direction(task, sw, piece, s, row, d, w)
            _second_direction(task, sw, piece, s2, row, pair, z)
            call_second(sw.changes_second, 0.0, work, 0, task.p, a, v, w, out, 0)
            for r in range(first, last):
                new[pair, r - first] = out[r] + _product(sw, nonzeros, r, z)
            pair += 1
    return new


@kernel(inline=True)
def _write(new, sw, first, n, s, row):
    for c in range(new.shape[0]):
        for r in range(new.shape[1]):
            s[row, _index(c, sw.target[first + r], n)] = new[c, r]


@kernel
def apply_event(task, sw, piece, occurrence, order, y, s, s2, row):
    """Let an event happen at the end of a piece: change states and directions, which stand in row `row`.

    Returns status and the state to blame.
    """
    n, kind, a = task.n, sw.event_kind[occurrence], event_arguments(sw, occurrence)
    first, last = sw.first_change[kind], sw.first_change[kind + 1]
    work, out = np.empty(1 + n), np.empty(sw.target.size)
    work[0] = task.ends[piece]
    for i in range(n):
        work[1 + i] = y[row, i]
    call_model(sw.changes, 0.0, work, 0, task.p, a, out, 0)
    for r in range(first, last):
        if not math.isfinite(out[r]):
            return _NONFINITE_EVENT, sw.target[r]
    if order >= 1 and task.n_directions > 0:
        nonzeros = np.empty(sw.changes_col.size)
        call_model(sw.changes_jacobian, 0.0, work, 0, task.p, a, nonzeros, 0)
        new = _first_order(task, sw, piece, nonzeros, first, last, s, row)
        if order == 2:
            new2 = _second_order(task, sw, piece, nonzeros, first, last, work, a, s, s2, row)
            _write(new2, sw, first, n, s2, row)
        _write(new, sw, first, n, s, row)
    for r in range(first, last):
        y[row, sw.target[r]] = out[r]
    return _OK, -1
