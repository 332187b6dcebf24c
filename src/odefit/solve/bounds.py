"""Bounds of the unknowns: where a step arrives, and which unknowns stay at a bound that they have reached."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from odefit.native.kernel import kernel

Array = npt.NDArray[np.float64]


@kernel(inline=True)
def arrive(x, v, lower, upper, x_new):
    """Set ``x_new = x + v``; a bound is met exactly, not to rounding (it would never become active)."""
    for i in range(x.size):
        near = 1e-15 * max(abs(x[i]), abs(v[i]))  # a step that a radius ends may end there by rounding only
        if v[i] <= lower[i] - x[i] + near:
            x_new[i] = lower[i]
        elif v[i] >= upper[i] - x[i] - near:
            x_new[i] = upper[i]
        else:
            x_new[i] = min(upper[i], max(lower[i], x[i] + v[i]))


@kernel
def arrival(x, v, lower, upper):
    """Return where the step `v` leads; see `arrive`."""
    x_new = np.empty_like(x)
    arrive(x, v, lower, upper, x_new)
    return x_new


def pressed(x: Array, lower: Array, upper: Array, descent: Array) -> npt.NDArray[np.bool_]:
    """Tell which unknowns the gradient presses against a bound that they have reached."""
    return ((x <= lower) & (descent <= 0.0)) | ((x >= upper) & (descent >= 0.0))
