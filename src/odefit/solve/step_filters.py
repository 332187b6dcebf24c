"""Filters of a diagonal problem min ||D x - c||, and the way back from x to the unknowns; see `dense_step`."""

from __future__ import annotations

import math

from odefit.native.kernel import kernel


@kernel(inline=True)
def norm_of(x, n):
    """Return the norm of the first `n` entries."""
    total = 0.0
    for i in range(n):
        total += x[i] * x[i]
    return math.sqrt(total)


@kernel(inline=True)
def _damping(a, c, rank, radius):
    """Return mu >= 0 such that ||d c/(d^2 + mu)|| <= radius, with equality unless mu = 0."""
    total = 0.0
    for i in range(rank):
        total += (c[i, 0] / a[i, i]) ** 2
    if math.sqrt(total) <= radius:
        return 0.0
    # Newton's method on 1/radius - 1/||x(mu)||, concave and increasing: monotone from the left
    mu = 0.0
    for _ in range(100):
        norm2, slope = 0.0, 0.0
        for i in range(rank):
            e = a[i, i] * a[i, i] + mu
            xi = a[i, i] * c[i, 0] / e
            norm2 += xi * xi
            slope += xi * xi / e
        norm = math.sqrt(norm2)
        if norm <= radius * (1.0 + 1e-3):
            break
        mu += (norm / radius - 1.0) * norm2 / slope
    return mu


@kernel(inline=True)
def damped_gains(a, c, rank, radius, gain):
    """Fill the filter (28); return mu."""
    mu = _damping(a, c, rank, radius)
    for i in range(rank):
        e = a[i, i] * a[i, i] + mu
        gain[i] = a[i, i] / e if 0.0 < e < math.inf else 1.0 / a[i, i]  # a square may be too large for a number
    return mu


@kernel(inline=True)
def subspace_gains(a, c, rank, radius, gain):
    """Fill the filter (30); return the fraction of the Gauss-Newton step's promise that is given up."""
    length2, squares = 0.0, 0.0
    best, best_rho, best_alpha = -1.0, 0, 0.0
    for i in range(rank):
        length2 += (c[i, 0] / a[i, i]) ** 2
        squares += c[i, 0] * c[i, 0]
        length = math.sqrt(length2)
        alpha = 1.0 if length <= radius else radius / length
        promised = alpha * (2.0 - alpha) * squares
        if promised >= best:
            best, best_rho, best_alpha = promised, i + 1, alpha
    for i in range(rank):
        gain[i] = best_alpha / a[i, i] if i < best_rho else 0.0
    return 0.0 if squares == 0.0 else (squares - best) / squares


@kernel(inline=True)
def unpivot(a, pivot, x, rank, n_columns, z, first):
    """Set ``z[first:] = P U^-1 x`` for x that is zero beyond the rank; overwrites `x`."""
    for i in range(rank - 1, -1, -1):
        total = 0.0
        for j in range(i + 1, rank):
            total += a[i, j] * x[j]
        x[i] -= total / a[i, i]
    for i in range(n_columns):
        z[first + pivot[i]] = x[i] if i < rank else 0.0
