"""Least squares as integral matching needs it: within bounds, and with parameters that the data do not tell."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_RANK = 1e-8  # relative singular value below which a direction is not determined
_TAKES_PART = 0.05  # component of such a direction that counts
_CLEARLY = 2.0  # standard errors by which a value is outside its bounds
_ROUNDING = 1e-6  # of the size that would explain all differences
_EQUALLY_GOOD = 1e-6  # relative difference of sums of squares that does not count
_BEST = 5  # points that are refined
_MOST_STEPS = 60  # evaluations of each refinement


class LinearFit(NamedTuple):
    """Solution of ``a x = b`` in the sense of least squares.

    Attributes
    ----------
    values
        The given values where the data do not tell.
    resolution
        What the data can tell from zero.
    lost
        Which values the data do not tell.
    silent
        Those of them that have no influence at all.
    excluded
        Values that the data suggest where they are clearly outside the bounds, else NaN.
    bounded
        Whether bounds took effect.
    """

    values: Array
    resolution: Array
    lost: Flags
    silent: Flags
    excluded: Array
    bounded: bool


def linear_fit(a: Array, b: Array, start: Array, lower: Array, upper: Array) -> LinearFit:
    """Solve ``a x = b`` within bounds; what is not determined keeps its given value."""
    n = start.size
    excluded = np.full(n, np.nan)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        nowhere = np.zeros(n, dtype=bool)
        return LinearFit(np.full(n, np.nan), np.zeros(n), nowhere, nowhere, excluded, False)
    norms = np.linalg.norm(a, axis=0)
    safe = np.where(norms > 0, norms, 1.0)
    lost = undetermined(a / safe) | (norms == 0)
    values, resolution, bounded = start.copy(), np.zeros(n), False
    kept = ~lost
    if kept.any():
        right = b - a[:, lost] @ start[lost]
        size, low, high = safe[kept], lower[kept], upper[kept]
        scaled = a[:, kept] / size
        solution = np.linalg.lstsq(scaled, right, rcond=None)[0] / size
        rest = right - a[:, kept] @ solution
        spread = math.sqrt(float(rest @ rest) / max(rest.size - solution.size, 1))
        resolution[kept] = spread / size
        bounded = bool(np.any((solution < low) | (solution > high)))
        if bounded:
            error = spread * np.linalg.norm(np.linalg.inv(np.linalg.qr(scaled)[1]), axis=1)
            reach = _CLEARLY * (error + _ROUNDING * np.linalg.norm(right)) / size
            excluded[kept] = np.where((solution < low - reach) | (solution > high + reach), solution, np.nan)
            solution = _within(scaled, right, low * size, high * size) / size
        values[kept] = solution
    return LinearFit(values, resolution, lost, norms == 0, excluded, bounded)


def undetermined(a: Array) -> Flags:
    """Return which unknowns take part in a direction that ``a`` (columns of norm 1) does not determine."""
    _, w, vt = np.linalg.svd(a, full_matrices=a.shape[0] < a.shape[1])
    size = np.append(w, np.zeros(a.shape[1] - w.size))
    return np.any(np.abs(vt[size <= _RANK * max(size[0], 1e-300)]) > _TAKES_PART, axis=0)


def _within(a: Array, b: Array, lower: Array, upper: Array) -> Array:
    """Return the linear least-squares solution in a box."""
    from scipy.optimize import lsq_linear, nnls  # slow to import, and needed only here

    if np.all(lower == 0.0) and np.isinf(upper).all():
        return nnls(a, b)[0]
    return lsq_linear(a, b, (lower, upper), method="bvls").x


def nearest_first(costs: list[float], points: list[Array]) -> list[Array]:
    """Return the best few of the points; the first one, made of the given start, leads if none is better."""
    order = sorted((i for i, cost in enumerate(costs) if math.isfinite(cost)), key=lambda i: costs[i])
    if order and costs[0] <= costs[order[0]] * (1 + _EQUALLY_GOOD):
        order.remove(0)
        order.insert(0, 0)
    return [points[i] for i in order[:_BEST]]


def refined(
    linearised: Callable[[Array], tuple[Array, Array]], candidates: list[Array], size: Array, lower: Array, upper: Array
) -> Array | None:
    """Return the best point that nonlinear least squares finds from the candidates, in units of `size`.

    `linearised` gives the residual and its derivatives at a point.
    """
    from scipy.optimize import least_squares  # slow to import

    once = _Remembering(linearised, size)
    best, best_cost = None, math.inf
    lower, upper = lower / size, upper / size
    gap = 1e-9 * np.where(np.isfinite(upper - lower), upper - lower, 1.0)
    jacobian: Any = once.slopes
    for start in candidates:
        inside = np.clip(start / size, lower + gap, upper - gap)
        result = least_squares(
            once.residual, inside, jacobian, (lower, upper), method="trf", x_scale="jac", max_nfev=_MOST_STEPS,
            ftol=1e-6,
        )  # fmt: skip
        if result.cost < best_cost * (1 - _EQUALLY_GOOD):
            best, best_cost = size * result.x, float(result.cost)
    return best


class _Remembering:
    """Residual and derivatives by unknowns in units of `size`, as two functions that share the work at a point."""

    def __init__(self, linearised: Callable[[Array], tuple[Array, Array]], size: Array) -> None:
        self._linearised = linearised
        self._size = size
        self._point: Array | None = None
        self._found: tuple[Array, Array] = (np.empty(0), np.empty((0, 0)))

    def residual(self, z: Array) -> Array:
        return self._at(z)[0]

    def slopes(self, z: Array) -> Array:
        return self._at(z)[1]

    def _at(self, z: Array) -> tuple[Array, Array]:
        if self._point is None or not np.array_equal(z, self._point):
            residual, slopes = self._linearised(self._size * z)
            self._point, self._found = z.copy(), (residual, slopes * self._size)
        return self._found
