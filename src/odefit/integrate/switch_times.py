"""Where conditions in time change: zeros of switches g(t, p, u), see `odefit.compile.switches`.

Between two times at which the inputs of lower levels are constant, the switches of a level are smooth functions of t.
One that is affine in t has its zero (or the points where it is a whole number) in closed form, polished by one step of
Newton's method so that ``t >= 12`` ends a piece at 12 to the last bit.  Any other is looked at in `SCAN` equal
intervals of the whole horizon, at least `SCAN_LEAST` of a stretch.  An interval in which its slope changes sign is
divided at the extremum, so that two zeros in one interval are found as well; what is missed is an interval with two
extrema.  Zeros are bracketed and found by Newton's method with bisection.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.compile.switch_kinds import (
    CEIL,
    EQUAL,
    FLOOR,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    MINUS_SIGN,
    SIGN,
    TRUNCATE,
    UNEQUAL,
)
from odefit.integrate.stepping import longer
from odefit.native.calls import call_model
from odefit.native.kernel import kernel

SCAN, SCAN_LEAST = 2000, 16
MOST_PIECES = 100_000
_HALVINGS = 100


@kernel(inline=True)
def input_of(kind, g):
    """Return the value of an input whose switch is `g`."""
    if kind == LESS:
        value = 1.0 if g < 0.0 else 0.0
    elif kind == LESS_EQUAL:
        value = 1.0 if g <= 0.0 else 0.0
    elif kind == GREATER:
        value = 1.0 if g > 0.0 else 0.0
    elif kind == GREATER_EQUAL:
        value = 1.0 if g >= 0.0 else 0.0
    elif kind == EQUAL:
        value = 1.0 if g == 0.0 else 0.0
    elif kind == UNEQUAL:
        value = 1.0 if g != 0.0 else 0.0
    elif kind == SIGN:
        value = math.copysign(1.0, g) if g != 0.0 else 0.0
    elif kind == MINUS_SIGN:
        value = -math.copysign(1.0, g) if g != 0.0 else 0.0
    elif kind == FLOOR:
        value = np.floor(g)
    elif kind == CEIL:
        value = np.ceil(g)
    else:
        assert kind == TRUNCATE
        value = np.trunc(g)
    return value


@kernel(inline=True)
def _switches_at(sw, t, p, u, work):
    """Compute all switches and their slopes at `t`: they stand in ``work[1:]``."""
    work[0] = t
    call_model(sw.value, 0.0, work, 0, p, u, work, 1)


@kernel(inline=True)
def set_inputs(sw, t, p, u, levels, work):
    """Set the inputs of levels 1 to `levels` to what they are at `t`."""
    for level in range(1, levels + 1):
        _switches_at(sw, t, p, u, work)
        for j in range(sw.kind.size):
            if sw.level[sw.switch_of[j]] == level:
                u[j] = input_of(sw.kind[j], work[1 + sw.switch_of[j]])


@kernel
def _polished(sw, j, p, u, aim, lower, upper, rising, t, work):
    """Return where switch `j` is `aim` between two times, by Newton's method from `t`, with bisection."""
    n = sw.level.size
    for _ in range(_HALVINGS):
        _switches_at(sw, t, p, u, work)
        miss, slope = work[1 + j] - aim, work[1 + n + j]
        if miss == 0.0:
            break
        if (miss > 0.0) == rising:
            upper = t
        else:
            lower = t
        new = t - miss / slope if slope != 0.0 else np.nan
        if not lower < new < upper:
            new = lower + 0.5 * (upper - lower)
        if new == t or not lower < new < upper:
            break
        t = new
    return t


@kernel
def _extremum(sw, j, p, u, lower, upper, rising, work):
    """Return where the slope of switch `j` changes its sign between two times; `rising`: it is positive before."""
    n = sw.level.size
    for _ in range(_HALVINGS):
        t = lower + 0.5 * (upper - lower)
        if not lower < t < upper:
            break
        _switches_at(sw, t, p, u, work)
        if (work[1 + n + j] > 0.0) == rising:
            lower = t
        else:
            upper = t
    return lower


@kernel
def note_end(found, owners, count, t, j):
    """Note that switch `j` ends a piece at `t`; return the arrays, longer ones if needed, and the count."""
    if count == found.size:
        found, owners = longer(found), longer(owners)
    found[count], owners[count] = t, j
    return found, owners, count + 1


@kernel
def _crossings(sw, j, p, u, begin, end, stretch_end, found, owners, count, work):
    """Note where switch `j`, monotonic from `begin` to `end`, reaches zero or a whole number behind `begin`.

    Nothing is noted at `stretch_end`, where a piece ends anyway; a switch that is not a number is noted as NaN.
    """
    n = sw.level.size
    _switches_at(sw, begin, p, u, work)
    first, slope = work[1 + j], work[1 + n + j]
    _switches_at(sw, end, p, u, work)
    last = work[1 + j]
    if math.isnan(first) or math.isnan(last):
        return note_end(found, owners, count, np.nan, j)
    if first == last:
        return found, owners, count
    rising = last > first
    if sw.whole[j] != 0:
        if not (math.isfinite(first) and math.isfinite(last)):
            return note_end(found, owners, count, np.nan, j)
        aim = np.floor(first) + 1.0 if rising else np.ceil(first) - 1.0
    elif first * (1.0 if rising else -1.0) < 0.0:
        aim = 0.0
    else:
        return found, owners, count
    while count <= MOST_PIECES and (aim <= last if rising else aim >= last):
        if sw.affine[j] != 0:
            guess = begin + (aim - first) / slope
            _switches_at(sw, guess, p, u, work)
            t = guess - (work[1 + j] - aim) / slope
            t = min(max(t, begin), end)
        elif aim == last:
            t = end
        else:
            t = _polished(sw, j, p, u, aim, begin, end, rising, begin + 0.5 * (end - begin), work)
        if begin < t < stretch_end:
            found, owners, count = note_end(found, owners, count, t, j)
        if sw.whole[j] == 0:
            break
        aim += 1.0 if rising else -1.0
    return found, owners, count


@kernel
def note_ends_in(sw, j, p, u, begin, end, horizon, found, owners, count, work):
    """Note where switch `j` ends a piece between two times, inputs of lower levels being `u`."""
    if sw.affine[j] != 0:
        return _crossings(sw, j, p, u, begin, end, end, found, owners, count, work)
    n = sw.level.size
    n_scan = max(SCAN_LEAST, int(math.ceil(SCAN * (end - begin) / horizon)))
    _switches_at(sw, begin, p, u, work)
    a, slope_a = begin, work[1 + n + j]
    for k in range(1, n_scan + 1):
        b = end if k == n_scan else begin + (end - begin) * (k / n_scan)
        _switches_at(sw, b, p, u, work)
        slope_b = work[1 + n + j]
        if slope_a * slope_b < 0.0:
            middle = _extremum(sw, j, p, u, a, b, slope_a > 0.0, work)
            found, owners, count = _crossings(sw, j, p, u, a, middle, end, found, owners, count, work)
            a = middle
        found, owners, count = _crossings(sw, j, p, u, a, b, end, found, owners, count, work)
        a, slope_a = b, slope_b
    return found, owners, count


@kernel
def changes_at_start(sw, j, t, p, u, work):
    """Tell whether switch `j`, which depends on parameters, changes at `t` exactly, the start of a task."""
    if sw.col[sw.row_ptr[j + 1] - 1] == 0:  # columns are sorted, and time comes first
        return False
    _switches_at(sw, t, p, u, work)
    g, slope = work[1 + j], work[1 + sw.level.size + j]
    return slope != 0.0 and (g == np.floor(g) if sw.whole[j] != 0 else g == 0.0)
