"""The best objective known of a case, and what is right at a point: by SciPy on the case's own residuals."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from benchmarks.reliability.case import Case

Array = npt.NDArray[np.float64]

_MOST_EVALUATIONS = 200
_HUGE = 1e100  # stands for a residual that does not exist


class Known(NamedTuple):
    """The lowest objective found, and where (nice units)."""

    objective: float
    x: Array


def best_known(case: Case) -> Known:
    """Minimise from the true values and from points around them."""
    lower, upper = case.bounds
    points = [Known(case.objective(case.truth), case.truth)]
    for factor in case.around:
        start = np.clip(case.truth * factor, lower, upper)
        points.append(descend(case, start, np.maximum(np.abs(case.truth), 1e-3)))
    return min(points, key=lambda point: point.objective)


def descend(case: Case, start: Array, size: Array, *, logarithms: bool = False) -> Known:
    """Return where SciPy's trust region comes from `start`, with unknowns x / size or log x."""
    lower, upper = case.bounds

    def natural(z: Array) -> Array:
        return np.exp(z) if logarithms else z * size

    def solver(x: Array) -> Array:
        return np.log(x) if logarithms else x / size

    def residuals(z: Array) -> Array:
        return np.nan_to_num(case.residuals(natural(z)), nan=_HUGE, posinf=_HUGE, neginf=-_HUGE)

    here = Known(case.objective(start), start)
    if not math.isfinite(here.objective):
        return here
    with np.errstate(all="ignore"):
        low, high = solver(lower), solver(upper)
        begin = _inside(solver(start), low, high)
        try:
            found = least_squares(
                residuals, begin, "3-point", (low, high), x_scale="jac", xtol=1e-12, ftol=1e-12, gtol=1e-13,
                max_nfev=_MOST_EVALUATIONS,
            )  # fmt: skip
        except (ValueError, np.linalg.LinAlgError):  # Jacobians that overflow
            return here
        x = np.clip(natural(found.x), lower, upper)
    value = case.objective(x)
    return Known(value, x) if value < here.objective else here


def _inside(z: Array, low: Array, high: Array) -> Array:
    """Return `z` strictly between the bounds, as the trust region wants it."""
    room = np.where(np.isfinite(high - low), high - low, 1.0)
    small = 1e-10 * np.minimum(np.maximum(np.abs(z), 1.0), room)
    return np.clip(z, low + small, high - small)


def jacobian(case: Case, x: Array) -> Array:
    """Return the derivatives of the case's residuals by x / size, by central differences of fourth order."""
    size = np.where(x != 0.0, np.abs(x), np.maximum(np.abs(case.truth), 1e-3))
    columns = []
    for i in range(x.size):
        h = np.zeros(x.size)
        h[i] = case.step * size[i]
        near = case.residuals(x + h) - case.residuals(x - h)
        far = case.residuals(x + 2 * h) - case.residuals(x - 2 * h)
        columns.append((8.0 * near - far) / (12.0 * case.step * size[i]))
    return np.array(columns).T


def standard_errors(case: Case, x: Array, fixed: npt.NDArray[np.bool_]) -> Array:
    """Return standard errors at `x` (nice units), NaN for parameters that are held or not determined."""
    errors = np.full(x.size, math.nan)
    free = ~fixed
    with np.errstate(all="ignore"):
        columns = jacobian(case, x)[:, free]
        norms = np.linalg.norm(columns, axis=0)
        if not free.any() or not np.isfinite(columns).all() or not norms.all():
            return errors
        _, values, right = np.linalg.svd(columns / norms, full_matrices=False)
        if values[-1] < 1e-5:  # finite differences do not tell what is that nearly singular
            return errors
        variance = _variance(case, x, int(free.sum()), columns.shape[0])
        errors[free] = np.sqrt(variance * np.sum(np.square(right.T / values), axis=1)) / norms
    return errors


def _variance(case: Case, x: Array, n_free: int, n_rows: int) -> float:
    if np.isfinite(case.problem.sigma).all():
        return 1.0
    return 2.0 * case.objective(x) / (n_rows - n_free) if n_rows > n_free else math.nan
