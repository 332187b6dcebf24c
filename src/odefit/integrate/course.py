"""Where a task with conditions on states is: the region between borders that it is in, and what it works with there.

A border is crossed where g leaves the *region* [lower, upper]: for a comparison one of (-inf, 0] and [0, inf), where
whole numbers count [m, m + 1].  Inputs belong to a region, not to g, which is hardly ever exactly zero where a border
was found.  What is left of g there is the *shift*: g - shift is zero.

All of it stands in one array, since kernels are handed arrays one by one; `course_of` finds the parts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from odefit.compile.border_functions import EQUATIONS
from odefit.compile.switch_kinds import CEIL, FLOOR, GREATER_EQUAL, LESS, SIGN, TRUNCATE
from odefit.integrate.contract import Array
from odefit.integrate.directions import n_blocks
from odefit.integrate.switch_times import input_of
from odefit.integrate.task import bordering_at, task_at
from odefit.native.calls import call_model
from odefit.native.kernel import kernel
from odefit.native.pool import SLACK, cut

STARTED, RESUMED, PLAIN, FIRED, DIRECTION, SHORT, OF_ONE, COUNT, PIECE_END, BLAMED, PHASE = range(11)
"""Places in `Course.memory`: whether the task has begun; whether the piece begins at a border; whether inputs leave
decisions to the conditions; the border crossed last (-1: none), and where to, 1 up or -1 down; how many crossings have
come in quick succession, of all borders and of one, and in all; the number of the step behind the piece; the event to
blame; what a state is made consistent for (`odefit.integrate.consistent_pieces`)."""
_IGNORED = 0.01  # of the tolerance: so far g may be beyond a border that no event waits for, which is noise


class Course(NamedTuple):
    """See the module.

    Attributes
    ----------
    lower, upper, shift, ignored, before
        Of each border: its region, the shift, by how much g may leave the region unnoticed, and g before a jump.
    values, points
        g and its rates at one point, and at points of a step.
    work
        Time, states and rates at a point.
    truth, now
        Of each event: whether its condition was true, and is.
    start
        Where the piece begins, with derivatives of first and second order.
    rate, bend, rates, moves
        At a border: derivatives of the solution by time, of its directions, and of the place by the unknowns.
    nonzeros, v, w, out
        For derivatives of borders.
    saved
        Regions, shifts and truths at the beginning of a step.
    memory
        Numbers, see above.
    """

    lower: Array
    upper: Array
    shift: Array
    ignored: Array
    before: Array
    values: Array
    points: Array
    work: Array
    truth: Array
    now: Array
    start: Array
    rate: Array
    bend: Array
    rates: Array
    moves: Array
    nonzeros: Array
    v: Array
    w: Array
    out: Array
    saved: Array
    memory: Array


_PARTS = len(Course._fields)


@kernel(inline=True)
def _numbers(task, b, order):
    """Return the numbers of borders, events, states, directions, pairs; the size of (t, y, y', p) and of directions."""
    q = task.n_directions if order >= 1 else 0
    pairs = q * (q + 1) // 2 if order == 2 else 0
    n_z = 1 + 2 * task.n + task.n_parameters if order == 2 else 0
    n_rates = n_blocks(q) * task.n * 4 if order == 2 else 0
    return b.level.size, b.from_false.size, task.n, q, pairs, n_z, n_rates


@kernel
def new_course(table, i, order, replay):
    """Return the array of a course that has not begun; of size 0 where nothing is watched."""
    task, b = task_at(table, i), bordering_at(table, i)
    if b.level.size + b.from_false.size == 0:
        return np.empty(0)
    if not replay and b.crossed.size > 0:
        b.crossed[0] = 0
    nb, nt, n, q, pairs, n_z, n_rates = _numbers(task, b, order)
    size = 5 * nb + 2 * nb + 4 * nb + (1 + 2 * n) + 2 * nt + (1 + q + pairs) + 2 * n + n_rates + q
    size += b.col.size + 2 * n_z + 5 * nb + nt + 11 + _PARTS * SLACK
    pool = np.zeros(size)
    course_of(task, b, order, pool).memory[FIRED] = -1.0
    return pool


@kernel(inline=True, allocating=True)
def course_of(task, b, order, pool):
    """Return the parts of a course."""
    nb, nt, n, q, pairs, n_z, n_rates = _numbers(task, b, order)
    at, lower = cut(pool, 0, (nb,))
    at, upper = cut(pool, at, (nb,))
    at, shift = cut(pool, at, (nb,))
    at, ignored = cut(pool, at, (nb,))
    at, before = cut(pool, at, (nb,))
    at, values = cut(pool, at, (2 * nb,))
    at, points = cut(pool, at, (4 * nb,))
    at, work = cut(pool, at, (1 + 2 * n,))
    at, truth = cut(pool, at, (nt,))
    at, now = cut(pool, at, (nt,))
    at, start = cut(pool, at, (1 + q + pairs,))
    at, rate = cut(pool, at, (n,))
    at, bend = cut(pool, at, (n,))
    at, rates = cut(pool, at, (n_rates,))
    at, moves = cut(pool, at, (q,))
    at, nonzeros = cut(pool, at, (b.col.size,))
    at, v = cut(pool, at, (n_z,))
    at, w = cut(pool, at, (n_z,))
    at, out = cut(pool, at, (2 * nb,))
    at, saved = cut(pool, at, (3 * nb + nt,))
    at, memory = cut(pool, at, (11,))
    return Course(
        lower, upper, shift, ignored, before, values, points, work, truth, now, start, rate, bend, rates, moves,
        nonzeros, v, w, out, saved, memory,
    )  # fmt: skip


@kernel(inline=True)
def put_inputs(task, b, c, border):
    """Set the inputs of a border to what they are in its region."""
    lower, upper = c.lower[border], c.upper[border]
    inside = -1.0 if lower == -np.inf else (1.0 if upper == np.inf else lower + 0.5)
    first = task.u.size - b.kind.size
    for k in range(b.kind.size):
        if b.border_of[k] == border:
            task.u[first + k] = input_of(b.kind[k], inside)


@kernel(inline=True)
def leave_to_conditions(task, b):
    """Set all inputs so that the conditions themselves decide."""
    first = task.u.size - b.kind.size
    for k in range(b.kind.size):
        kind = b.kind[k]
        task.u[first + k] = 0.5 if kind == FLOOR or kind == CEIL or kind == TRUNCATE else 2.0


@kernel
def leaves_to_conditions(table, i, order, pool):
    """Let the conditions themselves decide for the rest of the piece, since something beyond a border does not exist.

    Tell whether this is new.
    """
    task, b = task_at(table, i), bordering_at(table, i)
    if b.kind.size == 0:
        return False
    c = course_of(task, b, order, pool)
    if c.memory[PLAIN] != 0.0:
        return False
    leave_to_conditions(task, b)
    c.memory[PLAIN] = 1.0
    return True


@kernel(inline=True)
def find_region(b, c, border, g):
    """Set the region of a border to that of the value `g`."""
    c.shift[border] = 0.0
    if b.whole[border] != 0:
        c.lower[border] = np.floor(g)
        c.upper[border] = c.lower[border] + 1.0
        return
    above = g > 0.0
    if g == 0.0:
        for k in range(b.kind.size):
            if b.border_of[k] == border:
                kind = b.kind[k]
                above = kind == LESS or kind == GREATER_EQUAL or kind == SIGN
                break
    c.lower[border], c.upper[border] = (0.0, np.inf) if above else (-np.inf, 0.0)


@kernel(inline=True)
def remember_regions(c):
    """Save what a step may change that is taken again."""
    nb = c.lower.size
    for j in range(nb):
        c.saved[j], c.saved[nb + j], c.saved[2 * nb + j] = c.lower[j], c.upper[j], c.shift[j]
    for k in range(c.truth.size):
        c.saved[3 * nb + k] = c.truth[k]


@kernel(inline=True)
def cross_border(b, c, border, direction):
    """Move to the region beyond a border."""
    if b.whole[border] != 0:
        c.lower[border] += direction
        c.upper[border] += direction
    elif direction > 0.0:
        c.lower[border], c.upper[border] = 0.0, np.inf
    else:
        c.lower[border], c.upper[border] = -np.inf, 0.0


@kernel(inline=True)
def bound_of(c, border, direction):
    """Return the end of the region in a direction."""
    return c.upper[border] if direction > 0.0 else c.lower[border]


@kernel(inline=True)
def look_at(task, b, c, time, y, row):
    """Compute the borders at a state."""
    n = task.n
    c.work[0] = time
    for k in range(n):
        c.work[1 + k], c.work[1 + n + k] = y[row, k], 0.0
    call_model(b.value, 0.0, c.work, 0, task.p, task.u, c.values, 0)


@kernel(inline=True)
def ignore_noise(task, b, c, y, row):
    """Find by how much each border may be passed unnoticed, at the state where `look_at` has looked last.

    Only borders of the right-hand side ignore anything: an event is never to be missed.
    """
    n = task.n
    call_model(b.jacobian, 0.0, c.work, 0, task.p, task.u, c.nonzeros, 0)
    for j in range(b.level.size):
        total = 0.0
        for e in range(b.row_ptr[j], b.row_ptr[j + 1]):
            k = np.int64(b.col[e]) - 1
            if 0 <= k < n:
                total += abs(c.nonzeros[e]) * (abs(task.atol[k]) + task.rtol * abs(y[row, k]))
        c.ignored[j] = _IGNORED * total if b.role[j] == EQUATIONS and math.isfinite(total) else 0.0
