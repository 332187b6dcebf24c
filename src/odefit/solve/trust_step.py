"""The trust-region step in the metric of the column-pivoted QR factors, with bounds.

The reduced problem min ||R dx - b|| is scaled (dx = s z) and factored with column pivoting,

    R diag(s) P = Q D U,     D diagonal and decreasing, U upper triangular with unit diagonal,

so that with x = U P' z and c = Q' b it reads min ||D x - c||, a diagonal problem.  U is well
conditioned: it is enough to restrict ||x|| <= Delta (Edsberg and Wedin (27), (28), after Osborne), with

    x_i = d_i c_i / (d_i^2 + mu),     mu = 0 if that fits, else ||x(mu)|| = Delta .

Bounds are handled by an active set inside the step: unknowns that would leave the box are put on
their bound, and the problem is solved again in the others.  Should the result promise less than a tenth
of what a projected gradient step does, the latter is taken.

**Second-order correction.**  The trial residual r(x + v) tells the curvature along v: with the same
filter, x^a_i = [d_i/(d_i^2 + mu)] c^a_i for c^a = -2 Q'(r(x + v) - r - S v), and the corrected step is
v + v^a/2 .  It costs one evaluation and is tried where the linear prediction was poor and much was at
stake; near the solution the ratio of real to predicted reduction tends to a constant that depends on
the curvature there, and a correction gains nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.native.kernel import kernel
from odefit.native.orthogonal import _apply_transposed, _factor_pivoted
from odefit.solve.contract import Reduced
from odefit.solve.scaling import Scaling, _scale

Array = npt.NDArray[np.float64]

_FRACTION_OF_GRADIENT = 0.1  # of what a projected gradient step promises, that a step must promise
_RANK_TOLERANCE = 1e-10  # relative to the largest diagonal element: a guard against rounding only


@kernel
def _norm(x, n):
    total = 0.0
    for i in range(n):
        total += x[i] * x[i]
    return math.sqrt(total)


@kernel
def _damping(d, c, rank, radius):
    """Return mu >= 0 such that ||d c/(d^2 + mu)|| <= radius, with equality unless mu = 0."""
    total = 0.0
    for i in range(rank):
        total += (c[i, 0] / d[i]) ** 2
    if math.sqrt(total) <= radius:
        return 0.0
    # Newton's method on 1/radius - 1/||x(mu)||, concave and increasing: monotone from the left
    mu = 0.0
    for _ in range(100):
        norm2, slope = 0.0, 0.0
        for i in range(rank):
            e = d[i] * d[i] + mu
            xi = d[i] * c[i, 0] / e
            norm2 += xi * xi
            slope += xi * xi / e
        norm = math.sqrt(norm2)
        if norm <= radius * (1.0 + 1e-3):
            break
        mu += (norm / radius - 1.0) * norm2 / slope
    return mu


@kernel
def _back_transform(a, pivot, x, rank, n_free, free, scale, v):
    """Set ``v[free] = s P U^-1 x`` for x that is zero beyond the rank; overwrites `x` by U^-1 x."""
    for i in range(rank - 1, -1, -1):
        total = 0.0
        for j in range(i + 1, rank):
            total += a[i, j] * x[j]
        x[i] -= total / a[i, i]
    for i in range(n_free):
        k = free[pivot[i]]
        v[k] = scale[k] * x[i]


@kernel
def _promised(r, b, v):
    """Return (||b||^2 - ||b - R v||^2)/2."""
    n = b.size
    total = 0.0
    for i in range(n):
        w = 0.0
        for j in range(i, n):
            w += r[i, j] * v[j]
        total += w * (2.0 * b[i] - w)
    return 0.5 * total


@kernel
def _gradient_step(r, b, scale, low, high, radius, v):
    """Set `v` to the best of some projected, scaled gradient steps within the radius; return its length."""
    n = b.size
    p = np.empty(n)
    for j in range(n):
        g = 0.0
        for i in range(j + 1):
            g += r[i, j] * b[i]
        p[j] = g * scale[j]
    length = _norm(p, n)
    if length == 0.0:
        for j in range(n):
            v[j] = 0.0
        return 0.0
    t, best, best_t = radius / length, 0.0, 0.0
    for _ in range(60):
        for j in range(n):
            v[j] = min(high[j], max(low[j], t * scale[j] * p[j]))
        promised = _promised(r, b, v)
        if promised > best:
            best, best_t = promised, t
        t *= 0.5
    for j in range(n):
        v[j] = min(high[j], max(low[j], best_t * scale[j] * p[j]))
    return best_t * length


@kernel
def _active(r, b, x, lower, upper, held):
    """Mark the unknowns that the gradient -R'b presses against a bound they have reached."""
    for j in range(b.size):
        descent = 0.0
        for i in range(j + 1):
            descent += r[i, j] * b[i]
        held[j] = (x[j] <= lower[j] and descent <= 0.0) or (x[j] >= upper[j] and descent >= 0.0)


@kernel
def _free_problem(r, b, v, scale, fixed, free, work, c):
    """Set up the scaled problem in the free unknowns, the others moved to the right-hand side."""
    n = b.size
    n_free = 0
    for j in range(n):
        if not fixed[j]:
            free[n_free] = j
            n_free += 1
    for i in range(n):
        w = 0.0
        for j in range(i, n):
            if fixed[j]:
                w += r[i, j] * v[j]
        c[i, 0] = b[i] - w
        for j in range(n_free):
            work[i, j] = r[i, free[j]] * scale[free[j]]
    return n_free


@kernel
def _clip_to_box(free, n_free, low, high, fixed, v):
    """Put unknowns that leave the box on their bound; return whether there were any."""
    hit = False
    for i in range(n_free):
        k = free[i]
        if v[k] < low[k] or v[k] > high[k]:
            v[k] = low[k] if v[k] < low[k] else high[k]
            fixed[k] = True
            hit = True
    return hit


@kernel
def _arrive(x, v, lower, upper, x_new):
    """Set ``x_new = x + v``; a bound is met exactly, not to rounding (it would never become active)."""
    for i in range(x.size):
        if v[i] <= lower[i] - x[i]:
            x_new[i] = lower[i]
        elif v[i] >= upper[i] - x[i]:
            x_new[i] = upper[i]
        else:
            x_new[i] = min(upper[i], max(lower[i], x[i] + v[i]))


@kernel
def bounded_step(r, b, x, start, logarithmic, lower, upper, radius, a, beta, pivot, free, held, scale, v, x_new, info):
    """Solve the trust-region problem in a box.

    Parameters
    ----------
    r, b
        Reduced problem.
    x, start, logarithmic, lower, upper
        Where we are, what the scales need, and the box.
    radius
        Bound on ||x|| in the metric of the factors.
    a, beta, pivot, free, held, scale
        Filled: factors, pivots and free unknowns of the last problem solved, unknowns that stay at their
        bounds, scales.
    v, x_new
        Filled: the step and where it leads.
    info
        Filled: number of free unknowns, rank, mu, length ||x||, decrement, promised reduction, and the
        rank of the first problem (before any bound was met).
    """
    n = b.size
    fixed = np.empty(n, dtype=np.bool_)
    low, high = np.empty(n), np.empty(n)
    d, c, z = np.empty(n), np.empty((n, 1)), np.empty(n)
    _active(r, b, x, lower, upper, held)
    for i in range(n):
        fixed[i] = held[i]
        low[i], high[i] = min(0.0, lower[i] - x[i]), max(0.0, upper[i] - x[i])
        scale[i] = _scale(x[i], start[i], logarithmic[i])
        v[i] = 0.0
    decrement, first_rank, clipped = 0.0, 0, False
    n_free, rank, mu, length = 0, 0, 0.0, 0.0
    for sweep in range(n + 1):
        n_free = _free_problem(r, b, v, scale, fixed, free, a, c)
        _factor_pivoted(a, n_free, beta, pivot)
        _apply_transposed(a, n_free, beta, c)
        rank = 0
        while rank < n_free and abs(a[rank, rank]) > _RANK_TOLERANCE * abs(a[0, 0]):
            d[rank] = a[rank, rank]
            rank += 1
        if sweep == 0:
            first_rank = rank
            for i in range(rank):
                decrement += c[i, 0] * c[i, 0]
            decrement = math.sqrt(decrement)
        mu = _damping(d, c, rank, radius)
        for i in range(n_free):
            z[i] = d[i] * c[i, 0] / (d[i] * d[i] + mu) if i < rank else 0.0
        length = _norm(z, n_free)
        _back_transform(a, pivot, z, rank, n_free, free, scale, v)
        if not _clip_to_box(free, n_free, low, high, fixed, v):
            break
        clipped = True
    promised = _promised(r, b, v)
    if clipped or not promised > 0.0:
        # too many unknowns may have been put on bounds at once: never do worse than the gradient
        along_gradient = np.empty(n)
        gradient_length = _gradient_step(r, b, scale, low, high, radius, along_gradient)
        gradient_promised = _promised(r, b, along_gradient)
        if not promised >= _FRACTION_OF_GRADIENT * gradient_promised:
            promised, length = gradient_promised, gradient_length
            for i in range(n):
                v[i] = along_gradient[i]
    _arrive(x, v, lower, upper, x_new)
    info[0], info[1], info[2], info[3] = n_free, rank, mu, length
    info[4], info[5], info[6] = decrement, promised, first_rank


@kernel
def corrected_step(r, b, b_trial, x, lower, upper, a, beta, pivot, free, scale, info, v, x_new):
    """Set ``x_new = x + v + v^a/2``, kept inside the box; return ||x^a||."""
    n = b.size
    n_free, rank, mu = int(info[0]), int(info[1]), info[2]
    c, z, w = np.empty((n, 1)), np.empty(n), np.empty(n)
    for i in range(n):
        total = 0.0
        for j in range(i, n):
            total += r[i, j] * v[j]
        c[i, 0] = 2.0 * (b_trial[i] - b[i] + total)
        w[i] = 0.0
    _apply_transposed(a, n_free, beta, c)
    for i in range(n_free):
        z[i] = a[i, i] * c[i, 0] / (a[i, i] ** 2 + mu) if i < rank else 0.0
    length = _norm(z, n_free)
    _back_transform(a, pivot, z, rank, n_free, free, scale, w)
    for i in range(n):
        w[i] = v[i] + 0.5 * w[i]
    _arrive(x, w, lower, upper, x_new)
    return length


class StepInfo(NamedTuple):
    """What is known of a step before it is tried; `x` is where it leads."""

    x: Array
    v: Array
    rank: int
    damping: float
    length: float
    decrement: float
    promised: float


@dataclass(frozen=True)
class TrustStep:
    """Makes the step problems of a minimisation.

    Attributes
    ----------
    correct_below, correct_above
        A second-order correction is tried if real over predicted reduction is below the first, and the
        predicted reduction above this fraction of the objective.
    """

    correct_below: float = 0.9
    correct_above: float = 1e-2

    def prepare(self, reduced: Reduced, x: Array, scaling: Scaling, lower: Array, upper: Array) -> TrustStepProblem:
        """Return the step problem at `x`."""
        return TrustStepProblem(reduced, x, scaling, lower, upper)

    def wants_correction(self, ratio: float, promised: float, value: float) -> bool:
        """Tell whether a correction is worth an evaluation."""
        return ratio < self.correct_below and promised > self.correct_above * value


class TrustStepProblem:
    """The step problem of the present point; owned by one minimisation, which moves it along."""

    __slots__ = ("_bounds", "_factors", "_info", "_reduced", "_scale", "_scaling", "_x", "held")

    def __init__(self, reduced: Reduced, x: Array, scaling: Scaling, lower: Array, upper: Array) -> None:
        n = x.size
        self._reduced = reduced
        self._x = x
        self._scaling = scaling
        self._bounds = (lower, upper)
        self._factors = (np.empty((n, n)), np.empty(n), np.empty(n, np.int64), np.empty(n, np.int64))
        self._scale = np.empty(n)
        self._info = np.empty(7)
        self.held = np.empty(n, np.bool_)

    def move(self, reduced: Reduced, x: Array) -> None:
        """Become the step problem at another point."""
        self._reduced = reduced
        self._x = x

    def step(self, radius: float) -> StepInfo:
        """Return the step for this radius; `held` then marks the active bounds."""
        v, x = np.empty(self._x.size), np.empty(self._x.size)
        bounded_step(
            self._reduced.R, self._reduced.b, self._x, self._scaling.start, self._scaling.logarithmic,
            *self._bounds, radius, *self._factors, self.held, self._scale, v, x, self._info,
        )  # fmt: skip
        _, _, mu, length, decrement, promised, rank = self._info.tolist()
        return StepInfo(x, v, int(rank), mu, length, decrement, promised)

    def correction(self, step: StepInfo, b_trial: Array) -> tuple[Array, float]:
        """Return the corrected point and the length of the correction, from ``b`` of the trial residual."""
        x = np.empty(self._x.size)
        length = corrected_step(
            self._reduced.R, self._reduced.b, b_trial, self._x, *self._bounds,
            *self._factors, self._scale, self._info, step.v, x,
        )  # fmt: skip
        return x, length
