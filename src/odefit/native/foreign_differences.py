"""Value and derivatives of a function of which nothing is known but its address.

The function ``f(t, y, p)`` with n states and k parameters writes n numbers.  Its derivatives by x = (t, y, p) are
central differences,

    df/dx_j = (f(x + h e_j) - f(x - h e_j)) / 2h,

with a truncation error of about (h/L)^2, where L is the distance over which f bends, and a rounding error of about
u |f| / h, u = 2^-53.  With ``h = D L``, D = 2^-17 (about u^(1/3)), both are about 1e-11.  The divisor is the difference
of the two points as they are.

**Increments.**  L is not known.  As a rule it is |x_j|, and so it is taken.  A state that is small beside the others
(less than 1e-4 of the largest, Y) would be lost in the rounding errors of what is large: with y = 1e-20, ``f = 1 - y``
does not notice an h of 1e-25.  So such a column is computed twice: with L = |x_j| to have D_a, and with L = Y to have
D_b.  Row by row, D_b is taken if both agree, to 1e-9 or to four times the rounding errors ``u |f| / h`` of D_a; then f
is straight from one scale to the other.  If they do not, f bends in between, and D_a is taken as long as its rounding
errors are below 1e-6 of it.

What remains, and all rows of a state that is zero, *goes down* from L = Y by factors of 2^-6, and takes the first
difference that agrees with the next one, or else the one that comes nearest to that.  Parameters have no common size:
small is what is below 1e-10 then, and Y = 1.  How far away the origin of the time is tells nothing of how fast f
changes: all rows go down from L = |t|.

All of this depends on x alone.  So derivatives are the same wherever they are asked for, and a replay gives the same
bits.

**Directions.**  Along a direction d of x there is one such difference, (f(x + h d) - f(x - h d)) / 2h, which is cheaper
than all columns.  There L is the shortest of the L_j / |d_j|: no component moves by more than its own increment.  The
time has its column, d_t f_t, which is computed once for all directions.

**Edges.**  Where f has no finite value on one side, at the edge of its domain, the derivative is the one-sided
difference of order 2, ``(4 f(x + h) - 3 f(x) - f(x + 2h)) / 2h``, or its mirror image.

**Memory.**  Values and derivatives stay in the memory of the caller together with x: whoever asks again for the same x,
a Jacobian behind a value, say, calls nothing.  Directions are not remembered.
"""

from __future__ import annotations

import math

from numba import types

from odefit.native.calls import call_foreign
from odefit.native.kernel import kernel
from odefit.native.records import floats_at
from odefit.native.table_slots import REFUSED, REMEMBERED, SLOT

EVALUATE = types.int64(*[types.int64] * 10)
"""Signature of `evaluate_foreign`."""

BY_ALL, BY_TIME, AUTONOMOUS = 1, 2, 4
"""What is asked for beside the value: derivatives by (y, p), derivatives by t.  Whether the function must not use t."""

NO_VALUE, NO_DERIVATIVE = 1, 2
"""Why there is no result: the function has no finite value, or no finite ones around where it has."""

_NOTHING, _VALUE, _ALL, _TIME, _FAILED = 0, 1, 2, 4, 8  # what is remembered, added up

_STEP = 2.0**-17
_UNIT = 2.0**-53
_LEVEL, _MOST_LEVELS = 2.0**-6, 20
_SMALL_STATE, _SMALL_NUMBER = 1e-4, 1e-10
_VANISHED = 1e-280  # below, increments have no digits
_AGREEMENT, _RESOLVED = 1e-9, 1e-6


def memory_size(n: int, k: int) -> int:
    """Return how many numbers the memory of a function of `n` states and `k` parameters has.

    In it stand x of the last call, f, its derivatives row by row, x of the last one that failed, 1 for each entry of x
    by which nobody wants derivatives (these are 0 then), and room to work in.
    """
    m = 1 + n + k
    return outputs_of(n, k) + n + n * m + 5 * m + 7 * n


def outputs_of(n: int, k: int) -> int:
    """Return where in the memory the outputs begin: f, and behind it the derivatives."""
    return 1 + n + k


def refused_at(n: int, k: int) -> int:
    """Return where in the memory x of the last call that failed stands."""
    return outputs_of(n, k) + n + n * (1 + n + k)


def unwanted_at(n: int, k: int) -> int:
    """Return where in the memory is noted by what no derivatives are wanted."""
    return refused_at(n, k) + 1 + n + k


@kernel(inline=True)
def _call(code, x, out):
    """Set `out` to f(x); return whether it is finite."""
    address, n, timeless = code
    for i in range(n):
        out[i] = math.nan  # what the function does not set is noticed
    call_foreign(address, math.nan if timeless else x[0], x, 1, x, 1 + n, out, 0)
    finite = True
    for i in range(n):
        finite = finite and math.isfinite(out[i])
    return finite


@kernel(inline=True)
def _shift(x, base, d, j, h):
    """Let x be base + h d, where d is unit vector number `j`, or any direction (j < 0)."""
    if j >= 0:
        x[j] = base[j] + h
    else:
        for i in range(x.size):
            x[i] = base[i] + h * d[i]


@kernel(inline=True)
def _difference(code, line, f, h, room, slope, noise):
    """Set `slope` to the difference along a line with increment `h`, `noise` to its rounding errors; False: not finite.

    `line` is x, where it begins, its direction, and the number of the latter among the unit vectors or -1.
    """
    x, base, d, j = line
    n, plus, minus = code[1], room[0], room[1]
    _shift(x, base, d, j, h)
    up = x[j] - base[j] if j >= 0 else h
    above = _call(code, x, plus)
    _shift(x, base, d, j, -h)
    down = x[j] - base[j] if j >= 0 else -h
    below = _call(code, x, minus)
    if not (up > 0.0 and down < 0.0):  # shorter than rounding
        above, below = False, False
    if above and below:
        for i in range(n):
            slope[i] = (plus[i] - minus[i]) / (up - down)
            noise[i] = _UNIT * (abs(plus[i]) + abs(minus[i])) / (up - down)
    elif above or below:
        near = up if above else down
        _shift(x, base, d, j, 2.0 * near)
        if above:
            finite = _call(code, x, minus)
        else:
            finite = _call(code, x, plus)
        for i in range(n):
            first, second = (plus[i], minus[i]) if above else (minus[i], plus[i])
            slope[i] = (4.0 * first - 3.0 * f[i] - second) / (2.0 * near)
            noise[i] = _UNIT * (4.0 * abs(first) + 3.0 * abs(f[i]) + abs(second)) / abs(2.0 * near)
        above, below = finite, finite
    _shift(x, base, d, j, 0.0)
    return above and below


@kernel(inline=True)
def _agrees(coarse, fine, noise):
    """Tell whether a difference is that of a smaller increment, with `noise` in the latter."""
    return abs(coarse - fine) <= _AGREEMENT * abs(fine) + 4.0 * noise


@kernel(inline=True)
def _go_down(code, line, f, top, room, column):
    """Set the open rows of `column` to the first difference that agrees with the one of the next smaller increment.

    Where none does, to the one that is nearest to it.  An open row is a number above zero: how near that is.  False:
    the differences are not finite.
    """
    n, h, slope, noise, gap, before = code[1], _STEP * top, room[2], room[3], room[4], room[6]
    known, compared = False, False
    for _ in range(_MOST_LEVELS):
        finite, left = _difference(code, line, f, h, room, slope, noise), False
        for i in range(n):
            if finite and known and gap[i] > 0.0:
                change = abs(before[i] - slope[i])
                if noise[i] >= gap[i]:
                    gap[i] = 0.0  # nothing better comes behind
                elif _agrees(before[i], slope[i], noise[i]):
                    column[i], gap[i] = before[i], 0.0
                elif change < gap[i]:
                    column[i], gap[i] = before[i], change
            left = left or gap[i] > 0.0
            if finite:
                before[i] = slope[i]
        compared = compared or (finite and known)
        known = finite
        if not left:
            break
        h *= _LEVEL
    return compared


@kernel(inline=True)
def _along(code, line, f, size, top, room, column):
    """Set `column` to the derivative along a line; False: there is none.

    `size` is the distance along the line at which the first component of x has moved by as much as itself, `top` the
    same with the size that small components could have.
    """
    n, slope, noise, gap = code[1], room[2], room[3], room[4]
    if size >= top:
        return _difference(code, line, f, _STEP * size, room, column, noise)
    left = True
    for i in range(n):
        gap[i] = math.inf
    if size >= _VANISHED:
        coarse = _difference(code, line, f, _STEP * top, room, slope, noise)
        left = not _difference(code, line, f, _STEP * size, room, column, noise)
        for i in range(0 if left else n):
            gap[i] = 0.0
            if coarse and _agrees(slope[i], column[i], noise[i]):
                column[i] = slope[i]
            elif noise[i] > _RESOLVED * abs(column[i]):
                gap[i], left = math.inf, True
    return not left or _go_down(code, line, f, top, room, column)


@kernel(inline=True)
def _largest_state(n, x):
    """Return Y: what a state could be."""
    largest = 0.0
    for i in range(n):
        largest = max(largest, abs(x[1 + i]))
    return largest if largest > 0.0 else 1.0


@kernel(inline=True)
def _size_of(n, x, j, largest):
    """Return the size that x[j] could have: its own, unless that is small."""
    size = abs(x[j])
    if 1 <= j <= n:
        return largest if size < _SMALL_STATE * largest else size
    return 1.0 if size < _SMALL_NUMBER else size


@kernel(inline=True)
def _differentiate(code, line, f, first, last, room, jacobian):
    """Fill the columns `first` to `last` of the derivatives, row by row; return whether they are finite."""
    n, base, column, unwanted = code[1], line[1], room[5], room[7]
    largest, every = _largest_state(n, base), True
    for j in range(first, last):
        if unwanted[j] != 0.0:
            continue
        unit = (line[0], base, line[2], j)
        size = abs(base[j]) if j > 0 else 0.0
        finite = _along(code, unit, f, size, _size_of(n, base, j, largest), room, column)
        for i in range(n):
            finite = finite and math.isfinite(column[i])
        for i in range(n):
            jacobian[i * base.size + j] = column[i] if finite else math.nan
        every = every and finite
    return every


@kernel(inline=True)
def _directions(code, line, f, room, jacobian, given, out):
    """Set `out` to the derivatives in the directions `given`, both with lanes; return whether they are finite.

    Those by the time are known.
    """
    n, base, d, column = code[1], line[1], line[2], room[5]
    lanes = out.size // n
    d[0] = 0.0
    largest, every = _largest_state(n, base), True
    for lane in range(lanes):
        size, top, moves = math.inf, math.inf, False
        for j in range(1, base.size):
            d[j] = given[j * lanes + lane]
            if d[j] != 0.0:
                moves = True
                size = min(size, abs(base[j]) / abs(d[j]))
                top = min(top, _size_of(n, base, j, largest) / abs(d[j]))
        finite = not moves or (math.isfinite(top) and _along(code, line, f, size, top, room, column))
        for i in range(n):
            out[i * lanes + lane] = 0.0 if not moves else column[i] if finite else math.nan
            if given[lane] != 0.0:
                out[i * lanes + lane] += given[lane] * jacobian[i * base.size]
            every = every and math.isfinite(out[i * lanes + lane])
    return every


@kernel
def evaluate_foreign(function, n, k, flags, slot_at, memory_at, given_at, lanes, directions_at, out_at):
    """Fill the outputs in the memory: f and, if asked for, its derivatives by t, y and p; NaN where there are none.

    Parameters
    ----------
    function
        Its address.
    n, k
        Number of states, and of parameters.
    flags
        What is asked for: `BY_ALL`, `BY_TIME`; what is known: `AUTONOMOUS`.
    slot_at, memory_at, given_at
        Addresses: of the slot (see `odefit.native.table_slots`), in which is noted what is remembered and why there
        is no result; of the memory; of x = (t, y, p).
    lanes, directions_at, out_at
        How many directions there are, and the addresses of them and of the derivatives in them, number after number of
        x or f and each as many times; 0: none.

    Returns 0, or why there is no result.
    """
    m = 1 + n + k
    slot, given = floats_at(slot_at, SLOT), floats_at(given_at, m)
    last, f = floats_at(memory_at, m), floats_at(memory_at + 8 * m, n)
    jacobian, at = floats_at(memory_at + 8 * (m + n), n * m), memory_at + 8 * (m + n + n * m)
    refused, unwanted, at = floats_at(at, m), floats_at(at + 8 * m, m), at + 16 * m
    x, at = floats_at(at, m), at + 8 * m
    base, d, at = floats_at(at, m), floats_at(at + 8 * m, m), at + 16 * m
    plus, minus, slope = floats_at(at, n), floats_at(at + 8 * n, n), floats_at(at + 16 * n, n)
    noise, gap, column = floats_at(at + 24 * n, n), floats_at(at + 32 * n, n), floats_at(at + 40 * n, n)
    room, line = (plus, minus, slope, noise, gap, column, floats_at(at + 48 * n, n), unwanted), (x, base, d, -1)
    code = (function, n, (flags & AUTONOMOUS) != 0)
    known, why = int(slot[REMEMBERED]), 0
    for j in range(m):
        if known != _NOTHING and last[j] != given[j]:
            known = _NOTHING
        last[j] = given[j]
        x[j] = base[j] = given[j]
    out = floats_at(out_at, lanes * n)
    if known == _NOTHING:
        known = _VALUE
        for e in range(n * m):
            jacobian[e] = 0.0
        finite = True
        for j in range(m):
            finite = finite and math.isfinite(x[j])
        if not finite or not _call(code, x, f):
            for i in range(n):
                f[i] = math.nan
            known, why = _FAILED, NO_VALUE if finite else 0
    if known & _FAILED:
        for e in range(lanes * n):
            out[e] = 0.0
    else:
        if flags & BY_ALL and not known & _ALL:
            known += _ALL
            why = why if _differentiate(code, line, f, 1, m, room, jacobian) else NO_DERIVATIVE
        directions, by_time = floats_at(directions_at, lanes * m), (flags & BY_TIME) != 0
        for lane in range(lanes):
            by_time = by_time or directions[lane] != 0.0
        if by_time and not known & _TIME:
            known += _TIME
            why = why if _differentiate(code, line, f, 0, 1, room, jacobian) else NO_DERIVATIVE
        if lanes > 0 and not _directions(code, line, f, room, jacobian, directions, out):
            why = NO_DERIVATIVE
    if why != 0:
        slot[REFUSED] = float(why)
        for j in range(m):
            refused[j] = base[j]
    slot[REMEMBERED] = float(known)
    return why
