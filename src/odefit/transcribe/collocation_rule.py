"""The collocation method: Radau IIA with three points, of order 5.

In an element [a, a + h] the states are polynomials of degree 3 that begin with the state at a and satisfy the equations
at a + c_i h, where c are the zeros of d^2/ds^2 [s^2 (s - 1)^3],

    c = ((4 - sqrt 6)/10, (4 + sqrt 6)/10, 1).

The last point is the end of the element: its state is the one with which the next element begins.  Errors at the ends
are O(h^5) and those in between O(h^4); stiff components are damped out.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

POINTS: Array = np.array([(4.0 - math.sqrt(6.0)) / 10.0, (4.0 + math.sqrt(6.0)) / 10.0, 1.0])
"""Where the equations hold, as fractions of an element."""
N_POINTS = POINTS.size
NODES: Array = np.append(0.0, POINTS)
"""Where a polynomial is given: at the beginning, and at the points."""
TESTS: Array = np.array([0.5 * POINTS[0], 0.5 * (POINTS[0] + POINTS[1]), 0.5 * (POINTS[1] + POINTS[2])])
"""Where it is tested how well the equations hold in between."""


def lagrange(nodes: Array, s: float) -> Array:
    """Return the values at `s` of the polynomials that are 1 at one of the nodes and 0 at the others."""
    result = np.ones(nodes.size)
    for j, node in enumerate(nodes):
        others = np.delete(nodes, j)
        result[j] = np.prod((s - others) / (node - others))
    return result


def lagrange_slopes(nodes: Array, s: float) -> Array:
    """Return the derivatives of these polynomials at `s`."""
    result = np.zeros(nodes.size)
    for j, node in enumerate(nodes):
        others = np.delete(nodes, j)
        for k in range(others.size):
            rest = np.delete(others, k)
            result[j] += np.prod((s - rest) / (node - rest)) / (node - others[k])
    return result


VALUES_OF_TESTS: Array = np.array([lagrange(NODES, s) for s in TESTS])
SLOPES: Array = np.array([lagrange_slopes(NODES, s) for s in POINTS])
"""Derivatives by the fraction of the element at each point (3,) from the values at the nodes (4,)."""
SLOPES_OF_TESTS: Array = np.array([lagrange_slopes(NODES, s) for s in TESTS])
BETWEEN_POINTS: Array = np.array([lagrange(POINTS, s) for s in TESTS])
"""Values at the tests of what is given at the points only."""
