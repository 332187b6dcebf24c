"""Which unknowns belong to which block of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Indices = npt.NDArray[np.int64]


class Blocks(NamedTuple):
    """Unknowns of the blocks.

    Attributes
    ----------
    local, n_local
        Unknowns that only the rows of one block depend on: (B, L), padded, and how many each block has.
    shared
        The others.
    """

    local: Indices
    n_local: Indices
    shared: Indices


@dataclass(frozen=True, eq=False)
class BlockLayout:
    """How rows and unknowns fall into blocks.

    Attributes
    ----------
    blocks
        Unknowns of each block, and those of all.
    position
        Column of each unknown in a Jacobian that stores the block's own unknowns and the shared ones only.
    row_order, first
        Rows sorted by block, and where each block begins (one more entry than blocks).
    width
        Number of columns of such a Jacobian.
    """

    blocks: Blocks
    position: Indices
    row_order: Indices
    first: Indices
    width: int

    def unknown(self, row: int, column: int) -> int:
        """Return the unknown that a column of the compact Jacobian stands for in a row."""
        local, _, shared = self.blocks
        if column >= local.shape[1]:
            return int(shared[column - local.shape[1]])
        place = int(np.flatnonzero(self.row_order == row)[0])
        block = int(np.searchsorted(self.first, place, side="right")) - 1
        return int(local[block, column])
