"""Coefficients of extrapolation in the step size, for the harmonic sequence 1, 2, 3, ..

A step of length H is taken with n_j = j equal small steps for j = 1, 2, .., k (*row* j).  Let d_i^j, i < j, be the
increments of the states in row j, and x_j their sum: T_j1 = y0 + x_j.  Where x_j has an expansion in powers of H/n_j,
the Aitken-Neville scheme

    T_jm = T_j,m-1 + (T_j,m-1 - T_j-1,m-1)/(n_j/n_{j-m+1} - 1)

eliminates m - 1 of these powers.  It is linear, and T_jj - y0 = sum_i w_i x_i, where the weights of the nodes n_1..n_j,

    w_i = prod_{l != i} n_i/(n_i - n_l),

are those of the polynomial through them at step size zero; so are those of T_j,j-1, for the nodes n_2..n_j.  T_j,j-1 is
of order j - 1, and T_jj - T_j,j-1 the estimate of its error.  T_10 is y0.

**Between the ends** (E. Hairer and A. Ostermann, Numer. Math. 58 (1990) 419-439): backward differences at the end of
row j, n_j^l times the difference of order l - 1 of its increments, tend to the derivatives H^l y^(l) there with an
expansion in the same powers, and exist in rows j >= l.  They are extrapolated over the rows l+1..k: with row l, which
has the first increment in it, components that are stiff would be off by a thousandfold (on Robertson's reactions with
k = 7: 2e-5 instead of 2e-8; their lambda is 1).  The polynomial of degree k with these derivatives for l = 1..k-1 and
with the values T_kk and y0 at both ends is off by O(H^k) in the whole step, as T_k,k-1 is, whose error is estimated.
It is linear in the increments:

    P(theta) = y0 + sum_j sum_i b_ji(theta) d_i^j,       b_ji a polynomial of degree k.

A component that leaves a fast course within the step, which ends on the slow one, has no such derivatives, and P
cannot follow it.  The coefficient of (theta - 1)^k tells: it is what y0 is off the Taylor polynomial at the end,
H^k y^(k)/k! if the solution is smooth.  A fourth of it takes part in the error test, which keeps the error between the
ends within six times the tolerance (measured on four stiff problems at rtol 1e-4 to 1e-8; without it within two hundred
times).

With the harmonic sequence no increment gets more weight between the ends than at the end, and where all rows begin with
the same jump (a component far stiffer than the step is long) P has it just once: no order amplifies it.  But
rounding errors of the x_j grow with the weights, whose absolute values sum to 92, 302, 1007 and 3392 for k = 5, .., 8,
and to 11506 for k = 9: no higher order than 8 is used.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb, factorial, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from odefit.native.kernel import kernel

MOST_ROWS = 8
"""Rows of the largest scheme, and its order."""


def n_increments(k: int) -> int:
    """Return how many increments the rows 1..k have together."""
    return k * (k + 1) // 2


def node_weights(nodes: range) -> list[Fraction]:
    """Return the weights that extrapolate what is given for these numbers of small steps to step size zero."""
    return [prod((Fraction(a, a - b) for b in nodes if b != a), start=Fraction(1)) for a in nodes]


def end_weights(k: int) -> list[Fraction]:
    """Return the weights of x_1..x_k in T_kk - y0."""
    return node_weights(range(1, k + 1))


def error_weights(k: int) -> list[Fraction]:
    """Return the weights of x_1..x_k in T_kk - T_k,k-1."""
    lower = [Fraction(0), *node_weights(range(2, k + 1))] if k > 1 else [Fraction(0)]
    return [a - b for a, b in zip(end_weights(k), lower, strict=True)]


def dense_coefficients(k: int) -> list[list[Fraction]]:
    """Return the coefficients of all b_ji of order `k` by powers 0..k of theta - 1, increments row by row."""
    found = [[Fraction(0)] * n_increments(k) for _ in range(k + 1)]
    for j, weight in enumerate(end_weights(k), start=1):
        for i in range(j):
            found[0][n_increments(j - 1) + i] = weight
    for power in range(1, k):
        rows = range(power + 1, k + 1)
        for j, weight in zip(rows, node_weights(rows), strict=True):
            for m in range(power):
                difference = (-1) ** m * comb(power - 1, m)
                place = n_increments(j) - 1 - m
                found[power][place] = weight * j**power * difference / factorial(power)
    for place in range(n_increments(k)):  # y0 at theta = 0
        found[k][place] = -((-1) ** k) * sum((-1) ** power * found[power][place] for power in range(k))
    return found


def _square(rows: list[list[Fraction]]) -> npt.NDArray[np.float64]:
    table = np.zeros((len(rows), len(rows)))
    for j, row in enumerate(rows):
        table[j, : len(row)] = [float(value) for value in row]
    return table


END = _square([end_weights(k) for k in range(1, MOST_ROWS + 1)])
"""Weights of x_1..x_k in T_kk - y0, in row k - 1."""
ERROR = _square([error_weights(k) for k in range(1, MOST_ROWS + 1)])
"""Weights of x_1..x_k in T_kk - T_k,k-1, in row k - 1."""
_DENSE = np.concatenate(
    [[float(value) for row in dense_coefficients(k) for value in row] for k in range(1, MOST_ROWS + 1)]
)
_FIRST = np.cumsum([0, *((k + 1) * n_increments(k) for k in range(1, MOST_ROWS + 1))])


@kernel(inline=True)
def increments_before(j):
    """Return how many increments stand before those of row `j`."""
    return j * (j - 1) // 2


@kernel(inline=True)
def dense_weights(k, theta, derivative, out: Any):
    """Fill the b_ji of order `k` at `theta`, or their first or second derivative."""
    size, first, x = increments_before(k + 1), _FIRST[k - 1], theta - 1.0
    for a in range(size):
        value, slope, bend = 0.0, 0.0, 0.0
        for power in range(k, -1, -1):
            bend = bend * x + 2.0 * slope
            slope = slope * x + value
            value = value * x + _DENSE[first + power * size + a]
        out[a] = value if derivative == 0 else (slope if derivative == 1 else bend)


@kernel(inline=True)
def highest_coefficient(k, increments, out):
    """Set `out` to the coefficient of (theta - 1)^k in P, of each state."""
    size, first = increments_before(k + 1), _FIRST[k - 1]
    for i in range(out.size):
        out[i] = 0.0
    for a in range(size):
        weight = _DENSE[first + k * size + a]
        for i in range(out.size):
            out[i] += weight * increments[a, i]
