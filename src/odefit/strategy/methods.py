"""The strategies by the names that problem files use."""

from __future__ import annotations

from collections.abc import Callable

from odefit.errors import ProblemError, UnsupportedError, suggestion
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.solve import Solver, TraceRow, solver_named
from odefit.strategy.incremental import fit_incremental, fit_incremental_dense
from odefit.strategy.result import FitResult
from odefit.strategy.single import fit_single

METHODS: dict[str, Callable[..., FitResult]] = {
    "single": fit_single,
    "incremental": fit_incremental,
    "incremental-dense": fit_incremental_dense,
}
"""Name to ``fit(problem, solver, stop, callback)``."""
_PLANNED = ("auto", "multiple", "collocation")


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
    return METHODS[method](problem, solver_named(chosen) if isinstance(chosen, str) else chosen, stop, callback)
