"""Residuals that resemble their neighbours in time: a test, and standard errors that allow for it.

The errors u of a series follow u_t = rho u_(t-1) + e_t: their correlation matrix C has the entries rho^|i - j| within
a series and 0 between series.  With W W' the inverse of H and Q = S W (orthonormal columns if there are no priors)
the residuals at the solution are r = M u, M = I - Q Q', and the estimates have the covariance

    W (s^2 Q'C Q + (PW)'(PW)) W'.

**Estimation.**  Let L have 1/2 beside its diagonal within series, so that r'L r = sum r_t r_(t+1).  The plain
quotient r'L r/r'r is too small, because the fit has removed from the residuals what resembles the columns of S, the
slow parts first.  Its expectation (numerator over denominator) is

    g(rho) = tr(M C M L)/tr(M C M),

so rho is taken from g(rho) = r'L r/r'r, and s^2 = r'r/tr(M C M).  This corrects for few data and for many
parameters alike.

**Test.**  For independent normal errors r'(L - g(0)) r has mean 0 and variance 2 s^4 tr((M (L - g(0)))^2); the normal
distribution with this variance judges it.

**Quantile.**  For slowly varying columns the covariance is proportional to s^2 (1 + rho)/(1 - rho) = s_e^2/(1 - rho)^2,
s_e being the standard deviation of the e_t.  As var(s_e^2) = 2 s_e^4/N and var(rho) = (1 - rho^2)/N, the relative
variance of the estimated covariance is 2/nu, nu = N (1 - rho)/(3 + rho); with known standard deviations,
nu = N (1 - rho^2)/2.
Intervals use Student's distribution with nu degrees of freedom, N being reduced by the number of parameters.

Neighbours are neighbours in the order of time, whatever their distance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.native.norm import unit_of
from odefit.statistics.matrices import Matrix, from_parts, inner, is_dense, scaled_rows, stacked, trace
from odefit.statistics.residuals import Residuals

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_SHORT = 200  # longer series are better served by Fourier transforms
_FEWEST = 3  # degrees of freedom for a test
_ITERATIONS = 60
_TOLERANCE = 1e-6


class LagTest(NamedTuple):
    """The correlation of a residual with the next one, and how surprising it is.

    Attributes
    ----------
    lag1
        The plain quotient.
    expected
        Its expectation for independent errors, which is negative for few data.
    z
        Standardised deviation from it; positive for neighbours that resemble each other.
    """

    lag1: float
    expected: float
    z: float


class Autocorrelation(NamedTuple):
    """Errors of first order: their correlation, variance, and the middle of the covariance."""

    rho: float
    variance: float
    middle: Matrix
    dof: float


def lag_test(residuals: Residuals, q: Matrix) -> LagTest | None:
    """Test for autocorrelation, with Q = S W (N, rank); None if there are too few data or the residuals vanish."""
    r, linked = residuals.value / unit_of(residuals.value), residuals.linked
    if r.size - q.shape[1] < _FEWEST or not linked.any() or not r.any() or not np.isfinite(r).all():
        return None
    lag1 = float(r @ _neighbours(r, linked)) / float(r @ r)
    gram = q.T @ q
    lq = _neighbours(q, linked)
    qlq = q.T @ lq
    left = r.size - 2.0 * trace(gram) + inner(gram, gram)
    expected = (-2.0 * trace(qlq) + inner(gram, qlq)) / left
    # tr((M K)^2), K = L - expected
    lq = lq - expected * q
    squares = 0.5 * linked.sum() + r.size * expected**2
    rest = qlq - expected * gram
    variance = squares - 2.0 * inner(lq, lq) + inner(rest, rest)
    if not variance > 0:
        return None
    return LagTest(lag1, expected, (lag1 - expected) * left / math.sqrt(2.0 * variance))


def first_order_errors(
    residuals: Residuals, q: Matrix, lag1: float, *, absolute: bool, prior_image: Matrix | None = None
) -> Autocorrelation:
    """Estimate rho >= 0 and s^2, and return the middle of the covariance.

    Parameters
    ----------
    q, lag1
        Q = S W (N, rank), and the plain quotient.
    prior_image
        P W, the rows of priors.
    """
    r, linked = residuals.value, residuals.linked
    traces = _Traces(q, residuals)
    rho = _solve(traces, lag1, 1.0 - 1.0 / r.size)
    variance = 1.0 if absolute else float(r @ r) / traces.at(rho)[0]
    middle = variance * (q.T @ _by_series(q, residuals, rho) if not is_dense(q) else q.T @ correlated(q, linked, rho))
    if prior_image is not None:
        middle = middle + prior_image.T @ prior_image
    left = r.size - q.shape[1]
    dof = left * (1.0 - rho**2) / 2.0 if absolute else left * (1.0 - rho) / (3.0 + rho)
    return Autocorrelation(rho, variance, middle, max(dof, 2.0))


def correlated(x: Array, linked: Flags, rho: float) -> Array:
    """Return C x; the inverse of C is tridiagonal."""
    from scipy.linalg import solveh_banded  # slow to import, and rarely needed

    if rho == 0.0:
        return x.copy()
    inside = np.zeros(x.shape[0])  # number of neighbours
    inside[:-1] += linked
    inside[1:] += linked
    bands = np.zeros((2, x.shape[0]))
    bands[0, 1:] = np.where(linked, -rho, 0.0)
    # 1 - rho^2, 1 or 1 + rho^2 for none, one or two neighbours
    bands[1] = 1.0 + (inside - 1.0) * rho**2
    return solveh_banded(bands, (1.0 - rho**2) * x)


def _by_series(x: Matrix, residuals: Residuals, rho: float) -> Matrix:
    """Return C x for a sparse x: a series has few columns that are not zero."""
    parts = []
    for start, end in zip(residuals.first[:-1].tolist(), residuals.first[1:].tolist(), strict=True):
        part = x[start:end]
        columns = np.unique(part.indices)
        linked = np.ones(end - start - 1, dtype=bool)
        parts.append((correlated(part[:, columns].toarray(), linked, rho), np.arange(start, end), columns))
    return from_parts(parts, x.shape)


def _neighbours(x: Matrix, linked: Flags) -> Matrix:
    """Return L x."""
    if not is_dense(x):
        half = np.where(linked, 0.5, 0.0)
        next_ones, last_ones = scaled_rows(x[1:], half), scaled_rows(x[:-1], half)
        return stacked([next_ones, x[:1] * 0.0]) + stacked([x[:1] * 0.0, last_ones])
    out = np.zeros_like(x)
    link = (0.5 * linked).reshape(-1, *([1] * (x.ndim - 1)))
    out[:-1] += link * x[1:]
    out[1:] += link * x[:-1]
    return out


class _Traces:
    """tr(M C M) and tr(M C M L) as functions of rho.

    Both are linear in C: N + tr(F'C Q) and rho n + tr(G'C Q) with F = Q Q'Q - 2 Q, G = Q Q'L Q - 2 L Q, n being the
    number of pairs of neighbours.  So they are polynomials in rho, whose coefficients are sums of products of rows k
    apart.
    """

    def __init__(self, q: Matrix, residuals: Residuals) -> None:
        lq = _neighbours(q, residuals.linked)
        self._plain = _lagged_products(q, q @ (q.T @ q) - 2.0 * q, residuals)
        self._lagged = _lagged_products(q, q @ (q.T @ lq) - 2.0 * lq, residuals)
        self._plain[0] += q.shape[0]
        self._lagged[1] += residuals.linked.sum()

    def at(self, rho: float) -> tuple[float, float]:
        """Return both traces."""
        powers = rho ** np.arange(self._plain.size)
        return float(powers @ self._plain), float(powers @ self._lagged)


def _lagged_products(x: Matrix, y: Matrix, residuals: Residuals) -> Array:
    """Return the coefficients of tr(y'C x) by powers of rho: sums of products of rows that are k apart."""
    lengths = np.diff(residuals.first)
    out = np.zeros(int(lengths.max()))
    for start, m in zip(residuals.first[:-1].tolist(), lengths.tolist(), strict=True):
        left, right = x[start : start + m], y[start : start + m]
        if not is_dense(left):
            columns = np.unique(left.indices)
            left, right = left[:, columns].toarray(), right[:, columns].toarray()
        out[:m] += _sums_of_diagonals(left @ right.T) if m <= _SHORT else _products_by_fourier(left, right)
    return out


def _sums_of_diagonals(products: Array) -> Array:
    place = np.arange(products.shape[0])
    sums = np.bincount(np.abs(place[:, None] - place).ravel(), products.ravel())
    return sums.astype(np.float64)


def _products_by_fourier(x: Array, y: Array) -> Array:
    m = x.shape[0]
    size = 1 << (2 * m - 1).bit_length()  # room for both signs of k
    left, right = (np.fft.rfft(part.T, size) for part in (x, y))
    products = np.fft.irfft(np.einsum("ij,ij->j", left.conj(), right), size)
    out = products[:m].copy()
    out[1:] += products[: size - m : -1]
    return out


def _solve(traces: _Traces, quotient: float, most: float) -> float:
    """Solve g(rho) = quotient on [0, most] by bracketing (Illinois); the nearer end if there is no solution."""

    def excess(rho: float) -> float:
        plain, lagged = traces.at(rho)
        return lagged / plain - quotient

    low, high = 0.0, most
    at_low, at_high = excess(low), excess(high)
    if at_low >= 0.0:
        return low
    if at_high <= 0.0:
        return high
    middle = low
    for _ in range(_ITERATIONS):
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        value = excess(middle)
        if value < 0.0:
            low, at_low, at_high = middle, value, 0.5 * at_high
        else:
            high, at_high, at_low = middle, value, 0.5 * at_low
        if high - low < _TOLERANCE * (1.0 - high):
            break
    return middle
