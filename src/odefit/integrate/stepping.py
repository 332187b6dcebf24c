"""Pieces of step-by-step kernels that do not depend on the method."""

from __future__ import annotations

import math

import numpy as np

from odefit.native.calls import call_model
from odefit.native.finite import row_is_finite
from odefit.native.kernel import kernel

RHS, JACOBIAN, SECOND = 2, 3, 4
"""Places of the numbers of `Counters` that methods count themselves."""
_OF_WHOLE = 1e-4
NO_SIZE = 1e-290
"""Absolute tolerance of a state that has always been zero: its error is zero too, and must not be divided by zero."""


@kernel(inline=True)
def first_nonfinite(values, row, n):
    """Return the index of the first non-finite entry of ``values[row, :n]``, or -1."""
    for i in range(n):
        if not math.isfinite(values[row, i]):
            return i
    return -1


@kernel(inline=True)
def nonfinite_in(values, row, n):
    """Do the same as `first_nonfinite` for a whole row of many entries, which are rarely bad."""
    return -1 if row_is_finite(values, row) else first_nonfinite(values, row, n)


@kernel(inline=True)
def tolerance(atol, rtol, old, new):
    """Return the error that a state may have in a step.

    A negative `atol` marks an integral over time (see `odefit.integrate.gathering`), whose error is held small beside
    what was gained in the step; a little of the whole counts too, so that rounding errors are no failure.
    """
    if atol >= 0.0:
        return atol + rtol * max(abs(old), abs(new))
    return rtol * (abs(new - old) + _OF_WHOLE * max(abs(old), abs(new))) - atol


@kernel(inline=True)
def scaled_norm(values, row, y, n, rtol, atol):
    """Return the root mean square of a row of `values`, relative to the tolerance at `y`.

    States that are zero and whose size is not known take no part, nor do integrals over time.
    """
    total = 0.0
    for i in range(n):
        weight = atol[i] + rtol * abs(y[0, i])
        if weight > 2.0 * NO_SIZE and atol[i] >= 0.0:
            part = values[row, i] / weight
            total += part * part
    return math.sqrt(total / n)


@kernel(inline=True)
def initial_step(system, t, t_end, y, k, exponent, states):
    """Guess the first step size (Hairer, Norsett and Wanner I, II.4); ``f(t, y)`` stands in ``k[0]``.

    The local error is taken to grow with the power 1/`exponent` of the step.  In their rule first and second derivative
    stand for a higher one.  That has a meaning in one unit of time only: here the time in which the state changes by
    its own size, so that the guess does not depend on the unit of t.
    """
    n, rtol, atol, span = system.n, system.rtol, system.atol, t_end - t
    d0 = scaled_norm(y, 0, y, n, rtol, atol)
    d1 = scaled_norm(k, 0, y, n, rtol, atol)
    h0 = 1e-6 * span if d0 < 1e-10 or d1 * span < 1e-10 else 0.01 * d0 / d1
    h0 = min(h0, span)
    d2 = np.inf
    for _ in range(20):
        for i in range(n):
            states[1, i] = y[0, i] + h0 * k[0, i]
        call_model(system.value, t + h0, states, n, system.p, system.u, k, n)
        for i in range(n):
            states[2, i] = k[1, i] - k[0, i]
        d2 = scaled_norm(states, 2, y, n, rtol, atol) / h0
        if math.isfinite(d2):
            break
        h0 *= 0.1
    unit = 100.0 * h0
    steepest = max(d1 * unit, d2 * unit * unit)
    h1 = h0 if steepest <= 1e-15 else unit * (0.01 / steepest) ** exponent
    h = min(unit, h1, span)
    return h if h > 0.0 and math.isfinite(h) else 1e-6 * span


@kernel(inline=True)
def continued_step(guess, before):
    """Return a first step size from a guess, and what step control wanted in the piece before (0: there is none).

    A dose changes the state but hardly the time scale, and a guess is cautious.  Where a condition changes the
    equations themselves, the guess knows it and the piece before does not: no more than ten times the guess is tried.
    """
    return max(guess, min(before, 10.0 * guess))


@kernel(inline=True, allocating=True)
def longer(array):
    """Return an array that is twice as long and begins with the entries of `array`."""
    result = np.empty(2 * array.size + 4, array.dtype)
    for i in range(array.size):
        result[i] = array[i]
    return result
