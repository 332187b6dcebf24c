"""The linearisation of single shooting with many experiments: a small triangle for each block."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from odefit.native.kernel import kernel
from odefit.native.orthogonal import apply_transposed, factor_columns
from odefit.solve.contract import Bordered
from odefit.transcribe.blocks import BlockLayout

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


class BorderedLinear:
    """``r + J dx`` in blocks; J holds the columns of each row's block only."""

    __slots__ = ("_beta", "_factors", "_reduced", "compact", "layout", "residual")

    def __init__(self, compact: Array, residual: Array, layout: BlockLayout) -> None:
        self.compact = compact
        self.residual = residual
        self.layout = layout
        self._reduced: Bordered | None = None

    def reduce(self) -> Bordered:
        """Factor once and remember."""
        if self._reduced is None:
            layout = self.layout
            n_blocks, width = layout.first.size - 1, layout.width
            self._factors, self._beta = np.empty_like(self.compact), np.zeros((n_blocks, width))
            r, b = np.empty((n_blocks, width, width)), np.empty((n_blocks, width))
            reduce_blocks(self.compact, self.residual, layout.row_order, layout.first, self._factors, self._beta, r, b)
            self._reduced = Bordered(r, b, layout.blocks)
        return self._reduced

    def reduce_residual(self, residual: Array) -> Array:
        """Return ``-Q' residual``, block by block."""
        b = np.empty_like(self.reduce().b)
        reduce_block_residuals(residual, self.layout.row_order, self.layout.first, self._factors, self._beta, b)
        return b

    @property
    def jacobian(self) -> Array:
        """The whole Jacobian, written out."""
        layout = self.layout
        local, n_local, shared = layout.blocks
        full = np.zeros((self.residual.size, layout.position.size))
        for block in range(layout.first.size - 1):
            rows = layout.row_order[layout.first[block] : layout.first[block + 1]]
            own = local[block, : n_local[block]]
            full[np.ix_(rows, own)] = self.compact[rows][:, : own.size]
            full[np.ix_(rows, shared)] = self.compact[rows][:, local.shape[1] :]
        return full
