"""Linear least squares with linear equalities and inequalities: min ||R x - b||^2/2, E x = e, C x >= d.

It is solved in three steps, all by orthogonal transformations (R'R is never formed):

1. The equalities are eliminated: with E' = [Y N] [L'; 0], rows of length one and pivoting, x = Y p + N w, L p = e.
   Rows that depend on others are left out, with a multiplier of zero, if they agree with them.
2. What is left, min ||R N w - b + R Y p||, becomes with its triangle S and y = S w - c the search for the point nearest
   to the origin among S^-T (C N)' y >= ..., which the dual active set method finds (see `least_distance`).
3. With the active rows known, the problem is solved once more from the given numbers, all of them as equalities: point
   and multipliers do not suffer from a metric in which some directions are hardly determined.

At the solution R'(R x - b) = E'lambda + C'nu with nu >= 0, and nu_i = 0 unless C_i x = d_i.  Where there is none,
lambda and nu >= 0 prove that: E'lambda + C'nu = 0, but e'lambda + d'nu > 0.
"""

from __future__ import annotations

import numpy as np

from odefit.native.kernel import kernel
from odefit.native.orthogonal import (
    apply_to_column,
    apply_transposed,
    column_norm,
    factor_columns,
    factor_columns_pivoted,
)
from odefit.solve.active_factors import solve_upper, solve_upper_transposed
from odefit.solve.equality_rows import drop_columns, rotate_columns
from odefit.solve.least_distance import CONTRADICTORY, DEPENDENT, SOLVED, UNSURE, least_distance
from odefit.solve.weighted_factors import apply_backwards

__all__ = ["CONTRADICTORY", "SOLVED", "UNSURE", "solve_program"]

_AGREES = 1e-9  # of the numbers that it is made of, that a dependent equality may be missed by


@kernel(inline=True)
def _row_norm(rows, i):
    largest, total = 0.0, 0.0
    for j in range(rows.shape[1]):
        largest = max(largest, abs(rows[i, j]))
    if largest == 0.0 or not largest < np.inf:
        return largest
    for j in range(rows.shape[1]):
        total += (rows[i, j] / largest) ** 2
    return largest * np.sqrt(total)


@kernel(inline=True, allocating=True)
def _eliminate(equality, right, et, beta, pivot, p, proof):
    """Factor the equalities and solve ``L p = e``; return their rank, and a row that contradicts others, or -1.

    `et` are the factors of the rows, of length one, as columns; `proof` is filled if there is such a row.
    """
    k, n = equality.shape
    e = np.empty(k)
    for i in range(k):
        size = _row_norm(equality, i)
        size = size if size > 0.0 else 1.0
        e[i] = right[i] / size
        for j in range(n):
            et[j, i] = equality[i, j] / size
    factor_columns_pivoted(et, k, beta, pivot)
    rank = 0
    while rank < min(k, n) and abs(et[rank, rank]) > DEPENDENT:
        rank += 1
    sorted_e = np.empty(k)
    for i in range(k):
        sorted_e[i] = e[pivot[i]]
    solve_upper_transposed(et, rank, sorted_e, p)
    for i in range(rank, k):
        missed, size = sorted_e[i], abs(sorted_e[i])
        for j in range(rank):
            missed -= et[j, i] * p[j]
            size += abs(et[j, i] * p[j])
        if abs(missed) > _AGREES * size:
            column, share = np.empty(rank), np.empty(rank)
            for j in range(rank):
                column[j] = et[j, i]
            solve_upper(et, rank, column, share)
            sign = 1.0 if missed > 0.0 else -1.0
            for j in range(rank):
                proof[pivot[j]] = -sign * share[j] / max(_row_norm(equality, pivot[j]), 1e-300)
            proof[pivot[i]] = sign / max(_row_norm(equality, pivot[i]), 1e-300)
            return rank, pivot[i]
    return rank, -1


@kernel(inline=True, allocating=True)
def _reduce(r, b, et, beta, rank, p, s, c):
    """Fill the triangle S and the right side c of the problem in what the equalities leave free."""
    n = b.size
    a, column = r.copy(), np.empty((n, 1))
    for i in range(n):
        column[i, 0] = b[i]
    if rank > 0:
        rotate_columns(a, n, et, rank, beta)
        drop_columns(a, n, rank, p, column)
        left = a[:, : n - rank].copy()
        beta_left = np.empty(n)
        factor_columns(left, beta_left)
        apply_transposed(left, n - rank, beta_left, column)
        for i in range(n - rank):
            for j in range(n - rank):
                a[i, j] = left[i, j] if j >= i else 0.0
    for i in range(n - rank):
        c[i] = column[i, 0]
        for j in range(n - rank):
            s[i, j] = a[i, j]


@kernel(inline=True, allocating=True)
def _rows_left(inequality, right, et, beta, rank, p):
    """Return the inequalities in what the equalities leave free, and what they must exceed there."""
    k, n = inequality.shape
    rows, below = inequality.copy(), np.empty((k, 1))
    for i in range(k):
        below[i, 0] = right[i]
    if rank > 0:
        rotate_columns(rows, n, et, rank, beta)
        drop_columns(rows, n, rank, p, below)
    return rows[:, : n - rank].copy(), below


@kernel(inline=True, allocating=True)
def _normalised(inequality, right, plain, below, s, c, a, h, level, norms):
    """Fill the columns of the search for the nearest point, with their norms; return a row that cannot be met, or -1.

    Rows that depend on the equalities, and those that must exceed nothing, do not count (`level` infinite).
    """
    k, m = plain.shape
    for i in range(k):
        given, size = _row_norm(inequality, i), _row_norm(plain, i)
        level[i] = abs(right[i])
        h[i], norms[i] = below[i, 0], 1.0
        if right[i] == -np.inf:
            h[i], level[i] = 0.0, np.inf
            for j in range(m):
                a[j, i] = 0.0
            continue
        if size <= DEPENDENT * given or size == 0.0:
            level[i] += abs(below[i, 0] - right[i])
            if h[i] > _AGREES * level[i]:
                return i
            level[i] = np.inf
            for j in range(m):
                a[j, i] = 0.0
            continue
        for j in range(m):  # S' a = c_i, forward
            total = plain[i, j]
            for o in range(j):
                total -= s[o, j] * a[o, i]
            a[j, i] = total / s[j, j]
            plain[i, j] /= size
        norm = norms[i] = column_norm(a, 0, i)
        level[i] = (level[i] + abs(below[i, 0] - right[i])) / norm
        h[i] /= norm
        for j in range(m):
            a[j, i] /= norm
            h[i] -= a[j, i] * c[j]
            level[i] += abs(a[j, i] * c[j])
    return -1


@kernel(inline=True, allocating=True)
def _solve_active(r, b, rows, right, x, multiplier):
    """Set x and multipliers of min ||R x - b|| with these rows, which do not depend on each other, as equalities."""
    k, n = rows.shape
    et, beta, p = np.empty((n, k)), np.empty(k), np.empty(k)
    for i in range(k):
        for j in range(n):
            et[j, i] = rows[i, j]
    factor_columns(et, beta)
    solve_upper_transposed(et, k, right, p)
    a, column, z = r.copy(), np.empty((n, 1)), np.empty((n, 1))
    for i in range(n):
        column[i, 0] = b[i]
    rotate_columns(a, n, et, k, beta)
    drop_columns(a, n, k, p, column)
    left, beta_left, w = a[:, : n - k].copy(), np.empty(n), np.empty(n)
    factor_columns(left, beta_left)
    apply_transposed(left, n - k, beta_left, column)
    solve_upper(left, n - k, column[:, 0], w)
    for i in range(n):
        z[i, 0] = p[i] if i < k else w[i - k]
    apply_backwards(et, k, beta, z)
    for i in range(n):
        x[i] = z[i, 0]
    for i in range(n):
        column[i, 0] = -b[i]
        for j in range(i, n):
            column[i, 0] += r[i, j] * x[j]
    for j in range(n):
        total = 0.0
        for i in range(j + 1):
            total += r[i, j] * column[i, 0]
        z[j, 0] = total
    for i in range(k):
        apply_to_column(et, i, beta, z, 0)
    solve_upper(et, k, z[:, 0], multiplier)


@kernel(inline=True, allocating=True)
def _share_of_equalities(equality, inequality, et, beta, rank, pivot, equality_multiplier, inequality_multiplier):
    """Complete a proof that inequalities cannot be met: set lambda with E'lambda = -C'nu."""
    k, n = inequality.shape
    column = np.zeros((n, 1))
    for i in range(k):
        for j in range(n):
            column[j, 0] -= inequality[i, j] * inequality_multiplier[i]
    share = np.empty(rank)
    for i in range(rank):
        apply_to_column(et, i, beta, column, 0)
    solve_upper(et, rank, column[:, 0], share)
    for i in range(rank):
        equality_multiplier[pivot[i]] = share[i] / _row_norm(equality, pivot[i])


@kernel(inline=True, allocating=True)
def _finish(r, b, rows, right, rank, pivot, inequality, inequality_right, active, x, lambda_, nu):
    """Solve with the active rows as equalities, and hand their multipliers out."""
    n, n_active = b.size, rank
    for i in range(active.size):
        n_active += 1 if active[i] else 0
    fixed, value, multiplier = np.empty((n_active, n)), np.empty(n_active), np.empty(n_active)
    for i in range(rank):
        fixed[i], value[i] = rows[pivot[i]], right[pivot[i]]
    k = rank
    for i in range(active.size):
        if active[i]:
            fixed[k], value[k] = inequality[i], inequality_right[i]
            k += 1
    _solve_active(r, b, fixed, value, x, multiplier)
    for i in range(rank):
        lambda_[pivot[i]] = multiplier[i]
    k = rank
    for i in range(active.size):
        nu[i] = 0.0
        if active[i]:
            nu[i] = max(0.0, multiplier[k])
            k += 1


@kernel
def solve_program(
    r, b, equality, equality_right, inequality, inequality_right, x, equality_multiplier, inequality_multiplier, active
):
    """Minimise ``||R x - b||^2/2`` subject to ``E x = e`` and ``C x >= d``.

    Parameters
    ----------
    r, b
        Upper triangular and regular, (n, n), and (n,).
    equality, equality_right, inequality, inequality_right
        E (k, n), e (k,), C (l, n), d (l,); d may be -inf.
    x
        Filled, (n,).
    equality_multiplier, inequality_multiplier
        Filled, lambda (k,) and nu (l,); see the module.
    active
        (l,): which inequalities hold as equations, first a guess, then the answer.

    Returns
    -------
    status, row
        `SOLVED`, `CONTRADICTORY` or `UNSURE` (rounding prevented an end: x may miss rows), and a row that cannot be met
        together with others (equalities count first), or -1.
    """
    n, k, n_rows = b.size, equality_right.size, inequality_right.size
    et, beta, pivot = np.empty((n, k)), np.empty(k), np.empty(k, np.int64)
    p = np.empty(k)
    for i in range(k):
        equality_multiplier[i] = 0.0
    rank, wrong = _eliminate(equality, equality_right, et, beta, pivot, p, equality_multiplier)
    if wrong >= 0:
        for i in range(n_rows):
            inequality_multiplier[i], active[i] = 0.0, False
        return CONTRADICTORY, wrong
    m = n - rank
    s, c = np.empty((m, m)), np.empty(m)
    _reduce(r, b, et, beta, rank, p, s, c)
    plain, below = _rows_left(inequality, inequality_right, et, beta, rank, p)
    a, h, level, y = np.empty((m, n_rows)), np.empty(n_rows), np.empty(n_rows), np.zeros(m)
    norms = np.empty(n_rows)
    status, row = SOLVED, _normalised(inequality, inequality_right, plain, below, s, c, a, h, level, norms)
    if row >= 0:
        status = CONTRADICTORY
        for i in range(n_rows):
            inequality_multiplier[i] = 1.0 if i == row else 0.0
    else:
        status, row = least_distance(a, h, level, plain, active, y, inequality_multiplier)
    if status == CONTRADICTORY:
        for i in range(n_rows):
            inequality_multiplier[i] /= norms[i]
        _share_of_equalities(equality, inequality, et, beta, rank, pivot, equality_multiplier, inequality_multiplier)
        return status, k + row
    _finish(
        r, b, equality, equality_right, rank, pivot, inequality, inequality_right, active, x,
        equality_multiplier, inequality_multiplier,
    )  # fmt: skip
    return status, -1
