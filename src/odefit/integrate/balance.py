"""Consistent states of equations ``G(t, y, y', p) = f(t, y, p) - B(t, y, p) y' = 0``, and their rates.

Equations without derivatives must hold at any time, also where a piece begins: at the start and behind events.  Of a
state y* that is given there, what the other equations carry on is kept, and the rest is made consistent: y solves

    B(t, y*, p) (y - y*) = 0  (rows with derivatives),    f(t, y, p) = 0  (algebraic rows).

So with ``x' = ..`` x stays what it is, with ``C (x' - z') = ..`` the difference does.  Newton's method starts from y*;
where it does not converge, f(y) = (1 - c) f(y*) is solved for c from 0 to 1.  Its corrections d have B d = 0, so that
only the algebraic rows need be looked at.  With v = y - y* and D(y*, v, p) = G(t, y*, v, p) - G(t, y*, 0, p) = -B v the
derivatives of both kinds of rows are linear in those of y, with the same matrix M = (G_y'(y*), G_y(y)),

    G_y'(y*) (dy - dy*) + D_y* dy* + D_p dp = 0,    G_y dy + G_p dp = 0,

and those of second order have second derivatives of D and G beside them.

**Rates** follow from the equations and the derivative of the algebraic rows by time: with M at y

    G_y' y' = -f,    G_y y' = -G_t,

where G_t is a difference.  They predict the first step and choose its size, and stand in no result.

**Rounding.**  Algebraic equations hand rounding errors on, and may multiply them: with 0 = x + y - 1 a small y has the
error of 1, and an amplifier does what it is made for.  They do not become smaller with the step, as those of the other
equations do, and no step is too long because of them.  With the matrix A of a step, rounding of algebraic rows is about
eps |A| |y|, and what becomes of it is found by a solution with such a right-hand side, of changing signs and sizes,
lest they cancel.  The tolerance of a state in the error test is never below `_ABOVE_NOISE` times that.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from odefit.integrate.contract import Array, Status
from odefit.integrate.directions import place_of
from odefit.integrate.stepping import NO_SIZE
from odefit.native.calls import call_model, call_second
from odefit.native.equation_systems import join_for_states
from odefit.native.finite import all_finite
from odefit.native.kernel import kernel
from odefit.native.linear_systems import FACTORISED, factorise_matrix, solve_blocks, solve_for_vector
from odefit.native.pool import SLACK, cut

_OK, _INCONSISTENT, _SINGULAR, _REORDER, _NONFINITE_START, _NONFINITE_DERIVATIVE = (
    int(one)
    for one in (
        Status.OK,
        Status.INCONSISTENT,
        Status.UNDETERMINED,
        Status.REORDER,
        Status.NONFINITE_START,
        Status.NONFINITE_DERIVATIVE,
    )
)
_EPS = float(np.finfo(float).eps)
_FLOOR = 1e-9  # of the absolute tolerance of a state: corrections below are rounding too
_ROUNDING = 1e3  # corrections below this many roundings that no longer shrink are rounding
_ABOVE_NOISE = 30.0  # differences of past values multiply rounding errors, too
_ITERATIONS, _LEAST_PART, _MOST_PARTS = 50, 1e-6, 200
_ROUGH = 1e-3  # relative accuracy on the way of a continuation
INCREMENT = 1e-7
"""Of a piece, for a difference by time."""


class Balance(NamedTuple):
    """Arrays for equations in several derivatives; all are empty for ``y' = f``.

    Attributes
    ----------
    point, g
        States and rates (1, 2n), and what the equations give there (2, n).
    whole, at_given, along
        Jacobians by (y, y', p): at a point, and at a given state with rates 0 and v.
    given, tried, kept, rates
        States (n,) and directions (1, n1) that were given, the last states of a continuation, and rates of directions.
    noise, atol
        Rounding errors of the states, and absolute tolerances with them (n,).
    kept2
        Directions of second order that were given, (1, n2).
    """

    point: Array
    g: Array
    whole: Array
    at_given: Array
    along: Array
    given: Array
    tried: Array
    noise: Array
    atol: Array
    kept: Array
    rates: Array
    kept2: Array


@kernel(inline=True)
def size_of_balance(e, n, n1, n2):
    """Return the length of what `cut_balance` cuts."""
    return 8 * n + 3 * e.whole_col.size + 2 * n1 + n2 + 13 * SLACK if e.algebraic.size > 0 else 13 * SLACK


@kernel(inline=True, allocating=True)
def cut_balance(pool, at, e, n, n1, n2):
    """Return the end of what is cut from a pool, and the arrays; they are empty for ``y' = f``."""
    if e.algebraic.size == 0:
        n = n1 = n2 = 0
    at, point = cut(pool, at, (1, 2 * n))
    at, g = cut(pool, at, (2, n))
    at, whole = cut(pool, at, (e.whole_col.size,))
    at, at_given = cut(pool, at, (e.whole_col.size,))
    at, along = cut(pool, at, (e.whole_col.size,))
    at, given = cut(pool, at, (n,))
    at, tried = cut(pool, at, (n,))
    at, noise = cut(pool, at, (n,))
    at, atol = cut(pool, at, (n,))
    at, kept = cut(pool, at, (1, n1))
    at, rates = cut(pool, at, (1, n1))
    at, kept2 = cut(pool, at, (1, n2))
    return at, Balance(point, g, whole, at_given, along, given, tried, noise, atol, kept, rates, kept2)


@kernel(inline=True)
def note_noise(task, e, room, y, row):
    """Find what rounding of the equations makes of the states, with the matrix in `jac` and its factors in `a`."""
    b, n = room.balance, task.n
    for i in range(n):
        total = 0.0
        for g in range(e.row_ptr[i], e.mid[i]):
            total += abs(room.jac[g] * y[row, e.col[g]])
        sign = 0.0 if e.algebraic[i] == 0 else (1.0 if i % 2 == 0 else -1.0)
        b.noise[i] = _EPS * (1.0 + 0.618034 * i % 1.0) * sign * total
    solve_for_vector(e, n, room.a, room.pivots, room.work, b.noise)
    for i in range(n):
        size, absolute = abs(b.noise[i]), task.atol[i]
        b.noise[i] = size if size < np.inf else 0.0
        # neither integrals over time nor states whose size is not known
        b.atol[i] = absolute + _ABOVE_NOISE * b.noise[i] if absolute > 2.0 * NO_SIZE else absolute


@kernel(inline=True)
def _matrix(task, e, room, t, y, row):
    """Factorise M, with G_y' at the given state and G_y at the state; leave the state in `point`; return status.

    `at_given` holds the Jacobian at the given state.
    """
    b, n = room.balance, task.n
    for i in range(n):
        b.point[0, i], b.point[0, n + i] = y[row, i], 0.0
    call_model(task.jacobian, t, b.point, 0, task.p, task.u, b.whole, 0)
    for i in range(n):
        if e.algebraic[i] == 0:
            for g in range(e.whole_ptr[i], e.whole_ptr[i + 1]):
                if n <= e.whole_col[g] < 2 * n:
                    b.whole[g] = b.at_given[g]
    join_for_states(e, n, b.whole, room.jac)
    if not all_finite(room.jac):
        return _INCONSISTENT
    if factorise_matrix(e, room.jac, 0.0, n, room.a, room.pivots, room.work, e.limit) == FACTORISED:
        return _OK
    if e.limit == np.inf:
        return _SINGULAR
    for g in range(room.jac.size):  # a zero, or a small number, in the place of a pivot
        e.trouble[g] = room.jac[g]
    e.trouble[room.jac.size] = 0.0
    return _REORDER


@kernel(inline=True)
def _part(task, e, room, t, y, row, remaining, last):
    """Solve f(y) = `remaining` f(y*) for the algebraic rows from where y is; return status and the state to blame.

    ``g[1]`` holds f(y*).  Only the `last` part is solved to rounding.
    """
    b, n, old, worst, old_miss = room.balance, task.n, np.inf, 0, np.inf
    for iteration in range(_ITERATIONS):
        status = _matrix(task, e, room, t, y, row)
        if status != _OK:
            return status, worst
        note_noise(task, e, room, y, row)
        call_model(task.value, t, b.point, 0, task.p, task.u, b.g, 0)
        miss = 0.0
        for i in range(n):
            room.delta[i] = b.g[0, i] - remaining * b.g[1, i] if e.algebraic[i] != 0 else 0.0
            miss += abs(room.delta[i])
        solve_for_vector(e, n, room.a, room.pivots, room.work, room.delta)
        size = 0.0
        for i in range(n):
            y[row, i] += room.delta[i]
            unit = _EPS * max(abs(y[row, i]), abs(b.given[i])) + _FLOOR * abs(task.atol[i]) + b.noise[i]
            part = abs(room.delta[i]) / unit if room.delta[i] != 0.0 else 0.0
            if not part <= size:
                size, worst = part, i
        if not math.isfinite(size):
            return _INCONSISTENT, worst
        if size <= 4.0 or (not last and size * _EPS <= _ROUGH) or (size <= _ROUNDING and size > 0.5 * old):
            return _OK, worst
        if iteration > 1 and size > 0.9 * old and not miss < 0.5 * old_miss:  # exp(x) = 1 is approached evenly
            return _INCONSISTENT, worst
        old, old_miss = size, miss
    return _INCONSISTENT, worst


@kernel(inline=True)
def _largest_miss(task, e, room, t, y, row):
    """Return the algebraic row that is furthest from being met."""
    b, n, most, worst = room.balance, task.n, -1.0, 0
    for i in range(n):
        b.point[0, i], b.point[0, n + i] = y[row, i], 0.0
    call_model(task.value, t, b.point, 0, task.p, task.u, b.g, 0)
    for i in range(n):
        if e.algebraic[i] != 0 and not abs(b.g[0, i]) <= most:
            most, worst = abs(b.g[0, i]), i
    return worst


@kernel(inline=True)
def _weakest_row(e, room, n):
    """Return the row of M in which the state that names it has least part: where M is singular, one to blame."""
    least, weakest = np.inf, 0
    for i in range(n):
        own, largest = 0.0, 0.0
        for g in range(e.row_ptr[i], e.mid[i]):
            largest = max(largest, abs(room.jac[g]))
            if e.col[g] == i:
                own = abs(room.jac[g])
        part = own / largest if largest > 0.0 else -1.0
        if part < least:
            least, weakest = part, i
    return weakest


@kernel(inline=True)
def _solve_states(task, e, room, t, y, row):
    """Make the state consistent; return status and the row to blame."""
    b, n, p, u = room.balance, task.n, task.p, task.u
    for i in range(n):
        b.given[i] = b.tried[i] = b.point[0, i] = y[row, i]
        b.point[0, n + i] = 0.0
    call_model(task.value, t, b.point, 0, p, u, b.g, n)
    call_model(task.jacobian, t, b.point, 0, p, u, b.at_given, 0)
    for i in range(n):
        if not math.isfinite(b.given[i]):
            return _NONFINITE_START, i
    for i in range(n):
        if not math.isfinite(b.g[1, i]):
            return _NONFINITE_START, i
    done, part = 0.0, 1.0
    for _ in range(_MOST_PARTS):
        part = min(part, 1.0 - done)
        status, worst = _part(task, e, room, t, y, row, 1.0 - done - part, done + part >= 1.0)
        if status == _REORDER or (status == _SINGULAR and done == 0.0 and part < _LEAST_PART * 4.0):
            return status, _weakest_row(e, room, n)
        if status == _OK:
            done += part
            if done >= 1.0:
                return _OK, -1
            part *= 2.0
            for i in range(n):
                b.tried[i] = y[row, i]
        else:
            part *= 0.25
            for i in range(n):
                y[row, i] = b.tried[i]
            if part < _LEAST_PART:
                break
    return _INCONSISTENT, _largest_miss(task, e, room, t, y, row)


@kernel(inline=True)
def _known_of_directions(e, n, b, kept, seeds, out):
    """Set `out` to what is known in the equations of directions, whose given ones are `kept`."""
    for i in range(out.shape[1]):
        out[0, i] = 0.0
    for block in range(seeds.shape[0]):
        for i in range(n):
            for g in range(e.whole_ptr[i], e.whole_ptr[i + 1]):
                column = e.whole_col[g]
                if e.algebraic[i] != 0:
                    factor = b.whole[g] if column >= 2 * n else 0.0
                elif n <= column < 2 * n:
                    factor = -b.at_given[g]
                else:
                    factor = b.along[g] - b.at_given[g]
                if factor == 0.0:
                    continue
                for lane in range(4):
                    if column >= 2 * n:
                        value = seeds[block, column - 2 * n, lane]
                    else:
                        value = kept[0, (block * n + column % n) * 4 + lane]
                    out[0, (block * n + i) * 4 + lane] += factor * value


@kernel(inline=True)
def _pair_direction(b, s, row, seeds, a, n, v, of_given):
    """Set `v` to direction `a` of (y, y', p): of the new state with no rates, or of the given one with those of v."""
    for i in range(n):
        at = place_of(a, i, n)
        new, given = s[row, at], b.kept[0, at]
        v[i] = given if of_given else new
        v[n + i] = new - given if of_given else 0.0
    for i in range(v.size - 2 * n):
        v[2 * n + i] = seeds[a // 4, i, a % 4]


@kernel(inline=True)
def _add_pairs(task, e, room, t, s, row, of_given, factor):
    """Add second derivatives in all pairs at `point` to ``room.r2``, in rows of one kind."""
    n, q, b = task.n, task.n_directions, room.balance
    v, w, d2 = room.vectors
    pair = 0
    for a in range(q):
        _pair_direction(b, s, row, room.seeds, a, n, v, of_given)
        if of_given and factor < 0.0:
            for i in range(n):
                v[n + i] = 0.0
        for c in range(a, q):
            _pair_direction(b, s, row, room.seeds, c, n, w, of_given)
            if of_given and factor < 0.0:
                for i in range(n):
                    w[n + i] = 0.0
            call_second(task.second, t, b.point, 0, task.p, task.u, v, w, d2, 0)
            for i in range(n):
                if (e.algebraic[i] == 0) == of_given:
                    room.r2[0, place_of(pair, i, n)] += factor * d2[i]
            pair += 1


@kernel(inline=True)
def _set_point(b, n, states, rates):
    for i in range(n):
        b.point[0, i], b.point[0, n + i] = states[i], rates[i]


@kernel(inline=True)
def _second_directions(task, e, room, t, y, s, s2, row):
    """Make directions of second order consistent; tell whether they are finite."""
    b, n = room.balance, task.n
    for i in range(s2.shape[1]):
        b.kept2[0, i] = s2[row, i]
    _known_of_directions(e, n, b, b.kept2, room.seeds2, room.r2)
    for i in range(n):
        b.tried[i], room.delta[i] = y[row, i], 0.0
    _set_point(b, n, b.tried, room.delta)
    _add_pairs(task, e, room, t, s, row, False, 1.0)
    _set_point(b, n, b.given, room.delta)
    _add_pairs(task, e, room, t, s, row, True, -1.0)
    for i in range(n):
        room.delta[i] = y[row, i] - b.given[i]
    _set_point(b, n, b.given, room.delta)
    _add_pairs(task, e, room, t, s, row, True, 1.0)
    finite = solve_blocks(e, n, room.a, room.pivots, room.work, room.r2, 0)
    for i in range(s2.shape[1]):
        s2[row, i] = room.r2[0, i]
    return finite


@kernel(inline=True)
def make_consistent(task, e, room, t, y, s, s2, row):
    """Make the state ``y[row]`` and its directions consistent; return status and the row to blame.

    The room has `balance`, `jac`, `a`, `pivots`, `work`, `delta`, `seeds`, `seeds2`, `r`, `r2` and `vectors`, as that
    of `ddm` has; the factors in it are lost.
    """
    status, cause = _solve_states(task, e, room, t, y, row)
    if status != _OK or s.shape[1] == 0:
        return status, cause
    b, n = room.balance, task.n
    status = _matrix(task, e, room, t, y, row)
    if status != _OK:
        return status, _weakest_row(e, room, n)
    for i in range(n):
        room.delta[i] = y[row, i] - b.given[i]
    _set_point(b, n, b.given, room.delta)
    call_model(task.jacobian, t, b.point, 0, task.p, task.u, b.along, 0)
    for i in range(s.shape[1]):
        b.kept[0, i] = s[row, i]
    _known_of_directions(e, n, b, b.kept, room.seeds, room.r)
    finite = solve_blocks(e, n, room.a, room.pivots, room.work, room.r, 0)
    for i in range(s.shape[1]):
        s[row, i] = room.r[0, i]
    if finite and s2.shape[1] > 0:
        finite = _second_directions(task, e, room, t, y, s, s2, row)
    if not finite:
        for i in range(s.shape[1]):
            if not math.isfinite(s[row, i]):
                return _NONFINITE_DERIVATIVE, i // 4 % n
        return _NONFINITE_DERIVATIVE, 0
    return _OK, -1


@kernel(inline=True)
def rates_at(task, e, room, t, dt, y, row, out, out_row):
    """Set ``out[out_row]`` to the rates of a consistent state, NaN if the equations do not determine them.

    `dt` is the increment of time in a difference; the factors in the room are lost.
    """
    b, n = room.balance, task.n
    for i in range(n):
        b.point[0, i], b.point[0, n + i] = y[row, i], 0.0
    call_model(task.jacobian, t, b.point, 0, task.p, task.u, b.at_given, 0)
    call_model(task.value, t, b.point, 0, task.p, task.u, b.g, 0)
    call_model(task.value, t + dt, b.point, 0, task.p, task.u, b.g, n)
    if _matrix(task, e, room, t, y, row) != _OK:
        for i in range(n):
            out[out_row, i] = np.nan
        return
    for i in range(n):
        room.delta[i] = (b.g[1, i] - b.g[0, i]) / dt if e.algebraic[i] != 0 else b.g[0, i]
    solve_for_vector(e, n, room.a, room.pivots, room.work, room.delta)
    for i in range(n):
        out[out_row, i] = room.delta[i]
    note_noise(task, e, room, y, row)


def consistency(current: Any) -> Any:
    """Return the kernel that makes consistent where a method stands: see `Method.consistent`."""

    @kernel(inline=True, allocating=True)
    def consistent(task, e, room, t):
        y, s, s2, row = current(room)
        return make_consistent(task, e, room, t, y, s, s2, row)

    return consistent
