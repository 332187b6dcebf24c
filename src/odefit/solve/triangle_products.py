"""What a triangular linear model with heavy rows says of a step, as kernels."""

from __future__ import annotations

import math

from odefit.native.kernel import kernel


@kernel(inline=True)
def promised_reduction(r, b, rows, right, root, v):
    """Return the reduction of the rows of finite weight that the linear model promises for the step `v`."""
    n = b.size
    total = 0.0
    for i in range(n):
        w = 0.0
        for j in range(i, n):
            w += r[i, j] * v[j]
        total += w * (2.0 * b[i] - w)
    for i in range(root.size):
        if math.isfinite(root[i]):
            w = 0.0
            for j in range(n):
                w += rows[i, j] * v[j]
            total += root[i] * root[i] * w * (2.0 * right[i] - w)
    return 0.5 * total


@kernel(inline=True)
def negative_gradient(r, b, rows, right, root, out):
    """Set `out` to the negative gradient of the rows of finite weight."""
    n = b.size
    for j in range(n):
        g = 0.0
        for i in range(j + 1):
            g += r[i, j] * b[i]
        for i in range(root.size):
            if math.isfinite(root[i]):
                g += root[i] * root[i] * rows[i, j] * right[i]
        out[j] = g


@kernel
def promised_by(r, b, heavy, v):
    """Return what the linear model promises for the step `v`; see `promised_reduction`, and `factor_step`."""
    return promised_reduction(r, b, heavy[:, 2:], heavy[:, 1], heavy[:, 0], v)
