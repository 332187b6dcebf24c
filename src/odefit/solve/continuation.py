"""Very large and infinite weights, reached by raising them in steps.

With weights inside the objective a narrow curved valley leads to the solution, and most starts end in
the wrong one.  Solving a sequence of problems with growing weights instead, each from the solution of the
last, keeps to the solution that belongs to moderate weights.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from odefit.solve.contract import (
    Evaluation,
    Failed,
    HeavyMisfit,
    LeastSquares,
    Names,
    Objective,
    SolverResult,
    TraceRow,
    heavy_of,
)
from odefit.solve.gauss_newton import solve
from odefit.solve.status import SolverStatus
from odefit.solve.termination import Termination

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

WEIGHTS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e6)
"""Weights of the heavy rows, relative to the others, before their own."""
_LOOSE = 1e-3  # relative tolerance of the problems on the way


def reweighted(point: Evaluation, root: Array) -> Evaluation:
    """Return a point with other weights of the heavy rows; infinite ones have no share in its value."""
    if not isinstance(point, LeastSquares) or point.heavy is None:
        return point
    heavy = point.heavy
    finite = np.isfinite(root)
    with np.errstate(over="ignore"):  # an infinite value is no number to go to
        value = heavy.light + 0.5 * float(np.sum(np.square(root[finite] * heavy.misfit[finite])))
    linear = None if point.linear is None else point.linear.reweighted(root)
    return point._replace(value=value, linear=linear, heavy=HeavyMisfit(heavy.misfit, root, heavy.light))


class Capped:
    """An objective whose heavy rows, but for those that are `kept`, have at most the weight `most`."""

    def __init__(self, objective: Objective, most: float, kept: Flags | None = None) -> None:
        self._objective = objective
        self._largest = np.sqrt(most)
        self._kept = kept
        self.names: Names = objective.names

    def evaluate(self, x: Array, order: int) -> Evaluation:
        """See `Objective`."""
        return self.capped(self._objective.evaluate(x, order))

    def capped(self, point: Evaluation) -> Evaluation:
        """Return a point of the objective with its own weights, with smaller ones."""
        heavy = heavy_of(point)
        if heavy is None:
            return point
        root = np.minimum(heavy.root, self._largest)
        return reweighted(point, root if self._kept is None else np.where(self._kept, heavy.root, root))

    def refresh(self, x: Array) -> int:
        """See `Objective`."""
        return self._objective.refresh(x)


def solve_weighted(
    objective: Objective,
    x0: Array,
    lower: Array,
    upper: Array,
    *,
    weights: tuple[float, ...] = WEIGHTS,
    kept: Flags | None = None,
    termination: Termination,
    callback: Callable[[TraceRow], None] | None = None,
    **parts: Any,
) -> SolverResult:
    """Minimise as `solve` does, raising the weights of heavy rows in steps if there are any; not of those `kept`."""
    objective.refresh(x0)
    first = objective.evaluate(x0, 1)
    heavy = heavy_of(first)
    if heavy is None or not heavy.root.size:
        return solve(objective, x0, lower, upper, termination=termination, callback=callback, first=first, **parts)
    rows: list[TraceRow] = []
    evaluations, refreshes = 0, 0
    x, begin = x0, first
    on_the_way = dataclasses.replace(termination, tol=max(termination.tol, _LOOSE))

    def record(row: TraceRow) -> None:
        rows.append(row._replace(iteration=len(rows) + 1))
        if callback is not None:
            callback(rows[-1])

    before: SolverResult | None = None
    stages = [w for w in weights if w < heavy.root[0] ** 2]
    for most in (*stages, None):
        left = termination.max_iterations - len(rows)
        if most is not None and left < 1:
            continue
        target = None if most is None else Capped(objective, most, kept)
        result = solve(
            target or objective,
            x,
            lower,
            upper,
            termination=dataclasses.replace(on_the_way if target else termination, max_iterations=max(1, left)),
            callback=record,
            first=target.capped(begin) if target and begin else begin,
            **parts,
        )
        begin = None
        evaluations += result.evaluations
        refreshes += result.refreshes
        if result.status == SolverStatus.INTERRUPTED:
            return _interrupted(result, before, heavy.root, rows, evaluations, refreshes)
        before, x = result, result.x
    assert before is not None
    if before.status == SolverStatus.LIMIT:  # of all stages together
        before = dataclasses.replace(before, message=f"the limit of {len(rows)} iterations was reached")
    return _with_counts(before, rows, evaluations, refreshes)


def _interrupted(
    result: SolverResult,
    before: SolverResult | None,
    root: Array,
    rows: list[TraceRow],
    evaluations: int,
    refreshes: int,
) -> SolverResult:
    """Return the best point so far, which is that of the stage before if this one had no time for its first."""
    if isinstance(result.evaluation, Failed) and before is not None:
        words = "the fit was stopped; this is the best point so far"
        result = dataclasses.replace(before, status=SolverStatus.INTERRUPTED, message=words)
    return _with_counts(result, rows, evaluations, refreshes, evaluation=reweighted(result.evaluation, root))


def _with_counts(
    result: SolverResult, rows: list[TraceRow], evaluations: int, refreshes: int, **changes: Any
) -> SolverResult:
    return dataclasses.replace(
        result, iterations=len(rows), evaluations=evaluations, refreshes=refreshes, trace=tuple(rows), **changes
    )
