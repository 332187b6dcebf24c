"""Multiple shooting: the states at nodes are unknowns, and the gaps between intervals are closed on the way.

H. G. Bock's method, as J. Kallrath (2002), section 2, describes it.  However poor the start values of the parameters
are, the intervals begin where the data are, so trajectories stay near them; and a solution that grows by 1e17 over the
whole time grows by a small factor in an interval.

The states that intervals hand over are rows of infinite weight.  They are reached by raising that weight in steps
(see `odefit.solve.continuation`): with a small one the states follow the data, and the parameters are those that
explain the changes between nodes; as it grows the trajectory becomes that of the model.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from odefit.errors import FitError
from odefit.integrate import Status
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.solve import Scaling, Solver, SolverStatus, TraceRow
from odefit.strategy.attempt import Attempt
from odefit.strategy.node_curves import strays
from odefit.strategy.result import FitResult
from odefit.strategy.single import Search, fit_single, termination_of
from odefit.strategy.words_for_rules import added, with_words
from odefit.transcribe.extended import Placed, ended, extended_objective, level_of
from odefit.transcribe.interval_plan import IntervalPlan
from odefit.transcribe.intervals import Nodes
from odefit.transcribe.multiple import MultipleShooting
from odefit.transcribe.node_states import StartOfNodes, start_of_nodes
from odefit.transcribe.plan import plan_of

Array = npt.NDArray[np.float64]

_CREPT = (SolverStatus.LIMIT, SolverStatus.SLOW, SolverStatus.STALLED)
_DIFFERS = 1e-6  # of the objective, that single shooting has another one at the same parameters
_WORSE = 1.05  # times the objective: then single shooting has lost the minimum
_MOST_INSERTED = 40  # nodes that are added where an interval cannot be integrated
_SHOWN = (0, 1, 3)  # steps after which points of the way are kept
_SHORTEST = 1e-6  # of an experiment, between a node that is added and the one before


def fit_multiple(
    problem: Problem,
    solver: Solver,
    stop: StopFlag | None = None,
    callback: Callable[[TraceRow], None] | None = None,
) -> FitResult:
    """Minimise once by multiple shooting, from the start values."""
    with np.errstate(all="ignore"):  # of states that run away numbers overflow, which evaluations notice
        return _Multiple(problem, solver, stop, callback).run()


class _Multiple:
    """State of one fit."""

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        stop: StopFlag | None,
        callback: Callable[[TraceRow], None] | None,
    ) -> None:
        self.problem = problem
        self.search = Search(problem, solver, stop, self._record)
        self._callback = callback
        self._way: list[Array] = []
        self.objective, self.begin = self._begun()

    def _begun(self) -> tuple[MultipleShooting, StartOfNodes]:
        """Return the objective, with nodes where every interval can be integrated, and the first states."""
        settings, inserted = self.problem.settings, 0
        nodes: Nodes = settings.nodes
        while True:
            objective = extended_objective(self.problem, nodes, self.search.stop)
            if not objective.compiled.n_theta:
                raise FitError("there is nothing to fit: no parameter is free; set fixed = false for at least one.")
            begin = start_of_nodes(
                objective, objective.compiled.theta_start, settings.node_states, self.problem.measurements.value.size
            )
            more = _between(objective.intervals, begin)
            inserted += 1
            if not more or inserted == _MOST_INSERTED:
                return objective, begin
            present = objective.intervals.nodes
            nodes = {e: tuple(sorted({*present.get(e, ()), *more.get(e, ())})) for e in {*present, *more}}

    def run(self) -> FitResult:
        """Minimise."""
        objective, begin, search = self.objective, self.begin, self.search
        compiled, n = objective.compiled, begin.states.size
        x = np.concatenate([compiled.theta_start, begin.states])
        objective.weights[:] = level_of(objective) / begin.sizes
        sizes = begin.sizes * math.sqrt(max(1, n))
        unbounded = np.full(n, np.inf)
        bounds = np.append(compiled.theta_lower, -unbounded), np.append(compiled.theta_upper, unbounded)
        scaling = Scaling(x, np.append(compiled.logarithmic, np.zeros(n, dtype=bool)), sizes)
        objective.settle(x, scaling, level_of(objective))
        plan = plan_of(self.problem)
        termination = termination_of(plan, self.problem.settings)
        solution = search.solve(objective, x, bounds, scaling, termination, kept=objective.is_rule)
        if objective.resettle(solution.x, solution.evaluation, scaling, level_of(objective)):
            again = search.solve(objective, solution.x, bounds, scaling, termination, ())
            solution = added(solution, again)
        way = _picked([x, *self._way, solution.x])
        end = ended(objective, solution, plan, scaling.of(solution.x), bounds, way)
        final = with_words(end, objective)
        attempt = Attempt("multiple", final.status, plan.in_units(final.value), final.iterations, n_data=plan.n_fitted)
        result = FitResult(
            self.problem, final, objective.methods, "multiple", search.solver.name, (attempt,),
            rules=end.rules, placed=end.placed,
        )  # fmt: skip
        return self._polished(result, end.placed)

    def _polished(self, result: FitResult, placed: Placed) -> FitResult:
        """Return the end of single shooting from here, where the gaps that are left make a difference.

        They are closed to the accuracy of the integration in units of the states, which is not enough where a small
        difference of large states matters.  A fit that joined the intervals and then crept is ended so, too.  Where
        solutions grow too much nothing better is to be had.
        """
        joined = result.converged or (result.status in _CREPT and not strays(self.problem, result.solution, placed))
        if not joined or placed.tied:
            return result
        if result.converged and not strays(self.problem, result.solution, placed, _DIFFERS):
            return result
        search = self.search
        start = self.problem.with_start(**{name: result.estimates[name] for name in result.plan.names})
        single = fit_single(start, search.solver, search.stop, self._callback)
        if not single.converged or not single.objective <= _WORSE * result.objective:
            return result
        nowhere = np.empty(0)
        rules = () if single.placed is None else single.placed.measurements
        solution = added(result.solution, single.solution)
        return dataclasses.replace(
            result,
            solution=solution,
            integrators=single.integrators,
            attempts=(*result.attempts, *single.attempts),
            rules=single.rules,
            placed=dataclasses.replace(placed, states=nowhere, sizes=nowhere, measurements=rules),
        )

    def _record(self, row: TraceRow) -> None:
        """Keep where the fit is, for pictures of the way."""
        self._way.append(self.objective.latest)
        if self._callback is not None:
            self._callback(row)


def _picked(way: list[Array]) -> tuple[Array, ...]:
    """Return the first, some and the last of the points of a way; most happens in the first steps."""
    way = [x for k, x in enumerate(way) if not k or not np.array_equal(x, way[k - 1])]
    last = len(way) - 1
    return tuple(way[k].copy() for k in sorted({min(k, last) for k in (*_SHOWN, last // 2, last)}))


def _between(plan: IntervalPlan, begin: StartOfNodes) -> dict[int, list[float]]:
    """Return where nodes are needed: half the way to where an interval could not be integrated any more."""
    times: dict[int, list[float]] = {}
    for k, shot in begin.failed.items():
        if shot.status == Status.STOPPED:
            return {}
        o = plan.intervals[k].observation
        length = float(plan.whole.data.of_experiment[plan.intervals[k].whole].times[-1]) - o.t0
        reached = shot.t_end if math.isfinite(shot.t_end) else math.nan
        if reached - o.t0 > _SHORTEST * length:
            times.setdefault(o.experiment, []).append(o.t0 + 0.5 * (reached - o.t0))
    return times
