"""What `limex` works with: states and directions, increments of all rows, factors, numbers kept from step to step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odefit.integrate.balance import Balance, cut_balance, size_of_balance
from odefit.integrate.contract import Array
from odefit.integrate.directions import n_blocks, put_seeds, put_seeds_of_piece, put_states
from odefit.integrate.extrapolation import MOST_ROWS, increments_before
from odefit.native.kernel import kernel
from odefit.native.pool import SLACK, cut
from odefit.native.records import Integers

ASKED, TRIED, BEGINNING = range(3)
"""Places in `Room.memory`: the step that control asked for last, the one that was tried, and where it began."""
TARGET, ROWS, REJECTED, HAS_MATRIX = range(4)
"""Places in `Room.state`: the order that is aimed at, rows of the last attempt, whether it was rejected, and whether
the derivatives of the model at the beginning of the step are there (`OF_STEP`, `OF_PIECE`)."""
OF_STEP, OF_PIECE = 1, 2
"""Derivatives that were computed in an attempt, or where the piece began."""
_N_STATE = 4


class Room(NamedTuple):
    """Arrays of `limex`.

    Attributes
    ----------
    y, s
        States and directions at the beginning of the step, and at its end, a row each.
    d, ds
        Increments of all rows, those of row j behind those of the rows before it; the same of the directions.
    x
        What the states gain in each row.
    stage, z
        States and directions while a row is computed.
    f, delta, work_rows
        Slopes, a right-hand side, and room for the guess of the first step.
    jac, a, pivots, work
        Derivatives at the beginning of the step; factors of the matrices of the rows, one each where directions need
        them again, else one for all; work.
    seeds, seeds2, along, across, bend
        Seeds of p, and of second order, of which there are none; directions of (y, p), a row each; an increment with
        zeros for p; a second derivative.  With equations in several derivatives y' stands between y and p.
    balance, wholes, rate, s_rate, lanes
        For equations in several derivatives, else empty: see there; derivatives by (y, y', p) for each row; rates at
        the beginning of the step, of states and directions; directions of (y, y'), four of them.
    atol
        Absolute tolerances in the error test.
    weights
        Of the increments, at an output time.
    y_out, s_out, s2_out
        At an output time.
    sizes, costs
        Step sizes that the errors of the rows allow, and what the rows up to each cost.
    memory, state
        Numbers and integers that are remembered.
    pool
        What the arrays of numbers are cut from.
    """

    y: Array
    s: Array
    d: Array
    ds: Array
    x: Array
    stage: Array
    z: Array
    f: Array
    delta: Array
    work_rows: Array
    jac: Array
    a: Array
    pivots: Integers
    work: Array
    seeds: Array
    seeds2: Array
    along: Array
    across: Array
    bend: Array
    balance: Balance
    wholes: Array
    rate: Array
    s_rate: Array
    lanes: Array
    atol: Array
    weights: Array
    y_out: Array
    s_out: Array
    s2_out: Array
    sizes: Array
    costs: Array
    memory: Array
    state: Integers
    pool: Array


class Making(NamedTuple):
    """What `odefit.integrate.balance` works in: see `make_consistent`."""

    balance: Balance
    jac: Array
    a: Array
    pivots: Integers
    work: Array
    delta: Array
    seeds: Array
    seeds2: Array
    r: Array
    r2: Array
    vectors: tuple[Array, Array, Array]


_NO_STEP = 1e-30  # what an order allows that was never tried: nothing, so that it is not taken for a cheap one


@kernel(inline=True, allocating=True)
def make_room(task, e, order):
    """See `Method.make_room`."""
    n, n_p, n_jac = task.n, task.n_parameters, e.col.size
    q = task.n_directions if order >= 1 else 0
    size, n_seeds, n_all = n_blocks(q) * n * 4, n_blocks(q) * n_p * 4, increments_before(MOST_ROWS + 1)
    n_kept, n_factors = MOST_ROWS if q > 0 else 1, (e.n_values + SLACK - 1) // SLACK * SLACK
    equations = e.algebraic.size > 0
    n_z, n_rate, n_s_rate = n + n_p + (n if equations else 0), n if equations else 0, size if equations else 0
    pool = np.zeros(
        (n_all + 5) * size + (n_all + MOST_ROWS + 12) * n + n_jac + n_kept * n_factors + e.n_work + n_seeds
        + (q + 1) * n_z + n_all + 2 * (MOST_ROWS + 1) + 3 + 9 * n_rate + n_s_rate + n_kept * e.whole_col.size
        + 31 * SLACK + size_of_balance(e, n, size, 0)
    )  # fmt: skip
    at, ds = cut(pool, 0, (n_all, size))
    at, s = cut(pool, at, (2, size))
    at, z = cut(pool, at, (1, size))
    at, s_out = cut(pool, at, (1, size))
    at, s2_out = cut(pool, at, (1, 0))
    at, a = cut(pool, at, (n_kept, n_factors))
    at, d = cut(pool, at, (n_all, n))
    at, x = cut(pool, at, (MOST_ROWS, n))
    at, y = cut(pool, at, (2, n))
    at, stage = cut(pool, at, (1, n))
    at, f = cut(pool, at, (2, n))
    at, work_rows = cut(pool, at, (3, n))
    at, y_out = cut(pool, at, (1, n))
    at, delta = cut(pool, at, (n,))
    at, bend = cut(pool, at, (n,))
    at, jac = cut(pool, at, (n_jac,))
    at, work = cut(pool, at, (e.n_work,))
    at, seeds = cut(pool, at, (n_blocks(q), n_p, 4))
    at, seeds2 = cut(pool, at, (0, n_p, 4))
    at, along = cut(pool, at, (q, n_z))
    at, across = cut(pool, at, (n_z,))
    at, balance = cut_balance(pool, at, e, n, size, 0)
    atol = task.atol
    if equations:
        atol = balance.atol
    at, wholes = cut(pool, at, (n_kept, e.whole_col.size))
    at, rate = cut(pool, at, (1, n_rate))
    at, s_rate = cut(pool, at, (1, n_s_rate))
    at, lanes = cut(pool, at, (1, 8 * n_rate))
    at, weights = cut(pool, at, (n_all,))
    at, sizes = cut(pool, at, (MOST_ROWS + 1,))
    at, costs = cut(pool, at, (MOST_ROWS + 1,))
    at, memory = cut(pool, at, (3,))
    pivots, state = np.zeros((n_kept, e.n_pivots), np.int64), np.zeros(_N_STATE, np.int64)
    put_states(task.dy0, task.n_columns, q, n, s_out)
    put_seeds(task.dp, task.n_columns, q, n_p, seeds)
    for i in range(n):
        y[0, i] = y_out[0, i] = task.y0[i]
    for i in range(size):
        s[0, i] = s_out[0, i]
    for j in range(sizes.size):
        sizes[j] = _NO_STEP
    return Room(
        y, s, d, ds, x, stage, z, f, delta, work_rows, jac, a, pivots, work, seeds, seeds2, along, across, bend,
        balance, wholes, rate, s_rate, lanes, atol, weights,
        y_out, s_out, s2_out, sizes, costs, memory, state, pool,
    )  # fmt: skip


@kernel(inline=True)
def seed(task, e, room):
    """See `Method.seed`."""
    q, n_p = task.n_directions if room.seeds.size > 0 else 0, task.n_parameters
    put_seeds_of_piece(task.dp, task.n_columns, q, n_p, room.seeds)
