"""Multiple shooting: experiments are cut at nodes, and the states there are unknowns beside theta.

    min ||r(theta, s)||^2,     y(tau_(j+1); s_j, theta) = s_(j+1) .

Each interval is an initial value problem of its own, so that it cannot run far away from the data however poor theta is,
and the growth of errors over a long time does not matter.  What one interval hands over to the next is a heavy row (see
`odefit.solve.contract.Heavy`): of infinite weight in the problem itself, of a finite one on the way to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from odefit.integrate import Status
from odefit.integrate.task import SINK
from odefit.native.kernel_calls import kernel_address
from odefit.native.norm import norm
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.solve import Evaluation, Failed, HeavyMisfit, LeastSquares
from odefit.solve.node_elimination import N_STATES, NODE
from odefit.solve.nodes import HeavyRows, NodesLinear
from odefit.transcribe.interval_plan import IntervalPlan
from odefit.transcribe.nonfinite import words_for_shot
from odefit.transcribe.rows import write_interval
from odefit.transcribe.shooting import Shooter
from odefit.transcribe.shot import Shot

Array = npt.NDArray[np.float64]


@cache
def _sink() -> int:
    return kernel_address(write_interval, SINK)


class IntervalShooter(Shooter):
    """The tasks of intervals with their step grids.

    Attributes
    ----------
    states, weights
        States of all nodes, and the weights of the rows that hand them over: the table has their addresses.
    """

    def __init__(self, plan: IntervalPlan, problem: Problem, stop: StopFlag | None) -> None:
        super().__init__(plan, problem, stop)
        self.states, self.weights = np.zeros(plan.n_node_states), np.ones(plan.n_node_states)
        plan.connect(self._table, self.states, self.weights, _sink())


class _Names(Sequence[str]):
    """Names of the unknowns; those of node states are made when they are asked for."""

    def __init__(self, plan: IntervalPlan) -> None:
        self._plan, self._theta = plan, plan.compiled.theta_names

    def __len__(self) -> int:
        return len(self._theta) + self._plan.n_node_states

    def __getitem__(self, i):
        if isinstance(i, slice):
            return tuple(self[k] for k in range(*i.indices(len(self))))
        if i < len(self._theta):
            return self._theta[i]
        plan, i = self._plan, i - len(self._theta)
        for row, one in zip(plan.chain, plan.intervals, strict=False):
            if row[NODE] >= 0 and row[NODE] <= i < row[NODE] + row[N_STATES]:
                state = plan.compiled.model(one.observation.experiment).states[i - row[NODE]]
                return f"{state} at the node {one.observation.t0:g}"
        raise IndexError(i)


class MultipleShooting:
    """The objective of a problem that is cut at nodes; see `odefit.solve.Objective`.

    Unknowns are theta and, behind it, the states of all nodes in their own units.

    Attributes
    ----------
    plan
        Tasks, rows and nodes.
    names
        Of the unknowns.
    weights
        Of the rows that hand states over, in the order of the node states; set them before the first evaluation.
    """

    def __init__(self, problem: Problem, plan: IntervalPlan, stop: StopFlag | None = None) -> None:
        self.plan, self.compiled = plan, plan.compiled
        self.names = _Names(plan)
        self.shooter = IntervalShooter(plan, problem, stop)
        self._criterion, self._rtol = plan.whole.criterion, problem.settings.rtol
        self._generation = 0
        self._fresh: Evaluation | None = None
        self._fresh_at = b""
        data, whole = plan.whole.data, plan.whole
        hand = whole.n_data + np.arange(plan.n_handover)
        rows = np.concatenate([hand, data.heavy])
        root = np.concatenate([np.full(hand.size, np.inf), data.heavy_root])
        order = np.argsort(-root, kind="stable")
        factor = np.concatenate([np.ones(hand.size), data.heavy_factor])
        self._heavy = HeavyRows(rows[order], factor[order], root[order])
        self._is_light = np.ones(plan.n_rows, dtype=bool)
        self._is_light[self._heavy.rows] = False

    @property
    def weights(self) -> Array:
        """Weights of the rows that hand states over."""
        return self.shooter.weights

    @property
    def methods(self) -> dict[str, str]:
        """Which integrator made the present grids, per experiment that was fitted."""
        names, found = self.plan.whole.experiment_names, {}
        for one, grid in zip(self.plan.intervals, self.shooter.grids or (), strict=False):
            found.setdefault(names[one.observation.experiment], grid.method)
        return found

    def refresh(self, x: Array) -> int:
        """Adapt all grids to `x`."""
        self._generation += 1
        self._fresh = self._evaluate(x, 1, adapt=True)
        self._fresh_at = x.tobytes()
        return self._generation

    def evaluate(self, x: Array, order: int) -> Evaluation:
        """Replay the current grids at `x`."""
        fresh = self._fresh
        if fresh is not None and fresh.x is x and x.tobytes() == self._fresh_at:
            return fresh
        return self._evaluate(x, order, adapt=False)

    def _evaluate(self, x: Array, order: int, *, adapt: bool) -> Evaluation:
        plan, shooter, n_data = self.plan, self.shooter, self.plan.whole.n_data
        if not adapt and not shooter.adapted:
            return Failed(x, self._generation, "the last adaptation of the step grids failed")
        theta = np.ascontiguousarray(x[: plan.n_theta])
        shooter.states[:] = x[plan.n_theta :]
        residual, blur = np.empty(plan.n_rows), np.empty(n_data if order else 0)
        jacobian = np.empty((plan.n_rows if order else 0, plan.width))
        shot = (shooter.adapt if adapt else shooter.replay)(theta, order, residual, blur, jacobian)
        if shot.failed >= 0:
            return Failed(x, self._generation, self._words_for_failure(shot), shot.status == Status.STOPPED)
        if not np.isfinite(residual).all():
            return Failed(x, self._generation, self._words_for_row(residual))
        if order and not np.isfinite(jacobian).all():
            return Failed(x, self._generation, self._words_for_row(jacobian.sum(axis=1), "the derivative of "))
        return self._point(x, residual, blur, jacobian, order, shot)

    def _point(self, x: Array, residual: Array, blur: Array, jacobian: Array, order: int, shot: Shot) -> LeastSquares:
        plan, n_data, heavy = self.plan, self.plan.whole.n_data, self._heavy
        objective = self._criterion.assess(residual[:n_data], shot.half_square, None)
        rows, light = residual, 0.5 * float(np.sum(np.square(residual[self._is_light])))
        if objective.slope is not None:
            rows = residual.copy()
            rows[:n_data] = objective.residual
            if order:
                jacobian[:n_data] *= objective.slope[:, None]
            light = objective.value + shot.penalty
        misfit = rows[heavy.rows] * heavy.factor
        finite = np.isfinite(heavy.root)
        value = light + 0.5 * float(np.sum(np.square(heavy.root[finite] * misfit[finite])))
        linear, exact = None, 0.0
        if order:
            linear = NodesLinear(jacobian, rows, plan.chain, plan.n_theta, heavy)
            exact = self._rtol * norm(self.weights * self.shooter.states)
        size = math.sqrt(2.0 * light) if objective.slope is None else norm(rows[self._is_light])
        return LeastSquares(
            x, self._generation, value, rows, linear, size, shot.error_ratio,
            HeavyMisfit(misfit, heavy.root, light, exact), residual, shot.resolution,
        )  # fmt: skip

    def _words_for_failure(self, shot: Shot) -> str:
        plan = self.plan
        refusal = self.shooter.refusal(shot.failed) if shot.status == Status.OUTSIDE_TABLE else ""
        return words_for_shot(self.compiled, plan.whole.experiment_names, plan.runs[shot.failed], shot, refusal)

    def _words_for_row(self, values: Array, what: str = "") -> str:
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        for interval, one in zip(self.plan.chain, self.plan.intervals, strict=False):
            if interval[0] <= row < interval[1]:
                o = one.observation
                return f"{what}an observable is not a finite number at t = {o.times[o.at[row - interval[0]]]:g}"
        if row < self.plan.whole.n_data + self.plan.n_handover:
            return f"{what}a state is not a finite number where it is handed over to a node"
        return f"{what}a prior is not a finite number"
