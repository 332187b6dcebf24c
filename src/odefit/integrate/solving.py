"""One run by itself: a table of one row, whose sink keeps states and sensitivities."""

from __future__ import annotations

from functools import cache

import numpy as np

from odefit.compile import CompiledModel
from odefit.errors import OdefitError
from odefit.integrate.contract import Counters, Integrator, Run, Status, StepGrid, Trajectory
from odefit.integrate.selection import Selection
from odefit.integrate.task import KEEPING, METHOD, SINK, Kept, Task, keep_states
from odefit.native.kernel import kernel
from odefit.native.kernel_calls import kernel_address, kernel_call
from odefit.native.linear_systems import Elimination
from odefit.native.records import packed
from odefit.native.stop import StopFlag

_call_method = kernel_call(METHOD)
_write_task, _write_kept = KEEPING.writer(Task), KEEPING.writer(Kept)
_WIDTH = KEEPING.width
_ELIMINATION = slice(KEEPING.place(Elimination, "row_ptr"), KEEPING.place(Kept, "y"))
_NO_ELIMINATION = packed(Elimination())
_COUNTERS = len(Counters._fields)
_STATUS = tuple(Status)
_NEVER = StopFlag().array
_NO_STEPS, _NO_ORDERS = np.empty(0), np.empty(0, np.int64)


@cache
def _keeper() -> int:
    return kernel_address(keep_states, SINK)


@kernel
def solve_one(addresses, numbers, run, grid, stop, elimination, kept):
    """Integrate one run.

    Parameters
    ----------
    addresses
        Of the method, the sink, and the four functions of the model.
    numbers
        rtol, atol, max_steps, choices, order, and whether the grid is replayed.
    run, grid
        See `Run`; steps, orders and counts.
    elimination
        Words of the record.
    kept
        Where the solution goes.

    Returns what a method returns.
    """
    method, sink, value, directions, jacobian, second = addresses
    rtol, atol, max_steps, choices, order, replay = numbers
    t0, y0, p, u, times, ends, dy0, dp, d2y0, d2p, kinks = run
    steps, orders, counts = grid
    table = np.empty((1, _WIDTH), np.int64)
    q = dy0.shape[1]
    _write_task(
        table, 0,
        (
            value, directions, jacobian, second, y0.size, p.size, q, q, t0, rtol, atol, max_steps, choices, p, u, y0,
            dy0.reshape(dy0.size), dp.reshape(dp.size), d2y0.reshape(d2y0.size), d2p.reshape(d2p.size), times, ends,
            kinks, steps, orders, counts, stop, sink, method,
        ),
    )  # fmt: skip
    table[0, _ELIMINATION] = elimination
    y, s, s2 = kept
    _write_kept(table, 0, (y.reshape(y.size), s.reshape(s.size), s2.reshape(s2.size)))
    size = 1 if replay else 64
    return _call_method(method, (table, 0, order, replay, np.empty(size), np.empty(size, np.int64), 0))


def solve_run(
    choice: Integrator,
    model: CompiledModel,
    run: Run,
    grid: StepGrid | None,
    rtol: float,
    atol: float,
    order: int,
    max_steps: int,
    stop: StopFlag | None,
) -> Trajectory:
    """Solve `run` by the method that `choice` takes; see `Integrator.solve`."""
    if not run.times.flags.c_contiguous:
        run = run._replace(times=np.ascontiguousarray(run.times))
    n, m, rhs = run.y0.size, run.times.size, model.rhs
    kept = (
        np.empty((m, n)),
        np.empty((m, n, run.dy0.shape[1] if order >= 1 else 0)),
        np.empty((m, n, run.d2y0.shape[1] if order == 2 else 0)),
    )
    selection = Selection(choice, model, rtol, max_steps)
    if grid is None:
        selection.choose()
        told = (_NO_STEPS, _NO_ORDERS, np.zeros(_COUNTERS + run.ends.size, np.int64))
    else:
        selection.replay(grid)
        selection.method.check(grid, run.ends.size)
        told = (grid.steps, grid.orders, grid.counts.copy())
    while True:
        method = selection.method
        if order > method.highest_order:
            raise OdefitError(
                f"the integrator '{method.name}' has no second-order sensitivities, order = {order} was asked for; "
                "take 'dopri5' or 'ddm' for them, or order = 1"
            )
        elimination = packed(selection.elimination) if method.implicit else _NO_ELIMINATION
        status, t_end, cause, ratio, reached, n_steps, steps, orders = solve_one(
            (method.address, _keeper(), rhs.value, rhs.directions, rhs.jacobian, rhs.second if order == 2 else 0),
            (rtol, atol, selection.max_steps, selection.choices, order, grid is not None),
            (*run,), told, _NEVER if stop is None else stop.array, elimination, kept,
        )  # fmt: skip
        if not selection.answer(status):
            break
    if reached < m:
        for part in kept:
            part[reached:] = np.nan  # not reached: NaN, never zero
    counts = told[2]
    if grid is None:
        taken_orders = orders[:n_steps] if method.variable_order else _NO_ORDERS
        grid = StepGrid(method.name, steps[:n_steps], counts, taken_orders, selection.algebra)
    elif grid.algebra is not selection.algebra:
        grid = grid._replace(algebra=selection.algebra)
    return Trajectory(_STATUS[status], t_end, cause, *kept, grid, ratio, method.derivatives, counts)


class Solves:
    """An integrator that solves runs by the candidates it names."""

    def solve(
        self: Integrator,
        model: CompiledModel,
        run: Run,
        *,
        grid: StepGrid | None = None,
        rtol: float,
        atol: float,
        order: int = 0,
        max_steps: int = 100_000,
        stop: StopFlag | None = None,
    ) -> Trajectory:
        """See `Integrator.solve`."""
        return solve_run(self, model, run, grid, rtol, atol, order, max_steps, stop)
