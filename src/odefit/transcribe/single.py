"""Single shooting: every experiment is one initial value problem, theta the only unknowns.

The step grids belong to this object.  `refresh` adapts them to a point, `evaluate` replays them, so
that between two refreshes the objective is one smooth function whose derivatives are exact.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem, compile_problem
from odefit.errors import FitError
from odefit.integrate import Run, Status, StepGrid, Trajectory, integrator
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.solve.contract import Evaluation
from odefit.transcribe.dense import DenseLinear
from odefit.transcribe.observation import (
    Observation,
    first_nonfinite,
    half_square,
    observations,
    observe_residuals,
)

Array = npt.NDArray[np.float64]
_NOTHING = np.empty(0)


class SingleShooting:
    """The objective of a problem; see `odefit.solve.contract.Objective`.

    Attributes
    ----------
    names
        Names of the entries of x (the free parameters, on their scales).
    observations
        Measurements per experiment, in the order of the rows of the residual.
    data_norm
        Norm of the weighted data: times the tolerance, what the integration can resolve.
    """

    def __init__(self, problem: Problem, stop: StopFlag | None = None) -> None:
        self.compiled: CompiledProblem = compile_problem(problem)
        self.names = self.compiled.theta_names
        self.observations = observations(problem)
        self.n_residuals = sum(o.value.size for o in self.observations)
        if not self.n_residuals:
            raise FitError("there is nothing to fit: no experiment has a measured value with a weight above zero.")
        with np.errstate(over="ignore"):  # too large for a number: then so is the objective, and says so
            squares = sum(float(np.square(o.root_weight * o.value).sum()) for o in self.observations)
        self.data_norm = math.sqrt(squares)
        settings = problem.settings
        self._integrator = integrator(settings.integrator)
        self._options = {
            "rtol": settings.rtol,
            "atol": settings.atol,
            "max_steps": settings.max_steps,
            "stop": stop,
        }
        self._experiment_names = tuple(e.name for e in problem.experiments)
        self._grids: list[StepGrid | None] = [None] * len(self.observations)
        self._generation = 0
        self._fresh: Evaluation | None = None

    def refresh(self, x: Array) -> int:
        """Adapt all grids to `x`; an experiment that fails there leaves no grids to replay."""
        self._grids = [None] * len(self.observations)
        self._generation += 1
        self._fresh = self._evaluate(x, 1, adapt=True)
        return self._generation

    def evaluate(self, x: Array, order: int) -> Evaluation:
        """Replay the current grids at `x`."""
        fresh = self._fresh
        if fresh is not None and fresh.x is x:
            return fresh
        return self._evaluate(x, order, adapt=False)

    def trajectory(
        self, x: Array, observation: Observation, order: int, grid: StepGrid | None
    ) -> tuple[Trajectory, Run]:
        """Integrate one experiment at `x`."""
        seeds = self.compiled.parameters(x, observation.experiment, order)
        run = Run(
            observation.t0, seeds.y0, seeds.p, _NOTHING, observation.times, observation.ends,
            seeds.dy0, seeds.dp, seeds.d2y0, seeds.d2p,
        )  # fmt: skip
        return self._integrator.solve(self.compiled.model, run, grid=grid, order=order, **self._options), run

    def _evaluate(self, x: Array, order: int, *, adapt: bool) -> Evaluation:
        compiled = self.compiled
        observe = compiled.observe
        residual = np.empty(self.n_residuals)
        # rows of an experiment are zero in columns it does not depend on
        jacobian = np.zeros((self.n_residuals, len(self.names))) if order else np.empty((0, len(self.names)))
        first = 0
        ratio = 0.0
        for i, observation in enumerate(self.observations):
            if not adapt and self._grids[i] is None:
                return self._failed(x, "the last adaptation of the step grids failed", False)
            trajectory, run = self.trajectory(x, observation, order, None if adapt else self._grids[i])
            if trajectory.status is not Status.OK:
                words = trajectory.sentence(compiled.model)
                if len(self._experiment_names) > 1:
                    words = f"experiment '{self._experiment_names[observation.experiment]}': {words}"
                return self._failed(x, words, trajectory.status is Status.STOPPED)
            if adapt:
                self._grids[i] = trajectory.grid
            ratio = max(ratio, trajectory.error_ratio)
            observe_residuals(
                (observe.value, observe.jacobian), observe.row_ptr, observe.col, observation.times,
                trajectory.y, trajectory.S, run.p, _NOTHING, run.dp, observation.at, observation.observable,
                observation.value, observation.root_weight, compiled.columns[observation.experiment], first, order,
                residual, jacobian,
            )  # fmt: skip
            first += observation.value.size
        value = half_square(residual)
        if not math.isfinite(value):
            return self._failed(x, self._words_for_nonfinite(residual), False)
        bad = first_nonfinite(jacobian) if order else -1
        if bad >= 0:  # a NaN would look like no influence
            return self._failed(x, self._words_for_derivative(*divmod(bad, len(self.names))), False)
        linear = DenseLinear(jacobian, residual) if order else None
        return Evaluation(x, self._generation, value, residual, linear, ratio)

    def _words_for_nonfinite(self, residual: Array) -> str:
        bad = np.flatnonzero(~np.isfinite(residual))
        if not bad.size:
            return "the sum of squares is too large for a number"
        return f"an observable has no finite value at t = {self._time_of(int(bad[0])):g}"

    def _words_for_derivative(self, row: int, column: int) -> str:
        return (
            f"the derivative of an observable with respect to '{self.names[column]}' is not a finite number at "
            f"t = {self._time_of(row):g}; look for sqrt, log or a power at the edge of their domain"
        )

    def _time_of(self, row: int) -> float:
        """Return the time of a residual (NaN for one that belongs to no measurement)."""
        for observation in self.observations:
            if row < observation.value.size:
                return float(observation.times[observation.at[row]])
            row -= observation.value.size
        return math.nan

    def _failed(self, x: Array, words: str, interrupted: bool) -> Evaluation:
        missing = np.full(self.n_residuals, np.nan)
        return Evaluation(x, self._generation, math.nan, missing, None, math.inf, words, interrupted)
