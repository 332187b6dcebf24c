"""A linear model in blocks: unknowns of single blocks are eliminated block by block.

With unknowns x_b that only the rows of block b depend on, and shared ones x_s, the linear problem is

    min sum_b ||A_b x_b + C_b x_s - c_b||^2 ,

a bordered block-diagonal matrix.  Each block is reduced to a small triangle once.  For a damped step the rows
sqrt(mu) I (in scaled unknowns) enter each block *before* its own unknowns are eliminated,

    [  A_b         C_b ]          [ R_b  S_b ]
    [ sqrt(mu) I    0  ]  =  Q_b  [  0   T_b ] ,

so that a block which does not determine its unknowns is as harmless as a determined one; what is left, T_b x_s,
of all blocks and the damping of x_s make the problem of the shared unknowns, which are retained.  The cost is linear in
the number of blocks.  Elimination block by block has no pivoted factor of all unknowns, so steps are measured in the
metric of the scaled unknowns; a step that needs the factor gets it from `triangle`, at the cost of a dense problem.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.native.kernel import kernel
from odefit.native.orthogonal import (
    apply_to_column,
    apply_to_columns,
    apply_transposed,
    factor_columns,
    reduce_least_squares,
    reduce_right_side,
    reflect_column,
)
from odefit.solve.blocks import BlockLayout
from odefit.solve.contract import NO_HEAVY, SCALED, Flags, LinearModel, Reduced, Triangle

Array = npt.NDArray[np.float64]


@kernel
def reduce_blocks(jacobian, residual, row_order, first, factors, beta, r, b):
    """Factor each block; fill `factors` (rows in block order), `beta`, triangles `r` and ``b = -Q' residual``."""
    width = jacobian.shape[1]
    for row in range(row_order.size):
        for j in range(width):
            factors[row, j] = jacobian[row_order[row], j]
    for block in range(first.size - 1):
        part = factors[first[block] : first[block + 1]]
        factor_columns(part, beta[block])
        for i in range(width):
            for j in range(width):
                r[block, i, j] = part[i, j] if i < part.shape[0] and j >= i else 0.0
    reduce_block_residuals(residual, row_order, first, factors, beta, b)


@kernel
def reduce_block_residuals(residual, row_order, first, factors, beta, b):
    """Set ``b = -Q' residual`` for the factors made by `reduce_blocks`."""
    width = factors.shape[1]
    for block in range(first.size - 1):
        part = factors[first[block] : first[block + 1]]
        right = np.empty((part.shape[0], 1))
        for i in range(part.shape[0]):
            right[i, 0] = -residual[row_order[first[block] + i]]
        apply_transposed(part, width, beta[block], right)
        for i in range(width):
            b[block, i] = right[i, 0] if i < part.shape[0] else 0.0


@kernel
def bordered_product(r, local, n_local, shared, steps, out):
    """Set ``out[k, b] = R_b v_k`` for all blocks and steps."""
    n_steps, n_blocks, width = out.shape
    most = local.shape[1]
    for k in range(n_steps):
        for b in range(n_blocks):
            for i in range(width):
                total = 0.0
                for j in range(n_local[b]):
                    total += r[b, i, j] * steps[k, local[b, j]]
                for j in range(width - most):
                    total += r[b, i, most + j] * steps[k, shared[j]]
                out[k, b, i] = total


@kernel
def bordered_transposed(r, c, local, n_local, shared, gradient, squares):
    """Set ``gradient = sum_b R_b' c_b`` and `squares` to the squared norms of the columns."""
    n_blocks, width = c.shape
    most = local.shape[1]
    for k in range(gradient.size):
        gradient[k] = 0.0
        squares[k] = 0.0
    for b in range(n_blocks):
        for j in range(width):
            if j >= n_local[b] and j < most:
                continue
            k = local[b, j] if j < most else shared[j - most]
            for i in range(width):
                gradient[k] += r[b, i, j] * c[b, i]
                squares[k] += r[b, i, j] ** 2


@kernel(inline=True)
def _eliminate(work, n_columns, beta, right):
    """Triangularise the first columns of `work` and take the others and `right` along."""
    for k in range(n_columns):
        reflect_column(work, k, beta)
        apply_to_columns(work, k, beta, work, k + 1, work.shape[1])
        apply_to_column(work, k, beta, right, 0)


@kernel(inline=True)
def _fill_block(r, c, b, local, m, shared, scale, fixed, root, work, right):
    """Set up one block in scaled unknowns, with its damping rows; a fixed unknown gets one that says z = 0."""
    width, most = c.shape[1], local.shape[1]
    for i in range(width + most):
        right[i, 0] = c[b, i] if i < width else 0.0
        for j in range(width):
            if i >= width or (j >= m and j < most):
                work[i, j] = 0.0
            else:
                k = local[b, j] if j < m else shared[j - most]
                work[i, j] = 0.0 if fixed[k] else r[b, i, j] * scale[k]
    for j in range(m):
        work[width + j, j] = 1.0 if fixed[local[b, j]] else root


@kernel
def eliminate_blocks(r, c, local, n_local, shared, scale, fixed, mu, negligible, border, border_right, kept):
    """Eliminate the unknowns of the blocks from the damped problem in scaled unknowns.

    Parameters
    ----------
    r, c
        Triangles of the blocks (B, W, W) and right-hand sides (B, W); columns are the block's own unknowns,
        padded, then the shared ones.
    local, n_local, shared
        See `Blocks`.
    scale, fixed
        Of all unknowns; a fixed one stays.
    mu, negligible
        Damping, and the size below which a diagonal element counts as zero.
    border, border_right
        Filled: the triangular problem of the shared unknowns, (S, S) and (S,).
    kept
        Filled: rows of the eliminated unknowns (B, L, W + 1), the right-hand side last.

    Returns
    -------
    removed, rank, smallest, largest
        See `Reduced`.
    """
    n_blocks, width = c.shape
    most = local.shape[1]
    n_shared = width - most
    root = math.sqrt(mu)
    work, right = np.empty((width + most, width)), np.empty((width + most, 1))
    beta = np.empty(width)
    edge, edge_right = np.zeros((n_shared + width + most, n_shared)), np.zeros((n_shared + width + most, 1))
    removed, rank, smallest, largest = 0.0, 0, np.inf, 0.0
    for b in range(n_blocks):
        m = n_local[b]
        _fill_block(r, c, b, local, m, shared, scale, fixed, root, work, right)
        _eliminate(work, m, beta, right)
        for i in range(m):
            kept[b, i, width] = right[i, 0]
            for j in range(width):
                kept[b, i, j] = work[i, j]
            if not fixed[local[b, i]]:
                removed += right[i, 0] ** 2
                size = abs(work[i, i])
                rank += 1 if size > negligible else 0
                smallest, largest = min(smallest, size), max(largest, size)
        for i in range(width + most):
            below = m + i < width + most
            edge_right[n_shared + i, 0] = right[m + i, 0] if below else 0.0
            for j in range(n_shared):
                edge[n_shared + i, j] = work[m + i, most + j] if below else 0.0
        _eliminate(edge, n_shared, beta, edge_right)
        for i in range(n_shared):
            for j in range(i):
                edge[i, j] = 0.0
    for i in range(width + most):
        edge_right[n_shared + i, 0] = 0.0
        for j in range(n_shared):
            damped = 1.0 if fixed[shared[j]] else root
            edge[n_shared + i, j] = damped if i == j else 0.0
    _eliminate(edge, n_shared, beta, edge_right)
    for i in range(n_shared):
        border_right[i] = edge_right[i, 0]
        for j in range(n_shared):
            border[i, j] = edge[i, j] if j >= i else 0.0
    return removed, rank, smallest, largest


@kernel
def expand_blocks(kept, local, n_local, shared, negligible, z_shared, z):
    """Compute the eliminated unknowns from the shared ones; fill all of them."""
    n_blocks, most = local.shape
    width = kept.shape[2] - 1
    for j in range(shared.size):
        z[shared[j]] = z_shared[j]
    for b in range(n_blocks):
        for i in range(n_local[b] - 1, -1, -1):
            total = kept[b, i, width]
            for j in range(shared.size):
                total -= kept[b, i, most + j] * z_shared[j]
            for j in range(i + 1, n_local[b]):
                total -= kept[b, i, j] * z[local[b, j]]
            z[local[b, i]] = total / kept[b, i, i] if abs(kept[b, i, i]) > negligible else 0.0


class BorderedLinear:
    """``r + J dx`` in blocks; J holds the columns of each row's block only.  See `LinearModel`."""

    __slots__ = ("_b", "_beta", "_factors", "_r", "_triangle", "compact", "layout", "residual")
    metric = SCALED
    heavy = NO_HEAVY

    def __init__(self, compact: Array, residual: Array, layout: BlockLayout) -> None:
        self.compact = compact
        self.residual = residual
        self.layout = layout
        self._b: Array | None = None
        self._triangle: tuple[Triangle, Array, Array] | None = None

    def all_column_norms(self) -> Array:
        """See `LinearModel`; no row is heavy."""
        return self.column_norms()

    def heavy_times(self, v: Array) -> Array:
        """See `LinearModel`; there are none."""
        return np.empty(0)

    @property
    def right(self) -> Array:
        """Factor the blocks once and remember; (B, W)."""
        if self._b is None:
            layout = self.layout
            n_blocks, width = layout.first.size - 1, layout.width
            self._factors, self._beta = np.empty_like(self.compact), np.zeros((n_blocks, width))
            self._r, b = np.empty((n_blocks, width, width)), np.empty((n_blocks, width))
            reduce_blocks(
                self.compact, self.residual, layout.row_order, layout.first, self._factors, self._beta, self._r, b
            )
            self._b = b
        return self._b

    @property
    def triangles(self) -> Array:
        """Triangles of the blocks, (B, W, W): own unknowns, padded, then the shared ones."""
        _ = self.right
        return self._r

    @property
    def jacobian(self) -> Array:
        """The whole Jacobian, written out."""
        layout = self.layout
        rows = [layout.row_order[a:b] for a, b in zip(layout.first[:-1], layout.first[1:], strict=True)]
        return self._written_out([self.compact[block_rows] for block_rows in rows], rows, self.residual.size)

    def factor(self) -> Array:
        """Return the triangles of the blocks, written out: (B W, n)."""
        n_blocks, width = self.right.shape
        rows = [np.arange(b * width, (b + 1) * width) for b in range(n_blocks)]
        return self._written_out(list(self._r), rows, n_blocks * width)

    def _written_out(self, parts: list[Array], rows: list[npt.NDArray[np.int64]], n_rows: int) -> Array:
        local, n_local, shared = self.layout.blocks
        full = np.zeros((n_rows, self.layout.position.size))
        for b, (part, own_rows) in enumerate(zip(parts, rows, strict=True)):
            unknowns = local[b, : n_local[b]]
            full[np.ix_(own_rows, unknowns)] = part[:, : unknowns.size]
            full[np.ix_(own_rows, shared)] = part[:, local.shape[1] :]
        return full

    def _whole(self) -> tuple[Triangle, Array, Array]:
        """Factor the triangles of all blocks as one dense problem, once."""
        if self._triangle is None:
            rows, n = self.factor(), self.layout.position.size
            r, b = np.empty((n, n)), np.empty(n)
            factors, beta = np.empty((rows.shape[0], n + 1)), np.empty(min(rows.shape))
            reduce_least_squares(rows, -self.right.ravel(), factors, beta, r, b)
            self._triangle = Triangle(r, b), factors, beta
        return self._triangle

    def triangle(self) -> Triangle:
        """See `LinearModel`; costs as much as a dense problem."""
        return self._whole()[0]

    def residual_in_triangle(self, residual: Array) -> Array:
        """See `LinearModel`."""
        _, factors, beta = self._whole()
        b = np.empty(self.layout.position.size)
        reduce_right_side(factors, beta, -self.reduce_residual(residual).ravel(), b)
        return b

    def reduce(self, damping: float, scale: Array, fixed: Flags, right: Array, negligible: float) -> Reduced:
        """Eliminate the unknowns of the blocks; the shared ones are retained."""
        local, n_local, shared = self.layout.blocks
        n_blocks, width = self.right.shape
        r, b, kept = np.empty((shared.size, shared.size)), np.empty(shared.size), np.empty((*local.shape, width + 1))
        removed, rank, smallest, largest = eliminate_blocks(
            self._r, right, local, n_local, shared, scale, fixed, damping, negligible, r, b, kept
        )
        return Reduced(r, b, fixed[shared], removed, rank, smallest, largest, (kept, negligible))

    def expand(self, reduced: Reduced, z: Array) -> Array:
        """See `LinearModel`."""
        kept, negligible = reduced.kept
        out = np.empty(self.layout.position.size)
        expand_blocks(kept, *self.layout.blocks, negligible, z, out)
        return out

    def reduce_residual(self, residual: Array) -> Array:
        """Return ``-Q' residual``, block by block."""
        b = np.empty_like(self.right)
        reduce_block_residuals(residual, self.layout.row_order, self.layout.first, self._factors, self._beta, b)
        return b

    def times(self, steps: Array) -> Array:
        """See `LinearModel`; (k, B W)."""
        n_blocks, width = self.right.shape
        out = np.empty((steps.shape[0], n_blocks, width))
        bordered_product(self._r, *self.layout.blocks, steps, out)
        return out

    def _transposed(self, right: Array | None = None) -> tuple[Array, Array]:
        n, own = self.layout.position.size, self.right
        descent, squares = np.empty(n), np.empty(n)
        bordered_transposed(self._r, own if right is None else right, *self.layout.blocks, descent, squares)
        return descent, squares

    def descent(self, right: Array | None = None) -> Array:
        """See `LinearModel`."""
        return self._transposed(right)[0]

    def column_norms(self) -> Array:
        """See `LinearModel`."""
        return np.sqrt(self._transposed()[1])

    def reweighted(self, root: Array) -> LinearModel:
        """There are no heavy rows."""
        return self
