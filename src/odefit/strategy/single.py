"""The plain strategy: one minimisation by single shooting from the start values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from odefit.errors import FitError, ProblemError, UnsupportedError, suggestion
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.solve import (
    POLICIES,
    FreezePolicy,
    Readapt,
    Scaling,
    Solver,
    Termination,
    TraceRow,
    solve_weighted,
    solver_named,
)
from odefit.strategy.result import FitResult
from odefit.transcribe import SingleShooting

METHODS = ("single",)
_PLANNED = ("auto", "incremental", "multiple", "collocation")


def fit_by(
    method: str,
    problem: Problem,
    *,
    solver: str | Solver | None = None,
    stop: StopFlag | None = None,
    callback: Callable[[TraceRow], None] | None = None,
) -> FitResult:
    """Fit `problem` by the strategy `method`, minimising with `solver` (None: the problem's own)."""
    if method in _PLANNED:
        raise UnsupportedError(f"method '{method}'; use --method single (or method = \"single\")")
    if method not in METHODS:
        raise ProblemError(f"there is no method '{method}'{suggestion(method, (*METHODS, *_PLANNED))}")
    chosen = problem.settings.solver if solver is None else solver
    return _fit_single(problem, solver_named(chosen) if isinstance(chosen, str) else chosen, stop, callback)


def _policy(name: str) -> FreezePolicy:
    if name not in POLICIES:
        raise ProblemError(f"there is no rule freeze = '{name}'{suggestion(name, POLICIES)}")
    return POLICIES[name]


def _fit_single(
    problem: Problem, solver: Solver, stop: StopFlag | None, callback: Callable[[TraceRow], None] | None
) -> FitResult:
    freeze = solver.freeze or _policy(problem.settings.freeze)
    objective = SingleShooting(problem, stop, readapt=isinstance(freeze, Readapt))
    compiled = objective.compiled
    if not compiled.n_theta:
        raise FitError("there is nothing to fit: no parameter is free; set fixed = false for at least one.")
    settings, data = problem.settings, objective.data
    start = compiled.theta_start
    solution = solve_weighted(
        objective,
        start,
        compiled.theta_lower,
        compiled.theta_upper,
        scaling=Scaling(start, np.array([scale != "linear" for scale in compiled.theta_scales])),
        step=solver.step,
        globalisation=solver.globalisation,
        weights=solver.weights,
        termination=Termination(
            tol=settings.tol,
            tol_abs=0.1 * settings.rtol * objective.data_norm,
            tol_exact=0.1 * settings.rtol * data.exact_norm + settings.atol * data.exact_root,
            max_iterations=settings.max_iterations,
        ),
        freeze=freeze,
        callback=callback,
    )
    return FitResult(problem, solution, objective, "single", solver.name)
