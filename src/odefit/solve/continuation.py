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

    __slots__ = ("_linear", "_root")

    def __init__(self, linear: LinearModel, root: Array) -> None:
        self._linear = linear
        self._root = root

    def reduce(self) -> Reduced:
        reduced = self._linear.reduce()
        assert isinstance(reduced, Reduced)
        heavy = reduced.heavy
        return Reduced(reduced.R, reduced.b, Heavy(heavy.rows, heavy.right, self._root))

    def reduce_residual(self, residual: Array) -> Array:
        return self._linear.reduce_residual(residual)


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

    stages = [w for w in weights if w < objective.heavy_root[0] ** 2]
    for most in stages:
        left = termination.max_iterations - len(rows)
        if left < 1:
            break
        limited = dataclasses.replace(on_the_way, max_iterations=left)
        found = solve(Capped(objective, most), x, lower, upper, termination=limited, callback=record, **parts)
        evaluations += found.evaluations
        refreshes += found.refreshes
        x = found.x
        if found.status in (ends.FAILED, ends.INTERRUPTED):
            break
    left = max(1, termination.max_iterations - len(rows))
    limited = dataclasses.replace(termination, max_iterations=left)
    last = solve(objective, x, lower, upper, termination=limited, callback=record, **parts)
    return dataclasses.replace(
        last,
        iterations=len(rows),
        evaluations=evaluations + last.evaluations,
        refreshes=refreshes + last.refreshes,
        trace=tuple(rows),
    )
