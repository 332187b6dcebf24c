"""Single shooting: every experiment is one initial value problem, theta the only unknowns.

The step grids belong to this object.  `refresh` adapts them to a point, `evaluate` replays them, so
that between two refreshes the objective is one smooth function whose derivatives are exact.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.integrate import Status, StepGrid, Trajectory, ending
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.solve.contract import Evaluation
from odefit.transcribe.bordered import BorderedLinear
from odefit.transcribe.dense import DenseLinear
from odefit.transcribe.observation import Observation, Observations
from odefit.transcribe.penalty import penalise
from odefit.transcribe.plan import plan_of
from odefit.transcribe.shooting import Shooter
from odefit.transcribe.shot import Shot

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
        plan = self._plan = plan_of(problem, use, data)
        self.compiled = plan.compiled
        self.names = self.compiled.theta_names
        self.data = plan.data
        self.observations = plan.data.of_experiment
        self.heavy_root = plan.data.heavy_root
        self.n_data = plan.data.n_data
        self.n_residuals = plan.n_residuals
        self.data_norm = plan.data.norm
        self.bordered = plan.layout is not None
        self._n_columns = plan.n_columns
        self._shooter = Shooter(plan, problem.settings, stop)
        self._readapt = readapt
        self._generation = 0
        self._fresh: Evaluation | None = None
        self._fresh_at = b""

    @property
    def methods(self) -> dict[str, str]:
        """Which integrator made the present grids, per experiment that was fitted."""
        names = [self._plan.experiment_names[o.experiment] for o in self.observations]
        return dict(zip(names, [grid.method for grid in self.grids or ()], strict=False))

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
        self._generation += 1
        self._fresh = self._evaluate(x, 1, adapt=True)
        self._fresh_at = x.tobytes()  # the caller's array may change
        return self._generation

    def evaluate(self, x: Array, order: int) -> Evaluation:
        """Replay the current grids at `x`."""
        fresh = self._fresh
        if fresh is not None and fresh.x is x and x.tobytes() == self._fresh_at:
            return fresh
        return self._evaluate(x, order, adapt=self._readapt)

    @property
    def grids(self) -> list[StepGrid] | None:
        """The present step grids, per experiment that was fitted; None if there are none."""
        return self._shooter.grids

    def trajectory(self, x: Array, observation: Observation, order: int, grid: StepGrid | None) -> Trajectory:
        """Integrate one experiment at `x`."""
        return self._shooter.trajectory(x, observation, order, grid)[0]

    def _evaluate(self, x: Array, order: int, *, adapt: bool) -> Evaluation:
        if not adapt and self._shooter.grids is None:
            return self._failed(x, "the last adaptation of the step grids failed", False)
        residual = np.empty(self.n_residuals)
        # rows of an experiment are zero in columns it does not depend on
        jacobian = np.zeros((self.n_residuals if order else 0, self._n_columns))
        shoot = self._shooter.adapt if adapt else self._shooter.replay
        shot = shoot(x, order, residual, jacobian)
        if shot.failed >= 0:
            return self._failed(x, self._words_for_failure(shot), shot.status == Status.STOPPED)
        if self.compiled.penalty is not None:
            shot = shot.and_also(self._penalise(x, order, residual, jacobian))
        if not math.isfinite(shot.half_square):
            return self._failed(x, self._words_for_nonfinite(residual), False)
        if shot.bad >= 0:  # a NaN among the derivatives would look like no influence
            return self._failed(x, self._words_for_derivative(shot.bad, jacobian), False)
        linear = self._linear(jacobian, residual) if order else None
        if self.heavy_root.size:
            return self._weighted(x, residual, linear, shot.error_ratio)
        return Evaluation(x, self._generation, shot.half_square, residual, linear, shot.error_ratio)

    def _weighted(
        self, x: Array, residual: Array, linear: DenseLinear | BorderedLinear | None, ratio: float
    ) -> Evaluation:
        """Return the evaluation where there are rows of very large weight."""
        data = self.data
        tiny = data.heavy[np.abs(residual[data.heavy]) <= data.heavy_rounding]
        residual[tiny] = 0.0
        light = 0.5 * float(np.sum(np.square(np.delete(residual, data.heavy))))
        misfit = residual[data.heavy] * data.heavy_factor
        finite = np.isfinite(self.heavy_root)
        value = light + 0.5 * float(np.sum(np.square(self.heavy_root[finite] * misfit[finite])))
        return Evaluation(x, self._generation, value, residual, linear, ratio, misfit=misfit, light=light)

    def _linear(self, jacobian: Array, residual: Array) -> DenseLinear | BorderedLinear:
        if self._plan.layout is None:
            return DenseLinear(jacobian, residual, self.data)
        return BorderedLinear(jacobian, residual, self._plan.layout)

    def _penalise(self, x: Array, order: int, residual: Array, jacobian: Array) -> Shot:
        """Fill the rows of the priors."""
        slots, slopes = self.compiled.slot_values(x)
        half_square, bad = penalise(
            self.compiled, slots, slopes, self._plan.column_of_slot, order, self.n_data, residual, jacobian
        )
        return Shot(-1, 0, math.nan, -1, 0.0, half_square, bad)

    def _words_for_failure(self, shot: Shot) -> str:
        number = self.observations[shot.failed].experiment
        words = ending(Status(shot.status), shot.t_end, shot.cause, self.compiled.model(number))
        names = self._plan.experiment_names
        return f"experiment '{names[number]}': {words}" if len(names) > 1 else words

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
