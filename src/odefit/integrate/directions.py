"""Sensitivities in blocks of four directions, the same for every method.

A direction is a derivative of the states above the constant derivative of the parameters (its seed).  Four
of them are what the machine multiplies at once, so that sensitivities are kept in blocks (blocks, n, 4),
padded with zeros, and compiled code differentiates in a whole block.  In kernels a row of a matrix holds all blocks,
one behind the other.
"""

from __future__ import annotations

from odefit.native.calls import call_directions, call_second
from odefit.native.kernel import kernel


@kernel(inline=True)
def n_blocks(q):
    """Return the number of blocks of `q` directions."""
    return (q + 3) // 4


@kernel(inline=True)
def n_pairs(task):
    """Return the number of pairs a <= b of a task's directions."""
    return task.n_directions * (task.n_directions + 1) // 2


@kernel(inline=True)
def place_of(c, i, n):
    """Return where entry `i` of direction `c` stands in a row of blocks."""
    return ((c // 4) * n + i) * 4 + c % 4


@kernel(inline=True)
def number_of_pair(a, b, q):
    """Return the number of the pair a <= b of `q` directions."""
    return a * q - a * (a - 1) // 2 + b - a


@kernel(inline=True)
def slopes_of(system, t, states, at, z, seeds, out, s):
    """Set ``out[s] = f_y z + f_p seeds``, a block of four directions after the other.

    The states begin at the element `at` of `states`; `z` is (1, N) and `out` (stages, N) with N = blocks n 4, `seeds`
    (blocks, n_p, 4).
    """
    width, n_p = 4 * system.n, system.p.size
    for b in range(seeds.shape[0]):
        call_directions(
            system.directions, t, states, at, system.p, system.u, z, b * width, seeds, b * 4 * n_p,
            out, (s * seeds.shape[0] + b) * width,
        )  # fmt: skip


@kernel(inline=True)
def add_second(system, t, states, at, z, row, seeds, vectors, out, s):
    """Add ``D2f[z_a, z_b]`` for all pairs a <= b of the directions ``z[row]`` to ``out[s]``.

    `vectors` is room for two directions (n + n_p) and a derivative (n).
    """
    n, q = system.n, system.n_directions
    v, w, d2 = vectors
    pair = 0
    for a in range(q):
        _direction(z, row, seeds, a, n, v)
        for b in range(a, q):
            _direction(z, row, seeds, b, n, w)
            call_second(system.second, t, states, at, system.p, system.u, v, w, d2, 0)
            for i in range(n):
                out[s, place_of(pair, i, n)] += d2[i]
            pair += 1


@kernel(inline=True)
def _direction(z, row, seeds, a, n, v):
    """Copy direction `a` (states above parameters) to the vector `v`."""
    for i in range(n):
        v[i] = z[row, place_of(a, i, n)]
    for i in range(v.size - n):
        v[n + i] = seeds[a // 4, i, a % 4]


@kernel(inline=True)
def put_states(matrix, n_columns, q, n, out):
    """Write the first `q` columns of a matrix (n, n_columns), row by row, to row 0 of `out`, padded with zeros."""
    for c in range(4 * n_blocks(q)):
        for i in range(n):
            out[0, place_of(c, i, n)] = matrix[i * n_columns + c] if c < q else 0.0


@kernel(inline=True)
def put_seeds(matrix, n_columns, q, n_p, out):
    """Do the same for the seeds of parameters, `out` of shape (blocks, n_p, 4)."""
    _put_seeds_from(0, matrix, n_columns, q, n_p, out)


@kernel(inline=True)
def put_seeds_of_piece(matrix, n_columns, q, n_p, out):
    """Do the same for the last two parameters alone: start and length of a piece with moving ends."""
    _put_seeds_from(n_p - 2, matrix, n_columns, q, n_p, out)


@kernel(inline=True)
def _put_seeds_from(first, matrix, n_columns, q, n_p, out):
    for c in range(4 * n_blocks(q)):
        for i in range(first, n_p):
            out[c // 4, i, c % 4] = matrix[i * n_columns + c] if c < q else 0.0
