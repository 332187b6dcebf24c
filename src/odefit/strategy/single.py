"""The plain strategy: one minimisation by single shooting from the start values."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from odefit.errors import FitError, ProblemError, suggestion
from odefit.native.stop import StopFlag
from odefit.problem import Problem, Settings
from odefit.solve import (
    POLICIES,
    Failed,
    FreezePolicy,
    Readapt,
    Scaling,
    Solver,
    SolverResult,
    SolverStatus,
    Termination,
    TraceRow,
    heavy_of,
    solve_weighted,
    solve_with_comeback,
)
from odefit.solve import Objective as SolverObjective
from odefit.strategy.attempt import Attempt
from odefit.strategy.result import FitResult
from odefit.strategy.words_for_rules import added, with_words
from odefit.transcribe import SingleShooting
from odefit.transcribe.active_rules import RuleReport
from odefit.transcribe.extended import Ended, Placed, ended, level_of
from odefit.transcribe.multiple import MultipleShooting
from odefit.transcribe.observation import ROUNDING, observations, until
from odefit.transcribe.plan import Plan
from odefit.transcribe.ruled import RuledShooting

Array = npt.NDArray[np.float64]

_NOTHING_INTEGRATED = 0.1  # of the tolerance: then iterations cost next to nothing, and rounding ends sooner than they
_MOST_UNRESOLVED = 100.0  # relative tolerances of the data: more comes of an absolute tolerance that is too large
_RATES = {"linear": 0.0, "log": 1.0, "log10": math.log(10.0), "logit": 1.0}
"""What makes natural logarithms (of values, or of odds) of the solver's values; 0 where they are none."""


def fit_single(
    problem: Problem,
    solver: Solver,
    stop: StopFlag | None = None,
    callback: Callable[[TraceRow], None] | None = None,
) -> FitResult:
    """Minimise once, from the start values."""
    search = Search(problem, solver, stop, callback)
    objective = search.objective()
    solution = search.minimise(objective)
    n_data = objective.plan.n_fitted
    attempt = Attempt(
        "single", solution.status, objective.plan.in_units(solution.value), solution.iterations, n_data=n_data
    )
    return FitResult(
        problem,
        solution,
        objective.methods,
        "single",
        solver.name,
        (attempt,),
        rules=search.rules,
        placed=search.placed,
    )


class Search:
    """How a strategy minimises: a problem, a solver, and who listens.

    Attributes
    ----------
    ended
        What the last minimisation came to, if there are rules.
    """

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        stop: StopFlag | None = None,
        callback: Callable[[TraceRow], None] | None = None,
    ) -> None:
        self.problem = problem
        self.solver = solver
        self.stop = stop
        self.callback = callback
        self.freeze = solver.freeze or _policy(problem.settings.freeze)
        self.ended: Ended | None = None

    @property
    def rules(self) -> tuple[RuleReport, ...]:
        """What became of the rules in the last minimisation."""
        return () if self.ended is None else self.ended.rules

    @property
    def placed(self) -> Placed | None:
        """Where nodes stand, and which rules hold, at the end of the last minimisation."""
        return None if self.ended is None else self.ended.placed

    def objective(self, horizon: tuple[float, ...] | None = None) -> Objective:
        """Return the objective of the problem, or of its data up to a horizon for each experiment."""
        if self.problem.structure.restrictions:
            objective = RuledShooting(self.problem, self.stop, horizon)
        else:
            data = None if horizon is None else until(observations(self.problem), horizon)
            objective = SingleShooting(self.problem, self.stop, readapt=isinstance(self.freeze, Readapt), data=data)
        if not objective.compiled.n_theta:
            raise FitError("there is nothing to fit: no parameter is free; set fixed = false for at least one.")
        return objective

    def scaling(self, objective: Objective, start: Array) -> Scaling:
        """Return the typical sizes of the unknowns of a search from `start`."""
        return Scaling(start, objective.compiled.logarithmic)

    def rates(self, objective: Objective) -> Array:
        """Return what makes natural logarithms of the unknowns; 0 where they are none."""
        return np.array([_RATES[scale] for scale in objective.compiled.theta_scales])

    def minimise(
        self,
        objective: Objective,
        start: Array | None = None,
        bounds: tuple[Array, Array] | None = None,
        *,
        tol: float = 0.0,
        returning: bool = True,
    ) -> SolverResult:
        """Minimise from `start` within `bounds`, to `tol` if that is coarser than the problem's own.

        With `returning`, ends on a plateau are left again (see `odefit.solve.comeback`).
        """
        compiled = objective.compiled
        x = compiled.theta_start if start is None else start
        lower, upper = (compiled.theta_lower, compiled.theta_upper) if bounds is None else bounds
        termination = termination_of(objective.plan, self.problem.settings, tol)

        if isinstance(objective, RuledShooting):
            with np.errstate(all="ignore"):
                return self._minimise_with_rules(objective, x, (lower, upper), termination)

        def minimise(x: Array) -> SolverResult:
            return self.solve(objective, x, (lower, upper), self.scaling(objective, x), termination)

        if not returning:
            return minimise(x)
        return solve_with_comeback(minimise, objective, x, (lower, upper), self.rates(objective), termination)

    def solve(
        self,
        objective: SolverObjective,
        x: Array,
        bounds: tuple[Array, Array],
        scaling: Scaling,
        termination: Termination,
        weights: tuple[float, ...] | None = None,
        kept: npt.NDArray[np.bool_] | None = None,
    ) -> SolverResult:
        """Minimise once, raising weights of heavy rows in steps (None: those of the solver), but of those `kept`."""
        # of nodes that run away numbers overflow: steps that are no numbers are not taken
        with np.errstate(all="ignore" if isinstance(objective, MultipleShooting) else None):
            return solve_weighted(
                objective, x, *bounds,
                scaling=scaling,
                step=self.solver.step,
                globalisation=self.solver.globalisation,
                weights=self.solver.weights if weights is None else weights,
                kept=kept,
                termination=termination,
                freeze=self.freeze,
                callback=self.callback,
            )  # fmt: skip

    def _minimise_with_rules(
        self, objective: RuledShooting, x: Array, bounds: tuple[Array, Array], termination: Termination
    ) -> SolverResult:
        """Minimise while rules hold; where they do not let the search in, they are imposed in steps."""
        extended, scaling = objective.extended, self.scaling(objective, x)
        extended.settle(x, scaling, level_of(extended))
        at_once = () if not objective.plan.data.heavy.size else None
        solution = self.solve(extended, x, bounds, scaling, termination, at_once)
        if at_once is not None and solution.status in (SolverStatus.INFEASIBLE, SolverStatus.STALLED):
            other = self.solve(extended, x, bounds, scaling, termination)
            solution = added(solution, other)
        if extended.resettle(solution.x, solution.evaluation, scaling, level_of(extended)):
            solution = added(solution, self.solve(extended, solution.x, bounds, scaling, termination, at_once))
        self.ended = ended(extended, solution, objective.plan, scaling.of(solution.x), bounds)
        return with_words(self.ended, extended)


Objective = SingleShooting | RuledShooting
"""What single and incremental shooting minimise."""


def termination_of(plan: Plan, settings: Settings, tol: float = 0.0) -> Termination:
    """Return the tests of convergence of a problem, with `tol` if that is coarser than its own."""
    data = plan.data
    return Termination(
        tol=max(tol, settings.tol * (1.0 if plan.is_integrated else _NOTHING_INTEGRATED)),
        tol_abs=ROUNDING * data.norm,
        residual_error=ROUNDING * data.norm,
        most_unresolved=_MOST_UNRESOLVED * settings.rtol * data.norm,
        tol_exact=ROUNDING * data.exact_norm,
        max_iterations=settings.max_iterations,
    )


def meets_exact_data(result: FitResult) -> bool:
    """Tell whether a fit meets the data of infinite weight, which have no share in its objective."""
    point = result.solution.evaluation
    heavy = heavy_of(point)
    if isinstance(point, Failed) or heavy is None:
        return True
    violation = float(np.linalg.norm(heavy.misfit[np.isinf(heavy.root)]))
    return termination_of(result.plan, result.problem.settings).is_feasible(violation, point.size)


def _policy(name: str) -> FreezePolicy:
    if name not in POLICIES:
        raise ProblemError(f"there is no rule freeze = '{name}'{suggestion(name, POLICIES)}")
    return POLICIES[name]
