"""Sensitivities of a step of `ddm`: linear equations with the matrix c_0 I - f_y at the new state.

Of the directions of one order kernels need ``s, s_flat, seeds, r, r_flat``: sensitivities (depth, blocks, n, 4), seeds
in the parameters, a right-hand side, and the same memory flat.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.integrate.ddm_newton import TOO_LARGE
from odefit.integrate.directions import add_second
from odefit.integrate.multistep import past_point, registers_of
from odefit.integrate.stepping import first_nonfinite
from odefit.native.calls import call_model
from odefit.native.finite import all_finite, row_is_finite
from odefit.native.kernel import kernel
from odefit.native.linear_systems import (
    FACTORISED,
    GROWN,
    add_product,
    factorise_matrix,
    solve_blocks,
    step_directions,
)

SOLVED, UNSOLVED = 0, 1
"""How it ends, or `TOO_LARGE`."""
_EPS = float(np.finfo(float).eps)
_FAST = 0.3  # contraction of Newton's method, below which its matrix may serve for refinement


@kernel(inline=True)
def slopes_at_start(jacobian, e, t, y, p, u, n, jac, slot, s, seeds, r, r_flat, slopes):
    """Set `slopes` to the derivative of the rates in all directions; return the state to blame, or -1."""
    call_model(jacobian, t, y, slot[1] * n, p, u, jac, 0)
    for i in range(r_flat.size):
        r_flat[i] = 0.0
    add_product(e, jac, n, s, slot[1], seeds, r)
    bad = first_nonfinite(r.reshape(1, r_flat.size), 0, r_flat.size) // 4
    for i in range(r_flat.size):
        slopes[i] = r_flat[i]
    return bad % n if bad >= 0 else -1


@kernel(inline=True)
def _refine_directions(
    e, jac, n, c, w, relax, passes, a, pivots, work, slot, s, s_flat, seeds, r, r_flat
):  # fmt: skip
    """Solve for ``s[slot[0]]`` with an old factorisation, by refinement to rounding; tell whether it was reached.

    What counts as rounding is told for each entry, but not below a thousandth of that of the largest in its direction.
    """
    rows, coefficients = registers_of(slot, c)
    rows, weights = registers_of(slot, w)
    new, old = rows[0], rows[1]
    c0, size = c[0], r_flat.size
    r_row = r.reshape(1, size)
    for i in range(size):
        s_flat[new, i] = s_flat[old, i] + past_point(s_flat, rows, weights, i)
    old_largest = np.inf
    for _ in range(passes):
        for i in range(size):
            r_flat[i] = -past_point(s_flat, rows, coefficients, i) - c0 * (s_flat[new, i] - s_flat[old, i])
        add_product(e, jac, n, s, new, seeds, r)
        solve_blocks(e, n, a, pivots, work, r_row, 0)
        largest = 0.0
        for b in range(r.shape[0]):
            for lane in range(4):
                top = 0.0
                for i in range(n):
                    s[new, b, i, lane] += relax * r[b, i, lane]
                    top = max(top, abs(s[new, b, i, lane]))
                for i in range(n):
                    limit = _EPS * (max(abs(s[new, b, i, lane]), abs(s[old, b, i, lane])) + 1e-3 * top)
                    if not abs(r[b, i, lane]) <= limit * largest:
                        largest = abs(r[b, i, lane]) / limit
        rate = largest / old_largest
        old_largest = largest
        if largest <= 1.0 or (0.0 < rate < 0.5 and largest * rate <= 1.0 - rate):
            return True
        if not rate <= 0.5:
            return False
    return False


@kernel(inline=True)
def _nonfinite_row(e, jac, n):
    """Return the last state whose derivatives are not all finite, or -1."""
    bad = -1
    if not all_finite(jac):
        for i in range(n):
            for g in range(e.row_ptr[i], e.row_ptr[i + 1]):
                if not math.isfinite(jac[g]):
                    bad = i
    return bad


@kernel(inline=True)
def _refinement_passes(rate, cost, n_blocks):
    """Return how many passes of refinement to try with the matrix of the state; 0 where factorising is cheaper."""
    if rate >= _FAST:
        return 0
    passes = 2 + int(27.0 / max(1.0, -math.log(max(rate, 1e-10))))
    return passes if passes * (1.0 + 2.0 * n_blocks) < cost else 0


@kernel(inline=True)
def directions_of_step(
    functions, e, cost, limit, t, y, p, u, n, q, c, w, slot, rate, shift, worst, jac, a, pivots, a1, pivots1,
    work, s1, s1_flat, p1, seeds1, r1, r1_flat, s2_flat, seeds2, r2, r2_flat, v1, v2, v3,
):  # fmt: skip
    """Solve for the sensitivities of a step whose state is found.

    Parameters
    ----------
    rate, shift, a, pivots
        How fast Newton's method contracted, and the shift and factors of its matrix.
    worst
        The state to blame if the matrix is singular.
    a1, pivots1
        Room for the factors of a matrix of their own.
    s1, .., seeds1, r1
        Directions of first order, products with their seeds (see `step_directions`), and work.
    s2_flat, seeds2, r2, v1, ..
        Directions of second order, if there are any, and work for the second derivatives of the rates, `r2` of shape
        (1, blocks, n, 4).

    Returns
    -------
    outcome, cause
    """
    _, jacobian, second = functions
    call_model(jacobian, t, y, slot[0] * n, p, u, jac, 0)
    bad = _nonfinite_row(e, jac, n)
    if bad >= 0:
        return UNSOLVED, bad
    n_pairs = r2_flat.size
    passes = 0 if n_pairs > 0 else _refinement_passes(rate, cost, r1.shape[0])
    solved = False
    if passes > 0:
        relax = 2.0 * shift / (shift + c[0])
        solved = _refine_directions(e, jac, n, c, w, relax, passes, a, pivots, work, slot, s1, s1_flat, p1, r1, r1_flat)
        finite = row_is_finite(s1_flat, slot[0])
    if not solved:
        outcome = factorise_matrix(e, jac, c[0], n, a1, pivots1, work, limit)
        if outcome != FACTORISED:
            return (TOO_LARGE if outcome == GROWN and limit < np.inf else UNSOLVED), worst
        finite = step_directions(e, jac, n, slot, c, a1, pivots1, work, s1_flat, seeds1, r2_flat[:0])
    if not finite:
        return UNSOLVED, first_nonfinite(s1_flat, slot[0], s1_flat.shape[1]) // 4 % n
    if n_pairs > 0:
        for i in range(n_pairs):
            r2_flat[i] = 0.0
        add_second(second, t, y, slot[0] * n, p, u, s1[slot[0]], p1, n, q, v1, v2, v3, r2, 0)
        if not step_directions(e, jac, n, slot, c, a1, pivots1, work, s2_flat, seeds2, r2_flat):
            return UNSOLVED, first_nonfinite(s2_flat, slot[0], n_pairs) // 4 % n
    return SOLVED, -1
