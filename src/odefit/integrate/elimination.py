"""Which linear algebra a model gets.

Equations in several derivatives have the patterns of states and rates joined, see `odefit.native.equation_systems`.

The first order of elimination is that for the pattern alone, right for small steps, where ``shift I - J`` is nearly
diagonal, and independent of where a fit starts.  It is kept with the model.  When the numeric
phase reports that entries grow, `reordered` asks SuperLU again, with the numbers of that moment and threshold pivoting;
if that is bad for other steps of the run, `exchanging` falls back on dense elimination.  Such a choice belongs to the
integration that needed it and goes with its step grid to replays, no further: what one fit finds out changes
no other.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledModel
from odefit.compile.elimination_code import elimination_code
from odefit.compile.elimination_order import ends_of_states, products_of, sparse_pattern
from odefit.native.linear_systems import GROWTH_LIMIT, Elimination

Index = npt.NDArray[np.int64]

SPARSE_FROM = 16
"""Number of states from which a looped sparse elimination is considered."""
DENSE_TO = 1000
"""Number of states up to which a dense elimination is a way out."""
_OF_EQUATIONS = ("whole_ptr", "whole_col", "joined", "algebraic")
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
        whole = {name: getattr(e, name) for name in _OF_EQUATIONS} if e.algebraic.size else {}
        return _compiled_again, ((e.mid.size, e.row_ptr, e.col, whole), self.patience, self.limit)


def _compiled_again(pattern: tuple[Any, ...], patience: float, limit: float) -> LinearAlgebra:
    """Return the linear algebra of a pickle."""
    return _compiled(Pattern(*pattern))._replace(patience=patience, limit=limit)


class Pattern(NamedTuple):
    """The pattern of derivatives by states and p; for equations in several derivatives where the whole stands in it."""

    n: int
    row_ptr: Index
    col: Index
    whole: Mapping[str, Index] = MappingProxyType({})

    @classmethod
    def of(cls, model: CompiledModel) -> Pattern:
        """Return the pattern of a model's matrix."""
        rhs, n = model.rhs, model.n_states
        col = rhs.col.astype(np.int64)
        if not model.in_equations:
            return cls(n, rhs.row_ptr, col)
        rows = np.repeat(np.arange(n), np.diff(rhs.row_ptr))
        width = n + model.n_parameters
        keys = rows * width + np.where(col < n, col, col - n)
        joint = np.unique(keys)
        whole = {"whole_ptr": rhs.row_ptr, "whole_col": col, "joined": np.searchsorted(joint, keys).astype(np.int64)}
        ptr = np.searchsorted(joint // width, np.arange(n + 1)).astype(np.int64)
        return cls(n, ptr, joint % width, {**whole, "algebraic": model.algebraic})


def _with_order(e: Elimination, library: Any = None) -> LinearAlgebra:
    """Return the linear algebra of a sparse elimination, in loops or as code."""
    n, n_lower, n_upper = e.mid.size, e.l_col.size, e.u_col.size
    work = products_of(e) + float(n_upper + 3 * n_lower + 2 * n)
    solution = float(n_lower + n_upper + np.sum(e.mid - e.row_ptr[:-1]))
    patience = work / solution * (1.0 if library is None else _PATIENCE_OF_CODE)
    return LinearAlgebra(e, n_lower + n_upper + n, 0, 4 * n, patience, library=library)


def sparse_algebra(model: CompiledModel, values: Any, shift: float) -> LinearAlgebra:
    """Return the looped sparse elimination whose order suits ``shift I - J`` with these `values` of J by (y, p)."""
    pattern = pattern_of(model)
    order = sparse_pattern(pattern.n, pattern.row_ptr, pattern.col, values, shift)
    return _with_order(order._replace(**pattern.whole))


def compiled_algebra(model: CompiledModel) -> LinearAlgebra:
    """Return the sparse elimination whose order suits the pattern, as code where that is not too long."""
    return _compiled(pattern_of(model))


def _compiled(pattern: Pattern) -> LinearAlgebra:
    code = elimination_code(pattern.n, pattern.row_ptr, pattern.col)
    return _with_order(code.elimination._replace(**pattern.whole), code.library)


def dense_algebra(model: CompiledModel) -> LinearAlgebra:
    """Return the dense elimination of a model."""
    n, row_ptr, col, whole = pattern_of(model)
    e = Elimination(row_ptr, ends_of_states(n, row_ptr, col), col)._replace(**whole)
    return LinearAlgebra(e, n * n, n, 4, n / 3)


def _chosen(model: CompiledModel) -> LinearAlgebra:
    n, dense = model.n_states, dense_algebra(model)
    if n == 0:
        return dense
    sparse = compiled_algebra(model)
    if sparse.library is not None:
        return sparse
    cheaper = n >= SPARSE_FROM and 3.0 * products_of(sparse.pattern) + 10.0 * n < n**3 / 3
    return sparse if cheaper else dense


def pattern_of(model: CompiledModel) -> Pattern:
    """Return the pattern of a model's matrix, found out on first use."""
    return model.kept.get("pattern", lambda: Pattern.of(model))


def linear_algebra(model: CompiledModel) -> LinearAlgebra:
    """Return the linear algebra that a model's pattern asks for, found out on first use."""
    return model.kept.get("linear algebra", lambda: _chosen(model))


def reordered(model: CompiledModel, values: Any, shift: float) -> LinearAlgebra:
    """Return an elimination with pivots for the matrix at which entries have grown; a small one exchanges rows."""
    if model.n_states < SPARSE_FROM:
        return dense_algebra(model)
    return sparse_algebra(model, values, shift)


def exchanging(model: CompiledModel, instead: LinearAlgebra) -> LinearAlgebra:
    """Return the dense elimination, which exchanges rows as it goes; `instead` for a model too large for it.

    It is for models whose short steps need another order than long ones.  What growth remains is left to Newton's
    method, which shortens steps.
    """
    algebra = dense_algebra(model) if model.n_states <= DENSE_TO else instead
    return algebra._replace(limit=np.inf)
