"""Steps in the metric of the column-pivoted QR factors, with bounds and rows of any weight.

The reduced problem min ||R dx - b|| is scaled (dx = s z) and factored with column pivoting,

    R diag(s) P = Q D U,     D diagonal and decreasing, U upper triangular with unit diagonal,

so that with x = U P' z and c = Q' b it reads min ||D x - c||, a diagonal problem.  U is well
conditioned: it is enough to restrict ||x|| <= Delta (Edsberg and Wedin (27), after Osborne).  A step is a
filter, x_i = g_i c_i:

    damped, (28)    g_i = d_i / (d_i^2 + mu),   mu = 0 if that fits, else ||x(mu)|| = Delta
    subspace, (30)  g_i = alpha / d_i for i <= rho, else 0; rho and alpha promise most within Delta

Without restriction both are the full Gauss-Newton step.

**Weights.**  Heavy rows of finite weight stand above R, heaviest first: with sorted rows and column
pivoting a Householder factorisation is stable row by row, whatever the weights.  What elimination leaves of
a heavy row is set to zero where it is mere rounding, and the rank is judged by the size of the light rows:
measured by the heavy ones, all others would count for nothing.  Rows of infinite weight are eliminated
before: with (E diag(s))' = [Y N] [L'; 0] the scaled step is z = Y y + N w, where L y = e makes the rows hold
and w is the unknown of a problem without them; y takes at most four fifths of Delta, w what is left.

**Bounds** are handled by an active set inside the step: unknowns that would leave the box are put on
their bound, and the problem is solved again in the others.  Should the result promise less than a tenth
of what a projected gradient step does, the latter is taken.

**Second-order correction.**  The trial residual r(x + v) tells the curvature along v: with the same
filter, x^a_i = g_i c^a_i for c^a = -2 Q'(r(x + v) - r - S v), and the corrected step is v + v^a/2 .
It costs one evaluation and is tried where the linear prediction was poor and much was at stake; near the
solution the ratio of real to predicted reduction tends to a constant that depends on the curvature there,
and a correction gains nothing.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.native.kernel import allocating, kernel
from odefit.native.orthogonal import _apply_to_column, _apply_transposed, _column_norm, _factor_pivoted, _reflect_column
from odefit.solve.contract import LinearModel, Reduced
from odefit.solve.scaling import Scaling, _scale
from odefit.solve.steps import DAMPED, SUBSPACE, StepInfo

Array = npt.NDArray[np.float64]

_FRACTION_OF_GRADIENT = 0.1  # of what a projected gradient step promises, that a step must promise
_RANK_TOLERANCE = 1e-10  # relative to the largest diagonal element: a guard against rounding only
_INWARD = 1e-8  # relative change of an unknown on a bound, by which rows of infinite weight pull it off
_FOR_EQUALITY = 0.8  # of the radius, that rows of infinite weight may take


@kernel
def _norm(x, n):
    total = 0.0
    for i in range(n):
        total += x[i] * x[i]
    return math.sqrt(total)


@kernel
def _damping(a, c, rank, radius):
    """Return mu >= 0 such that ||d c/(d^2 + mu)|| <= radius, with equality unless mu = 0."""
    total = 0.0
    for i in range(rank):
        total += (c[i, 0] / a[i, i]) ** 2
    if math.sqrt(total) <= radius:
        return 0.0
    # Newton's method on 1/radius - 1/||x(mu)||, concave and increasing: monotone from the left
    mu = 0.0
    for _ in range(100):
        norm2, slope = 0.0, 0.0
        for i in range(rank):
            e = a[i, i] * a[i, i] + mu
            xi = a[i, i] * c[i, 0] / e
            norm2 += xi * xi
            slope += xi * xi / e
        norm = math.sqrt(norm2)
        if norm <= radius * (1.0 + 1e-3):
            break
        mu += (norm / radius - 1.0) * norm2 / slope
    return mu


@kernel
def _damped_gains(a, c, rank, radius, gain):
    """Fill the filter (28); return mu."""
    mu = _damping(a, c, rank, radius)
    for i in range(rank):
        gain[i] = a[i, i] / (a[i, i] * a[i, i] + mu)
    return mu


@kernel
def _subspace_gains(a, c, rank, radius, gain):
    """Fill the filter (30); return the fraction of the Gauss-Newton step's promise that is given up."""
    length2, squares = 0.0, 0.0
    best, best_rho, best_alpha = -1.0, 0, 0.0
    for i in range(rank):
        length2 += (c[i, 0] / a[i, i]) ** 2
        squares += c[i, 0] * c[i, 0]
        length = math.sqrt(length2)
        alpha = 1.0 if length <= radius else radius / length
        promised = alpha * (2.0 - alpha) * squares
        if promised >= best:
            best, best_rho, best_alpha = promised, i + 1, alpha
    for i in range(rank):
        gain[i] = best_alpha / a[i, i] if i < best_rho else 0.0
    return 0.0 if squares == 0.0 else (squares - best) / squares


@kernel
def _unpivot(a, pivot, x, rank, n_columns, z, first):
    """Set ``z[first:] = P U^-1 x`` for x that is zero beyond the rank; overwrites `x`."""
    for i in range(rank - 1, -1, -1):
        total = 0.0
        for j in range(i + 1, rank):
            total += a[i, j] * x[j]
        x[i] -= total / a[i, i]
    for i in range(n_columns):
        z[first + pivot[i]] = x[i] if i < rank else 0.0


@kernel
def _promised(r, b, rows, right, root, v):
    """Return the reduction of the rows of finite weight that the linear model promises for the step `v`."""
    n = b.size
    total = 0.0
    for i in range(n):
        w = 0.0
        for j in range(i, n):
            w += r[i, j] * v[j]
        total += w * (2.0 * b[i] - w)
    for i in range(root.size):
        if math.isfinite(root[i]):
            w = 0.0
            for j in range(n):
                w += rows[i, j] * v[j]
            total += root[i] * root[i] * w * (2.0 * right[i] - w)
    return 0.5 * total


@kernel
def _descent(r, b, rows, right, root, out):
    """Set `out` to the negative gradient of the rows of finite weight."""
    n = b.size
    for j in range(n):
        g = 0.0
        for i in range(j + 1):
            g += r[i, j] * b[i]
        for i in range(root.size):
            if math.isfinite(root[i]):
                g += root[i] * root[i] * rows[i, j] * right[i]
        out[j] = g


@kernel
def _longest_gradient_step(r, rows, root, descent, scale, longest, v):
    """Return where to begin the search: `longest`, or far beyond the best multiple were there no bounds."""
    n = descent.size
    slope, square = 0.0, 0.0
    for j in range(n):
        v[j] = scale[j] * scale[j] * descent[j]
        slope += descent[j] * v[j]
    for i in range(n):
        w = 0.0
        for j in range(i, n):
            w += r[i, j] * v[j]
        square += w * w
    for i in range(root.size):
        if math.isfinite(root[i]):
            w = 0.0
            for j in range(n):
                w += rows[i, j] * v[j]
            square += (root[i] * w) ** 2
    return min(longest, 1e6 * slope / square) if square > 0.0 else longest


@kernel
def _gradient_step(r, b, rows, right, root, descent, scale, low, high, radius, v):
    """Set `v` to the best of some projected, scaled gradient steps within the radius; return its length."""
    n = b.size
    length = 0.0
    for j in range(n):
        length += (descent[j] * scale[j]) ** 2
    length = math.sqrt(length)
    if length == 0.0:
        for j in range(n):
            v[j] = 0.0
        return 0.0
    t, best, best_t = _longest_gradient_step(r, rows, root, descent, scale, radius / length, v), 0.0, 0.0
    for _ in range(60):
        for j in range(n):
            v[j] = min(high[j], max(low[j], t * scale[j] * scale[j] * descent[j]))
        promised = _promised(r, b, rows, right, root, v)
        if promised > best:
            best, best_t = promised, t
        t *= 0.5
    for j in range(n):
        v[j] = min(high[j], max(low[j], best_t * scale[j] * scale[j] * descent[j]))
    return best_t * length


@kernel
def _count_infinite(root):
    count = 0
    while count < root.size and math.isinf(root[count]):
        count += 1
    return count


@kernel
def _transposed_rows(rows, free, n_free, scale, n_equality, et):
    """Set ``et = (E diag(s))'`` for the rows of infinite weight, in the free unknowns."""
    for j in range(et.shape[0]):
        for i in range(n_equality):
            et[j, i] = rows[i, free[j]] * scale[free[j]] if j < n_free else 0.0


@kernel
def _rank(a, n, level):
    rank = 0
    while rank < n and abs(a[rank, rank]) > _RANK_TOLERANCE * level:
        rank += 1
    return rank


@kernel
def _row_norm(a, i, first, n_columns):
    total = 0.0
    for j in range(first, n_columns):
        total = math.hypot(total, a[i, j])
    return total


@kernel
def _factor_weighted(a, n_columns, n_heavy, beta, pivot, row_size, dropped):
    """Factor the first columns with pivoting, heavy rows first; return the size of the light rows.

    What is left of a heavy row when the ones above it are eliminated is set to zero where it is rounding;
    `dropped` remembers before which column.
    """
    level = 0.0
    for j in range(n_columns):
        pivot[j] = j
        level = max(level, _column_norm(a, n_heavy, j))
    for i in range(n_heavy):
        row_size[i] = _row_norm(a, i, 0, n_columns)
        dropped[i] = -1
    for k in range(min(a.shape[0], n_columns)):
        for i in range(k, n_heavy):
            if _row_norm(a, i, k, n_columns) <= _RANK_TOLERANCE * row_size[i]:
                dropped[i] = k
                for j in range(k, n_columns):
                    a[i, j] = 0.0
        best, best_norm = k, -1.0
        for j in range(k, n_columns):
            norm = _column_norm(a, k, j)
            if norm > best_norm:
                best, best_norm = j, norm
        if best != k:
            pivot[k], pivot[best] = pivot[best], pivot[k]
            for i in range(a.shape[0]):
                a[i, k], a[i, best] = a[i, best], a[i, k]
        _reflect_column(a, k, beta)
        for j in range(k + 1, n_columns):
            _apply_to_column(a, k, beta, a, j)
    return level


@kernel
def _apply_weighted(a, n_columns, beta, dropped, c):
    """Set ``c = Q' c`` for the factors of `_factor_weighted`, without what rows that were dropped still miss."""
    for k in range(min(a.shape[0], n_columns)):
        for i in range(dropped.size):
            if dropped[i] == k:
                c[i, 0] = 0.0
        _apply_to_column(a, k, beta, c, 0)


@kernel
def _apply_backwards(a, n_columns, beta, target):
    """Set ``target = Q target`` for the factors of the first `n_columns` columns of `a`."""
    for k in range(min(a.shape[0], n_columns) - 1, -1, -1):
        for j in range(target.shape[1]):
            _apply_to_column(a, k, beta, target, j)


@kernel
def _normal_part(et, pivot_e, e, rank_e, limit, y):
    """Solve ``L y = e`` forward, shortened to the length `limit`; return its length."""
    for i in range(rank_e):
        total = e[pivot_e[i]]
        for j in range(i):
            total -= et[j, i] * y[j]
        y[i] = total / et[i, i]
    length = _norm(y, rank_e)
    if length > limit:
        for i in range(rank_e):
            y[i] *= limit / length
        length = limit
    return length


@kernel
def _list_free(fixed, free):
    n_free = 0
    for j in range(fixed.size):
        if not fixed[j]:
            free[n_free] = j
            n_free += 1
    return n_free


@kernel
def _factor_equality(rows, free, n_free, scale, n_equality, et, beta_e, pivot_e):
    """Factor the rows of infinite weight in the free unknowns; return their rank."""
    _transposed_rows(rows, free, n_free, scale, n_equality, et)
    _factor_pivoted(et, n_equality, beta_e, pivot_e)
    return _rank(et, min(n_free, n_equality), abs(et[0, 0]))


@kernel
def _reduce_descent(descent, scale, rows, et, beta_e, pivot_e, n_equality, rank_e, free, n_free, column, reduced):
    """Set ``reduced = descent - E' mu`` with the multipliers that leave least of it in the free unknowns."""
    n = descent.size
    for j in range(n):
        column[j, 0] = descent[free[j]] * scale[free[j]] if j < n_free else 0.0
    _apply_transposed(et, n_equality, beta_e, column)
    for i in range(rank_e - 1, -1, -1):
        total = column[i, 0]
        for j in range(i + 1, rank_e):
            total -= et[i, j] * column[j, 0]
        column[i, 0] = total / et[i, i]
    for j in range(n):
        total = descent[j]
        for i in range(rank_e):
            total -= rows[pivot_e[i], j] * column[i, 0]
        reduced[j] = total


@kernel
def _hold(x, lower, upper, descent, inward, held):
    """Mark unknowns pressed against a bound that was reached; return whether that changed any mark."""
    changed = False
    for i in range(x.size):
        pressed = (x[i] <= lower[i] and descent[i] <= 0.0 and not inward[i] > _INWARD) or (
            x[i] >= upper[i] and descent[i] >= 0.0 and not inward[i] < -_INWARD
        )
        changed = changed or pressed != held[i]
        held[i] = pressed
    return changed


@kernel
@allocating
def _hold_with_equality(
    x, lower, upper, descent, scale, rows, right, n_equality, et, beta_e, pivot_e, free, column, y, reduced, held
):
    """Mark unknowns that multipliers press against a bound, and that rows of infinite weight do not pull off it."""
    n = x.size
    inward = np.empty(n)
    for sweep in range(n + 2):
        n_free = _list_free(held, free)
        rank_e = _factor_equality(rows, free, n_free, scale, n_equality, et, beta_e, pivot_e)
        if sweep == 0:
            _normal_part(et, pivot_e, right, rank_e, np.inf, y)
            for i in range(n):
                column[i, 0] = y[i] if i < rank_e else 0.0
            _apply_backwards(et, n_equality, beta_e, column)
            for i in range(n):
                inward[i] = column[i, 0]
        _reduce_descent(descent, scale, rows, et, beta_e, pivot_e, n_equality, rank_e, free, n_free, column, reduced)
        if not _hold(x, lower, upper, reduced, inward, held):
            break


@kernel
def _free_problem(r, b, rows, right, root, n_equality, v, scale, fixed, free, a, c, e):
    """Set up the scaled problem in the free unknowns, the others moved to the right-hand side."""
    n, k = b.size, root.size - n_equality
    n_free = _list_free(fixed, free)
    for i in range(root.size):
        w = right[i]
        for j in range(n):
            if fixed[j]:
                w -= rows[i, j] * v[j]
        if i < n_equality:
            e[i] = w
        else:
            c[i - n_equality, 0] = root[i] * w
            for j in range(n_free):
                a[i - n_equality, j] = root[i] * rows[i, free[j]] * scale[free[j]]
    for i in range(n):
        w = 0.0
        for j in range(i, n):
            if fixed[j]:
                w += r[i, j] * v[j]
        c[k + i, 0] = b[i] - w
        for j in range(n_free):
            a[k + i, j] = r[i, free[j]] * scale[free[j]]
    return n_free


@kernel
def _rotate_columns(a, n_free, et, n_equality, beta_e):
    """Set ``a = a Q`` for the orthogonal matrix whose first columns span the rows of infinite weight."""
    for k in range(min(n_free, n_equality)):
        for i in range(a.shape[0]):
            total = a[i, k]
            for j in range(k + 1, n_free):
                total += a[i, j] * et[j, k]
            total *= beta_e[k]
            a[i, k] -= total
            for j in range(k + 1, n_free):
                a[i, j] -= total * et[j, k]


@kernel
def _drop_columns(a, n_free, first, y, c):
    """Move the first columns times `y` to the right-hand side, and the others to the front."""
    for i in range(a.shape[0]):
        for j in range(first):
            c[i, 0] -= a[i, j] * y[j]
        for j in range(first, n_free):
            a[i, j - first] = a[i, j]


@kernel
def _to_unknowns(a, pivot, x, rank, n_free, y, rank_e, et, n_equality, beta_e, free, scale, column, v):
    """Set ``v[free]`` to the step with these components in the null space (`x`) and outside it (`y`)."""
    z = column[:, 0]
    for i in range(rank_e):
        z[i] = y[i]
    _unpivot(a, pivot, x, rank, n_free - rank_e, z, rank_e)
    if n_equality > 0:
        for i in range(n_free, column.shape[0]):
            column[i, 0] = 0.0
        _apply_backwards(et, n_equality, beta_e, column)
    for i in range(n_free):
        v[free[i]] = scale[free[i]] * z[i]


@kernel
def _clip_to_box(free, n_free, low, high, fixed, v):
    """Put unknowns that leave the box on their bound; return whether there were any."""
    hit = False
    for i in range(n_free):
        k = free[i]
        if v[k] < low[k] or v[k] > high[k]:
            v[k] = low[k] if v[k] < low[k] else high[k]
            fixed[k] = True
            hit = True
    return hit


@kernel
def _arrive(x, v, lower, upper, x_new):
    """Set ``x_new = x + v``; a bound is met exactly, not to rounding (it would never become active)."""
    for i in range(x.size):
        near = 1e-15 * max(abs(x[i]), abs(v[i]))  # a step that a radius ends may end there by rounding only
        if v[i] <= lower[i] - x[i] + near:
            x_new[i] = lower[i]
        elif v[i] >= upper[i] - x[i] - near:
            x_new[i] = upper[i]
        else:
            x_new[i] = min(upper[i], max(lower[i], x[i] + v[i]))


@kernel
def _scaled_norm(v, scale):
    total = 0.0
    for i in range(v.size):
        total += (v[i] / scale[i]) ** 2
    return math.sqrt(total)


@kernel
@allocating
def _workspace(numbers, places, n, n_heavy, n_equality):
    """Return the parts of a workspace.

    They are: factors `a` and `beta`, filter and scales; factors `et` and `beta_e` of the rows of infinite weight;
    pivots, free unknowns and dropped rows of the last problem solved; pivots of the rows of infinite weight.
    """
    m, k = (n_heavy + n) * n, n * n_equality
    a, et = numbers[:m].reshape(n_heavy + n, n), numbers[m : m + k].reshape(n, n_equality)
    vectors, indices = numbers[m + k :], places[2 * n :]
    return (
        a, vectors[:n], vectors[n : 2 * n], vectors[2 * n : 3 * n], et, vectors[3 * n : 3 * n + n_equality],
        places[:n], places[n : 2 * n], indices[:n_heavy], indices[n_heavy : n_heavy + n_equality],
    )  # fmt: skip


@kernel
def dense_step(
    r, b, rows, right, root, x, start, logarithmic, lower, upper, radius, kind, numbers, places, held, v, x_new, info
):
    """Solve the step problem in a box.

    Parameters
    ----------
    r, b, rows, right, root
        Reduced problem; `root` are the roots of the weights of the heavy rows, descending.
    x, start, logarithmic, lower, upper
        Where we are, what the scales need, and the box.
    radius, kind
        Bound on ||x|| in the metric of the factors, and the filter.
    numbers, places
        Filled, for a correction: what `_workspace` finds there.
    held
        Filled: unknowns that stay at their bounds.
    v, x_new
        Filled: the step and where it leads.
    info
        Filled: number of free unknowns, rank, rank of the rows of infinite weight, damping, length, decrement,
        promised reduction, smallest over largest diagonal element and rank of the first problem (before any
        bound was met), whether a bound was met.
    """
    n = b.size
    n_equality = _count_infinite(root)
    n_heavy = root.size - n_equality
    a, beta, gain, scale, et, beta_e, pivot, free, dropped, pivot_e = _workspace(
        numbers, places, n, n_heavy, n_equality
    )
    row_size = np.empty(n_heavy)
    fixed = np.empty(n, dtype=np.bool_)
    low, high, descent, z = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    c, column = np.empty((a.shape[0], 1)), np.empty((n, 1))
    e, y = np.empty(n_equality), np.empty(n_equality)
    for i in range(n):
        low[i], high[i] = min(0.0, lower[i] - x[i]), max(0.0, upper[i] - x[i])
        scale[i] = _scale(x[i], start[i], logarithmic[i])
        free[i] = i
        v[i] = 0.0
    _descent(r, b, rows, right, root, descent)
    for i in range(n):
        held[i] = False
        z[i] = 0.0
    if n_equality > 0:
        _hold_with_equality(
            x, lower, upper, descent, scale, rows, right, n_equality, et, beta_e, pivot_e, free, column, y, z, held
        )
    else:
        _hold(x, lower, upper, descent, z, held)
    for i in range(n):
        fixed[i] = held[i]
    decrement, first_rank, condition, clipped = 0.0, 0, 1.0, False
    n_free, rank, rank_e, damping, length, normal = 0, 0, 0, 0.0, 0.0, 0.0
    whole_length, whole_norm = 0.0, 0.0
    for sweep in range(n + 1):
        n_free = _free_problem(r, b, rows, right, root, n_equality, v, scale, fixed, free, a, c, e)
        if n_equality > 0:
            rank_e = _factor_equality(rows, free, n_free, scale, n_equality, et, beta_e, pivot_e)
            normal = _normal_part(et, pivot_e, e, rank_e, _FOR_EQUALITY * radius, y)
            _rotate_columns(a, n_free, et, n_equality, beta_e)
            _drop_columns(a, n_free, rank_e, y, c)
        n_left = n_free - rank_e
        level = _factor_weighted(a, n_left, n_heavy, beta, pivot, row_size, dropped)
        _apply_weighted(a, n_left, beta, dropped, c)
        rank = _rank(a, n_left, level)
        if sweep == 0:
            first_rank = rank + rank_e
            for i in range(rank):
                decrement += c[i, 0] * c[i, 0]
            decrement = math.sqrt(decrement)
            if n_left > 0:
                condition = (
                    0.0 if rank < n_left else abs(a[rank - 1, rank - 1]) / (level if level > 0.0 else abs(a[0, 0]))
                )
        remaining = math.sqrt(max(0.0, radius * radius - normal * normal)) if n_equality > 0 else radius
        if kind == SUBSPACE:
            damping = _subspace_gains(a, c, rank, remaining, gain)
        else:
            damping = _damped_gains(a, c, rank, remaining, gain)
        for i in range(rank):
            z[i] = gain[i] * c[i, 0]
        length = math.hypot(_norm(z, rank), normal)
        _to_unknowns(a, pivot, z, rank, n_free, y, rank_e, et, n_equality, beta_e, free, scale, column, v)
        if not clipped:
            whole_length, whole_norm = length, _scaled_norm(v, scale)
        if not _clip_to_box(free, n_free, low, high, fixed, v):
            break
        clipped = True
    if clipped and whole_norm > 0.0:
        # what is on bounds now has left the factored problem, but not the step: half of it must be a shorter one
        length = max(length, whole_length * (_scaled_norm(v, scale) / whole_norm))
    promised = _promised(r, b, rows, right, root, v)
    if n_equality == 0 and (clipped or not promised > 0.0):
        # too many unknowns may have been put on bounds at once: never do worse than the gradient
        gradient_length = _gradient_step(r, b, rows, right, root, descent, scale, low, high, radius, z)
        gradient_promised = _promised(r, b, rows, right, root, z)
        if not promised >= _FRACTION_OF_GRADIENT * gradient_promised:
            promised, length = gradient_promised, gradient_length
            for i in range(n):
                v[i] = z[i]
    _arrive(x, v, lower, upper, x_new)
    info[0], info[1], info[2], info[3] = n_free, rank, rank_e, damping
    info[4], info[5], info[6], info[7], info[8], info[9] = length, decrement, promised, condition, first_rank, clipped


@kernel
def _subtract_product(r, rows, root, n_equality, v, c):
    """Set ``c = c - A v`` for the rows of finite weight."""
    n, k = v.size, root.size - n_equality
    for i in range(k):
        for j in range(n):
            c[i, 0] -= root[n_equality + i] * rows[n_equality + i, j] * v[j]
    for i in range(n):
        for j in range(i, n):
            c[k + i, 0] -= r[i, j] * v[j]


@kernel
def corrected_step(r, b, rows, right, root, b_trial, right_trial, x, lower, upper, numbers, places, info, v, x_new):
    """Set ``x_new = x + v + v^a/2``, kept inside the box; return ||x^a||."""
    n = b.size
    n_free, rank, rank_e = int(info[0]), int(info[1]), int(info[2])
    n_equality = _count_infinite(root)
    k = root.size - n_equality
    a, beta, gain, scale, et, beta_e, pivot, free, dropped, pivot_e = _workspace(numbers, places, n, k, n_equality)
    c, column = np.empty((k + n, 1)), np.empty((n, 1))
    z, w = np.empty(n), np.empty(n)
    e, y = np.empty(n_equality), np.empty(n_equality)
    for i in range(root.size):
        total = 0.0
        for j in range(n):
            total += rows[i, j] * v[j]
        curvature = 2.0 * (right_trial[i] - right[i] + total)
        if i < n_equality:
            e[i] = curvature
        else:
            c[i - n_equality, 0] = root[i] * curvature
    for i in range(n):
        total = 0.0
        for j in range(i, n):
            total += r[i, j] * v[j]
        c[k + i, 0] = 2.0 * (b_trial[i] - b[i] + total)
        w[i] = 0.0
    normal = 0.0
    if n_equality > 0:
        normal = _normal_part(et, pivot_e, e, rank_e, np.inf, y)
        _to_unknowns(a, pivot, z, 0, n_free, y, rank_e, et, n_equality, beta_e, free, scale, column, w)
        _subtract_product(r, rows, root, n_equality, w, c)
    _apply_weighted(a, n_free - rank_e, beta, dropped, c)
    for i in range(rank):
        z[i] = gain[i] * c[i, 0]
    length = math.hypot(_norm(z, rank), normal)
    _to_unknowns(a, pivot, z, rank, n_free, y, rank_e, et, n_equality, beta_e, free, scale, column, w)
    for i in range(n):
        w[i] = v[i] + 0.5 * w[i]
    _arrive(x, w, lower, upper, x_new)
    return length


@kernel
def promised_by(r, b, rows, right, root, v):
    """Return what the linear model promises for the step `v`; see `_promised`."""
    return _promised(r, b, rows, right, root, v)


class DenseStepProblem:
    """The step problem of the present point; owned by one minimisation, which moves it along."""

    __slots__ = ("_bounds", "_fixed", "_info", "_linear", "_system", "_work", "_x", "held")

    def __init__(self, scaling: Scaling, lower: Array, upper: Array, root: Array) -> None:
        n = lower.size
        n_equality = int(np.isinf(root).sum()) if root.size else 0
        n_heavy = root.size - n_equality
        self._bounds = (lower, upper)
        self._fixed = (scaling.start, scaling.logarithmic, lower, upper)
        numbers = np.empty((n_heavy + n) * n + n * n_equality + 3 * n + n_equality)
        self._work = (numbers, np.empty(2 * n + root.size, np.int64))
        self._info = np.empty(10)
        self.held = np.empty(n, np.bool_)

    def move(self, linear: LinearModel, x: Array) -> None:
        """Become the step problem at this point."""
        self._linear = linear
        reduced = linear.reduce()
        assert isinstance(reduced, Reduced)
        heavy = reduced.heavy
        self._system = (reduced.R, reduced.b, heavy.rows, heavy.right, heavy.root)
        self._x = x

    def step(self, radius: float, filter: int = DAMPED) -> StepInfo:
        """Return the step for this radius; `held` then marks the active bounds."""
        v, x = np.empty(self._x.size), np.empty(self._x.size)
        dense_step(*self._system, self._x, *self._fixed, radius, filter, *self._work, self.held, v, x, self._info)
        _, _, _, damping, length, decrement, promised, condition, rank, _ = self._info.tolist()
        return StepInfo(x, v, int(rank), damping, length, decrement, promised, condition)

    def shortened(self, step: StepInfo, alpha: float) -> StepInfo:
        """Return the fraction `alpha` of a step."""
        r, b, rows, right, root = self._system
        v = alpha * step.v
        x = np.clip(self._x + v, *self._bounds)
        promised = float(promised_by(r, b, rows, right, root, v))
        return step._replace(x=x, v=v, length=alpha * step.length, promised=promised)

    def correction(self, step: StepInfo, residual: Array, misfit: Array) -> tuple[Array, float]:
        """See `StepProblem`."""
        x = np.empty(self._x.size)
        length = corrected_step(
            *self._system, self._linear.reduce_residual(residual), -misfit, self._x, *self._bounds, *self._work,
            self._info, step.v, x,
        )  # fmt: skip
        return x, length
