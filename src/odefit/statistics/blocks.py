"""Directions where most unknowns belong to single blocks of rows: elimination block by block, nothing of size n x n.

Block b has the rows A_b x_b + C_b x_s with its own unknowns x_b and shared ones x_s, columns scaled to norm 1.  With
A_b = U diag(w) V', the directions V of negligible w are lost; on the others x_b = A_b^+ (... - C_b x_s), and the rows
(I - U U') C_b of all blocks are left for x_s, T say.  With T = U_s diag(w_s) Z' a root of the inverse of H is

    W = [ V_b diag(1/w_b)   -A_b^+ C_b Z diag(1/w_s) ]      (own unknowns of block b)
        [       0                     Z diag(1/w_s)  ]      (shared ones),

and directions Z of negligible w_s are lost together with -A_b^+ C_b Z.  That is not the root which the singular vectors
of the whole matrix give, but W W' is the same for all that is determined: what does not take part in a lost direction
has the same variance by every generalised inverse.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.solve.bordered import BorderedLinear
from odefit.statistics.covariance import UNDETERMINED_BELOW, Directions, takes_part
from odefit.statistics.matrices import Array, Matrix, from_parts

Indices = npt.NDArray[np.int64]


class _Block(NamedTuple):
    """One block: its free unknowns, C_b, and the singular value decomposition of A_b."""

    own: Indices
    shared: Array
    u: Array
    w: Array
    vt: Array


def sparse_jacobian(linear: BorderedLinear) -> Matrix:
    """Return all rows in the unknowns, in the order of the residual, as a sparse matrix."""
    layout = linear.layout
    local, n_local, shared = layout.blocks
    most, parts = local.shape[1], []
    for b, (first, last) in enumerate(zip(layout.first[:-1], layout.first[1:], strict=True)):
        rows, own = layout.row_order[first:last], local[b, : n_local[b]]
        part = linear.compact[rows]
        parts.append((part[:, : own.size], rows, own))
        parts.append((part[:, most:], rows, shared))
    return from_parts(parts, (linear.residual.size, layout.position.size))


def directions_in_blocks(linear: BorderedLinear, active: npt.NDArray[np.bool_]) -> Directions:
    """Do what `find_directions` does, block by block."""
    norms = linear.column_norms()
    n, free = norms.size, ~active
    safe = np.where(norms > 0, norms, 1.0)
    shared = linear.layout.blocks.shared
    shared = shared[free[shared]]
    blocks = _decomposed(linear, free, safe)
    largest = max([1.0, *(float(block.w[0]) for block in blocks if block.w.size)])
    root: list[tuple[Array, Indices, Indices]] = []
    lost: list[tuple[Array, Indices, Indices]] = []
    rank, n_lost, through, rows = 0, 0, [], _Rows(shared.size)
    for block in blocks:
        good = block.w > UNDETERMINED_BELOW * largest
        inverse, image = block.vt[good].T / block.w[good], block.u[:, good].T @ block.shared
        rows.add(block.shared - block.u[:, good] @ image)
        through.append((block.own, inverse @ image))
        root.append((inverse / safe[block.own, None], block.own, rank + np.arange(inverse.shape[1])))
        nothing = block.vt[~good].T
        lost.append((nothing, block.own, n_lost + np.arange(nothing.shape[1])))
        rank, n_lost = rank + inverse.shape[1], n_lost + nothing.shape[1]
    w, vt = rows.decomposed()
    good = w > UNDETERMINED_BELOW * max(largest, float(w.max(initial=0.0)))
    z, nothing = vt[good].T / w[good], vt[~good].T
    root += _border(z / safe[shared, None], z, shared, through, rank, safe)
    lost += _unit_columns(_border(nothing, nothing, shared, through, n_lost, np.ones(n)), nothing.shape[1], n_lost)
    rank, n_lost = rank + z.shape[1], n_lost + nothing.shape[1]
    directions = from_parts(lost, (n, n_lost))
    parameters = free & (norms == 0)
    parameters[directions.tocoo().row[np.abs(directions.tocoo().data) > takes_part(n)]] = True
    return Directions(
        root=from_parts(root, (n, rank)),
        lost=from_parts([(part / safe[r, None], r, c) for part, r, c in lost], (n, n_lost)),
        active=active,
        lost_parameters=parameters,
    )


def _decomposed(linear: BorderedLinear, free: npt.NDArray[np.bool_], safe: Array) -> list[_Block]:
    """Decompose the blocks of the triangles, which have the same directions as the rows."""
    local, n_local, shared = linear.layout.blocks
    most, is_free = local.shape[1], free[shared]
    blocks = []
    for b, triangle in enumerate(linear.triangles):
        own = local[b, : n_local[b]]
        columns = np.flatnonzero(free[own])
        own = own[columns]
        u, w, vt = np.linalg.svd(triangle[:, columns] / safe[own], full_matrices=False)
        blocks.append(_Block(own, triangle[:, most:][:, is_free] / safe[shared[is_free]], u, w, vt))
    return blocks


class _Rows:
    """Rows in the shared unknowns, reduced to a triangle whenever there are many."""

    def __init__(self, n: int) -> None:
        self._n, self._size = n, 0
        self._parts: list[Array] = [np.zeros((0, n))]

    def add(self, rows: Array) -> None:
        self._parts.append(rows)
        self._size += rows.shape[0]
        if self._size > 4 * self._n + 1000:
            triangle = np.asarray(np.linalg.qr(np.vstack(self._parts), mode="r"))
            self._parts, self._size = [triangle], triangle.shape[0]

    def decomposed(self) -> tuple[Array, Array]:
        """Return all singular values (n,), and right singular vectors (n, n)."""
        rows = np.vstack(self._parts)
        _, w, vt = np.linalg.svd(rows, full_matrices=rows.shape[0] < self._n)
        return np.append(w, np.zeros(self._n - w.size)), vt


def _border(
    top: Array, z: Array, shared: Indices, through: list[tuple[Indices, Array]], first: int, safe: Array
) -> list[tuple[Array, Indices, Indices]]:
    """Return directions of the shared unknowns, with what they do to the others."""
    columns = first + np.arange(z.shape[1])
    return [(top, shared, columns), *((-(part @ z) / safe[own, None], own, columns) for own, part in through)]


def _unit_columns(
    parts: list[tuple[Array, Indices, Indices]], n: int, first: int
) -> list[tuple[Array, Indices, Indices]]:
    squares = np.zeros(n)
    for part, _, _ in parts:
        squares += np.square(part).sum(axis=0)
    return [(part / np.sqrt(squares), r, c) for part, r, c in parts]
