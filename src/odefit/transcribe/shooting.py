"""Integrating the tasks of a problem and filling their rows: adapting step grids, and replaying them.

Everything is one native call (`evaluate_tasks`), whatever the methods.  A task that ends with a status which asks for
something is answered by its `Selection`, and the call goes on from there.
"""

from __future__ import annotations

import math
import time
from functools import cache, reduce

import numpy as np
import numpy.typing as npt

from odefit.compile import Switches
from odefit.integrate import Counters, Status, StepGrid, Trajectory, integrator
from odefit.integrate.border_record import PER_CROSSING, Bordering, room_for_crossings
from odefit.integrate.contract import Run
from odefit.integrate.elimination import LinearAlgebra
from odefit.integrate.equilibration import solution_at_rest
from odefit.integrate.experiment import experiment_aims, rest_of_experiment, seeds_of
from odefit.integrate.selection import GIVES_UP, Selection
from odefit.integrate.task import SINK, Switching, Task
from odefit.native.kernel_calls import kernel_address
from odefit.native.records import Words
from odefit.native.stop import StopFlag
from odefit.native.threads import allowed_threads, thread_pool
from odefit.problem import Problem
from odefit.transcribe.evaluation import evaluate_tasks, settle_tasks
from odefit.transcribe.observation import Observation
from odefit.transcribe.record import FITTING
from odefit.transcribe.rests import Rests
from odefit.transcribe.rows import write_rows
from odefit.transcribe.shot import Shot
from odefit.transcribe.task_table import TaskTable

Array = npt.NDArray[np.float64]
_NEVER = StopFlag()
_NO_ORDERS = np.empty(0, np.int64)
_NOTHING_TAKEN = np.empty(0), _NO_ORDERS, 0, 0
_COUNTERS = len(Counters._fields)
_STALE = 20.0
"""Error over tolerance of a point whose conditions in time come in another order than those of the grids: policies
renew these."""
_ASKS_FOR_ROOM = (Status.ROOM_FOR_PIECES, Status.ROOM_FOR_CROSSINGS)
_CROSSINGS_AT_FIRST = 32
WORTH_A_THREAD = 1e-3
"""Seconds that a task takes, from which tasks are shared out among threads: kernels release the GIL."""


@cache
def _sink() -> int:
    return kernel_address(write_rows, SINK)


class Shooter:
    """The tasks of a plan with their step grids.

    Attributes
    ----------
    adapted
        Whether there are step grids: not before the first adaptation, nor after one that failed.
    """

    def __init__(self, plan: TaskTable, problem: Problem, stop: StopFlag | None) -> None:
        settings = problem.settings
        self.adapted = False
        self._plan = plan
        self._problem = problem
        self._integrator = integrator(settings.integrator)
        self._settings = settings
        self._rtol, self._max_step, self._max_steps = settings.rtol, settings.max_step, settings.max_steps
        self._stop = _NEVER if stop is None else stop
        self._parallel = False
        self._counts = np.zeros(plan.first_count[-1], np.int64)
        self._table = plan.table.copy()
        compiled = plan.compiled
        self._inputs = [compiled.new_inputs(run) for run in plan.runs]
        for row, u in zip(self._table, self._inputs, strict=True):
            FITTING.set(row, Task, "u", u)
        aims = [experiment_aims(compiled, settings, run) for run in plan.runs]
        self._first_state = np.concatenate([[0], np.cumsum([one.size for one in aims])]).astype(np.int64)
        # absolute tolerances of all tasks, asked for and found: the table has their addresses
        self._tolerances = np.concatenate(aims), np.empty(self._first_state[-1])
        numbers = self._rtol, self._max_step, *self._tolerances
        settle_tasks(self._table, plan.first_count, self._counts, numbers, self._stop.array, _sink())
        self._rests = Rests(plan, self._table)  # behind that, since sinks of some of them are others
        self._shared = plan.shared
        self._n_rests = len(plan.equilibrations)
        self._selections = [
            Selection(self._integrator, compiled.model(run), self._rtol, self._max_steps) for run in plan.runs
        ]
        # steps and orders of each task, as slices of what one call returned
        self._taken: list[tuple[Array, npt.NDArray[np.int64], int, int]] = [_NOTHING_TAKEN] * len(self._selections)
        self._told: list[LinearAlgebra | None] = [None] * len(self._selections)
        self._rooms: dict[int, _PieceRoom] = {
            i: _PieceRoom(self._table[i], self._switches(i), n) for i, n in plan.in_pieces.items()
        }

    def adapt(self, x: Array, order: int, residual: Array, blur: Array, jacobian: Array) -> Shot:
        """Integrate all tasks at `x`, fill their rows, and keep the steps that were chosen.

        Below order 1, `blur` and `jacobian` have no rows; see `evaluate_tasks`.
        """
        for i, selection in enumerate(self._selections):
            selection.choose()
            self._tell(i)
        n, started = len(self._selections), time.perf_counter()
        shot = self._shoot_all(x, order, False, residual, blur, jacobian)
        if n > 1 and (time.perf_counter() - started) / n > WORTH_A_THREAD:
            self._parallel = allowed_threads() > 1
        self.adapted = shot.failed < 0
        if self.adapted:
            self._made_with = self._counts.copy()
            self._made_pieces = {i: room.content() for i, room in self._rooms.items()}
        return shot

    @property
    def n_steps(self) -> int:
        """Steps of all grids together."""
        return sum([b - a for _, _, a, b in self._taken]) if self.adapted else 0

    @property
    def grids(self) -> list[StepGrid] | None:
        """Grids of the observed experiments; None before the first adaptation, and after one that failed."""
        if not self.adapted:
            return None
        result, first = [], self._plan.first_count
        for i in range(self._n_rests, len(self._selections)):
            selection, (steps, orders, a, b) = self._selections[i], self._taken[i]
            method = selection.method
            noted = orders[a:b] if method.variable_order else _NO_ORDERS
            counts, passed, crossed = self._made_with[first[i] : first[i + 1]], _NO_ORDERS, _NO_ORDERS
            if i in self._made_pieces:
                counts, passed, crossed = self._made_pieces[i]
            absolute = self._tolerances[1][self._first_state[i] : self._first_state[i + 1]].copy()
            result.append(
                StepGrid(method.name, steps[a:b], counts, noted, selection.algebra, passed, absolute, crossed)
            )
        return result

    def replay(self, x: Array, order: int, residual: Array, blur: Array, jacobian: Array) -> Shot:
        """Integrate all tasks at `x` on the present grids and fill their rows."""
        return self._shoot_all(x, order, True, residual, blur, jacobian)

    def refusal(self, i: int) -> str:
        """Say which table task `i` asked in vain, "" if it did not."""
        return self._plan.compiled.structure.tables[self._plan.runs[i]].refusal(self._inputs[i])

    def forget(self) -> None:
        """Let go of what earlier adaptations told about the choice of methods."""
        for selection in self._selections:
            selection.forget()

    def trajectory(self, x: Array, o: Observation, order: int, grid: StepGrid | None) -> Trajectory:
        """Integrate one experiment at `x`."""
        compiled = self._plan.compiled
        tables, u = compiled.structure.tables[o.experiment], compiled.new_inputs(o.experiment)
        if o.at_rest:
            rest = rest_of_experiment(self._problem, compiled, x, o.experiment, order, self._stop)[1]
            return solution_at_rest(rest, o.times.size, order)
        seeds, rest = seeds_of(compiled, self._settings, x, o.experiment, order, self._stop)
        if rest.status is not Status.OK:
            return solution_at_rest(rest, o.times.size, order)
        run = Run.of(seeds, o.t0, o.times, o.ends).with_tables(tables, u)
        run = run._replace(after=o.after, occurrences=compiled.structure.occurrences[o.experiment])
        return self._integrator.solve(
            compiled.model(o.experiment), run, grid=grid, rtol=self._rtol,
            atol=experiment_aims(compiled, self._settings, o.experiment), order=order, max_step=self._max_step,
            max_steps=self._max_steps, stop=self._stop,
        )  # fmt: skip

    def _switches(self, i: int) -> Switches | None:
        return self._plan.compiled.model(self._plan.runs[i]).switches

    def _tell(self, i: int) -> None:
        """Write into the table who integrates task `i`."""
        selection, row = self._selections[i], self._table[i]
        _tell(row, selection)
        if selection.algebra is not self._told[i]:
            FITTING.put(row, selection.elimination)
            self._told[i] = selection.algebra

    def _shoot_all(self, x: Array, order: int, replay: bool, residual: Array, blur: Array, jacobian: Array) -> Shot:
        """Shoot all tasks, in threads once one of them has been seen to take long."""
        n, first = len(self._selections), self._n_rests
        if not self._parallel:
            return self._shoot(0, n, x, order, replay, residual, blur, jacobian)
        rests = Shot(-1, 0, math.nan, -1, 0.0, 0.0)
        if first:  # others wait for these
            rests = self._shoot(0, first, x, order, replay, residual, blur, jacobian)
            if rests.failed >= 0:
                return rests
        shots = thread_pool().map(
            lambda i: self._shoot(i, i + 1, x, order, replay, residual, blur, jacobian), range(first, n)
        )
        return reduce(Shot.and_also, shots, rests)

    def _shoot(
        self, first: int, last: int, x: Array, order: int, replay: bool, residual: Array, blur: Array, jacobian: Array
    ) -> Shot:
        """Shoot the tasks `first` to `last` - 1; those that ask for something get it."""
        done: Shot | None = None
        where = _NO_ORDERS if replay else np.empty(last - first + 1, np.int64)
        while True:
            *fields, steps, orders = evaluate_tasks(
                self._table, self._shared, first, last, x, order, replay, residual, blur, jacobian, where
            )
            shot = Shot._make(fields)
            behind = last if shot.failed < 0 else shot.failed
            if not replay:
                bounds = where.tolist()
                for i in range(first, behind):
                    a, b = bounds[i - first], bounds[i - first + 1]
                    self._taken[i] = steps, orders, a, b
                    if i not in self._plan.resting:  # most of their steps are not among these
                        self._selections[i].remember(b - a)
            if shot.failed < 0:
                return shot if done is None else done.and_also(shot)
            gave_up = replay and shot.status in GIVES_UP and behind in self._plan.resting and behind in self._rooms
            if shot.status == Status.SWITCHED or gave_up:
                alone = self._shoot_alone(behind, x, order, residual, blur, jacobian)
                if alone.failed >= 0:
                    return alone
                before = alone.and_also(shot._replace(failed=-1)) if behind > first else alone
                done, first = before if done is None else done.and_also(before), behind + 1
                continue
            if shot.status in _ASKS_FOR_ROOM:
                self._rooms[behind].grow(self._table[behind], shot)
            elif not self._selections[behind].answer(shot.status):
                self._selections[behind].forget()
                return shot
            self._tell(behind)
            if behind > first:
                partial = shot._replace(failed=-1)
                done, first = partial if done is None else done.and_also(partial), behind

    def _shoot_alone(self, i: int, x: Array, order: int, residual: Array, blur: Array, jacobian: Array) -> Shot:
        """Shoot task `i`, whose grid does not fit the order of its conditions in time, with steps of its own.

        The grid stays; a large error tells that it should be renewed.
        """
        model = self._plan.compiled.model(self._plan.runs[i])
        selection = Selection(self._integrator, model, self._rtol, self._max_steps)
        selection.choose()
        table, where = self._table[i : i + 1].copy(), np.empty(2, np.int64)
        room = _PieceRoom(table[0], model.switches, self._plan.in_pieces[i])
        while True:
            _tell(table[0], selection)
            FITTING.put(table[0], selection.elimination)
            *fields, _, _ = evaluate_tasks(table, self._shared, 0, 1, x, order, False, residual, blur, jacobian, where)
            shot = Shot._make(fields)
            if shot.failed < 0:
                return shot._replace(error_ratio=max(shot.error_ratio, _STALE), penalty=0.0)
            if shot.status in _ASKS_FOR_ROOM:
                room.grow(table[0], shot)
            elif not selection.answer(shot.status):
                return shot._replace(failed=i)


class _PieceRoom:
    """Where a task with conditions counts the steps of its pieces, and notes what ends them."""

    def __init__(self, row: Words, switches: Switches | None, n_pieces: int) -> None:
        self._switches = switches
        self._hold_pieces(row, n_pieces)
        self._hold_crossings(row, _CROSSINGS_AT_FIRST)

    def _hold_pieces(self, row: Words, n_pieces: int) -> None:
        self._counts, self._passed = np.zeros(_COUNTERS + n_pieces, np.int64), np.zeros(1 + n_pieces, np.int64)
        FITTING.set(row, Task, "counts", self._counts)
        FITTING.set(row, Switching, "passed", self._passed)

    def _hold_crossings(self, row: Words, count: int) -> None:
        self._crossed = room_for_crossings(self._switches, count)
        FITTING.set(row, Bordering, "crossed", self._crossed)

    def grow(self, row: Words, shot: Shot) -> None:
        """Make the room that a task has asked for."""
        if shot.status == Status.ROOM_FOR_PIECES:
            self._hold_pieces(row, shot.cause)
        else:
            self._hold_crossings(row, shot.cause)

    def content(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return copies of all three, as a step grid has them."""
        n_pieces, crossed = self._passed[0], self._crossed
        n_crossed = 1 + PER_CROSSING * crossed[0] if crossed.size else 0
        return (
            self._counts[: _COUNTERS + n_pieces].copy(),
            self._passed[: 1 + n_pieces].copy(),
            crossed[:n_crossed].copy(),
        )


def _tell(row: Words, selection: Selection) -> None:
    """Write into the row of a task who integrates it."""
    row[_METHOD], row[_CHOICES], row[_MAX_STEPS] = selection.address, selection.choices, selection.max_steps
    row[_SECOND] = selection.second(1)


_METHOD, _CHOICES, _MAX_STEPS, _SECOND = (
    FITTING.place(Task, field) for field in ("method", "choices", "max_steps", "second")
)
