"""The two forms of equations that `limex` solves: ``y' = f(t, y, p)`` and ``G(t, y, y', p) = f - B(t, y, p) y' = 0``.

A `Form` is what the rows (`odefit.integrate.limex_rows`) are built around, before anything is compiled.

**Equations in several derivatives.**  B may be singular, if the index is 1, and depend on everything.  With small steps
h = H/j and B_i = B(t_{i+1}, y_i) this is (5) of Nowak et al.,

    (B_0/h - A) d_i = f(t_{i+1}, y_i) - (B_i - B_0) v_i,    v_i = d_{i-1}/h,    A = d/dy (f - B v_0) at (t_1, y_0):

where B changes, the rate that it is multiplied by is that of the small step before.  In terms of G, which is linear in
y', with W = G_y'(t_1, y_0) = -B_0,

    M d_i = G(t_{i+1}, y_i, v_i) - W v_i,    M = -(G_y + W/h) at (t_1, y_0, v_0).

Rates v_i follow a smooth function of time and h with B_0 v(t) = f(t + h, y) - (B(t + h, y) - B_0) v(t - h), since the
factor of v(t - h) is zero at t0.  Else what v_0 is off would be carried on, with a power of h more in each small step,
of which row j has but j: the order is 3 to 4 then, whatever k is (observed with B_0 at t0).  Therefore M is taken at
the end t_1 of the first small step, by a Jacobian for each row.

So v_0 stands in A alone, which may be any matrix but for rows without derivatives, in which there is no v_0.  It is the
rate of P at the end of the step before (`odefit.integrate.extrapolation`), zero in the first step of a piece: a linear
combination of increments, whose derivatives are known.

Derivatives: with s_i, sv_i = ds_{i-1}/h and dp for y_i, v_i and p, all that M, W and G depend on gives

    M ds_i = DG(t_{i+1}, y_i, v_i)[s_i, sv_i, dp] - W sv_i + D2G(t_1, y_0, v_0)[(s_0, sv_0, dp), (d_i, d_i/h - v_i, 0)].

For B = 1 all this is the explicit form, but for A at t_1: v_i and its terms cancel.

Output between the ends of steps takes no part in the error test: an algebraic equation is met within the tolerance at
the end of a step, and the next one begins with a jump of this size, however short it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from odefit.integrate.balance import make_consistent, note_noise, rates_at
from odefit.integrate.ddm_newton import leave_out_nonfinite
from odefit.integrate.directions import place_of, slopes_of
from odefit.integrate.limex_room import BEGINNING, Making
from odefit.integrate.stepping import JACOBIAN, RHS, SECOND
from odefit.native.calls import call_directions, call_model, call_second
from odefit.native.equation_systems import join_entries, subtract_rates
from odefit.native.finite import all_finite
from odefit.native.kernel import kernel
from odefit.native.linear_systems import FACTORISED, factorise_matrix


class Form(NamedTuple):
    """What differs between the forms, as kernels.

    Attributes
    ----------
    in_equations
        Whether rates are carried from step to step, and matrices are joined: they have no shift.
    slope(task, e, room, t, dt, y, row, out, out_row)
        Write the rates at a state ``y[row]``; `dt` is an increment for differences by time.
    evaluate(task, room, t, y, row)
        Set ``room.f[0]`` to f at a state.
    linearise(task, e, room, t)
        Compute what the matrices of all rows have in common, at the beginning of a step.
    factorise(task, e, room, shift, slot)
        Factorise the matrix of a row whose small steps are 1/`shift` long into the place `slot` of factors; return how
        it went, as `factorise_matrix` does.
    right_hand(task, e, room, t, at, is_first, shift, slot)
        Set ``room.f[0]`` to the right-hand side of the small step to `t` from ``room.stage[0]``, whose increment will
        stand in ``room.d[at]``.
    right_hand_directions(task, e, room, t, at, is_first, shift, slot)
        Set ``room.ds[at]`` to the right-hand side of directions; states and directions stand in ``room.stage`` and
        ``room.z``.
    """

    in_equations: bool
    slope: Callable[..., Any]
    evaluate: Callable[..., Any]
    linearise: Callable[..., Any]
    factorise: Callable[..., Any]
    right_hand: Callable[..., Any]
    right_hand_directions: Callable[..., Any]


@kernel(inline=True)
def _slope(task, e, room, t, dt, y, row, out, out_row):
    call_model(task.value, t, y, row * task.n, task.p, task.u, out, out_row * task.n)


@kernel(inline=True)
def _evaluate(task, room, t, y, row):
    call_model(task.value, t, y, row * task.n, task.p, task.u, room.f, 0)
    task.counts[RHS] += 1


@kernel(inline=True)
def _linearise(task, e, room, t):
    call_model(task.jacobian, t, room.y, 0, task.p, task.u, room.jac, 0)
    task.counts[JACOBIAN] += 1
    if not all_finite(room.jac):
        leave_out_nonfinite(room.jac)


@kernel(inline=True)
def _factorise(task, e, room, shift, slot):
    return factorise_matrix(e, room.jac, shift, task.n, room.a[slot], room.pivots[slot], room.work, e.limit)


@kernel(inline=True)
def _right_hand(task, e, room, t, at, is_first, shift, slot):
    _evaluate(task, room, t, room.stage, 0)


@kernel(inline=True)
def _add_second(task, room, t0, states, at):
    """Add D2[(directions at the beginning), `across`] at `t0` and `states`, those of the matrix, to ``room.ds[at]``."""
    n, q = task.n, room.along.shape[0]
    for c in range(q):
        call_second(task.second, t0, states, 0, task.p, task.u, room.along[c], room.across, room.bend, 0)
        for i in range(n):
            room.ds[at, place_of(c, i, n)] += room.bend[i]
    task.counts[JACOBIAN] += 1
    task.counts[SECOND] += q


@kernel(inline=True)
def _right_hand_directions(task, e, room, t, at, is_first, shift, slot):
    slopes_of(task, t, room.stage, 0, room.z, room.seeds, room.ds, at)
    for i in range(task.n):
        room.across[i] = room.d[at, i]
    _add_second(task, room, room.memory[BEGINNING], room.y, at)


EXPLICIT = Form(False, _slope, _evaluate, _linearise, _factorise, _right_hand, _right_hand_directions)
"""y' = f(t, y, p)."""


@kernel(inline=True, allocating=True)
def _making(room, slot):
    """Return what `odefit.integrate.balance` works in, with the factors of a row."""
    return Making(
        room.balance, room.jac, room.a[slot], room.pivots[slot], room.work, room.delta, room.seeds, room.seeds2, room.z,
        room.s2_out, (room.across, room.across, room.bend),
    )  # fmt: skip


@kernel(inline=True, allocating=True)
def _rates(task, e, room, t, dt, y, row, out, out_row):
    rates_at(task, e, _making(room, 0), t, dt, y, row, out, out_row)


@kernel(inline=True, allocating=True)
def consistent(task, e, room, t):
    """See `Method.consistent`."""
    return make_consistent(task, e, _making(room, 0), t, room.y, room.s, room.s2_out, 0)


@kernel(inline=True)
def _evaluate_equations(task, room, t, y, row):
    n, point = task.n, room.balance.point
    for i in range(n):
        point[0, i], point[0, n + i] = y[row, i], 0.0
    call_model(task.value, t, point, 0, task.p, task.u, room.f, 0)
    task.counts[RHS] += 1


@kernel(inline=True)
def _linearise_equations(task, e, room, t):
    pass


@kernel(inline=True)
def _time_of_matrix(room, shift):
    """Return the end of the first small step."""
    return room.memory[BEGINNING] + 1.0 / shift


@kernel(inline=True, allocating=True)
def _factorise_equations(task, e, room, shift, slot):
    n, making, whole, point = task.n, _making(room, slot), room.wholes[slot], room.balance.point
    for i in range(n):
        point[0, i], point[0, n + i] = room.y[0, i], room.rate[0, i]
    call_model(task.jacobian, _time_of_matrix(room, shift), point, 0, task.p, task.u, whole, 0)
    task.counts[JACOBIAN] += 1
    if not all_finite(whole):
        leave_out_nonfinite(whole)
    join_entries(e, n, whole, shift, room.jac)
    outcome = factorise_matrix(e, room.jac, 0.0, n, making.a, making.pivots, room.work, e.limit)
    if outcome == FACTORISED:
        note_noise(task, e, making, room.y, 0)
    return outcome


@kernel(inline=True)
def _put_point(task, room, at, is_first, shift):
    """Put the states and the rates v_i of a small step side by side."""
    n, point = task.n, room.balance.point
    for i in range(n):
        point[0, i], point[0, n + i] = room.stage[0, i], room.rate[0, i] if is_first else shift * room.d[at - 1, i]


@kernel(inline=True)
def _right_hand_of_equations(task, e, room, t, at, is_first, shift, slot):
    n, b, whole = task.n, room.balance, room.wholes[slot]
    _put_point(task, room, at, is_first, shift)
    call_model(task.value, t, b.point, 0, task.p, task.u, room.f, 0)
    task.counts[RHS] += 1
    for i in range(n):
        total = 0.0
        for g in range(e.whole_ptr[i], e.whole_ptr[i + 1]):
            column = e.whole_col[g]
            if n <= column < 2 * n:
                total += whole[g] * b.point[0, column]
        room.f[0, i] -= total


@kernel(inline=True)
def _right_hand_directions_of_equations(task, e, room, t, at, is_first, shift, slot):
    n, n_p, b, ds = task.n, task.n_parameters, room.balance, room.ds
    for i in range(ds.shape[1]):
        b.rates[0, i] = room.s_rate[0, i] if is_first else shift * ds[at - 1, i]
    _put_point(task, room, at, is_first, shift)
    for block in range(room.seeds.shape[0]):
        first = block * 4 * n
        for i in range(4 * n):
            room.lanes[0, i], room.lanes[0, 4 * n + i] = room.z[0, first + i], b.rates[0, first + i]
        call_directions(
            task.directions, t, b.point, 0, task.p, task.u, room.lanes, 0, room.seeds, block * 4 * n_p,
            ds, at * ds.shape[1] + first,
        )  # fmt: skip
    subtract_rates(e, n, room.wholes[slot], b.rates, ds, at)
    for i in range(n):
        room.across[i] = room.d[at, i]
        room.across[n + i] = shift * room.d[at, i] - b.point[0, n + i]
        b.point[0, i], b.point[0, n + i] = room.y[0, i], room.rate[0, i]
    _add_second(task, room, _time_of_matrix(room, shift), b.point, at)


EQUATIONS = Form(
    True, _rates, _evaluate_equations, _linearise_equations, _factorise_equations, _right_hand_of_equations,
    _right_hand_directions_of_equations,
)  # fmt: skip
"""G(t, y, y', p) = f - B y' = 0."""
