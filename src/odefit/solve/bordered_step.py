"""Steps for many experiments: unknowns of single blocks are eliminated block by block.

With unknowns x_b that only the rows of block b depend on, and shared ones x_s, the linear problem is

    min sum_b ||A_b x_b + C_b x_s - c_b||^2 ,

a bordered block-diagonal matrix.  Each block is reduced to a small triangle once.  For a damped step the rows
sqrt(mu) I (in scaled unknowns) enter each block *before* its own unknowns are eliminated,

    [  A_b         C_b ]          [ R_b  S_b ]
    [ sqrt(mu) I    0  ]  =  Q_b  [  0   T_b ] ,

so that a block which does not determine its unknowns is as harmless as a determined one; what is left, T_b x_s,
of all blocks and the damping of x_s make the problem of the shared unknowns.  The cost is linear in the number
of blocks.  The metric is that of the scaled unknowns (Levenberg and Marquardt), not that of a pivoted
factor, which elimination block by block does not have; mu is found by a secant iteration on 1/||z(mu)||.

Bounds and the second-order correction are handled as for dense problems.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.native.kernel import kernel
from odefit.native.orthogonal import apply_to_column, reflect_column
from odefit.solve.contract import Bordered, LinearModel
from odefit.solve.scaling import Scaling
from odefit.solve.steps import DAMPED, StepInfo

Array = npt.NDArray[np.float64]

_RANK_TOLERANCE = 1e-10  # relative to the largest column: a guard against rounding only
_FRACTION_OF_GRADIENT = 0.1  # of what a projected gradient step promises, that a step must promise
_RADIUS_TOLERANCE = 0.1  # a step may be so much longer than the trust region


@kernel(inline=True)
def _eliminate(work, n_columns, beta, right):
    """Triangularise the first columns of `work` and take the others and `right` along."""
    for k in range(n_columns):
        reflect_column(work, k, beta)
        for j in range(k + 1, work.shape[1]):
            apply_to_column(work, k, beta, work, j)
        apply_to_column(work, k, beta, right, 0)


@kernel
def bordered_solve(r, c, local, n_local, shared, scale, fixed, mu, smallest, z):
    """Solve the damped problem in scaled unknowns.

    Parameters
    ----------
    r, c
        Triangles of the blocks (B, W, W) and right-hand sides (B, W); columns are the block's own unknowns,
        padded, then the shared ones.
    local, n_local, shared
        Unknowns of each block (B, L) and how many there are; shared unknowns.
    scale, fixed
        Of all unknowns; a fixed one stays.
    mu, smallest
        Damping, and the size below which a diagonal element counts as zero.
    z
        Filled: the solution, for all unknowns.

    Returns
    -------
    decrement, rank, condition
        Norm of what is removed from the residual, number of determined directions, smallest over largest
        diagonal element.
    """
    n_blocks, width = c.shape
    most = local.shape[1]
    n_shared = width - most
    root = math.sqrt(mu)
    work, right = np.empty((width + most, width)), np.empty((width + most, 1))
    beta = np.empty(width)
    border, border_right = np.zeros((n_shared + width + most, n_shared)), np.zeros((n_shared + width + most, 1))
    kept, kept_right = np.empty((n_blocks, most, width)), np.empty((n_blocks, most))
    removed, rank, least, largest = 0.0, 0, np.inf, 0.0
    for b in range(n_blocks):
        m = n_local[b]
        for i in range(width + most):
            right[i, 0] = c[b, i] if i < width else 0.0
            for j in range(width):
                if i >= width:
                    work[i, j] = 0.0
                elif j < m:
                    k = local[b, j]
                    work[i, j] = 0.0 if fixed[k] else r[b, i, j] * scale[k]
                elif j < most:
                    work[i, j] = 0.0
                else:
                    k = shared[j - most]
                    work[i, j] = 0.0 if fixed[k] else r[b, i, j] * scale[k]
        for j in range(m):  # damping; a fixed unknown gets a row of its own that says z = 0
            work[width + j, j] = 1.0 if fixed[local[b, j]] else root
        _eliminate(work, m, beta, right)
        for i in range(m):
            kept_right[b, i] = right[i, 0]
            for j in range(width):
                kept[b, i, j] = work[i, j]
            if not fixed[local[b, i]]:
                removed += right[i, 0] ** 2
                size = abs(work[i, i])
                rank += 1 if size > smallest else 0
                least, largest = min(least, size), max(largest, size)
        for i in range(width + most - m):
            border_right[n_shared + i, 0] = right[m + i, 0]
            for j in range(n_shared):
                border[n_shared + i, j] = work[m + i, most + j]
        for i in range(width + most - m, width + most):
            border_right[n_shared + i, 0] = 0.0
            for j in range(n_shared):
                border[n_shared + i, j] = 0.0
        _eliminate(border, n_shared, beta, border_right)
        for i in range(n_shared):
            for j in range(i):
                border[i, j] = 0.0
    for i in range(width + most):
        border_right[n_shared + i, 0] = 0.0
        for j in range(n_shared):
            damped = 1.0 if fixed[shared[j]] else root
            border[n_shared + i, j] = damped if i == j else 0.0
    _eliminate(border, n_shared, beta, border_right)
    for i in range(n_shared - 1, -1, -1):
        k = shared[i]
        if not fixed[k]:
            removed += border_right[i, 0] ** 2
            size = abs(border[i, i])
            rank += 1 if size > smallest else 0
            least, largest = min(least, size), max(largest, size)
        total = border_right[i, 0]
        for j in range(i + 1, n_shared):
            total -= border[i, j] * z[shared[j]]
        z[k] = total / border[i, i] if abs(border[i, i]) > smallest else 0.0
    for b in range(n_blocks):
        for i in range(n_local[b] - 1, -1, -1):
            total = kept_right[b, i]
            for j in range(n_shared):
                total -= kept[b, i, most + j] * z[shared[j]]
            for j in range(i + 1, n_local[b]):
                total -= kept[b, i, j] * z[local[b, j]]
            z[local[b, i]] = total / kept[b, i, i] if abs(kept[b, i, i]) > smallest else 0.0
    condition = 1.0 if largest == 0.0 else least / largest
    return math.sqrt(removed), rank, condition


class BorderedStepProblem:
    """The step problem of the present point; see `odefit.solve.steps.StepProblem`."""

    def __init__(self, scaling: Scaling, lower: Array, upper: Array) -> None:
        self._scaling = scaling
        self._lower, self._upper = lower, upper
        self.held = np.zeros(lower.size, np.bool_)

    def move(self, linear: LinearModel, x: Array) -> None:
        """Become the step problem at this point."""
        system = linear.reduce()
        assert isinstance(system, Bordered)
        self._linear, self._system, self._x = linear, system, x
        self._scale = self._scaling.of(x)
        gradient, sizes = system.descent(), system.column_norms()
        self._smallest = _RANK_TOLERANCE * float(np.max(sizes * self._scale, initial=0.0))
        self._low, self._high = np.minimum(0.0, self._lower - x), np.maximum(0.0, self._upper - x)
        self.held = ((x <= self._lower) & (gradient <= 0.0)) | ((x >= self._upper) & (gradient >= 0.0))
        self._full: tuple[float, int, float] | None = None
        self._mu, self._fixed = 0.0, self.held

    def _solve(self, c: Array, fixed: npt.NDArray[np.bool_], mu: float) -> tuple[Array, tuple[float, int, float]]:
        z = np.zeros(self._x.size)
        blocks = self._system.blocks
        least = self._smallest**2  # in directions that nothing determines the step shall stay finite
        told = bordered_solve(
            self._system.R, c, blocks.local, blocks.n_local, blocks.shared, self._scale, fixed, max(mu, least),
            2.0 * self._smallest, z,
        )  # fmt: skip
        return z, told

    def _within(self, c: Array, fixed: npt.NDArray[np.bool_], radius: float) -> tuple[Array, float, float]:
        """Return the step in scaled unknowns, its length and mu."""
        z, told = self._solve(c, fixed, 0.0)
        if self._full is None:
            self._full = told
        length = float(np.linalg.norm(z))
        if length <= radius:
            return z, length, 0.0
        # 1/||z(mu)|| is nearly linear in mu: secants from both sides
        low, low_value = 0.0, 1.0 / length
        mu, target = max(self._mu, (told[0] / radius) ** 2 * 1e-2), 1.0 / radius
        for _ in range(30):
            z, _ = self._solve(c, fixed, mu)
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
        """Return the step for this radius; there is one filter only, damping inside the blocks."""
        v = np.zeros(self._x.size)
        fixed = self.held.copy()
        c, z, length, mu = self._system.b, v, 0.0, 0.0
        for _ in range(self._x.size + 1):
            z, length, mu = self._within(c, fixed, radius)
            v = np.where(fixed, v, self._scale * z)
            outside = ~fixed & ((v < self._low) | (v > self._high))
            if not outside.any():
                break
            v = np.where(outside, np.clip(v, self._low, self._high), v)
            fixed |= outside
            c = self._system.b - self._system.times(np.where(fixed, v, 0.0))
        self._mu, self._fixed = mu, fixed
        promised = self._promised(v)
        clipped = (fixed & ~self.held).any()
        if clipped:  # what is on bounds now has left the problem solved last, but not the step
            length = float(np.linalg.norm(v / self._scale))
        if clipped or not promised > 0.0:
            # too many unknowns may have been put on bounds at once: never do worse than the gradient
            along, along_promised, along_length = self._along_gradient(radius)
            if not promised >= _FRACTION_OF_GRADIENT * along_promised:
                v, promised, length = along, along_promised, along_length
        assert self._full is not None
        decrement, rank, condition = self._full
        return StepInfo(self._arrive(v), v, rank, mu, length, decrement, promised, condition)

    def _along_gradient(self, radius: float) -> tuple[Array, float, float]:
        """Return the best of some projected, scaled gradient steps, what it promises, and its length."""
        direction = self._scale**2 * self._system.descent()
        length = float(np.linalg.norm(direction / self._scale))
        if length == 0.0:
            return np.zeros(direction.size), 0.0, 0.0
        # a first length at which the linear model has its minimum along the gradient
        moved = self._system.times(direction)
        t = min(radius / length, length**2 / max(float(np.sum(moved * moved)), 1e-300))
        tried = [np.clip(factor * t * direction, self._low, self._high) for factor in (8.0, 4.0, 2.0, 1.0, 0.5, 0.1)]
        tried = [v for v in tried if float(np.linalg.norm(v / self._scale)) <= radius] or tried[-1:]
        promises = [self._promised(v) for v in tried]
        best = int(np.argmax(promises))
        return tried[best], promises[best], float(np.linalg.norm(tried[best] / self._scale))

    def _arrive(self, v: Array) -> Array:
        return np.where(v <= self._low, np.maximum(self._lower, self._x + v), np.minimum(self._upper, self._x + v))

    def _promised(self, v: Array) -> float:
        moved = self._system.times(v)
        return 0.5 * float(np.sum(moved * (2.0 * self._system.b - moved)))

    def shortened(self, step: StepInfo, alpha: float) -> StepInfo:
        """Return the fraction `alpha` of a step."""
        v = alpha * step.v
        return step._replace(x=self._arrive(v), v=v, length=alpha * step.length, promised=self._promised(v))

    def correction(self, step: StepInfo, residual: Array, misfit: Array) -> tuple[Array, float]:
        """See `StepProblem`."""
        c = 2.0 * (self._linear.reduce_residual(residual) - self._system.b + self._system.times(step.v))
        z, _ = self._solve(c, self._fixed, self._mu)
        v = step.v + 0.5 * self._scale * np.where(self._fixed, 0.0, z)
        return self._arrive(np.clip(v, self._low, self._high)), float(np.linalg.norm(z))
