"""Newton's method for the new state of a step of `ddm`, to rounding.

It goes on with an old factorisation as long as that contracts fast enough, so that the solution depends on the
steps only, not on how it was found.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from odefit.integrate.balance import note_noise
from odefit.integrate.ddm_room import ITERATIONS, RATE, SHIFT
from odefit.integrate.stepping import JACOBIAN, RHS, first_nonfinite
from odefit.native.finite import all_finite
from odefit.native.kernel import kernel
from odefit.native.linear_systems import FACTORISED, GROWN, factorise_matrix, solve_for_vector

CONVERGED, SLOW, NOT_FINITE, TOO_LARGE = 0, 1, 2, 3
"""How it ends; `TOO_LARGE`: entries grew in the elimination, which needs another order."""
_EPS = float(np.finfo(float).eps)
_MOST_ITERATIONS, _MOST_MATRICES = 40, 4
_FLOOR = 1e-9  # of the absolute tolerance of a state: corrections below are rounding too
_ROUNDING = 1e3  # corrections below this many roundings that no longer shrink are rounding


@kernel(inline=True)
def _corrections(delta, relax, y, new, old, atol, noise):
    """Add the corrections to the state; return the largest in units of rounding, and whose it is (inf: not finite)."""
    size, worst = 0.0, 0
    for i in range(atol.size):
        d = relax * delta[i]
        y[new, i] += d
        if not math.isfinite(y[new, i]):
            return np.inf, i
        if d != 0.0:
            unit = _EPS * max(abs(y[new, i]), abs(y[old, i])) + _FLOOR * atol[i]
            part = abs(d) / (unit + noise[i] if noise.size > 0 else unit)
            if part > size:
                size, worst = part, i
    return size, worst


@kernel(inline=True)
def leave_out_nonfinite(jac):
    """Set derivatives that do not exist to zero: they only help to find the state, which may exist without them."""
    for g in range(jac.size):
        if not math.isfinite(jac[g]):
            jac[g] = 0.0


@kernel(inline=True)
def _is_small(delta, y, row, n, rtol, atol):
    """Tell whether corrections are far below the tolerance."""
    for i in range(n):
        if not abs(delta[i]) <= 1e-4 * (abs(atol[i]) + rtol * abs(y[row, i])):
            return False
    return True


def newton_of(matrix: Any, residual: Any, *, balanced: bool) -> Any:
    """Return the kernel ``newton_step(task, e, room, t, fresh)`` of a form of equations, see `ddm_forms.Form`.

    `balanced`: equations in several derivatives, whose rounding errors count.
    It solves for the new state, from the prediction `start`; `fresh` if the matrix is to be factorised first.  The
    shift of the matrix now in `a`, how fast it contracted and the iterations are noted in the room.  It returns how it
    ended, and the state to blame.
    """

    @kernel(inline=True)
    def newton(task, e, room, t, fresh, patience):
        n, y, c0, jac, delta = task.n, room.y, room.c[0], room.jac, room.delta
        new, old, shift = room.slot[0], room.slot[1], room.memory[SHIFT]
        worst, matrices, iterations = 0, 0, 0
        rate, old_size, divided = 0.0, np.inf, fresh
        for i in range(n):
            y[new, i] = room.start[i]
        while iterations < _MOST_ITERATIONS:
            if divided:
                own_shift = matrix(task, e, room, t, c0)
                if not all_finite(jac):
                    leave_out_nonfinite(jac)
                outcome = factorise_matrix(e, jac, own_shift, n, room.a, room.pivots, room.work, e.limit)
                shift = c0
                matrices += 1
                if outcome != FACTORISED:
                    grown = (outcome == GROWN or e.algebraic.size > 0) and e.limit < np.inf
                    return (TOO_LARGE if grown else SLOW), worst, 0.0, rate, iterations, matrices
                divided, old_size = False, np.inf
                if balanced:
                    note_noise(task, e, room, y, new)
            residual(task, room, t, c0)
            iterations += 1
            solve_for_vector(e, n, room.a, room.pivots, room.work, delta)
            size, worst = _corrections(delta, 2.0 * shift / (shift + c0), y, new, old, task.atol, room.balance.noise)
            if size <= 1.0:
                return CONVERGED, worst, shift, rate, iterations, matrices
            rate = size / old_size
            old_size = size
            if not math.isfinite(size) or (rate >= 2.0 and size > _ROUNDING):
                if matrices > 0:
                    bad = first_nonfinite(room.f, 0, n)  # the solution spreads what one equation has spoilt
                    worst = worst if bad < 0 else bad
                    return (SLOW if math.isfinite(size) else NOT_FINITE), worst, 0.0, rate, iterations, matrices
                for i in range(n):
                    y[new, i] = room.start[i]
                divided = True
            elif rate > 0.0:
                noise = size < _ROUNDING and rate > (0.9 if matrices == 0 else 0.5)  # an old matrix may just be slow
                if size * rate <= 1.0 - rate or noise:
                    return CONVERGED, worst, shift, rate, iterations, matrices
                if rate > 0.9 or math.log(size) > -math.log(rate) * (patience - iterations):
                    divided = matrices < _MOST_MATRICES
                    if rate > 0.9 and not divided:
                        break
        # a limit of rounding that is far above that of a number
        small = _is_small(delta, y, new, n, task.rtol, task.atol)
        return (CONVERGED if small else SLOW), worst, shift if small else 0.0, rate, iterations, matrices

    @kernel(inline=True)
    def newton_step(task, e, room, t, fresh):
        memory = room.memory
        patience = min(4.0 + 0.5 * e.patience, 14.0)
        outcome, worst, shift, rate, iterations, matrices = newton(task, e, room, t, fresh, patience)
        task.counts[RHS] += iterations
        task.counts[JACOBIAN] += matrices
        memory[SHIFT], memory[RATE], room.state[ITERATIONS] = shift, rate, iterations
        return outcome, worst

    return newton_step
