"""Solves a small system of equations G(x, w) = 0 for x, where w are numbers that change from call to call.

**Newton's method.**  With the inverse A = G_x^{-1} at the present point, corrections are ``dx = -A G``.  They are made
until they are as small as rounding, or no longer become smaller at the size of rounding, so that where one came from
is forgotten: the same w give the same x up to the last bits.  Each correction must be at most half as long as the one
before (measured componentwise, relative to x), which is more than convergence needs: the iteration is to be near the
solution it goes to.  On the way from a solution the determinant of G_x must keep its sign: along a path on which
solutions do not meet it does, and where it changes the iteration goes to another solution.

**Continuation.**  Where a Newton iteration contracts too little, the problem is reached on a path, lambda from 0 to 1,
along which the solution is known at the beginning:

* from the last solution x_0 at w_0, on the line between the arguments:  G(x, w_0 + lambda (w - w_0)) = 0;
* from the guess x_0, if nothing is remembered:  G(x, w) = (1 - lambda) G(x_0, w).

The first attempt is the whole way; steps are halved where an attempt fails, doubled where it succeeds.  A path that
ends, since two solutions meet (G_x becomes singular) or G is not defined, ends the search: there is no solution that
continues the one before, and another one must not take its place unseen.

**Memory.**  What is remembered from call to call belongs to the caller: see `sizes_of` for its parts.  Equal arguments
are not solved for again, so that a function and its derivatives at one point cost one solution.
"""

from __future__ import annotations

import math

from numba import types

from odefit.native.calls import call_model
from odefit.native.kernel import kernel
from odefit.native.records import floats_at
from odefit.native.table_slots import REFUSED, REMEMBERED, SIGN, SLOT

SOLVE = types.int64(types.int64, types.int64, types.int64, types.int64, types.int64, types.int64)
"""Signature of `solve_implicit`."""

NOT_FINITE, SINGULAR, NOT_FOUND = 1, 2, 3
"""Why there is no solution: G or its derivatives are not finite at the guess, or where the path ended; G_x is singular
there; Newton's method converges nowhere on it."""

_NOTHING, _KNOWN, _FAILED = 0.0, 1.0, 2.0  # what is remembered: nothing; the last call; the last but a failed one

_MOST_STEPS = 400
_MOST_CORRECTIONS = 60
_ROUNDING = 2.0**-50
_NEARLY = 1e-8  # corrections that stop to shrink there are made of rounding errors
_OF_GUESS = 2.0**-45  # the same, relative to the guess: for a solution that is zero
_ON_THE_WAY = 1e-4  # accuracy at points of the path before its end


def sizes_of(k: int, m: int) -> tuple[int, int]:
    """Return where in the memory of `k` unknowns and `m` arguments the outputs x and A begin, and its size.

    In it stand the last arguments that were solved for, guesses first, and their solution; the outputs; and room.
    """
    outputs = 2 * k + m
    return outputs, outputs + k + k * k + (k + k * k) + m + 4 * k + 2 * k * k


@kernel(inline=True)
def _inverted(matrix, inverse, k):
    """Fill `inverse` by Gauss-Jordan elimination with row exchanges, which destroys `matrix`.

    Return the sign of the determinant; 0: there is no inverse.
    """
    sign = 1.0
    for e in range(k * k):
        inverse[e] = 0.0
    for i in range(k):
        inverse[i * k + i] = 1.0
    for j in range(k):
        pivot = j
        for i in range(j + 1, k):
            if abs(matrix[i * k + j]) > abs(matrix[pivot * k + j]):
                pivot = i
        largest = matrix[pivot * k + j]
        if not (abs(largest) > 0.0 and math.isfinite(1.0 / largest)):
            return 0.0
        if (pivot != j) != (largest < 0.0):
            sign = -sign
        for c in range(k):
            matrix[pivot * k + c], matrix[j * k + c] = matrix[j * k + c], matrix[pivot * k + c] / largest
            inverse[pivot * k + c], inverse[j * k + c] = inverse[j * k + c], inverse[pivot * k + c] / largest
        for i in range(k):
            factor = matrix[i * k + j]
            if i != j and factor != 0.0:
                for c in range(k):
                    matrix[i * k + c] -= factor * matrix[j * k + c]
                    inverse[i * k + c] -= factor * inverse[j * k + c]
    return sign


@kernel(inline=True)
def _newton(residual, k, x, w, shift, kept, guess, tolerance, sign, room):
    """Correct `x` until it solves G(x, w) = kept * shift.

    `sign` is that which the determinant of G_x must have, 0: any.  `room` are: G and behind it G_x, the inverse of
    that, a copy, the correction, and where it began.

    Returns 0, or why it does not; the equation to blame; the sign of the determinant.
    """
    values, inverse, matrix, dx, start = room
    for i in range(k):
        start[i] = x[i]
    for correction in range(_MOST_CORRECTIONS):
        call_model(residual, 0.0, x, 0, w, w, values, 0)
        worst = 0
        for i in range(k):
            values[i] -= kept * shift[i]
            if not abs(values[i]) <= abs(values[worst]):
                worst = i
        for e in range(k + k * k):
            if not math.isfinite(values[e]):
                return NOT_FINITE, e if e < k else (e - k) // k, sign
        for e in range(k * k):
            matrix[e] = values[k + e]
        found = _inverted(matrix, inverse, k)
        if found == 0.0 or found * sign < 0.0:
            return SINGULAR, worst, sign
        size, before, stalled = 0.0, 0.0, True
        for i in range(k):
            move = 0.0
            for j in range(k):
                move -= inverse[i * k + j] * values[j]
            scale = max(abs(x[i]), abs(start[i]))
            size = max(size, abs(move) / scale if move != 0.0 else 0.0)
            before = max(before, abs(dx[i]) / scale if correction > 0 and dx[i] != 0.0 else 0.0)
            if not abs(move) <= max(_NEARLY * scale, _OF_GUESS * abs(guess[i])):
                stalled = False
            matrix[i] = move
        if not (size <= 0.5 * before or correction == 0 or size <= tolerance):
            return (0 if stalled else NOT_FOUND), worst, found
        for i in range(k):
            dx[i] = matrix[i]
            x[i] += dx[i]
        if size <= tolerance:
            return 0, worst, found
    return NOT_FOUND, 0, sign


@kernel(inline=True)
def _follow(residual, k, m, sign, arguments, memory, x, room):
    """Follow the solution from what is remembered, or from the guess, to `arguments`; return as `_newton` does.

    `sign` is that of the determinant in the solution that is remembered; 0: there is none.
    """
    known = sign != 0.0
    w, shift, trial = room[5], room[6], room[7]
    for i in range(k):
        x[i] = memory[k + m + i] if known else arguments[i]
        shift[i] = 0.0
    for j in range(m):
        w[j] = arguments[k + j]
    if not known:
        call_model(residual, 0.0, x, 0, w, w, room[0], 0)
        for i in range(k):
            shift[i] = room[0][i]
            if not math.isfinite(shift[i]):
                return NOT_FINITE, i, sign
    reached, step, why, where, found = 0.0, 1.0, NOT_FOUND, 0, sign
    for _ in range(_MOST_STEPS):
        aim = min(reached + step, 1.0)
        for i in range(k):
            trial[i] = x[i]
        for j in range(m):
            old = memory[k + j] if known else arguments[k + j]
            w[j] = arguments[k + j] if aim == 1.0 else old + aim * (arguments[k + j] - old)
        tolerance = _ROUNDING if aim == 1.0 else _ON_THE_WAY
        why, where, found = _newton(residual, k, trial, w, shift, 1.0 - aim, arguments, tolerance, sign, room[:5])
        if why == 0:
            for i in range(k):
                x[i] = trial[i]
            if aim == 1.0:
                return 0, where, found
            reached, step = aim, 2.0 * step
        else:
            step *= 0.5
            if not reached + step > reached:
                return why, where, found
    return why, where, found


@kernel
def solve_implicit(residual, k, m, slot_at, memory_at, arguments_at):
    """Fill the outputs in the memory: x and the inverse of G_x; NaN and zeros if there is no solution.

    Parameters
    ----------
    residual
        Address of ``fn(t, x, w, w, out)``, with G and then G_x row by row in `out`.
    k, m
        Number of unknowns, and of arguments w.
    slot_at, memory_at, arguments_at
        Addresses: of the slot (see `odefit.native.table_slots`), in which it is noted what is remembered, and why there
        is no solution; of the memory; of the arguments, guesses first.

    Returns 0, or why there is no solution.
    """
    outputs, size = 2 * k + m, 2 * k + m + 2 * (k + k * k) + m + 4 * k + 2 * k * k
    slot, memory = floats_at(slot_at, SLOT), floats_at(memory_at, size)
    arguments = floats_at(arguments_at, k + m)
    state, same, finite = slot[REMEMBERED], True, True
    for j in range(k + m):
        same = same and memory[j] == arguments[j]
        finite = finite and math.isfinite(arguments[j])
    if state == _KNOWN and same:
        return 0
    at = memory_at + 8 * (outputs + k + k * k)
    values, at = floats_at(at, k + k * k), at + 8 * (k + k * k)
    w, at = floats_at(at, m), at + 8 * m
    inverse, at = floats_at(at, k * k), at + 8 * k * k
    matrix, at = floats_at(at, k * k), at + 8 * k * k
    dx, start = floats_at(at, k), floats_at(at + 8 * k, k)
    shift, trial = floats_at(at + 16 * k, k), floats_at(at + 24 * k, k)
    x = floats_at(memory_at + 8 * outputs, k)
    why, where, sign = 0, 0, 0.0
    if finite:
        room = (values, inverse, matrix, dx, start, w, shift, trial)
        sign = slot[SIGN] if state != _NOTHING else 0.0
        why, where, sign = _follow(residual, k, m, sign, arguments, memory, x, room)
    if finite and why == 0:
        for j in range(k + m):
            memory[j] = arguments[j]
        for i in range(k):
            memory[k + m + i] = x[i]
        for e in range(k * k):
            memory[outputs + k + e] = inverse[e]
        slot[REMEMBERED], slot[SIGN] = _KNOWN, sign
        return 0
    for e in range(k + k * k):
        memory[outputs + e] = math.nan if e < k else 0.0
    slot[REMEMBERED] = _NOTHING if state == _NOTHING else _FAILED
    if finite:
        slot[REFUSED], slot[REFUSED + 1] = float(why), float(where)
    return why if finite else NOT_FINITE
