"""Which linear algebra a model gets.

The first order of elimination is that for the pattern alone, right for small steps, where ``shift I - J`` is nearly
diagonal, and independent of where a fit starts.  It is kept with the model.  When the numeric
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
from odefit.compile.elimination_code import elimination_code
from odefit.compile.elimination_order import ends_of_states, products_of, sparse_pattern
from odefit.compile.functions import NativeFunction
from odefit.native.linear_systems import GROWTH_LIMIT, Elimination

Index = npt.NDArray[np.int64]

SPARSE_FROM = 16
"""Number of states from which a looped sparse elimination is considered."""
DENSE_TO = 1000
"""Number of states up to which a dense elimination is a way out."""
_PATIENCE_OF_CODE = 0.5  # without loops a factorisation gains twice as much as a solution (8 to 100 states, measured)


class LinearAlgebra(NamedTuple):
    """What kernels need to solve with ``shift I - J``.

    Attributes
    ----------
    pattern
        The matrix and the backend.
    n_values, n_pivots, n_work
        Room for a factorisation.
    patience
        Cost of a factorisation over that of a solution with it.
    limit
        Growth of entries at which another order of elimination is asked for.
    library
        Keeps the code alive to which `pattern` has addresses, if any.
    """

    pattern: Elimination
    n_values: int
    n_pivots: int
    n_work: int
    patience: float
    limit: float = GROWTH_LIMIT
    library: Any = None

    def told(self, trouble: npt.NDArray[np.float64]) -> Elimination:
        """Return the record for kernels, which note in `trouble` the matrix whose entries grow."""
        return self.pattern._replace(
            n_values=self.n_values,
            n_pivots=self.n_pivots,
            n_work=self.n_work,
            patience=float(self.patience),
            limit=float(self.limit),
            trouble=trouble,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave addresses behind, which mean nothing in another process; the code is found again there."""
        fields = tuple(self)
        if self.library is None:
            return LinearAlgebra, fields
        e = self.pattern
        return _compiled_again, (e.mid.size, e.row_ptr, e.col, self.patience, self.limit)


def _compiled_again(n: int, row_ptr: Index, col: Index, patience: float, limit: float) -> LinearAlgebra:
    """Return the linear algebra of a pickle."""
    return _pattern_algebra(n, row_ptr, col)._replace(patience=patience, limit=limit)


def _columns(rhs: NativeFunction) -> Index:
    return rhs.col.astype(np.int64)


def _with_order(e: Elimination, library: Any = None) -> LinearAlgebra:
    """Return the linear algebra of a sparse elimination, in loops or as code."""
    n, n_lower, n_upper = e.mid.size, e.l_col.size, e.u_col.size
    work = products_of(e) + float(n_upper + 3 * n_lower + 2 * n)
    solution = float(n_lower + n_upper + np.sum(e.mid - e.row_ptr[:-1]))
    patience = work / solution * (1.0 if library is None else _PATIENCE_OF_CODE)
    return LinearAlgebra(e, n_lower + n_upper + n, 0, 4 * n, patience, library=library)


def _pattern_algebra(n: int, row_ptr: Index, col: Index) -> LinearAlgebra:
    """Return the elimination in the order for the pattern, as code where that is not too long."""
    code = elimination_code(n, row_ptr, col)
    return _with_order(code.elimination, code.library)


def sparse_algebra(rhs: NativeFunction, values: Any, shift: float) -> LinearAlgebra:
    """Return the looped sparse elimination whose order suits ``shift I - J`` with these `values` of J by (y, p)."""
    return _with_order(sparse_pattern(rhs.n_out, rhs.row_ptr, _columns(rhs), values, shift))


def compiled_algebra(rhs: NativeFunction) -> LinearAlgebra:
    """Return the sparse elimination whose order suits the pattern, as code where that is not too long."""
    return _pattern_algebra(rhs.n_out, rhs.row_ptr, _columns(rhs))


def dense_algebra(rhs: NativeFunction) -> LinearAlgebra:
    """Return the dense elimination of a model."""
    n = rhs.n_out
    col = _columns(rhs)
    pattern = Elimination(rhs.row_ptr, ends_of_states(n, rhs.row_ptr, col), col)
    return LinearAlgebra(pattern, n * n, n, 4, n / 3)


def _chosen(rhs: NativeFunction) -> LinearAlgebra:
    n = rhs.n_out
    dense = dense_algebra(rhs)
    if n == 0:
        return dense
    sparse = compiled_algebra(rhs)
    if sparse.library is not None:
        return sparse
    cheaper = n >= SPARSE_FROM and 3.0 * products_of(sparse.pattern) + 10.0 * n < n**3 / 3
    return sparse if cheaper else dense


def linear_algebra(model: CompiledModel) -> LinearAlgebra:
    """Return the linear algebra that a model's pattern asks for, found out on first use."""
    return model.kept.get("linear algebra", lambda: _chosen(model.rhs))


def reordered(model: CompiledModel, values: Any, shift: float) -> LinearAlgebra:
    """Return an elimination with pivots for the matrix at which entries have grown; a small one exchanges rows."""
    if model.n_states < SPARSE_FROM:
        return dense_algebra(model.rhs)
    return sparse_algebra(model.rhs, values, shift)


def exchanging(model: CompiledModel, instead: LinearAlgebra) -> LinearAlgebra:
    """Return the dense elimination, which exchanges rows as it goes; `instead` for a model too large for it.

    It is for models whose short steps need another order than long ones.  What growth remains is left to Newton's
    method, which shortens steps.
    """
    algebra = dense_algebra(model.rhs) if model.n_states <= DENSE_TO else instead
    return algebra._replace(limit=np.inf)
