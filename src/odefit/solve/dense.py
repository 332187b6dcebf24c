"""A dense linear model, reduced by Householder QR."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.native.kernel import kernel
from odefit.native.orthogonal import apply_transposed, factor_columns, reduce_least_squares, reduce_right_side
from odefit.solve.contract import FACTORS, NO_HEAVY, Flags, Heavy, LinearModel, Reduced, Triangle

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_NO_INDICES = np.empty(0, dtype=np.int64)


@kernel
def damp_triangle(r, right, scale, fixed, mu, r_damped, b_damped):
    """Triangularise ``[R diag(scale); sqrt(mu) I]``; a fixed unknown gets a row of its own that says z = 0."""
    n = right.size
    work, column, beta = np.zeros((2 * n, n)), np.zeros((2 * n, 1)), np.zeros(n)
    for i in range(n):
        column[i, 0] = right[i]
        for j in range(i, n):
            work[i, j] = 0.0 if fixed[j] else r[i, j] * scale[j]
        work[n + i, i] = 1.0 if fixed[i] else math.sqrt(mu)
    factor_columns(work, beta)
    apply_transposed(work, n, beta, column)
    for i in range(n):
        b_damped[i] = column[i, 0]
        for j in range(n):
            r_damped[i, j] = work[i, j] if j >= i else 0.0


class DenseLinear:
    """``r + J dx`` with a dense J (m, n); see `LinearModel`.

    Rows of very large weight are kept out of the reduction, where they would drown the others.

    Parameters
    ----------
    heavy, factor, root
        Which rows are heavy; what turns such a row into one of ordinary weight; roots of their weights relative to
        those of ordinary rows, descending.
    """

    __slots__ = ("_beta", "_factor", "_factors", "_heavy", "_root", "_triangle", "jacobian", "residual")
    metric = FACTORS

    def __init__(
        self,
        jacobian: Array,
        residual: Array,
        heavy: Indices = _NO_INDICES,
        factor: Array | None = None,
        root: Array | None = None,
    ) -> None:
        self.jacobian = jacobian
        self.residual = residual
        self._heavy = heavy
        self._factor = factor
        self._root = root
        self._triangle: Triangle | None = None

    def triangle(self) -> Triangle:
        """Factor once and remember."""
        if self._triangle is None:
            jacobian, residual, heavy = self.jacobian, self.residual, NO_HEAVY
            if self._heavy.size and self._factor is not None and self._root is not None:
                rows = jacobian[self._heavy] * self._factor[:, None]
                heavy = Heavy(rows, -residual[self._heavy] * self._factor, self._root)
                jacobian, residual = np.delete(jacobian, self._heavy, axis=0), np.delete(residual, self._heavy)
            m, n = jacobian.shape
            r, b = np.empty((n, n)), np.empty(n)
            factors, beta = np.empty((m, n + 1)), np.empty(n if n < m else m)
            reduce_least_squares(jacobian, residual, factors, beta, r, b)
            self._factors, self._beta = factors, beta
            self._triangle = Triangle(r, b, heavy)
        return self._triangle

    @property
    def heavy(self) -> Heavy:
        """See `LinearModel`."""
        return self.triangle().heavy

    def heavy_times(self, v: Array) -> Array:
        """See `LinearModel`."""
        return self.heavy.rows @ v

    @property
    def right(self) -> Array:
        """See `LinearModel`."""
        return self.triangle().b

    def factor(self) -> Array:
        """See `LinearModel`."""
        return self.triangle().R

    def reduce(self, damping: float, scale: Array, fixed: Flags, right: Array, negligible: float) -> Reduced:
        """Nothing is eliminated: all unknowns are retained."""
        r, b = np.empty((scale.size, scale.size)), np.empty(scale.size)
        damp_triangle(self.triangle().R, right, scale, fixed, damping, r, b)
        return Reduced(r, b, fixed, 0.0, 0, math.inf, 0.0, None)

    def expand(self, reduced: Reduced, z: Array) -> Array:
        """See `LinearModel`."""
        return z

    def reduce_residual(self, residual: Array) -> Array:
        """See `LinearModel`."""
        self.triangle()
        b = np.empty(self.jacobian.shape[1])
        light = np.delete(residual, self._heavy) if self._heavy.size else residual
        reduce_right_side(self._factors, self._beta, light, b)
        return b

    residual_in_triangle = reduce_residual

    def times(self, steps: Array) -> Array:
        """See `LinearModel`."""
        return steps @ self.triangle().R.T

    def descent(self, right: Array | None = None) -> Array:
        """See `LinearModel`."""
        triangle = self.triangle()
        return (triangle if right is None else triangle._replace(b=right)).descent()

    def column_norms(self) -> Array:
        """See `LinearModel`."""
        return self.triangle().column_norms()

    def all_column_norms(self) -> Array:
        """See `LinearModel`."""
        heavy, norms = self.heavy, self.column_norms()
        if not heavy.root.size:
            return norms
        return np.hypot(norms, np.linalg.norm(heavy.rows[np.isinf(heavy.root)], axis=0))

    def reweighted(self, root: Array) -> LinearModel:
        """Share the factors, which have no part of the heavy rows."""
        triangle = self.triangle()
        other = DenseLinear(self.jacobian, self.residual, self._heavy, self._factor, root)
        other._factors, other._beta = self._factors, self._beta
        other._triangle = triangle._replace(heavy=triangle.heavy._replace(root=root))
        return other
