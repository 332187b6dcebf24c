"""Hairer's Runge-Kutta pair 8(5,3), with its continuous extension of order 7; `dop853_tableau` has the coefficients.

Twelve evaluations a step, the last of them shared with the next one, and three more in steps with output inside.  With
the estimates e5 and e3 of the embedded solutions of orders 5 and 3, which go with h^6 and h^4, the error of a state is

    e = e5^2 / sqrt(e5^2 + 0.01 e3^2),

which goes with h^8.  DOP853 forms it from root mean squares over all states; here each state has its own, and the
largest one over its tolerance counts.  So every state keeps its tolerance, as it does in the other methods: in a mean a
large e3 of one state would make the error of all the others look small.

Step-size control is that of DOP853: h_new = h 0.9 (tolerance/error)^(1/8), at most six times as long.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.integrate.directions import slopes_of
from odefit.integrate.dop853_tableau import E3, E5, A, B, C, D
from odefit.integrate.explicit import ExplicitRungeKutta, Scheme, explicit_kernel
from odefit.native.calls import call_model
from odefit.native.kernel import kernel

# Each stage sets ``out[row, :n] = y + h sum_j A[s, j] k_j``.  They are functions of their own: one with all of them
# would be inlined as a whole at every stage, which takes long to compile.


@kernel(inline=True)
def _stage_1(y, h, k, n, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (A[1, 0] * k[0, i])


@kernel(inline=True)
def _stage_2(y, h, k, n, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (A[2, 0] * k[0, i] + A[2, 1] * k[1, i])


@kernel(inline=True)
def _stage_3(y, h, k, n, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (A[3, 0] * k[0, i] + A[3, 2] * k[2, i])


@kernel(inline=True)
def _stage_4(y, h, k, n, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (A[4, 0] * k[0, i] + A[4, 2] * k[2, i] + A[4, 3] * k[3, i])


@kernel(inline=True)
def _stage_5(y, h, k, n, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (A[5, 0] * k[0, i] + A[5, 3] * k[3, i] + A[5, 4] * k[4, i])


@kernel(inline=True)
def _stage_6(y, h, k, n, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (A[6, 0] * k[0, i] + A[6, 3] * k[3, i] + A[6, 4] * k[4, i] + A[6, 5] * k[5, i])


@kernel(inline=True)
def _stage_7(y, h, k, n, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (
            A[7, 0] * k[0, i] + A[7, 3] * k[3, i] + A[7, 4] * k[4, i] + A[7, 5] * k[5, i] + A[7, 6] * k[6, i]
        )  # fmt: skip


@kernel(inline=True)
def _stage_8(y, h, k, n, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (
            A[8, 0] * k[0, i] + A[8, 3] * k[3, i] + A[8, 4] * k[4, i] + A[8, 5] * k[5, i] + A[8, 6] * k[6, i]
            + A[8, 7] * k[7, i]
        )  # fmt: skip


@kernel(inline=True)
def _stage_9(y, h, k, n, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (
            A[9, 0] * k[0, i] + A[9, 3] * k[3, i] + A[9, 4] * k[4, i] + A[9, 5] * k[5, i] + A[9, 6] * k[6, i]
            + A[9, 7] * k[7, i] + A[9, 8] * k[8, i]
        )  # fmt: skip


@kernel(inline=True)
def _stage_10(y, h, k, n, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (
            A[10, 0] * k[0, i] + A[10, 3] * k[3, i] + A[10, 4] * k[4, i] + A[10, 5] * k[5, i]
            + A[10, 6] * k[6, i] + A[10, 7] * k[7, i] + A[10, 8] * k[8, i] + A[10, 9] * k[9, i]
        )  # fmt: skip


@kernel(inline=True)
def _stage_11(y, h, k, n, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (
            A[11, 0] * k[0, i] + A[11, 3] * k[3, i] + A[11, 4] * k[4, i] + A[11, 5] * k[5, i]
            + A[11, 6] * k[6, i] + A[11, 7] * k[7, i] + A[11, 8] * k[8, i] + A[11, 9] * k[9, i]
            + A[11, 10] * k[10, i]
        )  # fmt: skip


@kernel(inline=True)
def _stage_12(y, h, k, n, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (
            A[12, 0] * k[0, i] + A[12, 5] * k[5, i] + A[12, 6] * k[6, i] + A[12, 7] * k[7, i]
            + A[12, 8] * k[8, i] + A[12, 9] * k[9, i] + A[12, 10] * k[10, i] + A[12, 11] * k[11, i]
        )  # fmt: skip


@kernel(inline=True)
def _stage_13(y, h, k, n, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (
            A[13, 0] * k[0, i] + A[13, 6] * k[6, i] + A[13, 7] * k[7, i] + A[13, 8] * k[8, i]
            + A[13, 9] * k[9, i] + A[13, 10] * k[10, i] + A[13, 11] * k[11, i] + A[13, 12] * k[12, i]
        )  # fmt: skip


@kernel(inline=True)
def _stage_14(y, h, k, n, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (
            A[14, 0] * k[0, i] + A[14, 5] * k[5, i] + A[14, 6] * k[6, i] + A[14, 7] * k[7, i]
            + A[14, 10] * k[10, i] + A[14, 11] * k[11, i] + A[14, 12] * k[12, i] + A[14, 13] * k[13, i]
        )  # fmt: skip


@kernel(inline=True)
def _stage_15(y, h, k, n, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (
            A[15, 0] * k[0, i] + A[15, 5] * k[5, i] + A[15, 6] * k[6, i] + A[15, 7] * k[7, i]
            + A[15, 8] * k[8, i] + A[15, 12] * k[12, i] + A[15, 13] * k[13, i] + A[15, 14] * k[14, i]
        )  # fmt: skip


@kernel(inline=True)
def _stage(s, y, h, k, n, out, row):
    if s == 1:
        _stage_1(y, h, k, n, out, row)
    elif s == 2:
        _stage_2(y, h, k, n, out, row)
    elif s == 3:
        _stage_3(y, h, k, n, out, row)
    elif s == 4:
        _stage_4(y, h, k, n, out, row)
    elif s == 5:
        _stage_5(y, h, k, n, out, row)
    elif s == 6:
        _stage_6(y, h, k, n, out, row)
    elif s == 7:
        _stage_7(y, h, k, n, out, row)
    elif s == 8:
        _stage_8(y, h, k, n, out, row)
    elif s == 9:
        _stage_9(y, h, k, n, out, row)
    elif s == 10:
        _stage_10(y, h, k, n, out, row)
    elif s == 11:
        _stage_11(y, h, k, n, out, row)
    elif s == 12:
        _stage_12(y, h, k, n, out, row)
    elif s == 13:
        _stage_13(y, h, k, n, out, row)
    elif s == 14:
        _stage_14(y, h, k, n, out, row)
    else:
        _stage_15(y, h, k, n, out, row)


@kernel(inline=True)
def _state_stages(rhs, t, h, y, p, u, n, k, states):
    _stage_1(y, h, k, n, states, 1)
    call_model(rhs, t + C[1] * h, states, n, p, u, k, n)
    _stage_2(y, h, k, n, states, 2)
    call_model(rhs, t + C[2] * h, states, 2 * n, p, u, k, 2 * n)
    _stage_3(y, h, k, n, states, 3)
    call_model(rhs, t + C[3] * h, states, 3 * n, p, u, k, 3 * n)
    _stage_4(y, h, k, n, states, 4)
    call_model(rhs, t + C[4] * h, states, 4 * n, p, u, k, 4 * n)
    _stage_5(y, h, k, n, states, 5)
    call_model(rhs, t + C[5] * h, states, 5 * n, p, u, k, 5 * n)
    _stage_6(y, h, k, n, states, 6)
    call_model(rhs, t + C[6] * h, states, 6 * n, p, u, k, 6 * n)
    _stage_7(y, h, k, n, states, 7)
    call_model(rhs, t + C[7] * h, states, 7 * n, p, u, k, 7 * n)
    _stage_8(y, h, k, n, states, 8)
    call_model(rhs, t + C[8] * h, states, 8 * n, p, u, k, 8 * n)
    _stage_9(y, h, k, n, states, 9)
    call_model(rhs, t + C[9] * h, states, 9 * n, p, u, k, 9 * n)
    _stage_10(y, h, k, n, states, 10)
    call_model(rhs, t + C[10] * h, states, 10 * n, p, u, k, 10 * n)
    _stage_11(y, h, k, n, states, 11)
    call_model(rhs, t + h, states, 11 * n, p, u, k, 11 * n)
    _stage_12(y, h, k, n, states, 12)
    call_model(rhs, t + h, states, 12 * n, p, u, k, 12 * n)


@kernel(inline=True)
def _extension_stages(rhs, t, h, y, p, u, n, k, states):
    _stage_13(y, h, k, n, states, 13)
    call_model(rhs, t + C[13] * h, states, 13 * n, p, u, k, 13 * n)
    _stage_14(y, h, k, n, states, 14)
    call_model(rhs, t + C[14] * h, states, 14 * n, p, u, k, 14 * n)
    _stage_15(y, h, k, n, states, 15)
    call_model(rhs, t + C[15] * h, states, 15 * n, p, u, k, 15 * n)


@kernel(inline=True)
def _direction_stages(directions, t, h, c_flat, z_flat, z, seeds, p, u, n, states, k_flat, k):
    """Compute the stages of the first-order sensitivities at the stages of the states."""
    size = c_flat.shape[1]
    _stage_1(c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[1] * h, states, n, p, u, z, seeds, n, k, 1)
    _stage_2(c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[2] * h, states, 2 * n, p, u, z, seeds, n, k, 2)
    _stage_3(c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[3] * h, states, 3 * n, p, u, z, seeds, n, k, 3)
    _stage_4(c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[4] * h, states, 4 * n, p, u, z, seeds, n, k, 4)
    _stage_5(c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[5] * h, states, 5 * n, p, u, z, seeds, n, k, 5)
    _stage_6(c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[6] * h, states, 6 * n, p, u, z, seeds, n, k, 6)
    _stage_7(c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[7] * h, states, 7 * n, p, u, z, seeds, n, k, 7)
    _stage_8(c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[8] * h, states, 8 * n, p, u, z, seeds, n, k, 8)
    _stage_9(c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[9] * h, states, 9 * n, p, u, z, seeds, n, k, 9)
    _stage_10(c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[10] * h, states, 10 * n, p, u, z, seeds, n, k, 10)
    _stage_11(c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + h, states, 11 * n, p, u, z, seeds, n, k, 11)
    _stage_12(c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + h, states, 12 * n, p, u, z, seeds, n, k, 12)


@kernel(inline=True)
def _extension_direction_stages(directions, t, h, c_flat, z_flat, z, seeds, p, u, n, states, k_flat, k):
    """Compute those of the continuous extension; then the new values stand in `z` again."""
    size = c_flat.shape[1]
    _stage_13(c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[13] * h, states, 13 * n, p, u, z, seeds, n, k, 13)
    _stage_14(c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[14] * h, states, 14 * n, p, u, z, seeds, n, k, 14)
    _stage_15(c_flat, h, k_flat, size, z_flat, 0)
    slopes_of(directions, t + C[15] * h, states, 15 * n, p, u, z, seeds, n, k, 15)
    _stage_12(c_flat, h, k_flat, size, z_flat, 0)


@kernel(inline=True)
def _error(y, states, h, k, n, rtol, atol):
    """Return the largest error over tolerance, and the state it belongs to.

    The slope at the new value is not part of the estimates: where it is not finite, the error is infinite.
    """
    ratio = -1.0
    cause = 0
    for i in range(n):
        e5 = (
            E5[0] * k[0, i] + E5[5] * k[5, i] + E5[6] * k[6, i] + E5[7] * k[7, i] + E5[8] * k[8, i]
            + E5[9] * k[9, i] + E5[10] * k[10, i] + E5[11] * k[11, i]
        )  # fmt: skip
        e3 = (
            E3[0] * k[0, i] + E3[5] * k[5, i] + E3[6] * k[6, i] + E3[7] * k[7, i] + E3[8] * k[8, i]
            + E3[9] * k[9, i] + E3[10] * k[10, i] + E3[11] * k[11, i]
        )  # fmt: skip
        part = abs(h * e5 / (atol + rtol * max(abs(y[0, i]), abs(states[12, i]))))
        if e5 != 0.0:
            c = 0.1 * e3 / e5  # squares of the estimates themselves might overflow
            part /= math.sqrt(1.0 + c * c)
        if math.isnan(part) or not (math.isfinite(states[12, i]) and math.isfinite(k[12, i])):
            return np.inf, i
        if part > ratio:
            ratio = part
            cause = i
    return ratio, cause


@kernel(inline=True)
def _interpolation_weights(x, w):
    """Fill the weights of the stages at the fraction `x` of a step."""
    r = 1.0 - x
    for i in range(16):
        first = 1.0 if i == 0 else 0.0
        last = 1.0 if i == 12 else 0.0
        high = D[0, i] + x * (D[1, i] + r * (D[2, i] + x * D[3, i]))
        w[i] = x * (B[i] + r * ((first - B[i]) + x * ((2.0 * B[i] - first - last) + r * high)))


@kernel(inline=True)
def _interpolate(y, h, k, n, w, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (
            w[0] * k[0, i] + w[5] * k[5, i] + w[6] * k[6, i] + w[7] * k[7, i] + w[8] * k[8, i] + w[9] * k[9, i]
            + w[10] * k[10, i] + w[11] * k[11, i] + w[12] * k[12, i] + w[13] * k[13, i] + w[14] * k[14, i]
            + w[15] * k[15, i]
        )  # fmt: skip


_SCHEME = Scheme(
    nodes=C,
    n_stages=13,
    error_order=8,
    beta=0.0,
    grow_most=6.0,
    smallest_ratio=1e-7,
    stiff_from=3.05,  # half the limit: accuracy alone needs about 1, and a grid is replayed at other parameters
    stage=_stage,
    state_stages=_state_stages,
    direction_stages=_direction_stages,
    error=_error,
    weights=_interpolation_weights,
    interpolate=_interpolate,
    extension_stages=_extension_stages,
    extension_direction_stages=_extension_direction_stages,
)


class Dop853(ExplicitRungeKutta):
    """The explicit Runge-Kutta method of order 8 of Dormand, Prince and Hairer; see the module for the mathematics."""

    name = "dop853"
    kernel = staticmethod(explicit_kernel("dop853_solve", _SCHEME))
