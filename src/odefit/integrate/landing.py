"""States and directions where a border is crossed, with the derivatives of the place.

In a piece with start a and length L the solution is P(s, theta) at the fraction s of it (see
`odefit.integrate.moving_output`).  The border g(t, y, p) is crossed at the fraction s(theta), where

    g(a + L s, P(s, theta), p) = 0 .

With G = L g_t + g_y P', the derivative of g by s, this gives

    ds_a   = -[g_t (da_a + s dL_a) + g_y P_a + g_p p_a] / G
    d2s_ab = -[D2g[z_a, z_b] + g_t T_ab + g_y Y_ab + g_p p_ab] / G
    T_ab   = a_ab + s L_ab + L_a ds_b + L_b ds_a
    Y_ab   = P_ab + P_a' ds_b + P_b' ds_a + P'' ds_a ds_b

with z_a = (dtau_a, dy_a, p_a), and the piece behind begins, with total derivatives along the border, at

    tau    : dtau_a = da_a + s dL_a + L ds_a,    d2tau_ab = T_ab + L d2s_ab
    y(tau) : dy_a   = P_a + P' ds_a,             d2y_ab   = Y_ab + P' d2s_ab .

P is what the method computes and interpolates, so that these are derivatives of the discrete solution.  Other than the
length of the last step, s may move beyond the step in which the border was crossed where steps were chosen: into
another one, on which the same interpolant holds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from odefit.integrate.contract import Status
from odefit.integrate.course import DIRECTION, bound_of, course_of, cross_border, look_at, put_inputs
from odefit.integrate.directions import number_of_pair, place_of
from odefit.integrate.task import bordering_at, task_at
from odefit.native.calls import call_model, call_second
from odefit.native.kernel import kernel, named

_OK, _GRAZING = int(Status.OK), int(Status.GRAZING)


@kernel(inline=True)
def _by_unknowns(task, b, c, border, s, room):
    """Set the derivatives of the place; return G."""
    n, n_columns = task.n, task.n_columns
    start, length = task.n_parameters - 2, task.n_parameters - 1
    total = 0.0
    for e in range(b.row_ptr[border], b.row_ptr[border + 1]):
        k = np.int64(b.col[e]) - 1
        total += c.nonzeros[e] * (task.p[length] if k < 0 else (c.rate[k] if k < n else 0.0))
    for a in range(c.moves.size):
        moved = 0.0
        for e in range(b.row_ptr[border], b.row_ptr[border + 1]):
            k = np.int64(b.col[e]) - 1
            if k < 0:
                by = task.dp[start * n_columns + a] + s * task.dp[length * n_columns + a]
            elif k < n:
                by = room.s_out[0, place_of(a, k, n)]
            else:
                by = task.dp[(k - 2 * n) * n_columns + a] if k >= 2 * n else 0.0
            moved += c.nonzeros[e] * by
        c.moves[a] = -moved / total
    return total


@kernel(inline=True)
def _stack(task, c, s, a, room, z):
    """Set `z` to direction `a` of (tau, y, y', p); the rates y' do not count."""
    n, n_columns = task.n, task.n_columns
    start, length = task.n_parameters - 2, task.n_parameters - 1
    z[0] = task.dp[start * n_columns + a] + s * task.dp[length * n_columns + a] + task.p[length] * c.moves[a]
    for k in range(n):
        z[1 + k] = room.s_out[0, place_of(a, k, n)] + c.rate[k] * c.moves[a]
        z[1 + n + k] = 0.0
    for k in range(task.n_parameters):
        z[1 + 2 * n + k] = task.dp[k * n_columns + a]


@kernel(inline=True)
def _land_second(task, b, c, border, s, total, room):
    """Set second derivatives of the place and the states there; those of first order are still at fixed s."""
    n, q, n_columns = task.n, c.moves.size, task.n_columns
    start, length, n_pairs = task.n_parameters - 2, task.n_parameters - 1, c.moves.size * (c.moves.size + 1) // 2
    for a in range(q):
        _stack(task, c, s, a, room, c.v)
        for d in range(a, q):
            pair = number_of_pair(a, d, q)
            _stack(task, c, s, d, room, c.w)
            call_second(b.second, 0.0, c.work, 0, task.p, task.u, c.v, c.w, c.out, 0)
            moved = c.out[border]
            time = task.d2p[start * n_pairs + pair] + s * task.d2p[length * n_pairs + pair]
            time += task.dp[length * n_columns + a] * c.moves[d] + task.dp[length * n_columns + d] * c.moves[a]
            for k in range(n):
                room.s2_out[0, place_of(pair, k, n)] += (
                    c.rates[place_of(a, k, n)] * c.moves[d] + c.rates[place_of(d, k, n)] * c.moves[a]
                    + c.bend[k] * c.moves[a] * c.moves[d]
                )  # fmt: skip
            for e in range(b.row_ptr[border], b.row_ptr[border + 1]):
                k = np.int64(b.col[e]) - 1
                if k < 0:
                    moved += c.nonzeros[e] * time
                elif k < n:
                    moved += c.nonzeros[e] * room.s2_out[0, place_of(pair, k, n)]
                elif k >= 2 * n:
                    moved += c.nonzeros[e] * task.d2p[(k - 2 * n) * n_pairs + pair]
            d2s = -moved / total
            c.start[1 + q + pair] = time + task.p[length] * d2s
            for k in range(n):
                room.s2_out[0, place_of(pair, k, n)] += c.rate[k] * d2s


def lander(name: str, interpolate: Any) -> Any:
    """Return the kernel that computes states and directions where a border is crossed, at the fraction `s`.

    They stand in ``room.y_out``, ``s_out`` and ``s2_out``; where the next piece begins is part of the course.  The
    region is that beyond the border.  Returns status and the border.
    """

    @kernel
    @named(f"{name}_land")
    def land(table, i, room, t, h, t_new, s, border, order, pool):
        task, b = task_at(table, i), bordering_at(table, i)
        c, n, n_columns = course_of(task, b, order, pool), task.n, task.n_columns
        start, length = task.n_parameters - 2, task.n_parameters - 1
        second = room.s2_out.shape[1] > 0
        if second:
            interpolate(task, room, t, h, t_new, s, 2)
            for k in range(n):
                c.bend[k] = room.y_out[0, k]
        interpolate(task, room, t, h, t_new, s, 1)
        for k in range(n):
            c.rate[k] = room.y_out[0, k]
        for k in range(c.rates.size):
            c.rates[k] = room.s_out[0, k]
        interpolate(task, room, t, h, t_new, s, 0)
        c.start[0] = task.p[start] + task.p[length] * s
        look_at(task, b, c, c.start[0], room.y_out, 0)
        for j in range(b.level.size):
            c.before[j] = c.values[j]
        if c.moves.size > 0:
            call_model(b.jacobian, 0.0, c.work, 0, task.p, task.u, c.nonzeros, 0)
            total = _by_unknowns(task, b, c, border, s, room)
            if second:
                _land_second(task, b, c, border, s, total, room)
            for a in range(c.moves.size):
                c.start[1 + a] = task.dp[start * n_columns + a] + s * task.dp[length * n_columns + a]
                c.start[1 + a] += task.p[length] * c.moves[a]
                for k in range(n):
                    room.s_out[0, place_of(a, k, n)] += c.rate[k] * c.moves[a]
                if not math.isfinite(c.start[1 + a]):
                    return _GRAZING, border
        way = c.memory[DIRECTION]
        bound = bound_of(c, border, way)
        cross_border(b, c, border, way)
        put_inputs(task, b, c, border)
        c.shift[border] = c.before[border] - bound
        return _OK, -1

    return land
