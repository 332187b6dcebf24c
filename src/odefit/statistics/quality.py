"""How good a fit is: likelihood, information criteria, R2, chi2.

Conventions are those of statsmodels.  With N data and k estimated directions of the parameters (an unknown common
variance does not count, a parameter at a bound does):

    loglik = -N/2 log(2 pi ||r||^2/N) - N/2 + sum log sqrt(w)       variance unknown, its best value inserted
    loglik = -||r||^2/2 - N/2 log(2 pi) + sum log 1/sigma           standard deviations given
    AIC = -2 loglik + 2 k,  AICc = -2 loglik + 2 k N/(N - k - 1),  BIC = -2 loglik + k log N
    R2 = 1 - sum r^2/sum w (d - mean)^2, with the weighted mean of each observable
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from odefit.native.norm import unit_of
from odefit.statistics.residuals import Residuals


class Criteria(NamedTuple):
    """Information criteria; smaller is better.  None where they do not exist."""

    aic: float | None
    aicc: float | None
    bic: float | None


def information_criteria(loglik: float | None, n_data: int, k: int) -> Criteria:
    """Return AIC, AICc and BIC."""
    if loglik is None or not math.isfinite(loglik) or n_data <= 0:
        return Criteria(None, None, None)
    left = n_data - k - 1
    return Criteria(
        2.0 * k - 2.0 * loglik,
        2.0 * k * n_data / left - 2.0 * loglik if left > 0 else None,
        k * math.log(n_data) - 2.0 * loglik,
    )


def r_squared(residuals: Residuals) -> float | None:
    """Return the share of the data's weighted variation about their means that the model explains."""
    unit = unit_of(residuals.value, residuals.data)
    value, total = residuals.value / unit, 0.0
    for name in np.unique(residuals.observable):
        rows = residuals.observable == name
        roots, data = residuals.root_weight[rows] / unit_of(residuals.root_weight[rows]), residuals.data[rows] / unit
        mean = float(roots @ data) / float(roots @ roots)
        total += float(np.square(data - roots * mean).sum())
    return 1.0 - float(value @ value) / total if total > 0 else None


def chi2_p(chi2: float, dof: int) -> float | None:
    """Return the probability of a larger chi2."""
    from scipy.special import chdtrc  # slow to import, and needed only here

    return float(chdtrc(dof, chi2)) if dof > 0 and math.isfinite(chi2) else None


class Misfit(NamedTuple):
    """What one experiment, or one observable of it, contributes.

    Attributes
    ----------
    sum_of_squares
        Of the weighted residuals.
    worst
        Index of the observable and time of the largest weighted residual, and that residual.
    """

    experiment: int
    observable: int | None
    n_data: int
    sum_of_squares: float
    worst: tuple[int, float, float]


def misfits(residuals: Residuals, *, by_observable: bool) -> list[Misfit]:
    """Return the misfit of every experiment, or of every observable in every experiment."""
    if not residuals.value.size:
        return []
    changed = np.diff(residuals.experiment) != 0
    if by_observable:
        changed |= np.diff(residuals.observable) != 0
    ends = [0, *(np.flatnonzero(changed) + 1).tolist(), residuals.value.size]
    contributions = []
    for start, end in zip(ends[:-1], ends[1:], strict=True):
        part = residuals.value[start:end]
        k = start + int(np.argmax(np.abs(part)))
        worst = (int(residuals.observable[k]), float(residuals.time[k]), float(residuals.value[k]))
        observable = int(residuals.observable[start]) if by_observable else None
        contributions.append(Misfit(int(residuals.experiment[start]), observable, part.size, float(part @ part), worst))
    return contributions
