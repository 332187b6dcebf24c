"""Rows of infinite weight in the step problem.

They are eliminated first: with (E diag(s))' = [Y N] [L'; 0] the scaled step is z = Y y + N w, where L y = e makes the
rows hold and w is the unknown of a problem without them.  Which bounds are active depends on their multipliers.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.native.kernel import kernel
from odefit.native.orthogonal import apply_transposed, factor_columns_pivoted
from odefit.solve.step_filters import norm_of
from odefit.solve.weighted_factors import apply_backwards, rank_of

_INWARD = 1e-8  # relative change of an unknown on a bound, by which rows of infinite weight pull it off


@kernel(inline=True)
def count_infinite(root):
    """Return how many of the descending root weights are infinite."""
    count = 0
    while count < root.size and math.isinf(root[count]):
        count += 1
    return count


@kernel(inline=True)
def _transposed_rows(rows, free, n_free, scale, n_equality, et):
    """Set ``et = (E diag(s))'`` for the rows of infinite weight, in the free unknowns."""
    for j in range(et.shape[0]):
        for i in range(n_equality):
            et[j, i] = rows[i, free[j]] * scale[free[j]] if j < n_free else 0.0


@kernel(inline=True)
def normal_part(et, pivot_e, e, rank_e, limit, y):
    """Solve ``L y = e`` forward, shortened to the length `limit`; return its length."""
    for i in range(rank_e):
        total = e[pivot_e[i]]
        for j in range(i):
            total -= et[j, i] * y[j]
        y[i] = total / et[i, i]
    length = norm_of(y, rank_e)
    if length > limit:
        for i in range(rank_e):
            y[i] *= limit / length
        length = limit
    return length


@kernel(inline=True)
def list_free(fixed, free):
    """List the unknowns that are not fixed; return how many there are."""
    n_free = 0
    for j in range(fixed.size):
        if not fixed[j]:
            free[n_free] = j
            n_free += 1
    return n_free


@kernel(inline=True)
def factor_equality(rows, free, n_free, scale, n_equality, et, beta_e, pivot_e):
    """Factor the rows of infinite weight in the free unknowns; return their rank."""
    _transposed_rows(rows, free, n_free, scale, n_equality, et)
    factor_columns_pivoted(et, n_equality, beta_e, pivot_e)
    return rank_of(et, min(n_free, n_equality), abs(et[0, 0]))


@kernel(inline=True)
def _reduce_descent(descent, scale, rows, et, beta_e, pivot_e, n_equality, rank_e, free, n_free, column, reduced):
    """Set ``reduced = descent - E' mu`` with the multipliers that leave least of it in the free unknowns."""
    n = descent.size
    for j in range(n):
        column[j, 0] = descent[free[j]] * scale[free[j]] if j < n_free else 0.0
    apply_transposed(et, n_equality, beta_e, column)
    for i in range(rank_e - 1, -1, -1):
        total = column[i, 0]
        for j in range(i + 1, rank_e):
            total -= et[i, j] * column[j, 0]
        column[i, 0] = total / et[i, i]
    for j in range(n):
        total = descent[j]
        for i in range(rank_e):
            total -= rows[pivot_e[i], j] * column[i, 0]
        reduced[j] = total


@kernel(inline=True)
def hold_bounds(x, lower, upper, descent, inward, held):
    """Mark unknowns pressed against a bound that was reached; return whether that changed any mark."""
    changed = False
    for i in range(x.size):
        pressed = (x[i] <= lower[i] and descent[i] <= 0.0 and not inward[i] > _INWARD) or (
            x[i] >= upper[i] and descent[i] >= 0.0 and not inward[i] < -_INWARD
        )
        changed = changed or pressed != held[i]
        held[i] = pressed
    return changed


@kernel(inline=True, allocating=True)
def hold_with_equality(x, frame, descent, scale, rows, right, factors, free, column, y, reduced, held):
    """Mark unknowns that multipliers press against a bound, and that rows of infinite weight do not pull off it.

    `frame` is that of `factor_step`; `factors` are room for those of the rows of infinite weight, with their pivots.
    """
    et, beta_e, pivot_e = factors
    n, n_equality = et.shape
    inward = np.empty(n)
    for sweep in range(n + 2):
        n_free = list_free(held, free)
        rank_e = factor_equality(rows, free, n_free, scale, n_equality, et, beta_e, pivot_e)
        if sweep == 0:
            normal_part(et, pivot_e, right, rank_e, np.inf, y)
            for i in range(n):
                column[i, 0] = y[i] if i < rank_e else 0.0
            apply_backwards(et, n_equality, beta_e, column)
            for i in range(n):
                inward[i] = column[i, 0]
        _reduce_descent(descent, scale, rows, et, beta_e, pivot_e, n_equality, rank_e, free, n_free, column, reduced)
        if not hold_bounds(x, frame[2], frame[3], reduced, inward, held):
            break


@kernel(inline=True)
def rotate_columns(a, n_free, et, n_equality, beta_e):
    """Set ``a = a Q`` for the orthogonal matrix whose first columns span the rows of infinite weight."""
    for k in range(min(n_free, n_equality)):
        for i in range(a.shape[0]):
            total = a[i, k]
            for j in range(k + 1, n_free):
                total += a[i, j] * et[j, k]
            total *= beta_e[k]
            a[i, k] -= total
            for j in range(k + 1, n_free):
                a[i, j] -= total * et[j, k]


@kernel(inline=True)
def drop_columns(a, n_free, first, y, c):
    """Move the first columns times `y` to the right-hand side, and the others to the front."""
    for i in range(a.shape[0]):
        for j in range(first):
            c[i, 0] -= a[i, j] * y[j]
        for j in range(first, n_free):
            a[i, j - first] = a[i, j]
