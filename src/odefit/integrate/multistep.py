"""Coefficients of backward differentiation formulas on any grid, and sums over past values.

With psi_j = t_n - t_{n-j} let w_1..w_m be the weights that extrapolate the polynomial through the m past values to
t_n.  Everything follows from them:

* the predictor of order k uses m = k + 1;
* the derivative at t_n of the polynomial through t_n, .., t_{n-k} is ``sum_j c_j y_{n-j}`` with
  ``c_0 = sum_j 1/psi_j`` and ``c_j = -w_j/psi_j``, where m = k;
* ``y_n - sum_j w_j y_{n-j}`` is the divided difference of order m times ``psi_1 .. psi_m``, so that the local error
  of the formula of order k is ``(y_n - sum_j w_j y_{n-j})/(psi_{k+1} c_0)`` with m = k + 1.

All these weights sum to 1 (or 0 with c_0), and sums are taken over differences from ``y_{n-1}``: a constant stays
what it is, to the last bit.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.integrate.stepping import tolerance
from odefit.native.kernel import kernel

MAX_ORDER = 5
_LEAST_WEIGHT = 16.0 * float(np.finfo(float).eps)  # an error below it cannot be told from rounding


@kernel(inline=True)
def add_node(psi, m, w):
    """Turn the weights of nodes 1..m-1 into those of nodes 1..m."""
    new = 1.0
    for j in range(1, m):
        r = 1.0 / (psi[m] - psi[j])
        w[j] *= psi[m] * r
        new *= -psi[j] * r
    w[m] = new


@kernel(inline=True)
def inverse_sum(psi, m):
    """Return c_0 of the formula of order `m`."""
    total = 0.0
    for j in range(1, m + 1):
        total += 1.0 / psi[j]
    return total


@kernel(inline=True)
def bdf_formula(psi, k, w, c):
    """Fill the weights `w` of k nodes and the coefficients `c` of the formula of order `k`; further ones are zero."""
    for j in range(1, MAX_ORDER + 2):
        w[j] = c[j] = 0.0
    c[0] = inverse_sum(psi, k)
    for j in range(1, k + 1):
        add_node(psi, j, w)
    for j in range(1, k + 1):
        c[j] = -w[j] / psi[j]


@kernel(inline=True)
def registers_of(slot, w):
    """Return rows and weights as numbers, which a loop keeps in registers (from arrays it would read them again)."""
    return (slot[0], slot[1], slot[2], slot[3], slot[4], slot[5], slot[6]), (w[1], w[2], w[3], w[4], w[5], w[6])


@kernel(inline=True)
def past_point(values, rows, w, i):
    """Return ``sum_{j>=2} w_j (y_{n-j} - y_{n-1})`` of entry `i`.

    Written out, with zero weights where there are fewer nodes: one pass over memory, and no loops within a loop.
    """
    last = values[rows[1], i]
    return (
        w[1] * (values[rows[2], i] - last) + w[2] * (values[rows[3], i] - last) + w[3] * (values[rows[4], i] - last)
        + w[4] * (values[rows[5], i] - last) + w[5] * (values[rows[6], i] - last)
    )  # fmt: skip


@kernel(inline=True)
def ratio_of_error(values, slot, w, size, scale, rtol, atol, lanes, power):
    """Return the largest local error over tolerance (inf if one is not finite), and the entry it belongs to.

    Entries belong to the states in turn, `lanes` of them to one state after the other.
    """
    rows, weights = registers_of(slot, w)
    new, old = rows[0], rows[1]
    ratio, cause = -1.0, 0
    for i in range(size):
        error = scale * abs((values[new, i] - values[old, i]) - past_point(values, rows, weights, i))
        absolute = atol[i] if lanes == 1 else atol[i // lanes % atol.size]
        weight = tolerance(absolute, rtol, values[old, i], values[new, i])
        part = error / (weight if power == 1.0 else max(weight**power, _LEAST_WEIGHT * abs(values[old, i])))
        if math.isnan(part):
            return np.inf, i
        if part > ratio:
            ratio, cause = part, i
    return ratio, cause


@kernel(inline=True)
def weights_at(psi, k, x, w):
    """Fill w_1..w_k for the polynomial through t_n, .., t_{n-k} at t_n + x; further ones are zero."""
    for j in range(1, MAX_ORDER + 1):
        w[j] = 0.0
    for j in range(1, k + 1):
        product = -x / psi[j]
        for m in range(1, k + 1):
            if m != j:
                product *= (x + psi[m]) / (psi[m] - psi[j])
        w[j] = product


@kernel(inline=True)
def weight_slopes_at(psi, k, x, derivative, w):
    """Fill the first or second derivatives of these weights by x."""
    for j in range(1, MAX_ORDER + 1):
        w[j] = 0.0
    for j in range(1, k + 1):
        value, slope, bend = -x / psi[j], -1.0 / psi[j], 0.0
        for m in range(1, k + 1):
            if m != j:
                rate = 1.0 / (psi[m] - psi[j])
                factor = (x + psi[m]) * rate
                bend = bend * factor + 2.0 * slope * rate
                slope = slope * factor + value * rate
                value *= factor
        w[j] = slope if derivative == 1 else bend


@kernel(inline=True)
def interpolated_slope(values, rows, w, i):
    """Return a derivative of entry `i` of the interpolating polynomial, with the derivatives of its weights."""
    new = values[rows[0], i]
    return (
        w[0] * (values[rows[1], i] - new) + w[1] * (values[rows[2], i] - new)
        + w[2] * (values[rows[3], i] - new) + w[3] * (values[rows[4], i] - new) + w[4] * (values[rows[5], i] - new)
    )  # fmt: skip


@kernel(inline=True)
def interpolated_value(values, rows, w, i):
    """Return entry `i` of the interpolating polynomial with these weights."""
    new = values[rows[0], i]
    return (
        new + w[0] * (values[rows[1], i] - new) + w[1] * (values[rows[2], i] - new)
        + w[2] * (values[rows[3], i] - new) + w[3] * (values[rows[4], i] - new) + w[4] * (values[rows[5], i] - new)
    )  # fmt: skip
