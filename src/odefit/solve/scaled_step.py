"""Steps in the metric of the scaled unknowns (Levenberg and Marquardt), for linear models of any structure.

The damped problem min ||J s z - c||^2 + mu ||z||^2 is reduced by the linear model to its retained unknowns, solved
there, and expanded.  mu is found by a secant iteration on 1/||z(mu)||, which is nearly linear in mu.  Where nothing
determines an unknown, a damping at the level of rounding keeps the step finite.

Bounds (see `box_step`: here M is the identity, and problems are solved by the linear model) and the second-order
correction are handled as in the metric of the factors (see `factor_step`).  The only filter is damping.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.errors import OdefitError
from odefit.native.kernel import kernel
from odefit.solve.bounds import arrival, pressed
from odefit.solve.box_step import FRACTION, LONGEST, MOST_DAMPINGS, PATIENCE, PRESSED, SHORTEST, next_damping
from odefit.solve.contract import Flags, LeastSquares, LinearModel
from odefit.solve.gradient_step import FRACTION_OF_GRADIENT, gradient_step, needs_comparison, promised_reductions
from odefit.solve.scaling import Scaling
from odefit.solve.steps import DAMPED, StepInfo
from odefit.solve.weighted_factors import RANK_TOLERANCE

Array = npt.NDArray[np.float64]
Sides = npt.NDArray[np.int64]

_RADIUS_TOLERANCE = 0.1  # a step may be so much longer than the trust region


@kernel
def solve_triangle(r, b, negligible, fixed, z):
    """Solve ``R z = b``, zero where nothing determines an unknown.

    Returns
    -------
    removed, rank, smallest, largest
        As in `Reduced`, of the unknowns that are not fixed.
    """
    n = b.size
    removed, rank, smallest, largest = 0.0, 0, np.inf, 0.0
    for i in range(n - 1, -1, -1):
        size = abs(r[i, i])
        if not fixed[i]:
            removed += b[i] ** 2
            rank += 1 if size > negligible else 0
            smallest, largest = min(smallest, size), max(largest, size)
        total = b[i]
        for j in range(i + 1, n):
            total -= r[i, j] * z[j]
        z[i] = total / r[i, i] if size > negligible else 0.0
    return removed, rank, smallest, largest


class ScaledSteps:
    """The step problem of the present point; see `odefit.solve.steps.StepProblem`."""

    def __init__(self, scaling: Scaling, lower: Array, upper: Array, root: Array) -> None:
        if root.size:
            raise OdefitError("steps in the metric of the scaled unknowns cannot meet data of very large weight.")
        self._scaling = scaling
        self._lower, self._upper = lower, upper
        self.held = np.zeros(lower.size, np.bool_)

    def move(self, linear: LinearModel, x: Array) -> None:
        """Become the step problem at this point."""
        lower, upper = self._lower, self._upper
        self._linear, self._x = linear, x
        self._scale = self._scaling.of(x)
        self._descent = linear.descent()
        largest = float(np.max(linear.column_norms() * self._scale, initial=0.0))
        self._smallest = RANK_TOLERANCE * largest
        self._low, self._high = np.minimum(0.0, lower - x), np.maximum(0.0, upper - x)
        self.held = pressed(x, lower, upper, self._descent)
        self._full: tuple[float, int, float] | None = None
        self._mu, self._fixed = 0.0, self.held

    def _solve(self, right: Array, fixed: Flags, mu: float) -> tuple[Array, tuple[float, int, float]]:
        """Return the scaled step for this damping, with decrement, rank and condition."""
        least = self._smallest**2  # in directions that nothing determines the step shall stay finite
        negligible = 2.0 * self._smallest
        reduced = self._linear.reduce(max(mu, least), self._scale, fixed, right, negligible)
        z = np.empty(reduced.b.size)
        removed, rank, smallest, largest = solve_triangle(reduced.R, reduced.b, negligible, reduced.fixed, z)
        smallest, largest = min(smallest, reduced.smallest), max(largest, reduced.largest)
        condition = 1.0 if largest == 0.0 else smallest / largest
        return self._linear.expand(reduced, z), (math.sqrt(removed + reduced.removed), rank + reduced.rank, condition)

    def _within(self, right: Array, fixed: Flags, radius: float) -> tuple[Array, float, float]:
        """Return the step in scaled unknowns, its length and mu."""
        z, measures = self._solve(right, fixed, 0.0)
        if self._full is None:
            self._full = measures
        length = float(np.linalg.norm(z))
        if length <= radius:
            return z, length, 0.0
        low, low_value = 0.0, 1.0 / length
        mu, target = max(self._mu, (measures[0] / radius) ** 2 * 1e-2), 1.0 / radius
        for _ in range(30):
            z, _ = self._solve(right, fixed, mu)
            length = float(np.linalg.norm(z))
            if abs(length - radius) <= _RADIUS_TOLERANCE * radius:
                break
            value = 1.0 / max(length, 1e-300)
            guess = low + (target - low_value) * (mu - low) / max(value - low_value, 1e-300)
            if value < target:
                low, low_value = mu, value
            mu = min(max(guess, 1.1 * low), 100.0 * mu)
        return z, length, mu

    def step(self, radius: float, filter: int = DAMPED) -> StepInfo:
        """Return the step for this radius."""
        if filter != DAMPED:
            raise OdefitError("steps in the metric of the scaled unknowns can be damped only.")
        z, length, mu = self._within(self._linear.right, self.held, radius)
        v, fixed = np.where(self.held, 0.0, self._scale * z), self.held
        clipped = bool(((v < self._low) | (v > self._high)).any())
        if clipped:
            v, fixed, length, mu = self._within_box(radius, mu)
        self._mu, self._fixed = mu, fixed
        promised = self._promised(v)
        assert self._full is not None
        decrement, rank, condition = self._full
        if (clipped or not promised > 0.0) and needs_comparison(promised, decrement):
            along = gradient_step(
                self._images, self._linear.right.ravel(), self._descent, self._scale, self._low, self._high, radius
            )
            if not promised >= FRACTION_OF_GRADIENT * along.promised:
                v, length, promised = along
        settled = rank + int(np.count_nonzero(self.held))
        return StepInfo(self._arrive(v), v, rank, mu, length, decrement, promised, condition, settled)

    def _within_box(self, radius: float, damping: float) -> tuple[Array, Flags, float, float]:
        """Return the step in the box, which of its unknowns are on bounds, its length and mu; see `box_step`."""
        assert self._full is not None
        low, high = (np.where(self.held, 0.0, side / self._scale) for side in (self._low, self._high))
        side, z = np.where(low == high, -1, 0), np.zeros(self._x.size)
        above, below = 0.0, (self._full[0] / radius) ** 2 if radius < math.inf else 0.0
        inverse_above = inverse_below = length = 0.0
        mu = damping
        for _ in range(MOST_DAMPINGS):
            share = FRACTION if mu > 0.0 else 1.0
            z, side = self._exchanged(mu, share * low, share * high, side)
            length = float(np.linalg.norm(z))
            if length <= LONGEST * radius and (mu == 0.0 or length >= SHORTEST * radius):
                break
            if length > radius:
                above, inverse_above = mu, 1.0 / length
            else:
                below, inverse_below = mu, 1.0 / max(length, 1e-300)
            mu = next_damping.py_func(above, inverse_above, below, inverse_below, 1.0 / radius)
        # a bound is met exactly
        v = np.where(z == low, self._low, np.where(z == high, self._high, self._scale * z))
        return np.where(self.held, 0.0, v), side != 0, length, mu

    def _exchanged(self, mu: float, low: Array, high: Array, side: Sides) -> tuple[Array, Sides]:
        """Return the solution in the box for one mu, by exchanges from the sides on; see `box_step`."""
        damping, n = max(mu, self._smallest**2), low.size
        sizes = self._linear.column_norms() * self._scale
        fewest, patience = n + 1, PATIENCE
        z = np.zeros(n)
        for _ in range(4 * n + 20):
            fixed = side != 0
            z = np.where(side < 0, low, np.where(side > 0, high, 0.0))
            z = np.where(fixed, z, self._solve(self._left(z), fixed, mu)[0])
            left = self._left(z)
            slope = self._scale * self._linear.descent(left) - damping * z
            pressed_out = -side * slope <= PRESSED * sizes * float(np.linalg.norm(left))
            wanted = np.where(fixed, np.where(pressed_out | (low == high), side, 0), (z > high) * 1 - (z < low) * 1)
            broken = np.flatnonzero(wanted != side)
            if not broken.size:
                return z, side
            if broken.size < fewest:
                fewest, patience = broken.size, PATIENCE
            elif patience > 0:
                patience -= 1
            else:
                broken = broken[-1:]
            side = side.copy()
            side[broken] = wanted[broken]
        return np.clip(z, low, high), side  # rounding decides: some point of the box

    def _left(self, z: Array) -> Array:
        """Return what a step in scaled unknowns leaves of the residual, in reduced coordinates."""
        return self._linear.right - self._linear.times((self._scale * z)[None, :])[0]

    def _images(self, steps: Array) -> Array:
        return self._linear.times(steps).reshape(steps.shape[0], -1)

    def _arrive(self, v: Array) -> Array:
        return arrival(self._x, v, self._lower, self._upper)

    def _promised(self, v: Array) -> float:
        return float(promised_reductions(self._images(v[None, :]), self._linear.right.ravel())[0])

    def shortened(self, step: StepInfo, alpha: float) -> StepInfo:
        """Return the fraction `alpha` of a step."""
        v = alpha * step.v
        return step._replace(x=self._arrive(v), v=v, length=alpha * step.length, promised=self._promised(v))

    def correction(self, step: StepInfo, trial: LeastSquares) -> tuple[Array, float]:
        """See `StepProblem`."""
        moved = self._linear.times(step.v[None, :])[0]
        curvature = 2.0 * (self._linear.reduce_residual(trial.residual) - self._linear.right + moved)
        z, _ = self._solve(curvature, self._fixed, self._mu)
        v = step.v + 0.5 * self._scale * np.where(self._fixed, 0.0, z)
        return self._arrive(np.clip(v, self._low, self._high)), float(np.linalg.norm(z))
