"""Single shooting: every experiment is one initial value problem, theta the only unknowns.

The step grids belong to this object.  `refresh` adapts them to a point, `evaluate` replays them, so
that between two refreshes the objective is one smooth function whose derivatives are exact.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem, compile_problem
from odefit.errors import FitError
from odefit.integrate import Run, Status, StepGrid, Trajectory, integrator
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.solve.contract import Evaluation
from odefit.transcribe.blocks import BlockLayout, find_blocks
from odefit.transcribe.bordered import BorderedLinear
from odefit.transcribe.dense import DenseLinear
from odefit.transcribe.observation import (
    Observation,
    Observations,
    observations,
    observe_residuals,
)
from odefit.transcribe.penalty import penalise, unknowns_of_penalties

Array = npt.NDArray[np.float64]
_NOTHING = np.empty(0)
_WORTH_A_THREAD = 1e-3  # seconds of one experiment


@cache
def _pool() -> ThreadPoolExecutor:
    """Threads for experiments; kernels release the GIL."""
    return ThreadPoolExecutor(max_workers=os.cpu_count() or 1, thread_name_prefix="odefit")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


class SingleShooting:
    """The objective of a problem; see `odefit.solve.contract.Objective`.

    Attributes
    ----------
    names
        Names of the entries of x (the free parameters, on their scales).
    observations
        Measurements per experiment, in the order of the rows of the residual.
    data
        The same with what is common to all of them.
    heavy_root
        Roots of very large weights, relative to the others; see `odefit.solve.contract.Heavy`.
    n_data, n_residuals
        Number of measured values, and with the priors, whose residuals come last.
    data_norm
        Norm of the weighted data: times the tolerance, what the integration can resolve.

    With `readapt` every evaluation adapts grids of its own, and the objective is not smooth.  With `data` these
    measurements are used (a part of the problem's own); trajectories end with the last of them.
    """

    def __init__(
        self,
        problem: Problem,
        stop: StopFlag | None = None,
        use: str = "fit",
        *,
        readapt: bool = False,
        data: Observations | None = None,
    ) -> None:
        self.compiled: CompiledProblem = compile_problem(problem)
        self.names = self.compiled.theta_names
        data = self.data = observations(problem, use) if data is None else data
        self.observations = data.of_experiment
        self.heavy_root = data.heavy_root
        self.n_data = data.n_data
        self.n_residuals = data.n_data + (self.compiled.penalty.n_out if self.compiled.penalty else 0)
        self.data_norm = data.norm
        self._first = data.first
        if not self.n_data:
            raise FitError("there is nothing to fit: no experiment has a measured value with a weight above zero.")
        settings = problem.settings
        self._integrator = integrator(settings.integrator)
        self._options = {
            "rtol": settings.rtol,
            "atol": settings.atol,
            "max_steps": settings.max_steps,
            "stop": stop,
        }
        self._experiment_names = tuple(e.name for e in problem.experiments)
        self._needs_slots = self.compiled.penalty is not None or bool(problem.slots.by_row)
        self._parallel = False
        self._readapt = readapt
        self._layout = self._find_blocks()
        self.bordered = self._layout is not None
        self._n_columns = self._layout.width if self._layout else len(self.names)
        columns = self.compiled.columns
        theta_of_slot = self.compiled.theta_of_q
        if self._layout is None:
            self._columns = [columns[o.experiment] for o in self.observations]
            self._column_of_slot = theta_of_slot
        else:
            position = self._layout.position
            self._columns = [position[columns[o.experiment]] for o in self.observations]
            self._column_of_slot = np.where(theta_of_slot >= 0, position[theta_of_slot], -1)
        self.grids: list[StepGrid | None] = [None] * len(self.observations)
        self._generation = 0
        self._fresh: Evaluation | None = None
        self._fresh_at = _NOTHING

    def _find_blocks(self) -> BlockLayout | None:
        """Find unknowns that only single experiments depend on, if there are many unknowns."""
        if self.heavy_root.size or len(self.observations) < 4:
            return None
        parts, sizes = [], []
        for o in self.observations:
            by_row = self.compiled.theta_of_q[np.unique(o.row_slots)]
            parts.append(np.union1d(self.compiled.columns[o.experiment], by_row[by_row >= 0]))
            sizes.append(o.value.size)
        priors = unknowns_of_penalties(self.compiled)
        return find_blocks([*parts, *priors], [*sizes, *([1] * len(priors))], len(self.names))

    @property
    def methods(self) -> dict[str, str]:
        """Which integrator made the present grids, per experiment that was fitted."""
        return {
            self._experiment_names[o.experiment]: grid.method
            for o, grid in zip(self.observations, self.grids, strict=True)
            if grid is not None
        }

    @property
    def root_weights(self) -> Array:
        """Root weights of the measurements of finite weight, in the order of the residual."""
        roots = np.concatenate([o.root_weight for o in self.observations])
        return np.delete(roots, self.data.exact)

    def sum_of_squares(self, point: Evaluation) -> float:
        """Return the weighted sum of squares of the data of finite weight, without priors."""
        return float(np.square(np.delete(point.residual[: self.n_data], self.data.exact)).sum())

    def refresh(self, x: Array) -> int:
        """Adapt all grids to `x`; if an experiment fails there, there are no grids to replay."""
        self.grids = [None] * len(self.observations)
        self._generation += 1
        self._fresh = self._evaluate(x, 1, adapt=True)
        self._fresh_at = x.copy()  # the caller's array may change
        return self._generation

    def evaluate(self, x: Array, order: int) -> Evaluation:
        """Replay the current grids at `x`."""
        fresh = self._fresh
        if fresh is not None and fresh.x is x and np.array_equal(x, self._fresh_at):
            return fresh
        return self._evaluate(x, order, adapt=self._readapt)

    def trajectory(
        self, x: Array, observation: Observation, order: int, grid: StepGrid | None
    ) -> tuple[Trajectory, Run]:
        """Integrate one experiment at `x`."""
        seeds = self.compiled.parameters(x, observation.experiment, order)
        run = Run(
            observation.t0, seeds.y0, seeds.p, _NOTHING, observation.times, observation.ends,
            seeds.dy0, seeds.dp, seeds.d2y0, seeds.d2p,
        )  # fmt: skip
        model = self.compiled.model(observation.experiment)
        return self._integrator.solve(model, run, grid=grid, order=order, **self._options), run

    def _evaluate(self, x: Array, order: int, *, adapt: bool) -> Evaluation:
        if not adapt and None in self.grids:
            return self._failed(x, "the last adaptation of the step grids failed", False)
        residual = np.empty(self.n_residuals)
        # rows of an experiment are zero in columns it does not depend on
        jacobian = np.zeros((self.n_residuals if order else 0, self._n_columns))
        slots, slopes = self.compiled.slot_values(x) if self._needs_slots else (_NOTHING, _NOTHING)

        sums = [0.0] * len(self.observations)
        bad = [-1] * len(self.observations)

        def shoot(i: int) -> Trajectory:
            trajectory, run = self.trajectory(x, self.observations[i], order, None if adapt else self.grids[i])
            if trajectory.status is Status.OK:
                sums[i], bad[i] = self._observe(i, trajectory, run, order, slots, slopes, residual, jacobian)
            return trajectory

        trajectories = self._run_all(shoot, measure=adapt)
        for observation, trajectory in zip(self.observations, trajectories, strict=True):
            if trajectory.status is not Status.OK:
                words = self._words_for_failure(observation, trajectory)
                return self._failed(x, words, trajectory.status is Status.STOPPED)
        if adapt:
            self.grids = [trajectory.grid for trajectory in trajectories]
        if self.compiled.penalty is not None:
            total, row = penalise(
                self.compiled, slots, slopes, self._column_of_slot, order, self.n_data, residual, jacobian
            )
            sums.append(total)
            bad.append(row)
        value = sum(sums)
        if not math.isfinite(value):
            return self._failed(x, self._words_for_nonfinite(residual), False)
        if max(bad) >= 0:  # a NaN among the derivatives would look like no influence
            return self._failed(x, self._words_for_derivative(max(bad), jacobian), False)
        linear = self._linear(jacobian, residual) if order else None
        ratio = max([trajectory.error_ratio for trajectory in trajectories])
        if not self.heavy_root.size:
            return Evaluation(x, self._generation, value, residual, linear, ratio)
        tiny = self.data.heavy[np.abs(residual[self.data.heavy]) <= self.data.heavy_rounding]
        residual[tiny] = 0.0
        light = 0.5 * float(np.sum(np.square(np.delete(residual, self.data.heavy))))
        misfit = residual[self.data.heavy] * self.data.heavy_factor
        finite = np.isfinite(self.heavy_root)
        value = light + 0.5 * float(np.sum(np.square(self.heavy_root[finite] * misfit[finite])))
        return Evaluation(x, self._generation, value, residual, linear, ratio, misfit=misfit, light=light)

    def _linear(self, jacobian: Array, residual: Array) -> DenseLinear | BorderedLinear:
        if self._layout is None:
            return DenseLinear(jacobian, residual, self.data)
        return BorderedLinear(jacobian, residual, self._layout)

    def _run_all(self, shoot: Callable[[int], Trajectory], *, measure: bool) -> list[Trajectory]:
        """Integrate all experiments, in threads once one of them has been seen to take long."""
        n = len(self.observations)
        if self._parallel:
            return list(_pool().map(shoot, range(n)))
        started = time.perf_counter() if measure and n > 1 else 0.0
        trajectories = [shoot(i) for i in range(n)]
        if started and (time.perf_counter() - started) / n > _WORTH_A_THREAD:
            self._parallel = (os.cpu_count() or 1) > 1
        return trajectories

    def _observe(
        self, i: int, trajectory: Trajectory, run: Run, order: int, slots: Array, slopes: Array, residual: Array,
        jacobian: Array,
    ) -> tuple[float, int]:  # fmt: skip
        """Fill the rows of experiment number `i` among the observed ones; see `observe_residuals`."""
        compiled, o = self.compiled, self.observations[i]
        observe = compiled.observe(o.experiment)
        return observe_residuals(
            (observe.value, observe.jacobian), observe.row_ptr, observe.col, o.times,
            trajectory.y, trajectory.S, run.p, _NOTHING, run.dp, o.at, o.observable, o.value, o.root_weight,
            self._columns[i], o.row_slots, slots, slopes, self._column_of_slot, self._first[i], order,
            residual, jacobian,
        )  # fmt: skip

    def _words_for_failure(self, observation: Observation, trajectory: Trajectory) -> str:
        words = trajectory.sentence(self.compiled.model(observation.experiment))
        if len(self._experiment_names) > 1:
            return f"experiment '{self._experiment_names[observation.experiment]}': {words}"
        return words

    def _words_for_nonfinite(self, residual: Array) -> str:
        bad = np.flatnonzero(~np.isfinite(residual))
        if not bad.size:
            return "the sum of squares is too large for a number"
        if bad[0] >= self.n_data:
            return "a prior has no finite value"
        return f"an observable has no finite value at t = {self._time_of(int(bad[0])):g}"

    def _words_for_derivative(self, row: int, jacobian: Array) -> str:
        column = int(np.flatnonzero(~np.isfinite(jacobian[row]))[0])
        if row >= self.n_data:
            return f"the derivative of a prior with respect to '{self.names[column]}' is not a finite number"
        return (
            f"the derivative of an observable with respect to '{self.names[column]}' is not a finite number at "
            f"t = {self._time_of(row):g}; look for sqrt, log or a power at the edge of their domain"
        )

    def _time_of(self, row: int) -> float:
        """Return the time of a measurement."""
        for observation in self.observations:
            if row < observation.value.size:
                return float(observation.times[observation.at[row]])
            row -= observation.value.size
        return math.nan

    def _failed(self, x: Array, words: str, interrupted: bool) -> Evaluation:
        missing = np.full(self.n_residuals, np.nan)
        return Evaluation(x, self._generation, math.nan, missing, None, math.inf, words, interrupted)
