"""Coefficients of backward differentiation formulas on any grid, and sums over past values.

With psi_j = t_n - t_{n-j} let w_1..w_m be the weights that extrapolate the polynomial through the m past values to
t_n.  Everything follows from them:

* the predictor of order k uses m = k + 1;
* the derivative at t_n of the polynomial through t_n, .., t_{n-k} is ``sum_j c_j y_{n-j}`` with
  ``c_0 = sum_j 1/psi_j`` and ``c_j = -w_j/psi_j``, where m = k;
* ``y_n - sum_j w_j y_{n-j}`` is the divided difference of order m times ``psi_1 .. psi_m``, so that the local error
  of the formula of order k is ``(y_n - sum_j w_j y_{n-j})/(psi_{k+1} c_0)`` with m = k + 1.

All these weights sum to 1 (or 0 with c_0), and sums are taken over differences from ``y_{n-1}``: a constant stays what it is,
to the last bit.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.native.kernel import kernel

MAX_ORDER = 5
_LEAST_WEIGHT = 16.0 * float(np.finfo(float).eps)  # an error below it cannot be told from rounding


@kernel
def _add_node(psi, m, w):
    """Turn the weights of nodes 1..m-1 into those of nodes 1..m."""
    new = 1.0
    for j in range(1, m):
        r = 1.0 / (psi[m] - psi[j])
        w[j] *= psi[m] * r
        new *= -psi[j] * r
    w[m] = new


@kernel
def _formula(psi, k, w, c):
    """Fill the weights `w` of k nodes and the coefficients `c` of the formula of order `k`."""
    c[0] = 0.0
    for j in range(1, k + 1):
        _add_node(psi, j, w)
        c[0] += 1.0 / psi[j]
    for j in range(1, k + 1):
        c[j] = -w[j] / psi[j]


@kernel
def _inverse_sum(psi, m):
    """Return c_0 of the formula of order `m`."""
    total = 0.0
    for j in range(1, m + 1):
        total += 1.0 / psi[j]
    return total


@kernel
def _past_sum(values, slot, w, m, size, out):
    """Set ``out = sum_{j=2..m} w_j (y_{n-j} - y_{n-1})``."""
    newest = slot[1]
    if m < 2:
        for i in range(size):
            out[i] = 0.0
        return
    row, weight = slot[2], w[2]
    for i in range(size):
        out[i] = weight * (values[row, i] - values[newest, i])
    for j in range(3, m + 1):
        row, weight = slot[j], w[j]
        for i in range(size):
            out[i] += weight * (values[row, i] - values[newest, i])


@kernel
def _error_ratio(values, slot, w, m, size, scale, rtol, atol, power, out):
    """Return the largest local error over tolerance (inf if one is not finite), and the entry it belongs to."""
    _past_sum(values, slot, w, m, size, out)
    new, old = slot[0], slot[1]
    ratio, cause = -1.0, 0
    for i in range(size):
        error = scale * abs((values[new, i] - values[old, i]) - out[i])
        weight = atol + rtol * max(abs(values[new, i]), abs(values[old, i]))
        part = error / (weight if power == 1.0 else max(weight**power, _LEAST_WEIGHT * abs(values[old, i])))
        if math.isnan(part):
            return np.inf, i
        if part > ratio:
            ratio, cause = part, i
    return ratio, cause


@kernel
def _interpolation_weights(psi, k, x, w):
    """Fill w_0..w_k for the polynomial through t_n, .., t_{n-k} at t_n + x."""
    for j in range(1, k + 1):
        product = -x / psi[j]
        for m in range(1, k + 1):
            if m != j:
                product *= (x + psi[m]) / (psi[m] - psi[j])
        w[j] = product


@kernel
def _interpolate(values, slot, w, k, size, out):
    new = slot[0]
    for i in range(size):
        out[i] = values[new, i]
    for j in range(1, k + 1):
        row, weight = slot[j], w[j]
        for i in range(size):
            out[i] += weight * (values[row, i] - values[new, i])


@kernel
def _write_blocks(flat, n, q, out, row):
    """Copy the first `q` directions of blocks (blocks, n, 4), here flat, to ``out[row]``."""
    for i in range(n):
        for c in range(q):
            out[row, i, c] = flat[((c // 4) * n + i) * 4 + c % 4]
