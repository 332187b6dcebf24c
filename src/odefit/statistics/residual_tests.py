"""Tests whether the residuals look like independent normal errors of one variance.

* **Durbin-Watson**: sum (r_t - r_(t-1))^2/sum r_t^2, near 2 for independent errors; its p-value is that of the test in
  `autocorrelation.py`, which knows the columns of the Jacobian.
* **Runs** (Wald and Wolfowitz): the number of stretches of one sign, given how many residuals have each; means and
  variances are added over the series.
* **Normality** (D'Agostino and Pearson): K^2 from skewness and kurtosis, from 20 data on.
* **Equal variance** (Breusch and Pagan, studentised by Koenker): N R^2 of a regression of r^2 on the model value, and
  on which observable it is where each has ten data or more; so it also finds observables with noise of their own.

p-values are two-sided.  A test that the numbers do not allow (all of them equal, say) has none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.native.norm import unit_of
from odefit.statistics.autocorrelation import LagTest
from odefit.statistics.residuals import Residuals

Array = npt.NDArray[np.float64]

_FEWEST_FOR_MOMENTS = 20
_FEWEST_FOR_VARIANCES = 10
_PER_OBSERVABLE = 10
_SMALLEST = 1e-250  # of moments, in units of the largest residual; below, they have underflowed


class ResidualTests(NamedTuple):
    """Statistics and p-values; None where there are too few data."""

    durbin_watson: float | None
    lag1: float | None
    autocorrelation_p: float | None
    runs_p: float | None
    normality_p: float | None
    equal_variance_p: float | None


def residual_tests(residuals: Residuals, lag: LagTest | None) -> ResidualTests:
    """Test the residuals; none of the tests depends on their unit, nor on that of the model values."""
    residuals = residuals.in_units_of(unit_of(residuals.value))
    p = None if lag is None else _two_sided(lag.z)
    return ResidualTests(
        durbin_watson(residuals),
        None if lag is None else lag.lag1,
        p,
        runs(residuals),
        normality(residuals.value),
        equal_variance(residuals),
    )


def durbin_watson(residuals: Residuals) -> float | None:
    """Return the statistic of Durbin and Watson over all series."""
    r, linked = residuals.value, residuals.linked
    squares = float(r @ r)
    if not linked.any() or squares == 0.0:
        return None
    # with several series there are fewer differences; the factor keeps 2 the value for independent errors
    return float(np.square(np.diff(r)[linked]).sum()) / squares * r.size / (float(linked.sum()) + 1.0)


def runs(residuals: Residuals) -> float | None:
    """Return the p-value of the number of runs."""
    count = mean = variance = 0.0
    for start, end in zip(residuals.first[:-1], residuals.first[1:], strict=True):
        signs = residuals.value[start:end] > 0
        n, up = signs.size, float(signs.sum())
        down = n - up
        if n < 2 or up == 0 or down == 0:
            continue
        count += 1 + np.count_nonzero(np.diff(signs))
        expected = 1.0 + 2.0 * up * down / n
        mean += expected
        variance += (expected - 1.0) * (expected - 2.0) / (n - 1.0)
    return _two_sided((count - mean) / math.sqrt(variance)) if variance > 0 else None


def normality(r: Array) -> float | None:
    """Return the p-value of D'Agostino and Pearson's test."""
    n = r.size
    centred = r - r.mean() if n else r
    second = float(np.mean(centred**2)) if n else 0.0
    square = second**2
    if n < _FEWEST_FOR_MOMENTS or not _SMALLEST < square < math.inf:
        return None
    skewness = float(np.mean(centred**3)) / second**1.5
    kurtosis = float(np.mean(centred**4)) / square
    return math.exp(-0.5 * (_skewness_score(skewness, n) ** 2 + _kurtosis_score(kurtosis, n) ** 2))


def _skewness_score(skewness: float, n: int) -> float:
    """Return the standard normal score of a skewness (D'Agostino 1970)."""
    y = skewness * math.sqrt((n + 1.0) * (n + 3.0) / (6.0 * (n - 2.0)))
    beta = 3.0 * (n**2 + 27.0 * n - 70.0) * (n + 1.0) * (n + 3.0) / ((n - 2.0) * (n + 5.0) * (n + 7.0) * (n + 9.0))
    w2 = -1.0 + math.sqrt(2.0 * (beta - 1.0))
    return math.asinh(y / math.sqrt(2.0 / (w2 - 1.0))) / math.sqrt(0.5 * math.log(w2))


def _kurtosis_score(kurtosis: float, n: int) -> float:
    """Return the standard normal score of a kurtosis (Anscombe and Glynn 1983)."""
    expected = 3.0 * (n - 1.0) / (n + 1.0)
    variance = 24.0 * n * (n - 2.0) * (n - 3.0) / ((n + 1.0) ** 2 * (n + 3.0) * (n + 5.0))
    x = (kurtosis - expected) / math.sqrt(variance)
    skew = 6.0 * (n**2 - 5.0 * n + 2.0) / ((n + 7.0) * (n + 9.0))
    skew *= math.sqrt(6.0 * (n + 3.0) * (n + 5.0) / (n * (n - 2.0) * (n - 3.0)))
    a = 6.0 + 8.0 / skew * (2.0 / skew + math.sqrt(1.0 + 4.0 / skew**2))
    below = 1.0 + x * math.sqrt(2.0 / (a - 4.0))
    root = math.copysign((abs((1.0 - 2.0 / a) / below)) ** (1.0 / 3.0), below) if below else math.inf
    return (1.0 - 2.0 / (9.0 * a) - root) / math.sqrt(2.0 / (9.0 * a))


def equal_variance(residuals: Residuals) -> float | None:
    """Return the p-value of Breusch and Pagan's test in Koenker's form."""
    from scipy.special import chdtrc  # slow to import, and needed only here

    squares, values = residuals.value**2, residuals.model / unit_of(residuals.model)
    spread = float(np.sum(np.square(squares - squares.mean()))) if squares.size else 0.0
    if squares.size < _FEWEST_FOR_VARIANCES or not _SMALLEST < spread < math.inf:
        return None
    kinds, place, counts = np.unique(residuals.observable, return_inverse=True, return_counts=True)
    centred = values - (np.bincount(place, values) / counts)[place]
    sizes = np.sqrt(np.bincount(place, centred**2) / counts)
    model = centred / np.where(sizes > 0, sizes, 1.0)[place]
    explained, dof = 0.0, 0
    if model.any():
        explained, dof = float(model @ squares) ** 2 / float(model @ model), 1
    # the model values are centred within each observable, and therefore orthogonal to their means
    if kinds.size > 1 and counts.min() >= _PER_OBSERVABLE:
        means = np.bincount(place, squares) / counts
        explained += float(counts @ np.square(means - squares.mean()))
        dof += kinds.size - 1
    return float(chdtrc(dof, squares.size * explained / spread)) if dof else None


def _two_sided(z: float) -> float:
    from scipy.special import ndtr

    return float(2.0 * ndtr(-abs(z)))
