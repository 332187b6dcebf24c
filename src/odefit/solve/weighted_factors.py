"""Householder factors of a problem whose rows have weights of very different size.

Heavy rows of finite weight stand above the others, heaviest first: with sorted rows and column pivoting a
Householder factorisation is stable row by row, whatever the weights.  What elimination leaves of a heavy row is
set to zero where it is mere rounding, and the rank is judged by the size of the light rows: measured by the heavy
ones, all others would count for nothing.
"""

from __future__ import annotations

import math

from odefit.native.kernel import kernel
from odefit.native.orthogonal import apply_to_column, column_norm, factor_next_pivot

RANK_TOLERANCE = 1e-10
"""Relative to the largest diagonal element: a guard against rounding only."""


@kernel(inline=True)
def rank_of(a, n, level):
    """Return how many diagonal elements differ from zero, measured by `level`."""
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
def factor_weighted(a, n_columns, n_heavy, beta, pivot, row_size, dropped):
    """Factor the first columns with pivoting, heavy rows first; return the size of the light rows.

    What is left of a heavy row when the ones above it are eliminated is set to zero where it is rounding;
    `dropped` remembers before which column.
    """
    level = 0.0
    for j in range(n_columns):
        pivot[j] = j
        level = max(level, column_norm(a, n_heavy, j))
    for i in range(n_heavy):
        row_size[i] = _row_norm(a, i, 0, n_columns)
        dropped[i] = -1
    for k in range(min(a.shape[0], n_columns)):
        for i in range(k, n_heavy):
            if _row_norm(a, i, k, n_columns) <= RANK_TOLERANCE * row_size[i]:
                dropped[i] = k
                for j in range(k, n_columns):
                    a[i, j] = 0.0
        factor_next_pivot(a, k, n_columns, beta, pivot)
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
