"""Householder factors of a problem whose rows have weights of very different size.

Heavy rows of finite weight stand above the others, heaviest first: with sorted rows and column pivoting a
Householder factorisation is stable row by row, whatever the weights.  What elimination leaves of a heavy row is
set to zero where it is mere rounding, and the rank is judged by the size of the light rows: measured by the heavy
ones, all others would count for nothing.

**Rank.**  The factors are those of a matrix whose every column is wrong by a few roundings of its own norm (Higham,
Accuracy and Stability of Numerical Algorithms, theorem 19.4).  So what elimination leaves of a column is rounding if
it is small against that *column*, not against the largest one: beside an offset of 1e9 the unknowns of a curve of size
1 are as well determined as without it.  Only what is below one rounding of the largest column cannot be seen in
residuals of that size.  What is rounding is set to zero, so that columns which stand for something come first and the
rank is the number of diagonal elements that are not zero.  Heavy rows, and rotations that make infinite weights hold,
carry the rounding of one column into the others: there all are measured by the largest one.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.native.kernel import kernel
from odefit.native.orthogonal import apply_to_column, apply_to_columns, bring_next_pivot, column_norm, reflect_column

RANK_TOLERANCE = 1e-10
"""Relative to the size of a column: a guard against rounding only."""
_UNSEEN = float(np.finfo(float).eps)


@kernel(inline=True)
def rank_of(a, n, level):
    """Return how many diagonal elements differ from zero, measured by `level`; 0.0 where rounding was set to zero."""
    rank = 0
    while rank < n and abs(a[rank, rank]) > RANK_TOLERANCE * level:
        rank += 1
    return rank


@kernel(inline=True)
def _row_norm(a, i, first, n_columns):
    total = 0.0
    for j in range(first, n_columns):
        total = math.hypot(total, a[i, j])
    return total


@kernel(inline=True)
def _measure_columns(a, n_columns, n_heavy, mixed, size):
    """Fill what the rounding of each column is measured by; return the size of the light rows."""
    level = 0.0
    for j in range(n_columns):
        size[j] = column_norm(a, n_heavy, j)
        level = max(level, size[j])
    for j in range(n_columns):
        size[j] = level if mixed else max(size[j], _UNSEEN / RANK_TOLERANCE * level)
    return level


@kernel(inline=True)
def _bring_felt_pivot(a, k, n_columns, pivot, size):
    """Bring the remaining column of largest norm to position `k`, setting those to zero that are mere rounding."""
    for _ in range(k, n_columns):
        norm = bring_next_pivot(a, k, n_columns, pivot)
        if norm == 0.0 or not norm <= RANK_TOLERANCE * size[pivot[k]]:
            return
        for i in range(k, a.shape[0]):
            a[i, k] = 0.0


@kernel(inline=True)
def factor_weighted(a, n_columns, n_heavy, mixed, beta, pivot, row_size, dropped, size):
    """Factor the first columns with pivoting, heavy rows first; return the size of the light rows.

    What is left of a heavy row when the ones above it are eliminated is set to zero where it is rounding;
    `dropped` remembers before which column.  `mixed` tells whether columns were rotated into each other; `size` is
    room.
    """
    level = _measure_columns(a, n_columns, n_heavy, mixed or n_heavy > 0, size)
    for j in range(n_columns):
        pivot[j] = j
    for i in range(n_heavy):
        row_size[i] = _row_norm(a, i, 0, n_columns)
        dropped[i] = -1
    for k in range(min(a.shape[0], n_columns)):
        for i in range(k, n_heavy):
            if _row_norm(a, i, k, n_columns) <= RANK_TOLERANCE * row_size[i]:
                dropped[i] = k
                for j in range(k, n_columns):
                    a[i, j] = 0.0
        _bring_felt_pivot(a, k, n_columns, pivot, size)
        reflect_column(a, k, beta)
        apply_to_columns(a, k, beta, a, k + 1, n_columns)
    return level


@kernel(inline=True)
def apply_weighted(a, n_columns, beta, dropped, c):
    """Set ``c = Q' c`` for the factors of `factor_weighted`, without what rows that were dropped still miss."""
    for k in range(min(a.shape[0], n_columns)):
        for i in range(dropped.size):
            if dropped[i] == k:
                c[i, 0] = 0.0
        apply_to_column(a, k, beta, c, 0)


@kernel(inline=True)
def apply_backwards(a, n_columns, beta, target):
    """Set ``target = Q target`` for the factors of the first `n_columns` columns of `a`."""
    for k in range(min(a.shape[0], n_columns) - 1, -1, -1):
        for j in range(target.shape[1]):
            apply_to_column(a, k, beta, target, j)
