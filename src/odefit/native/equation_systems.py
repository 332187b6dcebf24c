"""Linear algebra of equations ``G(t, y, y', p) = f(t, y, p) - B(t, y, p) y' = 0``.

A method that puts ``y' = c y + ..`` into the equations solves with the matrix

    -(G_y + c G_y'),

and with zero in the place of the shift the backends of `odefit.native.linear_systems` do so, once the two parts of the
Jacobian are joined.  The Jacobian by (y, y', p) is the *whole* one; *joined* entries have the pattern of y and y'
together, and of p behind it, as `Elimination.row_ptr`, `mid` and `col` say:

    joined = G_y + c G_y'  (columns of y),    G_p  (columns of p).

So seeds of p are multiplied as in ``y' = f``.  The matrix of consistent states takes G_y' from rows with derivatives,
and G_y from *algebraic* rows, those without any:

    M = (-B in the first, f_y in the others),

which is regular if the equations are of index 1.
"""

from __future__ import annotations

import numpy as np

from odefit.native.kernel import kernel
from odefit.native.unsigned import FOUR, ONE, THREE, TWO, unsigned


@kernel(inline=True)
def join_entries(e, n, whole, c, joined):
    """Set `joined` to G_y + c G_y' and G_p, from the entries of the whole Jacobian."""
    for g in range(joined.size):
        joined[g] = 0.0
    for g in range(whole.size):
        column = e.whole_col[g]
        joined[e.joined[g]] += c * whole[g] if n <= column < 2 * n else whole[g]


@kernel(inline=True)
def join_for_states(e, n, whole, joined):
    """Set `joined` to the matrix M of consistent states, and to G_p."""
    for g in range(joined.size):
        joined[g] = 0.0
    for i in range(n):
        algebraic = e.algebraic[i] != 0
        for g in range(e.whole_ptr[i], e.whole_ptr[i + 1]):
            column = e.whole_col[g]
            if column >= 2 * n or (column < n) == algebraic:
                joined[e.joined[g]] += whole[g]


@kernel(inline=True)
def subtract_rates(e, n, whole, rates, out, row):
    """Subtract ``G_y' rates[0]`` from ``out[row]``, that is add ``B rates``; both hold blocks (n, 4) of directions."""
    ptr, col, size, row = unsigned(e.whole_ptr), unsigned(e.whole_col), np.uint64(n), np.uint64(row)
    for b in range(np.uint64(out.shape[1] // (4 * n))):
        at = b * FOUR * size
        for i in range(size):
            o = at + FOUR * i
            x0, x1, x2, x3 = out[row, o], out[row, o + ONE], out[row, o + TWO], out[row, o + THREE]
            for g in range(ptr[i], ptr[i + ONE]):
                column = col[g]
                if size <= column < size + size:
                    v, k = whole[g], at + FOUR * (column - size)
                    x0 -= v * rates[0, k]
                    x1 -= v * rates[0, k + ONE]
                    x2 -= v * rates[0, k + TWO]
                    x3 -= v * rates[0, k + THREE]
            out[row, o], out[row, o + ONE], out[row, o + TWO], out[row, o + THREE] = x0, x1, x2, x3
