"""Householder QR for small dense problems, as kernels.

``A P = Q R`` with Householder reflections ``H = I - beta v v'``, v stored below the diagonal with
``v_0 = 1`` implied.  SciPy's pivoted QR of a 22 x 3 matrix takes 59 us, most of it in checks; these
take one or two.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.native.kernel import kernel


@kernel(inline=True)
def column_norm(a, start, j):
    """Return the norm of ``a[start:, j]``, safe against overflow and underflow."""
    largest = 0.0
    for i in range(start, a.shape[0]):
        largest = max(largest, abs(a[i, j]))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    total = 0.0
    for i in range(start, a.shape[0]):
        part = a[i, j] / largest
        total += part * part
    return largest * math.sqrt(total)


@kernel
def norms_of_columns(a, out):
    """Set `out` to the norms of the columns of `a`."""
    for j in range(a.shape[1]):
        out[j] = column_norm(a, 0, j)


@kernel(inline=True)
def reflect_column(a, k, beta):
    """Make the reflection that maps ``a[k:, k]`` to a multiple of e_1; store it in place."""
    norm = column_norm(a, k, k)
    if norm == 0.0:
        beta[k] = 0.0
        return
    alpha = a[k, k]
    head = -norm if alpha >= 0.0 else norm
    v0 = alpha - head
    for i in range(k + 1, a.shape[0]):
        a[i, k] /= v0
    beta[k] = -v0 / head
    a[k, k] = head


@kernel(inline=True)
def apply_to_column(a, k, beta, target, j):
    """Apply reflection `k` to column `j` of `target`."""
    total = target[k, j]
    for i in range(k + 1, a.shape[0]):
        total += a[i, k] * target[i, j]
    total *= beta[k]
    target[k, j] -= total
    for i in range(k + 1, a.shape[0]):
        target[i, j] -= total * a[i, k]


@kernel(inline=True)
def apply_to_columns(a, k, beta, target, first, last):
    """Apply reflection `k` to the columns `first` to `last` - 1 of `target`.

    Four at a time: each sum waits for its own last addition only, and rows are read where they lie together.  The
    operations and their order are those of `apply_to_column`.
    """
    j = first
    while j + 4 <= last:
        t0, t1, t2, t3 = target[k, j], target[k, j + 1], target[k, j + 2], target[k, j + 3]
        for i in range(k + 1, a.shape[0]):
            v = a[i, k]
            t0 += v * target[i, j]
            t1 += v * target[i, j + 1]
            t2 += v * target[i, j + 2]
            t3 += v * target[i, j + 3]
        t0, t1, t2, t3 = t0 * beta[k], t1 * beta[k], t2 * beta[k], t3 * beta[k]
        target[k, j] -= t0
        target[k, j + 1] -= t1
        target[k, j + 2] -= t2
        target[k, j + 3] -= t3
        for i in range(k + 1, a.shape[0]):
            v = a[i, k]
            target[i, j] -= t0 * v
            target[i, j + 1] -= t1 * v
            target[i, j + 2] -= t2 * v
            target[i, j + 3] -= t3 * v
        j += 4
    while j < last:
        apply_to_column(a, k, beta, target, j)
        j += 1


@kernel(inline=True)
def factor_columns(a, beta):
    """Factor all columns by Householder reflections."""
    for k in range(min(a.shape[0], a.shape[1])):
        reflect_column(a, k, beta)
        apply_to_columns(a, k, beta, a, k + 1, a.shape[1])


@kernel(inline=True)
def bring_next_pivot(a, k, n_columns, pivot):
    """Bring the remaining column of largest norm to position `k`; return that norm."""
    best, best_norm = k, -1.0
    for j in range(k, n_columns):
        norm = column_norm(a, k, j)
        if norm > best_norm:
            best, best_norm = j, norm
    if best != k:
        pivot[k], pivot[best] = pivot[best], pivot[k]
        for i in range(a.shape[0]):
            a[i, k], a[i, best] = a[i, best], a[i, k]
    return best_norm


@kernel(inline=True)
def factor_columns_pivoted(a, n_columns, beta, pivot):
    """Factor the first `n_columns` columns with pivoting."""
    for j in range(n_columns):
        pivot[j] = j
    for k in range(min(a.shape[0], n_columns)):
        bring_next_pivot(a, k, n_columns, pivot)
        reflect_column(a, k, beta)
        apply_to_columns(a, k, beta, a, k + 1, n_columns)


@kernel(inline=True)
def apply_transposed(a, n_columns, beta, target):
    """Set ``target = Q' target`` for the factors of the first `n_columns` columns of `a`."""
    for k in range(min(a.shape[0], n_columns)):
        apply_to_columns(a, k, beta, target, 0, target.shape[1])


@kernel
def reduce_least_squares(a, residual, factors, beta, r, b):
    """Factor ``a`` (m, n); set ``r`` (n, n) and ``b = -Q' residual`` (n,).

    With fewer rows than columns the missing rows of `r` and `b` are zero.

    Parameters
    ----------
    factors, beta
        Filled, (m, n + 1) and (min(m, n),): the reflections, for `reduce_right_side`.  The residual is reduced as one
        more column, together with the others.
    """
    m, n = a.shape
    for i in range(m):
        for j in range(n):
            factors[i, j] = a[i, j]
        factors[i, n] = -residual[i]
    for k in range(min(m, n)):
        reflect_column(factors, k, beta)
        apply_to_columns(factors, k, beta, factors, k + 1, n + 1)
    for i in range(n):
        for j in range(n):
            r[i, j] = factors[i, j] if i < m and j >= i else 0.0
        b[i] = factors[i, n] if i < m else 0.0


@kernel
def reduce_right_side(a, beta, residual, b):
    """Set ``b = -Q' residual`` for the factors made by `reduce_least_squares`."""
    m, n = a.shape[0], b.size
    right = np.empty((m, 1))
    for i in range(m):
        right[i, 0] = -residual[i]
    apply_transposed(a, n, beta, right)
    for i in range(n):
        b[i] = right[i, 0] if i < m else 0.0
