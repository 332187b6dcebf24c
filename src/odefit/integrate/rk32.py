"""Runge-Kutta 3(2) of diffpar: three stages, for moderate accuracy.

L. Edsberg and P.-A. Wedin, Optimization Methods and Software 6 (1995) 193-217, sections 3.3.1-3.3.3.  One step is

    q1 = f(t, y),   q2 = f(t + h, y + h q1),   q3 = f(t + h/2, y + h (q1 + q2)/4)
    y_new = y + h (q1 + q2 + 4 q3)/6                                                 (34), (35)
    y_est = y + h (q1 + q2)/2,   so that   y_est - y_new = h (q1 + q2 - 2 q3)/3      (36)

and with a = (t_out - t)/h, d = (y_new - y)/h and f_new = f(t + h, y_new) the output between the grid points is

    y(t + a h) = y + a h (f + a (d - f) + a (a - 1)(f_new - 2 d + f)),               (45), (46)

the cubic Hermite polynomial: values and slopes at both ends are those of the solution, and the order 3
is kept.  f_new is a fourth stage and the first one of the next step; a step where it is not finite is rejected.

The error is tested state by state against ``atol + rtol |y|`` where (37) takes one norm of the whole vector:
states of different size would hide behind the largest one.  The next step is that of (42),
h_new = h 0.9 (tolerance/error)^(1/3), no longer than the segment; moreover at most five times as long
and at least a fifth (a tenth where a value is not finite), and no longer than before right after a rejection.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.integrate.directions import slopes_of
from odefit.integrate.explicit import ExplicitRungeKutta, Scheme, explicit_kernel
from odefit.native.calls import call_model
from odefit.native.kernel import kernel

_SIXTH, _THIRD = 1 / 6, 1 / 3


@kernel(inline=True)
def _stage(s, y, h, k, n, out, row):
    """Set ``out[row, :n]`` to the value at stage `s`; at the last one this is the new value."""
    if s == 1:
        for i in range(n):
            out[row, i] = y[0, i] + h * k[0, i]
    elif s == 2:
        for i in range(n):
            out[row, i] = y[0, i] + 0.25 * h * (k[0, i] + k[1, i])
    else:
        for i in range(n):
            out[row, i] = y[0, i] + _SIXTH * h * (k[0, i] + k[1, i] + 4.0 * k[2, i])


@kernel(inline=True)
def stages_of_states(rhs, t, h, y, p, u, n, k, states):
    """Fill the stages of the states; see `Scheme`."""
    _stage(1, y, h, k, n, states, 1)
    call_model(rhs, t + h, states, n, p, u, k, n)
    _stage(2, y, h, k, n, states, 2)
    call_model(rhs, t + 0.5 * h, states, 2 * n, p, u, k, 2 * n)
    _stage(3, y, h, k, n, states, 3)
    call_model(rhs, t + h, states, 3 * n, p, u, k, 3 * n)


@kernel(inline=True)
def stages_of_directions(directions, t, h, c_flat, z_flat, z, seeds, p, u, n, states, k_flat, k):
    """Compute Q2, Q3 and the slopes at the new point (43), at the stages of the states."""
    size = c_flat.shape[1]
    _stage(1, c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + h, states, n, p, u, z, seeds, n, k, 1)
    _stage(2, c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + 0.5 * h, states, 2 * n, p, u, z, seeds, n, k, 2)
    _stage(3, c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + h, states, 3 * n, p, u, z, seeds, n, k, 3)


@kernel(inline=True)
def error_norm(y, states, h, k, n, rtol, atol):
    """Return the largest error over tolerance, and the state it belongs to.

    The new value and its slope are not part of the estimate: where one is not finite, the error is infinite.
    """
    ratio = -1.0
    cause = 0
    for i in range(n):
        e = _THIRD * h * (k[0, i] + k[1, i] - 2.0 * k[2, i])
        part = abs(e / (atol + rtol * max(abs(y[0, i]), abs(states[3, i]))))
        if math.isnan(part) or not (math.isfinite(states[3, i]) and math.isfinite(k[3, i])):
            return np.inf, i
        if part > ratio:
            ratio = part
            cause = i
    return ratio, cause


@kernel(inline=True)
def _interpolation_weights(x, w):
    """Fill the weights of q1, q2, q3 and f_new in (45), where d = (q1 + q2 + 4 q3)/6."""
    bend = x * x * (x - 1.0)
    secant = x * x - 2.0 * bend
    w[0] = x - x * x + bend + _SIXTH * secant
    w[1] = _SIXTH * secant
    w[2] = 4.0 * _SIXTH * secant
    w[3] = bend


@kernel(inline=True)
def _interpolate(y, h, k, n, w, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (w[0] * k[0, i] + w[1] * k[1, i] + w[2] * k[2, i] + w[3] * k[3, i])


_SCHEME = Scheme(
    nodes=np.array([0.0, 1.0, 0.5, 1.0]),
    n_stages=4,
    error_order=3,
    beta=0.0,
    grow_most=5.0,
    smallest_ratio=1e-4,
    stiff_from=np.inf,
    stage=_stage,
    state_stages=stages_of_states,
    direction_stages=stages_of_directions,
    error=error_norm,
    weights=_interpolation_weights,
    interpolate=_interpolate,
)


class Rk32(ExplicitRungeKutta):
    """The explicit Runge-Kutta method 3(2) of diffpar; see the module for the mathematics."""

    name = "rk32"
    kernel = staticmethod(explicit_kernel("rk32_solve", _SCHEME))
