"""How the solver sees a parameter: theta = s^-1(q) for the natural value q, one scale per parameter.

======  =================================  ====================  ========================
scale   q(theta)                           dq/dtheta             d2q/dtheta2
======  =================================  ====================  ========================
linear  theta                              1                     0
log     exp(theta)                         q                     q
log10   10^theta                           q ln 10               q (ln 10)^2
logit   a + (b - a) z, z = 1/(1+e^-theta)  (b - a) z (1 - z)     (b - a) z (1 - z)(1 - 2z)
======  =================================  ====================  ========================

`CODES` holds what kernels call a scale.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.native.kernel import kernel
from odefit.problem.parameters import SCALES

CODES = {name: code for code, name in enumerate(SCALES)}
LINEAR, LOG, LOG10, LOGIT = (CODES[name] for name in ("linear", "log", "log10", "logit"))
_LN10 = math.log(10.0)


@kernel(inline=True)
def natural_value(code, theta, lower, upper):
    """Return q, dq/dtheta, d2q/dtheta2."""
    if code == LINEAR:
        return theta, 1.0, 0.0
    if code == LOG:
        q = math.exp(theta)
        return q, q, q
    if code == LOG10:
        q = math.exp(_LN10 * theta)
        return q, q * _LN10, q * _LN10 * _LN10
    small = math.exp(-abs(theta))
    share = 1.0 / (1.0 + small)  # z or 1 - z, whichever is larger
    slope = (upper - lower) * small * share * share
    bend = slope * (1.0 - small) * share
    if theta < 0.0:
        return lower + (upper - lower) * small * share, slope, bend
    return lower + (upper - lower) * share, slope, -bend


@kernel
def natural_values(codes, theta, lower, upper, q, dq, d2q):
    """Fill natural values and their derivatives; all arrays have shape (n_theta,)."""
    for i in range(theta.size):
        q[i], dq[i], d2q[i] = natural_value(codes[i], theta[i], lower[i], upper[i])


@kernel(inline=True)
def solver_value(code, value, lower, upper):
    """Return theta for a natural value; values that the scale cannot reach map to -inf or inf."""
    if code == LINEAR:
        return value
    if code == LOG or code == LOG10:
        if value <= 0.0:
            return -math.inf
        return math.log(value) if code == LOG else math.log10(value)
    if value <= lower:
        return -math.inf
    return math.inf if value >= upper else math.log((value - lower) / (upper - value))


@kernel
def solver_values(codes, natural, lower, upper, theta):
    """Fill theta (n_theta,); return the first value outside its bounds or out of reach of its scale, -1 if none is."""
    for i in range(natural.size):
        if not lower[i] <= natural[i] <= upper[i]:  # NaN, too
            return i
        theta[i] = solver_value(codes[i], natural[i], lower[i], upper[i])
        if not math.isfinite(theta[i]):
            return i
    return -1


def scaled_array(
    codes: npt.NDArray[np.int64], values: npt.NDArray[np.float64], lower, upper
) -> npt.NDArray[np.float64]:
    """Return theta for natural values, inside the bounds or not; see `solver_value`."""
    result = np.array(values, dtype=float)
    for i in np.flatnonzero(codes != LINEAR):
        # a few values once per problem: not worth the loading of a kernel
        result[i] = solver_value.py_func(int(codes[i]), float(values[i]), float(lower[i]), float(upper[i]))
    return result
