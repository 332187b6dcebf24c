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
* Where the model is so strongly curved that J'J is not the Hessian H of the objective, H itself takes its place
  (`directions_of_hessian`).
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
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.native.norm import column_norms
from odefit.statistics.matrices import Matrix, identity, is_dense
from odefit.statistics.spread import DenseSpread, SparseSpread, Spread, square_root

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

UNDETERMINED_BELOW = 1e-8
"""Singular values of the scaled factor below this fraction of the largest are those of undetermined directions."""
_UNSEEN = 1e-10  # the data see so much less of an unknown than of others, relative to the exact rows: rounding
_DEPENDENT = 1e-10  # singular values of exact rows below this fraction of the largest
_TAKES_PART = 0.05  # a component of an undetermined direction that counts, unless very many have a part in it
_AT_A_TIME = 256  # rows of the covariance

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

    root: Matrix
    lost: Matrix
    active: Flags
    lost_parameters: Flags
    met: int = 0

    @property
    def rank(self) -> int:
        """Number of determined directions."""
        return self.root.shape[1]


class Pairs(NamedTuple):
    """Pairs of parameters, i < j, and the correlations of their estimates."""

    i: npt.NDArray[np.int64]
    j: npt.NDArray[np.int64]
    correlation: Array

    @classmethod
    def none(cls) -> Pairs:
        """Return no pairs."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))

    def and_also(self, other: Pairs, most: int | None = None) -> Pairs:
        """Return the pairs of both, if there are more than `most` only the closest."""
        i, j = np.concatenate([self.i, other.i]), np.concatenate([self.j, other.j])
        correlation = np.concatenate([self.correlation, other.correlation])
        if most is not None and i.size > most:
            kept = np.sort(np.argsort(-np.abs(correlation), kind="stable")[:most])
            i, j, correlation = i[kept], j[kept], correlation[kept]
        return Pairs(i, j, correlation)


@dataclass(frozen=True, eq=False)
class ParameterStatistics:
    """Statistics of the free parameters on the solver's scale.

    Attributes
    ----------
    standard_error
        (n,), square roots of the covariance; NaN for parameters that have none.
    quantile
        Half width of a 95 % interval in standard errors.
    verdict
        A word per parameter from the rank alone; `verdicts.py` goes on from there.
    variance, deviation
        The residual variance s^2 used, and s, which is a number also where its square is none.
    rank, dof
        Number of directions that the data determine (those that exact rows fix are not among them), and of data
        less these.
    directions, spread
        The directions, and the covariance before parameters are taken out.
    resolved
        False where s^2 is that of the integration error, the residuals being smaller.
    """

    standard_error: Array
    quantile: float
    verdict: tuple[str, ...]
    variance: float
    deviation: float
    rank: int
    dof: float
    directions: Directions
    spread: Spread
    resolved: bool

    @cached_property
    def covariance(self) -> Array:
        """Covariance (n, n); zero in rows and columns of parameters at a bound, NaN for undetermined ones."""
        return self._taken_out(self.spread.rows(slice(None)), slice(None))

    def _taken_out(self, rows: Array, which: slice) -> Array:
        for flags, value in ((self.directions.active, 0.0), (self.directions.lost_parameters, np.nan)):
            rows[flags[which], :] = value
            rows[:, flags] = value
        return rows

    def correlated_pairs(self, level: float, most: int | None = None) -> Pairs:
        """Return pairs of parameters whose estimates have a correlation of at least `level`, the `most` closest.

        The covariance is written out some rows at a time.
        """
        n, found = self.standard_error.size, Pairs.none()
        for first in range(0, n, _AT_A_TIME):
            which = slice(first, min(first + _AT_A_TIME, n))
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                covariance = self._taken_out(self.spread.rows(which), which)
                correlation = covariance / np.outer(self.standard_error[which], self.standard_error)
                i, j = np.nonzero(np.triu(np.abs(correlation) >= level, k=1 + first))
            found = found.and_also(Pairs(first + i, j, np.clip(correlation[i, j], -1.0, 1.0)), most)
        return found

    def correlation_of(self, i: int, j: int) -> float:
        """Return the correlation of two estimates; NaN if there is none."""
        rows = self._taken_out(self.spread.rows(slice(i, i + 1)), slice(i, i + 1))
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return float(np.clip(rows[0, j] / (self.standard_error[i] * self.standard_error[j]), -1.0, 1.0))

    @cached_property
    def correlation(self) -> Array:
        """Correlation of the estimates (n, n); NaN for parameters that have no standard error."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            correlation = self.covariance / np.outer(self.standard_error, self.standard_error)
        known = np.flatnonzero(np.isfinite(np.diag(correlation)))
        correlation[known, known] = 1.0
        return np.clip(correlation, -1.0, 1.0)


def takes_part(n: int) -> float:
    """Return which component of an undetermined direction counts; where all n take part alike, each has 1/sqrt(n)."""
    return min(_TAKES_PART, 0.25 / math.sqrt(max(n, 1)))


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
    norms = column_norms(factor[:, free])
    exact = np.empty((0, free.size)) if equality_rows is None else equality_rows[:, free]
    sizes = _column_sizes(norms, column_norms(exact))
    safe = np.where(sizes > 0, sizes, 1.0)
    basis = _null_space(exact / safe)
    confined = (factor[:, free] / safe) @ basis
    _, w, vt = np.linalg.svd(confined, full_matrices=confined.shape[0] < confined.shape[1])
    w = np.append(w, np.zeros(vt.shape[0] - w.size))
    good = w > UNDETERMINED_BELOW * (w[0] if w.size else 1.0)
    lost = basis @ vt[~good].T
    fixed = ~np.any(np.abs(basis) > 1e-12, axis=1) if equality_rows is not None else np.zeros(free.size, dtype=bool)
    parameters = np.zeros(n, dtype=bool)
    parameters[free] = ((sizes == 0) & ~fixed) | np.any(np.abs(lost) > takes_part(n), axis=1)
    return Directions(
        root=_spread_out((basis @ (vt[good].T / w[good])) / safe[:, None], free, n),
        lost=_spread_out(lost / safe[:, None], free, n),
        active=active,
        lost_parameters=parameters,
        met=free.size - basis.shape[1],
    )


def _column_sizes(norms: Array, exact: Array) -> Array:
    """Return the sizes of columns in the data, or in the exact rows where the data see nothing but rounding.

    Both are compared by their ratio, which the unit of the unknown does not change.
    """
    ratio = norms / np.where(exact > 0.0, exact, np.inf)
    largest = float(np.max(ratio, initial=0.0)) or 1.0
    return np.where((norms == 0.0) | (ratio < _UNSEEN * largest) & (exact > 0.0), largest * exact, norms)


def directions_of_hessian(hessian: Array) -> Directions:
    """Return the directions of a regular minimum from its Hessian: zero for unknowns on a bound, else definite."""
    active = np.diag(hessian) == 0.0
    n, free = active.size, np.flatnonzero(~active)
    sizes = np.sqrt(np.diag(hessian)[free])
    values, vectors = np.linalg.eigh(hessian[np.ix_(free, free)] / np.outer(sizes, sizes))
    root = (vectors / np.sqrt(values)) / sizes[:, None]
    return Directions(
        root=_spread_out(root, free, n),
        lost=np.zeros((n, 0)),
        active=active,
        lost_parameters=np.zeros(n, dtype=bool),
    )


def independent_errors(
    rank: int, variance: float, prior_image: Matrix | None = None, *, sparse: bool = False
) -> Matrix:
    """Return the middle of the covariance for independent errors of one variance, from the rows P W of priors."""
    middle = identity(rank, variance, sparse=sparse)
    if prior_image is not None:
        middle = middle + (1.0 - variance) * (prior_image.T @ prior_image)
    return middle


def resolved_variance(variance: float, resolution: float = 0.0) -> tuple[float, bool]:
    """Return s^2, and whether it is larger than what the integration resolves."""
    least = resolution * resolution
    return (least, False) if variance < least else (variance, True)


def statistics_of(
    directions: Directions,
    middle: Matrix,
    variance: float,
    dof: float,
    *,
    absolute: bool = False,
    resolved: bool = True,
    unit: float = 1.0,
) -> ParameterStatistics:
    """Put the covariance ``root middle root'`` and what follows from it together.

    `middle` and `variance` are in units of ``unit^2``: with residuals of 1e-170 they would be no numbers otherwise.
    """
    root = unit * directions.root
    spread = DenseSpread(root @ square_root(middle)) if is_dense(root) else SparseSpread(root, middle)
    lost = directions.lost_parameters
    errors = spread.errors
    words = np.where(directions.active, AT_BOUND, np.where(lost, UNDETERMINED, DETERMINED))
    return ParameterStatistics(
        standard_error=np.where(directions.active | lost, np.nan, errors),
        quantile=quantile_of(dof, absolute=absolute),
        verdict=tuple(words.tolist()),
        variance=variance * unit * unit,
        deviation=unit * math.sqrt(variance) if variance >= 0.0 else math.nan,
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
