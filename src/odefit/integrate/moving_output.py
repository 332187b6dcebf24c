"""Output in a piece with moving ends: a fixed time is a fraction of the piece that moves.

The solution in such a piece is a function P(s, theta) of the fraction s of it (see `odefit.compile.switches`), and the
directions that a method computes are its derivatives at fixed s.  A time t in the piece [a, a + L] is the fraction
s(theta) with a + L s = t, so that

    L ds_a   = -(da_a + s dL_a)
    L d2s_ab = -(d2a_ab + s d2L_ab + dL_a ds_b + dL_b ds_a)

    dy_a   = P_a + P' ds_a
    d2y_ab = P_ab + P_a' ds_b + P_b' ds_a + P'' ds_a ds_b + P' d2s_ab ,

where the dash is the derivative by s of the method's own interpolant: derivatives of the discrete solution stay exact.
At a fraction where two steps meet, the slope is that of the step before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from odefit.integrate.directions import number_of_pair, place_of
from odefit.native.kernel import kernel, named


@kernel(inline=True)
def fraction_of_time(task, time, piece):
    """Return which fraction of a piece with moving ends has passed at `time`; infinite if that is behind its end."""
    end = task.ends[piece]
    if not time <= end:
        return np.inf
    if time == end:
        return 1.0
    return min(1.0, (time - task.p[task.n_parameters - 2]) / task.p[task.n_parameters - 1])


@kernel(inline=True)
def next_output(task, watched, next_time, t_new, piece):
    """Return when a method must have the next output ready, in its own time.

    With moving ends derivatives by time are wanted at the end of a step as well: all that is due counts as inside.
    Where something is `watched`, every step is looked at.
    """
    if watched:
        return -np.inf
    t_out = task.times[next_time] if next_time < task.times.size else np.inf
    if task.moving != 0:
        return -1.0 if fraction_of_time(task, t_out, piece) <= t_new else np.inf
    return t_out


@kernel(inline=True)
def size_of_motion(task, room):
    """Return how many numbers `at_fixed_time` works in."""
    if task.moving == 0:
        return 0
    n_first = room.s_out.shape[1] if room.s2_out.shape[1] > 0 else 0
    return task.n_directions + 2 * task.n + n_first


@kernel(inline=True)
def _second_motion(task, s, ds, a, b):
    """Return the second derivative of the fraction by the directions `a` <= `b`; the first ones stand in `ds`."""
    start, length, q = task.n_parameters - 2, task.n_parameters - 1, task.n_directions
    n_columns, n_pairs, pair = task.n_columns, q * (q + 1) // 2, number_of_pair(a, b, q)
    total = task.d2p[start * n_pairs + pair] + s * task.d2p[length * n_pairs + pair]
    total += task.dp[length * n_columns + a] * ds[b] + task.dp[length * n_columns + b] * ds[a]
    return -total / task.p[length]


def directions_at_fixed_time(name: str, interpolate: Any) -> Any:
    """Return the kernel that writes states and directions at a fixed time, which is now the fraction `s`.

    It is called, not inlined: tasks whose ends do not move need not carry its code through their loop.  It works in
    `scratch`: derivatives of s first, behind them P', P'' and the P_a'.
    """

    @kernel
    @named(f"{name}_at_fixed_time")
    def at_fixed_time(task, room, t, h, t_new, s, scratch):
        n, q, n_columns = task.n, task.n_directions, task.n_columns
        start, length = task.n_parameters - 2, task.n_parameters - 1
        rate, bend, rates = q, q + n, q + 2 * n
        second = room.s2_out.shape[1] > 0
        for a in range(q):
            scratch[a] = -(task.dp[start * n_columns + a] + s * task.dp[length * n_columns + a]) / task.p[length]
        if second:
            interpolate(task, room, t, h, t_new, s, 2)
            for i in range(n):
                scratch[bend + i] = room.y_out[0, i]
        interpolate(task, room, t, h, t_new, s, 1)
        for i in range(n):
            scratch[rate + i] = room.y_out[0, i]
        for i in range(room.s_out.shape[1] if second else 0):
            scratch[rates + i] = room.s_out[0, i]
        interpolate(task, room, t, h, t_new, s, 0)
        for a in range(q):
            for i in range(n):
                room.s_out[0, place_of(a, i, n)] += scratch[rate + i] * scratch[a]
        for a in range(q if second else 0):
            for b in range(a, q):
                d2s = _second_motion(task, s, scratch, a, b)
                for i in range(n):
                    room.s2_out[0, place_of(number_of_pair(a, b, q), i, n)] += (
                        scratch[rates + place_of(a, i, n)] * scratch[b]
                        + scratch[rates + place_of(b, i, n)] * scratch[a]
                        + scratch[bend + i] * scratch[a] * scratch[b] + scratch[rate + i] * d2s
                    )  # fmt: skip

    return at_fixed_time
