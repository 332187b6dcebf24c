"""Solves a small system of equations G(x, w) = 0 for x, where w are numbers that change from call to call.

**Newton's method.**  With the inverse A = G_x^{-1} at the present point, corrections are ``dx = -A G``.  They are made
until they are as small as rounding, so that where one came from is forgotten: the same w give the same x up to the last
bits.  An iteration is to be near the solution it goes to, or it is given up:

* each correction is at most half as long as the one before (componentwise, relative to x);
* the determinant of G_x keeps its sign, and changes by a factor of at most 4 per unknown and correction.

Where corrections no longer become smaller, those that are no longer than ``2 |A| e`` do not count, with bounds e of the
rounding errors of G (see `odefit.compile.implicit_rounding`): such an unknown is as accurate as G.  Unless G_x is
another one from one to the next: then two solutions are so near that rounding errors do not tell them apart.

**Continuation.**  Where an iteration is given up, the problem is reached on a path, lambda from 0 to 1, along which the
solution is known at the beginning:

* from a solution x_0 at w_0, on the line between the arguments:  G(x, w_0 + lambda (w - w_0)) = 0;
* from the guess x_0, if nothing is known:  G(x, w) = (1 - lambda) G(x_0, w), on which dx/dlambda = A G(x_0, w) has the
  direction of Newton's corrections: to follow it in short steps is to damp them.

On both the determinant keeps its sign as long as solutions do not meet.  The first attempt is the whole way; steps are
halved where an attempt fails, doubled where two succeed.  A path that ends, since two solutions meet (G_x becomes
singular) or G is not defined, ends the search: there is no solution that continues the one before, and another one must
not take its place unseen.  Work is bounded by `_MOST_STEPS` attempts of `_MOST_CORRECTIONS` each.

**Memory.**  What is remembered belongs to the caller: see `memory_size` for its parts.  Equal arguments are not solved
for again, so that a function and its derivatives at one point cost one solution.  A search begins at the solution that
was *reached* last.  An integration tries steps, gives some of them up, differentiates and interpolates those that it
takes, or replays them; the solutions along it must not depend on which of this was done.  So the slot of a block has a
*phase*, which the integration sets (`odefit.integrate.solved_along`):

    ALONG       every solution is reached
    IN_STEP     the same, in a step that is attempted
    GO_ON       an attempt begins, the step before was taken: what is reached is *kept*; then IN_STEP
    TAKE_BACK   an attempt begins, the one before was given up: back to what was kept; then IN_STEP
    ASIDE       somebody else asks: solutions begin where the step ended, and are not reached; then BESIDE
    BESIDE      the same; each begins at the one before

The first solution of all is reached and kept, whoever asks.
"""

from __future__ import annotations

import math

from numba import types

from odefit.native.calls import call_model
from odefit.native.kernel import kernel
from odefit.native.records import floats_at
from odefit.native.table_slots import PHASE, REFUSED, REMEMBERED, SLOT

SOLVE = types.int64(*[types.int64] * 7)
"""Signature of `solve_implicit`."""

NOT_FINITE, SINGULAR, NOT_FOUND = 1, 2, 3
"""Why there is no solution: G or its derivatives are not finite at the guess, or where the path ended; G_x is singular
there, or its determinant changes its sign; Newton's method converges nowhere on it."""

ALONG, GO_ON, TAKE_BACK, IN_STEP, ASIDE, BESIDE = 0.0, 1.0, 2.0, 3.0, 4.0, 5.0
"""Phases."""

_NOTHING, _FOUND, _FAILED = 0.0, 1.0, 2.0  # what is remembered: nothing; the last call; others, but it failed

_MOST_STEPS = 400
_MOST_CORRECTIONS = 60
_ROUNDING = 2.0**-50
_ON_THE_WAY = 1e-4  # accuracy at points of the path before its end
_MOST_BENT = math.log(4.0)
_BENT_BY_ROUNDING = 0.1  # change of log |det G_x| between two points that rounding errors of G do not tell apart


def memory_size(k: int, m: int) -> int:
    """Return how many numbers the memory of `k` unknowns and `m` arguments has.

    In it stand the arguments of the last call, guesses first; the outputs x and A; x and w of the solution that was
    reached, of the one that is kept, and of the one beside, each behind the sign of its determinant; and room to work
    in.
    """
    return outputs_of(k, m) + (k + k * k) + 3 * (1 + k + m) + (m + 6 * k + 2 * k * k + 1)


def outputs_of(k: int, m: int) -> int:
    """Return where in the memory the outputs begin."""
    return k + m


@kernel(inline=True)
def _inverted(matrix, inverse, k):
    """Fill `inverse` by Gauss-Jordan elimination with row exchanges, which destroys `matrix`.

    Return sign and logarithm of the determinant; 0: there is no inverse.
    """
    sign, size = 1.0, 0.0
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
            return 0.0, 0.0
        size += math.log(abs(largest))
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
    return sign, size


@kernel(inline=True)
def _sizes(k, x, dx, move, inverse, errors, rounds):
    """Return how long the correction `move` is, relative to the unknowns, and how long the one before, `dx`, was.

    If `errors` of G are known (`rounds`), unknowns whose corrections these make are left out.
    """
    size, before = 0.0, 0.0
    for i in range(k):
        if rounds:
            bound = 0.0
            for j in range(k):
                bound += abs(inverse[i * k + j]) * errors[j]
            if abs(move[i]) <= 2.0 * bound and math.isfinite(bound):
                continue
        scale = max(abs(x[i]), abs(x[i] + move[i]))
        size = max(size, abs(move[i]) / scale if move[i] != 0.0 else 0.0)
        before = max(before, abs(dx[i]) / scale if dx[i] != 0.0 else 0.0)
    return size, before


@kernel(inline=True)
def _newton(code, k, x, w, shift, kept, tolerance, sign, room):
    """Correct `x` until it solves G(x, w) = kept * shift.

    `sign` is that which the determinant of G_x must have, 0: the one where it begins.  `room` are: G and behind it G_x,
    the inverse of that, a copy, the correction, the next one, and bounds of rounding errors.

    Returns 0, or why it does not; the equation to blame; the sign of the determinant.
    """
    values, inverse, matrix, dx, move, errors = room
    volume = 0.0
    for i in range(k):
        dx[i] = 0.0
    for correction in range(_MOST_CORRECTIONS):
        call_model(code[0], 0.0, x, 0, w, w, values, 0)
        worst, last_volume = 0, volume
        for i in range(k):
            values[i] -= kept * shift[i]
            if not abs(values[i]) <= abs(values[worst]):
                worst = i
        for e in range(k + k * k):
            if not math.isfinite(values[e]):
                return NOT_FINITE, e if e < k else (e - k) // k, sign
        for e in range(k * k):
            matrix[e] = values[k + e]
        found, volume = _inverted(matrix, inverse, k)
        if found == 0.0 or found * sign < 0.0:
            return SINGULAR, worst, sign
        sign = found
        if correction > 0 and not abs(volume - last_volume) <= k * _MOST_BENT:
            return NOT_FOUND, worst, sign
        for i in range(k):
            move[i] = 0.0
            for j in range(k):
                move[i] -= inverse[i * k + j] * values[j]
        size, before = _sizes(k, x, dx, move, inverse, errors, False)
        if correction > 0 and size > tolerance and not size <= 0.5 * before:
            call_model(code[1], 0.0, x, 0, w, w, errors, 0)
            size, before = _sizes(k, x, dx, move, inverse, errors, True)
            if not size <= 0.5 * before:
                return NOT_FOUND, worst, sign
            if abs(volume - last_volume) > _BENT_BY_ROUNDING:
                return SINGULAR, worst, sign
        for i in range(k):
            dx[i] = move[i]
            x[i] += dx[i]
        if size <= tolerance:
            return 0, worst, sign
    return NOT_FOUND, 0, sign


@kernel(inline=True)
def _follow(code, k, m, known, arguments, reached, x, room):
    """Follow the solution from the one that was reached, if one is known, or from the guess; return as `_newton` does.

    `arguments` are guesses and w; `reached` are sign, x and w.
    """
    w, shift, trial = room[6], room[7], room[8]
    sign = reached[0] if known else 0.0
    for i in range(k):
        x[i] = reached[1 + i] if known else arguments[i]
        shift[i] = 0.0
    for j in range(m):
        w[j] = arguments[k + j]
    if not known:
        call_model(code[0], 0.0, x, 0, w, w, room[0], 0)
        for i in range(k):
            shift[i] = room[0][i]
            if not math.isfinite(shift[i]):
                return NOT_FINITE, i, sign
    left, step, smooth, why, where = 1.0, 1.0, False, NOT_FOUND, 0  # left: 1 - lambda
    for _ in range(_MOST_STEPS):
        aim = max(left - step, 0.0)
        for i in range(k):
            trial[i] = x[i]
        for j in range(m):
            old = reached[1 + k + j] if known else arguments[k + j]
            w[j] = arguments[k + j] if aim == 0.0 else arguments[k + j] + aim * (old - arguments[k + j])
        tolerance = _ROUNDING if aim == 0.0 else _ON_THE_WAY
        why, where, sign = _newton(code, k, trial, w, shift, aim, tolerance, sign, room[:6])
        if why == 0:
            for i in range(k):
                x[i] = trial[i]
            if aim == 0.0:
                return 0, where, sign
            left, step, smooth = aim, (2.0 if smooth else 1.0) * min(step, aim), True
        else:
            step, smooth = 0.5 * step, False
            if not left - step < left:
                break
    return (why if why != 0 else NOT_FOUND), where, sign


@kernel(inline=True)
def _reach(arguments, k, m, sign, x, reached):
    """Note where the next search begins."""
    reached[0] = sign
    for i in range(k):
        reached[1 + i] = x[i]
    for j in range(m):
        reached[1 + k + j] = arguments[k + j]


@kernel(inline=True)
def _copy(source, target):
    for j in range(target.size):
        target[j] = source[j]


@kernel(inline=True)
def _enter_phase(slot, reached, kept, beside):
    """Keep what is reached, or go back to what was kept, if an attempt begins; return whether it is somebody else."""
    phase = slot[PHASE]
    if phase == GO_ON:
        _copy(reached, kept)
        slot[PHASE] = IN_STEP
    elif phase == TAKE_BACK:
        _copy(kept, reached)
        slot[PHASE] = IN_STEP
    elif phase == ASIDE:
        _copy(reached, beside)
        slot[PHASE] = BESIDE
    return phase == ASIDE or phase == BESIDE


@kernel
def solve_implicit(residual, rounding, k, m, slot_at, memory_at, arguments_at):
    """Fill the outputs in the memory: x and the inverse of G_x; NaN and zeros if there is no solution.

    Parameters
    ----------
    residual, rounding
        Addresses of ``fn(t, x, w, w, out)``, with G and then G_x row by row in `out`; with bounds of the errors of G.
    k, m
        Number of unknowns, and of arguments w.
    slot_at, memory_at, arguments_at
        Addresses: of the slot (see `odefit.native.table_slots`), in which it is noted what is remembered, and why there
        is no solution; of the memory; of the arguments, guesses first.

    Returns 0, or why there is no solution.
    """
    slot, arguments = floats_at(slot_at, SLOT), floats_at(arguments_at, k + m)
    last, at = floats_at(memory_at, k + m), memory_at + 8 * (k + m)
    x, at = floats_at(at, k), at + 8 * k
    inverse, at = floats_at(at, k * k), at + 8 * k * k
    reached, at = floats_at(at, 1 + k + m), at + 8 * (1 + k + m)
    kept, at = floats_at(at, 1 + k + m), at + 8 * (1 + k + m)
    beside, at = floats_at(at, 1 + k + m), at + 8 * (1 + k + m)
    aside, known, finite = _enter_phase(slot, reached, kept, beside), slot[REMEMBERED] != _NOTHING, True
    same = known
    for j in range(k + m):
        same = same and last[j] == arguments[j]
        finite = finite and math.isfinite(arguments[j])
        last[j] = arguments[j]
    values, at = floats_at(at, k + k * k), at + 8 * (k + k * k)
    w, at = floats_at(at, m), at + 8 * m
    matrix, at = floats_at(at, k * k), at + 8 * k * k
    dx, move, errors = floats_at(at, k), floats_at(at + 8 * k, k), floats_at(at + 16 * k, k)
    shift, trial, sign_at = floats_at(at + 24 * k, k), floats_at(at + 32 * k, k), floats_at(at + 40 * k, 1)
    if same and slot[REMEMBERED] == _FAILED:
        return NOT_FOUND
    begin = beside if aside else reached
    if same:
        _reach(arguments, k, m, sign_at[0], x, begin)
        return 0
    if finite:
        room = (values, inverse, matrix, dx, move, errors, w, shift, trial)
        why, where, sign = _follow((residual, rounding), k, m, known, arguments, begin, x, room)
        if why == 0:
            sign_at[0], slot[REMEMBERED] = sign, _FOUND
            _reach(arguments, k, m, sign, x, begin)
            if not known:
                _copy(begin, reached)
                _copy(begin, kept)
            return 0
        slot[REFUSED], slot[REFUSED + 1] = float(why), float(where)
    for i in range(k):
        x[i] = math.nan
    for e in range(k * k):
        inverse[e] = 0.0
    slot[REMEMBERED] = _FAILED if known else _NOTHING
    return NOT_FINITE if not finite else NOT_FOUND
