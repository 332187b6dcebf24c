"""The point of a polyhedron that is nearest to the origin: min ||y||^2/2 with a_i'y >= h_i.

The dual method of Goldfarb and Idnani (Mathematical Programming 27 (1983) 1) begins at y = 0, where no multiplier is
negative, and adds the most violated row, one at a time.  With the active columns A_W = Q1 T and the new column a, the
point moves along the part z of a that Q1 leaves, and the multipliers u of the others fall by t T^-1 Q1'a.  Where one of
them reaches zero before the new row is met, its row is dropped.  Where z = 0 the new row depends on the active ones:
only multipliers change, until a row can be dropped; if none ever can, these rows contradict each other, and the
coefficients of the dependence prove it.

||y|| grows with each row that is added, so that no active set comes back, and rows that are dropped in between become
fewer: there is no cycle, at a degenerate vertex neither.  Rounding might make one; the number of exchanges is bounded.

Whether rows depend on each other is not judged in the metric of this problem, in which they may look nearly parallel
because one direction is hardly determined, but by the rows as they are given (`plain`).
"""

from __future__ import annotations

import numpy as np

from odefit.native.kernel import kernel
from odefit.native.orthogonal import column_norm, factor_columns
from odefit.solve.active_factors import (
    add_column,
    drop_column,
    rotate_into,
    set_identity,
    solve_upper,
    solve_upper_transposed,
    tail_norm,
)

SOLVED, CONTRADICTORY, UNSURE = 0, 1, 2
"""How a program ended: with a solution; without one, since rows contradict each other; rounding prevented an end."""
DEPENDENT = 1e-10
"""Distance of a row of length one from the span of others, up to which it depends on them."""
_LOOK_CLOSELY = 1e-5  # the same in the metric of the problem: only below are the rows themselves looked at
_MET = 1e-13  # a row may be missed by so much of the numbers that it is made of
_MISSED = 1e-9  # rows contradict each other only where one is missed by more than this


@kernel(inline=True)
def _settle(q, t, k, list_active, h, work, y, u):
    """Set point and multipliers of the active rows, from the factors."""
    for i in range(k):
        work[i] = h[list_active[i]]
    solve_upper_transposed(t, k, work, work)
    for j in range(y.size):
        y[j] = 0.0
    for i in range(k):
        for j in range(y.size):
            y[j] += work[i] * q[i, j]
    solve_upper(t, k, work, u)


@kernel(inline=True)
def _drop(q, t, k, gone, list_active, active, u):
    """Make the active row number `gone` of `k` inactive."""
    drop_column(q, t, k, gone)
    active[list_active[gone]] = False
    for i in range(gone, k - 1):
        list_active[i] = list_active[i + 1]
        u[i] = u[i + 1]


@kernel(inline=True)
def _drop_negative(q, t, k, list_active, active, h, work, y, u):
    """Drop rows, that of the most negative multiplier first, until none is negative; return how many are left."""
    _settle(q, t, k, list_active, h, work, y, u)
    while k > 0:
        worst, size = 0, 0.0
        for i in range(k):
            size = max(size, abs(u[i]))
            if u[i] < u[worst]:
                worst = i
        if u[worst] >= -_MET * size:
            break
        _drop(q, t, k, worst, list_active, active, u)
        k -= 1
        _settle(q, t, k, list_active, h, work, y, u)
    for i in range(k):
        u[i] = max(0.0, u[i])
    return k


@kernel(inline=True, allocating=True)
def _distance(plain, list_active, k, row):
    """Return the distance of a row from the span of the active ones."""
    m = plain.shape[1]
    if k >= m:
        return 0.0
    a, beta = np.empty((m, k + 1)), np.empty(k + 1)
    for j in range(m):
        for i in range(k):
            a[j, i] = plain[list_active[i], j]
        a[j, k] = plain[row, j]
    factor_columns(a, beta)
    return column_norm(a, k, k) if k == 0 else abs(a[k, k])


@kernel(inline=True)
def _missed(a, h, level, y, i):
    """Return by how much row `i` is met, and the size of the numbers that this is made of."""
    value, size = -h[i], level[i]
    for j in range(y.size):
        part = a[j, i] * y[j]
        value += part
        size += abs(part)
    return value, size


@kernel(inline=True)
def _most_missed(a, h, level, active, y):
    """Return the row that is missed most; -1 if there is none."""
    worst, largest = -1, 0.0
    for i in range(h.size):
        if active[i] or level[i] == np.inf:
            continue
        value, size = _missed(a, h, level, y, i)
        if value < -_MET * size and value < largest:
            worst, largest = i, value
    return worst


@kernel(inline=True)
def _first_to_vanish(u, fall, k):
    """Return the active row whose multiplier reaches zero first, and when; -1 and infinity if none does."""
    first, when, size = -1, np.inf, 1.0
    for i in range(k):
        size = max(size, abs(fall[i]))
    for i in range(k):
        if fall[i] > DEPENDENT * size and u[i] < when * fall[i]:
            first, when = i, u[i] / fall[i]
    return first, when


@kernel(inline=True, allocating=True)
def _begin(a, h, level, plain, active, q, t, list_active, work, y, u):
    """Start from the rows that are guessed to be active, without those of negative multipliers; return their number."""
    k, d = 0, np.empty(y.size)
    for i in range(h.size):
        if not active[i]:
            continue
        active[i] = False
        if level[i] == np.inf or k == y.size:
            continue
        rotate_into(q, a, i, d)
        if tail_norm(d, k) > _LOOK_CLOSELY:
            add_column(q, t, k, d)
            list_active[k], active[i] = i, True
            k += 1
    return _drop_negative(q, t, k, list_active, active, h, work, y, u)


@kernel(inline=True, allocating=True)
def least_distance(a, h, level, plain, active, y, multiplier):
    """Find the point nearest to the origin.

    Parameters
    ----------
    a, h
        Columns a_i of length one (m, k), and (k,).
    level
        Size of the numbers that a_i'y - h_i is the difference of, (k,); infinite for rows that do not count.
    plain
        The rows as they are given, of length one, (k, m).
    active
        (k,): first a guess, then the answer.
    y, multiplier
        Filled, (m,) and (k,); where rows contradict each other, the multipliers prove it (see `solve_program`).

    Returns
    -------
    status, row
        How it ended, and the row that could not be met.
    """
    m, n_rows = y.size, h.size
    q, t, list_active = np.empty((m, m)), np.zeros((m, m)), np.empty(m, np.int64)
    u, work, d, fall = np.zeros(m), np.empty(m), np.empty(m), np.zeros(m)
    set_identity(q)
    k = _begin(a, h, level, plain, active, q, t, list_active, work, y, u)
    status, row = UNSURE, -1
    adding, grown = False, 0.0  # a row is on its way in, with this multiplier
    for _ in range(20 * (m + n_rows) + 50):
        if not adding:
            row, grown = _most_missed(a, h, level, active, y), 0.0
            if row < 0:
                status = SOLVED
                break
            adding = True
        value, size = _missed(a, h, level, y, row)
        rotate_into(q, a, row, d)
        solve_upper(t, k, d, fall)
        free = tail_norm(d, k)
        depends = k == m or (free <= _LOOK_CLOSELY and _distance(plain, list_active, k, row) <= DEPENDENT)
        first, when = _first_to_vanish(u, fall, k)
        if depends and first < 0:
            if value < -_MISSED * size:
                status = CONTRADICTORY
                break
            level[row], adding = np.inf, False  # rounding alone misses it
            k = _drop_negative(q, t, k, list_active, active, h, work, y, u)
            continue
        met = np.inf if depends else max(0.0, -value) / (free * free)
        length = min(when, met)
        for i in range(k):
            u[i] -= length * fall[i]
        grown += length
        if not depends:
            for i in range(k, m):
                for j in range(m):
                    y[j] += length * d[i] * q[i, j]
        if met <= when:
            add_column(q, t, k, d)
            list_active[k], active[row], u[k] = row, True, grown
            k += 1
            adding = False
            k = _drop_negative(q, t, k, list_active, active, h, work, y, u)
        else:
            u[first] = 0.0
            _drop(q, t, k, first, list_active, active, u)
            k -= 1
    for i in range(n_rows):
        multiplier[i] = 0.0
    for i in range(k):
        multiplier[list_active[i]] = max(0.0, -fall[i]) if status == CONTRADICTORY else u[i]
    if status == CONTRADICTORY:
        multiplier[row] = 1.0
    return status, row
