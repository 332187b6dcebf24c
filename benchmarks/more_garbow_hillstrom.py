"""The solvers on the problems of More, Garbow and Hillstrom, against SciPy: how many evaluations, and to what end.

    python -m benchmarks.more_garbow_hillstrom

An entry reads iterations/evaluations and how it ended: nothing for a known minimum, ``?`` for another stationary
point, a word for the solver's own account of having not converged, and ``FALSE`` for a reported success at a point
that is not stationary.  Derivatives are exact; every problem is run from its start and from ten times that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import least_squares

from benchmarks.more_garbow_hillstrom_functions import FUNCTIONS, TestFunction
from odefit.solve import (
    SOLVERS,
    Evaluation,
    Failed,
    LeastSquares,
    OmegaTolerance,
    Scaling,
    SolverResult,
    Termination,
    solve,
)  # fmt: skip
from odefit.solve.dense import DenseLinear

STATIONARY = 1e-4
"""Largest cosine between the residual and a column of the Jacobian that counts as a right angle."""


@dataclass
class FunctionObjective:
    """A test function as the solvers see it; where it overflows it has no value."""

    problem: TestFunction

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"x{i}" for i in range(len(self.problem.start)))

    def refresh(self, x: np.ndarray) -> int:
        return 1

    def evaluate(self, x: np.ndarray, order: int) -> Evaluation:
        residual = residual_of(self.problem, x)
        if not np.abs(residual).max() < 1e100:
            return Failed(x, 1, "overflow")
        linear = DenseLinear(jacobian_of(self.problem, x), residual) if order else None
        square = float(residual @ residual)
        return LeastSquares(x, 1, 0.5 * square, residual, linear, math.sqrt(square), 0.0)


def residual_of(problem: TestFunction, x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(problem.function(x), dtype=float)


def jacobian_of(problem: TestFunction, x: np.ndarray) -> np.ndarray:
    """Return the derivatives, exact to rounding: the functions are analytic."""
    with np.errstate(all="ignore"):
        columns = [np.imag(problem.function(x + 1e-30j * unit)) / 1e-30 for unit in np.eye(x.size)]
    return np.stack(columns, axis=1)


def largest_cosine(problem: TestFunction, x: np.ndarray) -> float:
    """Return the largest cosine between the residual and a column of the Jacobian; 0 at a stationary point."""
    residual, jacobian = residual_of(problem, x), jacobian_of(problem, x)
    sizes = np.linalg.norm(jacobian, axis=0) * np.linalg.norm(residual)
    return float(np.max(np.abs(jacobian.T @ residual) / np.where(sizes > 0, sizes, 1.0)))


def is_minimum(problem: TestFunction, value: float) -> bool:
    """Tell whether half a sum of squares is one of the printed minima."""
    return any(math.isclose(2 * value, known, rel_tol=1e-4, abs_tol=1e-10) for known in problem.minima)


def run(problem: TestFunction, solver: str, factor: float = 1.0) -> SolverResult:
    start = factor * np.array(problem.start)
    free = np.full(start.size, np.inf)
    composition = SOLVERS[solver]
    return solve(
        FunctionObjective(problem), start, -free, free,
        scaling=Scaling(start, np.zeros(start.size, dtype=bool)),
        step=composition.step, globalisation=composition.globalisation,
        termination=Termination(tol=1e-6, tol_abs=1e-8), freeze=OmegaTolerance(),
    )  # fmt: skip


class Entry(NamedTuple):
    """One cell of the table."""

    iterations: int
    evaluations: int
    end: str

    def __str__(self) -> str:
        return f"{self.iterations}/{self.evaluations} {self.end}".strip()


def ending(problem: TestFunction, x: np.ndarray, value: float, converged: bool, words: str) -> str:
    if not converged:
        return words
    if is_minimum(problem, value):
        return ""
    return "?" if largest_cosine(problem, x) <= STATIONARY else "FALSE"


def entry(problem: TestFunction, solver: str, factor: float) -> Entry:
    result = run(problem, solver, factor)
    return Entry(
        result.iterations, result.evaluations, ending(problem, result.x, result.value, result.converged, result.status)
    )


def scipy_entry(problem: TestFunction, method: str, factor: float) -> Entry:
    start = factor * np.array(problem.start)
    tolerances = {"ftol": 1e-12, "xtol": 1e-12, "gtol": 1e-12, "max_nfev": 1000}
    if residual_of(problem, start).size < start.size and method == "lm":
        return Entry(0, 0, "m < n")
    if not np.isfinite(residual_of(problem, start)).all():
        return Entry(0, 0, "failed")
    try:
        result = least_squares(
            lambda x: residual_of(problem, x), start, lambda x: jacobian_of(problem, x), method=method,
            x_scale="jac", **tolerances,
        )  # fmt: skip
    except ValueError as error:  # a value that is not finite on the way
        return Entry(0, 0, "failed" if "finite" in str(error) else str(error))
    iterations = result.njev or 0
    return Entry(iterations, result.nfev, ending(problem, result.x, result.cost, result.status > 0, "limit"))


def table(factor: float) -> list[list[str]]:
    rows = []
    for problem in FUNCTIONS:
        entries = [str(entry(problem, solver, factor)) for solver in SOLVERS]
        rows.append([problem.name, *entries, *(str(scipy_entry(problem, method, factor)) for method in ("trf", "lm"))])
    return rows


def main() -> None:
    for factor in (1.0, 10.0):
        rows = [["problem", *SOLVERS, "SciPy trf", "SciPy lm"], *table(factor)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        print(f"\nstart x {factor:g}")
        for row in rows:
            print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
