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
    def errors(self) -> Array:
        """Roots of its diagonal, (n,): numbers even where their squares are none."""
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
        with np.errstate(over="ignore", invalid="ignore"):  # variances may be no numbers where errors are
            return self.spread @ self.spread.T

    @property
    def errors(self) -> Array:
        """See `Spread`."""
        size = _powers_of_two(np.abs(self.spread).max(axis=1, initial=0.0))
        return size * np.linalg.norm(self.spread / size[:, None], axis=1)

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
    def errors(self) -> Array:
        """See `Spread`."""
        size = _powers_of_two(np.asarray(abs(self.root).max(axis=1).todense()).ravel())
        rows = self.root.multiply(1.0 / size[:, None]).tocsr()
        return size * np.sqrt(np.maximum(np.asarray(((rows @ self.middle) * rows).sum(axis=1)).ravel(), 0.0))

    @property
    def is_finite(self) -> bool:
        """See `Spread`."""
        return bool(np.isfinite(self._left.data).all())

    def rows(self, which: slice) -> Array:
        """See `Spread`."""
        with np.errstate(over="ignore", invalid="ignore"):
            return (self._left[which] @ self.root.T).toarray()

    def of(self, members: list[int]) -> Array:
        """See `Spread`."""
        return square_root((self._left[members] @ self.root[members].T).toarray())


def _powers_of_two(sizes: Array) -> Array:
    """Return powers of two of about these sizes, 1 for those that are zero or no numbers."""
    usual = np.isfinite(sizes) & (sizes > 0.0)
    return np.ldexp(1.0, np.frexp(np.where(usual, sizes, 1.0))[1].clip(-1000, 1000))


def square_root(matrix: Array) -> Array:
    """Return X with X X' = matrix, which may be semidefinite or, without a variance, NaN."""
    if not np.isfinite(matrix).all():
        return np.full_like(matrix, np.nan)
    try:
        return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(matrix)
        return vectors * np.sqrt(np.maximum(values, 0.0))
