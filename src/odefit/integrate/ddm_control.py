"""Step sizes and orders of `ddm`, chosen as in LSODE."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from odefit.integrate.balance import INCREMENT
from odefit.integrate.ddm_room import ORDER, POINTS, POWER, TAKEN, TEST
from odefit.integrate.multistep import MAX_ORDER, add_node, bdf_formula, inverse_sum, ratio_of_error
from odefit.integrate.stepping import scaled_norm
from odefit.native.kernel import kernel

_GROW_FIRST, _GROW_MOST, _WORTH_A_CHANGE = 10.0, 4.0, 1.15
_FIRST_STEPS = 10  # that may grow by _GROW_FIRST
_BIAS_DOWN, _BIAS_SAME, _BIAS_UP = 1.3, 1.2, 1.4
_SMALLEST_RATIO = 1e-10


def first_step_of(slope: Any) -> Any:
    """Return the kernel that guesses a step size whose local error at order 1, h^2 y''/2, is a tenth of the tolerance.

    Rates at ``y[0]`` stand in ``f[0]``; y'' is estimated by an explicit step and another `slope`, see `ddm_forms.Form`.
    """

    @kernel(inline=True)
    def first_step(task, e, room, t, t_end, y, f, work):
        n, rtol, atol, span = task.n, task.rtol, room.atol, t_end - t
        size, speed = scaled_norm(y, 0, y, n, rtol, atol), scaled_norm(f, 0, y, n, rtol, atol)
        h = 1e-6 * span if size < 1e-10 or speed * span < 1e-10 else 0.01 * size / speed
        h = min(h, span)
        bend = np.inf
        for _ in range(20):
            for i in range(n):
                work[1, i] = y[0, i] + h * f[0, i]
            slope(task, e, room, t + h, INCREMENT * span, work, 1, f, 1)
            for i in range(n):
                work[2, i] = f[1, i] - f[0, i]
            bend = scaled_norm(work, 2, y, n, rtol, atol) / h
            if math.isfinite(bend):
                break
            h *= 0.1
        wanted = 100.0 * h if bend == 0.0 else math.sqrt(0.2 / bend)
        h = min(100.0 * h, wanted, span)
        return h if h > 0.0 and math.isfinite(h) else 1e-6 * span

    return first_step


@kernel(inline=True)
def _factor(ratio, order, bias):
    """Return by how much the step may change at an order with this error over tolerance."""
    return 1.0 / (bias * max(ratio, _SMALLEST_RATIO) ** (1.0 / (order + 1)))


@kernel(inline=True)
def power_of(order, power):
    """Return the power to which the tolerance of a step is raised."""
    return (order + 1.0) / order if power else 1.0


@kernel(inline=True)
def _largest_ratio(task, room, scale, order):
    """Return the largest error over tolerance at an order, of the states and, if they take part, the sensitivities."""
    y, s, power = room.y, room.s, power_of(order, (task.choices & POWER) != 0)
    ratio, _ = ratio_of_error(y, room.slot, room.w, y.shape[1], scale, task.rtol, room.atol, 1, power)
    if (task.choices & TEST) != 0:
        other, _ = ratio_of_error(s, room.slot, room.w, s.shape[1], scale, task.rtol, room.atol, 4, power)
        ratio = max(ratio, other)
    return ratio


@kernel(inline=True)
def next_step(task, room, ratio):
    """Return the order of the next step and the factor of its size; 1.0 if a change is not worth while.

    `w` holds the weights of the predictor of the last step, whose error over tolerance is `ratio`.
    """
    psi, k, points = room.psi, room.state[ORDER], room.state[POINTS]
    up = down = 0.0
    same = _factor(ratio, k, _BIAS_SAME)
    if k < MAX_ORDER and points >= k + 2:
        add_node(psi, k + 2, room.w)
        scale = 1.0 / (psi[k + 2] * inverse_sum(psi, k + 1))
        up = _factor(_largest_ratio(task, room, scale, k + 1), k + 1, _BIAS_UP)
    if k > 1:
        bdf_formula(psi, k, room.w, room.c)
        scale = 1.0 / (psi[k] * inverse_sum(psi, k - 1))
        down = _factor(_largest_ratio(task, room, scale, k - 1), k - 1, _BIAS_DOWN)
    best = max(same, up, down)
    if best < _WORTH_A_CHANGE:
        return k, 1.0
    if best == up:
        k += 1
    elif best == down and best != same:
        k -= 1
    return k, min(best, _GROW_FIRST if room.state[TAKEN] < _FIRST_STEPS else _GROW_MOST)


@kernel(inline=True)
def retry_step(k, fails, ratio, converged, finite):
    """Return the order and the factor of the step size for another attempt after the last of `fails` failures."""
    factor = 0.1 if not finite else 0.25
    if finite and converged:
        factor = max(0.1, min(0.9, 1.0 / (_BIAS_SAME * ratio ** (1.0 / (k + 1)))))
        if fails > 1:
            factor *= 0.5
    if fails > 2:
        k = 1
    elif fails > 1 and k > 1:
        k -= 1
    return k, factor
