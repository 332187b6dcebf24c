"""Least squares as integral matching needs it: within bounds, and with parameters that the data do not tell."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_RANK = 1e-8  # relative singular value below which a direction is not determined
_TAKES_PART = 0.05  # component of such a direction that counts
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
    free
        The values without bounds, if these took effect.
    """

    values: Array
    resolution: Array
    lost: npt.NDArray[np.bool_]
    free: Array | None


def linear_fit(a: Array, b: Array, given: Array, lower: Array, upper: Array) -> LinearFit:
    """Solve ``a x = b`` within bounds; what is not determined keeps its given value."""
    n = given.size
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return LinearFit(np.full(n, np.nan), np.zeros(n), np.zeros(n, dtype=bool), None)
    norms = np.linalg.norm(a, axis=0)
    safe = np.where(norms > 0, norms, 1.0)
    _, w, vt = np.linalg.svd(a / safe, full_matrices=a.shape[0] < n)
    size = np.append(w, np.zeros(n - w.size))
    undetermined = vt[size <= _RANK * max(size[0], 1e-300)]
    lost = np.any(np.abs(undetermined) > _TAKES_PART, axis=0) | (norms == 0)
    values, resolution, free = given.copy(), np.zeros(n), None
    kept = ~lost
    if kept.any():
        right = b - a[:, lost] @ given[lost]
        scaled = a[:, kept] / safe[kept]
        found = np.linalg.lstsq(scaled, right, rcond=None)[0] / safe[kept]
        if np.any((found < lower[kept]) | (found > upper[kept])):
            free = given.copy()
            free[kept] = found
            found = _within(scaled, right, lower[kept] * safe[kept], upper[kept] * safe[kept]) / safe[kept]
        values[kept] = found
        rest = right - a[:, kept] @ found
        resolution[kept] = math.sqrt(float(rest @ rest) / max(rest.size - found.size, 1)) / safe[kept]
    return LinearFit(values, resolution, lost, free)


def _within(a: Array, b: Array, lower: Array, upper: Array) -> Array:
    """Return the linear least-squares solution in a box."""
    from scipy.optimize import lsq_linear, nnls  # slow to import, and needed only here

    if np.all(lower == 0.0) and np.isinf(upper).all():
        return nnls(a, b)[0]
    return lsq_linear(a, b, (lower, upper), method="bvls").x


def refined(
    linearised: Callable[[Array], tuple[Array, Array]], candidates: list[Array], lower: Array, upper: Array
) -> Array | None:
    """Return the best point that nonlinear least squares finds from the candidates.

    `linearised` gives the residual and its derivatives at a point.
    """
    from scipy.optimize import least_squares  # slow to import

    once = _Remembering(linearised)
    best, best_cost = None, math.inf
    gap = 1e-9 * np.where(np.isfinite(upper - lower), upper - lower, 1.0)
    for start in candidates:
        inside = np.clip(start, lower + gap, upper - gap)
        jacobian: Any = once.slopes
        found = least_squares(
            once.residual, inside, jacobian, (lower, upper), method="trf", x_scale="jac", max_nfev=_MOST_STEPS,
            ftol=1e-6,
        )  # fmt: skip
        if found.cost < best_cost:
            best, best_cost = found.x, float(found.cost)
    return best


class _Remembering:
    """Residual and derivatives as two functions that share the work at a point."""

    def __init__(self, linearised: Callable[[Array], tuple[Array, Array]]) -> None:
        self._linearised = linearised
        self._point: Array | None = None
        self._found: tuple[Array, Array] = (np.empty(0), np.empty((0, 0)))

    def residual(self, z: Array) -> Array:
        return self._at(z)[0]

    def slopes(self, z: Array) -> Array:
        return self._at(z)[1]

    def _at(self, z: Array) -> tuple[Array, Array]:
        if self._point is None or not np.array_equal(z, self._point):
            self._point, self._found = z.copy(), self._linearised(z)
        return self._found
