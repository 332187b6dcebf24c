"""BDF3 of diffpar: backward differentiation of order 3 in arcs of three equal steps, for stiff problems.

L. Edsberg and P.-A. Wedin, Optimization Methods and Software 6 (1995) 193-217, sections 3.3.4-3.3.6.  With backward
differences d y_i = y_i - y_{i-1} the formula is

    d y_{i+1} + d2 y_{i+1}/2 + d3 y_{i+1}/3 = h f(t_{i+1}, y_{i+1}).                                   (47)

Since d2 y_{i+1} = d2 y_i + d3 y_{i+1}, d y_{i+1} = d y_i + d2 y_i + d3 y_{i+1} and y_{i+1} = y_i + d y_{i+1}, it reads,
solved for the only unknown (1 + 1/2 + 1/3 = 11/6),

    d3 y_{i+1} = (6 h/11) [f(t_{i+1}, d3 y_{i+1} + d2 y_i + d y_i + y_i) - (3/2 d2 y_i + d y_i)/h],    (49)

and cumulative sums of [d3 y_{i+1}, d2 y_i, d y_i, y_i] are the differences (50) at the new point.  Newton's method
starts with d3 y_i and has the matrix I - (6 h/11) f_y, with f_y of the first point of the arc; it takes one iteration
at the first two steps and two at the last.  Output is the cubic through the four points of an arc, (51)-(53).  The
first arc of a piece is one of rk32, (34), (35), with its error estimate (36).

The estimate (54) at the end of an arc is d4 y_i/4: h y' is the sum of d^j y/j over all j, and d4 y/4 is the first term
that the formula leaves out.  (The error of y_{i+1} alone is 6/11 of it; 1/4 is what a step adds to the global error.)
It is taken state by state against ``atol + rtol |y|``.  Beyond the paper, the second Newton correction of the last
step must stay below the tolerance as well: nothing else would tell that Newton's method diverges.

As d4 y goes with h^4, the step 2h, h, h/2, h/4 or h/8 that comes next is the longest one below
0.9 h (tolerance/error)^(1/4), after the first arc (tolerance/error)^(1/3); at most h/2 for an arc that is rejected
(error above tolerance), h/8 where a value is not finite.  The global error goes with h^3, so with tolerance^(3/4).

For a step r h the differences are those of the same cubic, D = 1 - (1 - d)^r cut off behind d3; for r = 1/2 this is
(56) followed by (55).  The last arc of a piece takes r as it comes.  For 2h, values at t_i - 4h and t_i - 6h are
needed from the arc before: steps double only if its steps were not shorter, so at most at every second arc.

Derived anew, (47)-(56) hold as printed.  One slip is the reference behind (56): the differences of the interpolated
values come from the matrix in (55); (50) only names them.

Sensitivities solve (57)-(60) by the same formula on the same arcs once an arc is accepted.  One Newton iteration is
enough because these equations are linear; that takes f_y at the new point in its matrix, not at the first one of the
arc.  So S solves the discrete variational equations along the computed states to rounding, while these states solve
(49) only as well as one or two iterations do: S is the derivative of the computed solution up to the error of
Newton's method ("variational"), to rounding where f_y is constant.  There is no second order.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from odefit.compile import CompiledModel
from odefit.errors import OdefitError
from odefit.integrate.arcs import (
    bdf_arc,
    bdf_arc_directions,
    change_step,
    differences_of,
    interpolated_slope,
    interpolated_value,
    runge_kutta_arc,
)
from odefit.integrate.contract import Array, Counters, Status, StepGrid
from odefit.integrate.directions import n_blocks, put_seeds, put_seeds_of_piece, put_states
from odefit.integrate.elimination import LinearAlgebra, dense_algebra
from odefit.integrate.single_method import SingleMethod
from odefit.integrate.stepping import JACOBIAN, RHS, continued_step, first_nonfinite, initial_step
from odefit.integrate.time_loop import NOT_FINITE, SOLVED, Method, time_loop
from odefit.native.calls import call_model
from odefit.native.kernel import kernel
from odefit.native.pool import SLACK, cut
from odefit.native.records import Integers

_OK, _NONFINITE_START, _NONFINITE_DERIVATIVE = (
    int(one) for one in (Status.OK, Status.NONFINITE_START, Status.NONFINITE_DERIVATIVE)
)
_COUNTERS = len(Counters._fields)
_SAFETY = 0.9
_SMALLEST_RATIO = 1e-4
# places in `Room.memory`: steps of the last two arcs of this piece, 0 if there are none
_H_LAST, _H_BEFORE = range(2)


class Room(NamedTuple):
    """What the method works with; matrices of differences have four rows, see `odefit.integrate.arcs`.

    Attributes
    ----------
    dif, before, now, path
        Differences at the end of the last arc, of the one before, and while an arc is computed; the points of an arc.
    y, k, states
        Of the first arc, see `odefit.integrate.explicit`.
    rest, old, delta, jac, a, pivots, work
        Of Newton's method.
    s_dif, s_before, s_now, s_path, s, z, slopes, r, seeds
        The same for sensitivities, flat.
    y_out, s_out, s2_out
        At an output time.
    memory
        Numbers that are remembered from arc to arc.
    pool
        What all of these but the pivots are cut from.
    """

    dif: Array
    before: Array
    now: Array
    path: Array
    y: Array
    k: Array
    states: Array
    rest: Array
    old: Array
    delta: Array
    jac: Array
    a: Array
    pivots: Integers
    work: Array
    s_dif: Array
    s_before: Array
    s_now: Array
    s_path: Array
    s: Array
    z: Array
    slopes: Array
    r: Array
    seeds: Array
    y_out: Array
    s_out: Array
    s2_out: Array
    memory: Array
    pool: Array


@kernel(inline=True, allocating=True)
def _make_room(task, e, order):
    n, n_p, n_jac = task.n, task.n_parameters, e.col.size
    q = task.n_directions if order >= 1 else 0
    size, n_seeds = n_blocks(q) * n * 4, n_blocks(q) * n_p * 4
    pool = np.empty(29 * n + n_jac + e.n_values + e.n_work + 24 * size + n_seeds + 2 + 26 * SLACK)
    at, dif = cut(pool, 0, (4, n))
    at, before = cut(pool, at, (4, n))
    at, now = cut(pool, at, (4, n))
    at, path = cut(pool, at, (4, n))
    at, k = cut(pool, at, (4, n))
    at, states = cut(pool, at, (4, n))
    at, y = cut(pool, at, (1, n))
    at, y_out = cut(pool, at, (1, n))
    at, rest = cut(pool, at, (n,))
    at, old = cut(pool, at, (n,))
    at, delta = cut(pool, at, (n,))
    at, jac = cut(pool, at, (n_jac,))
    at, a = cut(pool, at, (e.n_values,))
    at, work = cut(pool, at, (e.n_work,))
    at, s_dif = cut(pool, at, (4, size))
    at, s_before = cut(pool, at, (4, size))
    at, s_now = cut(pool, at, (4, size))
    at, s_path = cut(pool, at, (4, size))
    at, slopes = cut(pool, at, (4, size))
    at, s = cut(pool, at, (1, size))
    at, z = cut(pool, at, (1, size))
    at, r = cut(pool, at, (1, size))
    at, s_out = cut(pool, at, (1, size))
    at, s2_out = cut(pool, at, (1, 0))
    at, seeds = cut(pool, at, (n_blocks(q), n_p, 4))
    at, memory = cut(pool, at, (2,))
    for i in range(n):
        dif[3, i] = y_out[0, i] = task.y0[i]
    put_states(task.dy0, task.n_columns, q, n, s_out)
    put_seeds(task.dp, task.n_columns, q, n_p, seeds)
    for i in range(size):
        s_dif[3, i] = s_out[0, i]
    return Room(
        dif, before, now, path, y, k, states, rest, old, delta, jac, a, np.empty(e.n_pivots, np.int64), work,
        s_dif, s_before, s_now, s_path, s, z, slopes, r, seeds, y_out, s_out, s2_out, memory, pool,
    )  # fmt: skip


@kernel(inline=True)
def _seed(task, e, room):
    q, n_p = task.n_directions if room.seeds.size > 0 else 0, task.n_parameters
    put_seeds_of_piece(task.dp, task.n_columns, q, n_p, room.seeds)


@kernel(inline=True)
def _begin(task, e, room, t, t_end, h, replay):
    n = task.n
    room.memory[_H_LAST] = room.memory[_H_BEFORE] = 0.0
    for i in range(n):
        room.y[0, i] = room.dif[3, i]
    call_model(task.value, t, room.y, 0, task.p, task.u, room.k, 0)
    task.counts[RHS] += 1
    cause = max(first_nonfinite(room.k, 0, n), first_nonfinite(room.y, 0, n))
    if cause >= 0:
        return _NONFINITE_START, cause, 0.0
    if replay:
        return _OK, -1, 0.0
    task.counts[RHS] += 1
    guess = initial_step(task, t, t_end, room.y, room.k, 1.0 / 3.0, room.states)
    return _OK, -1, continued_step(guess, h)


@kernel(inline=True)
def _step_before(room):
    """Return how much longer the steps of the last arc were than those of the one before; 0 if there is none."""
    return 0.0 if room.memory[_H_BEFORE] == 0.0 else room.memory[_H_LAST] / room.memory[_H_BEFORE]


@kernel(inline=True)
def _attempt(task, e, room, t, h, t_new, t_out, step):
    h_last = room.memory[_H_LAST]
    if h_last == 0.0:
        for i in range(task.n):
            room.path[0, i] = room.dif[3, i]
        ratio, worst, _ = runge_kutta_arc(task, room, t, h, False)
        task.counts[RHS] += 10
    else:
        change_step(room.dif, room.before, h / h_last, _step_before(room), room.path, room.now)
        ratio, worst, evaluations = bdf_arc(task, e, room, t, h, t_new)
        task.counts[RHS] += evaluations
        task.counts[JACOBIAN] += 1
    return (SOLVED if math.isfinite(ratio) else NOT_FINITE), ratio, worst


@kernel(inline=True)
def _differentiate(task, e, room, t, h, t_new):
    h_last = room.memory[_H_LAST]
    if h_last == 0.0:
        for i in range(room.r.shape[1]):
            room.s_path[0, i] = room.s_dif[3, i]
        _, _, bad = runge_kutta_arc(task, room, t, h, True)
        task.counts[RHS] += 10
        task.counts[JACOBIAN] += 10
    else:
        change_step(room.s_dif, room.s_before, h / h_last, _step_before(room), room.s_path, room.s_now)
        bad = bdf_arc_directions(task, e, room, t, h, t_new)
        task.counts[JACOBIAN] += 3
    return (_OK if bad < 0 else _NONFINITE_DERIVATIVE), (bad // 4 % task.n if bad >= 0 else -1), 0.0


@kernel(inline=True)
def _interpolate(task, room, t, h, t_new, t_out, derivative):
    if room.memory[_H_LAST] == 0.0:
        differences_of(room.s_path, room.s_now, room.r.shape[1])
    _evaluate(task, room, h, (t_new - t_out) / h, derivative, room.s_out.shape[1])


@kernel(inline=True)
def _peek(task, room, t, h, t_new, t_out, derivative):
    _evaluate(task, room, h, (t_new - t_out) / h, derivative, 0)


@kernel(inline=True)
def _evaluate(task, room, h, nu, derivative, n1):
    """Evaluate the cubic through the arc, whose differences are `now`; of the first arc they are made of its points."""
    if room.memory[_H_LAST] == 0.0:
        differences_of(room.path, room.now, task.n)
    if derivative > 0:  # the first one: there is no second order
        for i in range(task.n):
            room.y_out[0, i] = -interpolated_slope(room.now, nu, i) / h
        return
    for i in range(task.n):
        room.y_out[0, i] = interpolated_value(room.now, nu, i)
    for i in range(n1):
        room.s_out[0, i] = interpolated_value(room.s_now, nu, i)


@kernel(inline=True)
def _factor(ratio, exponent, most):
    """Return the largest of 2, 1, 1/2, 1/4, 1/8 up to `most` that the error allows; 1/8 if none does."""
    wanted = _SAFETY * max(ratio, _SMALLEST_RATIO) ** -exponent  # infinite ratio: 0
    factor = most
    while factor > 0.125 and not factor <= wanted:
        factor *= 0.5
    return factor


@kernel(inline=True)
def _exponent(room):
    return 1.0 / 3.0 if room.memory[_H_LAST] == 0.0 else 0.25


@kernel(inline=True)
def _retry(task, room, ratio, outcome):
    return _factor(ratio, _exponent(room), 0.5)


@kernel(inline=True)
def _copy(source, out):
    for j in range(source.shape[0]):
        for i in range(source.shape[1]):
            out[j, i] = source[j, i]


@kernel(inline=True)
def _advance(task, room, t, h, t_new, ratio, replay):
    memory, exponent = room.memory, _exponent(room)
    if memory[_H_LAST] == 0.0:
        differences_of(room.path, room.now, task.n)
        differences_of(room.s_path, room.s_now, room.r.shape[1])
    _copy(room.dif, room.before)
    _copy(room.now, room.dif)
    _copy(room.s_dif, room.s_before)
    _copy(room.s_now, room.s_dif)
    memory[_H_BEFORE], memory[_H_LAST] = memory[_H_LAST], h
    may_double = memory[_H_BEFORE] >= 0.999 * h
    return _OK, _factor(ratio, exponent, 2.0 if may_double else 1.0), 0


@kernel(inline=True, allocating=True)
def _current(room):
    return room.dif, room.s_dif, room.s2_out, 3


class Bdf3(SingleMethod):
    """The backward differentiation formula of order 3 of diffpar; see the module for the mathematics."""

    name = "bdf3"
    kernel = staticmethod(
        time_loop(
            "bdf3_solve",
            Method(
                3, _make_room, _seed, _begin, _attempt, _differentiate, _retry, _interpolate, _advance, _current, _peek
            ),
            implicit=True,
        )
    )
    derivatives = "variational"
    implicit = True
    highest_order = 1

    def algebra(self, model: CompiledModel) -> LinearAlgebra:
        """Return the dense elimination, which exchanges rows."""
        return model.kept.get("dense algebra", lambda: dense_algebra(model)._replace(limit=np.inf))

    def check(self, grid: StepGrid, n_pieces: int) -> None:
        """Refuse a grid that is not made of arcs."""
        super().check(grid, n_pieces)
        if (grid.counts[_COUNTERS:] % 3).any() or (np.diff(grid.steps.reshape(-1, 3)) != 0.0).any():
            raise OdefitError(f"a step grid of '{self.name}' needs three equal steps in each arc")
