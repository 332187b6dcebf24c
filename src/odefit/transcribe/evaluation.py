"""Tasks in one native call: parameters, integration, residuals.

A small problem would spend as long between kernels as in them.  Therefore an evaluation is one kernel.  What it needs
of each task stands in a row of a table (see `odefit.transcribe.record`); the method that integrates a task, and the
sink that makes rows of residuals at its output times, are called by their addresses there.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.compile.parameter_map import Mapping, Unknowns, fill_slots, map_slots
from odefit.integrate.directions import n_blocks, place_of
from odefit.integrate.pieces import lay_pieces
from odefit.integrate.steady_state import equilibrium_at, reach_steady_state, rest_behind
from odefit.integrate.task import METHOD, Task, switching_at, task_at
from odefit.native.kernel import kernel
from odefit.native.kernel_calls import kernel_call
from odefit.native.pool import keep_alive
from odefit.transcribe.record import FITTING, SHARED, Begin, Measured, Penalty
from odefit.transcribe.rows import measured_at, norm_of, scratch_size, tally, write_priors, write_rows

_call_method = kernel_call(METHOD)
_mapping_at, _begin_at = FITTING.reader(Mapping), FITTING.reader(Begin)
_unknowns_at, _penalty_at = SHARED.reader(Unknowns), SHARED.reader(Penalty)
_write_seeds = FITTING.writer(Task, "p", "y0", "dp", "dy0")
_write_settings = FITTING.writer(Task, "rtol", "max_step", "aims", "atol", "counts", "stop", "sink")
_write_grid = FITTING.writer(Task, "steps", "orders")
_write_aims = FITTING.writer(Measured, "order", "width", "residual", "blur", "jacobian", "slots", "slopes", "scratch")


@kernel
def settle_tasks(table, first_count, counts, tolerances, stop, sink):
    """Write into the table of a fit what stays the same in all its evaluations.

    Task i counts its steps in the entries ``first_count[i]`` to ``first_count[i + 1] - 1`` of `counts`.  `tolerances`
    are rtol, max_step, and aims and atol of the states of all tasks, one behind the other.
    """
    rtol, max_step, aims, atol = tolerances
    a = 0
    for i in range(table.shape[0]):
        b = a + task_at(table, i).n
        count = counts[first_count[i] : first_count[i + 1]]
        _write_settings(table, i, (rtol, max_step, aims[a:b], atol[a:b], count, stop, sink))
        a = b


@kernel(inline=True, allocating=True)
def _prepare(table, i, slots, order, residual, blur, jacobian, width):
    """Put what task `i` runs with, and where its rows go, into the table; return the memory that holds it."""
    task, mapping, measured = task_at(table, i), _mapping_at(table, i), measured_at(table, i)
    n, n_p, q = task.n, task.n_parameters, task.n_columns if order >= 1 else 0
    pool = np.empty(n + n_p + (n + n_p) * q + scratch_size(task, measured))
    p, y0, at = pool[:n_p], pool[n_p : n_p + n], n_p + n
    dp, dy0, at = pool[at : at + n_p * q], pool[at + n_p * q : at + (n_p + n) * q], at + (n_p + n) * q
    nothing = pool[:0]
    begin = _begin_at(table, i)
    start = begin.since if begin.at_node != 0 else task.start
    map_slots(mapping, start, slots, q, order, (p, y0, dp, dy0, nothing, nothing))
    if begin.state.size > 0:
        _begin_elsewhere(begin, q, p, y0, dp, dy0)
    _write_seeds(table, i, (p, y0, dp, dy0))
    _write_aims(table, i, (order, width, residual, blur, jacobian, slots[0], slots[1], pool[at:]))
    return pool


@kernel
def _begin_elsewhere(begin, q, p, y0, dp, dy0):
    """Put the steady state of another task, or a node, in the place of initial values, with its derivatives."""
    width = begin.first.size // begin.state.size
    for j in range(begin.n_states):
        y0[j] = begin.state[j]
        for c in range(q):
            other = begin.column[c]
            dy0[j * q + c] = begin.first[j * width + other] if other >= 0 else 0.0
    for k in range(begin.entry.size):
        entry, j = begin.entry[k], begin.of_state[k]
        p[entry] = y0[j]
        for c in range(q):
            dp[entry * q + c] = dy0[j * q + c]
    return 0


@kernel
def _observe_rest(table, i, order):
    """Let task `i`, integrated to its end, come to rest, and fill the rows of its measurements there."""
    status, t, cause = rest_behind(table, i, order)
    if status == 0:
        task, rest = task_at(table, i), equilibrium_at(table, i)
        n, q = task.n, task.n_columns
        y, s, s2 = np.empty((1, n)), np.zeros((1, 4 * n * n_blocks(task.n_directions))), np.empty((1, 0))
        for j in range(n):
            y[0, j] = rest.state[j]
            for c in range(task.n_directions if order >= 1 else 0):
                s[0, place_of(c, j, n)] = rest.first[j * q + c]
        write_rows(table, i, 0, y, s, s2)
    return status, t, cause


@kernel
def evaluate_tasks(table, shared, first, last, x, order, replay, residual, blur, jacobian, where):
    """Integrate the tasks `first` to `last` - 1 and fill their rows; behind the last task of all, those of the priors.

    Equilibrations come before the tasks that begin where they end.
    Without `replay` new steps are chosen, and their addresses noted in the table: whoever calls must keep them.

    Parameters
    ----------
    shared
        See `SHARED`.
    residual, blur, jacobian
        Filled: (N,), what the integration does not resolve of the data (number of data,), (N, width); below order 1
        the last two have no rows.
    where
        Task i has the steps ``where[i - first]`` to ``where[i - first + 1] - 1`` of those that are returned; filled.

    Returns
    -------
    failed, status, t, cause, ratio, half_square, penalty, bad, resolution
        See `Shot`.
    steps, orders
        Those that were chosen; None on replay.
    """
    unknowns, prior = _unknowns_at(shared, 0), _penalty_at(shared, 0)
    n_slots, width = unknowns.values.size, jacobian.shape[1]
    pool, flat = np.empty(3 * n_slots), jacobian.reshape(jacobian.size)
    slots = pool[:n_slots], pool[n_slots : 2 * n_slots], pool[2 * n_slots :]
    fill_slots(unknowns, x, slots[0], slots[1], slots[2])
    size = 0 if replay else 64
    taken, orders, n_taken = np.empty(size), np.empty(size, np.int64), 0
    ratio_most, half_square, penalty, bad, resolution = 0.0, 0.0, 0.0, -1, 0.0
    failed, status, t, cause, behind = -1, 0, 0.0, -1, last
    if not replay:
        where[0] = 0
    for i in range(first, last):
        room = _prepare(table, i, slots, order, residual, blur, flat, width)
        task, measured = task_at(table, i), measured_at(table, i)
        pieces, ratio = room, 0.0
        if switching_at(table, i).value != 0:
            status, cause, pieces = lay_pieces(table, i, order, replay)
            t = task.start
        rest = equilibrium_at(table, i)
        if rest.keeper != 0 and rest.follows == 0:
            status, t, cause = reach_steady_state(table, i, order)
        elif status == 0:
            status, t, cause, ratio, _, n_taken, taken, orders = _call_method(
                task.method, (table, i, order, replay, taken, orders, n_taken)
            )
            if status == 0 and rest.follows != 0:
                status, t, cause = _observe_rest(table, i, order)
        keep_alive(room)
        keep_alive(pieces)
        if status != 0:
            failed, behind = i, i
            break
        if not replay:
            where[i - first + 1] = n_taken
        begin = measured.first_row
        squares, bad_row = tally(residual, flat, width, begin, begin + measured.value.size, order)
        ratio_most, half_square, bad = max(ratio_most, ratio), half_square + squares, max(bad, bad_row)
        if order >= 1 and task.n > 0:
            resolution = math.hypot(resolution, norm_of(blur, begin, begin + measured.value.size))
    if not replay:
        for i in range(first, behind):
            a, b = where[i - first], where[i - first + 1]
            _write_grid(table, i, (taken[a:b], orders[a:b]))
    if failed < 0 and last == table.shape[0] and prior.value != 0:
        write_priors(prior, slots[0], slots[1], order, residual, flat, width)
        penalty, bad_row = tally(residual, flat, width, prior.first_row, residual.size, order)
        bad = max(bad, bad_row)
    keep_alive(pool)
    if replay:
        return failed, status, t, cause, ratio_most, half_square, penalty, bad, resolution, None, None
    return failed, status, t, cause, ratio_most, half_square, penalty, bad, resolution, taken, orders
