"""Steps in the metric of the column-pivoted QR factors, with bounds and rows of any weight.

The reduced problem min ||R dx - b|| is scaled (dx = s z) and factored with column pivoting,

    R diag(s) P = Q D U,     D diagonal and decreasing, U upper triangular with unit diagonal,

so that with x = U P' z and c = Q' b it reads min ||D x - c||, a diagonal problem.  U is well
conditioned: it is enough to restrict ||x|| <= Delta (Edsberg and Wedin (27), after Osborne).  A step is a
filter, x_i = g_i c_i:

    damped, (28)    g_i = d_i / (d_i^2 + mu),   mu = 0 if that fits, else ||x(mu)|| = Delta
    subspace, (30)  g_i = alpha / d_i for i <= rho, else 0; rho and alpha promise most within Delta

Without restriction both are the full Gauss-Newton step.

**Weights.**  Heavy rows of finite weight stand above R (see `weighted_factors`).  Rows of infinite weight are
eliminated before (see `equality_rows`): the part of the step that makes them hold takes at most four fifths of
Delta, the rest what is left.

**Bounds.**  Where the step would leave the box, the damped problem is solved within it (see `box_step`), in the
metric of the factors found without bounds.  With rows of infinite weight unknowns that would leave the box are put on
their bound, and the problem is solved again in the others.  Should the result promise less than a tenth of what a
projected gradient step does, the latter is taken.

**Second-order correction.**  The trial residual r(x + v) tells the curvature along v: with the same
filter, x^a_i = g_i c^a_i for c^a = -2 Q'(r(x + v) - r - S v), and the corrected step is v + v^a/2 .
It costs one evaluation and is tried where the linear prediction was poor and much was at stake; near the
solution the ratio of real to predicted reduction tends to a constant that depends on the curvature there,
and a correction gains nothing.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.native.kernel import kernel
from odefit.solve.bounds import arrival, arrive
from odefit.solve.box_step import box_correction, box_step
from odefit.solve.contract import Heavy, LeastSquares, LinearModel, Triangle
from odefit.solve.equality_rows import (
    count_infinite,
    drop_columns,
    factor_equality,
    hold_bounds,
    hold_with_equality,
    list_free,
    normal_part,
    rotate_columns,
)
from odefit.solve.gradient_step import FRACTION_OF_GRADIENT, gradient_step, needs_comparison
from odefit.solve.scaling import Scaling, scale_of
from odefit.solve.step_filters import damped_gains, norm_of, subspace_gains, unpivot
from odefit.solve.steps import DAMPED, SUBSPACE, StepInfo
from odefit.solve.triangle_products import negative_gradient, promised_by, promised_reduction
from odefit.solve.weighted_factors import apply_backwards, apply_weighted, factor_weighted, rank_of

Array = npt.NDArray[np.float64]

_FOR_EQUALITY = 0.8  # of the radius, that rows of infinite weight may take
_NO_HEAVY = np.empty((0, 2))


@kernel(inline=True)
def _free_problem(r, b, heavy, n_equality, v, scale, fixed, free, a, c, e):
    """Set up the scaled problem in the free unknowns, the others moved to the right-hand side."""
    rows, right, root = heavy
    n, k = b.size, root.size - n_equality
    n_free = list_free(fixed, free)
    for i in range(root.size):
        w = right[i]
        for j in range(n):
            if fixed[j]:
                w -= rows[i, j] * v[j]
        if i < n_equality:
            e[i] = w
        else:
            c[i - n_equality, 0] = root[i] * w
            for j in range(n_free):
                a[i - n_equality, j] = root[i] * rows[i, free[j]] * scale[free[j]]
    for i in range(n):
        w = 0.0
        for j in range(i, n):
            if fixed[j]:
                w += r[i, j] * v[j]
        c[k + i, 0] = b[i] - w
        for j in range(n_free):
            a[k + i, j] = r[i, free[j]] * scale[free[j]]
    return n_free


@kernel(inline=True)
def _to_unknowns(a, pivot, x, rank, n_free, y, rank_e, factors, free, scale, column, v):
    """Set ``v[free]`` to the step with these components in the null space (`x`) and outside it (`y`)."""
    et, beta_e, _ = factors
    n_equality = et.shape[1]
    z = column[:, 0]
    for i in range(rank_e):
        z[i] = y[i]
    unpivot(a, pivot, x, rank, n_free - rank_e, z, rank_e)
    if n_equality > 0:
        for i in range(n_free, column.shape[0]):
            column[i, 0] = 0.0
        apply_backwards(et, n_equality, beta_e, column)
    for i in range(n_free):
        v[free[i]] = scale[free[i]] * z[i]


@kernel(inline=True)
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


@kernel(inline=True)
def _scaled_norm(v, scale):
    total = 0.0
    for i in range(v.size):
        total += (v[i] / scale[i]) ** 2
    return math.sqrt(total)


@kernel(inline=True, allocating=True)
def _workspace(numbers, places, n, n_heavy, n_equality):
    """Return the parts of a workspace.

    They are: factors `a` and `beta`, filter and scales; factors `et` and `beta_e` of the rows of infinite weight;
    pivots, free unknowns and dropped rows of the last problem solved; pivots of the rows of infinite weight.
    In front of the places stand three more: number of free unknowns, rank, and rank of the rows of infinite weight.
    """
    m, k = (n_heavy + n) * n, n * n_equality
    a, et = numbers[:m].reshape(n_heavy + n, n), numbers[m : m + k].reshape(n, n_equality)
    vectors, places, indices = numbers[m + k :], places[3:], places[3 + 2 * n :]
    return (
        a, vectors[:n], vectors[n : 2 * n], vectors[2 * n : 3 * n], et, vectors[3 * n : 3 * n + n_equality],
        places[:n], places[n : 2 * n], indices[:n_heavy], indices[n_heavy : n_heavy + n_equality],
    )  # fmt: skip


@kernel(inline=True, allocating=True)
def _set_out(r, b, heavy, x, frame, scale, factors, free, column, y, held):
    """Set scales and which unknowns are held at their bounds; return how many these are."""
    least, logarithmic, lower, upper = frame[0], frame[1], frame[2], frame[3]
    rows, right, root = heavy
    n = x.size
    descent, z = np.empty(n), np.empty(n)
    negative_gradient(r, b, rows, right, root, descent)
    for i in range(n):
        scale[i] = scale_of(x[i], least[i], logarithmic[i] != 0.0)
        free[i] = i
        held[i] = False
        z[i] = 0.0
    if factors[0].shape[1] > 0:
        hold_with_equality(x, frame, descent, scale, rows, right, factors, free, column, y, z, held)
    else:
        hold_bounds(x, lower, upper, descent, z, held)
    n_held = 0
    for i in range(n):
        n_held += 1 if held[i] else 0
    return n_held


@kernel(inline=True)
def _before_bounds(a, c, rank, n_left, level):
    """Return decrement and condition of a factored problem; `level` is its largest column where these differ."""
    decrement, condition = 0.0, 1.0
    for i in range(rank):
        decrement += c[i, 0] * c[i, 0]
    if n_left > 0:
        condition = 0.0 if rank < n_left else abs(a[rank - 1, rank - 1]) / (level if level > 0.0 else abs(a[0, 0]))
    return math.sqrt(decrement), condition


@kernel
def factor_step(r, b, heavy, x, frame, radius, kind, numbers, places, held, v, x_new):
    """Solve the step problem in a box.

    Parameters
    ----------
    r, b, heavy
        Reduced problem; a heavy row is the root of its weight (descending), its right-hand side and its elements.
    x, frame
        Where we are; least scales, whether unknowns are logarithmic, lower and upper bounds, (4, n).
    radius, kind
        Bound on ||x|| in the metric of the factors, and the filter.
    numbers, places
        Filled, for a correction: what `_workspace` finds there.
    held
        Filled: unknowns that stay at their bounds.
    v, x_new
        Filled: the step and where it leads.

    Returns
    -------
    rank, damping, length, decrement, promised, condition, settled
        As in `StepInfo`; rank, decrement and condition are those of the problem before any bound was met.
    clipped
        Whether one was met: without rows of infinite weight the step is not yet the one in the box.
    """
    n = b.size
    root, right, rows = heavy[:, 0], heavy[:, 1], heavy[:, 2:]
    lower, upper = frame[2], frame[3]
    n_equality = count_infinite(root)
    n_heavy = root.size - n_equality
    a, beta, gain, scale, et, beta_e, pivot, free, dropped, pivot_e = _workspace(
        numbers, places, n, n_heavy, n_equality
    )
    row_size = np.empty(n_heavy)
    fixed = np.empty(n, dtype=np.bool_)
    low, high, z, size = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    c, column = np.empty((a.shape[0], 1)), np.empty((n, 1))
    e, y = np.empty(n_equality), np.empty(n_equality)
    factors, mixed = (et, beta_e, pivot_e), n_equality > 0 or frame[1].any()
    n_held = _set_out(r, b, (rows, right, root), x, frame, scale, factors, free, column, y, held)
    for i in range(n):
        low[i], high[i] = min(0.0, lower[i] - x[i]), max(0.0, upper[i] - x[i])
        fixed[i] = held[i]
        v[i] = 0.0
    decrement, first_rank, condition, clipped = 0.0, 0, 1.0, False
    n_free, rank, rank_e, damping, length, normal = 0, 0, 0, 0.0, 0.0, 0.0
    whole_length, whole_norm = 0.0, 0.0
    for sweep in range(n + 1):
        n_free = _free_problem(r, b, (rows, right, root), n_equality, v, scale, fixed, free, a, c, e)
        if n_equality > 0:
            rank_e = factor_equality(rows, free, n_free, scale, n_equality, et, beta_e, pivot_e)
            normal = normal_part(et, pivot_e, e, rank_e, _FOR_EQUALITY * radius, y)
            rotate_columns(a, n_free, et, n_equality, beta_e)
            drop_columns(a, n_free, rank_e, y, c)
        n_left = n_free - rank_e
        level = factor_weighted(a, n_left, n_heavy, mixed, beta, pivot, row_size, dropped, size)
        apply_weighted(a, n_left, beta, dropped, c)
        rank = rank_of(a, n_left, 0.0)
        if sweep == 0:
            first_rank = rank + rank_e
            decrement, condition = _before_bounds(a, c, rank, n_left, level)
        remaining = math.sqrt(max(0.0, radius * radius - normal * normal)) if n_equality > 0 else radius
        if kind == SUBSPACE:
            damping = subspace_gains(a, c, rank, remaining, gain)
        else:
            damping = damped_gains(a, c, rank, remaining, gain)
        for i in range(rank):
            z[i] = gain[i] * c[i, 0]
        length = math.hypot(norm_of(z, rank), normal)
        _to_unknowns(a, pivot, z, rank, n_free, y, rank_e, factors, free, scale, column, v)
        if not clipped:
            whole_length, whole_norm = length, _scaled_norm(v, scale)
        if not _clip_to_box(free, n_free, low, high, fixed, v):
            break
        clipped = True
        if n_equality == 0:  # the factors of this problem are the metric of the one in the box
            break
    if clipped and whole_norm > 0.0:
        # what is on bounds now has left the factored problem, but not the step: half of it must be a shorter one
        length = max(length, whole_length * (_scaled_norm(v, scale) / whole_norm))
    promised = promised_reduction(r, b, rows, right, root, v)
    arrive(x, v, lower, upper, x_new)
    places[0], places[1], places[2] = n_free, rank, rank_e
    return first_rank, damping, length, decrement, promised, condition, first_rank + n_held, clipped


@kernel(inline=True)
def _subtract_product(r, rows, root, n_equality, v, c):
    """Set ``c = c - A v`` for the rows of finite weight."""
    n, k = v.size, root.size - n_equality
    for i in range(k):
        for j in range(n):
            c[i, 0] -= root[n_equality + i] * rows[n_equality + i, j] * v[j]
    for i in range(n):
        for j in range(i, n):
            c[k + i, 0] -= r[i, j] * v[j]


@kernel
def corrected_step(r, b, heavy, b_trial, right_trial, x, frame, numbers, places, v, x_new):
    """Set ``x_new = x + v + v^a/2``, kept inside the box; return ||x^a||."""
    n = b.size
    root, right, rows = heavy[:, 0], heavy[:, 1], heavy[:, 2:]
    n_free, rank, rank_e = places[0], places[1], places[2]
    n_equality = count_infinite(root)
    k = root.size - n_equality
    a, beta, gain, scale, et, beta_e, pivot, free, dropped, pivot_e = _workspace(numbers, places, n, k, n_equality)
    factors = et, beta_e, pivot_e
    c, column = np.empty((k + n, 1)), np.empty((n, 1))
    z, w = np.empty(n), np.empty(n)
    e, y = np.empty(n_equality), np.empty(n_equality)
    for i in range(root.size):
        total = 0.0
        for j in range(n):
            total += rows[i, j] * v[j]
        curvature = 2.0 * (right_trial[i] - right[i] + total)
        if i < n_equality:
            e[i] = curvature
        else:
            c[i - n_equality, 0] = root[i] * curvature
    for i in range(n):
        total = 0.0
        for j in range(i, n):
            total += r[i, j] * v[j]
        c[k + i, 0] = 2.0 * (b_trial[i] - b[i] + total)
        w[i] = 0.0
    normal = 0.0
    if n_equality > 0:
        normal = normal_part(et, pivot_e, e, rank_e, np.inf, y)
        _to_unknowns(a, pivot, z, 0, n_free, y, rank_e, factors, free, scale, column, w)
        _subtract_product(r, rows, root, n_equality, w, c)
    apply_weighted(a, n_free - rank_e, beta, dropped, c)
    for i in range(rank):
        z[i] = gain[i] * c[i, 0]
    length = math.hypot(norm_of(z, rank), normal)
    _to_unknowns(a, pivot, z, rank, n_free, y, rank_e, factors, free, scale, column, w)
    for i in range(n):
        w[i] = v[i] + 0.5 * w[i]
    arrive(x, w, frame[2], frame[3], x_new)
    return length


def _written_out(heavy: Heavy) -> Array:
    """Return heavy rows as kernels take them, a row each: root of the weight, right-hand side, elements."""
    rows, right, root = heavy
    written = np.empty((root.size, 2 + rows.shape[1]))
    written[:, 0], written[:, 1], written[:, 2:] = root, right, rows
    return written


class FactorSteps:
    """The step problem of the present point; see `odefit.solve.steps.StepProblem`."""

    def __init__(self, scaling: Scaling, lower: Array, upper: Array, root: Array) -> None:
        n = lower.size
        n_equality = int(np.isinf(root).sum()) if root.size else 0
        n_heavy = root.size - n_equality
        self._scaling = scaling
        self._lower, self._upper = lower, upper
        self._frame = np.empty((4, n))
        self._frame[0], self._frame[1] = scaling.least, scaling.logarithmic
        self._frame[2], self._frame[3] = lower, upper
        numbers = np.empty((n_heavy + n) * n + n * n_equality + 3 * n + n_equality)
        self._work = (numbers, np.empty(3 + 2 * n + root.size, np.int64))
        self._has_equality = n_equality > 0
        self._n = n
        self._in_box: tuple[Array, int, Array, float, npt.NDArray[np.int64]] | None = None
        self.held = np.empty(n, np.bool_)

    def move(self, linear: LinearModel, x: Array) -> None:
        """Become the step problem at this point."""
        self._linear, self._x = linear, x
        self._frame[0] = self._scaling.least
        self._triangle = linear.triangle()
        r, b, heavy = self._triangle
        self._system = (r, b, _written_out(heavy) if heavy.root.size else _NO_HEAVY)

    def step(self, radius: float, filter: int = DAMPED) -> StepInfo:
        """Return the step for this radius; `held` then marks the active bounds."""
        v, x = np.empty(self._n), np.empty(self._n)
        numbers, places = self._work
        rank, damping, length, decrement, promised, condition, settled, clipped = factor_step(
            *self._system, self._x, self._frame, radius, filter, numbers, places, self.held, v, x
        )
        self._in_box = None
        if clipped and not self._has_equality:
            v, x, length, damping, promised = self._within_box(radius, damping, decrement)
        if (clipped or not promised > 0.0) and not self._has_equality and needs_comparison(promised, decrement):
            v, x, length, promised = self._or_along_gradient(radius, v, x, length, promised)
        return StepInfo(x, v, rank, damping, length, decrement, promised, condition, settled)

    def _within_box(self, radius: float, damping: float, decrement: float) -> tuple[Array, Array, float, float, float]:
        """Return the step in the box with where it leads, its length, damping and promise."""
        rows, right = self._triangle.rows()
        scale = self._scaling.of(self._x)
        n_heavy = rows.shape[0] - self._n
        low = np.where(self.held, 0.0, np.minimum(0.0, self._lower - self._x))
        high = np.where(self.held, 0.0, np.maximum(0.0, self._upper - self._x))
        scaled, metric = rows * scale, self._metric(n_heavy)
        side, z = np.empty(self._n, np.int64), np.zeros(self._n)
        box = low / scale, high / scale
        mu, length = box_step(scaled, right, n_heavy, metric, *box, radius, damping, decrement, side, z)
        self._in_box = (scaled, n_heavy, metric, mu, side)
        v = np.where(z == box[0], low, np.where(z == box[1], high, z * scale))  # a bound is met exactly
        promised = float(promised_by(*self._system, v))
        return v, arrival(self._x, v, self._lower, self._upper), length, mu, promised

    def _metric(self, n_heavy: int) -> Array:
        """Return U P' of the factors found without bounds, for all unknowns; one for directions not determined."""
        n, (numbers, places) = self._n, self._work
        n_free, rank = int(places[0]), int(places[1])
        columns = places[3 + n : 3 + 2 * n][places[3 : 3 + n_free]]
        factor = numbers[: (n_heavy + n) * n].reshape(n_heavy + n, n)[:n_free, :n_free]
        unit = np.eye(n_free)
        unit[:rank] = np.triu(factor)[:rank] / np.diagonal(factor)[:rank, None]
        metric = np.zeros((n, n))
        metric[:n_free, columns] = unit
        return metric

    def _or_along_gradient(
        self, radius: float, v: Array, x: Array, length: float, promised: float
    ) -> tuple[Array, Array, float, float]:
        """Return a step with where it leads, its length and promise: the one given, or one along the gradient."""
        rows, right = self._triangle.rows()
        low, high = np.minimum(0.0, self._lower - self._x), np.maximum(0.0, self._upper - self._x)
        along = gradient_step(
            lambda steps: steps @ rows.T, right, rows.T @ right, self._scaling.of(self._x), low, high, radius
        )
        if promised >= FRACTION_OF_GRADIENT * along.promised:
            return v, x, length, promised
        return along.v, arrival(self._x, along.v, self._lower, self._upper), along.length, along.promised

    def shortened(self, step: StepInfo, alpha: float) -> StepInfo:
        """Return the fraction `alpha` of a step."""
        v = alpha * step.v
        x = arrival(self._x, v, self._lower, self._upper)
        return step._replace(x=x, v=v, length=alpha * step.length, promised=float(promised_by(*self._system, v)))

    def correction(self, step: StepInfo, trial: LeastSquares) -> tuple[Array, float]:
        """See `StepProblem`."""
        x = np.empty(self._x.size)
        right = self._triangle.heavy.right if trial.heavy is None else -trial.heavy.misfit
        if self._in_box is not None:
            return self._correction_in_box(step, trial, right)
        length = corrected_step(
            *self._system, self._linear.residual_in_triangle(trial.residual), right, self._x, self._frame,
            *self._work, step.v, x,
        )  # fmt: skip
        return x, length

    def _correction_in_box(self, step: StepInfo, trial: LeastSquares, right_trial: Array) -> tuple[Array, float]:
        """Return the corrected point where the step met bounds: what is on one stays there."""
        assert self._in_box is not None
        scaled, n_heavy, metric, mu, side = self._in_box
        rows, right = self._triangle.rows()
        b_trial = self._linear.residual_in_triangle(trial.residual)
        reached = Triangle(self._triangle.R, b_trial, self._triangle.heavy._replace(right=right_trial)).rows()[1]
        z = np.empty(self._n)
        box_correction(scaled, 2.0 * (reached - right + rows @ step.v), n_heavy, metric, mu, side, z)
        v = step.v + 0.5 * z * self._scaling.of(self._x)
        return arrival(self._x, v, self._lower, self._upper), float(np.linalg.norm(metric @ z))
