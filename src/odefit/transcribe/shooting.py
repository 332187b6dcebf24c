"""Integrating the experiments of a problem and filling their rows: adapting step grids, and replaying them.

Explicit methods do both in one native call (`shoot_experiments`); methods that are not called by address go through
their `solve`, one experiment after the other.

An explicit method that gave up on an experiment is next time allowed no more steps than the stiff method took: at tight
tolerances those that show stiffness anew would cost more than the whole stiff solution.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from odefit.integrate import Integrator, Run, Status, StepGrid, Trajectory, integrator
from odefit.integrate.native import native_method
from odefit.native.stop import StopFlag
from odefit.native.threads import allowed_threads, thread_pool
from odefit.problem.problem import Settings
from odefit.transcribe.observation import Observation, observe_residuals
from odefit.transcribe.plan import Plan
from odefit.transcribe.record import INTEGRATOR
from odefit.transcribe.shooting_kernel import shoot_experiments
from odefit.transcribe.shot import Shot

Array = npt.NDArray[np.float64]
T = TypeVar("T")
_NOTHING = np.empty(0)
_NEVER = StopFlag()
WORTH_A_THREAD = 1e-3
"""Seconds that an experiment takes, from which experiments are shared out among threads: kernels release the GIL."""


class Shooter:
    """The experiments of a plan with their step grids.

    Attributes
    ----------
    grids
        Grids of the observed experiments; None before the first adaptation, and after one that failed.
    """

    def __init__(self, plan: Plan, settings: Settings, stop: StopFlag | None) -> None:
        self.grids: list[StepGrid] | None = None
        self._plan = plan
        self._observations = plan.data.of_experiment
        self._integrator = integrator(settings.integrator)
        self._rtol, self._atol, self._max_steps = settings.rtol, settings.atol, settings.max_steps
        self._stop = _NEVER if stop is None else stop
        self._stop_array = self._stop.array
        self._parallel = False
        self._explicit = False  # all grids
        self._most_explicit = [settings.max_steps] * len(self._observations)
        self._native = native_method(settings.integrator, settings.rtol)
        if self._native is not None:
            self._detect = self._native.detect
            self._table = plan.table.copy()
            self._table[:, 2 * INTEGRATOR] = self._native.address

    def adapt(self, x: Array, order: int, residual: Array, jacobian: Array) -> Shot:
        """Integrate all experiments at `x`, fill their rows, and keep the steps that were chosen."""

        def shoot(i: int) -> tuple[Shot, StepGrid]:
            native = self._native
            if native is None:
                return self._through(self._integrator, i, x, order, None, residual, jacobian)
            *fields, steps, counts = self._natively(
                True, i, i + 1, x, order, residual, jacobian, self._most_explicit[i]
            )
            shot = Shot._make(fields)
            if native.instead is None or shot.status not in native.gives_up:
                self._most_explicit[i] = self._max_steps
                return shot, StepGrid(native.name, steps, counts)
            shot, grid = self._through(native.instead, i, x, order, None, residual, jacobian)
            self._most_explicit[i] = grid.steps.size if shot.failed < 0 else self._max_steps
            return shot, grid

        n, started = len(self._observations), time.perf_counter()
        shots = self._each(shoot)
        if n > 1 and (time.perf_counter() - started) / n > WORTH_A_THREAD:
            self._parallel = allowed_threads() > 1
        shot = reduce(Shot.and_also, [shot for shot, _ in shots])
        self.grids = [grid for _, grid in shots] if shot.failed < 0 else None
        self._explicit = self.grids is not None and all([self._is_native(grid) for grid in self.grids])
        return shot

    def replay(self, x: Array, order: int, residual: Array, jacobian: Array) -> Shot:
        """Integrate all experiments at `x` on the present grids and fill their rows."""
        if self._explicit and not self._parallel:
            n = len(self._observations)
            return Shot._make(self._natively(False, 0, n, x, order, residual, jacobian, self._max_steps)[:7])
        grids = self.grids or []

        def shoot(i: int) -> Shot:
            if self._is_native(grids[i]):
                fields = self._natively(False, i, i + 1, x, order, residual, jacobian, self._max_steps)
                return Shot._make(fields[:7])
            # with the linear algebra that served, so that the next replay need not find it
            shot, grids[i] = self._through(self._integrator, i, x, order, grids[i], residual, jacobian)
            return shot

        return reduce(Shot.and_also, self._each(shoot))

    def _is_native(self, grid: StepGrid) -> bool:
        return self._native is not None and grid.method == self._native.name

    def _each(self, shoot: Callable[[int], T]) -> list[T]:
        """Shoot all experiments, in threads once one of them has been seen to take long."""
        numbers = range(len(self._observations))
        return list(thread_pool().map(shoot, numbers) if self._parallel else map(shoot, numbers))

    def _natively(
        self, adapt: bool, first: int, last: int, x: Array, order: int, residual: Array, jacobian: Array, max_steps: int
    ) -> tuple[Any, ...]:
        """Shoot the experiments `first` to `last` - 1 in one call; see `shoot_experiments`."""
        return shoot_experiments(
            self._table, x, first, last, adapt, self._detect, self._rtol, self._atol, max_steps, order,
            self._stop_array, residual, jacobian,
        )  # fmt: skip

    def _through(
        self, method: Integrator, i: int, x: Array, order: int, grid: StepGrid | None, residual: Array, jacobian: Array
    ) -> tuple[Shot, StepGrid]:
        """Shoot one experiment by a method that is not called by address."""
        trajectory, run = self.trajectory(x, self._observations[i], order, grid, method)
        status, t_end, cause = trajectory[:3]
        if status is not Status.OK:
            return Shot(i, status, t_end, cause, math.inf), trajectory.grid
        half_square, bad = self._observe(i, trajectory, run, x, order, residual, jacobian)
        return Shot(-1, status, t_end, cause, trajectory.error_ratio, half_square, bad), trajectory.grid

    def trajectory(
        self, x: Array, o: Observation, order: int, grid: StepGrid | None, method: Integrator | None = None
    ) -> tuple[Trajectory, Run]:
        """Integrate one experiment at `x`."""
        seeds = self._plan.compiled.parameters(x, o.experiment, order)
        run = Run.of(seeds, o.t0, o.times, o.ends)
        trajectory = (method or self._integrator).solve(
            self._plan.compiled.model(o.experiment), run, grid=grid, rtol=self._rtol, atol=self._atol, order=order,
            max_steps=self._max_steps, stop=self._stop,
        )  # fmt: skip
        return trajectory, run

    def _observe(
        self, i: int, trajectory: Trajectory, run: Run, x: Array, order: int, residual: Array, jacobian: Array
    ) -> tuple[float, int]:
        """Fill the rows of experiment number `i` among the observed ones; see `observe_residuals`."""
        o, plan = self._observations[i], self._plan
        observe = plan.compiled.observe(o.experiment)
        slots, slopes = plan.compiled.slot_values(x) if o.row_slots.size else (_NOTHING, _NOTHING)
        return observe_residuals(
            (observe.value, observe.jacobian), observe.row_ptr, observe.col, o.times,
            trajectory.y, trajectory.S, run.p, _NOTHING, run.dp, o.at, o.observable, o.value, o.root_weight,
            plan.columns[i], o.row_slots, slots, slopes, plan.column_of_slot, plan.data.first[i], order,
            residual, jacobian,
        )  # fmt: skip
