"""Multiple shooting: experiments are cut at nodes, and the states there are unknowns beside theta.

    min ||r(theta, s)||^2,     y(tau_(j+1); s_j, theta) = s_(j+1) .

Each interval is an initial value problem of its own, so that it cannot run far from the data however poor theta is, and
the growth of errors over a long time does not matter.  What one interval hands over to the next is a heavy row (see
`odefit.solve.contract.Heavy`): of infinite weight in the problem itself, of a finite one on the way to it.

Rules are rows of the extended problem (see `odefit.problem.constraints`): equalities are heavy rows of infinite weight,
inequalities are limits.  Without nodes this is single shooting with rules.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from odefit.criteria import Quadratic
from odefit.errors import OdefitError
from odefit.integrate import Status, StepGrid
from odefit.integrate.task import SINK
from odefit.native.kernel_calls import kernel_address
from odefit.native.norm import norm
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.solve import Evaluation, Failed, HeavyMisfit, LeastSquares, Scaling
from odefit.solve.node_elimination import FIRST_ROW, HANDOVER, LAST_ROW, N_STATES, NODE
from odefit.solve.nodes import HeavyRows, NodesLinear
from odefit.transcribe.interval_plan import IntervalPlan
from odefit.transcribe.nonfinite import words_for_shot
from odefit.transcribe.rows import write_interval
from odefit.transcribe.rule_rows import NO_RULES, RuleRows
from odefit.transcribe.shooting import Shooter
from odefit.transcribe.shot import Shot

Array = npt.NDArray[np.float64]

_DRIFT = 30.0  # by which a row of a rule may grow or fall before its weight is chosen anew


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
        self._intervals = plan
        self.states, self.weights = np.zeros(plan.n_node_states), np.ones(plan.n_node_states)
        plan.connect(self._table, self.states, self.weights, _sink())

    def begin(self, theta: Array) -> Shot:
        """Choose methods, and let the equilibrations come to rest, before single intervals are shot."""
        for i, selection in enumerate(self._selections):
            selection.choose()
            self._tell(i)
        self._shoot_to = self._rows()
        return self._shoot(0, self._n_rests, theta, 0, False, *self._shoot_to)

    def end_of(self, theta: Array, k: int) -> Array | Shot:
        """Return the state that interval `k` hands over, or how it failed; node states behind it are lost."""
        plan, i = self._intervals, self._intervals.first_task + k
        first, n = int(plan.chain[k, HANDOVER]), int(plan.chain[k, N_STATES])
        if first < 0:  # the last of its experiment
            n = 0
        at = int(plan.chain[k + 1, NODE]) if n else 0
        self.states[at : at + n], weights = 0.0, self.weights[at : at + n].copy()
        self.weights[at : at + n] = 1.0
        shot = self._shoot(i, i + 1, theta, 1, False, *self._shoot_to)
        self.weights[at : at + n] = weights
        return shot if shot.failed >= 0 else self._shoot_to[0][first : first + n].copy()

    def _rows(self) -> tuple[Array, Array, Array]:
        plan = self._intervals
        return np.empty(plan.n_rows), np.empty(plan.whole.n_data), np.empty((plan.n_rows, plan.width))


class _Names:
    """Names of the unknowns; those of node states are made when they are asked for."""

    def __init__(self, plan: IntervalPlan) -> None:
        self._plan, self._theta = plan, plan.compiled.theta_names

    def __len__(self) -> int:
        return len(self._theta) + self._plan.n_node_states

    def __getitem__(self, i: int) -> str:
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
    intervals, plan
        Tasks, rows and nodes; the plan of the same problem without nodes.
    names
        Of the unknowns.
    weights
        Of the rows that hand states over, in the order of the node states; set them before the first evaluation.
    rules
        Rows that are rules.
    latest
        Where it was evaluated last, for those who watch.
    """

    def __init__(
        self, problem: Problem, intervals: IntervalPlan, stop: StopFlag | None = None, rules: RuleRows = NO_RULES
    ) -> None:
        self.intervals, self.plan, self.compiled = intervals, intervals.whole, intervals.compiled
        self.names = _Names(intervals)
        self.rules = rules
        self.shooter = IntervalShooter(intervals, problem, stop)
        self.latest = np.empty(0)
        self._criterion, self._rtol = intervals.whole.criterion, problem.settings.rtol
        self._generation = 0
        self._fresh: Evaluation | None = None
        self._fresh_at = b""
        data = intervals.whole.data
        hand = data.n_data + np.arange(intervals.n_handover)
        rows = np.concatenate([hand, data.heavy])
        root = np.concatenate([np.full(hand.size, np.inf), data.heavy_root])
        order = np.argsort(-root, kind="stable")
        factor = np.concatenate([np.ones(hand.size), data.heavy_factor])
        self._heavy = HeavyRows(rows[order], factor[order], root[order])
        self._is_limit = np.isin(self._heavy.rows, rules.limits)
        self._is_light = np.ones(intervals.n_rows, dtype=bool)
        self._is_light[self._heavy.rows] = False

    @property
    def n_data(self) -> int:
        """Number of measured values; rules are none."""
        return self.plan.n_data - self.rules.rows.size

    @property
    def weights(self) -> Array:
        """Weights of the rows that hand states over."""
        return self.shooter.weights

    @property
    def is_rule(self) -> npt.NDArray[np.bool_]:
        """Which of the heavy rows are rules: they hold from the beginning, gaps are closed on the way."""
        return np.isin(self._heavy.rows, self.rules.rows)

    @property
    def grids(self) -> list[StepGrid] | None:
        """The present step grids, per interval; None if there are none."""
        return self.shooter.grids

    @property
    def methods(self) -> dict[str, str]:
        """Which integrator made the present grids, per experiment that was fitted."""
        names, found = self.plan.experiment_names, {}
        for one, grid in zip(self.intervals.intervals, self.grids or (), strict=False):
            found.setdefault(names[one.observation.experiment], grid.method)
        return found

    def settle(self, x: Array, scaling: Scaling, level: float) -> None:
        """Choose what the rows of rules are multiplied by, from what they depend on at `x`; see `RuleRows`."""
        if not self.rules.rows.size:
            return
        self.refresh(x)
        point = self.evaluate(x, 1)
        if isinstance(point, LeastSquares) and isinstance(point.linear, NodesLinear):
            scaling = scaling.begin()
            scaling.learn(point)
            self.rules.settle(point.linear, scaling.of(x), level)
        self._fresh = None

    def resettle(self, x: Array, point: Evaluation, scaling: Scaling, level: float) -> bool:
        """Choose these numbers anew at `x` if rows of rules have become much larger or smaller; tell whether."""
        if not self.rules.rows.size or not isinstance(point, LeastSquares) or not isinstance(point.linear, NodesLinear):
            return False
        scaling = scaling.begin()
        scaling.learn(point)
        if self.rules.drift(point.linear, scaling.of(x)) <= _DRIFT:
            return False
        self.rules.weights[:] = 1.0
        self.settle(x, scaling, level)
        return True

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
        plan, shooter, n_data = self.intervals, self.shooter, self.plan.n_data
        if not adapt and not shooter.adapted:
            return Failed(x, self._generation, "the last adaptation of the step grids failed")
        theta = np.ascontiguousarray(x[: plan.n_theta])
        shooter.states[:] = x[plan.n_theta :]
        late = self.rules.too_late(theta, plan)
        if late:
            return Failed(x, self._generation, late)
        residual, blur = np.empty(plan.n_rows), np.empty(n_data if order else 0)
        jacobian = np.empty((plan.n_rows if order else 0, plan.width))
        shot = (shooter.adapt if adapt else shooter.replay)(theta, order, residual, blur, jacobian)
        if shot.failed >= 0:
            return Failed(x, self._generation, self._words_for_failure(shot), shot.status == Status.STOPPED)
        if not np.isfinite(residual).all():
            return Failed(x, self._generation, self._words_for_row(residual))
        if order and not np.isfinite(jacobian).all():
            return Failed(x, self._generation, self._words_for_row(jacobian.sum(axis=1), "the derivative of "))
        self.latest = x
        with np.errstate(all="ignore"):
            point = self._point(x, residual, blur, jacobian, order, shot)
        if not math.isfinite(point.value) or (order and not np.isfinite(jacobian).all()):
            return Failed(x, self._generation, "the sum of squares is too large for a number")
        return point

    def _point(self, x: Array, residual: Array, blur: Array, jacobian: Array, order: int, shot: Shot) -> LeastSquares:
        plan, n_data, heavy = self.intervals, self.plan.n_data, self._heavy
        self.rules.weigh(residual, jacobian)
        objective = self._criterion.assess(residual[:n_data], shot.half_square, None)
        if isinstance(objective, Quadratic):
            raise OdefitError("a criterion of all data together has no rows for nodes and rules.")
        rows, light = residual, 0.5 * float(np.sum(np.square(residual[self._is_light])))
        if objective.slope is not None:
            rows = residual.copy()
            rows[:n_data] = objective.residual
            if order:
                jacobian[:n_data] *= objective.slope[:, None]
            light = objective.value + shot.penalty
        misfit = rows[heavy.rows] * heavy.factor
        misfit = np.where(self._is_limit, np.minimum(misfit, 0.0), misfit)
        finite = np.isfinite(heavy.root)
        value = light + 0.5 * float(np.sum(np.square(heavy.root[finite] * misfit[finite])))
        linear, exact, resolution = None, 0.0, 0.0
        if order:
            linear = NodesLinear(jacobian, rows, plan.chain, plan.n_theta, heavy, self.rules.limits)
            is_measured = heavy.rows[np.isinf(heavy.root) & (heavy.rows < n_data)]
            exact = math.hypot(
                self._rtol * norm(self.weights * self.shooter.states),
                norm(self.rules.weighed(blur, is_measured)),
                self.rules.rounding,
            )
            resolution = norm(blur[self._is_light[:n_data]])
        size = math.sqrt(2.0 * light) if objective.slope is None else norm(rows[self._is_light])
        return LeastSquares(
            x, self._generation, value, rows, linear, size, shot.error_ratio,
            HeavyMisfit(misfit, heavy.root, light, exact), residual, resolution,
        )  # fmt: skip

    def _words_for_failure(self, shot: Shot) -> str:
        plan = self.intervals
        refusal = self.shooter.refusal(shot.failed) if shot.status == Status.OUTSIDE_TABLE else ""
        words = words_for_shot(self.compiled, self.plan.experiment_names, plan.runs[shot.failed], shot, refusal)
        k = shot.failed - plan.first_task
        if k < 0 or plan.intervals[k].is_first:
            return words
        return f"in the interval from {plan.intervals[k].observation.t0:g}: {words}"

    def _words_for_row(self, values: Array, what: str = "") -> str:
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        for interval, one in zip(self.intervals.chain, self.intervals.intervals, strict=False):
            if interval[FIRST_ROW] <= row < interval[LAST_ROW]:
                o = one.observation
                return f"{what}an observable is not a finite number at t = {o.times[o.at[row - interval[0]]]:g}"
        if row < self.plan.n_data + self.intervals.n_handover:
            return f"{what}a state is not a finite number where it is handed over to a node"
        return f"{what}a prior or rule is not a finite number"
