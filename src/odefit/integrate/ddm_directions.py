"""Sensitivities of a step of `ddm`: linear equations with the matrix c_0 I - f_y at the new state.

Directions are kept in blocks (n, 4), one after the other in the rows of `s`, and in the single row of a right-hand
side `r`.  Nothing here can raise, and all of it is inlined: otherwise numba would count references to every array in
each step, which took longer than to solve for four directions.
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
def slopes_at_start(jacobian, e, t, y, p, u, n, jac, slot, s, seeds, r, slopes):
    """Set `slopes` to the derivative of the rates in all directions; return the state to blame, or -1."""
    call_model(jacobian, t, y, slot[1] * n, p, u, jac, 0)
    size = r.shape[1]
    for i in range(size):
        r[0, i] = 0.0
    add_product(e, jac, n, s, slot[1], seeds, r)
    for i in range(size):
        slopes[i] = r[0, i]
    bad = first_nonfinite(r, 0, size) // 4
    return bad % n if bad >= 0 else -1


@kernel(inline=True)
def _rounding_left(n, block, s, new, old, r, relax, largest):
    """Correct a block; return the largest correction in units of rounding, or `largest` if that is more.

    What counts as rounding is told for each entry, but not below a thousandth of that of the largest in its direction.
    """
    for lane in range(4):
        begin, end = block * 4 * n + lane, (block + 1) * 4 * n
        top = 0.0
        for i in range(begin, end, 4):
            s[new, i] += relax * r[0, i]
            top = max(top, abs(s[new, i]))
        for i in range(begin, end, 4):
            limit = _EPS * (max(abs(s[new, i]), abs(s[old, i])) + 1e-3 * top)
            if not abs(r[0, i]) <= limit * largest:
                largest = abs(r[0, i]) / limit
    return largest


@kernel(inline=True)
def _refine_directions(e, jac, n, c, w, relax, passes, a, pivots, work, slot, s, seeds, r):
    """Solve for ``s[slot[0]]`` with an old factorisation, by refinement to rounding; tell whether it was reached."""
    rows, coefficients = registers_of(slot, c)
    rows, weights = registers_of(slot, w)
    new, old = rows[0], rows[1]
    c0, size = c[0], r.shape[1]
    for i in range(size):
        s[new, i] = s[old, i] + past_point(s, rows, weights, i)
    old_largest = np.inf
    for _ in range(passes):
        for i in range(size):
            r[0, i] = -past_point(s, rows, coefficients, i) - c0 * (s[new, i] - s[old, i])
        add_product(e, jac, n, s, new, seeds, r)
        solve_blocks(e, n, a, pivots, work, r, 0)
        largest = 0.0
        for block in range(seeds.shape[0]):
            largest = _rounding_left(n, block, s, new, old, r, relax, largest)
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
    work, s1, z1, p1, seeds1, r1, s2, seeds2, d2, d2_flat, v1, v2, v3,
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
    s1, z1, p1, seeds1, r1
        Directions of first order, also as (depth, blocks, n, 4); their seeds, products with these (see
        `step_directions`), and work.
    s2, seeds2, d2, ..
        Directions of second order, if there are any, and room for the second derivatives of the rates, `d2` of
        shape (1, blocks, n, 4).

    Returns
    -------
    outcome, cause
    """
    _, jacobian, second = functions
    call_model(jacobian, t, y, slot[0] * n, p, u, jac, 0)
    bad = _nonfinite_row(e, jac, n)
    if bad >= 0:
        return UNSOLVED, bad
    n_pairs = d2_flat.size
    passes = 0 if n_pairs > 0 else _refinement_passes(rate, cost, p1.shape[0])
    solved, finite = False, False
    if passes > 0:
        relax = 2.0 * shift / (shift + c[0])
        solved = _refine_directions(e, jac, n, c, w, relax, passes, a, pivots, work, slot, s1, p1, r1)
        finite = row_is_finite(s1, slot[0])
    if not solved:
        outcome = factorise_matrix(e, jac, c[0], n, a1, pivots1, work, limit)
        if outcome != FACTORISED:
            return (TOO_LARGE if outcome == GROWN and limit < np.inf else UNSOLVED), worst
        finite = step_directions(e, jac, n, slot, c, a1, pivots1, work, s1, seeds1, d2_flat, False)
    if not finite:
        return UNSOLVED, first_nonfinite(s1, slot[0], s1.shape[1]) // 4 % n
    if n_pairs > 0:
        for i in range(n_pairs):
            d2_flat[i] = 0.0
        add_second(second, t, y, slot[0] * n, p, u, z1[slot[0]], p1, n, q, v1, v2, v3, d2, 0)
        if not step_directions(e, jac, n, slot, c, a1, pivots1, work, s2, seeds2, d2_flat, True):
            return UNSOLVED, first_nonfinite(s2, slot[0], n_pairs) // 4 % n
    return SOLVED, -1
