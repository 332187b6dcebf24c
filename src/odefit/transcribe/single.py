"""Single shooting: every experiment is one initial value problem, theta the only unknowns.

The step grids belong to this object.  `refresh` adapts them to a point, `evaluate` replays them, so
that between two refreshes the objective is one smooth function whose derivatives are exact.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.criteria import Quadratic
from odefit.integrate import Status, StepGrid, Trajectory
from odefit.native.norm import norm
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.solve import Evaluation, Failed, HeavyMisfit, LeastSquares, LinearModel, Smooth, quadratic_model
from odefit.solve.bordered import BorderedLinear
from odefit.solve.dense import DenseLinear
from odefit.transcribe.nonfinite import words_for_observable, words_for_shot
from odefit.transcribe.observation import Observation, Observations
from odefit.transcribe.plan import plan_of
from odefit.transcribe.shooting import Shooter
from odefit.transcribe.shot import Shot

Array = npt.NDArray[np.float64]


class SingleShooting:
    """The objective of a problem; see `odefit.solve.Objective`.

    Attributes
    ----------
    plan
        What stays the same in all evaluations: functions, measurements, criterion.
    names
        Names of the entries of x (the free parameters, on their scales).
    observations
        Measurements per experiment, in the order of the rows of the residual.
    n_data, n_residuals
        Number of measured values, and with the priors, whose residuals come last.

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
        plan = self.plan = plan_of(problem, use, data)
        self.compiled = plan.compiled
        self.names = self.compiled.theta_names
        self.observations = plan.data.of_experiment
        self.n_data = plan.data.n_data
        self.n_residuals = plan.n_residuals
        self._n_columns = plan.n_columns
        self._criterion, self._joint = plan.criterion, plan.criterion.joint
        self._has_priors, self._has_heavy = plan.n_residuals > plan.n_data, plan.data.heavy.size > 0
        self._shooter = Shooter(plan, problem, stop)
        self._observables = problem.observables
        self._readapt = readapt
        self._generation = 0
        self._fresh: Evaluation | None = None
        self._fresh_at = b""

    @property
    def methods(self) -> dict[str, str]:
        """Which integrator made the present grids, per experiment that was fitted."""
        found: dict[str, str] = {}
        for name, o, grid in zip(self.plan.observed_names, self.observations, self.grids or (), strict=False):
            if name not in found or not o.at_rest:  # the way to rest may have had no step at all
                found[name] = grid.method
        return found

    def refresh(self, x: Array) -> int:
        """Adapt all grids to `x`; if an experiment fails there, there are no grids to replay."""
        self._generation += 1
        self._fresh = self._evaluate(x, 1, adapt=True)
        self._fresh_at = x.tobytes()  # the caller's array may change
        return self._generation

    def forget(self) -> None:
        """Let go of what earlier points told about methods: the next adaptation depends on its point alone."""
        self._shooter.forget()

    def evaluate(self, x: Array, order: int) -> Evaluation:
        """Replay the current grids at `x`."""
        fresh = self._fresh
        if fresh is not None and fresh.x is x and x.tobytes() == self._fresh_at:
            return fresh
        return self._evaluate(x, order, adapt=self._readapt)

    @property
    def n_steps(self) -> int:
        """Steps of the present grids together; 0 if there are none."""
        return self._shooter.n_steps

    @property
    def grids(self) -> list[StepGrid] | None:
        """The present step grids, per experiment that was fitted; None if there are none."""
        return self._shooter.grids

    def trajectory(self, x: Array, observation: Observation, order: int, grid: StepGrid | None) -> Trajectory:
        """Integrate one experiment at `x`."""
        return self._shooter.trajectory(x, observation, order, grid)

    def _evaluate(self, x: Array, order: int, *, adapt: bool) -> Evaluation:
        if not adapt and not self._shooter.adapted:
            return Failed(x, self._generation, "the last adaptation of the step grids failed")
        residual = np.empty(self.n_residuals)
        blur = np.empty(self.n_data if order else 0)
        jacobian = np.empty((self.n_residuals if order else 0, self._n_columns))
        shoot = self._shooter.adapt if adapt else self._shooter.replay
        shot = shoot(x, order, residual, blur, jacobian)
        if shot.failed >= 0:
            return Failed(x, self._generation, self._words_for_failure(shot), shot.status == Status.STOPPED)
        penalty, bad = shot.penalty, shot.bad
        differences = residual[: self.n_data] if self._has_priors else residual
        if not math.isfinite(shot.half_square + penalty):
            return Failed(x, self._generation, self._words_for_nonfinite(x, residual))
        if bad >= 0:  # a NaN among the derivatives would look like no influence
            return Failed(x, self._generation, self._words_for_derivative(bad, jacobian))
        whole = jacobian[: self.n_data] if order and self._joint else None
        objective = self._criterion.assess(differences, shot.half_square, whole)
        if isinstance(objective, Quadratic):
            return self._smooth(x, objective, residual, jacobian, order, shot)
        rows = residual
        if objective.slope is not None:
            rows = self._sloped(objective.residual, objective.slope, residual, jacobian)
        linear = self._linear(jacobian, rows) if order else None
        if self._has_heavy:
            return self._weighted(x, rows, linear, shot.error_ratio, blur)
        value = objective.value + penalty
        size = math.sqrt(2.0 * value if objective.slope is None else float(rows @ rows))
        return LeastSquares(
            x, self._generation, value, rows, linear, size, shot.error_ratio, None, residual, shot.resolution
        )

    def _sloped(self, losses: Array, slope: Array, differences: Array, jacobian: Array) -> Array:
        """Return the rows of a criterion that is another sum than that of squares; those of priors stay."""
        n = self.n_data
        if jacobian.size:
            jacobian[:n] *= slope[:, None]
        return np.concatenate([losses, differences[n:]])

    def _weighted(
        self, x: Array, residual: Array, linear: LinearModel | None, ratio: float, blur: Array
    ) -> LeastSquares:
        """Return the point where there are rows of very large weight."""
        data = self.plan.data
        tiny = data.heavy[np.abs(residual[data.heavy]) <= data.heavy_rounding]
        residual[tiny] = 0.0
        light = 0.5 * float(np.sum(np.square(np.delete(residual, data.heavy))))
        misfit = residual[data.heavy] * data.heavy_factor
        finite = np.isfinite(data.heavy_root)
        value = light + 0.5 * float(np.sum(np.square(data.heavy_root[finite] * misfit[finite])))
        resolution, exact = (norm(np.delete(blur, data.heavy)), norm(blur[data.exact])) if linear else (0.0, 0.0)
        heavy = HeavyMisfit(misfit, data.heavy_root, light, exact)
        size = math.sqrt(2.0 * light)
        return LeastSquares(x, self._generation, value, residual, linear, size, ratio, heavy, residual, resolution)

    def _smooth(
        self,
        x: Array,
        quadratic: Quadratic,
        differences: Array,
        jacobian: Array,
        order: int,
        shot: Shot,
    ) -> Smooth:
        """Return the point of a criterion of all data together; priors add rows of their own."""
        linear = None
        if order and quadratic.gradient is not None and quadratic.hessian is not None:
            rows, right = jacobian[self.n_data :], differences[self.n_data :]
            linear = quadratic_model(quadratic.gradient + rows.T @ right, quadratic.hessian + rows.T @ rows)
        value = quadratic.value + shot.penalty
        return Smooth(
            x, self._generation, value, linear, quadratic.size, shot.error_ratio, differences, shot.resolution
        )

    def _linear(self, jacobian: Array, residual: Array) -> LinearModel:
        data = self.plan.data
        if self.plan.layout is None:
            return DenseLinear(jacobian, residual, data.heavy, data.heavy_factor, data.heavy_root)
        return BorderedLinear(jacobian, residual, self.plan.layout)

    def _words_for_failure(self, shot: Shot) -> str:
        refusal = self._shooter.refusal(shot.failed) if shot.status == Status.OUTSIDE_TABLE else ""
        return words_for_shot(self.compiled, self.plan.experiment_names, self.plan.runs[shot.failed], shot, refusal)

    def _words_for_nonfinite(self, x: Array, residual: Array) -> str:
        bad = np.flatnonzero(~np.isfinite(residual))
        if not bad.size:
            return "the sum of squares is too large for a number"
        if bad[0] >= self.n_data:
            return "a prior has no finite value"
        grids = self.grids or [None] * len(self.observations)

        def states(o: Observation) -> Trajectory:
            return self.trajectory(x, o, 0, grids[self.observations.index(o)])

        def refusal(task: int) -> str:
            return self._shooter.refusal(len(self.plan.equilibrations) + task)

        return words_for_observable(self.plan, self._observables, int(bad[0]), states, refusal)

    def _words_for_derivative(self, row: int, jacobian: Array) -> str:
        column = int(np.flatnonzero(~np.isfinite(jacobian[row]))[0])
        layout = self.plan.layout
        name = self.names[column if layout is None else layout.unknown(row, column)]
        if row >= self.n_data:
            return f"the derivative of a prior with respect to '{name}' is not a finite number"
        return (
            f"the derivative of an observable with respect to '{name}' is not a finite number at "
            f"t = {self._time_of(row):g}; look for sqrt, log or a power at the edge of their domain"
        )

    def _time_of(self, row: int) -> float:
        """Return the time of a measurement."""
        for observation in self.observations:
            if row < observation.value.size:
                return float(observation.times[observation.at[row]])
            row -= observation.value.size
        return math.nan
