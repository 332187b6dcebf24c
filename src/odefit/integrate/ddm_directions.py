"""Sensitivities of a step of `ddm`: linear equations with the matrix of the step at the new state.

Nothing here can raise, and all of it is inlined: otherwise numba would count references to every array in each step,
which took longer than to solve for four directions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from odefit.integrate.ddm_newton import TOO_LARGE
from odefit.integrate.ddm_room import RATE, SHIFT, WORST
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
)

SOLVED, UNSOLVED = 0, 1
"""How it ends, or `TOO_LARGE`."""
_EPS = float(np.finfo(float).eps)
_FAST = 0.3  # contraction of Newton's method, below which its matrix may serve for refinement


@kernel(inline=True)
def slopes_at_start(task, e, room, t):
    """Set `slopes` to the derivative of the rates in all directions; return the state to blame, or -1."""
    n, r, last = task.n, room.r, room.slot[1]
    call_model(task.jacobian, t, room.y, last * n, task.p, task.u, room.jac, 0)
    for i in range(r.shape[1]):
        r[0, i] = 0.0
    add_product(e, room.jac, n, room.s, last, room.seeds, r)
    bad = first_nonfinite(r, 0, r.shape[1]) // 4
    for i in range(r.shape[1]):
        room.slopes[0, i] = r[0, i]
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
def _refine_directions(task, e, room, passes):
    """Solve for the new directions with an old factorisation, by refinement; tell whether rounding was reached."""
    n, s, r, c0, shift = task.n, room.s, room.r, room.c[0], room.memory[SHIFT]
    relax, size = 2.0 * shift / (shift + c0), r.shape[1]
    rows, coefficients = registers_of(room.slot, room.c)
    rows, weights = registers_of(room.slot, room.w)
    new, old = rows[0], rows[1]
    for i in range(size):
        s[new, i] = s[old, i] + past_point(s, rows, weights, i)
    old_largest = np.inf
    for _ in range(passes):
        for i in range(size):
            r[0, i] = -past_point(s, rows, coefficients, i) - c0 * (s[new, i] - s[old, i])
        add_product(e, room.jac, n, s, new, room.seeds, r)
        solve_blocks(e, n, room.a, room.pivots, room.work, r, 0)
        largest = 0.0
        for block in range(room.seeds.shape[0]):
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


def directions_of(form: Any) -> Any:
    """Return the kernel ``directions_of_step(task, e, room, t)`` of a form of equations.

    It solves for the sensitivities of a step whose state is found; it returns how it ended, and the state to blame.
    """
    matrix, first, second, refines = form.matrix, form.first, form.second, form.refines

    @kernel(inline=True)
    def directions_of_step(task, e, room, t):
        n, slot = task.n, room.slot
        shift = matrix(task, e, room, t, room.c[0])
        bad = _nonfinite_row(e, room.jac, n)
        if bad >= 0:
            return UNSOLVED, bad
        n_pairs = room.r2.shape[1]
        passes = 0
        if refines and n_pairs == 0:
            passes = _refinement_passes(room.memory[RATE], e.patience, room.seeds.shape[0])
        solved, finite = False, False
        if passes > 0:
            solved = _refine_directions(task, e, room, passes)
            finite = row_is_finite(room.s, slot[0])
        if not solved:
            outcome = factorise_matrix(e, room.jac, shift, n, room.a1, room.pivots1, room.work, e.limit)
            if outcome != FACTORISED:
                grown = (outcome == GROWN or e.algebraic.size > 0) and e.limit < np.inf
                return (TOO_LARGE if grown else UNSOLVED), room.state[WORST]
            finite = first(task, e, room)
        if not finite:
            return UNSOLVED, first_nonfinite(room.s, slot[0], room.r.shape[1]) // 4 % n
        if n_pairs > 0 and not second(task, e, room, t):
            return UNSOLVED, first_nonfinite(room.s2, slot[0], n_pairs) // 4 % n
        return SOLVED, -1

    return directions_of_step
