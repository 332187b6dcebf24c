"""Dormand-Prince 5(4), with its continuous extension of order 4; `tableau` has the coefficients.

Step-size control is the PI controller of Hairer's DOPRI5 (beta = 0.04), the first step size is found
by his algorithm HINIT.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.integrate.directions import slopes_of
from odefit.integrate.explicit import ExplicitRungeKutta, Scheme, explicit_kernel
from odefit.integrate.tableau import A, B, C, D, E
from odefit.native.calls import call_model
from odefit.native.kernel import kernel


@kernel(inline=True)
def _stage(s, y, h, k, n, out, row):
    """Set ``out[row, :n] = y + h sum_j A[s, j] k_j``, written out so that each is one pass over memory."""
    if s == 1:
        for i in range(n):
            out[row, i] = y[0, i] + h * (A[1, 0] * k[0, i])
    elif s == 2:
        for i in range(n):
            out[row, i] = y[0, i] + h * (A[2, 0] * k[0, i] + A[2, 1] * k[1, i])
    elif s == 3:
        for i in range(n):
            out[row, i] = y[0, i] + h * (A[3, 0] * k[0, i] + A[3, 1] * k[1, i] + A[3, 2] * k[2, i])
    elif s == 4:
        for i in range(n):
            out[row, i] = y[0, i] + h * (A[4, 0] * k[0, i] + A[4, 1] * k[1, i] + A[4, 2] * k[2, i] + A[4, 3] * k[3, i])
    elif s == 5:
        for i in range(n):
            out[row, i] = y[0, i] + h * (
                A[5, 0] * k[0, i] + A[5, 1] * k[1, i] + A[5, 2] * k[2, i] + A[5, 3] * k[3, i] + A[5, 4] * k[4, i]
            )
    else:
        for i in range(n):
            out[row, i] = y[0, i] + h * (
                A[6, 0] * k[0, i] + A[6, 2] * k[2, i] + A[6, 3] * k[3, i] + A[6, 4] * k[4, i] + A[6, 5] * k[5, i]
            )


@kernel(inline=True)
def _state_stages(rhs, t, h, y, p, u, n, k, states):
    """Compute the stages of a step.  Written out: constant rows spare the machine a dozen running pointers."""
    _stage(1, y, h, k, n, states, 1)
    call_model(rhs, t + C[1] * h, states, n, p, u, k, n)
    _stage(2, y, h, k, n, states, 2)
    call_model(rhs, t + C[2] * h, states, 2 * n, p, u, k, 2 * n)
    _stage(3, y, h, k, n, states, 3)
    call_model(rhs, t + C[3] * h, states, 3 * n, p, u, k, 3 * n)
    _stage(4, y, h, k, n, states, 4)
    call_model(rhs, t + C[4] * h, states, 4 * n, p, u, k, 4 * n)
    _stage(5, y, h, k, n, states, 5)
    call_model(rhs, t + h, states, 5 * n, p, u, k, 5 * n)
    _stage(6, y, h, k, n, states, 6)
    call_model(rhs, t + h, states, 6 * n, p, u, k, 6 * n)


@kernel(inline=True)
def _direction_stages(directions, t, h, c_flat, z_flat, z, seeds, p, u, n, states, k_flat, k):
    """Compute the stages of the first-order sensitivities at the stages of the states."""
    size = c_flat.shape[1]
    _stage(1, c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[1] * h, states, n, p, u, z, seeds, n, k, 1)
    _stage(2, c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[2] * h, states, 2 * n, p, u, z, seeds, n, k, 2)
    _stage(3, c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[3] * h, states, 3 * n, p, u, z, seeds, n, k, 3)
    _stage(4, c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[4] * h, states, 4 * n, p, u, z, seeds, n, k, 4)
    _stage(5, c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + h, states, 5 * n, p, u, z, seeds, n, k, 5)
    _stage(6, c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + h, states, 6 * n, p, u, z, seeds, n, k, 6)


@kernel(inline=True)
def _interpolation_weights(x, w):
    """Fill the weights of the stages at the fraction `x` of a step."""
    r = 1.0 - x
    for i in range(7):
        first = 1.0 if i == 0 else 0.0
        last = 1.0 if i == 6 else 0.0
        w[i] = x * (B[i] + r * ((first - B[i]) + x * ((2.0 * B[i] - first - last) + r * D[i])))


@kernel(inline=True)
def _interpolate(y, h, k, n, w, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (
            w[0] * k[0, i] + w[2] * k[2, i] + w[3] * k[3, i] + w[4] * k[4, i] + w[5] * k[5, i] + w[6] * k[6, i]
        )


@kernel(inline=True)
def _error(y, states, h, k, n, rtol, atol):
    """Return the largest error over tolerance (inf if one is not finite), and the state it belongs to.

    The maximum, not the mean: in a large model a mean lets single states miss the tolerance by far.
    """
    ratio = -1.0
    cause = 0
    for i in range(n):
        e = E[0] * k[0, i] + E[2] * k[2, i] + E[3] * k[3, i] + E[4] * k[4, i] + E[5] * k[5, i] + E[6] * k[6, i]
        part = abs(h * e / (atol + rtol * max(abs(y[0, i]), abs(states[6, i]))))
        if math.isnan(part) or math.isinf(states[6, i]):  # an infinite new value would pass: its tolerance is too
            return np.inf, i
        if part > ratio:
            ratio = part
            cause = i
    return ratio, cause


_SCHEME = Scheme(
    nodes=C,
    n_stages=7,
    error_order=5,
    beta=0.04,
    grow_most=10.0,
    smallest_ratio=1e-4,
    stiff_from=3.25,  # the limit of stability on the negative axis
    stage=_stage,
    state_stages=_state_stages,
    direction_stages=_direction_stages,
    error=_error,
    weights=_interpolation_weights,
    interpolate=_interpolate,
)


class Dopri5(ExplicitRungeKutta):
    """The explicit Runge-Kutta method of order 5 of Dormand and Prince; see the module for the mathematics."""

    name = "dopri5"
    kernel = staticmethod(explicit_kernel("dopri5_solve", _SCHEME))
