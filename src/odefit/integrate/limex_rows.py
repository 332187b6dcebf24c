"""Rows of `limex`: a step in n_j = j equal small ones, for states and for directions; see `odefit.integrate.limex`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from odefit.integrate.directions import place_of
from odefit.integrate.extrapolation import END, ERROR, highest_coefficient, increments_before
from odefit.integrate.limex_forms import Form
from odefit.integrate.stepping import first_nonfinite, tolerance
from odefit.native.kernel import kernel
from odefit.native.linear_systems import FACTORISED, GROWN, solve_blocks, solve_for_vector

DONE, NOT_FINITE, SINGULAR, TOO_LARGE = 0, 1, 2, 3
"""How a row ends; `TOO_LARGE`: entries grew in the elimination, which needs another order."""
_BETWEEN = 0.25  # of the highest coefficient: the error between the ends of a step


@kernel(inline=True)
def _small_time(t, h, t_new, i, j):
    """Return the end of small step `i` of row `j`."""
    return t_new if i + 1 == j else t + h * ((i + 1.0) / j)


def row_of_states(form: Form) -> Any:
    """Return the kernel of a row of states: its increments, and their sum.

    It returns how the row ended, and the state to blame.
    """
    factorise, right_hand = form.factorise, form.right_hand

    @kernel(inline=True)
    def row(task, e, room, t, h, t_new, j):
        n, first, slot = task.n, increments_before(j), min(j, room.a.shape[0]) - 1
        a, pivots, stage, delta = room.a[slot], room.pivots[slot], room.stage, room.delta
        outcome = factorise(task, e, room, j / h, slot)
        if outcome != FACTORISED:
            grown = (outcome == GROWN or e.algebraic.size > 0) and e.limit < np.inf
            return (TOO_LARGE if grown else SINGULAR), -1
        for i in range(n):
            stage[0, i] = room.y[0, i]
        for m in range(j):
            right_hand(task, e, room, _small_time(t, h, t_new, m, j), first + m, m == 0, j / h, slot)
            bad = first_nonfinite(room.f, 0, n)
            if bad >= 0:
                return NOT_FINITE, bad
            for i in range(n):
                delta[i] = room.f[0, i]
            solve_for_vector(e, n, a, pivots, room.work, delta)
            for i in range(n):
                room.d[first + m, i] = delta[i]
                stage[0, i] += delta[i]
        for i in range(n):
            total = 0.0
            for m in range(j):
                total += room.d[first + m, i]
            room.x[j - 1, i] = total
        return DONE, -1

    return row


@kernel(inline=True)
def extrapolate(task, room, j, between):
    """Set the new states to T_jj; return the largest error over tolerance, and the state it belongs to.

    It is that of T_j,j-1, or `between` the ends of the step, where that may be tested.
    """
    ratio, worst, bend = -1.0, 0, room.bend
    highest_coefficient(j, room.d, bend)
    for i in range(task.n):
        gain, error = 0.0, 0.0
        for m in range(j):
            gain += END[j - 1, m] * room.x[m, i]
            error += ERROR[j - 1, m] * room.x[m, i]
        old = room.y[0, i]
        new = old + gain
        room.y[1, i] = new
        if between:
            error = max(abs(error), _BETWEEN * abs(bend[i]))
        part = abs(error) / tolerance(room.atol[i], task.rtol, old, new)
        if not (math.isfinite(part) and math.isfinite(new)):
            return np.inf, i
        if part > ratio:
            ratio, worst = part, i
    return ratio, worst


@kernel(inline=True)
def _put_directions(task, room):
    """Set `along` to the directions of (y, p), or (y, y', p), at the beginning of the step."""
    n, n_rate = task.n, room.rate.shape[1]
    for c in range(room.along.shape[0]):
        for i in range(n):
            room.along[c, i] = room.s[0, place_of(c, i, n)]
        for i in range(n_rate):
            room.along[c, n + i] = room.s_rate[0, place_of(c, i, n)]
        for i in range(task.n_parameters):
            room.along[c, n + n_rate + i] = room.seeds[c // 4, i, c % 4]


def directions_of_rows(form: Form) -> Any:
    """Return the kernel that sets the new directions of a step of order k; it returns the entry to blame, or -1."""
    right_hand_directions = form.right_hand_directions

    @kernel(inline=True)
    def differentiate(task, e, room, t, h, t_new, k):
        n, size = task.n, room.s.shape[1]
        s, z, ds, stage = room.s, room.z, room.ds, room.stage
        _put_directions(task, room)
        for i in range(size):
            s[1, i] = s[0, i]
        for j in range(1, k + 1):
            first, weight = increments_before(j), END[k - 1, j - 1]
            a, pivots = room.a[j - 1], room.pivots[j - 1]
            for i in range(n):
                stage[0, i] = room.y[0, i]
            for i in range(size):
                z[0, i] = s[0, i]
            for m in range(j):
                at = first + m
                right_hand_directions(task, e, room, _small_time(t, h, t_new, m, j), at, m == 0, j / h, j - 1)
                if not solve_blocks(e, n, a, pivots, room.work, ds, at):
                    return max(0, first_nonfinite(ds, at, size))
                for i in range(n):
                    stage[0, i] += room.d[at, i]
                for i in range(size):
                    z[0, i] += ds[at, i]
                    s[1, i] += weight * ds[at, i]
        return -1

    return differentiate
