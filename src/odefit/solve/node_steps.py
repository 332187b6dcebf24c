"""Steps of multiple shooting: damped Gauss-Newton steps in theta and node states, with exact rows, limits and bounds.

For each damping mu the nodes are eliminated (`odefit.solve.node_elimination`), and the condensed problem in theta,

    min ||R z - b||^2,   E z = e,   lower <= z <= upper,   limits >= 0,

is solved by a real active set (`odefit.solve.quadratic_program`).  Lengths are those of the scaled unknowns.  As mu
grows, z(mu) becomes the shortest step z_0 that closes the gaps, and what it has beyond is orthogonal to z_0 and falls
as 1/mu.  So mu is found by a secant iteration on (||z(mu)||^2 - ||z_0||^2)^(-1/2).

Where states must be handed over exactly, the shortest step that closes all gaps may be longer than the trust region.
Then it closes a part of each: the right-hand sides of exact rows are multiplied by tau < 1, so that closing the gaps
takes at most four fifths of the radius.

What the linear model could remove is measured from z_0, not from where theta stays and the states follow the gaps:
where solutions grow, the rounding of gaps is as large as the data there.  As the full step is the minimum of all that
close the gaps, ||A z_0 - b||^2 - ||A z - b||^2 = ||A (z - z_0)||^2 with the rows A of finite weight.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.errors import OdefitError
from odefit.solve.bounds import arrival
from odefit.solve.contract import Flags, LeastSquares, LinearModel
from odefit.solve.nodes import Border, Elimination, NodesLinear
from odefit.solve.quadratic_program import CONTRADICTORY, solve_program
from odefit.solve.scaling import Scaling
from odefit.solve.steps import DAMPED, StepInfo
from odefit.solve.weighted_factors import RANK_TOLERANCE

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_NEAR = 1e-2  # of what the sizes of the unknowns change: limits that near count from the beginning
_BROKEN = 1e-12  # the same: a limit that does not count may be missed by so much
_AT_A_TIME = 10  # limits that are added
_RADIUS_TOLERANCE = 0.1  # a step may be so much longer than the trust region
_FOR_GAPS = 0.8  # of the radius, that exact rows may take
_MOST_DAMPINGS = 30
_SECANTS = 5  # in a row; then the interval is halved
_AGREES = 1e-9  # of the unknowns' own sizes, by which exact rows may contradict each other on account of rounding
_DEPENDENT = 1e-10  # singular values of such rows below this fraction of the largest
_SOFT = 1e4  # weight of exact rows that contradict each other, relative to the others


class _Solved(NamedTuple):
    """A scaled step, which shared unknowns and limits are held, and what is known of the condensed problem."""

    z: Array
    held: Flags
    rank: int
    condition: float


def _inverse_beyond(length: float, floor: float) -> float:
    """Return the inverse of what a step of this length has beyond the shortest one."""
    return 1.0 / max(math.sqrt(max(length - floor, 0.0) * (length + floor)), 1e-8 * length, 1e-300)


def _agreeing(border: Border) -> Array | None:
    """Return right-hand sides with which dependent exact rows agree, if only rounding parts them."""
    size = np.linalg.norm(border.exact, axis=1)
    size = np.where(size > 0.0, size, 1.0)
    rows, right = border.exact / size[:, None], border.exact_right / size
    if not right.size:
        return None
    met = rows @ np.linalg.lstsq(rows, right, rcond=_DEPENDENT)[0]
    return met * size if float(np.max(np.abs(right - met))) <= _AGREES else None


class NodeSteps:
    """The step problem of the present point; see `odefit.solve.steps.StepProblem`."""

    def __init__(self, scaling: Scaling, lower: Array, upper: Array, root: Array) -> None:
        self._scaling = scaling
        self._lower, self._upper = lower, upper
        self.held = np.zeros(lower.size, np.bool_)

    def move(self, linear: LinearModel, x: Array) -> None:
        """Become the step problem at this point."""
        if not isinstance(linear, NodesLinear):
            raise OdefitError("steps of multiple shooting need a problem with nodes.")
        self._linear, self._x, self._scale = linear, x, self._scaling.of(x)
        self._limit_sizes = linear.row_sizes(linear.limits, self._scale)
        near = linear.residual[linear.limits] <= _NEAR * self._limit_sizes
        self._enlist(linear.limits[near])
        largest = float(np.max(linear.column_norms() * self._scale, initial=0.0))
        self._smallest = RANK_TOLERANCE * largest if largest > 0.0 else RANK_TOLERANCE
        self._full: _Solved | None = None
        self._decrement, self._floor = 0.0, 0.0
        self._mu, self._tau = 0.0, 1.0
        q = linear.q
        with np.errstate(invalid="ignore"):
            self._low = (np.minimum(self._lower - x, 0.0) / self._scale)[:q]
            self._high = (np.maximum(self._upper - x, 0.0) / self._scale)[:q]
        self._bounded = np.isfinite(np.concatenate([self._low, self._high]))

    def _enlist(self, limits: Indices) -> None:
        """Let these limits count."""
        self._nodes = Elimination(self._linear, self._scale, limits=limits)
        self._has_exact = bool(np.isinf(self._nodes.weight).any())

    def _overlooked(self, z: Array) -> Indices:
        """Return limits that do not count and that the step would break."""
        linear = self._linear
        if self._nodes.limits.size == linear.limits.size:
            return linear.limits[:0]
        reached = linear.residual[linear.limits] + linear.all_times(self._scale * z)[linear.limits]
        size = self._limit_sizes
        beyond = (reached < -_BROKEN * size) & ~np.isin(linear.limits, self._nodes.limits)
        worst = np.argsort(reached / np.where(size > 0.0, size, 1.0))[:_AT_A_TIME]
        return linear.limits[worst[beyond[worst]]]

    @property
    def _right(self) -> Array:
        """What the rows lack; limits lack what they are below zero."""
        right = -self._linear.residual
        right[self._linear.limits] = np.maximum(right[self._linear.limits], 0.0)
        return right

    def _solve(self, right: Array, mu: float, tau: float = 1.0, *, light: bool = True) -> _Solved:
        """Return the scaled step for this damping, gaps closed by the part `tau`; limits that it breaks count then."""
        solved = self._solve_with_present_limits(right, mu, tau, light)
        while (more := self._overlooked(solved.z)).size:  # each time there are fewer that do not count
            self._enlist(np.concatenate([self._nodes.limits, more]))
            solved = self._solve_with_present_limits(right, mu, tau, light)
        return solved

    def _solve_with_present_limits(self, right: Array, mu: float, tau: float, light: bool) -> _Solved:
        damping = max(mu, self._smallest**2)
        if tau != 1.0:
            right = np.where(np.isinf(self._nodes.weight), tau * right, right)
            limits = self._linear.limits
            right[limits] = self._right[limits]  # a limit is no gap
        border = self._nodes.border(right, damping, np.zeros(self._linear.q, dtype=bool), light=light)
        theta, held = self._condensed(border, tau)
        z = self._nodes.expand(theta)
        head = np.abs(np.diag(border.R))[: self._linear.q]
        negligible, most = 2.0 * math.sqrt(damping), float(np.max(head, initial=0.0))
        rank = int(np.sum(head[~held] > negligible)) + self._linear.n - self._linear.q
        condition = float(np.min(head)) / most if most > 0.0 else 1.0
        return _Solved(z, held, rank, condition)

    def _condensed(self, border: Border, tau: float) -> tuple[Array, Flags]:
        """Solve the condensed problem; return theta, and which bounds hold."""
        q, k = self._linear.q, self._nodes.limits.size
        n_bounds = int(self._bounded.sum())
        held = np.zeros(q, dtype=bool)
        if not (border.exact_right.size or n_bounds or k):
            return np.asarray(np.linalg.solve(border.R, border.b), np.float64), held
        eye = np.vstack([np.eye(q, q + k), -np.eye(q, q + k)])[self._bounded]
        below = np.concatenate([self._low, -self._high])[self._bounded]
        rows, least = eye, below
        if k:
            size = self._nodes.scale[q : q + k]
            rows = np.vstack([eye, np.eye(k, q + k, q)])
            # a limit that is violated is met as far as gaps are closed
            value = self._linear.residual[self._nodes.limits]
            least = np.append(below, np.where(value < 0.0, (1.0 - tau) * value, -value) / size)
        theta, active = np.zeros(q + k), np.zeros(rows.shape[0], dtype=bool)
        multiplier, pressure = np.zeros(border.exact_right.size), np.zeros(rows.shape[0])
        status, _ = solve_program(
            border.R, border.b, border.exact, border.exact_right, rows, least, theta, multiplier, pressure, active
        )
        if status == CONTRADICTORY and (agreeing := _agreeing(border)) is not None:
            status, _ = solve_program(
                border.R, border.b, border.exact, agreeing, rows, least, theta, multiplier, pressure, active
            )
        if status == CONTRADICTORY:
            theta, active = self._softened(border, rows, least)
        if n_bounds:
            which = np.flatnonzero(self._bounded) % q
            held[which[active[:n_bounds]]] = True
        return theta, held

    def _softened(self, border: Border, rows: Array, least: Array) -> tuple[Array, Flags]:
        """Solve with exact rows as heavy ones, where no step can meet all of them.

        What says how limits follow from the unknowns is among these rows, so that limits are missed as well.
        """
        size = np.linalg.norm(border.exact, axis=1)
        weight = _SOFT * float(np.max(np.abs(border.R), initial=1.0)) / np.where(size > 0.0, size, 1.0)
        stacked = np.vstack([border.R, weight[:, None] * border.exact])
        q, r = np.linalg.qr(stacked)
        right = q.T @ np.append(border.b, weight * border.exact_right)
        theta, active = np.zeros(right.size), np.zeros(rows.shape[0], dtype=bool)
        nothing = np.empty((0, right.size))
        solve_program(
            np.ascontiguousarray(r), right, nothing, np.empty(0), rows, least, theta, np.empty(0),
            np.zeros(rows.shape[0]), active,
        )  # fmt: skip
        return theta, active

    def _full_step(self, right: Array) -> _Solved:
        """Return the full step; what it removes, and the length of the shortest one, are found with it."""
        if self._full is None:
            self._full = self._solve(right, 0.0)
            beyond = self._full.z
            if self._has_exact:
                shortest = self._solve(right, 1.0, light=False)
                self._floor = float(np.linalg.norm(shortest.z))
                beyond = beyond - shortest.z
            finite = self._linear.weights()
            finite[np.isinf(finite)] = 0.0
            self._decrement = float(np.linalg.norm(finite * self._linear.all_times(self._scale * beyond)))
        return self._full

    def _within(self, right: Array, radius: float) -> tuple[_Solved, float, float]:
        """Return the step of at most this length, its length and mu."""
        solved = self._full_step(right)
        length = float(np.linalg.norm(solved.z))
        self._tau = 1.0
        if length <= radius:
            return solved, length, 0.0
        if self._has_exact and self._floor > _FOR_GAPS * radius:
            self._tau = _FOR_GAPS * radius / self._floor
            solved = self._solve(right, 0.0, self._tau)
            length = float(np.linalg.norm(solved.z))
            if length <= (1.0 + _RADIUS_TOLERANCE) * radius:
                return solved, length, self._smallest**2
        floor = self._tau * self._floor
        low, high = 0.0, math.inf
        low_value, target = _inverse_beyond(length, floor), _inverse_beyond(radius, floor)
        mu = max(self._mu, (self._decrement / radius) ** 2 * 1e-2, self._smallest**2)
        for k in range(_MOST_DAMPINGS):
            solved = self._solve(right, mu, self._tau)
            length = float(np.linalg.norm(solved.z))
            if abs(length - radius) <= _RADIUS_TOLERANCE * radius:
                break
            value = _inverse_beyond(length, floor)
            guess = low + (target - low_value) * (mu - low) / max(value - low_value, 1e-300)
            if length > radius:
                low, low_value = mu, value
            else:
                high = mu
            mu = min(max(guess, 1.1 * low, 1e-3 * mu), 100.0 * mu)
            if not low < mu < high or k % _SECANTS == _SECANTS - 1:
                mu = math.sqrt(max(low, 1e-6 * high) * high) if math.isfinite(high) else 10.0 * low
        return solved, length, mu

    def step(self, radius: float, filter: int = DAMPED) -> StepInfo:
        """Return the step for this radius."""
        if filter != DAMPED:
            raise OdefitError('steps of multiple shooting can be damped only; use solver = "trust".')
        solved, length, mu = self._within(self._right, radius)
        self._mu = mu
        full = self._full
        assert full is not None
        self.held = np.append(full.held, np.zeros(self._x.size - self._linear.q, dtype=bool))
        v = self._scale * solved.z
        settled = full.rank + int(np.count_nonzero(self.held))
        return StepInfo(
            self._arrive(v), v, full.rank, mu, length, self._decrement, self._promised(v), full.condition, settled
        )

    def _promised(self, v: Array) -> float:
        """Return what the linear model promises of the rows of finite weight."""
        linear, p = self._linear, self._linear.times(v[None, :])[0]
        gain = float(p @ linear.right) - 0.5 * float(p @ p)
        heavy, q = linear.heavy, linear.heavy_times(v)
        finite = np.isfinite(heavy.root)
        root = heavy.root[finite]
        return gain + float(np.sum(root**2 * (q * heavy.right - 0.5 * q * q)[finite]))

    def _arrive(self, v: Array) -> Array:
        return arrival(self._x, v, self._lower, self._upper)

    def shortened(self, step: StepInfo, alpha: float) -> StepInfo:
        """Return the fraction `alpha` of a step."""
        v = alpha * step.v
        return step._replace(x=self._arrive(v), v=v, length=alpha * step.length, promised=self._promised(v))

    def correction(self, step: StepInfo, trial: LeastSquares) -> tuple[Array, float]:
        """See `StepProblem`; gaps that the trial point opens are corrected as well."""
        linear = self._linear
        moved = linear.all_times(step.v)
        curvature = 2.0 * (linear.residual + moved - trial.residual)
        curvature[linear.limits] = 0.0
        border = self._nodes.border(curvature, max(self._mu, self._smallest**2), self.held[: linear.q])
        theta = np.asarray(np.linalg.lstsq(border.R, border.b, rcond=None)[0], np.float64)
        if border.exact_right.size:
            exact, right = border.exact, border.exact_right
            base = np.linalg.lstsq(exact, right, rcond=None)[0]
            _, size, vt = np.linalg.svd(exact)
            free = vt[int(np.sum(size > 1e-12 * size[0])) :].T
            theta = base
            if free.shape[1]:
                theta = base + free @ np.linalg.lstsq(border.R @ free, border.b - border.R @ base, rcond=None)[0]
        z = self._nodes.expand(np.asarray(theta, np.float64))
        v = step.v + 0.5 * self._scale * z
        return self._arrive(v), float(np.linalg.norm(z))
