"""Operations on matrices that are dense for most problems, and sparse for those with very many unknowns.

With unknowns of single experiments the matrices W and Q = S W (see `covariance.py`) are mostly zero; formulas are
written once, for both kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = npt.NDArray[np.float64]
Matrix = Any
"""An `Array` with two axes, or a `csr_array` of SciPy, whose types say too little to be of use."""


def is_dense(matrix: Matrix) -> bool:
    """Tell which kind it is."""
    return isinstance(matrix, np.ndarray)


def dense(matrix: Matrix) -> Array:
    """Return the matrix written out."""
    return matrix if is_dense(matrix) else matrix.toarray()


def trace(matrix: Matrix) -> float:
    """Return the sum of the diagonal."""
    return float(matrix.trace())


def inner(left: Matrix, right: Matrix) -> float:
    """Return the sum of the products of entries."""
    return float(np.vdot(left, right)) if is_dense(left) else float((left * right).sum())


def squared_rows(matrix: Matrix) -> Array:
    """Return the squared norms of the rows."""
    return np.asarray((matrix * matrix).sum(axis=1), dtype=np.float64).ravel()


def scaled_rows(matrix: Matrix, factors: Array) -> Matrix:
    """Return the matrix with its rows multiplied by `factors`."""
    if is_dense(matrix):
        return matrix * factors[:, None]
    from scipy.sparse import csr_array, diags_array

    return csr_array(diags_array(factors) @ matrix)


def stacked(parts: list[Matrix]) -> Matrix:
    """Return sparse matrices below each other."""
    from scipy.sparse import csr_array, vstack

    return csr_array(vstack(parts))


def identity(n: int, factor: float, *, sparse: bool) -> Matrix:
    """Return the identity of size n times a factor."""
    if not sparse:
        return factor * np.eye(n)
    from scipy.sparse import csr_array, eye_array

    return csr_array(factor * eye_array(n))


def from_parts(parts: list[tuple[Array, Any, Any]], shape: tuple[int, int]) -> csr_array:
    """Return the sparse matrix made of dense `parts`, each with its rows and columns."""
    from scipy.sparse import csr_array

    if not parts:
        return csr_array(shape)
    rows = np.concatenate([np.repeat(r, len(c)) for _, r, c in parts])
    columns = np.concatenate([np.tile(c, len(r)) for _, r, c in parts])
    values = np.concatenate([part.ravel() for part, _, _ in parts])
    return csr_array((values, (rows, columns)), shape=shape)
