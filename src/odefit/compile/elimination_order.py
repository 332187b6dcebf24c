"""The order of a sparse elimination of ``shift I - J``, and the patterns of L and U that follow from it.

The order is SuperLU's.  For the pattern alone it takes the diagonal as pivots, which is right for small steps, where
``shift I - J`` is nearly diagonal; with numbers it pivots by threshold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from odefit.native.kernel import kernel
from odefit.native.linear_systems import Elimination

Index = npt.NDArray[np.int64]


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


def ends_of_states(n: int, row_ptr: Index, col: Index) -> Index:
    """Return where the derivatives by states end in each row."""
    inside = np.concatenate([[0], np.cumsum(col < n)])
    return row_ptr[:-1] + inside[row_ptr[1:]] - inside[row_ptr[:-1]]


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


def sparse_pattern(n: int, row_ptr: Index, col: Index, values: Any, shift: float) -> Elimination:
    """Return the sparse elimination whose order suits ``shift I - J`` with these `values` of J by (y, p)."""
    mid = ends_of_states(n, row_ptr, col)
    rows, places = _entries(n, row_ptr, mid, col)
    new_row, new_column = _permutations(n, rows, col[places], values[places], shift)
    place = np.zeros(col.size, dtype=np.int64)
    place[places] = new_column[col[places]]
    # the permuted pattern, the diagonal of the matrix included, in rows of sorted and distinct columns
    all_rows = np.concatenate([new_row[rows], new_row])
    all_columns = np.concatenate([place[places], new_column])
    keys = np.unique(all_rows * n + all_columns)
    ptr = np.searchsorted(keys // n, np.arange(n + 1))
    return Elimination(row_ptr, mid, col, np.argsort(new_row), new_column, place, *eliminate(n, ptr, keys % n))


def order_of_pattern(n: int, row_ptr: Index, col: Index) -> Elimination:
    """Return the sparse elimination for the pattern alone: with a heavy diagonal no numbers matter."""
    return sparse_pattern(n, row_ptr, col, np.ones(col.size), 2.0 * n)


def products_of(e: Elimination) -> int:
    """Return the number of multiplications of a factorisation."""
    return int(np.sum(np.diff(e.u_ptr)[e.l_col]))
