"""The strategies by the names that problem files use."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from odefit.errors import ProblemError, UnsupportedError, nearest
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.solve import Solver, TraceRow, solver_named
from odefit.strategy.affine_rules import check_affine_rules
from odefit.strategy.collocation import fit_collocation
from odefit.strategy.incremental import fit_incremental, fit_incremental_dense
from odefit.strategy.multiple import fit_multiple
from odefit.strategy.result import FitResult
from odefit.strategy.single import fit_single
from odefit.strategy.start_values import matched_start, wanted_parameters

METHODS: dict[str, Callable[..., FitResult]] = {
    "single": fit_single,
    "incremental": fit_incremental,
    "incremental-dense": fit_incremental_dense,
    "multiple": fit_multiple,
    "collocation": fit_collocation,
}
"""Name to ``fit(problem, solver, stop, callback)``."""
_PLANNED = ("auto",)


def fit_by(
    method: str,
    problem: Problem,
    *,
    solver: str | Solver | None = None,
    start: str | None = None,
    stop: StopFlag | None = None,
    callback: Callable[[TraceRow], None] | None = None,
) -> FitResult:
    """Fit `problem` by the strategy `method`, minimising with `solver` (None: the problem's own).

    With ``start="auto"`` all start values come from the data where these can tell them; else those of the parameters
    that ask for it.
    """
    if method in _PLANNED:
        raise UnsupportedError(f"method '{method}'; use --method single (or method = \"single\")")
    if method not in METHODS:
        near = nearest(method, (*METHODS, *_PLANNED)) or f"; there are {', '.join(METHODS)}."
        raise ProblemError(f"there is no method '{method}'{near}")
    solver = problem.settings.solver if solver is None else solver
    solver = solver_named(solver) if isinstance(solver, str) else solver
    if start not in (None, "given", "auto"):
        raise ProblemError(f'start = \'{start}\' is neither "given" nor "auto".')
    check_affine_rules(problem)
    names = wanted_parameters(problem, start or problem.settings.start)
    if not names:
        return METHODS[method](problem, solver, stop, callback)
    changed, record = matched_start(problem, names)
    return dataclasses.replace(METHODS[method](changed, solver, stop, callback), start_values=record)
