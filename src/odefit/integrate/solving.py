"""One run by itself: a table of one row, whose sink keeps states and sensitivities."""

from __future__ import annotations

from functools import cache

import numpy as np

from odefit.compile import CompiledModel
from odefit.errors import OdefitError
from odefit.integrate.border_record import PER_CROSSING, Bordering, room_for_crossings
from odefit.integrate.contract import Counters, Integrator, Run, Status, StepGrid, Tolerance, Trajectory
from odefit.integrate.pieces import lay_pieces
from odefit.integrate.selection import Selection
from odefit.integrate.sizes import AUTO, PART_OF_GAIN, PART_OF_RTOL, USUAL, USUAL_ATOL, aims_of
from odefit.integrate.task import KEEPING, METHOD, SINK, Gathering, Kept, Switching, Task, keep_states
from odefit.native.kernel import kernel
from odefit.native.kernel_calls import kernel_address, kernel_call
from odefit.native.linear_systems import Elimination
from odefit.native.pool import keep_alive
from odefit.native.records import packed
from odefit.native.stop import StopFlag

_call_method = kernel_call(METHOD)
_write_task, _write_kept = KEEPING.writer(Task), KEEPING.writer(Kept)
_WIDTH = KEEPING.width
_ELIMINATION = slice(KEEPING.place(Elimination, "row_ptr"), KEEPING.place(Switching, "value"))
_SWITCHING = slice(KEEPING.place(Switching, "value"), KEEPING.place(Gathering, "integrals"))
_GATHERING = slice(KEEPING.place(Gathering, "integrals"), KEEPING.place(Bordering, "value"))
_BORDERING = slice(KEEPING.place(Bordering, "value"), KEEPING.place(Kept, "y"))
_NO_SWITCHING = packed(Switching())
_NO_ELIMINATION = packed(Elimination())
_COUNTERS = len(Counters._fields)
_PASSED = Run._fields.index("occurrences")
_STATUS = tuple(Status)
_NEVER = StopFlag().array
_NO_STEPS, _NO_ORDERS = np.empty(0), np.empty(0, np.int64)


@cache
def keeper_address() -> int:
    """Return where `keep_states` is."""
    return kernel_address(keep_states, SINK)


@kernel
def solve_one(addresses, numbers, run, grid, stop, elimination, switching, gathering, bordering, kept):
    """Integrate one run.

    Parameters
    ----------
    addresses
        Of the method, the sink, and the four functions of the model.
    numbers
        rtol, max_step, max_steps, choices, order, whether the grid is replayed, and whether ends of pieces move.
    run, grid
        See `Run`; aims, absolute tolerances, steps, orders and counts.
    elimination, switching, gathering, bordering
        Words of the records.
    kept
        Where the solution goes.

    Returns what a method returns.
    """
    method, sink, value, directions, jacobian, second = addresses
    rtol, max_step, max_steps, choices, order, replay, moving = numbers
    t0, y0, p, u, times, ends, dy0, dp, d2y0, d2p, kinks, slots, after = run
    aims, atol, steps, orders, counts = grid
    table = np.empty((1, _WIDTH), np.int64)
    q = dy0.shape[1]
    if moving:  # start and length of pieces are written into them
        p, dp, d2p = p.copy(), dp.copy(), d2p.copy()
    # numba takes no tuple of more than thirty as one
    model = (value, directions, jacobian, second, y0.size, p.size, q, q, t0, rtol, max_step, max_steps, choices)
    seeds = (p, u, y0, dy0.reshape(dy0.size), dp.reshape(dp.size), d2y0.reshape(d2y0.size), d2p.reshape(d2p.size))
    course = (
        times,
        after,
        ends,
        kinks,
        aims,
        atol,
        steps,
        orders,
        counts,
        stop,
        slots,
        1 if moving else 0,
        sink,
        method,
    )
    _write_task(table, 0, model + seeds + course)
    table[0, _ELIMINATION], table[0, _SWITCHING] = elimination, switching
    table[0, _GATHERING], table[0, _BORDERING] = gathering, bordering
    y, s, s2 = kept
    _write_kept(table, 0, (y.reshape(y.size), s.reshape(s.size), s2.reshape(s2.size)))
    size = 1 if replay else 64
    taken, noted = np.empty(size), np.empty(size, np.int64)
    pieces = taken
    if switching[0] != 0:
        status, count, pieces = lay_pieces(table, 0, order, replay)
        if status != 0:
            return status, t0, count, 0.0, 0, 0, taken, noted
    result = _call_method(method, (table, 0, order, replay, taken, noted, 0))
    keep_alive(pieces)
    keep_alive(p)
    keep_alive(dp)
    keep_alive(d2p)
    return result


def solve_run(
    choice: Integrator,
    model: CompiledModel,
    run: Run,
    grid: StepGrid | None,
    rtol: float,
    atol: Tolerance,
    order: int,
    max_step: float,
    max_steps: int,
    stop: StopFlag | None,
) -> Trajectory:
    """Solve `run` by the method that `choice` takes; see `Integrator.solve`."""
    if not run.times.flags.c_contiguous:
        run = run._replace(times=np.ascontiguousarray(run.times))
    if model.switches is not None and model.switches.moving and run.p.size == model.n_parameters - 2:
        run = _with_piece(run)
    n, m, rhs, switches = run.y0.size, run.times.size, model.rhs, model.switches
    kept = (
        np.empty((m, n)),
        np.empty((m, n, run.dy0.shape[1] if order >= 1 else 0)),
        np.empty((m, n, run.d2y0.shape[1] if order == 2 else 0)),
    )
    aims = aims_of(atol, model.states, gained=model.gathering.gained)
    gathering = Gathering.of(model.gathering, run.since, run.remember, run.n_slots)
    selection = Selection(choice, model, rtol, max_steps)
    if grid is None:
        selection.choose()
        absolute = np.empty(n)
        n_pieces = run.ends.size + (0 if switches is None else switches.level.size + run.occurrences.kind.size)
        told = (_NO_STEPS, _NO_ORDERS, np.zeros(_COUNTERS + n_pieces, np.int64))
        passed = _NO_ORDERS if switches is None else np.zeros(1 + n_pieces, np.int64)
        crossed = room_for_crossings(switches)
    else:
        selection.replay(grid)
        passed = grid.passed.copy() if grid.passed.size else np.zeros(1, np.int64)
        crossed = grid.crossed.copy() if grid.crossed.size else room_for_crossings(switches, 0)
        selection.method.check(grid, run.ends.size if switches is None else grid.counts.size - _COUNTERS)
        usual = np.where(aims == USUAL, min(USUAL_ATOL, PART_OF_RTOL * rtol), np.abs(aims))
        usual[np.isnan(aims)] = -PART_OF_GAIN * min(USUAL_ATOL, PART_OF_RTOL * rtol)
        kept_sizes = grid.atol if grid.atol.size == n else usual
        absolute = np.where(aims > 0.0, aims, kept_sizes)
        told = (grid.steps, grid.orders, grid.counts.copy())
    while True:
        method = selection.method
        if order > method.highest_order:
            raise OdefitError(
                f"the integrator '{method.name}' has no second-order sensitivities, order = {order} was asked for; "
                "take 'dopri5' or 'ddm' for them, or order = 1"
            )
        elimination = packed(selection.elimination) if method.implicit else _NO_ELIMINATION
        switching = (
            _NO_SWITCHING
            if switches is None
            else packed(Switching.of(switches, run.occurrences, run.ends, passed, second=order == 2))
        )
        status, t_end, cause, ratio, reached, n_steps, steps, orders = solve_one(
            (selection.address, keeper_address(), rhs.value, rhs.directions, rhs.jacobian,
             selection.second(order)),
            (rtol, max_step, selection.max_steps, selection.choices, order, grid is not None,
             switches is not None and switches.moving),
            run[:_PASSED], (aims, absolute, *told), _NEVER if stop is None else stop.array, elimination, switching,
            packed(gathering), packed(Bordering.of(switches, crossed, second=order == 2)), kept,
        )  # fmt: skip
        if status == Status.ROOM_FOR_PIECES and grid is None:
            told = (_NO_STEPS, _NO_ORDERS, np.zeros(_COUNTERS + cause, np.int64))
            passed = np.zeros(1 + cause, np.int64)
            continue
        if status == Status.ROOM_FOR_CROSSINGS and grid is None:
            crossed = room_for_crossings(switches, cause)
            continue
        if not selection.answer(status):
            break
    if reached < m:
        for part in kept:
            part[reached:] = np.nan  # not reached: NaN, never zero
    counts = told[2]
    if switches is not None:
        counts, passed = counts[: _COUNTERS + passed[0]], passed[: 1 + passed[0]]
    if grid is None:
        taken_orders = orders[:n_steps] if method.variable_order else _NO_ORDERS
        crossed = crossed[: 1 + PER_CROSSING * crossed[0]] if crossed.size else crossed
        grid = StepGrid(
            method.name, steps[:n_steps], counts, taken_orders, selection.algebra, passed, absolute, crossed
        )
    elif grid.algebra is not selection.algebra:
        grid = grid._replace(algebra=selection.algebra)
    return Trajectory(_STATUS[status], t_end, cause, *kept, grid, ratio, method.derivatives, counts)


def _with_piece(run: Run) -> Run:
    """Return the run with room for start and length of a piece behind its parameters."""
    p = np.concatenate([run.p, np.zeros(2)])
    dp, d2p = (np.vstack([seeds, np.zeros((2, seeds.shape[1]))]) for seeds in (run.dp, run.d2p))
    return run._replace(p=p, dp=dp, d2p=d2p)


class Solves:
    """An integrator that solves runs by the candidates it names."""

    def solve(
        self: Integrator,
        model: CompiledModel,
        run: Run,
        *,
        grid: StepGrid | None = None,
        rtol: float,
        atol: Tolerance = AUTO,
        order: int = 0,
        max_step: float = np.inf,
        max_steps: int = 100_000,
        stop: StopFlag | None = None,
    ) -> Trajectory:
        """See `Integrator.solve`."""
        return solve_run(self, model, run, grid, rtol, atol, order, max_step, max_steps, stop)
