"""What a solver needs of a problem: an objective, its linearisation, and what it returns.

`solve/` sees arrays and functions; it knows no model and no integrator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from odefit.solve.bordered import bordered_product, bordered_transposed

Array = npt.NDArray[np.float64]


_NO_ROWS = np.empty((0, 0))
_NO_WEIGHTS = np.empty(0)


class Heavy(NamedTuple):
    """Rows of very large or infinite weight, kept apart from the others.

    A heavy row reads ``E_i dx = e_i`` and counts as ``w_i^2/2 (E_i dx - e_i)^2``; with an infinite w it must
    hold exactly.  Weights are relative to those of the other rows, which are of order one.

    Attributes
    ----------
    rows, right
        E (k, n) and e (k,), without their weights.
    root
        w (k,), the roots of the weights, descending; infinity is allowed.
    """

    rows: Array
    right: Array
    root: Array


NO_HEAVY = Heavy(_NO_ROWS, _NO_WEIGHTS, _NO_WEIGHTS)


class Reduced(NamedTuple):
    """A linearised least-squares problem after orthogonal reduction: min ||R dx - b||^2/2 + heavy rows.

    Attributes
    ----------
    R
        Upper triangular, (n, n).
    b
        (n,); the residual norm that no step can remove is left out.
    heavy
        Rows that are not in R.
    """

    R: Array
    b: Array
    heavy: Heavy = NO_HEAVY

    def rows(self) -> tuple[Array, Array]:
        """Return matrix and right-hand side of all rows of finite weight, weighted."""
        if not self.heavy.root.size:
            return self.R, self.b
        finite = np.isfinite(self.heavy.root)
        root = self.heavy.root[finite]
        above = root[:, None] * self.heavy.rows[finite]
        return np.vstack([above, self.R]), np.append(root * self.heavy.right[finite], self.b)

    def descent(self) -> Array:
        """Return the negative gradient of the rows of finite weight."""
        rows, right = self.rows()
        return rows.T @ right

    def column_norms(self) -> Array:
        """Return the norms of the columns, also where their squares are too large for a number."""
        rows = np.abs(self.rows()[0])
        largest = np.max(rows, axis=0, initial=0.0)
        return largest * np.linalg.norm(rows / np.where(largest > 0, largest, 1.0), axis=0)


class Blocks(NamedTuple):
    """Which unknowns belong to which block of rows.

    Attributes
    ----------
    local, n_local
        Unknowns that only the rows of one block depend on: (B, L), padded, and how many each block has.
    shared
        The others.
    """

    local: npt.NDArray[np.int64]
    n_local: npt.NDArray[np.int64]
    shared: npt.NDArray[np.int64]


class Bordered(NamedTuple):
    """A linearised problem whose blocks have been reduced one by one: min sum_b ||R_b dx_b - b_b||^2/2.

    Attributes
    ----------
    R, b
        Triangles (B, W, W) and right-hand sides (B, W); columns are the block's own unknowns, padded to L, then
        the shared ones.
    blocks
        What the columns are.
    """

    R: Array
    b: Array
    blocks: Blocks

    def times(self, v: Array) -> Array:
        """Return ``R_b v`` for all blocks, (B, W)."""
        out = np.empty_like(self.b)
        bordered_product(self.R, *self.blocks, v, out)
        return out

    def _transposed(self) -> tuple[Array, Array]:
        n = int(self.blocks.n_local.sum()) + self.blocks.shared.size
        descent, squares = np.empty(n), np.empty(n)
        bordered_transposed(self.R, self.b, *self.blocks, descent, squares)
        return descent, squares

    def descent(self) -> Array:
        """Return the negative gradient."""
        return self._transposed()[0]

    def column_norms(self) -> Array:
        """Return the norms of the columns."""
        return np.sqrt(self._transposed()[1])

    def rows(self) -> tuple[Array, Array]:
        """Return matrix (B W, n) and right-hand side, written out."""
        n_blocks, width = self.b.shape
        local, n_local, shared = self.blocks
        most = local.shape[1]
        matrix = np.zeros((n_blocks, width, int(n_local.sum()) + shared.size))
        for b in range(n_blocks):
            matrix[b][:, local[b, : n_local[b]]] = self.R[b][:, : n_local[b]]
            matrix[b][:, shared] = self.R[b][:, most:]
        return matrix.reshape(n_blocks * width, -1), self.b.ravel()


class LinearModel(Protocol):
    """The linearised least-squares problem at a point; its structure is hidden.

    ``residual(x + dx)`` is approximately ``r + J dx``.  The solver works with the reduced problem only.
    """

    def reduce(self) -> Reduced | Bordered:
        """Return the triangular problem in the unknowns, whole or in blocks."""
        ...

    def reduce_residual(self, residual: Array) -> Array:
        """Return ``-Q' residual``: what `b` would be with this residual at the same Jacobian."""
        ...


class Evaluation(NamedTuple):
    """An objective at one point, on one generation of step grids.

    Attributes
    ----------
    x, generation
        Where, and on which grids.  Values of different generations are never compared.
    value
        Half the weighted sum of squares, heavy rows of finite weight included; NaN if `failure` is not empty.
    residual, linear
        Residual vector, and the linearisation if order 1 was asked for.
    misfit
        What the heavy rows miss (k,), without their weights: ``-e`` at dx = 0.
    light
        The part of `value` that heavy rows have no share in.
    error_ratio
        Largest local integration error over tolerance.
    failure
        Why there is no value, in words; empty on success.
    interrupted
        A stop was asked for.
    """

    x: Array
    generation: int
    value: float
    residual: Array
    linear: LinearModel | None
    error_ratio: float
    failure: str = ""
    interrupted: bool = False
    misfit: Array = _NO_WEIGHTS
    light: float = math.nan


class Objective(Protocol):
    """A sum of squares, evaluated on frozen grids that are renewed only on request.

    Attributes
    ----------
    names
        Names of the unknowns, for messages.
    heavy_root
        Roots of the weights of the heavy rows, descending; empty if there are none.
    bordered
        Whether linear models are reduced block by block (then there are no heavy rows).
    """

    names: tuple[str, ...]
    heavy_root: Array
    bordered: bool

    def evaluate(self, x: Array, order: int) -> Evaluation:
        """Evaluate on the current grids; `order` 1 adds the linearisation.  Failure is a value."""
        ...

    def refresh(self, x: Array) -> int:
        """Adapt the grids to `x`; returns the new generation.  `evaluate` at `x` is free afterwards."""
        ...


class TraceRow(NamedTuple):
    """One iteration, for reports."""

    iteration: int
    objective: float
    decrement: float
    step: float
    radius: float
    rank: int
    damping: float
    generation: int


@dataclass(frozen=True, slots=True, eq=False)
class SolverResult:
    """What a solver returns; `evaluation` is the best point, with its linearisation where it exists.

    `note` says what else the user should know of the way there.
    """

    status: str
    message: str
    x: Array
    value: float
    evaluation: Evaluation
    iterations: int
    evaluations: int
    refreshes: int
    active: npt.NDArray[np.bool_]
    rank: int
    note: str = ""
    trace: tuple[TraceRow, ...] = field(default=(), repr=False)

    @property
    def converged(self) -> bool:
        """Whether a test of convergence was met."""
        return self.status == "converged"
