"""Aggregates over time, while a task is integrated: what was gained in an interval, and extremes.

Aggregates are hidden states (see `odefit.model.aggregates`).  An **integral** z is integrated like any state.  Over the
interval [a, b] of a measurement it is z(b) - z(a): at output a the state and its directions are *remembered* in a slot,
at output b they are subtracted.

An **extreme**, the largest or smallest value of g(t, y, p) so far or in an interval, is looked for along each step: g
is computed at a few points of it, and the best one moved to the vertex of parabolas.  What is observed is the value at
the best point of all, and its derivative there: g = max implies dg/dt = 0, so that the motion of the point does not
count (envelope theorem).  At the ends of a piece g may be largest without being flat (where an infusion ends, behind a
dose); there the point moves with the end.

The error of an integral in a step is held small beside what was gained in the step (`odefit.integrate.sizes`): beside
the integral itself it would be too large for an interval that comes late.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from odefit.integrate.directions import place_of
from odefit.integrate.moving_output import size_of_motion
from odefit.integrate.task import gathering_at, task_at
from odefit.native.calls import call_model
from odefit.native.kernel import kernel, named

_POINTS = 5  # of a stretch, at which an extreme is looked for
_WIDTHS = (0.1, 0.03, 0.01, 1e-3, 1e-4)  # of the parabolas, relative to the stretch


class _Sizes(NamedTuple):
    """Numbers of directions and pairs; where in `scratch` integrals, extremes, the count of slots and work begin."""

    q: int
    pairs: int
    integrals: int
    extremes: int
    filled: int
    work: int


@kernel(inline=True)
def _sizes(task, g, room):
    q = task.n_directions if room.s_out.shape[1] > 0 else 0
    pairs = q * (q + 1) // 2 if room.s2_out.shape[1] > 0 else 0
    integrals = size_of_motion(task, room)
    extremes = integrals + g.n_slots * g.integrals.size * (1 + q + pairs)
    filled = extremes + (g.n_slots + 1) * g.extremes.size * (1 + q)
    return _Sizes(q, pairs, integrals, extremes, filled, filled + 1)


@kernel(inline=True)
def gathers(g):
    """Tell whether outputs have aggregates."""
    return g.n_slots + g.extremes.size > 0


@kernel(inline=True)
def aggregates_of(table, i):
    """Tell whether outputs of a task have aggregates, and whether extremes are among them."""
    g = gathering_at(table, i)
    return gathers(g), g.extremes.size > 0


@kernel
def scratch_for_output(table, i, room):
    """Return what output works in, with what is remembered along a task: nothing yet."""
    task, g = task_at(table, i), gathering_at(table, i)
    if not gathers(g):
        return np.empty(size_of_motion(task, room))
    sizes = _sizes(task, g, room)
    work = 1 + task.n + 2 * g.extremes.size * (_POINTS + 1) + g.col.size if g.extremes.size > 0 else 0
    scratch = np.zeros(sizes.work + work)
    for k in range(sizes.extremes, sizes.filled):
        scratch[k] = np.nan
    return scratch


@kernel
def relate(table, i, room, memory, index):
    """Make aggregates of the state at output `index`: subtract what was remembered, put in extremes."""
    task, g = task_at(table, i), gathering_at(table, i)
    n, z = task.n, _sizes(task, g, room)
    width, slot = 1 + z.q + z.pairs, g.remember[index] if g.remember.size > 0 else -1
    if slot >= 0:
        memory[z.filled] = slot + 1
        for k in range(g.integrals.size):
            state, at = g.integrals[k], z.integrals + (slot * g.integrals.size + k) * width
            memory[at] = room.y_out[0, state]
            for c in range(z.q):
                memory[at + 1 + c] = room.s_out[0, place_of(c, state, n)]
            for c in range(z.pairs):
                memory[at + 1 + z.q + c] = room.s2_out[0, place_of(c, state, n)]
    slot = g.since[index] if g.since.size > 0 else -1
    for k in range(g.integrals.size if slot >= 0 else 0):
        state, at = g.integrals[k], z.integrals + (slot * g.integrals.size + k) * width
        room.y_out[0, state] -= memory[at]
        for c in range(z.q):
            room.s_out[0, place_of(c, state, n)] -= memory[at + 1 + c]
        for c in range(z.pairs):
            room.s2_out[0, place_of(c, state, n)] -= memory[at + 1 + z.q + c]
    for k in range(g.extremes.size):
        state, row = g.extremes[k], slot + 1 if g.in_interval[k] != 0 else 0
        at = z.extremes + (row * g.extremes.size + k) * (1 + z.q)
        room.y_out[0, state] = memory[at]
        for c in range(z.q):
            room.s_out[0, place_of(c, state, n)] = memory[at + 1 + c]
        for c in range(z.pairs):
            room.s2_out[0, place_of(c, state, n)] = np.nan  # they are not computed
    return 0


@kernel(inline=True)
def _look(task, g, room, memory, work, time, out):
    """Compute the expressions at the state in ``room.y_out``; they stand in `memory` from `out` on."""
    memory[work] = time
    for i in range(task.n):
        memory[work + 1 + i] = room.y_out[0, i]
    call_model(g.watch, 0.0, memory, work, task.p, task.u, memory, out)


@kernel
def _keep(task, g, room, memory, k, time, moving_with):
    """Keep the value of expression `k` at the state in ``room.y_out`` wherever it is the best one so far.

    The point moves with the fraction `moving_with` of a piece; -1: it does not move.
    """
    n, z, n_extremes = task.n, _sizes(task, g, room), g.extremes.size
    out = z.work + 1 + n
    nonzeros = out + 2 * n_extremes * (_POINTS + 1)
    _look(task, g, room, memory, z.work, time, out)
    value, sign, differentiated = memory[out + k], g.signs[k], False
    for row in range(1 + int(memory[z.filled]) if g.in_interval[k] != 0 else 1):
        at = z.extremes + (row * n_extremes + k) * (1 + z.q)
        if sign * memory[at] >= sign * value:
            continue
        memory[at] = value
        if z.q > 0 and not differentiated:
            call_model(g.watch_jacobian, 0.0, memory, z.work, task.p, task.u, memory, nonzeros)
            differentiated = True
        for c in range(z.q):
            total = 0.0
            for e in range(g.row_ptr[k], g.row_ptr[k + 1]):
                j, factor = np.int64(g.col[e]), memory[nonzeros + e]
                if j == 0:
                    if moving_with >= 0.0:
                        start = (task.n_parameters - 2) * task.n_columns
                        length = start + task.n_columns
                        total += factor * (task.dp[start + c] + moving_with * task.dp[length + c])
                elif j <= n:
                    total += factor * room.s_out[0, place_of(c, j - 1, n)]
                else:
                    total += factor * task.dp[(j - 1 - n) * task.n_columns + c]
            memory[at + 1 + c] = total
    return 0


@kernel
def look_once(table, i, room, memory, t):
    """Look at a state that no step leads to, the initial one or that behind the last event, in ``room.y_out``."""
    task, g = task_at(table, i), gathering_at(table, i)
    z = _sizes(task, g, room)
    out = z.work + 1 + task.n
    for k in range(g.extremes.size):
        _look(task, g, room, memory, z.work, t, out)
        if memory[out + g.extremes.size + k] != 0.0:
            _keep(task, g, room, memory, k, t, -1.0)
    return 0


def follower(name: str, interpolate: Any, at_fixed_time: Any) -> Any:
    """Return the kernel that looks for extremes in the stretch from `a` to `b`, in the method's time, of a step."""

    @kernel
    @named(f"{name}_value_at")
    def value_at(task, g, room, t, h, t_new, x, k, memory):
        z = _sizes(task, g, room)
        out = z.work + 1 + task.n + 2 * g.extremes.size * _POINTS
        interpolate(task, room, t, h, t_new, x, 0)
        time = task.p[task.n_parameters - 2] + x * task.p[task.n_parameters - 1] if task.moving != 0 else x
        _look(task, g, room, memory, z.work, time, out)
        return memory[out + k]

    @kernel
    @named(f"{name}_follow")
    def follow(table, i, room, t, h, t_new, a, b, memory):
        task, g = task_at(table, i), gathering_at(table, i)
        n_extremes, z = g.extremes.size, _sizes(task, g, room)
        points = z.work + 1 + task.n
        for j in range(_POINTS):
            x = b if j == _POINTS - 1 else a + (b - a) * j / (_POINTS - 1)
            interpolate(task, room, t, h, t_new, x, 0)
            time = task.p[task.n_parameters - 2] + x * task.p[task.n_parameters - 1] if task.moving != 0 else x
            _look(task, g, room, memory, z.work, time, points + 2 * n_extremes * j)
        for k in range(n_extremes):
            if memory[points + 2 * n_extremes * (_POINTS // 2) + n_extremes + k] == 0.0:
                continue
            best, sign = 0, g.signs[k]
            for j in range(1, _POINTS):
                if sign * memory[points + 2 * n_extremes * j + k] > sign * memory[points + 2 * n_extremes * best + k]:
                    best = j
            x, length = a + (b - a) * best / (_POINTS - 1), b - a
            value = memory[points + 2 * n_extremes * best + k]
            lowest = np.inf
            for row in range(1 + int(memory[z.filled]) if g.in_interval[k] != 0 else 1):
                other = sign * memory[z.extremes + (row * n_extremes + k) * (1 + z.q)]
                lowest = -np.inf if math.isnan(other) else min(lowest, other)
            bend = 0.0
            for j in range(1, _POINTS - 1):
                left, middle = points + 2 * n_extremes * (j - 1) + k, points + 2 * n_extremes * j + k
                bend = max(bend, abs(memory[left] - 2.0 * memory[middle] + memory[middle + 2 * n_extremes]))
            if sign * value + bend <= lowest:
                continue
            for width in _WIDTHS:
                d = width * length
                if d <= 4e-16 * max(abs(a), abs(b)):
                    break
                centre = min(max(x, a + d), b - d)
                left = sign * value_at(task, g, room, t, h, t_new, centre - d, k, memory)
                middle = sign * value_at(task, g, room, t, h, t_new, centre, k, memory)
                right = sign * value_at(task, g, room, t, h, t_new, centre + d, k, memory)
                curvature = left - 2.0 * middle + right
                if curvature < 0.0:
                    x = centre + 0.5 * d * (left - right) / curvature
                else:
                    x = a if left > right else b
                x = min(max(x, a), b)
            if sign * value_at(task, g, room, t, h, t_new, x, k, memory) < sign * value:
                x = b if best == _POINTS - 1 else a + (b - a) * best / (_POINTS - 1)
            if task.moving != 0:
                time = task.p[task.n_parameters - 2] + x * task.p[task.n_parameters - 1]
                at_end = x == 0.0 or x == 1.0
                if room.s_out.shape[1] > 0 and not at_end:
                    at_fixed_time(task, room, t, h, t_new, x, memory)
                else:
                    interpolate(task, room, t, h, t_new, x, 0)
                _keep(task, g, room, memory, k, time, x if at_end else -1.0)
            else:
                interpolate(task, room, t, h, t_new, x, 0)
                _keep(task, g, room, memory, k, x, -1.0)
        return 0

    return follow
