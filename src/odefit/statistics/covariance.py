"""Linearised statistics from the triangular factor of the Jacobian.

At the solution the residual is r + S d + ..., S = Q R.  With independent errors of variance s^2 the
estimates have covariance s^2 (R'R)^-1 on the solver's scale; s^2 is 1 where standard deviations are
given, and ||r||^2/(N - rank) otherwise.  A parameter at an active bound is not random in this picture:
it is left out, and the others are conditional on it.  With R = U diag(w) V' (columns scaled to norm 1)
directions of negligible w are not determined by the data, and neither are parameters that take part
in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_UNDETERMINED = 1e-8  # singular values of the scaled factor below this fraction of the largest
_TAKES_PART = 0.05  # a component of an undetermined direction that counts

DETERMINED = "determined"
AT_BOUND = "at its bound"
UNDETERMINED = "not determined by these data"


@dataclass(frozen=True, eq=False)
class ParameterStatistics:
    """Statistics of the free parameters on the solver's scale.

    Attributes
    ----------
    covariance
        (n, n); NaN in rows and columns of parameters that have none.
    standard_error
        (n,), its square roots.
    quantile
        Half width of a 95 % interval in standard errors.
    verdict
        A word per parameter.
    variance
        The residual variance s^2 used.
    rank
        Number of determined directions.
    """

    covariance: Array
    standard_error: Array
    quantile: float
    verdict: tuple[str, ...]
    variance: float
    rank: int


def linearised_statistics(
    factor: Array, active: npt.NDArray[np.bool_], sum_of_squares: float, n_data: int, *, absolute: bool
) -> ParameterStatistics:
    """Compute the statistics.

    Parameters
    ----------
    factor
        Triangular factor R of the Jacobian, (n, n).
    active
        Parameters held at a bound.
    sum_of_squares
        ||r||^2.
    absolute
        Standard deviations were given: do not rescale.
    """
    n = factor.shape[0]
    free = np.flatnonzero(~active)
    verdict = [AT_BOUND if is_active else DETERMINED for is_active in active]
    columns = factor[:, free]
    norms = np.linalg.norm(columns, axis=0)
    safe = np.where(norms > 0, norms, 1.0)
    _, w, vt = np.linalg.svd(columns / safe, full_matrices=False)
    good = w > _UNDETERMINED * (w[0] if w.size else 1.0)
    rank = int(good.sum())
    dof = n_data - rank
    variance = 1.0 if absolute else (sum_of_squares / dof if dof > 0 else math.nan)
    for position, column in enumerate(free):
        if norms[position] == 0 or np.any(np.abs(vt[~good, position]) > _TAKES_PART):
            verdict[column] = UNDETERMINED
    inverse = vt[good].T / w[good]
    covariance = np.full((n, n), np.nan)
    covariance[np.ix_(free, free)] = variance * (inverse @ inverse.T) / np.outer(safe, safe)
    lost = np.array([word != DETERMINED for word in verdict])
    covariance[lost, :] = np.nan
    covariance[:, lost] = np.nan
    return ParameterStatistics(
        covariance=covariance,
        standard_error=np.sqrt(np.diag(covariance)),
        quantile=_quantile(dof, absolute),
        verdict=tuple(verdict),
        variance=variance,
        rank=rank,
    )


def _quantile(dof: int, absolute: bool) -> float:
    from scipy.special import ndtri, stdtrit  # slow to import, and needed only here

    if absolute:
        return float(ndtri(0.975))
    return float(stdtrit(dof, 0.975)) if dof > 0 else math.nan
