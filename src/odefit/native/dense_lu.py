"""Small dense linear systems whose unknowns and equations have units of their own: LU with scaled pivoting.

The columns of a matrix are multiplied by the sizes of the unknowns, and a pivot is judged beside the largest entry of
its row: so neither units of unknowns nor of equations decide which rows are exchanged.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.native.kernel import kernel

_ROUNDING = 4.0 * float(np.finfo(float).eps)


@kernel
def factorise_dense(matrix, sizes, factors, pivots):
    """Factorise `matrix`, (m, m), times the diagonal of `sizes`; tell whether it is regular beyond rounding."""
    m = matrix.shape[0]
    largest = np.zeros(m)
    for i in range(m):
        for j in range(m):
            factors[i, j] = matrix[i, j] * sizes[j]
            largest[i] = max(largest[i], abs(factors[i, j]))
        if not (largest[i] > 0.0 and math.isfinite(largest[i])):
            return False
    for k in range(m):
        chosen, best = k, 0.0
        for i in range(k, m):
            part = abs(factors[i, k]) / largest[i]
            if part > best:
                chosen, best = i, part
        if not best > m * _ROUNDING:
            return False
        pivots[k] = chosen
        if chosen != k:
            largest[chosen] = largest[k]
            for j in range(m):
                factors[k, j], factors[chosen, j] = factors[chosen, j], factors[k, j]
        for i in range(k + 1, m):
            factor = factors[i, k] / factors[k, k]
            factors[i, k] = factor
            if factor != 0.0:
                for j in range(k + 1, m):
                    factors[i, j] -= factor * factors[k, j]
    return True


@kernel
def solve_dense(factors, pivots, sizes, x):
    """Overwrite `x`, (m,), by the solution, in the unit of the unknowns."""
    m = factors.shape[0]
    for k in range(m):
        chosen = pivots[k]
        x[k], x[chosen] = x[chosen], x[k]
    for i in range(1, m):
        total = x[i]
        for j in range(i):
            total -= factors[i, j] * x[j]
        x[i] = total
    for i in range(m - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, m):
            total -= factors[i, j] * x[j]
        x[i] = total / factors[i, i]
    for i in range(m):
        x[i] *= sizes[i]
    return 0
