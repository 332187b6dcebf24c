"""Backward differentiation formulas of order 1 to 5 with sensitivities by the decoupled direct method.

A step of order k solves, with coefficients from the actual time points (see `odefit.integrate.multistep`),

    c_0 (y_n - y_{n-1}) + sum_{j=2..k} c_j (y_{n-j} - y_{n-1}) = f(t_n, y_n, p).

Step sizes and orders determine the solution; the predictor is only a start for Newton's method.  With z = (y, p) the
derivatives of this equation are linear, all with the matrix c_0 I - f_y at the solution,

    (c_0 I - f_y) S_n  = c_0 S_{n-1}  - sum_j c_j (S_{n-j} - S_{n-1})   + f_p dp,
    (c_0 I - f_y) S2_n = c_0 S2_{n-1} - sum_j c_j (S2_{n-j} - S2_{n-1}) + f_p d2p + D2f[z_a, z_b],

and are solved once a step is accepted.  Newton's method goes on to rounding, on chosen steps as on replayed ones,
with an old factorisation as long as it contracts fast enough; the sensitivities are solved with the Jacobian at the
solution, by a factorisation of their own, or by refinement to rounding where that is dear.  So S is the derivative
of the *discrete* solution on a fixed sequence of steps and orders, to rounding, in first and second order; output
between the steps is the polynomial through t_n, .., t_{n-k}, linear in the values, and keeps this.

Equations in several derivatives, with a matrix B(t, y, p) that may be singular, are solved in the same way: see
`odefit.integrate.ddm_forms`, and `odefit.integrate.balance` for the states that a piece begins with.

Steps and orders are chosen as in LSODE.  A step that was accepted keeps a mark in its order (`FRESH`) if the matrix of
the states was factorised anew for it: so a replay repeats a run to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from odefit.errors import OdefitError
from odefit.integrate.balance import INCREMENT, consistency
from odefit.integrate.contract import Counters, Status, StepGrid
from odefit.integrate.ddm_control import first_step_of, next_step, power_of, retry_step
from odefit.integrate.ddm_directions import SOLVED as DIRECTIONS_SOLVED
from odefit.integrate.ddm_directions import directions_of, slopes_at_start
from odefit.integrate.ddm_forms import BALANCE, EXPLICIT, Form
from odefit.integrate.ddm_newton import CONVERGED, SLOW, TOO_LARGE, newton_of
from odefit.integrate.ddm_room import (
    DEPTH,
    FAILS,
    FRESH_NOW,
    ITERATIONS,
    MUST_DIVIDE,
    ORDER,
    POINTS,
    POWER,
    SCALE,
    SHIFT,
    SINCE,
    TAKEN,
    TEST,
    WORST,
    make_room,
    seed,
)
from odefit.integrate.directions import n_pairs
from odefit.integrate.multistep import (
    MAX_ORDER,
    add_node,
    bdf_formula,
    interpolated_slope,
    interpolated_value,
    past_point,
    ratio_of_error,
    registers_of,
    weight_slopes_at,
    weights_at,
)
from odefit.integrate.single_method import SingleMethod
from odefit.integrate.stepping import JACOBIAN, RHS, SECOND, first_nonfinite
from odefit.integrate.time_loop import NOT_FINITE, SOLVED, UNSOLVED, Method, time_loop
from odefit.native.kernel import kernel

_OK, _NONFINITE_START, _NONFINITE_DERIVATIVE, _REORDER = (
    int(one) for one in (Status.OK, Status.NONFINITE_START, Status.NONFINITE_DERIVATIVE, Status.REORDER)
)
_COUNTERS = len(Counters._fields)
_ORDER_BITS, FRESH = 7, 8

_ALWAYS_FRESH = 4.0  # where a factorisation costs less than this many solutions, every step gets one
_MOST_DRIFT = 0.3  # relative change of c_0 that a factorisation survives


def _beginner(form: Form) -> Any:
    """Return the kernel that begins a piece; see `Method.begin`."""
    slope, first_step, refines = form.slope, first_step_of(form.slope), form.refines

    @kernel(inline=True)
    def begin(task, e, room, t, t_end, h, replay):
        n, state, f, work_rows = task.n, room.state, room.f, room.work_rows
        last = room.slot[1]
        slope(task, e, room, t, INCREMENT * (t_end - t), room.y, last, f, 0)
        task.counts[RHS] += 1
        cause = max(first_nonfinite(f, 0, n), first_nonfinite(room.y, last, n))
        if cause >= 0:
            return _NONFINITE_START, cause, 0.0
        h = 0.0
        if not replay:
            for i in range(n):
                work_rows[0, i] = room.y[last, i]
            h = first_step(task, e, room, t, t_end, work_rows, f, work_rows)
            task.counts[RHS] += 1
        for i in range(n):
            work_rows[1, i] = f[0, i]  # the slope at the beginning predicts the first step
        state[ORDER] = state[POINTS] = state[SINCE] = state[MUST_DIVIDE] = 1
        state[FAILS] = state[ITERATIONS] = state[TAKEN] = 0
        if room.slopes.shape[1] > 0:
            task.counts[JACOBIAN] += 1
            cause = slopes_at_start(task, e, room, t) if refines else -1
            if cause >= 0:
                return _NONFINITE_DERIVATIVE, cause, h
        return _OK, -1, h

    return begin


@kernel(inline=True)
def _point_before(room, h):
    """Add a point before the first one, so that the prediction is y + h f."""
    first, before = room.slot[1], room.slot[2]
    room.past[1] = h
    for i in range(room.y.shape[1]):
        room.y[before, i] = room.y[first, i] - h * room.work_rows[1, i]
    for i in range(room.slopes.shape[1]):
        room.s[before, i] = room.s[first, i] - h * room.slopes[0, i]


@kernel(inline=True)
def _predict(room, h):
    """Set the formula, its known part and the prediction.

    Returns the number of past points in the prediction.
    """
    psi, past, w, c, y = room.psi, room.past, room.w, room.c, room.y
    k, points = room.state[ORDER], room.state[POINTS]
    psi[1] = h
    for j in range(2, DEPTH):
        psi[j] = h + past[j - 1]
    bdf_formula(psi, k, w, c)
    nodes = k if k == points > 1 else k + 1
    if nodes > k:
        add_node(psi, nodes, w)
    rows, coefficients = registers_of(room.slot, c)
    rows, weights = registers_of(room.slot, w)
    for i in range(y.shape[1]):
        room.base[i] = past_point(y, rows, coefficients, i)
        room.start[i] = y[rows[1], i] + past_point(y, rows, weights, i)
    return nodes


@kernel(inline=True)
def _is_fresh(task, e, room, step):
    """Tell whether the matrix of the states is factorised for this step."""
    shift, c0, state = room.memory[SHIFT], room.c[0], room.state
    if step >= 0:
        return shift == 0.0 or (task.orders[step] & FRESH) != 0
    if state[MUST_DIVIDE] != 0 or e.patience < _ALWAYS_FRESH or shift == 0.0:
        return True
    return abs(c0 - shift) > _MOST_DRIFT * shift or state[ITERATIONS] > min(4.0 + 0.5 * e.patience, 14.0)


@kernel(inline=True)
def _ask_for_order(e, room):
    """Note the matrix whose entries grow; return the status that asks for another order of elimination."""
    for g in range(room.jac.size):
        e.trouble[g] = room.jac[g]
    e.trouble[room.jac.size] = room.c[0] if e.algebraic.size == 0 else 0.0
    return _REORDER


def _stepper(form: Form) -> tuple[Any, Any]:
    """Return the kernels that attempt a step and differentiate it; see `Method.attempt` and `Method.differentiate`."""
    newton_step = newton_of(form.matrix, form.residual, balanced=form is BALANCE)
    directions_of_step = directions_of(form)

    @kernel(inline=True)
    def attempt(task, e, room, t, h, t_new, t_out, step):
        state, psi, c = room.state, room.psi, room.c
        if step >= 0:
            state[ORDER] = task.orders[step] & _ORDER_BITS
        if state[POINTS] == 1:
            _point_before(room, h)
        nodes = _predict(room, h)
        fresh, k = _is_fresh(task, e, room, step), state[ORDER]
        outcome, worst = newton_step(task, e, room, t_new, fresh)
        state[FRESH_NOW], state[WORST] = 1 if fresh else 0, worst
        if outcome == TOO_LARGE:
            return _ask_for_order(e, room), np.inf, worst
        if outcome != CONVERGED:
            return (UNSOLVED if outcome == SLOW else NOT_FINITE), np.inf, worst
        scale = (2.0 if state[POINTS] == 1 else 1.0) / (psi[nodes] * (c[0] - (1.0 / psi[k] if nodes == k else 0.0)))
        room.memory[SCALE] = scale
        ratio, worst = ratio_of_error(
            room.y, room.slot, room.w, task.n, scale, task.rtol, room.atol, 1, power_of(k, (task.choices & POWER) != 0)
        )
        state[WORST] = worst
        return SOLVED, ratio, worst

    @kernel(inline=True)
    def differentiate(task, e, room, t, h, t_new):
        task.counts[JACOBIAN] += 1
        solved, bad = directions_of_step(task, e, room, t_new)
        if solved == TOO_LARGE:
            return _ask_for_order(e, room), bad, 0.0
        if solved != DIRECTIONS_SOLVED:
            return _NONFINITE_DERIVATIVE, bad, 0.0
        if room.r2.shape[1] > 0:
            task.counts[SECOND] += n_pairs(task)
        if room.slopes.shape[1] == 0:
            return _OK, -1, 0.0
        ratio, bad = ratio_of_error(
            room.s, room.slot, room.w, room.s.shape[1], room.memory[SCALE], task.rtol, room.atol, 4,
            power_of(room.state[ORDER], (task.choices & POWER) != 0),
        )  # fmt: skip
        return _OK, bad // 4 % task.n, ratio

    return attempt, differentiate


@kernel(inline=True)
def _retry(task, room, ratio, outcome):
    state = room.state
    state[FAILS] += 1
    state[SINCE] = 0
    state[MUST_DIVIDE] = 1
    converged = outcome == SOLVED
    finite = outcome == UNSOLVED or (converged and ratio < np.inf)
    state[ORDER], factor = retry_step(state[ORDER], state[FAILS], ratio, converged, finite)
    return factor


@kernel(inline=True)
def _interpolate(task, room, t, h, t_new, t_out, derivative):
    _evaluate(task, room, t_new, t_out, derivative, room.s_out.shape[1], room.s2_out.shape[1])


@kernel(inline=True)
def _peek(task, room, t, h, t_new, t_out, derivative):
    _evaluate(task, room, t_new, t_out, derivative, 0, 0)


@kernel(inline=True)
def _evaluate(task, room, t_new, t_out, derivative, n1, n2):
    """Evaluate the polynomial through the new point and as many past ones as the order is."""
    if derivative > 0:
        weight_slopes_at(room.psi, room.state[ORDER], t_out - t_new, derivative, room.c)
        rows, weights = registers_of(room.slot, room.c)
        for i in range(task.n):
            room.y_out[0, i] = interpolated_slope(room.y, rows, weights, i)
        for i in range(n1):
            room.s_out[0, i] = interpolated_slope(room.s, rows, weights, i)
        return
    weights_at(room.psi, room.state[ORDER], t_out - t_new, room.c)
    rows, weights = registers_of(room.slot, room.c)
    for i in range(task.n):
        room.y_out[0, i] = interpolated_value(room.y, rows, weights, i)
    for i in range(n1):
        room.s_out[0, i] = interpolated_value(room.s, rows, weights, i)
    for i in range(n2):
        room.s2_out[0, i] = interpolated_value(room.s2, rows, weights, i)


@kernel(inline=True)
def _advance(task, room, t, h, t_new, ratio, replay):
    """Let the new point be the newest of the past ones; the row of the oldest is free for the next."""
    state, slot, factor = room.state, room.slot, 1.0
    mark = state[ORDER] + (FRESH if state[FRESH_NOW] != 0 else 0)
    state[TAKEN] += 1
    state[SINCE] += 1
    state[FAILS] = state[MUST_DIVIDE] = 0
    if not replay and state[SINCE] > state[ORDER]:
        state[ORDER], factor = next_step(task, room, ratio)
        if factor != 1.0:
            state[SINCE] = 0
    for j in range(1, slot.size):
        room.past[j] = room.psi[j]
    freed = slot[slot.size - 1]
    for j in range(slot.size - 1, 0, -1):
        slot[j] = slot[j - 1]
    slot[0] = freed
    state[POINTS] = min(state[POINTS] + 1, DEPTH - 1)
    return _OK, factor, mark


@kernel(inline=True, allocating=True)
def _current(room):
    return room.y, room.s, room.s2, room.slot[1]


def _method(form: Form) -> Method:
    attempt, differentiate = _stepper(form)
    return Method(
        1, make_room, seed, _beginner(form), attempt, differentiate, _retry, _interpolate, _advance, _current, _peek,
        None if form is EXPLICIT else consistency(_current),
    )  # fmt: skip


class Ddm(SingleMethod):
    """Variable-order BDF with the decoupled direct method; see the module for the mathematics.

    Parameters
    ----------
    test_sensitivities
        Whether first-order sensitivities take part in the error test, with the tolerances of the states.
    scale_tolerance
        Whether a step of order k is held to ``tolerance^((k + 1)/k)``, (37) of Guay and McLean (1993), which makes the
        error more nearly proportional to the tolerance.
    """

    name = "ddm"
    kernel = staticmethod(time_loop("ddm_solve", _method(EXPLICIT), implicit=True))
    equations_kernel = staticmethod(time_loop("ddm_solve_equations", _method(BALANCE), implicit=True))
    implicit = True
    variable_order = True

    def __init__(self, *, test_sensitivities: bool = False, scale_tolerance: bool = False) -> None:
        self.choices = (TEST if test_sensitivities else 0) | (POWER if scale_tolerance else 0)

    def check(self, grid: StepGrid, n_pieces: int) -> None:
        """Refuse a grid whose orders do not fit."""
        super().check(grid, n_pieces)
        if grid.orders.size != grid.steps.size:
            raise OdefitError(f"a step grid of '{self.name}' needs the order of each of its {grid.steps.size} steps")
        before = np.concatenate([np.arange(n) for n in grid.counts[_COUNTERS:]]) if n_pieces else np.empty(0)
        orders = grid.orders & _ORDER_BITS
        if (orders < 1).any() or (orders > np.minimum(before + 1, MAX_ORDER)).any():
            raise OdefitError(f"the orders of a step grid of '{self.name}' do not fit: a step has too few before it")
