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
    Termination,
    TraceRow,
    heavy_of,
    solve_weighted,
    solve_with_comeback,
)
from odefit.strategy.attempt import Attempt
from odefit.strategy.result import FitResult
from odefit.transcribe import SingleShooting
from odefit.transcribe.observation import ROUNDING, Observations
from odefit.transcribe.plan import Plan

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
    return FitResult(problem, solution, objective.methods, "single", solver.name, (attempt,))


class Search:
    """How a strategy minimises: a problem, a solver, and who listens."""

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

    def objective(self, data: Observations | None = None) -> SingleShooting:
        """Return the objective of the problem, or of a part of its data."""
        objective = SingleShooting(self.problem, self.stop, readapt=isinstance(self.freeze, Readapt), data=data)
        if not objective.compiled.n_theta:
            raise FitError("there is nothing to fit: no parameter is free; set fixed = false for at least one.")
        return objective

    def scaling(self, objective: SingleShooting, start: Array) -> Scaling:
        """Return the typical sizes of the unknowns of a search from `start`."""
        return Scaling(start, objective.compiled.logarithmic)

    def rates(self, objective: SingleShooting) -> Array:
        """Return what makes natural logarithms of the unknowns; 0 where they are none."""
        return np.array([_RATES[scale] for scale in objective.compiled.theta_scales])

    def minimise(
        self,
        objective: SingleShooting,
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

        def minimise(x: Array) -> SolverResult:
            return solve_weighted(
                objective, x, lower, upper,
                scaling=self.scaling(objective, x),
                step=self.solver.step,
                globalisation=self.solver.globalisation,
                weights=self.solver.weights,
                termination=termination,
                freeze=self.freeze,
                callback=self.callback,
            )  # fmt: skip

        if not returning:
            return minimise(x)
        return solve_with_comeback(minimise, objective, x, (lower, upper), self.rates(objective), termination)


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
