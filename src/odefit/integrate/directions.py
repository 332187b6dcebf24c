"""Sensitivities in blocks of four directions, the same for every method.

A direction is a derivative of the states above the constant derivative of the parameters (its seed).  Four
of them are what the machine multiplies at once, so that sensitivities are kept in blocks (blocks, n, 4),
padded with zeros, and compiled code differentiates in a whole block.
"""

from __future__ import annotations

import numpy as np

from odefit.native.calls import call_directions, call_second
from odefit.native.kernel import kernel


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
def add_second(second, t, states, at, p, u, z, seeds, n, q, v, w, d2, out, s):
    """Add ``D2f[z_a, z_b]`` for all pairs a <= b of directions to ``out[s]``."""
    pair = 0
    for a in range(q):
        _direction(z, seeds, a, n, v)
        for b in range(a, q):
            _direction(z, seeds, b, n, w)
            call_second(second, t, states, at, p, u, v, w, d2, 0)
            for i in range(n):
                out[s, pair // 4, i, pair % 4] += d2[i]
            pair += 1


@kernel(inline=True)
def _direction(z, seeds, a, n, v):
    """Copy direction `a` (states above parameters) to the vector `v`."""
    for i in range(n):
        v[i] = z[a // 4, i, a % 4]
    for i in range(v.size - n):
        v[n + i] = seeds[a // 4, i, a % 4]


@kernel(inline=True, allocating=True)
def in_blocks(columns, q):
    """Return the first `q` columns of a matrix (n, ...) in blocks (blocks, n, 4), padded with zeros.

    Four columns are what the machine multiplies at once.
    """
    n = columns.shape[0]
    z = np.empty(((q + 3) // 4, n, 4))
    for c in range(4 * z.shape[0]):
        for i in range(n):
            z[c // 4, i, c % 4] = columns[i, c] if c < q else 0.0
    return z


@kernel(inline=True)
def write_directions(z, n, q, out, row):
    """Write the first `q` directions to ``out[row]``."""
    for i in range(n):
        for c in range(q):
            out[row, i, c] = z[c // 4, i, c % 4]


@kernel(inline=True)
def write_start(z, n, q, out):
    """Write the directions at the start."""
    write_directions(z, n, q, out, 0)
