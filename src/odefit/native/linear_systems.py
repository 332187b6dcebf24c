"""Systems ``(shift I - J) x = b`` with a sparse Jacobian J: three backends behind the same kernels.

* *Dense*: LU with partial pivoting.
* *Sparse*: LU on a fixed pattern.  The order of elimination is chosen once, in Python
  (`odefit.compile.elimination_order`), and the numeric phase here walks through the rows,

      u_i. = a_i. - sum_k l_ik u_k.,    l_ik = w_k / u_kk,

  in a dense work row w.  Pivots are not exchanged in it; instead it measures how much the entries of a row grow, and
  says so, that a better order can be looked for.
* *Straight line*: the same as compiled code for the pattern, without a loop (`odefit.compile.straight_line`), for
  patterns that are not too large.

Sensitivities of a step of a backward differentiation formula solve, with the matrix A = c_0 I - f_y,

    A S_n = c_0 S_{n-1} - sum_{j>=2} c_j (S_{n-j} - S_{n-1}) + f_p dp + d,

where d is zero, or what second derivatives of f contribute.  Directions come in blocks (n, 4).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from odefit.native.calls import call_factorise, call_solve, call_solve_blocks
from odefit.native.finite import row_is_finite
from odefit.native.kernel import kernel
from odefit.native.records import Floats, Integers
from odefit.native.unsigned import FOUR, ONE, THREE, TWO, ZERO, unsigned

GROWTH_LIMIT = 1e4  # of the entries of a row, before another order of elimination is asked for
FACTORISED, SINGULAR, GROWN = 0, 1, 2
_NOTHING, _NO_NUMBERS = np.empty(0, dtype=np.int64), np.empty(0)


class Elimination(NamedTuple):
    """What kernels need to know of the matrix and of the backend.

    Attributes
    ----------
    row_ptr, mid, col
        CSR pattern of the derivatives of f by (y, p), where ``row_ptr[i]:mid[i]`` belong to y.
    row_of, column_of, place
        Row of the matrix that is eliminated in turn i, turn in which a state is, and the same for each entry of
        the Jacobian that belongs to a state.  Empty for the dense backend.
    l_ptr, l_col, u_ptr, u_col
        Patterns of L and U, the diagonal first in each row of U.
    factorise, solve, solve_blocks
        Addresses of code for this pattern; 0: none.
    n_values, n_pivots, n_work
        Room for a factorisation.
    patience
        Cost of a factorisation over that of a solution with it.
    limit
        Growth of entries at which another order of elimination is asked for.
    trouble
        Where the Jacobian and the shift are noted then.
    whole_ptr, whole_col, joined, algebraic
        Equations in several derivatives, see `odefit.native.equation_systems`; empty for ``y' = f``.
    """

    row_ptr: Integers = _NOTHING
    mid: Integers = _NOTHING
    col: Integers = _NOTHING
    row_of: Integers = _NOTHING
    column_of: Integers = _NOTHING
    place: Integers = _NOTHING
    l_ptr: Integers = _NOTHING
    l_col: Integers = _NOTHING
    u_ptr: Integers = _NOTHING
    u_col: Integers = _NOTHING
    factorise: int = 0
    solve: int = 0
    solve_blocks: int = 0
    n_values: int = 0
    n_pivots: int = 0
    n_work: int = 0
    patience: float = 0.0
    limit: float = np.inf
    trouble: Floats = _NO_NUMBERS
    whole_ptr: Integers = _NOTHING
    whole_col: Integers = _NOTHING
    joined: Integers = _NOTHING
    algebraic: Integers = _NOTHING


@kernel(inline=True)
def dense_factorise(row_ptr, mid, col, jac, shift, n, a, pivots):
    """Factorise in place, row by row in ``a[i * n + j]``; the diagonal holds reciprocals of the pivots."""
    for i in range(n * n):
        a[i] = 0.0
    for i in range(n):
        for e in range(row_ptr[i], mid[i]):
            a[i * n + col[e]] = -jac[e]
        a[i * n + i] += shift
    for k in range(n):
        chosen, largest = k, abs(a[k * n + k])
        for i in range(k + 1, n):
            size = abs(a[i * n + k])
            if size > largest:
                chosen, largest = i, size
        if not (largest > 0.0 and math.isfinite(largest)):
            return SINGULAR
        pivots[k] = chosen
        if chosen != k:
            for j in range(n):
                kept = a[k * n + j]
                a[k * n + j] = a[chosen * n + j]
                a[chosen * n + j] = kept
        inverse = 1.0 / a[k * n + k]
        a[k * n + k] = inverse
        for i in range(k + 1, n):
            if a[i * n + k] != 0.0:
                factor = a[i * n + k] * inverse
                a[i * n + k] = factor
                for j in range(k + 1, n):
                    a[i * n + j] -= factor * a[k * n + j]
    return FACTORISED


@kernel(inline=True)
def _clear_row(col, begin, end, w):
    """Set the entries of a row of L or U to zero in the work row."""
    for g in range(begin, end):
        w[col[g]] = 0.0


@kernel(inline=True)
def _sparse_factorise(e, jac, shift, n, a, w, limit):
    """Factorise to ``a`` = entries of L, entries of U, reciprocals of the pivots."""
    row_ptr, mid, place = unsigned(e.row_ptr), unsigned(e.mid), unsigned(e.place)
    row_of, column_of = unsigned(e.row_of), unsigned(e.column_of)
    l_ptr, l_col, u_ptr, u_col = unsigned(e.l_ptr), unsigned(e.l_col), unsigned(e.u_ptr), unsigned(e.u_col)
    at_u = np.uint64(l_col.size)
    at_inverse = at_u + np.uint64(u_col.size)
    outcome = FACTORISED
    for i in range(np.uint64(n)):
        l_begin, l_end, u_begin, u_end = l_ptr[i], l_ptr[i + ONE], u_ptr[i], u_ptr[i + ONE]
        _clear_row(l_col, l_begin, l_end, w)
        _clear_row(u_col, u_begin, u_end, w)
        row = row_of[i]
        w[column_of[row]] = shift
        before = abs(shift)
        for g in range(row_ptr[row], mid[row]):
            entry = w[place[g]] - jac[g]
            w[place[g]] = entry
            before = max(before, abs(entry))
        for g in range(l_begin, l_end):
            k = l_col[g]
            factor = w[k] * a[at_inverse + k]
            a[g] = factor
            if factor != 0.0:
                for h in range(u_ptr[k] + ONE, u_ptr[k + ONE]):
                    w[u_col[h]] -= factor * a[at_u + h]
        after = 0.0
        for g in range(u_begin, u_end):
            entry = w[u_col[g]]
            a[at_u + g] = entry
            after = max(after, abs(entry))
        pivot = w[i]
        if not after < limit * before:
            outcome = GROWN
        if pivot == 0.0 or not math.isfinite(pivot):
            return GROWN if outcome == GROWN else SINGULAR
        a[at_inverse + i] = 1.0 / pivot
    return outcome


@kernel(inline=True)
def factorise_matrix(e, jac, shift, n, a, pivots, work, limit):
    """Factorise ``shift I - J`` into `a` (and `pivots`); return FACTORISED, SINGULAR or GROWN.

    ``work`` has room for four vectors; growth beyond `limit` is reported by the backends that do not exchange rows.
    """
    if e.factorise != 0:
        return call_factorise(e.factorise, jac, shift, a, limit)
    if e.row_of.size == 0:
        return dense_factorise(e.row_ptr, e.mid, e.col, jac, shift, n, a, pivots)
    return _sparse_factorise(e, jac, shift, n, a, work, limit)


@kernel(inline=True)
def _dense_solve(n, a, pivots, x):
    for k in range(n):
        chosen = pivots[k]
        kept = x[k]
        x[k] = x[chosen]
        x[chosen] = kept
    for i in range(1, n):
        total = x[i]
        for j in range(i):
            total -= a[i * n + j] * x[j]
        x[i] = total
    for i in range(n - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, n):
            total -= a[i * n + j] * x[j]
        x[i] = total * a[i * n + i]


@kernel(inline=True)
def _sparse_solve(e, n, a, w, x):
    row_of, column_of = unsigned(e.row_of), unsigned(e.column_of)
    l_ptr, l_col, u_ptr, u_col = unsigned(e.l_ptr), unsigned(e.l_col), unsigned(e.u_ptr), unsigned(e.u_col)
    at_u, size = np.uint64(l_col.size), np.uint64(n)
    at_inverse = at_u + np.uint64(u_col.size)
    for i in range(size):
        total = x[row_of[i]]
        for g in range(l_ptr[i], l_ptr[i + ONE]):
            total -= a[g] * w[l_col[g]]
        w[i] = total
    for behind in range(size):
        i = size - ONE - behind
        total = w[i]
        for g in range(u_ptr[i] + ONE, u_ptr[i + ONE]):
            total -= a[at_u + g] * w[u_col[g]]
        w[i] = total * a[at_inverse + i]
    for i in range(size):
        x[i] = w[column_of[i]]


@kernel(inline=True)
def solve_for_vector(e, n, a, pivots, work, x):
    """Overwrite ``x[:n]`` by the solution."""
    if e.solve != 0:
        call_solve(e.solve, a, x)
    elif e.row_of.size == 0:
        _dense_solve(n, a, pivots, x)
    else:
        _sparse_solve(e, n, a, work, x)


@kernel(inline=True)
def dense_solve_block(n, a, pivots, x, row, at):
    """Solve with dense factors for the block of four right-hand sides that begins at ``x[row, at]``."""
    for k in range(n):
        chosen = pivots[k]
        if chosen != k:
            for lane in range(4):
                kept = x[row, at + 4 * k + lane]
                x[row, at + 4 * k + lane] = x[row, at + 4 * chosen + lane]
                x[row, at + 4 * chosen + lane] = kept
    for i in range(1, n):
        o = at + 4 * i
        x0, x1, x2, x3 = x[row, o], x[row, o + 1], x[row, o + 2], x[row, o + 3]
        for j in range(i):
            v, k = a[i * n + j], at + 4 * j
            x0 -= v * x[row, k]
            x1 -= v * x[row, k + 1]
            x2 -= v * x[row, k + 2]
            x3 -= v * x[row, k + 3]
        x[row, o], x[row, o + 1], x[row, o + 2], x[row, o + 3] = x0, x1, x2, x3
    for i in range(n - 1, -1, -1):
        o = at + 4 * i
        x0, x1, x2, x3 = x[row, o], x[row, o + 1], x[row, o + 2], x[row, o + 3]
        for j in range(i + 1, n):
            v, k = a[i * n + j], at + 4 * j
            x0 -= v * x[row, k]
            x1 -= v * x[row, k + 1]
            x2 -= v * x[row, k + 2]
            x3 -= v * x[row, k + 3]
        v = a[i * n + i]
        x[row, o], x[row, o + 1], x[row, o + 2], x[row, o + 3] = x0 * v, x1 * v, x2 * v, x3 * v


@kernel(inline=True)
def _subtract_products(begin, end, at, a, col, w, x):
    """Subtract products of entries ``a[at + begin:at + end]`` with blocks of `w` from the four numbers `x`."""
    x0, x1, x2, x3 = x
    for g in range(begin, end):
        v, k = a[at + g], FOUR * col[g]
        x0 -= v * w[k]
        x1 -= v * w[k + ONE]
        x2 -= v * w[k + TWO]
        x3 -= v * w[k + THREE]
    return x0, x1, x2, x3


@kernel(inline=True)
def _sparse_solve_block(e, n, a, w, x, row, at):
    row_of, column_of = unsigned(e.row_of), unsigned(e.column_of)
    l_ptr, l_col, u_ptr, u_col = unsigned(e.l_ptr), unsigned(e.l_col), unsigned(e.u_ptr), unsigned(e.u_col)
    at_u, size, row, at = np.uint64(l_col.size), np.uint64(n), np.uint64(row), np.uint64(at)
    at_inverse = at_u + np.uint64(u_col.size)
    for i in range(size):
        o, k = at + FOUR * row_of[i], FOUR * i
        right = x[row, o], x[row, o + ONE], x[row, o + TWO], x[row, o + THREE]
        x0, x1, x2, x3 = _subtract_products(l_ptr[i], l_ptr[i + ONE], ZERO, a, l_col, w, right)
        w[k], w[k + ONE], w[k + TWO], w[k + THREE] = x0, x1, x2, x3
    for behind in range(size):
        i = size - ONE - behind
        k, v = FOUR * i, a[at_inverse + i]
        right = w[k], w[k + ONE], w[k + TWO], w[k + THREE]
        x0, x1, x2, x3 = _subtract_products(u_ptr[i] + ONE, u_ptr[i + ONE], at_u, a, u_col, w, right)
        w[k], w[k + ONE], w[k + TWO], w[k + THREE] = x0 * v, x1 * v, x2 * v, x3 * v
    for i in range(size):
        o, k = at + FOUR * i, FOUR * column_of[i]
        x[row, o], x[row, o + ONE], x[row, o + TWO], x[row, o + THREE] = w[k], w[k + ONE], w[k + TWO], w[k + THREE]


@kernel(inline=True)
def _looped_blocks(e, n, a, pivots, work, x, row):
    for b in range(x.shape[1] // (4 * n)):
        if e.row_of.size == 0:
            dense_solve_block(n, a, pivots, x, row, b * 4 * n)
        else:
            _sparse_solve_block(e, n, a, work, x, row, b * 4 * n)


@kernel(inline=True)
def solve_blocks(e, n, a, pivots, work, x, row):
    """Overwrite every block (n, 4) of ``x[row]`` by the solution; tell whether all of it is finite."""
    if e.solve_blocks != 0:
        return call_solve_blocks(e.solve_blocks, a, x, row * x.shape[1], x.shape[1] // (4 * n)) == 0
    _looped_blocks(e, n, a, pivots, work, x, row)
    return row_is_finite(x, row)


@kernel(inline=True)
def add_product(e, jac, n, z, row, seeds, out):
    """Add ``f_y z[row] + f_p seeds`` to ``out[0]``; `z` and `out` hold blocks (n, 4), `seeds` is (blocks, n_p, 4)."""
    row_ptr, mid, col = unsigned(e.row_ptr), unsigned(e.mid), unsigned(e.col)
    size, row = np.uint64(n), np.uint64(row)
    for b in range(np.uint64(seeds.shape[0])):
        at = b * FOUR * size
        for i in range(size):
            o = at + FOUR * i
            x0, x1, x2, x3 = out[0, o], out[0, o + ONE], out[0, o + TWO], out[0, o + THREE]
            for g in range(row_ptr[i], mid[i]):
                v, k = jac[g], at + FOUR * col[g]
                x0 += v * z[row, k]
                x1 += v * z[row, k + ONE]
                x2 += v * z[row, k + TWO]
                x3 += v * z[row, k + THREE]
            for g in range(mid[i], row_ptr[i + ONE]):
                v, j = jac[g], col[g] - size
                x0 += v * seeds[b, j, 0]
                x1 += v * seeds[b, j, 1]
                x2 += v * seeds[b, j, 2]
                x3 += v * seeds[b, j, 3]
            out[0, o], out[0, o + ONE], out[0, o + TWO], out[0, o + THREE] = x0, x1, x2, x3


@kernel(inline=True, allocating=True)
def seed_products(e, n, seeds):
    """Return the products that make up ``f_p dp``: their places in a right-hand side, entries of J, and factors.

    Most `seeds` dp, (blocks, n_p, 4), are zero, and they stay the same in a run.
    """
    count = 0
    for i in range(n):
        for g in range(e.mid[i], e.row_ptr[i + 1]):
            for b in range(seeds.shape[0]):
                for lane in range(4):
                    count += seeds[b, e.col[g] - n, lane] != 0.0
    place, entry, factor = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count)
    count = 0
    for i in range(n):
        for g in range(e.mid[i], e.row_ptr[i + 1]):
            for b in range(seeds.shape[0]):
                for lane in range(4):
                    value = seeds[b, e.col[g] - n, lane]
                    if value != 0.0:
                        place[count], entry[count], factor[count] = (b * n + i) * 4 + lane, g, value
                        count += 1
    return place, entry, factor


@kernel(inline=True)
def renew_products(e, n, seeds, products):
    """Put other seeds into the products of `seed_products`; what was zero there must be so again."""
    place, entry, factor = products
    for g in range(place.size):
        factor[g] = seeds[place[g] // (4 * n), e.col[entry[g]] - n, place[g] % 4]


@kernel(inline=True)
def _known_part(slot, c, s, d, with_d):
    """Set ``s[slot[0]]`` to the right-hand side without ``f_p dp``."""
    new, old, s2, s3, s4, s5 = slot[0], slot[1], slot[2], slot[3], slot[4], slot[5]
    c0, c2, c3, c4, c5 = c[0], c[2], c[3], c[4], c[5]  # numbers stay in registers, which entries of arrays do not
    for i in range(s.shape[1]):
        last = s[old, i]
        past = c2 * (s[s2, i] - last) + c3 * (s[s3, i] - last) + c4 * (s[s4, i] - last) + c5 * (s[s5, i] - last)
        s[new, i] = c0 * last - past
    for i in range(s.shape[1] if with_d else 0):
        s[new, i] += d[0, i]


@kernel(inline=True)
def step_directions(e, jac, n, slot, c, a, pivots, work, s, seeds, d, with_d):
    """Set the sensitivities ``s[slot[0]]`` of a step; tell whether all of them are finite.

    Parameters
    ----------
    slot, c
        Rows of `s` (depth, blocks*n*4) that hold S_n, S_{n-1}, .., and coefficients of the formula, zero beyond
        its order: those rows must hold numbers all the same.
    seeds
        See `seed_products`.
    d, with_d
        The extra part of the right-hand side, (1, blocks*n*4), and whether there is one.
    """
    _known_part(slot, c, s, d, with_d)
    place, entry, factor = unsigned(seeds[0]), unsigned(seeds[1]), seeds[2]
    new = slot[0]
    for g in range(place.size):
        s[new, place[g]] += jac[entry[g]] * factor[g]
    return solve_blocks(e, n, a, pivots, work, s, new)
