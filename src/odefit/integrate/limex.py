"""LIMEX: linearly implicit Euler with extrapolation, of variable order and step size, for stiff problems.

P. Deuflhard and U. Nowak, Extrapolation integrators for quasilinear implicit ODEs (1987); U. Nowak, A. Grah and M.
Schreier, J. Comput. Appl. Math. 183 (2005) 301-311, section 3.  From (t0, y0) a step of length H is taken with
j = 1, 2, .. equal small steps h = H/j,

    (1/h - A) d_i = f(t_{i+1}, y_i, p),    y_{i+1} = y_i + d_i,    A = f_y(t0, y0, p),

implicit in time and with one matrix for all small steps.  For any A the result has an expansion in powers of h, and is
extrapolated to h = 0 (`odefit.integrate.extrapolation`): with k rows the order is k, at the ends of steps and between
them.  There is no iteration: the solution is an explicit function of (y0, p) and of the sizes and orders of the steps.

**Sensitivities** are the derivative of this function.  The matrix depends on (y0, p) too: with a direction s of the
states, s_0 at the beginning of the step, and dp of the parameters,

    (1/h - A) ds_i = f_y(t_{i+1}, y_i) s_i + f_p(t_{i+1}, y_i) dp + D2f(t0, y0)[(s_0, dp), (d_i, 0)],
    s_{i+1} = s_i + ds_i,

with the factors that the states had, and extrapolation with the same weights.  Leaving out D2f, which Nowak et al. do
("block diagonal part"), gives the derivative of nothing that is computed: of one small step, H = 1, for y' = -p y at
p = 1 and y0 = 1/2 it makes -0.25 of -0.125.  There is no second order, which would need third derivatives of f.

Steps and orders are chosen as in `odefit.integrate.limex_control`.  A grid notes the order of each step; a replay
repeats a run to the last bit.  Derivatives in A that are not finite are left out: the expansion does not need them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from odefit.errors import OdefitError
from odefit.integrate.balance import INCREMENT
from odefit.integrate.contract import Status, StepGrid
from odefit.integrate.ddm_control import first_step_of
from odefit.integrate.extrapolation import MOST_ROWS, dense_weights, increments_before
from odefit.integrate.limex_control import allowed_size, first_target, is_hopeless, next_step, retry_step, set_costs
from odefit.integrate.limex_forms import EQUATIONS, EXPLICIT, Form, consistent
from odefit.integrate.limex_room import (
    ASKED,
    BEGINNING,
    HAS_MATRIX,
    OF_PIECE,
    OF_STEP,
    REJECTED,
    ROWS,
    TARGET,
    TRIED,
    make_room,
    seed,
)
from odefit.integrate.limex_rows import DONE, TOO_LARGE, directions_of_rows, extrapolate, row_of_states
from odefit.integrate.limex_rows import NOT_FINITE as ROW_NOT_FINITE
from odefit.integrate.single_method import SingleMethod
from odefit.integrate.stepping import RHS, continued_step, first_nonfinite, initial_step
from odefit.integrate.time_loop import NOT_FINITE, SOLVED, UNSOLVED, Method, time_loop
from odefit.native.kernel import kernel

_OK, _NONFINITE_START, _NONFINITE_DERIVATIVE, _REORDER = (
    int(one) for one in (Status.OK, Status.NONFINITE_START, Status.NONFINITE_DERIVATIVE, Status.REORDER)
)


def _beginner(form: Form) -> Any:
    """Return `Method.begin`."""
    linearise, slope, in_equations, first_step = (
        form.linearise,
        form.slope,
        form.in_equations,
        first_step_of(form.slope),
    )

    @kernel(inline=True)
    def begin(task, e, room, t, t_end, h, replay):
        n, state = task.n, room.state
        slope(task, e, room, t, INCREMENT * (t_end - t), room.y, 0, room.f, 0)
        task.counts[RHS] += 1
        cause = max(first_nonfinite(room.f, 0, n), first_nonfinite(room.y, 0, n))
        if cause >= 0:
            return _NONFINITE_START, cause, 0.0
        for i in range(room.rate.shape[1]):
            room.rate[0, i] = 0.0
        for i in range(room.s_rate.shape[1]):
            room.s_rate[0, i] = 0.0
        state[HAS_MATRIX], state[REJECTED] = OF_PIECE, 0
        room.memory[ASKED] = np.inf
        if not in_equations:  # before others ask for algebraic unknowns elsewhere
            linearise(task, e, room, t)
        guess = 0.0
        if not replay:
            if state[TARGET] == 0:
                set_costs(e, room.costs)
                state[TARGET] = first_target(task.rtol)
            task.counts[RHS] += 1
            if in_equations:
                guess = first_step(task, e, room, t, t_end, room.y, room.f, room.work_rows)
            else:
                guess = initial_step(task, t, t_end, room.y, room.f, 1.0 / state[TARGET], room.work_rows)
            guess = continued_step(guess, h)
        if in_equations:  # rates were found in the same place
            linearise(task, e, room, t)
        return _OK, -1, guess

    return begin


@kernel(inline=True)
def _ask_for_order(e, room, shift):
    """Note the matrix whose entries grow; return the status that asks for another order of elimination."""
    for g in range(room.jac.size):
        e.trouble[g] = room.jac[g]
    e.trouble[room.jac.size] = shift
    return _REORDER


def _attempter(form: Form) -> Any:
    """Return `Method.attempt`."""
    linearise, evaluate, in_equations, row = form.linearise, form.evaluate, form.in_equations, row_of_states(form)

    @kernel(inline=True)
    def attempt(task, e, room, t, h, t_new, t_out, step):
        n, state, memory = task.n, room.state, room.memory
        replay, target = step >= 0, state[TARGET]
        lenient = h < 0.99 * memory[ASKED]  # the first step of a piece, or one that was cut short
        memory[TRIED], memory[BEGINNING] = h, t
        most = task.orders[step] if replay else min(target + 1, MOST_ROWS)
        if state[HAS_MATRIX] == 0 or (state[HAS_MATRIX] == OF_STEP and task.slots > 0):
            # where there are algebraic unknowns, the last bits of their solutions depend on who asked before: an
            # attempt behind one that was rejected asks as one does that is replayed
            linearise(task, e, room, t)
            state[HAS_MATRIX] = OF_STEP
        ratio, worst, before = np.inf, 0, np.inf
        for j in range(1, most + 1):
            outcome, bad = row(task, e, room, t, h, t_new, j)
            state[ROWS] = j
            if outcome == TOO_LARGE:
                return _ask_for_order(e, room, 0.0 if in_equations else j / h), np.inf, worst
            if outcome != DONE:
                return (NOT_FINITE if outcome == ROW_NOT_FINITE else UNSOLVED), np.inf, max(bad, worst)
            if j == 1 and most > 1:
                continue
            if replay and j < most:
                continue
            ratio, worst = extrapolate(task, room, j, not in_equations)
            if not math.isfinite(ratio):
                return NOT_FINITE, np.inf, worst
            if replay:
                break
            room.sizes[j] = allowed_size(ratio, j)
            if ratio <= 1.0 and (lenient or j >= target - 1):
                break
            if is_hopeless(j, target, ratio, before, lenient):
                break
            before = ratio
        if replay or ratio <= 1.0:  # rows end before f is asked for there: the end must be in its domain, too
            evaluate(task, room, t_new, room.y, 1)
            bad = first_nonfinite(room.f, 0, n)
            if bad >= 0:
                return NOT_FINITE, np.inf, bad
        return SOLVED, ratio, worst

    return attempt


def _differentiator(form: Form) -> Any:
    """Return `Method.differentiate`."""
    directions = directions_of_rows(form)

    @kernel(inline=True)
    def differentiate(task, e, room, t, h, t_new):
        bad = directions(task, e, room, t, h, t_new, room.state[ROWS])
        return (_OK if bad < 0 else _NONFINITE_DERIVATIVE), (bad // 4 % task.n if bad >= 0 else -1), 0.0

    return differentiate


@kernel(inline=True)
def _retry(task, room, ratio, outcome):
    return retry_step(room, outcome == SOLVED and ratio < np.inf)


@kernel(inline=True)
def _combine(values, row, increments, k, derivative, h, weights, out):
    """Set ``out[0]`` to the polynomial of order `k` that begins with ``values[row]``, or to a derivative of it."""
    scale = 1.0 if derivative == 0 else (1.0 / h if derivative == 1 else 1.0 / (h * h))
    for i in range(out.shape[1]):
        out[0, i] = values[row, i] if derivative == 0 else 0.0
    for a in range(increments_before(k + 1)):
        weight = weights[a] * scale
        for i in range(out.shape[1]):
            out[0, i] += weight * increments[a, i]


@kernel(inline=True)
def _interpolate(task, room, t, h, t_new, t_out, derivative):
    _peek(task, room, t, h, t_new, t_out, derivative)
    if derivative == 0 and t_out == t_new:
        for i in range(room.s.shape[1]):
            room.s_out[0, i] = room.s[1, i]
    else:
        _combine(room.s, 0, room.ds, room.state[ROWS], derivative, h, room.weights, room.s_out)


@kernel(inline=True)
def _peek(task, room, t, h, t_new, t_out, derivative):
    if derivative == 0 and t_out == t_new:
        for i in range(task.n):
            room.y_out[0, i] = room.y[1, i]
        return
    dense_weights(room.state[ROWS], (t_out - t) / h, derivative, room.weights)
    _combine(room.y, 0, room.d, room.state[ROWS], derivative, h, room.weights, room.y_out)


def _advancer(form: Form) -> Any:
    """Return `Method.advance`."""
    in_equations = form.in_equations

    @kernel(inline=True)
    def advance(task, room, t, h, t_new, ratio, replay):
        used = room.state[ROWS]
        if in_equations:
            dense_weights(used, 1.0, 1, room.weights)
            _combine(room.y, 0, room.d, used, 1, h, room.weights, room.rate)
            _combine(room.s, 0, room.ds, used, 1, h, room.weights, room.s_rate)
        for i in range(task.n):
            room.y[0, i] = room.y[1, i]
        for i in range(room.s.shape[1]):
            room.s[0, i] = room.s[1, i]
        room.state[HAS_MATRIX] = 0
        return _OK, (1.0 if replay else next_step(room, h)), used

    return advance


@kernel(inline=True, allocating=True)
def _current(room):
    return room.y, room.s, room.s2_out, 0


def _method(form: Form) -> Method:
    """Return the steps of the method for equations of this form."""
    return Method(
        1, make_room, seed, _beginner(form), _attempter(form), _differentiator(form), _retry, _interpolate,
        _advancer(form), _current, _peek, consistent if form.in_equations else None,
    )  # fmt: skip


class Limex(SingleMethod):
    """Linearly implicit Euler with extrapolation; see the module for the mathematics."""

    name = "limex"
    kernel = staticmethod(time_loop("limex_solve", _method(EXPLICIT), implicit=True))
    equations_kernel = staticmethod(time_loop("limex_solve_equations", _method(EQUATIONS), implicit=True))
    implicit = True
    variable_order = True
    highest_order = 1
    needs_second = True

    def check(self, grid: StepGrid, n_pieces: int) -> None:
        """Refuse a grid whose orders do not fit."""
        super().check(grid, n_pieces)
        if grid.orders.size != grid.steps.size:
            raise OdefitError(f"a step grid of '{self.name}' needs the order of each of its {grid.steps.size} steps")
        if (grid.orders < 1).any() or (grid.orders > MOST_ROWS).any():
            raise OdefitError(f"the orders of a step grid of '{self.name}' are 1 to {MOST_ROWS}")
