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

from odefit.solve import termination as ends
from odefit.solve.contract import Evaluation, Heavy, LinearModel, Objective, Reduced, SolverResult, TraceRow
from odefit.solve.gauss_newton import solve
from odefit.solve.termination import Termination

Array = npt.NDArray[np.float64]

WEIGHTS = (1.0, 10.0, 100.0, 1e3, 1e4, 1e6)
"""Weights of the heavy rows, relative to the others, before their own."""
_LOOSE = 1e-3  # relative tolerance of the problems on the way


class _CappedLinear:
    """A linear model whose heavy rows have smaller weights."""

    __slots__ = ("_root", "uncapped")

    def __init__(self, linear: LinearModel, root: Array) -> None:
        self.uncapped = linear
        self._root = root

    def reduce(self) -> Reduced:
        reduced = self.uncapped.reduce()
        assert isinstance(reduced, Reduced)
        heavy = reduced.heavy
        return Reduced(reduced.R, reduced.b, Heavy(heavy.rows, heavy.right, self._root))

    def reduce_residual(self, residual: Array) -> Array:
        return self.uncapped.reduce_residual(residual)


class Capped:
    """An objective whose heavy rows have at most the weight `most`."""

    def __init__(self, objective: Objective, most: float) -> None:
        self._objective = objective
        self.names = objective.names
        self.bordered = False
        self.heavy_root = np.minimum(objective.heavy_root, np.sqrt(most))

    def evaluate(self, x: Array, order: int) -> Evaluation:
        """See `Objective`."""
        found = self._objective.evaluate(x, order)
        if found.failure:
            return found
        value = found.light + 0.5 * float(np.sum(np.square(self.heavy_root * found.misfit)))
        linear = None if found.linear is None else _CappedLinear(found.linear, self.heavy_root)
        return found._replace(value=value, linear=linear)

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
    termination: Termination,
    callback: Callable[[TraceRow], None] | None = None,
    **parts: Any,
) -> SolverResult:
    """Minimise as `solve` does, raising the weights of heavy rows in steps if there are any."""
    if not objective.heavy_root.size:
        return solve(objective, x0, lower, upper, termination=termination, callback=callback, **parts)
    rows: list[TraceRow] = []
    evaluations, refreshes = 0, 0
    x = x0
    on_the_way = dataclasses.replace(termination, tol=max(termination.tol, _LOOSE))

    def record(row: TraceRow) -> None:
        rows.append(row._replace(iteration=len(rows) + 1))
        if callback is not None:
            callback(rows[-1])

    before: SolverResult | None = None
    stages = [w for w in weights if w < objective.heavy_root[0] ** 2]
    for most in (*stages, None):
        left = termination.max_iterations - len(rows)
        if most is not None and left < 1:
            continue
        own = termination if most is None else on_the_way
        found = solve(
            objective if most is None else Capped(objective, most),
            x,
            lower,
            upper,
            termination=dataclasses.replace(own, max_iterations=max(1, left)),
            callback=record,
            **parts,
        )
        evaluations += found.evaluations
        refreshes += found.refreshes
        if found.status == ends.INTERRUPTED:
            return _interrupted(found, before, objective.heavy_root, rows, evaluations, refreshes)
        before, x = found, found.x
    assert before is not None
    return _with_counts(before, rows, evaluations, refreshes)


def _interrupted(
    found: SolverResult,
    before: SolverResult | None,
    root: Array,
    rows: list[TraceRow],
    evaluations: int,
    refreshes: int,
) -> SolverResult:
    """Return the best point so far, which is that of the stage before if this one had no time for its first."""
    if found.evaluation.failure and before is not None:
        words = "the fit was stopped; this is the best point so far"
        found = dataclasses.replace(before, status=ends.INTERRUPTED, message=words)
    point = _uncapped(found.evaluation, root)
    return _with_counts(found, rows, evaluations, refreshes, evaluation=point, value=point.value)


def _uncapped(point: Evaluation, root: Array) -> Evaluation:
    """Return a point of a capped objective with the weights that the data have."""
    if point.failure or not root.size:
        return point
    finite = np.isfinite(root)
    value = point.light + 0.5 * float(np.sum(np.square(root[finite] * point.misfit[finite])))
    linear = point.linear
    return point._replace(value=value, linear=linear.uncapped if isinstance(linear, _CappedLinear) else linear)


def _with_counts(
    result: SolverResult, rows: list[TraceRow], evaluations: int, refreshes: int, **changes: Any
) -> SolverResult:
    return dataclasses.replace(
        result, iterations=len(rows), evaluations=evaluations, refreshes=refreshes, trace=tuple(rows), **changes
    )
