"""Linearised statistics from the triangular factor of the Jacobian.

At the solution the residual is r + S d + ..., S = Q R.  With independent errors of variance s^2 the
estimates have covariance s^2 H^-1, H = R'R, on the solver's scale; s^2 is 1 where standard deviations
are given, and ||r||^2/(N - rank) otherwise.

* Priors add rows P to S whose residuals have variance 1 whatever s^2 is.  With H^-1 = W W' the covariance is
  W (s^2 W'(H - P'P)W + W'P'P W) W' = W (s^2 I + (1 - s^2) (PW)'(PW)) W'.
* Errors that are not independent, or not of one variance, change what stands between W and W': the *middle*
  (`autocorrelation.py`, `sandwich.py`).
* Rows E that must hold exactly (infinite weights) confine d to their null space, d = Z e: H^-1 becomes
  Z (Z'H Z)^-1 Z'.  They are no data; a row whose finite weight is so large that it is as good as exact is one
  datum, and takes one direction.
* A parameter at an active bound is not random in this picture: it has no standard error, and the others
  are conditional on it.
* With the columns of R scaled to norm 1 and R = U diag(w) V', directions of negligible w are not determined
  by the data, and neither are parameters that take part in them.
* Residuals smaller than what the integration resolves say nothing of the noise: s^2 is not taken smaller than
  `resolution`^2.  A state y_j is known to rtol |y_j| + atol, an observable g to the sum of |dg/dy_j| times that, and
  `resolution` is the norm of these, weighted: what is not integrated has no part in it.  It is not smaller than
  the rounding of the data either.  Errors of an integration are not independent, and an error of norm e in the
  data moves parameter i by at most e sqrt(H^-1_ii): therefore the whole square, not its share of one datum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_UNDETERMINED = 1e-8  # singular values of the scaled factor below this fraction of the largest
_DEPENDENT = 1e-10  # singular values of exact rows below this fraction of the largest
_TAKES_PART = 0.05  # a component of an undetermined direction that counts

DETERMINED = "determined"
AT_BOUND = "at its bound"
UNDETERMINED = "not determined by these data"


@dataclass(frozen=True, eq=False)
class Directions:
    """What the data determine in first order, and what they do not.

    Attributes
    ----------
    root
        (n, rank), the inverse of H on the determined directions is ``root root'``.
    lost
        (n, d), a basis of the directions that are not determined.
    active, lost_parameters
        Parameters at a bound; parameters that take part in `lost`.
    met
        Number of directions that exact rows fix.
    """

    root: Array
    lost: Array
    active: Flags
    lost_parameters: Flags
    met: int = 0

    @property
    def rank(self) -> int:
        """Number of determined directions."""
        return self.root.shape[1]


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
        A word per parameter from the rank alone; `verdicts.py` goes on from there.
    variance
        The residual variance s^2 used.
    rank, dof
        Number of directions that the data determine (those that exact rows fix are not among them), and of data
        less these.
    directions, spread
        The directions, and (n, rank) with covariance ``spread spread'`` before parameters are taken out.
    resolved
        False where s^2 is that of the integration error, the residuals being smaller.
    """

    covariance: Array
    standard_error: Array
    quantile: float
    verdict: tuple[str, ...]
    variance: float
    rank: int
    dof: float
    directions: Directions
    spread: Array
    resolved: bool

    @cached_property
    def correlation(self) -> Array:
        """Correlation of the estimates (n, n); NaN for parameters that have no standard error."""
        with np.errstate(invalid="ignore", divide="ignore"):
            correlation = self.covariance / np.outer(self.standard_error, self.standard_error)
        known = np.flatnonzero(np.isfinite(np.diag(correlation)))
        correlation[known, known] = 1.0
        return np.clip(correlation, -1.0, 1.0)


def find_directions(factor: Array, active: Flags, equality_rows: Array | None = None) -> Directions:
    """Split the space of the parameters into what the rows of `factor` determine and what they do not.

    Parameters
    ----------
    factor
        A factor R of the Jacobian with the rows of the priors, R'R = H; (any number of rows, n).
    active
        Parameters held at a bound.
    equality_rows
        Rows E that hold exactly, (k, n).
    """
    n = factor.shape[1]
    free = np.flatnonzero(~active)
    norms = np.linalg.norm(factor[:, free], axis=0)
    exact = np.empty((0, free.size)) if equality_rows is None else equality_rows[:, free]
    sizes = np.where(norms > 0, norms, np.linalg.norm(exact, axis=0))
    safe = np.where(sizes > 0, sizes, 1.0)
    basis = _null_space(exact / safe)
    confined = (factor[:, free] / safe) @ basis
    _, w, vt = np.linalg.svd(confined, full_matrices=confined.shape[0] < confined.shape[1])
    w = np.append(w, np.zeros(vt.shape[0] - w.size))
    good = w > _UNDETERMINED * (w[0] if w.size else 1.0)
    lost = basis @ vt[~good].T
    fixed = ~np.any(np.abs(basis) > 1e-12, axis=1) if equality_rows is not None else np.zeros(free.size, dtype=bool)
    parameters = np.zeros(n, dtype=bool)
    parameters[free] = ((norms == 0) & ~fixed) | np.any(np.abs(lost) > _TAKES_PART, axis=1)
    return Directions(
        root=_spread_out((basis @ (vt[good].T / w[good])) / safe[:, None], free, n),
        lost=_spread_out(lost / safe[:, None], free, n),
        active=active,
        lost_parameters=parameters,
        met=free.size - basis.shape[1],
    )


def independent_errors(rank: int, variance: float, prior_image: Array | None = None) -> Array:
    """Return the middle of the covariance for independent errors of one variance, from the rows P W of priors."""
    middle = variance * np.eye(rank)
    if prior_image is not None:
        middle += (1.0 - variance) * (prior_image.T @ prior_image)
    return middle


def resolved_variance(variance: float, resolution: float = 0.0) -> tuple[float, bool]:
    """Return s^2, and whether it is larger than what the integration resolves."""
    if variance < resolution**2:
        return resolution**2, False
    return variance, True


def statistics_of(
    directions: Directions,
    middle: Array,
    variance: float,
    dof: float,
    *,
    absolute: bool = False,
    resolved: bool = True,
) -> ParameterStatistics:
    """Put the covariance ``root middle root'`` and what follows from it together."""
    spread = directions.root @ _square_root(middle)
    covariance = spread @ spread.T
    covariance[directions.active, :] = 0.0
    covariance[:, directions.active] = 0.0
    lost = directions.lost_parameters
    covariance[lost, :] = np.nan
    covariance[:, lost] = np.nan
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    words = np.where(directions.active, AT_BOUND, np.where(lost, UNDETERMINED, DETERMINED))
    return ParameterStatistics(
        covariance=covariance,
        standard_error=np.where(directions.active | lost, np.nan, errors),
        quantile=quantile_of(dof, absolute=absolute),
        verdict=tuple(words.tolist()),
        variance=variance,
        rank=directions.rank,
        dof=dof,
        directions=directions,
        spread=spread,
        resolved=resolved,
    )


def quantile_of(dof: float, *, absolute: bool = False) -> float:
    """Return the 97.5 % quantile of Student's distribution, of the normal one if the variance is known."""
    from scipy.special import ndtri, stdtrit  # slow to import, and needed only here

    if absolute:
        return float(ndtri(0.975))
    return float(stdtrit(dof, 0.975)) if dof > 0 else math.nan


def _square_root(middle: Array) -> Array:
    """Return X with X X' = middle, which may be semidefinite or, without a variance, NaN."""
    if not np.isfinite(middle).all():
        return np.full_like(middle, np.nan)
    try:
        return np.asarray(np.linalg.cholesky(middle), dtype=np.float64)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(middle)
        return vectors * np.sqrt(np.maximum(values, 0.0))


def _spread_out(rows: Array, places: npt.NDArray[np.intp], n: int) -> Array:
    out = np.zeros((n, rows.shape[1]))
    out[places] = rows
    return out


def _singular(rows: Array) -> tuple[int, Array]:
    """Return the rank of `rows`, each of which counts whatever its size, and their right singular vectors."""
    norms = np.linalg.norm(rows, axis=1)
    _, w, vt = np.linalg.svd(rows / np.where(norms > 0, norms, 1.0)[:, None], full_matrices=True)
    return int(np.sum(w > _DEPENDENT * w[0])) if w.size and w[0] > 0 else 0, vt


def _null_space(rows: Array) -> Array:
    """Return an orthonormal basis (n, n - rank) of the null space of `rows`."""
    if not rows.size:
        return np.eye(rows.shape[1])
    rank, vt = _singular(rows)
    return vt[rank:].T
