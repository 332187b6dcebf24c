"""What `ddm` works with: past values, Newton's method, directions, and numbers remembered from step to step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odefit.integrate.balance import Balance, cut_balance, size_of_balance
from odefit.integrate.contract import Array
from odefit.integrate.directions import n_blocks, put_seeds, put_seeds_of_piece, put_states
from odefit.integrate.multistep import MAX_ORDER
from odefit.native.kernel import kernel
from odefit.native.linear_systems import renew_products, seed_products
from odefit.native.pool import SLACK, cut
from odefit.native.records import Integers

DEPTH = MAX_ORDER + 2
"""Rows of past values, the new one among them."""
TEST, POWER = 1, 2
"""Bits of `Task.choices`: sensitivities take part in the error test; tolerances are raised to the power (k + 1)/k."""
SHIFT, RATE, SCALE = range(3)
"""Places in `Room.memory`: shift of the matrix in `a` (0: none), contraction of Newton's method, factor of errors."""
ORDER, POINTS, SINCE, FAILS, MUST_DIVIDE, ITERATIONS, TAKEN, FRESH_NOW, WORST = range(9)
"""Places in `Room.state`: order of the step, past points, steps since it changed, failures in a row, whether the matrix
must be factorised, iterations of the last step, steps of this piece, whether the matrix was factorised for this step,
and the state whose error was largest."""


class Room(NamedTuple):
    """Arrays of `ddm`.

    Attributes
    ----------
    y, s, s2
        Past states and directions of first and second order, a row each; rows that a low order does not use have
        zero weights and must hold numbers all the same.
    slot
        Which row is the new one, the last one, the one before, ..
    psi, past, w, c
        Distances to the past times from the new one and from the last one; weights of the predictor; coefficients.
    f, work_rows, base, start, delta
        Slopes, work, the known part of the formula, the prediction, and Newton's corrections.
    jac, a, pivots, work, a1, pivots1
        The Jacobian, the factors of the matrix of the states, work, and the factors of that of the directions.
    seeds, products, r, slopes
        Seeds of p, their products with the Jacobian (see `seed_products`), a right-hand side, and slopes at the
        beginning where directions take part in the error test.
    products2, r2, vectors
        The same for second order, and room for two directions and a second derivative.
    y_out, s_out, s2_out
        At an output time.
    seeds2
        Seeds of second order.
    balance
        What equations in several derivatives need, see `odefit.integrate.balance`; empty for ``y' = f``.
    atol
        Absolute tolerances in the error test.
    memory, state
        Numbers and integers that are remembered.
    pool
        What the arrays of numbers are cut from.
    """

    y: Array
    s: Array
    s2: Array
    slot: Integers
    psi: Array
    past: Array
    w: Array
    c: Array
    f: Array
    work_rows: Array
    base: Array
    start: Array
    delta: Array
    jac: Array
    a: Array
    pivots: Integers
    work: Array
    a1: Array
    pivots1: Integers
    seeds: Array
    products: tuple[Integers, Integers, Array]
    r: Array
    slopes: Array
    products2: tuple[Integers, Integers, Array]
    r2: Array
    vectors: tuple[Array, Array, Array]
    y_out: Array
    s_out: Array
    s2_out: Array
    seeds2: Array
    balance: Balance
    atol: Array
    memory: Array
    state: Integers
    pool: Array


@kernel(inline=True, allocating=True)
def make_room(task, e, order):
    """See `Method.make_room`.  Directions come first: rows of them stand where the machine reads them fastest."""
    n, n_p, n_jac = task.n, task.n_parameters, e.col.size
    q = task.n_directions if order >= 1 else 0
    m = q * (q + 1) // 2 if order == 2 else 0
    n_y = 2 * n if e.algebraic.size > 0 else n
    n1, n2, n_z = n_blocks(q) * n * 4, n_blocks(m) * n * 4, n_y + n_p if m > 0 else 0
    n_test, n_own = n1 if (task.choices & TEST) != 0 else 0, e.n_values if q > 0 else 0
    n_seeds, n_seeds2 = n_blocks(q) * n_p * 4, n_blocks(m) * n_p * 4
    pool = np.zeros(
        (DEPTH + 2) * (n1 + n2) + n_test + (DEPTH + 10) * n + 4 * (DEPTH + 1) + n_jac + e.n_values + n_own + e.n_work
        + n_seeds + n_seeds2 + 2 * n_z + 3 + 28 * SLACK + size_of_balance(e, n, n1, n2)
    )  # fmt: skip
    at, s = cut(pool, 0, (DEPTH, n1))
    at, r = cut(pool, at, (1, n1))
    at, s_out = cut(pool, at, (1, n1))
    at, s2 = cut(pool, at, (DEPTH, n2))
    at, r2 = cut(pool, at, (1, n2))
    at, s2_out = cut(pool, at, (1, n2))
    at, slopes = cut(pool, at, (1, n_test))
    at, y = cut(pool, at, (DEPTH, n))
    at, y_out = cut(pool, at, (1, n))
    at, f = cut(pool, at, (2, n))
    at, work_rows = cut(pool, at, (3, n))
    at, base = cut(pool, at, (n,))
    at, start = cut(pool, at, (n,))
    at, delta = cut(pool, at, (n,))
    at, d2 = cut(pool, at, (n,))
    at, psi = cut(pool, at, (DEPTH + 1,))
    at, past = cut(pool, at, (DEPTH + 1,))
    at, w = cut(pool, at, (DEPTH + 1,))
    at, c = cut(pool, at, (DEPTH + 1,))
    at, jac = cut(pool, at, (n_jac,))
    at, a = cut(pool, at, (e.n_values,))
    at, a1 = cut(pool, at, (n_own,))
    at, work = cut(pool, at, (e.n_work,))
    at, seeds = cut(pool, at, (n_blocks(q), n_p, 4))
    at, seeds2 = cut(pool, at, (n_blocks(m), n_p, 4))
    at, v1 = cut(pool, at, (n_z,))
    at, v2 = cut(pool, at, (n_z,))
    at, memory = cut(pool, at, (3,))
    at, balance = cut_balance(pool, at, e, n, n1, n2)
    atol = task.atol
    if e.algebraic.size > 0:
        atol = balance.atol
    numbers = np.zeros(DEPTH + 9 + 2 * e.n_pivots, np.int64)
    slot, state = numbers[:DEPTH], numbers[DEPTH : DEPTH + 9]
    pivots, pivots1 = numbers[DEPTH + 9 : DEPTH + 9 + e.n_pivots], numbers[DEPTH + 9 + e.n_pivots :]
    for j in range(DEPTH):
        slot[j] = j
    put_states(task.dy0, task.n_columns, q, n, s_out)
    put_seeds(task.dp, task.n_columns, q, n_p, seeds)
    put_states(task.d2y0, m, m, n, s2_out)
    put_seeds(task.d2p, m, m, n_p, seeds2)
    for i in range(n):
        y[1, i] = y_out[0, i] = task.y0[i]
    for i in range(n1):
        s[1, i] = s_out[0, i]
    for i in range(n2):
        s2[1, i] = s2_out[0, i]
    return Room(
        y, s, s2, slot, psi, past, w, c, f, work_rows, base, start, delta,
        jac, a, pivots, work, a1, pivots1, seeds, seed_products(e, n, seeds), r, slopes,
        seed_products(e, n, seeds2), r2, (v1, v2, d2), y_out, s_out, s2_out, seeds2, balance, atol, memory, state, pool,
    )  # fmt: skip


@kernel(inline=True)
def seed(task, e, room):
    """See `Method.seed`."""
    q, n_p = task.n_directions if room.seeds.size > 0 else 0, task.n_parameters
    put_seeds_of_piece(task.dp, task.n_columns, q, n_p, room.seeds)
    renew_products(e, task.n, room.seeds, room.products)
    m = q * (q + 1) // 2 if room.seeds2.size > 0 else 0
    put_seeds_of_piece(task.d2p, m, m, n_p, room.seeds2)
    renew_products(e, task.n, room.seeds2, room.products2)
