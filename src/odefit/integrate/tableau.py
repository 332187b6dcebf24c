"""Coefficients of an explicit Runge-Kutta method, and nothing else: `schemes` makes its kernels from them.

A step of length h from y computes the slopes

    k_s = f(t + c_s h, y + h sum_j a_sj k_j),    j < s,

and the new value is the argument of the last one, "first same as last": row `n_stages` - 1 of `A` holds the weights b
of the solution, and the slope there is the first one of the next step.  Any method can be written so: one that does not
have this property gets a row with its weights, and the evaluation it costs is the first one of the next step.
Stages behind it serve the continuous extension alone

    y(t + x h) = y + h sum_s w_s(x) k_s .

Its weights are polynomials, written with r = 1 - x as

    w_s(x) = x (d_0s + r (d_1s + x (d_2s + r (d_3s + x (d_4s + ...))))) .

Every polynomial that vanishes at 0 has this form.  The first three coefficients alone are Hermite's cubic (see
`hermite`), and those behind them change neither values nor slopes at the ends of a step.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from odefit.integrate.contract import Array


class Tableau(NamedTuple):
    """An explicit Runge-Kutta method with error estimate and continuous extension; see the module for the formulas.

    Attributes
    ----------
    name
        Of the method.
    c, A
        Nodes (stages,) and coefficients (stages, stages) below the diagonal.
    n_stages
        How many stages make a step; the last one of them stands at the new value.
    error
        Weights (stages,) of the slopes in the estimate e of the error of a step.
    dense
        Coefficients d (degree, stages) of the continuous extension.
    order, dense_order
        Of the solution at the ends of steps, and of the continuous extension.
    error_order
        The power of h that the error estimate goes with.
    beta, grow_most, smallest_ratio, stiff_from
        Of step-size control, see `Scheme`.
    error_low
        Weights of a second estimate e' of lower order, as Hairer's 8(5,3) has one: the error is then
        e^2 / sqrt(e^2 + 0.01 e'^2).
    """

    name: str
    c: Array
    A: Array
    n_stages: int
    error: Array
    dense: Array
    order: int
    dense_order: int
    error_order: int
    beta: float = 0.0
    grow_most: float = 5.0
    smallest_ratio: float = 1e-4
    stiff_from: float = np.inf
    error_low: Array | None = None


def rows(entries: dict[int, dict[int, float]], n_rows: int, n_stages: int) -> Array:
    """Return the matrix (n_rows, n_stages) with these entries, zero elsewhere."""
    full = np.zeros((n_rows, n_stages))
    for i, row in entries.items():
        full[i, list(row)] = list(row.values())
    return full


def hermite(b: Array, last: int) -> Array:
    """Return the three rows of the cubic with the values and slopes of a solution with weights `b` at both ends."""
    first, final = np.eye(b.size)[0], np.eye(b.size)[last]
    return np.stack([b, first - b, 2.0 * b - first - final])


def from_powers(powers: Array) -> Array:
    """Return the coefficients d of the polynomials ``sum_i powers[i] x^(i+1)``, one a column, (degree, stages).

    Of the polynomial q left in ``w = x (d_0 + r (d_1 + x (d_2 + ...)))``, d is the value at 1 where r comes next, and
    the value at 0 where x does; what is left is divided by that factor.  Exact until the last rounding.
    """
    left = [[Fraction(float(a)) for a in column] for column in powers.T]
    dense = np.zeros(powers.shape)
    for i in range(powers.shape[0]):
        for s, q in enumerate(left):
            if i % 2 == 0:  # q = d + r * rest: divide q - d by x - 1 and change the sign
                d = sum(q, Fraction(0))
                rest = [-sum(q[j + 1 :], Fraction(0)) for j in range(len(q) - 1)]
            else:  # q = d + x * rest
                d, rest = q[0], q[1:]
            dense[i, s] = d
            left[s] = rest
    return dense
