"""Which linear algebra a model gets, and for the sparse one the order of elimination and the patterns of L and U.

The first order is SuperLU's for the pattern alone, with the diagonal as pivots: right for small steps, where
``shift I - J`` is nearly diagonal, and independent of where a fit starts.  It is kept with the model.  When the numeric
phase reports that entries grow, `reordered` asks SuperLU again, with the numbers of that moment and threshold pivoting;
if that is bad for other steps of the run, `exchanging` falls back on dense elimination.  Such a choice belongs to the
integration that needed it and goes with its step grid to replays, no further: what one fit finds out changes
no other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledModel
from odefit.compile.functions import NativeFunction
from odefit.native.kernel import kernel
from odefit.native.linear_systems import GROWTH_LIMIT

Index = npt.NDArray[np.int64]

SPARSE_FROM = 16
"""Number of states from which a sparse elimination is considered."""
DENSE_TO = 1000
"""Number of states up to which a dense elimination is a way out."""
_NOTHING = np.empty(0, dtype=np.int64)


class LinearAlgebra(NamedTuple):
    """What kernels need to solve with ``shift I - J``.

    Attributes
    ----------
    pattern
        See `odefit.native.linear_systems`.
    n_values, n_pivots, n_work
        Room for a factorisation.
    patience
        Cost of a factorisation over that of a solution with it.
    limit
        Growth of entries at which another order of elimination is asked for.
    """

    pattern: tuple[Index, ...]
    n_values: int
    n_pivots: int
    n_work: int
    patience: float
    limit: float = GROWTH_LIMIT


@kernel
def eliminate(n, ptr, col):
    """Return the patterns (l_ptr, l_col, u_ptr, u_col) of L and U for rows of sorted columns, without exchanges."""
    l_ptr, u_ptr = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    l_col, u_col = np.empty(col.size + n, np.int64), np.empty(col.size + n, np.int64)
    following = np.empty(n + 1, np.int64)  # the columns of a row as a linked list in order; n ends it
    for i in range(n):
        first = i
        following[i] = n
        for e in range(ptr[i + 1] - 1, ptr[i] - 1, -1):
            j = col[e]
            if j < i:
                following[j] = first
                first = j
            elif j > i:
                following[j] = following[i]
                following[i] = j
        k, n_lower = first, 0
        while k < i:
            n_lower += 1
            behind = k
            for g in range(u_ptr[k] + 1, u_ptr[k + 1]):
                j = u_col[g]
                while following[behind] < j:
                    behind = following[behind]
                if following[behind] != j:
                    following[j] = following[behind]
                    following[behind] = j
            k = following[k]
        if l_ptr[i] + n_lower > l_col.size:
            l_col = np.concatenate((l_col, np.empty(l_col.size + n, np.int64)))
        if u_ptr[i] + n > u_col.size:
            u_col = np.concatenate((u_col, np.empty(u_col.size + n, np.int64)))
        at, j = l_ptr[i], first
        while j < i:
            l_col[at] = j
            at += 1
            j = following[j]
        l_ptr[i + 1] = at
        at = u_ptr[i]
        while j < n:
            u_col[at] = j
            at += 1
            j = following[j]
        u_ptr[i + 1] = at
    return l_ptr, l_col[: l_ptr[n]].copy(), u_ptr, u_col[: u_ptr[n]].copy()


def _split(rhs: NativeFunction) -> tuple[Index, Index, Index]:
    """Return row pointers, ends of the state part of each row, and columns."""
    row_ptr, col = rhs.row_ptr, rhs.col.astype(np.int64)
    inside = np.concatenate([[0], np.cumsum(col < rhs.n_out)])
    return row_ptr, row_ptr[:-1] + inside[row_ptr[1:]] - inside[row_ptr[:-1]], col


def _entries(n: int, row_ptr: Index, mid: Index, col: Index) -> tuple[Index, Index]:
    """Return rows and places (in the CSR arrays) of the derivatives by states."""
    rows = np.repeat(np.arange(n), mid - row_ptr[:-1])
    places = np.arange(col.size)[col < n]
    return rows, places


def _permutations(n: int, rows: Index, columns: Index, values: Any, shift: float) -> tuple[Index, Index]:
    """Return where SuperLU puts each row and column of ``shift I - J``: the order with less fill of two."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.linalg import splu

    diagonal = np.arange(n)
    at = (np.concatenate([rows, diagonal]), np.concatenate([columns, diagonal]))
    matrix = coo_matrix((np.concatenate([-values, np.full(n, shift)]), at), shape=(n, n)).tocsc()
    try:
        tried = [
            splu(matrix, permc_spec=order, diag_pivot_thresh=0.01, options={"SymmetricMode": symmetric, "Equil": False})
            for order, symmetric in (("MMD_AT_PLUS_A", True), ("COLAMD", False))
        ]
    except RuntimeError:  # singular: no numbers to go by
        return _permutations(n, rows, columns, np.ones(rows.size), 2.0 * n)
    best = min(tried, key=lambda factors: factors.nnz)
    return best.perm_r.astype(np.int64), best.perm_c.astype(np.int64)


def sparse_pattern(n: int, row_ptr: Index, mid: Index, col: Index, values: Any, shift: float) -> tuple[Index, ...]:
    """Return the pattern of a sparse elimination whose order suits ``shift I - J`` with these `values` of J."""
    rows, places = _entries(n, row_ptr, mid, col)
    new_row, new_column = _permutations(n, rows, col[places], values[places], shift)
    place = np.zeros(col.size, dtype=np.int64)
    place[places] = new_column[col[places]]
    # the permuted pattern, the diagonal of the matrix included, in rows of sorted and distinct columns
    all_rows = np.concatenate([new_row[rows], new_row])
    all_columns = np.concatenate([place[places], new_column])
    keys = np.unique(all_rows * n + all_columns)
    ptr = np.searchsorted(keys // n, np.arange(n + 1))
    return (row_ptr, mid, col, np.argsort(new_row), new_column, place, *eliminate(n, ptr, keys % n))


def _products(pattern: tuple[Index, ...]) -> float:
    """Return the number of multiplications of a sparse factorisation."""
    l_col, u_ptr = pattern[7], pattern[8]
    return float(np.sum(np.diff(u_ptr)[l_col]))


def sparse_algebra(rhs: NativeFunction, values: Any, shift: float) -> LinearAlgebra:
    """Return the sparse elimination whose order suits ``shift I - J`` with these `values` of J by (y, p)."""
    n = rhs.n_out
    pattern = sparse_pattern(n, *_split(rhs), values, shift)
    row_ptr, mid, l_col, u_col = pattern[0], pattern[1], pattern[7], pattern[9]
    work = _products(pattern) + float(u_col.size + 3 * l_col.size + 2 * n)
    solution = float(l_col.size + u_col.size + np.sum(mid - row_ptr[:-1]))
    return LinearAlgebra(pattern, l_col.size + u_col.size + n, 0, 4 * n, work / solution)


def dense_algebra(rhs: NativeFunction) -> LinearAlgebra:
    """Return the dense elimination of a model."""
    n = rhs.n_out
    return LinearAlgebra((*_split(rhs), *[_NOTHING] * 7), n * n, n, 4, n / 3)


def _chosen(rhs: NativeFunction) -> LinearAlgebra:
    n = rhs.n_out
    dense = dense_algebra(rhs)
    if n < SPARSE_FROM:
        return dense
    # with a heavy diagonal the pattern alone decides
    sparse = sparse_algebra(rhs, np.ones(rhs.col.size), 2.0 * n)
    return sparse if 3.0 * _products(sparse.pattern) + 10.0 * n < n**3 / 3 else dense


def linear_algebra(model: CompiledModel) -> LinearAlgebra:
    """Return the linear algebra that a model's pattern asks for, found out on first use."""
    return model.kept.get("linear algebra", lambda: _chosen(model.rhs))


def reordered(model: CompiledModel, values: Any, shift: float) -> LinearAlgebra:
    """Return an elimination with pivots for the matrix at which entries have grown."""
    return sparse_algebra(model.rhs, values, shift)


def exchanging(model: CompiledModel, instead: LinearAlgebra) -> LinearAlgebra:
    """Return the dense elimination, which exchanges rows as it goes; `instead` for a model too large for it.

    It is for models whose short steps need another order than long ones.  What growth remains is left to Newton's
    method, which shortens steps.
    """
    algebra = dense_algebra(model.rhs) if model.n_states <= DENSE_TO else instead
    return algebra._replace(limit=np.inf)
