"""The Gauss-Newton loop on frozen grids, composed of step, trust region, termination and freeze policy.

A point is judged only against points on the same generation of grids.  The loop is bounded in
iterations, trial steps per iteration and renewals of the grids.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from odefit.solve.contract import (
    FACTORS,
    NODES,
    SCALED,
    Evaluation,
    Failed,
    LeastSquares,
    Objective,
    Point,
    SolverResult,
    TraceRow,
    heavy_of,
    magnitude_of,
)
from odefit.solve.factor_step import FactorSteps
from odefit.solve.foresight import Foresight
from odefit.solve.freeze import Decision, FreezePolicy
from odefit.solve.globalisation import Globalisation
from odefit.solve.merit import Merit
from odefit.solve.node_steps import NodeSteps
from odefit.solve.scaled_step import ScaledSteps
from odefit.solve.scaling import Scaling
from odefit.solve.status import SolverStatus
from odefit.solve.steps import Step, StepInfo, StepProblem
from odefit.solve.surroundings import is_surrounded
from odefit.solve.termination import Termination

Array = npt.NDArray[np.float64]


FROM_HERE = "from here "
"""In messages, before what one minimisation cannot know of the data as such."""
_NO_DESCENT = 1e-4  # cosine between the residual and what an unknown can change, that is as good as none
_MOVING = 0.01  # relative change in one step, from which an unknown is said to move
_FADED = 1e-6  # influence of an unknown, relative to the largest one, that is left when it has run away
_ROUNDING = 16 * np.finfo(float).eps  # relative change of an unknown that is as good as none
_TOO_SENSITIVE = "the model depends so strongly on its parameters that their rounding decides the misfit"
_STEPS = {FACTORS: FactorSteps, SCALED: ScaledSteps, NODES: NodeSteps}
_CURVED = (
    "no further progress could be made: this is a minimum as far as can be told, but the model is so strongly curved "
    "here that its linearisation says little of it"
)


def flat_valley(name: str) -> tuple[SolverStatus, str]:
    """Return status and message of an end where an unknown may still be changed much, and nothing is gained."""
    words = f"the objective hardly changes any more, but '{name}' keeps moving: {FROM_HERE}the data do not fix it"
    return SolverStatus.FLAT, words


def _largest_cosine(point: Point) -> float:
    """Return the largest cosine between the residual and a column of the Jacobian: 0 at a stationary point."""
    level = magnitude_of(point)
    if point.linear is None or not level > 0.0:
        return 0.0
    sizes = point.linear.column_norms()
    return float(np.max(np.abs(point.linear.descent()) / np.where(sizes > 0, sizes, 1.0))) / math.sqrt(2.0 * level)


def solve(
    objective: Objective,
    x0: Array,
    lower: Array,
    upper: Array,
    *,
    scaling: Scaling,
    step: Step,
    globalisation: Globalisation,
    termination: Termination,
    freeze: FreezePolicy,
    callback: Callable[[TraceRow], None] | None = None,
    first: Evaluation | None = None,
) -> SolverResult:
    """Minimise `objective` in the box ``lower <= x <= upper``.

    Parameters
    ----------
    x0
        Start, inside the box.
    scaling
        Typical size of each unknown, as a function of x.
    step, globalisation, termination, freeze
        The parts; see their modules.
    callback
        Called with every iteration's row of the trace.
    first
        The evaluation at `x0` of order 1, on grids adapted to it, if it has been done.
    """
    search = _Search(objective, lower, upper, scaling, step, globalisation, termination, freeze, callback)
    return search.run(x0, first)


class _Search:
    """State of one minimisation."""

    def __init__(
        self,
        objective: Objective,
        lower: Array,
        upper: Array,
        scaling: Scaling,
        step: Step,
        globalisation: Globalisation,
        termination: Termination,
        freeze: FreezePolicy,
        callback: Callable[[TraceRow], None] | None,
    ) -> None:
        self.objective = objective
        self.scaling = scaling.begin()
        self.kind = step
        self.attempts = globalisation.attempts
        self.control = globalisation.start(step)
        self.termination = termination
        self.freeze = freeze
        self.callback = callback
        self.box = (lower, upper)
        self.evaluations = 0
        self.refreshes = 0
        self.vain_refreshes = 0  # since the last step that was taken
        self.flat = 0
        self.most_settled, self.faded = 0, False  # directions determined or at a bound; fewer than before
        self.last_promised, self.last_length = math.inf, 0.0
        self.foresight = Foresight()
        self.iteration = 0
        self.interrupted = False
        self.renewed: Evaluation | None = None  # the last point on grids of its own
        self.last_failure = ""
        self.proposal: StepInfo | None = None
        self.trace: list[TraceRow] = []

    def run(self, x0: Array, first: Evaluation | None = None) -> SolverResult:
        """Iterate to an end."""
        point = self.renew(x0) if first is None else self.begin(first)
        if isinstance(point, Failed):
            if point.interrupted:
                return self.result(SolverStatus.INTERRUPTED, "the fit was stopped before it began", point)
            words = f"the model cannot be computed at the start: {point.failure}"
            return self.result(SolverStatus.FAILED, words, point)
        self.prepare(point)
        while True:
            assert point.linear is not None
            self.scaling.learn(point)
            self.problem.move(point.linear, point.x)
            proposal = self.proposal = self.control.propose(self.problem)
            self.most_settled = max(self.most_settled, proposal.settled)
            self.faded = proposal.settled < self.most_settled
            if proposal.rank == 0 and not self.problem.held.all():
                message = "the data do not depend on any free parameter near this point"
                return self.result(SolverStatus.NO_INFLUENCE, message, point)
            reason = self.convergence(point, proposal)
            if reason and self.is_running_away(point, proposal):
                if self.faded or self.termination.is_rounding(proposal.promised, magnitude_of(point)):
                    return self.result(*self.words_for_creeping(point), point)
                reason = ""
            if reason:
                if self.freeze.is_trustworthy(point.error_ratio) or point is self.renewed:
                    return self.result(SolverStatus.CONVERGED, reason, point)
                fresh = self.renew(point.x)  # converged on stale grids: look again on new ones
                if isinstance(fresh, Failed):
                    return self.result(*self.words_for_failure(fresh), point)
                point = fresh
                continue
            if self.iteration >= self.termination.max_iterations:
                return self.result(SolverStatus.LIMIT, f"the limit of {self.iteration} iterations was reached", point)
            taken = self.advance(point, proposal)
            if taken is None:
                return self.result(*self.words_for_no_progress(point), point)
            point = taken
            if point.linear is None:
                derived = self.evaluate(point.x, 1)
                if isinstance(derived, Failed):  # its value exists, its derivatives do not
                    return self.result(*self.words_for_failure(derived), point)
                point = derived
            if self.flat >= self.termination.flat_times:
                return self.result(*self.words_for_creeping(point), point)

    def begin(self, first: Evaluation) -> Evaluation:
        """Count an evaluation on grids of its own that has been done."""
        self.refreshes += 1
        self.evaluations += 1
        self.renewed = first
        return first

    def prepare(self, point: Point) -> None:
        """Choose what suits the structure of the problem."""
        assert point.linear is not None
        heavy = heavy_of(point)
        root = np.empty(0) if heavy is None else heavy.root
        self.merit = Merit(root)
        metric = NODES if point.linear.metric == NODES else self.kind.metric or point.linear.metric
        self.problem: StepProblem = _STEPS[metric](self.scaling, *self.box, root)

    def convergence(self, point: Point, proposal: StepInfo) -> str:
        """Return which test of convergence is met at `point`, in words, or an empty string."""
        if not (self.merit.trivial or self.is_feasible(point)):
            return ""
        reason = self.termination.convergence(proposal.decrement, point.size, point.resolution)
        # with rows of infinite weight a step may promise nothing, and yet be needed to meet them
        left = proposal.promised if self.merit.trivial else 0.5 * proposal.decrement**2
        if not reason and proposal.damping == 0.0 and self.termination.is_rounding(left, self.merit.level(point)):
            reason = "no reduction that could be told from rounding is left"
        return reason

    def is_feasible(self, point: Point) -> bool:
        """Tell whether rows of infinite weight hold."""
        heavy = heavy_of(point)
        resolution = 0.0 if heavy is None else heavy.resolution
        return self.termination.is_feasible(self.merit.violation(point), point.size, resolution)

    def is_running_away(self, point: Point, proposal: StepInfo) -> bool:
        """Tell whether the full step would still change an unknown much, though that changes nothing.

        At a minimum the full step vanishes even in directions that the data hardly fix; on a plateau it
        stays as large as the unknown itself, since the influence of the unknown fades with its value, until
        it cannot be told from rounding and the rank drops.
        """
        if self.faded:
            return True
        full = proposal if proposal.damping == 0.0 else self.problem.step(math.inf)
        if full is not proposal:  # a correction needs the factors and the filter of the step it corrects
            self.control.propose(self.problem)
        return self.scaling.largest(full.v, point.x) > self.termination.largest_last_step

    def advance(self, point: Point, proposal: StepInfo) -> Point | None:
        """Try steps until one is good; return the new point, or None."""
        assert point.linear is not None
        linear = point.linear
        for attempt in range(self.attempts):
            promised = self.merit.promised(linear, proposal)
            if promised == 0.0:  # nothing is left to be moved, or the trust region is too small for any step
                return None
            generation = point.generation
            pair = self.try_point(point, proposal.x, self.foresight.order(attempt))
            if pair is None:
                return None
            point, trial = pair
            tried = trial if point.generation == generation else None  # what the first evaluation there gave
            if trial is None:
                self.control.failed(proposal)
            else:
                ratio = self.ratio(point, trial, proposal, promised)
                if point.linear is not None and self.kind.wants_correction(ratio, promised, self.merit.level(point)):
                    trial = self.corrected(proposal, trial)
                    ratio = self.ratio(point, trial, proposal, promised)
                if self.control.is_good(ratio):
                    self.foresight.learn(attempt, tried is not None, trial is tried)
                    self.take(point, trial, proposal, promised, ratio)
                    return trial
                self.control.rejected(proposal)
                if point.linear is None:  # the grids were moved to a point that is not taken
                    again = self.renew(point.x)
                    if isinstance(again, Failed):
                        return None
                    point = again
            self.foresight.learn(attempt, tried is not None, False)
            if point.linear is not None and point.linear is not linear:  # it is on new grids now, and so are its steps
                linear = point.linear
                self.problem.move(linear, point.x)
            proposal = self.proposal = self.control.propose(self.problem)
            if self.termination.is_rounding(proposal.promised, self.merit.level(point)) and self.merit.trivial:
                return None
        return None

    def ratio(self, point: Point, trial: Point, proposal: StepInfo, promised: float) -> float:
        """Return real over predicted reduction of the merit function; NaN if nothing is to be gained.

        Where the reduction could not be told from rounding, but rows of infinite weight are still missed, it
        is that of what they miss.
        """
        if self.merit.trivial or not self.termination.is_rounding(promised, self.merit.level(point)):
            gained, lost = self.merit.of(point) - self.merit.of(trial), self.termination.lost(point.size)
            if proposal.damping == 0.0 and 0.0 < promised <= lost and abs(gained) <= lost:
                return 1.0  # rounding hides what the full step gains, not the gradient that it follows
            return gained / promised if promised > 0.0 else math.nan
        missed = self.merit.violation(point)
        gained = missed - self.merit.violation(trial)
        return gained / missed if gained > 0.0 else math.nan

    def try_point(self, point: Point, x: Array, order: int) -> tuple[Point, Point | None] | None:
        """Evaluate at `x`; return the old point and the new one (None: there is none) on the same grids.

        None, if the search cannot go on: a stop was asked for, or the old point is lost with its grids.
        """
        trial = self.evaluate(x, order)
        if self.interrupted:
            return None
        ratio = math.inf if isinstance(trial, Failed) else trial.error_ratio
        decision = self.freeze.decide(ratio, point.error_ratio, self.vain_refreshes)
        if decision is not Decision.REFRESH:
            return point, None if decision is Decision.SHORTEN or isinstance(trial, Failed) else trial
        trial = self.renew(x)
        if not isinstance(trial, Failed):
            old = self.evaluate(point.x, 0)
            if not isinstance(old, Failed):
                return old, trial
        again = None if self.interrupted else self.renew(point.x)
        return None if again is None or isinstance(again, Failed) else (again, None)

    def corrected(self, proposal: StepInfo, trial: Point) -> Point:
        """Return the better one of the trial point and its second-order correction."""
        if not isinstance(trial, LeastSquares):
            return trial
        x, length = self.problem.correction(proposal, trial)
        if not length <= 0.5 * proposal.length:
            return trial
        better = self.evaluate(x, 0)
        if isinstance(better, Failed) or not self.merit.of(better) < self.merit.of(trial):
            return trial
        return trial if better.error_ratio > max(10.0, trial.error_ratio) else better

    def take(self, point: Point, trial: Point, proposal: StepInfo, promised: float, ratio: float) -> None:
        """Accept `trial`: update step control, counter of idle steps and trace."""
        flat = proposal.damping > 0.0 and self.termination.is_flat(
            promised, self.merit.of(point) - self.merit.of(trial), self.merit.level(point)
        )
        # promises that grow with the trust region only mean that it began too small; steps that
        # shrink mean convergence, if slow
        idle = promised <= 1.5 * self.last_promised and proposal.length >= 0.7 * self.last_length
        self.flat = self.flat + 1 if flat and idle else 0
        self.last_promised, self.last_length = promised, proposal.length
        self.control.taken(proposal, ratio)
        self.vain_refreshes = 0
        self.iteration += 1
        row = TraceRow(
            self.iteration, trial.value, proposal.decrement, proposal.length, self.control.radius,
            proposal.rank, proposal.damping, trial.generation,
        )  # fmt: skip
        self.trace.append(row)
        if self.callback is not None:
            self.callback(row)

    def evaluate(self, x: Array, order: int) -> Evaluation:
        self.evaluations += 1
        result = self.objective.evaluate(x, order)
        if isinstance(result, Failed):
            self.interrupted = self.interrupted or result.interrupted
            self.last_failure = result.failure
        return result

    def renew(self, x: Array) -> Evaluation:
        """Adapt the grids to `x` and evaluate there."""
        self.refreshes += 1
        self.vain_refreshes += 1
        self.objective.refresh(x)
        self.renewed = self.evaluate(x, 1)
        return self.renewed

    def words_for_failure(self, point: Failed) -> tuple[SolverStatus, str]:
        """Return status and message for a point that could not be evaluated."""
        if self.interrupted:
            return SolverStatus.INTERRUPTED, "the fit was stopped; this is the best point so far"
        return SolverStatus.FAILED, point.failure

    def words_for_no_progress(self, point: Point) -> tuple[SolverStatus, str]:
        if self.interrupted:
            return SolverStatus.INTERRUPTED, "the fit was stopped; this is the best point so far"
        if not self.is_feasible(point):
            return SolverStatus.INFEASIBLE, (
                f"the model could not be made to pass through the data of infinite weight; they are missed by "
                f"{self.merit.violation(point):.3g}"
            )
        if (unfelt := self.unfelt(point)) >= 0:
            return self.words_for_valley(unfelt)
        if not self.last_failure and _largest_cosine(point) <= _NO_DESCENT:
            return self.words_for_creeping(point)
        if np.all(np.abs(self.problem.step(math.inf).v) <= _ROUNDING * self.scaling.of(point.x)):
            return self.words_for_rounding(point)
        why = f" (the last failure: {self.last_failure})" if self.last_failure else ""
        return SolverStatus.STALLED, f"no step, however short, reduces the objective further{why}"

    def words_for_rounding(self, point: Point) -> tuple[SolverStatus, str]:
        """Return status and message where the full step is as short as rounding: at a minimum, or anywhere."""
        held, scale = self.problem.held.copy(), self.scaling.of(point.x)
        if self.merit.trivial and is_surrounded(point, ~held, scale, self.box, self.evaluate):
            self.control.note = _TOO_SENSITIVE
            return SolverStatus.CONVERGED, "the unknowns are determined to rounding: the objective rises all around"
        if self.interrupted:
            return SolverStatus.INTERRUPTED, "the fit was stopped; this is the best point so far"
        return SolverStatus.SENSITIVE, f"nothing tells whether this is a minimum: {_TOO_SENSITIVE}"

    def words_for_creeping(self, point: Point) -> tuple[SolverStatus, str]:
        """Return status and message where steps have no consequence any more."""
        assert self.proposal is not None
        assert point.linear is not None
        scale = self.scaling.of(point.x)
        sizes = point.linear.column_norms() * scale
        moving = np.abs(self.proposal.v) / scale
        if self.faded or sizes.min() < _FADED * sizes.max():
            runaway = int(np.argmin(sizes))
        elif self.proposal.condition < self.termination.valley_condition and moving.max() >= _MOVING:
            runaway = int(np.argmax(moving))
        elif (runaway := self.unfelt(point)) < 0:
            return SolverStatus.SLOW, _CURVED
        return self.words_for_valley(runaway)

    def unfelt(self, point: Point) -> int:
        """Return an unknown that the full step would change much, though the residual would not feel it; else -1.

        The condition of the linear problem cannot tell where there is one unknown only.
        """
        assert point.linear is not None
        scale = self.scaling.of(point.x)
        felt = point.linear.column_norms() * scale
        moving = np.abs(self.problem.step(math.inf).v) / scale >= _MOVING
        idle = moving & (felt <= self.termination.valley_condition * point.size)
        return int(np.argmin(np.where(idle, felt, math.inf))) if idle.any() else -1

    def words_for_valley(self, runaway: int) -> tuple[SolverStatus, str]:
        return flat_valley(self.objective.names[runaway])

    def result(self, status: SolverStatus, message: str, point: Evaluation) -> SolverResult:
        return SolverResult(
            status=status,
            message=message,
            x=point.x,
            evaluation=point,
            iterations=self.iteration,
            evaluations=self.evaluations,
            refreshes=self.refreshes,
            active=self.problem.held if self.proposal is not None else np.zeros(point.x.size, dtype=bool),
            rank=0 if self.proposal is None else self.proposal.rank,
            note=self.control.note,
            trace=tuple(self.trace),
        )
