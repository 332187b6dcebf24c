"""The covariance of the estimates in factored form, dense or sparse.

A covariance of n = 2000 unknowns has four million entries, of which a report needs the diagonal and a few rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from odefit.statistics.matrices import Array, Matrix


class Spread(Protocol):
    """A covariance (n, n)."""

    @property
    def variances(self) -> Array:
        """Its diagonal, (n,)."""
        ...

    @property
    def is_finite(self) -> bool:
        """Whether all of its entries are numbers."""
        ...

    def rows(self, which: slice) -> Array:
        """Return some of its rows, written out."""
        ...

    def of(self, members: list[int]) -> Array:
        """Return K, such that K K' is the covariance of some of the parameters."""
        ...


@dataclass(frozen=True, eq=False)
class DenseSpread:
    """``spread spread'`` with an array (n, rank)."""

    spread: Array

    @cached_property
    def _covariance(self) -> Array:
        return self.spread @ self.spread.T

    @property
    def variances(self) -> Array:
        """See `Spread`."""
        return np.diag(self._covariance)

    @property
    def is_finite(self) -> bool:
        """See `Spread`."""
        return bool(np.isfinite(self.spread).all())

    def rows(self, which: slice) -> Array:
        """See `Spread`."""
        return self._covariance[which].copy()

    def of(self, members: list[int]) -> Array:
        """See `Spread`."""
        return self.spread[members]


@dataclass(frozen=True, eq=False)
class SparseSpread:
    """``root middle root'`` with sparse matrices."""

    root: Matrix
    middle: Matrix

    @cached_property
    def _left(self) -> Matrix:
        return self.root @ self.middle

    @property
    def variances(self) -> Array:
        """See `Spread`."""
        return np.asarray((self._left * self.root).sum(axis=1)).ravel()

    @property
    def is_finite(self) -> bool:
        """See `Spread`."""
        return bool(np.isfinite(self._left.data).all())

    def rows(self, which: slice) -> Array:
        """See `Spread`."""
        return (self._left[which] @ self.root.T).toarray()

    def of(self, members: list[int]) -> Array:
        """See `Spread`."""
        return square_root((self._left[members] @ self.root[members].T).toarray())


def square_root(matrix: Array) -> Array:
    """Return X with X X' = matrix, which may be semidefinite or, without a variance, NaN."""
    if not np.isfinite(matrix).all():
        return np.full_like(matrix, np.nan)
    try:
        return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        return vectors * np.sqrt(np.maximum(values, 0.0))
