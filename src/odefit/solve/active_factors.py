"""Orthogonal factors A_W = Q [T; 0] of the active columns of a matrix, as columns come and go.

Q' is kept in full, so that its last rows span what the active columns leave free.  A column is added by one reflection
of these rows; one that goes leaves T in Hessenberg form, which rotations of neighbouring rows repair.
"""

from __future__ import annotations

import math

from odefit.native.kernel import kernel


@kernel(inline=True)
def set_identity(q):
    """Set the factor Q' of no column at all."""
    for i in range(q.shape[0]):
        for j in range(q.shape[1]):
            q[i, j] = 1.0 if i == j else 0.0


@kernel(inline=True)
def rotate_into(q, a, column, d):
    """Set ``d = Q' a`` for one column of `a`."""
    for i in range(q.shape[0]):
        total = 0.0
        for j in range(q.shape[1]):
            total += q[i, j] * a[j, column]
        d[i] = total


@kernel(inline=True)
def tail_norm(d, first):
    """Return the norm of the entries of `d` from `first` on."""
    total = 0.0
    for i in range(first, d.size):
        total = math.hypot(total, d[i])
    return total


@kernel(inline=True)
def solve_upper(t, k, d, out):
    """Solve ``T out = d`` for the first `k` columns."""
    for i in range(k - 1, -1, -1):
        total = d[i]
        for j in range(i + 1, k):
            total -= t[i, j] * out[j]
        out[i] = total / t[i, i]


@kernel(inline=True)
def solve_upper_transposed(t, k, h, out):
    """Solve ``T' out = h`` for the first `k` columns."""
    for i in range(k):
        total = h[i]
        for j in range(i):
            total -= t[j, i] * out[j]
        out[i] = total / t[i, i]


@kernel(inline=True)
def add_column(q, t, k, d):
    """Add the column whose image is ``d = Q' a`` as number `k`; `d` is overwritten."""
    n = q.shape[0]
    for i in range(k):
        t[i, k] = d[i]
    norm = tail_norm(d, k)
    head = -norm if d[k] >= 0.0 else norm
    t[k, k] = head
    first = d[k] - head
    if first == 0.0:
        return
    beta = -first / head
    for i in range(k + 1, n):
        d[i] /= first
    d[k] = 1.0
    for j in range(n):
        total = 0.0
        for i in range(k, n):
            total += d[i] * q[i, j]
        total *= beta
        for i in range(k, n):
            q[i, j] -= total * d[i]


@kernel(inline=True)
def drop_column(q, t, k, gone):
    """Remove column number `gone` of `k`."""
    n = q.shape[0]
    for j in range(gone, k - 1):
        for i in range(j + 2):
            t[i, j] = t[i, j + 1]
        size = math.hypot(t[j, j], t[j + 1, j])
        if t[j + 1, j] == 0.0 or size == 0.0:
            continue
        c, s = t[j, j] / size, t[j + 1, j] / size
        for m in range(j + 2, k):
            upper, lower = t[j, m], t[j + 1, m]
            t[j, m], t[j + 1, m] = c * upper + s * lower, c * lower - s * upper
        t[j, j], t[j + 1, j] = size, 0.0
        for m in range(n):
            upper, lower = q[j, m], q[j + 1, m]
            q[j, m], q[j + 1, m] = c * upper + s * lower, c * lower - s * upper
