"""The damped step in a box: min ||A z - c||^2 + mu ||M z||^2 for low <= z <= high, and ||M z|| <= Delta.

M is the metric of the trust region.  To put all unknowns that a step without bounds takes out of the box on their
bounds, and to solve in the others, is not enough: the others then leave the box in turn, and what is left may promise
next to nothing or even a growing residual, since some of the unknowns on bounds should have stayed free.  The problem
is convex, strictly so for mu > 0, and its solution has a sign condition for each unknown: zero slope where it is free,
a slope that presses outwards where it is on a bound.

**Exchange.**  For given mu all unknowns that break their condition change sides at once (free ones go to the bound
that they have crossed, others are set free), and the problem is solved again in the free ones, until none is left:
*block principal pivoting* (Portugal, Judice and Vicente, Math. Comp. 63 (1994) 625).  Where the number of broken
conditions has not fallen for some times, only the last of these unknowns is exchanged (Murty's rule), which cannot
cycle.  It takes a few solutions, whatever the number of unknowns.

**Radius.**  ||M z(mu)|| falls with mu.  At z = 0 the objective is ||c||^2; what no step can remove of it cancels, so
that mu ||M z||^2 <= q^2 with q, the decrement, and mu = (q/Delta)^2 is large enough.  Between bounds of this kind mu is
interpolated (1/||M z|| is nearly linear in mu), from that of the step without bounds on, which mostly is good.

**While the trust region is felt** (mu > 0), a bound is approached by `FRACTION` of the way to it only.  The linear
model is not yet believed far enough to decide which bounds are active, and an unknown on its bound may hide others:
where one reaction does not take place, those behind it have no influence, and the fit could not come back.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.native.kernel import kernel
from odefit.solve.step_filters import unpivot
from odefit.solve.weighted_factors import RANK_TOLERANCE, apply_weighted, factor_weighted, rank_of

Array = npt.NDArray[np.float64]

FRACTION = 0.9
"""Of the way to a bound, that a damped step may go."""
PATIENCE = 3
"""Exchanges of several unknowns at once that need not reduce the number of broken conditions."""
SHORTEST, LONGEST = 0.75, 1.1
"""Lengths of a damped step over the radius that will do."""
MOST_DAMPINGS = 20
PRESSED = 1e-12
"""Cosine between residual and column, up to which a slope counts as zero."""


@kernel(inline=True)
def solve_free(rows, c, n_heavy, side, work, z):
    """Solve in the unknowns that are not on a bound; undetermined ones become zero."""
    a, d, beta, pivot, row_size, dropped, free, y, size = work
    m, n = rows.shape
    n_free = 0
    for j in range(n):
        if side[j] == 0:
            free[n_free] = j
            n_free += 1
    for i in range(m):
        w = c[i]
        for j in range(n):
            if side[j] != 0:
                w -= rows[i, j] * z[j]
        d[i, 0] = w
        for k in range(n_free):
            a[i, k] = rows[i, free[k]]
    factor_weighted(a, n_free, n_heavy, False, beta, pivot, row_size, dropped, size)
    apply_weighted(a, n_free, beta, dropped, d)
    rank = rank_of(a, n_free, 0.0)
    for i in range(rank):
        d[i, 0] /= a[i, i]
    unpivot(a, pivot, d[:, 0], rank, n_free, y, 0)
    for k in range(n_free):
        z[free[k]] = y[k]


@kernel(inline=True)
def find_broken(rows, c, low, high, side, left, z, wanted):
    """List in `wanted` which side unknowns ought to be on; return how many are on another one.

    `left` is room for the residual.
    """
    m, n = rows.shape
    count, level = 0, 0.0
    for i in range(m):
        w = c[i]
        for j in range(n):
            w -= rows[i, j] * z[j]
        left[i, 0] = w
        level = math.hypot(level, w)
    for j in range(n):
        wanted[j] = side[j]
        if side[j] == 0:
            if z[j] < low[j]:
                wanted[j] = -1
            elif z[j] > high[j]:
                wanted[j] = 1
        elif low[j] < high[j]:
            slope, size = 0.0, 0.0
            for i in range(m):
                slope += rows[i, j] * left[i, 0]
                size = math.hypot(size, rows[i, j])
            if -side[j] * slope > PRESSED * size * level:
                wanted[j] = 0
        if wanted[j] != side[j]:
            count += 1
    return count


@kernel(inline=True, allocating=True)
def box_workspace(m, n, n_heavy):
    """Return room for `box_least_squares`."""
    return (
        np.empty((m, n)), np.empty((m, 1)), np.empty(n), np.empty(n, np.int64), np.empty(n_heavy),
        np.empty(n_heavy, np.int64), np.empty(n, np.int64), np.empty(n), np.empty(n),
    )  # fmt: skip


@kernel(inline=True)
def box_least_squares(rows, c, n_heavy, low, high, side, wanted, work, z):
    """Set z to the solution of min ||rows z - c|| in the box; return whether it was found.

    Parameters
    ----------
    rows, c, n_heavy
        The problem, (m, n) and (m,); its first rows are heavy ones.
    side
        -1 for unknowns on their lower bound, 1 on their upper one, 0 for free ones: first a guess, then the answer.
    wanted, work
        Room.
    """
    n = low.size
    fewest, patience = n + 1, PATIENCE
    for _ in range(4 * n + 20):
        for j in range(n):
            if side[j] != 0 or low[j] == high[j]:
                side[j] = -1 if low[j] == high[j] else side[j]
                z[j] = low[j] if side[j] < 0 else high[j]
        solve_free(rows, c, n_heavy, side, work, z)
        count = find_broken(rows, c, low, high, side, work[1], z, wanted)
        if count == 0:
            return True
        if count < fewest:
            fewest, patience = count, PATIENCE
        elif patience > 0:
            patience -= 1
        else:
            last = n - 1
            while wanted[last] == side[last]:
                last -= 1
            side[last] = wanted[last]
            continue
        for j in range(n):
            side[j] = wanted[j]
    for j in range(n):  # rounding decides: some point of the box
        z[j] = min(high[j], max(low[j], z[j]))
    return False


@kernel
def box_step(rows, c, n_heavy, metric, low, high, radius, damping, decrement, side, z):
    """Set z to the step in the box and in the trust region.

    Parameters
    ----------
    rows, c, n_heavy
        Linear problem in scaled unknowns, (k, n) and (k,), heavy rows first.
    metric
        M, (n, n).
    low, high
        Bounds of the step, scaled: low <= 0 <= high.
    radius, damping, decrement
        Delta, the mu to begin with, and q.
    side, z
        Filled: which unknowns are on bounds (see `box_least_squares`), and the step.

    Returns
    -------
    mu, length
        The damping, and ||M z||.
    """
    k, n = rows.shape
    all_rows, right = np.zeros((k + n, n)), np.zeros(k + n)
    level = 0.0
    for j in range(n):
        total = 0.0
        for i in range(k):
            all_rows[i, j] = rows[i, j]
            total = math.hypot(total, rows[i, j]) if i >= n_heavy else 0.0
        level = max(level, total)
        side[j] = 0
    for i in range(k):
        right[i] = c[i]
    work, wanted = box_workspace(k + n, n, n_heavy), np.empty(n, np.int64)
    inner_low, inner_high = FRACTION * low, FRACTION * high
    least = 2.0 * RANK_TOLERANCE * level
    mu, length = damping, 0.0
    above, below = 0.0, (decrement / radius) ** 2 if radius < math.inf else 0.0  # the step is too long, too short
    inverse_above, inverse_below = 0.0, 0.0
    for _ in range(MOST_DAMPINGS):
        root = max(math.sqrt(mu), least)
        for i in range(n):
            for j in range(n):
                all_rows[k + i, j] = root * metric[i, j]
        if mu > 0.0:
            box_least_squares(all_rows, right, n_heavy, inner_low, inner_high, side, wanted, work, z)
        else:
            box_least_squares(all_rows, right, n_heavy, low, high, side, wanted, work, z)
        total = 0.0
        for i in range(n):
            part = 0.0
            for j in range(n):
                part += metric[i, j] * z[j]
            total += part * part
        length = math.sqrt(total)
        if length <= LONGEST * radius and (mu == 0.0 or length >= SHORTEST * radius):
            break
        if length > radius:
            above, inverse_above = mu, 1.0 / length
        else:
            below, inverse_below = mu, 1.0 / max(length, 1e-300)
        mu = next_damping(above, inverse_above, below, inverse_below, 1.0 / radius)
    return mu, length


@kernel(inline=True)
def next_damping(above, inverse_above, below, inverse_below, target):
    """Return the mu to be tried next; it is `above` where the step is too long, and `below` where it is too short.

    The inverse of the length there is 0 where it is not known.
    """
    if inverse_above == 0.0:
        return 0.0  # perhaps bounds alone make the step short enough
    if inverse_below == 0.0:
        return min(below, max(4.0 * above, 1e-2 * below))
    part = (target - inverse_above) / (inverse_below - inverse_above)
    return above + min(0.9, max(0.1, part)) * (below - above)


@kernel
def box_correction(rows, c, n_heavy, metric, damping, side, z):
    """Set z to the solution of the damped problem in the free unknowns; the others stay."""
    k, n = rows.shape
    all_rows, right = np.empty((k + n, n)), np.zeros(k + n)
    root = math.sqrt(damping)
    for j in range(n):
        z[j] = 0.0
        for i in range(k):
            all_rows[i, j] = rows[i, j]
        for i in range(n):
            all_rows[k + i, j] = root * metric[i, j]
    for i in range(k):
        right[i] = c[i]
    solve_free(all_rows, right, n_heavy, side, box_workspace(k + n, n, n_heavy), z)
