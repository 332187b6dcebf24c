"""Elimination of node states by structured orthogonal transformations: the linear algebra of multiple shooting.

Unknowns are the states s_1, ..., s_m at the nodes of a *chain* (an experiment), and q unknowns theta that all chains
share.  Interval j begins with s_j (interval 0 with what theta says) and hands its end over to the next one.  Scaled
unknowns are z = dx/scale; rows of an interval are

    data        J_j z_j + K_j z_theta                ~  r_j       (least squares)
    handover    G_j z_j + H_j z_theta - z_(j+1)      =  c_j       (exactly, or least squares with a weight).

Node after node is eliminated, from the first to the last.  What earlier nodes say about z_j and theta is *carried*:
rows that must hold exactly, C z_j + D z_theta = d, and rows of least squares, A z_j + B z_theta ~ a.  At node j

1. the exact rows (of length one), carried ones and the handover, are factored by Householder reflections with column
   pivoting, Q' [C 0 D; G -I H] P = [R E_1 D_1; 0 E_2 D_2]: the upper ones give z_j, the lower ones are carried to the
   next node;
2. z_j is substituted in the rows of least squares;
3. what is left of z_j there (nothing if R has full rank) is eliminated by reflections of those rows, and the others are
   reduced to a triangle, which is carried.

Transition matrices are never multiplied.  Where solutions grow, the upper rows take z_j from its end,
G z_j = z_(j+1) - ..., and where they decay from its beginning: with G = exp(+-mu h) both are well conditioned, and
what is carried is (I + G G')^(-1/2) (z_(j+1) - G z_j), whose entries stay below one.  The classical recursion, which
multiplies all G, loses all digits as soon as exp(mu T) is as large as the inverse of rounding.

At the end of a chain a state may be left of which exact rows say next to nothing, C << D: what has grown tells theta
from the state, and not the state from theta.  Below the root of rounding C is left out: the rows are about theta then,
and data give the state.  Steps are wrong by that much at most, of their own size, and the next one corrects it.

The cost is linear in the number of nodes.  Damping rows sqrt(mu) z = 0 enter each node before it is eliminated.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.native.kernel import kernel

FIRST_ROW, LAST_ROW, HANDOVER, NODE, N_STATES = range(5)
"""Columns of a chain table, a row for each interval: its data rows from the first to behind the last, its first
handover row (-1: it is the last of its chain), where the states of its node begin among those of all nodes (-1: it
begins where theta says), and their number."""
_NO_PIVOT = 1e-13  # of the largest one: exact rows that say less of a node state are left to later nodes
_WEAK = 1e-8  # of rows of length one: a smaller pivot would give a state with fewer than half of the digits
_ROUNDING = 1e-14  # of rows of length one: what elimination leaves of one that follows from others


@kernel(inline=True)
def _reflect(a, first, last, k, column, width):
    """Map ``a[first:last, column]`` to a multiple of its first entry, by a reflection of the columns from it on."""
    largest = 0.0
    for i in range(first, last):
        largest = max(largest, abs(a[i, column]))
    if largest == 0.0 or not math.isfinite(largest):
        return
    total = 0.0
    for i in range(first, last):
        total += (a[i, column] / largest) ** 2
    norm = largest * math.sqrt(total)
    alpha = a[first, column]
    head = -norm if alpha >= 0.0 else norm
    v0 = alpha - head
    beta = -v0 / head
    for i in range(first + 1, last):
        a[i, column] /= v0
    a[first, column] = head
    for j in range(k, width):
        if j == column:
            continue
        total = a[first, j]
        for i in range(first + 1, last):
            total += a[i, column] * a[i, j]
        total *= beta
        if total != 0.0:
            a[first, j] -= total
            for i in range(first + 1, last):
                a[i, j] -= total * a[i, column]
    for i in range(first + 1, last):
        a[i, column] = 0.0


@kernel(inline=True)
def _triangle(a, m, first, last, width):
    """Reduce the first `m` rows so that columns `first` to `last` - 1 are triangular; return how many rows are left.

    Rows that only their right-hand side, the last column, would be left of are dropped.
    """
    k = 0
    for column in range(first, last):
        if k >= m:
            break
        _reflect(a, k, m, column, column, width)
        k += 1
    return min(m, last - first)


@kernel(inline=True)
def _factor_exact(a, m, n, width, pivot):
    """Factor the first `n` columns of exact rows, at most of length one, with column pivoting; return their rank."""
    for j in range(n):
        pivot[j] = j
    rank, largest = 0, 0.0
    for k in range(min(m, n)):
        best, best_norm = k, -1.0
        for j in range(k, n):
            norm = 0.0
            for i in range(k, m):
                norm = math.hypot(norm, a[i, j])
            if norm > best_norm:
                best, best_norm = j, norm
        largest = max(largest, best_norm)
        if not best_norm > max(_NO_PIVOT * largest, _WEAK):
            break
        if best != k:
            pivot[k], pivot[best] = pivot[best], pivot[k]
            for i in range(m):
                a[i, k], a[i, best] = a[i, best], a[i, k]
        _reflect(a, k, m, k, k, width)
        rank += 1
    for k in range(rank, n):
        for i in range(rank, m):
            a[i, k] = 0.0
    return rank


@kernel(inline=True)
def _permute(a, m, n, pivot, work):
    """Order the first `n` columns of `a` as `pivot` says."""
    for i in range(m):
        for j in range(n):
            work[j] = a[i, pivot[j]]
        for j in range(n):
            a[i, j] = work[j]


@kernel(inline=True)
def _substitute(exact, rank, light, m, width):
    """Remove the first `rank` columns of the rows of least squares by exact rows, which are triangular there."""
    for i in range(m):
        for k in range(rank):
            if light[i, k] == 0.0:
                continue
            factor = light[i, k] / exact[k, k]
            light[i, k] = 0.0
            for j in range(k + 1, width):
                light[i, j] -= factor * exact[k, j]


@kernel(inline=True)
def _put_row(target, at, rows, i, right, factor, sizes, offsets, scale, width):
    """Write row `i` of the problem, times `factor`, in scaled unknowns; `sizes`: n of its node, n of the next, q.

    `offsets` are where the scales of the node begin (-1: it has none), and those of theta in `rows`.
    """
    n, n_next, q = sizes
    node, first = offsets
    for j in range(n):
        target[at, j] = factor * rows[i, j] * scale[q + node + j]
    for j in range(n_next):
        target[at, n + j] = 0.0
    for j in range(q):
        target[at, n + n_next + j] = factor * rows[i, first + j] * scale[j]
    target[at, width - 1] = factor * right[i]


@kernel(inline=True)
def _normalise(exact, at, width):
    """Give an exact row the length one: its unit must not decide whether it says something."""
    total = 0.0
    for j in range(width - 1):
        total = math.hypot(total, exact[at, j])
    if total > 0.0 and math.isfinite(total):
        for j in range(width):
            exact[at, j] /= total


@kernel(inline=True)
def _without_rounding(exact, first, m, n, width):
    """Drop exact rows from `first` on that are mere rounding behind column `n`; return how many are left in all.

    They would be divided by their size some day, and their noise would become a condition.
    """
    kept = first
    for i in range(first, m):
        largest = 0.0
        for j in range(n, width - 1):
            largest = max(largest, abs(exact[i, j]))
        if largest <= _ROUNDING:
            continue
        if kept != i:
            for j in range(width):
                exact[kept, j] = exact[i, j]
        kept += 1
    return kept


@kernel(inline=True)
def _gather(problem, i, sizes, next_node, exact, n_exact, light, n_light):
    """Add the rows of interval `i` to those that are carried; return how many there are of each kind.

    `sizes` are n of its node, n of the next, q.  Handover rows have an entry -1 in the unknown of the next node that
    they are about.
    """
    rows, right, weight, chain, scale = problem
    n, n_next, q = sizes
    first, width = rows.shape[1] - q, n + n_next + q + 1
    offsets = (chain[i, NODE], first)
    for r in range(chain[i, FIRST_ROW], chain[i, LAST_ROW]):
        if weight[r] == np.inf:
            _put_row(exact, n_exact, rows, r, right, 1.0, sizes, offsets, scale, width)
            _normalise(exact, n_exact, width)
            n_exact += 1
        elif weight[r] > 0.0:
            _put_row(light, n_light, rows, r, right, weight[r], sizes, offsets, scale, width)
            n_light += 1
    for k in range(n_next):
        r = chain[i, HANDOVER] + k
        if weight[r] == np.inf:
            _put_row(exact, n_exact, rows, r, right, 1.0, sizes, offsets, scale, width)
            exact[n_exact, n + k] = -rows[r, first - 1] * scale[q + next_node + k]
            _normalise(exact, n_exact, width)
            n_exact += 1
        else:
            _put_row(light, n_light, rows, r, right, weight[r], sizes, offsets, scale, width)
            light[n_light, n + k] = -weight[r] * rows[r, first - 1] * scale[q + next_node + k]
            n_light += 1
    return n_exact, n_light


@kernel(inline=True)
def _hold(a, m, first, fixed):
    """Remove the unknowns that stay from rows whose entries of theta begin in column `first`."""
    for j in range(fixed.size):
        if fixed[j]:
            for i in range(m):
                a[i, first + j] = 0.0


@kernel(inline=True)
def _damp(a, m, n, width, root):
    """Add damping rows of the first `n` unknowns; return how many rows there are then."""
    for j in range(n):
        for k in range(width):
            a[m, k] = 0.0
        a[m, j] = root
        m += 1
    return m


@kernel(inline=True)
def _keep(back, pivots, exact, light, rank, n, width, pivot):
    """Write down the rows that give the states of a node; return the square of what these remove."""
    removed = 0.0
    for k in range(n):
        pivots[k] = pivot[k]
        for j in range(width):
            back[k, j] = exact[k, j] if k < rank else light[k - rank, j]
        if k >= rank:
            removed += light[k - rank, width - 1] ** 2
    return removed


@kernel(inline=True)
def _make_room(a, m, n, n_next, q):
    """Put room for the next node between the columns of a node and those of theta, in rows that are carried."""
    for i in range(m):
        for j in range(q, -1, -1):
            a[i, n + n_next + j] = a[i, n + j]
        for j in range(n_next):
            a[i, n + j] = 0.0


@kernel(inline=True)
def _move(a, first, m, shift, width, target, at):
    """Write rows `first` to `m` - 1 of `a` without their first `shift` columns to `target`; return its size then."""
    for i in range(first, m):
        for j in range(shift, width):
            target[at, j - shift] = a[i, j]
        at += 1
    return at


@kernel(inline=True)
def _into_border(border, n_border, q):
    """Reduce the rows of a border to a triangle when there are twice as many as it needs."""
    return _triangle(border, n_border, 0, q, q + 1) if n_border > 2 * q else n_border


@kernel
def eliminate(rows, right, weight, chain, scale, damping, fixed, back, pivots, ranks, border, exact_border):
    """Eliminate all nodes.

    Parameters
    ----------
    rows, right
        All rows, (N, n_most + 1 + q) and (N,): entries of the own node, for handover rows the factor of the next node's
        state in them (which counts negative), and entries of theta.
    weight
        Of each row, (N,): infinite: it must hold exactly; 0: it is left out.
    chain
        See `FIRST_ROW`; intervals of one chain follow each other.
    scale
        Of theta, and of the states of all nodes behind them.
    damping, fixed
        mu, and which of theta stay, (q,).
    back, pivots, ranks
        Filled, for `expand_nodes`: of interval i n rows ``back[i]`` of (own node, next node, theta, right-hand side),
        in the order of columns ``pivots[i]``, and how many of them are exact.
    border, exact_border
        Filled: rows of theta with their right-hand sides, (3 q + most rows, q + 1) each.

    Returns
    -------
    n_border, n_exact
        Rows of least squares, reduced to a triangle and damped, and exact rows.
    removed
        Square of what the states of the nodes remove from the rows of least squares.
    """
    q, n_most = fixed.size, rows.shape[1] - 1 - fixed.size
    most = 0
    for i in range(chain.shape[0]):
        most = max(most, chain[i, LAST_ROW] - chain[i, FIRST_ROW])
    room, width_most = 2 * (n_most + q) + most + 2 * n_most + 2, 2 * n_most + q + 1
    exact, light = np.zeros((room, width_most)), np.zeros((room, width_most))
    exact_next, light_next = np.zeros((room, width_most)), np.zeros((room, width_most))
    work, pivot, root = np.empty(n_most), np.empty(n_most, np.int64), math.sqrt(damping)
    n_border, n_exact_border, removed, n_exact, n_light = 0, 0, 0.0, 0, 0
    problem = (rows, right, weight, chain, scale)
    for i in range(chain.shape[0]):
        node, n_states = chain[i, NODE], chain[i, N_STATES]
        n = n_states if node >= 0 else 0
        n_next = n_states if chain[i, HANDOVER] >= 0 else 0
        next_node = chain[i + 1, NODE] if n_next > 0 else -1
        width = n + n_next + q + 1
        if node < 0:
            n_exact, n_light = 0, 0
        else:
            _make_room(exact, n_exact, n, n_next, q)
            _make_room(light, n_light, n, n_next, q)
        n_exact, n_light = _gather(problem, i, (n, n_next, q), next_node, exact, n_exact, light, n_light)
        _hold(exact, n_exact, n + n_next, fixed)
        _hold(light, n_light, n + n_next, fixed)
        n_light = _damp(light, n_light, n, width, root)
        rank = _factor_exact(exact, n_exact, n, width, pivot)
        n_exact = _without_rounding(exact, rank, n_exact, n, width)
        if n > 0:
            _permute(light, n_light, n, pivot, work)
            _substitute(exact, rank, light, n_light, width)
            _triangle(light, n_light, rank, n, width)
            removed += _keep(back[i], pivots[i], exact, light, rank, n, width, pivot)
            ranks[i] = rank
        used = n - rank
        if n_next > 0:
            n_light_next = _move(light, used, n_light, n, width, light_next, 0)
            n_exact_next = _move(exact, rank, n_exact, n, width, exact_next, 0)
            light, light_next, exact, exact_next = light_next, light, exact_next, exact
            n_light, n_exact = n_light_next, n_exact_next
            if n_light > n_next + q:
                n_light = _triangle(light, n_light, 0, n_next + q, n_next + q + 1)
            if n_exact > n_next + q:
                n_exact = _triangle(exact, n_exact, 0, n_next + q, n_next + q + 1)
        else:
            if n_light - used > q:  # the chain ends: what is left is about theta alone
                n_light = _move(light, used, n_light, n, width, light_next, 0)
                n_light = _triangle(light_next, n_light, 0, q, q + 1)
                n_border = _move(light_next, 0, n_light, 0, q + 1, border, n_border)
            else:
                n_border = _move(light, used, n_light, n, width, border, n_border)
            n_border = _into_border(border, n_border, q)
            n_exact_border = _move(exact, rank, n_exact, n, width, exact_border, n_exact_border)
            n_exact_border = _into_border(exact_border, n_exact_border, q)
    for j in range(q):
        for k in range(q + 1):
            border[n_border, k] = 0.0
        border[n_border, j] = 1.0 if fixed[j] else root
        n_border += 1
    return _triangle(border, n_border, 0, q, q + 1), n_exact_border, removed


@kernel
def expand_nodes(chain, back, pivots, theta, out):
    """Fill the scaled states of all nodes, from the last to the first of each chain, for given scaled `theta`."""
    q = theta.size
    for i in range(chain.shape[0] - 1, -1, -1):
        node, n = chain[i, NODE], chain[i, N_STATES]
        if node < 0:
            continue
        n_next = n if chain[i, HANDOVER] >= 0 else 0
        width = n + n_next + q + 1
        for k in range(n - 1, -1, -1):
            total = back[i, k, width - 1]
            for j in range(n_next):
                total -= back[i, k, n + j] * out[chain[i + 1, NODE] + j]
            for j in range(q):
                total -= back[i, k, n + n_next + j] * theta[j]
            for j in range(k + 1, n):
                total -= back[i, k, j] * out[node + pivots[i, j]]
            head = back[i, k, k]
            out[node + pivots[i, k]] = total / head if head != 0.0 else 0.0


@kernel
def node_products(rows, chain, q, v, out):
    """Set `out` to all rows times the step `v`, whose first `q` entries are those of theta."""
    for i in range(chain.shape[0]):
        _products_of(rows, chain, i, q, v, out, chain[i, FIRST_ROW], chain[i, LAST_ROW], -1)
        if chain[i, HANDOVER] >= 0:
            first = chain[i, HANDOVER]
            _products_of(rows, chain, i, q, v, out, first, first + chain[i, N_STATES], chain[i + 1, NODE])


@kernel(inline=True)
def _products_of(rows, chain, i, q, v, out, first, last, next_node):
    n = chain[i, N_STATES] if chain[i, NODE] >= 0 else 0
    before = rows.shape[1] - q
    for r in range(first, last):
        total = 0.0
        for j in range(q):
            total += rows[r, before + j] * v[j]
        for j in range(n):
            total += rows[r, j] * v[q + chain[i, NODE] + j]
        if next_node >= 0:
            total -= rows[r, before - 1] * v[q + next_node + r - first]
        out[r] = total


@kernel
def node_gradient(rows, chain, q, values, out):
    """Set `out` to the transposed rows times `values`, theta first."""
    for j in range(out.size):
        out[j] = 0.0
    before = rows.shape[1] - q
    for i in range(chain.shape[0]):
        node = chain[i, NODE]
        n = chain[i, N_STATES] if node >= 0 else 0
        handover = chain[i, HANDOVER]
        n_next = chain[i, N_STATES] if handover >= 0 else 0
        m = chain[i, LAST_ROW] - chain[i, FIRST_ROW]
        for k in range(m + n_next):
            r = chain[i, FIRST_ROW] + k if k < m else handover + k - m
            value = values[r]
            if value == 0.0:
                continue
            for j in range(q):
                out[j] += rows[r, before + j] * value
            for j in range(n):
                out[q + node + j] += rows[r, j] * value
            if k >= m:
                out[q + chain[i + 1, NODE] + k - m] -= rows[r, before - 1] * value


@kernel
def node_squares(rows, chain, q, weight, out):
    """Set `out` to the sums of squares of the columns, rows times `weight`, theta first."""
    for j in range(out.size):
        out[j] = 0.0
    before = rows.shape[1] - q
    for i in range(chain.shape[0]):
        node = chain[i, NODE]
        n = chain[i, N_STATES] if node >= 0 else 0
        handover = chain[i, HANDOVER]
        n_next = chain[i, N_STATES] if handover >= 0 else 0
        m = chain[i, LAST_ROW] - chain[i, FIRST_ROW]
        for k in range(m + n_next):
            r = chain[i, FIRST_ROW] + k if k < m else handover + k - m
            square = weight[r] ** 2
            for j in range(q):
                out[j] += square * rows[r, before + j] ** 2
            for j in range(n):
                out[q + node + j] += square * rows[r, j] ** 2
            if k >= m:
                out[q + chain[i + 1, NODE] + k - m] += square * rows[r, before - 1] ** 2
