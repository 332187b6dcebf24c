"""How the ends of pieces move with the unknowns.

A switch g(tau(theta), p(theta), u) = 0 ends a piece at tau.  With z_a = (dtau_a, dp_a) follow

    dtau_a = - g_p dp_a / g_t,        d2tau_ab = - (g_p d2p_ab + D2g[z_a, z_b]) / g_t .

How the moment of an event moves stands in `odefit.integrate.events`; other ends stay where they are.
"""

from __future__ import annotations

import numpy as np

from odefit.integrate.events import FIRST_OWNER, motion_of, motion_room
from odefit.native.calls import call_model, call_second
from odefit.native.kernel import kernel
from odefit.native.pool import cut


@kernel(inline=True)
def _stack(task, slope, a, v):
    """Set `v` to the direction `a` of (time, p)."""
    v[0] = slope
    for i in range(task.n_parameters):
        v[1 + i] = task.dp[i * task.n_columns + a]


@kernel(inline=True)
def _motion_of_switch(task, sw, piece, j, order, room, slopes, bends):
    """Fill the derivatives of the time at which switch `j` ends a piece; `room` has its time and its inputs."""
    q, n_columns, n_pairs = task.n_directions, task.n_columns, task.n_directions * (task.n_directions + 1) // 2
    work, u, nonzeros, out, v, w = room
    call_model(sw.jacobian, 0.0, work, 0, task.p, u, nonzeros, 0)
    rate = 0.0
    for e in range(sw.row_ptr[j], sw.row_ptr[j + 1]):
        i = np.int64(sw.col[e]) - 1
        if i < 0:
            rate = nonzeros[e]
        else:
            for a in range(q):
                slopes[piece * q + a] -= nonzeros[e] * task.dp[i * n_columns + a]
    for a in range(q):
        slopes[piece * q + a] /= rate
    pair = 0
    for a in range(q if order == 2 else 0):
        _stack(task, slopes[piece * q + a], a, v)
        for b in range(a, q):
            _stack(task, slopes[piece * q + b], b, w)
            call_second(sw.second, 0.0, work, 0, task.p, u, v, w, out, 0)
            total = out[j]
            for e in range(sw.row_ptr[j], sw.row_ptr[j + 1]):
                if sw.col[e] > 0:
                    total += nonzeros[e] * task.d2p[(np.int64(sw.col[e]) - 1) * n_pairs + pair]
            bends[piece * n_pairs + pair] = -total / rate
            pair += 1


@kernel
def motions_of_ends(task, sw, ends, owners, inputs, order, slopes, bends):
    """Fill the derivatives of the ends of pieces by all directions, and by all pairs of these."""
    q, n_u, n_p = task.n_directions, sw.kind.size, task.n_parameters
    n_pairs = q * (q + 1) // 2 if order == 2 else 0
    nonzeros, out = np.empty(sw.col.size), np.empty(sw.row_ptr.size - 1)
    work, v, w = np.empty(1), np.empty(1 + n_p), np.empty(1 + n_p)
    of_events = motion_room(task, sw)
    for k in range(ends.size):
        for a in range(q):
            slopes[k * q + a] = 0.0
        for pair in range(n_pairs):
            bends[k * n_pairs + pair] = 0.0
        if owners[k] <= FIRST_OWNER:
            motion_of(task, sw, k, FIRST_OWNER - owners[k], order, of_events, slopes, bends)
        elif owners[k] >= 0:
            work[0] = ends[k]
            _, u = cut(inputs, k * n_u, (n_u,))
            _motion_of_switch(task, sw, k, owners[k], order, (work, u, nonzeros, out, v, w), slopes, bends)
