"""Linearised statistics from the triangular factor of the Jacobian.

At the solution the residual is r + S d + ..., S = Q R.  With independent errors of variance s^2 the
estimates have covariance s^2 H^-1, H = R'R, on the solver's scale; s^2 is 1 where standard deviations
are given, and ||r||^2/(N - rank) otherwise.

* Priors add rows P to S whose residuals have variance 1 whatever s^2 is: the covariance is
  H^-1 (s^2 (H - P'P) + P'P) H^-1 = s^2 H^-1 + (1 - s^2) H^-1 P'P H^-1.
* Rows E that must hold exactly (infinite weights) confine d to their null space, d = Z e: H^-1 becomes
  Z (Z'H Z)^-1 Z'.  They are no data; a row whose finite weight is so large that it is as good as exact is one
  datum, and takes one direction.
* A parameter at an active bound is not random in this picture: it has no standard error, and the others
  are conditional on it.
* With the columns of R scaled to norm 1 and R = U diag(w) V', directions of negligible w are not determined
  by the data, and neither are parameters that take part in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_UNDETERMINED = 1e-8  # singular values of the scaled factor below this fraction of the largest
_DEPENDENT = 1e-10  # singular values of exact rows below this fraction of the largest
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
        (n, n); zero in rows and columns of parameters at a bound, NaN for undetermined ones.
    standard_error
        (n,), its square roots; NaN for parameters that have none.
    quantile
        Half width of a 95 % interval in standard errors.
    verdict
        A word per parameter.
    variance
        The residual variance s^2 used.
    rank
        Number of directions that the data determine; those that exact rows fix are not among them.
    dof
        Data less directions that they, and not exact rows, determine.
    """

    covariance: Array
    standard_error: Array
    quantile: float
    verdict: tuple[str, ...]
    variance: float
    rank: int
    dof: int


def linearised_statistics(
    factor: Array,
    active: npt.NDArray[np.bool_],
    sum_of_squares: float,
    n_data: int,
    *,
    absolute: bool,
    prior_rows: Array | None = None,
    equality_rows: Array | None = None,
    n_exact: int | None = None,
) -> ParameterStatistics:
    """Compute the statistics.

    Parameters
    ----------
    factor
        A factor R of the Jacobian with the rows of the priors, R'R = H; (any number of rows, n).
    active
        Parameters held at a bound.
    sum_of_squares
        ||r||^2 of the data.
    absolute
        Standard deviations were given: do not rescale.
    prior_rows
        Rows P of the Jacobian that belong to priors, (k, n).
    equality_rows
        Rows E that hold exactly, (k, n).
    n_exact
        How many of them, the first ones, are not among the data; all by default.
    """
    n = factor.shape[1]
    free = np.flatnonzero(~active)
    norms = np.linalg.norm(factor[:, free], axis=0)
    exact = np.empty((0, free.size)) if equality_rows is None else equality_rows[:, free]
    sizes = np.where(norms > 0, norms, np.linalg.norm(exact, axis=0))
    safe = np.where(sizes > 0, sizes, 1.0)
    basis = _null_space(exact / safe)
    _, w, vt = np.linalg.svd(factor[:, free] / safe @ basis, full_matrices=False)
    good = w > _UNDETERMINED * (w[0] if w.size else 1.0)
    rank = int(good.sum())
    # columns of `root` span the determined directions: H^-1 = root root'
    root = basis @ (vt[good].T / w[good]) / safe[:, None]
    lost_directions = basis @ vt[~good].T
    met = free.size - basis.shape[1]
    dof = n_data - rank - (met - _rank(exact[:n_exact] / safe))
    variance = 1.0 if absolute else (sum_of_squares / dof if dof > 0 else math.nan)
    covariance = np.zeros((n, n))
    block = variance * (root @ root.T)
    if prior_rows is not None and prior_rows.size:
        spread = root @ (root.T @ prior_rows[:, free].T)
        block += (1.0 - variance) * (spread @ spread.T)
    covariance[np.ix_(free, free)] = block
    verdict = [AT_BOUND if is_active else DETERMINED for is_active in active]
    for position, column in enumerate(free):
        silent = norms[position] == 0 and np.any(np.abs(basis[position]) > 1e-12)
        if silent or np.any(np.abs(lost_directions[position]) > _TAKES_PART):
            verdict[column] = UNDETERMINED
    lost = np.array([word == UNDETERMINED for word in verdict], dtype=bool)
    covariance[lost, :] = np.nan
    covariance[:, lost] = np.nan
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    return ParameterStatistics(
        covariance=covariance,
        standard_error=np.where(active | lost, np.nan, errors),
        quantile=_quantile(dof, absolute),
        verdict=tuple(verdict),
        variance=variance,
        rank=rank,
        dof=dof,
    )


def _singular(rows: Array) -> tuple[int, Array]:
    """Return the rank of `rows`, each of which counts whatever its size, and their right singular vectors."""
    norms = np.linalg.norm(rows, axis=1)
    _, w, vt = np.linalg.svd(rows / np.where(norms > 0, norms, 1.0)[:, None], full_matrices=True)
    return int(np.sum(w > _DEPENDENT * w[0])) if w.size and w[0] > 0 else 0, vt


def _rank(rows: Array) -> int:
    return _singular(rows)[0] if rows.size else 0


def _null_space(rows: Array) -> Array:
    """Return an orthonormal basis (n, n - rank) of the null space of `rows`."""
    if not rows.size:
        return np.eye(rows.shape[1])
    rank, vt = _singular(rows)
    return vt[rank:].T


def _quantile(dof: int, absolute: bool) -> float:
    from scipy.special import ndtri, stdtrit  # slow to import, and needed only here

    if absolute:
        return float(ndtri(0.975))
    return float(stdtrit(dof, 0.975)) if dof > 0 else math.nan
