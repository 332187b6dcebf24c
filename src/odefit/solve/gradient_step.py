"""Projected gradient steps, which every step has to be compared with, and what a linear model promises for a step."""

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


@kernel(inline=True)
def _longest_gradient_step(r, rows, root, descent, scale, longest, v):
    """Return where to begin the search: `longest`, or far beyond the best multiple were there no bounds."""
    n = descent.size
    slope, square = 0.0, 0.0
    for j in range(n):
        v[j] = scale[j] * scale[j] * descent[j]
        slope += descent[j] * v[j]
    for i in range(n):
        w = 0.0
        for j in range(i, n):
            w += r[i, j] * v[j]
        square += w * w
    for i in range(root.size):
        if math.isfinite(root[i]):
            w = 0.0
            for j in range(n):
                w += rows[i, j] * v[j]
            square += (root[i] * w) ** 2
    return min(longest, 1e6 * slope / square) if square > 0.0 else longest


@kernel(inline=True)
def gradient_step(r, b, rows, right, root, descent, scale, low, high, radius, v):
    """Set `v` to the best of some projected, scaled gradient steps within the radius; return its length."""
    n = b.size
    length = 0.0
    for j in range(n):
        length += (descent[j] * scale[j]) ** 2
    length = math.sqrt(length)
    if length == 0.0:
        for j in range(n):
            v[j] = 0.0
        return 0.0
    t, best, best_t = _longest_gradient_step(r, rows, root, descent, scale, radius / length, v), 0.0, 0.0
    for _ in range(60):
        for j in range(n):
            v[j] = min(high[j], max(low[j], t * scale[j] * scale[j] * descent[j]))
        promised = promised_reduction(r, b, rows, right, root, v)
        if promised > best:
            best, best_t = promised, t
        t *= 0.5
    for j in range(n):
        v[j] = min(high[j], max(low[j], best_t * scale[j] * scale[j] * descent[j]))
    return best_t * length
