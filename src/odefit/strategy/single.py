"""The plain strategy: one minimisation by single shooting from the start values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from odefit.errors import FitError, ProblemError, UnsupportedError, suggestion
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.solve import OmegaTolerance, Scaling, Termination, TraceRow, TrustRegion, TrustStep, solve
from odefit.strategy.result import FitResult
from odefit.transcribe import SingleShooting

METHODS = ("single",)
_PLANNED = ("auto", "incremental", "multiple", "collocation")


def fit_by(
    method: str,
    problem: Problem,
    *,
    stop: StopFlag | None = None,
    callback: Callable[[TraceRow], None] | None = None,
) -> FitResult:
    """Fit `problem` by the strategy `method`."""
    if method in _PLANNED:
        raise UnsupportedError(f"method '{method}'; use --method single (or method = \"single\")")
    if method not in METHODS:
        raise ProblemError(f"there is no method '{method}'{suggestion(method, (*METHODS, *_PLANNED))}")
    return _fit_single(problem, stop, callback)


def _fit_single(problem: Problem, stop: StopFlag | None, callback: Callable[[TraceRow], None] | None) -> FitResult:
    objective = SingleShooting(problem, stop)
    compiled = objective.compiled
    if not compiled.n_theta:
        raise FitError("there is nothing to fit: no parameter is free; set fixed = false for at least one.")
    settings = problem.settings
    start = compiled.theta_start
    solution = solve(
        objective,
        start,
        compiled.theta_lower,
        compiled.theta_upper,
        scaling=Scaling(start, np.array([scale != "linear" for scale in compiled.theta_scales])),
        step=TrustStep(),
        globalisation=TrustRegion(),
        termination=Termination(
            tol=settings.tol,
            tol_abs=0.1 * settings.rtol * objective.data_norm,
            max_iterations=settings.max_iterations,
        ),
        freeze=OmegaTolerance(),
        callback=callback,
    )
    return FitResult(problem, solution, objective, "single")
