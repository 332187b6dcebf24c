"""Systems ``(shift I - J) x = b`` with a sparse Jacobian J: dense or sparse LU behind the same three kernels.

The dense backend is LU with partial pivoting.  The sparse one factorises on a fixed pattern: the order of
elimination is chosen once, in Python (`odefit.integrate.elimination`), and the numeric phase here walks through
the rows,

    u_i. = a_i. - sum_k l_ik u_k.,    l_ik = w_k / u_kk,

in a dense work row w.  Pivots are not exchanged in it; instead it measures how much the entries of a row grow, and says
so, that a better order can be looked for.

A `pattern` is a tuple (row_ptr, mid, col, row_of, column_of, place, l_ptr, l_col, u_ptr, u_col): the CSR pattern of the
derivatives by (y, p), where ``row_ptr[i]:mid[i]`` belong to y; then the permutation and the patterns of L and U (the
diagonal first in each row of U), which are empty for the dense backend.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from odefit.native.kernel import kernel
from odefit.native.records import Floats, Integers

GROWTH_LIMIT = 1e4  # of the entries of a row, before another order of elimination is asked for
FACTORISED, SINGULAR, GROWN = 0, 1, 2
_NOTHING, _NO_NUMBERS = np.empty(0, dtype=np.int64), np.empty(0)


class Elimination(NamedTuple):
    """What kernels are told about the linear algebra of a task.

    Attributes
    ----------
    row_ptr, .., u_col
        The pattern.
    n_values, n_pivots, n_work
        Room for a factorisation.
    patience
        Cost of a factorisation over that of a solution with it.
    limit
        Growth of entries at which another order of elimination is asked for.
    trouble
        Where the Jacobian and the shift are noted then.
    """

    row_ptr: Integers = _NOTHING
    mid: Integers = _NOTHING
    col: Integers = _NOTHING
    row_of: Integers = _NOTHING
    column_of: Integers = _NOTHING
    place: Integers = _NOTHING
    l_ptr: Integers = _NOTHING
    l_col: Integers = _NOTHING
    u_ptr: Integers = _NOTHING
    u_col: Integers = _NOTHING
    n_values: int = 0
    n_pivots: int = 0
    n_work: int = 0
    patience: float = 0.0
    limit: float = 0.0
    trouble: Floats = _NO_NUMBERS


@kernel(inline=True)
def dense_factorise(row_ptr, mid, col, jac, shift, n, a, pivots):
    """Factorise in place, row by row in ``a[i * n + j]``; the diagonal holds reciprocals of the pivots."""
    for i in range(n * n):
        a[i] = 0.0
    for i in range(n):
        for e in range(row_ptr[i], mid[i]):
            a[i * n + col[e]] = -jac[e]
        a[i * n + i] += shift
    for k in range(n):
        chosen, largest = k, abs(a[k * n + k])
        for i in range(k + 1, n):
            size = abs(a[i * n + k])
            if size > largest:
                chosen, largest = i, size
        if not (largest > 0.0 and math.isfinite(largest)):
            return SINGULAR
        pivots[k] = chosen
        if chosen != k:
            for j in range(n):
                kept = a[k * n + j]
                a[k * n + j] = a[chosen * n + j]
                a[chosen * n + j] = kept
        inverse = 1.0 / a[k * n + k]
        a[k * n + k] = inverse
        for i in range(k + 1, n):
            if a[i * n + k] != 0.0:
                factor = a[i * n + k] * inverse
                a[i * n + k] = factor
                for j in range(k + 1, n):
                    a[i * n + j] -= factor * a[k * n + j]
    return FACTORISED


@kernel(inline=True)
def _sparse_factorise(row_ptr, mid, row_of, column_of, place, l_ptr, l_col, u_ptr, u_col, jac, shift, n, a, w, limit):
    """Factorise to ``a`` = entries of L, entries of U, reciprocals of the pivots."""
    at_u = l_col.size
    at_inverse = at_u + u_col.size
    outcome = FACTORISED
    for i in range(n):
        for e in range(l_ptr[i], l_ptr[i + 1]):
            w[l_col[e]] = 0.0
        for e in range(u_ptr[i], u_ptr[i + 1]):
            w[u_col[e]] = 0.0
        row = row_of[i]
        w[column_of[row]] = shift
        before = abs(shift)
        for e in range(row_ptr[row], mid[row]):
            w[place[e]] -= jac[e]
            before = max(before, abs(w[place[e]]))
        for e in range(l_ptr[i], l_ptr[i + 1]):
            k = l_col[e]
            factor = w[k] * a[at_inverse + k]
            a[e] = factor
            if factor != 0.0:
                for g in range(u_ptr[k] + 1, u_ptr[k + 1]):
                    w[u_col[g]] -= factor * a[at_u + g]
        after = 0.0
        for e in range(u_ptr[i], u_ptr[i + 1]):
            a[at_u + e] = w[u_col[e]]
            after = max(after, abs(w[u_col[e]]))
        pivot = w[i]
        if not after < limit * before:
            outcome = GROWN
        if pivot == 0.0 or not math.isfinite(pivot):
            return GROWN if outcome == GROWN else SINGULAR
        a[at_inverse + i] = 1.0 / pivot
    return outcome


@kernel(inline=True)
def factorise_matrix(pattern, jac, shift, n, a, pivots, work, limit):
    """Factorise ``shift I - J`` into `a` (and `pivots`); return FACTORISED, SINGULAR or GROWN.

    ``work`` has room for four vectors; growth beyond `limit` is reported by the sparse backend alone.
    """
    row_ptr, mid, col, row_of, column_of, place, l_ptr, l_col, u_ptr, u_col = pattern
    if row_of.size == 0:
        return dense_factorise(row_ptr, mid, col, jac, shift, n, a, pivots)
    return _sparse_factorise(
        row_ptr, mid, row_of, column_of, place, l_ptr, l_col, u_ptr, u_col, jac, shift, n, a, work, limit
    )


@kernel(inline=True)
def solve_for_vector(pattern, n, a, pivots, work, x):
    """Overwrite ``x[:n]`` by the solution."""
    row_of, column_of, l_ptr, l_col, u_ptr, u_col = (
        pattern[3],
        pattern[4],
        pattern[6],
        pattern[7],
        pattern[8],
        pattern[9],
    )
    if row_of.size == 0:
        for k in range(n):
            chosen = pivots[k]
            kept = x[k]
            x[k] = x[chosen]
            x[chosen] = kept
        for i in range(1, n):
            total = x[i]
            for j in range(i):
                total -= a[i * n + j] * x[j]
            x[i] = total
        for i in range(n - 1, -1, -1):
            total = x[i]
            for j in range(i + 1, n):
                total -= a[i * n + j] * x[j]
            x[i] = total * a[i * n + i]
        return
    at_u = l_col.size
    at_inverse = at_u + u_col.size
    for i in range(n):
        total = x[row_of[i]]
        for e in range(l_ptr[i], l_ptr[i + 1]):
            total -= a[e] * work[l_col[e]]
        work[i] = total
    for i in range(n - 1, -1, -1):
        total = work[i]
        for e in range(u_ptr[i] + 1, u_ptr[i + 1]):
            total -= a[at_u + e] * work[u_col[e]]
        work[i] = total * a[at_inverse + i]
    for i in range(n):
        x[i] = work[column_of[i]]


@kernel(inline=True)
def dense_solve_block(n, a, pivots, x, b):
    """Solve for a block of four right-hand sides with dense factors."""
    for k in range(n):
        chosen = pivots[k]
        if chosen != k:
            for r in range(4):
                kept = x[b, k, r]
                x[b, k, r] = x[b, chosen, r]
                x[b, chosen, r] = kept
    for i in range(1, n):
        x0, x1, x2, x3 = x[b, i, 0], x[b, i, 1], x[b, i, 2], x[b, i, 3]
        for j in range(i):
            v = a[i * n + j]
            x0 -= v * x[b, j, 0]
            x1 -= v * x[b, j, 1]
            x2 -= v * x[b, j, 2]
            x3 -= v * x[b, j, 3]
        x[b, i, 0], x[b, i, 1], x[b, i, 2], x[b, i, 3] = x0, x1, x2, x3
    for i in range(n - 1, -1, -1):
        x0, x1, x2, x3 = x[b, i, 0], x[b, i, 1], x[b, i, 2], x[b, i, 3]
        for j in range(i + 1, n):
            v = a[i * n + j]
            x0 -= v * x[b, j, 0]
            x1 -= v * x[b, j, 1]
            x2 -= v * x[b, j, 2]
            x3 -= v * x[b, j, 3]
        v = a[i * n + i]
        x[b, i, 0], x[b, i, 1], x[b, i, 2], x[b, i, 3] = x0 * v, x1 * v, x2 * v, x3 * v


@kernel(inline=True)
def _sparse_solve_block(row_of, column_of, l_ptr, l_col, u_ptr, u_col, n, a, w, x, b):
    at_u = l_col.size
    at_inverse = at_u + u_col.size
    for i in range(n):
        row = row_of[i]
        x0, x1, x2, x3 = x[b, row, 0], x[b, row, 1], x[b, row, 2], x[b, row, 3]
        for e in range(l_ptr[i], l_ptr[i + 1]):
            v, k = a[e], 4 * l_col[e]
            x0 -= v * w[k]
            x1 -= v * w[k + 1]
            x2 -= v * w[k + 2]
            x3 -= v * w[k + 3]
        w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3] = x0, x1, x2, x3
    for i in range(n - 1, -1, -1):
        x0, x1, x2, x3 = w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3]
        for e in range(u_ptr[i] + 1, u_ptr[i + 1]):
            v, k = a[at_u + e], 4 * u_col[e]
            x0 -= v * w[k]
            x1 -= v * w[k + 1]
            x2 -= v * w[k + 2]
            x3 -= v * w[k + 3]
        v = a[at_inverse + i]
        w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3] = x0 * v, x1 * v, x2 * v, x3 * v
    for i in range(n):
        k = 4 * column_of[i]
        for r in range(4):
            x[b, i, r] = w[k + r]


@kernel
def solve_blocks(pattern, n, a, pivots, work, x):
    """Overwrite every block of `x`, shape (blocks, n, 4), by the solution."""
    row_of, column_of, l_ptr, l_col, u_ptr, u_col = (
        pattern[3],
        pattern[4],
        pattern[6],
        pattern[7],
        pattern[8],
        pattern[9],
    )
    for b in range(x.shape[0]):
        if row_of.size == 0:
            dense_solve_block(n, a, pivots, x, b)
        else:
            _sparse_solve_block(row_of, column_of, l_ptr, l_col, u_ptr, u_col, n, a, work, x, b)


@kernel
def add_product(pattern, jac, n, z, row, seeds, out):
    """Add ``f_y z[row] + f_p seeds`` to `out`, in blocks of four directions."""
    row_ptr, mid, col = pattern[0], pattern[1], pattern[2]
    for b in range(out.shape[0]):
        for i in range(n):
            x0, x1, x2, x3 = out[b, i, 0], out[b, i, 1], out[b, i, 2], out[b, i, 3]
            for e in range(row_ptr[i], mid[i]):
                v, j = jac[e], col[e]
                x0 += v * z[row, b, j, 0]
                x1 += v * z[row, b, j, 1]
                x2 += v * z[row, b, j, 2]
                x3 += v * z[row, b, j, 3]
            for e in range(mid[i], row_ptr[i + 1]):
                v, j = jac[e], col[e] - n
                x0 += v * seeds[b, j, 0]
                x1 += v * seeds[b, j, 1]
                x2 += v * seeds[b, j, 2]
                x3 += v * seeds[b, j, 3]
            out[b, i, 0], out[b, i, 1], out[b, i, 2], out[b, i, 3] = x0, x1, x2, x3
