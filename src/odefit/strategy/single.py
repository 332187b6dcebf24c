"""The plain strategy: one minimisation by single shooting from the start values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from odefit.errors import FitError, ProblemError, suggestion
from odefit.integrate.experiment import DEFAULT_ATOL
from odefit.integrate.sizes import weighted_tolerance
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.solve import (
    POLICIES,
    FreezePolicy,
    Readapt,
    Scaling,
    Solver,
    SolverResult,
    Termination,
    TraceRow,
    solve_weighted,
)
from odefit.strategy.attempt import Attempt
from odefit.strategy.result import FitResult
from odefit.transcribe import SingleShooting
from odefit.transcribe.observation import Observations

Array = npt.NDArray[np.float64]


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
    attempt = Attempt("single", solution.status, solution.value, solution.iterations, n_data=n_data)
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

    def minimise(
        self,
        objective: SingleShooting,
        start: Array | None = None,
        bounds: tuple[Array, Array] | None = None,
        *,
        tol: float = 0.0,
    ) -> SolverResult:
        """Minimise from `start` within `bounds`, to `tol` if that is coarser than the problem's own."""
        compiled, settings = objective.compiled, self.problem.settings
        x = compiled.theta_start if start is None else start
        lower, upper = (compiled.theta_lower, compiled.theta_upper) if bounds is None else bounds
        return solve_weighted(
            objective,
            x,
            lower,
            upper,
            scaling=self.scaling(objective, x),
            step=self.solver.step,
            globalisation=self.solver.globalisation,
            weights=self.solver.weights,
            termination=Termination(
                tol=max(tol, settings.tol),
                tol_abs=0.1 * settings.rtol * objective.plan.data.norm,
                tol_exact=0.1 * settings.rtol * objective.plan.data.exact_norm
                + weighted_tolerance(
                    DEFAULT_ATOL if settings.atol is None else settings.atol,
                    objective.plan.data.norm,
                    objective.plan.data.exact_root,
                ),
                max_iterations=settings.max_iterations,
            ),
            freeze=self.freeze,
            callback=self.callback,
        )


def _policy(name: str) -> FreezePolicy:
    if name not in POLICIES:
        raise ProblemError(f"there is no rule freeze = '{name}'{suggestion(name, POLICIES)}")
    return POLICIES[name]
