"""Weighted least squares: half the sum of squares of ``sqrt(w_i) (g_i - d_i)``.

``w_i`` is ``1/sigma_i^2`` where a standard deviation is given (absolute), the weight where one is given
(relative: a common factor is estimated), 1 otherwise.  Values that are missing or have weight 0 take
no part.

Squares of very small or large numbers are none.  Relative weights may have any common factor: where the weighted data
are that small or large, it is a power of two that makes the largest of them one, and what is reported has it taken out
again (see `common_factor`).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.compile.penalties import penalty_terms
from odefit.criteria.contract import Rows
from odefit.errors import ProblemError
from odefit.native.kernel import kernel
from odefit.native.norm import unit_of
from odefit.problem import Problem

Array = npt.NDArray[np.float64]

_SQUARES_ARE_NUMBERS = 256  # largest exponent of two of data that are left as they are
_HEAVY = 1e3  # weight over the median of its observable, from which a measurement is treated by itself


@kernel(inline=True)
def weighted_residual(value, datum, root_weight):
    """Return the residual of one measurement; its derivative by the model value is `root_weight`."""
    return root_weight * (value - datum)


def common_factor(problem: Problem) -> float:
    """Return the power of two that all weighted residuals are multiplied by; 1 unless squares could not be computed.

    Standard deviations and priors say what a residual of one means: then it is 1.
    """
    if has_absolute_sigma(problem) or penalty_terms(problem):
        return 1.0
    data = problem.measurements
    weight = np.where(np.isnan(data.weight), 1.0, data.weight)
    counts = data.used & (data.value != 0.0) & (weight > 0.0) & np.isfinite(weight)
    if not counts.any():
        return 1.0
    exponents = np.log2(np.abs(data.value[counts])) + 0.5 * np.log2(weight[counts])
    largest = float(exponents.max())
    return 1.0 if abs(largest) <= _SQUARES_ARE_NUMBERS else 2.0 ** -max(-1000, min(1000, round(largest)))


def root_weights(problem: Problem) -> Array:
    """Return ``sqrt(w)`` of each measurement with the common factor, 0 for those that take no part."""
    data, sigma = problem.measurements, problem.sigma
    has_sigma, used = np.isfinite(sigma), data.used
    if has_sigma[used].any() and not has_sigma[used].all():
        raise ProblemError(
            "some measurements have a sigma and others have none; give all of them one, or none "
            "(then a common one is estimated)."
        )
    weight = np.where(np.isnan(data.weight), 1.0, data.weight)
    root = np.where(has_sigma & np.isfinite(weight), 1.0 / np.where(has_sigma, sigma, 1.0), np.sqrt(weight))
    return np.where(used, root, 0.0) * common_factor(problem)


def heavy_measurements(problem: Problem, roots: Array) -> tuple[npt.NDArray[np.bool_], Array]:
    """Tell which measurements have a very large or infinite weight, and what ordinary ones like them have.

    Large means a thousand times the median of the same observable: where all values of an observable have
    large weights, they express its unit.

    Returns
    -------
    heavy, ordinary
        Per measurement: whether it is heavy, and the ordinary root weight.
    """
    data, sigma = problem.measurements, problem.sigma
    heavy = np.isinf(roots)
    ordinary = np.ones(roots.size)
    if np.isnan(data.weight).all():
        return heavy, ordinary  # the common case costs nothing
    finite = (roots > 0) & ~heavy
    everywhere = float(np.median(roots[finite])) if finite.any() else 1.0
    for name in np.unique(data.observable):
        rows = data.observable == name
        typical = float(np.median(roots[rows & finite])) if (rows & finite).any() else everywhere
        ordinary[rows] = typical
        heavy[rows] |= roots[rows] >= math.sqrt(_HEAVY) * typical
    has_sigma = np.isfinite(sigma)
    ordinary = np.where(has_sigma, 1.0 / np.where(has_sigma, sigma, 1.0), ordinary)
    return heavy & ~(has_sigma & np.isfinite(roots)), ordinary


def has_absolute_sigma(problem: Problem) -> bool:
    """Tell whether the standard deviations are known, so that the covariance is not rescaled."""
    return bool(np.isfinite(problem.sigma).any())


class SumOfSquares:
    """Half the weighted sum of squares; see `Criterion`."""

    name = "least-squares"
    words = "half the weighted sum of squares"
    joint = False
    takes_heavy = True

    def assess(self, differences: Array, half_square: float, jacobian: Array | None) -> Rows:
        """Take the differences as rows."""
        return Rows(half_square, differences)

    def change(self, distance: float) -> float:
        """See `Criterion`."""
        return 0.5 * distance * distance  # infinite where it is no number; a power would raise

    def log_likelihood(self, differences: Array, roots: Array, *, absolute: bool) -> float:
        """Return the normal log likelihood.

        Without absolute standard deviations the common variance is replaced by its own best value.
        """
        n, unit = roots.size, unit_of(differences)
        scaled = differences / unit
        sum_of_squares = float(scaled @ scaled)
        constant = float(np.log(roots).sum()) - 0.5 * n * math.log(2.0 * math.pi)
        if absolute:
            return constant - 0.5 * sum_of_squares * unit * unit
        if not 0.0 < sum_of_squares < math.inf:
            return math.nan
        return constant - 0.5 * n * (1.0 + math.log(sum_of_squares / n) + 2.0 * math.log(unit))

    def score(self, differences: Array, roots: Array, *, absolute: bool) -> Array:
        """Return the derivatives of the log likelihood by the differences."""
        if absolute:
            return -differences
        unit = unit_of(differences)
        scaled = differences / unit
        sum_of_squares = float(scaled @ scaled)
        return scaled * (-roots.size / sum_of_squares if 0.0 < sum_of_squares < math.inf else math.nan) / unit

    def variance(self, differences: Array, dof: float, *, absolute: bool) -> float:
        """Return the variance of the residuals, 1 where standard deviations were given."""
        if absolute:
            return 1.0
        return float(differences @ differences) / dof if dof > 0 else math.nan
