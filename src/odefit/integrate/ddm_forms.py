"""The two forms of equations that `ddm` solves: ``y' = f(t, y, p)`` and ``G(t, y, y', p) = f - B(t, y, p) y' = 0``.

In a step the rate is linear in the new state, y' = c_0 (y_n - y_{n-1}) + b (see `odefit.integrate.multistep`).  With it
the equations of a step and their derivatives are

    f - y' = 0,    (c_0 I - f_y) S_n = (c_0 S_{n-1} - ..) + f_p dp

in the first form, and in the second, where the rates of directions S' = c_0 S_n - (c_0 S_{n-1} - ..) count, too,

    G = 0,         -(G_y + c_0 G_y') S_n = B (c_0 S_{n-1} - ..) + G_p dp + D2G[(S, S', dp), (S, S', dp)].

Rows without derivatives have no part in B: they hold at each new state by themselves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from odefit.integrate.balance import rates_at
from odefit.integrate.directions import add_second, place_of
from odefit.integrate.multistep import past_point, registers_of
from odefit.native.calls import call_model, call_second
from odefit.native.equation_systems import join_entries, subtract_rates
from odefit.native.kernel import kernel
from odefit.native.linear_systems import solve_blocks, step_directions
from odefit.native.unsigned import unsigned


class Form(NamedTuple):
    """What differs between the forms, as kernels.

    Attributes
    ----------
    slope(task, e, room, t, dt, y, row, out, out_row)
        Write the rates at a state ``y[row]``; `dt` is an increment for differences by time.
    residual(task, room, t, c0)
        Set ``room.delta`` to what is left of the equations of a step, at the new state.
    matrix(task, e, room, t, c0)
        Set ``room.jac`` to the derivatives by states and p there, and return the shift to factorise with.
    first(task, e, room), second(task, e, room, t)
        Solve for the directions of a step with the factors in `a1`; tell whether they are finite.
    refines
        Whether directions may be refined with an old matrix.
    """

    slope: Any
    residual: Any
    matrix: Any
    first: Any
    second: Any
    refines: bool


@kernel(inline=True)
def _slope(task, e, room, t, dt, y, row, out, out_row):
    call_model(task.value, t, y, row * task.n, task.p, task.u, out, out_row * task.n)


@kernel(inline=True)
def _residual(task, room, t, c0):
    n, y, new, old = task.n, room.y, room.slot[0], room.slot[1]
    call_model(task.value, t, y, new * n, task.p, task.u, room.f, 0)
    for i in range(n):
        room.delta[i] = room.f[0, i] - c0 * (y[new, i] - y[old, i]) - room.base[i]


@kernel(inline=True)
def _matrix(task, e, room, t, c0):
    call_model(task.jacobian, t, room.y, room.slot[0] * task.n, task.p, task.u, room.jac, 0)
    return c0


@kernel(inline=True)
def _first(task, e, room):
    return step_directions(
        e, room.jac, task.n, room.slot, room.c, room.a1, room.pivots1, room.work, room.s, room.products, room.r2, False
    )


@kernel(inline=True)
def _second(task, e, room, t):
    n, slot, r2 = task.n, room.slot, room.r2
    for i in range(r2.shape[1]):
        r2[0, i] = 0.0
    add_second(task, t, room.y, slot[0] * n, room.s, slot[0], room.seeds, room.vectors, r2, 0)
    return step_directions(
        e, room.jac, n, slot, room.c, room.a1, room.pivots1, room.work, room.s2, room.products2, r2, True
    )


EXPLICIT = Form(_slope, _residual, _matrix, _first, _second, True)


@kernel(inline=True)
def _rates(task, e, room, t, dt, y, row, out, out_row):
    rates_at(task, e, room, t, dt, y, row, out, out_row)


@kernel(inline=True)
def _put_point(task, room, c0):
    """Put the new state and its rates side by side."""
    n, y, new, old, point = task.n, room.y, room.slot[0], room.slot[1], room.balance.point
    for i in range(n):
        point[0, i], point[0, n + i] = y[new, i], c0 * (y[new, i] - y[old, i]) + room.base[i]


@kernel(inline=True)
def _residual_of_balance(task, room, t, c0):
    _put_point(task, room, c0)
    call_model(task.value, t, room.balance.point, 0, task.p, task.u, room.f, 0)
    for i in range(task.n):
        room.delta[i] = room.f[0, i]


@kernel(inline=True)
def _matrix_of_balance(task, e, room, t, c0):
    _put_point(task, room, c0)
    call_model(task.jacobian, t, room.balance.point, 0, task.p, task.u, room.balance.whole, 0)
    join_entries(e, task.n, room.balance.whole, c0, room.jac)
    return 0.0


@kernel(inline=True)
def _put_known(e, n, room, s, rates, products):
    """Set ``s[new]`` to B (c_0 S_{n-1} - ..) + G_p dp, and `rates` to what is in brackets."""
    rows, coefficients = registers_of(room.slot, room.c)
    c0, new, old = room.c[0], room.slot[0], room.slot[1]
    for i in range(s.shape[1]):
        rates[0, i] = c0 * s[old, i] - past_point(s, rows, coefficients, i)
        s[new, i] = 0.0
    subtract_rates(e, n, room.balance.whole, rates, s, new)
    place, entry, factor = unsigned(products[0]), unsigned(products[1]), products[2]
    for g in range(place.size):
        s[new, place[g]] += room.jac[entry[g]] * factor[g]


@kernel(inline=True)
def _first_of_balance(task, e, room):
    _put_known(e, task.n, room, room.s, room.balance.rates, room.products)
    return solve_blocks(e, task.n, room.a1, room.pivots1, room.work, room.s, room.slot[0])


@kernel(inline=True)
def _direction(room, a, n, v):
    """Set `v` to direction `a` of (y, y', p), where `rates` holds c_0 S_{n-1} - .."""
    s, new, c0 = room.s, room.slot[0], room.c[0]
    for i in range(n):
        at = place_of(a, i, n)
        v[i], v[n + i] = s[new, at], c0 * s[new, at] - room.balance.rates[0, at]
    for i in range(v.size - 2 * n):
        v[2 * n + i] = room.seeds[a // 4, i, a % 4]


@kernel(inline=True)
def _second_of_balance(task, e, room, t):
    n, q, s2, new = task.n, task.n_directions, room.s2, room.slot[0]
    _put_known(e, n, room, s2, room.balance.kept2, room.products2)
    v, w, d2 = room.vectors
    pair = 0
    for a in range(q):
        _direction(room, a, n, v)
        for b in range(a, q):
            _direction(room, b, n, w)
            call_second(task.second, t, room.balance.point, 0, task.p, task.u, v, w, d2, 0)
            for i in range(n):
                s2[new, place_of(pair, i, n)] += d2[i]
            pair += 1
    return solve_blocks(e, n, room.a1, room.pivots1, room.work, s2, new)


BALANCE = Form(_rates, _residual_of_balance, _matrix_of_balance, _first_of_balance, _second_of_balance, False)
