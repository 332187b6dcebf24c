"""Which unknowns only one experiment, or one group of experiments, depends on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from odefit.solve.blocks import BlockLayout, Blocks

Indices = npt.NDArray[np.int64]

WORTH_IT = 24
"""Unknowns, from which elimination block by block is cheaper than one dense factorisation."""


def find_blocks(parts: Sequence[Indices], sizes: Sequence[int], n: int) -> BlockLayout | None:
    """Find blocks among groups of rows that depend on the unknowns `parts[i]`; None if they are not worth while.

    Parameters
    ----------
    parts, sizes
        For each group of rows (an experiment, or one prior) its unknowns, and its number of rows.
    n
        Number of unknowns.
    """
    if n < WORTH_IT or len(parts) < 4:
        return None
    uses = np.bincount(np.concatenate(parts), minlength=n)
    for most in (max(1, len(parts) // 3), 1):  # groups that share some unknowns; else single ones
        members = _components(parts, uses <= most)
        if members.max() + 1 >= 4 and np.bincount(members).max() <= max(4, len(parts) // 2):
            local = uses <= most
            break
    else:
        return None
    if 2 * int(local.sum()) < n:
        return None
    return _layout(parts, sizes, members, local)


def _components(parts: Sequence[Indices], local: npt.NDArray[np.bool_]) -> Indices:
    """Return a number for each group of rows, the same for those with a common local unknown."""
    owner = np.full(local.size, -1)
    parent = list(range(len(parts)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for i, part in enumerate(parts):
        for j in part[local[part]]:
            if owner[j] < 0:
                owner[j] = i
            parent[root(i)] = root(int(owner[j]))
    roots = np.array([root(i) for i in range(len(parts))])
    return np.unique(roots, return_inverse=True)[1].astype(np.int64)


def _layout(
    parts: Sequence[Indices], sizes: Sequence[int], members: Indices, local: npt.NDArray[np.bool_]
) -> BlockLayout:
    n_blocks = int(members.max()) + 1
    owned: list[set[int]] = [set() for _ in range(n_blocks)]
    for part, block in zip(parts, members, strict=True):
        owned[block].update(part[local[part]].tolist())
    used = np.zeros(local.size, dtype=bool)
    used[np.concatenate(parts)] = True
    shared = np.flatnonzero(~(local & used))
    most = max(map(len, owned))
    table = np.full((n_blocks, most), -1, dtype=np.int64)
    position = np.full(local.size, -1, dtype=np.int64)
    for block, unknowns in enumerate(owned):
        table[block, : len(unknowns)] = sorted(unknowns)
        position[table[block, : len(unknowns)]] = np.arange(len(unknowns))
    position[shared] = most + np.arange(shared.size)
    block_of_row = np.repeat(members, sizes)
    return BlockLayout(
        Blocks(table, np.array([len(unknowns) for unknowns in owned], dtype=np.int64), shared.astype(np.int64)),
        position,
        np.argsort(block_of_row, kind="stable").astype(np.int64),
        np.concatenate([[0], np.cumsum(np.bincount(block_of_row, minlength=n_blocks))]).astype(np.int64),
        most + shared.size,
    )
