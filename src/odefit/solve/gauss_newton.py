"""The Gauss-Newton loop on frozen grids, composed of step, trust region, termination and freeze policy.

A point is judged only against points on the same generation of grids.  The loop is bounded in
iterations, trial steps per iteration and renewals of the grids.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from odefit.solve import termination as ends
from odefit.solve.contract import Evaluation, Objective, SolverResult, TraceRow
from odefit.solve.freeze import Decision, FreezePolicy
from odefit.solve.globalisation import TrustRegion
from odefit.solve.scaling import Scaling
from odefit.solve.termination import Termination
from odefit.solve.trust_step import StepInfo, TrustStep, TrustStepProblem

Array = npt.NDArray[np.float64]


def solve(
    objective: Objective,
    x0: Array,
    lower: Array,
    upper: Array,
    *,
    scaling: Scaling,
    step: TrustStep,
    globalisation: TrustRegion,
    termination: Termination,
    freeze: FreezePolicy,
    callback: Callable[[TraceRow], None] | None = None,
) -> SolverResult:
    """Minimise half the sum of squares of `objective` in the box ``lower <= x <= upper``.

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
    """
    return _Search(objective, lower, upper, scaling, step, globalisation, termination, freeze, callback).run(x0)


class _Search:
    """State of one minimisation."""

    def __init__(
        self,
        objective: Objective,
        lower: Array,
        upper: Array,
        scaling: Scaling,
        step: TrustStep,
        region: TrustRegion,
        termination: Termination,
        freeze: FreezePolicy,
        callback: Callable[[TraceRow], None] | None,
    ) -> None:
        self.objective = objective
        self.lower, self.upper = lower, upper
        self.scaling = scaling
        self.stepper = step
        self.region = region
        self.termination = termination
        self.freeze = freeze
        self.callback = callback
        self.radius = region.initial
        self.evaluations = 0
        self.refreshes = 0
        self.flat = 0
        self.last_promised = math.inf
        self.eager = True  # ask for derivatives at once: most trial points are taken
        self.iteration = 0
        self.interrupted = False
        self.renewed: Evaluation | None = None  # the last point on grids of its own
        self.last_failure = ""
        self.trace: list[TraceRow] = []

    def run(self, x0: Array) -> SolverResult:
        """Iterate to an end."""
        point = self.renew(x0)
        if point.failure:
            if point.interrupted:
                return self.result(ends.INTERRUPTED, "the fit was stopped before it began", point, None, None)
            message = f"the model cannot be computed at the start: {point.failure}"
            return self.result(ends.FAILED, message, point, None, None)
        problem: TrustStepProblem | None = None
        while True:
            linear = point.linear
            assert linear is not None
            if problem is None:
                problem = self.stepper.prepare(linear.reduce(), point.x, self.scaling, self.lower, self.upper)
            else:
                problem.move(linear.reduce(), point.x)
            proposal = problem.step(self.radius)
            reason = self.termination.convergence(proposal.decrement, math.sqrt(2.0 * point.value))
            if proposal.rank == 0 and not problem.held.all():
                message = "the data do not depend on any free parameter near this point"
                return self.result(ends.NO_INFLUENCE, message, point, problem, proposal)
            if not reason and proposal.damping == 0.0 and self.termination.is_rounding(proposal.promised, point.value):
                reason = "no reduction that could be told from rounding is left"
            if reason:
                if self.freeze.is_trustworthy(point.error_ratio) or point is self.renewed:
                    return self.result(ends.CONVERGED, reason, point, problem, proposal)
                fresh = self.renew(point.x)  # converged on stale grids: look again on new ones
                if fresh.failure:
                    status, message = self.words_for_failure(fresh)
                    return self.result(status, message, point, problem, proposal)
                point = fresh
                continue
            if self.iteration >= self.termination.max_iterations:
                message = f"the limit of {self.iteration} iterations was reached"
                return self.result(ends.LIMIT, message, point, problem, proposal)
            taken = self.advance(point, problem, proposal)
            if taken is None:
                status, message = self.words_for_no_progress()
                return self.result(status, message, point, problem, proposal)
            point = taken
            if point.linear is None:
                derived = self.evaluate(point.x, 1)
                if derived.failure:  # its value exists, its derivatives do not
                    status, message = self.words_for_failure(derived)
                    return self.result(status, message, point, problem, proposal)
                point = derived
            if self.flat >= self.termination.flat_times:
                return self.result(ends.FLAT, self.words_for_valley(point, proposal), point, problem, proposal)

    def advance(self, point: Evaluation, problem: TrustStepProblem, proposal: StepInfo) -> Evaluation | None:
        """Try steps of decreasing length until one is good; return the new point, or None."""
        for _ in range(self.region.attempts):
            point, trial = self.try_point(point, proposal.x)
            if self.interrupted or point.failure:
                return None
            if trial is None:
                self.radius = self.region.after_failure(proposal.length)
            else:
                ratio = (point.value - trial.value) / proposal.promised
                if point.linear is not None and self.stepper.wants_correction(ratio, proposal.promised, point.value):
                    trial, ratio = self.corrected(point, problem, proposal, trial, ratio)
                if ratio >= self.region.accept:
                    return self.take(point, trial, proposal, ratio)
                self.radius = self.region.after_rejection(proposal.length)
                if point.linear is None:  # the grids were moved to a point that is not taken
                    point = self.renew(point.x)
            self.eager = False
            proposal = problem.step(self.radius)
            if self.termination.is_rounding(proposal.promised, point.value):
                return None
        return None

    def try_point(self, point: Evaluation, x: Array) -> tuple[Evaluation, Evaluation | None]:
        """Evaluate at `x`; return the old point and the new one (None on failure) on the same grids."""
        trial = self.evaluate(x, 1 if self.eager else 0)
        if self.interrupted:
            return point, None
        decision = self.freeze.decide(trial.error_ratio, point.error_ratio, self.refreshes)
        self.eager = decision is Decision.KEEP  # while grids change, derivatives on the old ones are wasted
        if decision is Decision.KEEP:
            return point, trial
        if decision is Decision.SHORTEN:
            return point, None
        trial = self.renew(x)
        if not trial.failure:
            old = self.evaluate(point.x, 0)
            if not old.failure:
                return old, trial
        return (point if self.interrupted else self.renew(point.x)), None

    def corrected(
        self,
        point: Evaluation,
        problem: TrustStepProblem,
        proposal: StepInfo,
        trial: Evaluation,
        ratio: float,
    ) -> tuple[Evaluation, float]:
        """Return the better one of the trial point and its second-order correction."""
        linear = point.linear
        assert linear is not None
        x, length = problem.correction(proposal, linear.reduce_residual(trial.residual))
        if not length <= 0.5 * proposal.length:
            return trial, ratio
        better = self.evaluate(x, 0)
        if better.failure or not better.value < trial.value or better.error_ratio > max(10.0, trial.error_ratio):
            return trial, ratio
        return better, (point.value - better.value) / proposal.promised

    def take(self, point: Evaluation, trial: Evaluation, proposal: StepInfo, ratio: float) -> Evaluation:
        """Accept `trial`: update radius, valley counter and trace."""
        flat = proposal.damping > 0.0 and self.termination.is_flat(
            proposal.promised, point.value - trial.value, point.value
        )
        # promises that grow with the trust region only mean that it began too small
        growing = proposal.promised > 1.5 * self.last_promised
        self.flat = self.flat + 1 if flat and not growing else 0
        self.last_promised = proposal.promised
        self.radius = self.region.after_success(self.radius, proposal.length, ratio)
        self.iteration += 1
        self.record(trial, proposal)
        return trial

    def evaluate(self, x: Array, order: int) -> Evaluation:
        self.evaluations += 1
        result = self.objective.evaluate(x, order)
        self.interrupted = self.interrupted or result.interrupted
        self.last_failure = result.failure or self.last_failure
        return result

    def renew(self, x: Array) -> Evaluation:
        """Adapt the grids to `x` and evaluate there."""
        self.refreshes += 1
        self.objective.refresh(x)
        self.renewed = self.evaluate(x, 1)
        return self.renewed

    def record(self, point: Evaluation, proposal: StepInfo) -> None:
        row = TraceRow(
            self.iteration, point.value, proposal.decrement, proposal.length, self.radius,
            proposal.rank, proposal.damping, point.generation,
        )  # fmt: skip
        self.trace.append(row)
        if self.callback is not None:
            self.callback(row)

    def words_for_failure(self, point: Evaluation) -> tuple[str, str]:
        """Return status and message for a point that could not be evaluated."""
        if self.interrupted:
            return ends.INTERRUPTED, "the fit was stopped; this is the best point so far"
        return ends.FAILED, point.failure

    def words_for_no_progress(self) -> tuple[str, str]:
        if self.interrupted:
            return ends.INTERRUPTED, "the fit was stopped; this is the best point so far"
        why = f" (the last failure: {self.last_failure})" if self.last_failure else ""
        return ends.STALLED, f"no step, however short, reduces the objective further{why}"

    def words_for_valley(self, point: Evaluation, proposal: StepInfo) -> str:
        name = self.objective.names[int(np.argmax(np.abs(proposal.v) / self.scaling.of(point.x)))]
        return f"the objective hardly changes any more, but '{name}' keeps moving: the data do not fix it"

    def result(
        self,
        status: str,
        message: str,
        point: Evaluation,
        problem: TrustStepProblem | None,
        proposal: StepInfo | None,
    ) -> SolverResult:
        return SolverResult(
            status=status,
            message=message,
            x=point.x,
            value=point.value,
            evaluation=point,
            iterations=self.iteration,
            evaluations=self.evaluations,
            refreshes=self.refreshes,
            active=np.zeros(point.x.size, dtype=bool) if problem is None else problem.held,
            rank=0 if proposal is None else proposal.rank,
            trace=tuple(self.trace),
        )
