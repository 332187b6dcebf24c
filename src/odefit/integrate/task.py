"""A task: what is integrated in one go, as kernels see it, and what happens at its output times.

A task is made of *pieces*, stretches between two discontinuities: no step crosses the end of one.  Tasks are rows of a
table (see `odefit.native.records`), in which `Task` comes first, `Elimination` second, and the record of the *sink*
last.  The sink is a kernel that is called at each output time: it keeps states and sensitivities (`keep_states`), or
makes rows of residuals of them (`odefit.transcribe`).
"""

from __future__ import annotations

from typing import NamedTuple

from numba import types

from odefit.native.kernel import kernel
from odefit.native.kernel_calls import kernel_call
from odefit.native.linear_systems import Elimination
from odefit.native.records import Floats, Integers, Layout


class Task(NamedTuple):
    """One initial value problem, how it is to be integrated, and the grid to replay.

    Attributes
    ----------
    value, directions, jacobian, second
        Addresses of the right-hand side and of its derivatives; those that a method does not use may be 0.
    n, n_parameters
        Number of states, and length of p.
    n_columns, n_directions
        Columns of the seeds, and how many of them, the first ones, reach the states: these are integrated.
    start, rtol, atol, max_steps
        Start time, tolerances, and limit on attempted steps.
    choices
        Bits that belong to the method (see there).
    p, u, y0, dy0, dp, d2y0, d2p
        Parameters, inputs, initial state and seeds, see `odefit.integrate.Run`; matrices row by row.
    times, ends, kinks
        Output times, the ends of the pieces, and times within them at which a step ends but integration goes on.
    steps, orders, counts
        The grid; `counts` holds, behind room for the numbers of `Counters`, how many steps each piece has.
    stop
        A flag that ends the integration.
    sink, method
        Addresses of the kernel that is called at output times, see `SINK`, and of the one that integrates, see
        `METHOD`.
    """

    value: int
    directions: int
    jacobian: int
    second: int
    n: int
    n_parameters: int
    n_columns: int
    n_directions: int
    start: float
    rtol: float
    atol: float
    max_steps: int
    choices: int
    p: Floats
    u: Floats
    y0: Floats
    dy0: Floats
    dp: Floats
    d2y0: Floats
    d2p: Floats
    times: Floats
    ends: Floats
    kinks: Floats
    steps: Floats
    orders: Integers
    counts: Integers
    stop: Integers
    sink: int
    method: int


class Kept(NamedTuple):
    """Where `keep_states` writes: states (m, n), sensitivities (m, n, q) and (m, n, pairs), row by row."""

    y: Floats
    first: Floats
    second: Floats


KEEPING = Layout(Task, Elimination, Kept)
"""Rows of tasks whose solution is kept."""

task_at = KEEPING.reader(Task)
elimination_at = KEEPING.reader(Elimination)
_kept_at = KEEPING.reader(Kept)

_TABLE = types.Array(types.int64, 2, "C")
_MATRIX = types.Array(types.float64, 2, "C")
_STEPS, _ORDERS = types.Array(types.float64, 1, "C"), types.Array(types.int64, 1, "C")

SINK = types.int64(_TABLE, types.int64, types.int64, _MATRIX, _MATRIX, _MATRIX)
"""``sink(table, i, index, y, s, s2)``: output number `index` of task `i`; returns `index`.

States and directions are in row 0, these in blocks of four, see `odefit.integrate.directions`.
"""

call_sink = kernel_call(SINK)

METHOD = types.Tuple(
    (types.int64, types.float64, types.int64, types.float64, types.int64, types.int64, _STEPS, _ORDERS)
)(_TABLE, types.int64, types.int64, types.boolean, _STEPS, _ORDERS, types.int64)
"""``solve(table, i, order, replay, taken, orders, n_taken)``: every method, made by `odefit.integrate.time_loop`.

With derivatives up to `order`; with `replay` the steps of the task's grid are taken again.  Steps that are chosen, and
their orders, are noted in `taken` and `orders`, behind `n_taken` that are there.  Returns status code, time reached,
state to blame (-1: none), largest error over tolerance, number of outputs written, `n_taken`, and the two arrays, which
are longer ones if they had to grow.
"""


@kernel
def keep_states(table, i, index, y, s, s2):
    """Keep states and sensitivities: a sink."""
    task, kept = task_at(table, i), _kept_at(table, i)
    n = task.n
    for j in range(n):
        kept.y[index * n + j] = y[0, j]
    _keep_directions(s, n, kept.first, index, task.times.size)
    _keep_directions(s2, n, kept.second, index, task.times.size)
    return index


@kernel(inline=True)
def _keep_directions(s, n, out, index, n_times):
    q = out.size // (n_times * n) if n > 0 else 0
    for j in range(n):
        for c in range(q):
            out[(index * n + j) * q + c] = s[0, ((c // 4) * n + j) * 4 + c % 4]
