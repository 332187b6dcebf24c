"""Least-squares objectives on plain arrays, for tests of the solver alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from odefit.solve import (
    Evaluation,
    Failed,
    LeastSquares,
    OmegaTolerance,
    Scaling,
    SolverResult,
    Termination,
    TrustRegion,
    TrustStep,
    solve,
)
from odefit.solve.dense import DenseLinear


def complex_step(function: Callable, x: np.ndarray) -> np.ndarray:
    """Return the Jacobian of an analytic function to rounding."""
    columns = [np.imag(function(x + 1e-30j * unit)) / 1e-30 for unit in np.eye(x.size)]
    return np.stack(columns, axis=1)


class DenseObjective:
    """Residuals of a function; `fails(x)` returns words where it has no value.

    Every evaluation is remembered in `log` as (x, order, generation, value).
    """

    def __init__(self, function: Callable, names: tuple[str, ...], fails: Callable | None = None) -> None:
        self.function = function
        self.names = names
        self.fails = fails
        self.generation = 0
        self.log: list[tuple[np.ndarray, int, int, float]] = []
        self.limit = 20_000

    def refresh(self, x: np.ndarray) -> int:
        self.generation += 1
        return self.generation

    def evaluate(self, x: np.ndarray, order: int) -> Evaluation:
        assert len(self.log) < self.limit, "the solver does not come to an end"
        words = self.fails(x) if self.fails else ""
        if words:
            return self.failed(x, order, words)
        residual = np.asarray(self.function(x), dtype=float)
        linear = DenseLinear(complex_step(self.function, x), residual) if order else None
        value = 0.5 * float(residual @ residual)
        self.log.append((x.copy(), order, self.generation, value))
        size = math.sqrt(2.0 * value)
        return LeastSquares(x, self.generation, value, residual, linear, size, self.error_ratio(x))

    def error_ratio(self, x: np.ndarray) -> float:
        return 0.0

    def failed(self, x: np.ndarray, order: int, words: str, *, interrupted: bool = False) -> Failed:
        self.log.append((x.copy(), order, self.generation, math.nan))
        return Failed(x, self.generation, words, interrupted)


def minimise(objective, x0, *, lower=None, upper=None, logarithmic=False, callback=None, **parts) -> SolverResult:
    """Run the solver with default parts where none are given."""
    x0 = np.asarray(x0, dtype=float)
    n = x0.size
    lower = np.full(n, -np.inf) if lower is None else np.asarray(lower, dtype=float)
    upper = np.full(n, np.inf) if upper is None else np.asarray(upper, dtype=float)
    chosen = {
        "scaling": Scaling(x0, np.full(n, logarithmic)),
        "step": TrustStep(),
        "globalisation": TrustRegion(),
        "termination": Termination(tol=1e-6, tol_abs=1e-9),
        "freeze": OmegaTolerance(),
    } | parts
    return solve(objective, x0, lower, upper, callback=callback, **chosen)


def minimise_function(function, x0, fails=None, **options) -> tuple[SolverResult, DenseObjective]:
    objective = DenseObjective(function, tuple(f"x{i}" for i in range(len(x0))), fails)
    return minimise(objective, x0, **options), objective


def gradient(function, x: np.ndarray) -> np.ndarray:
    return complex_step(function, x).T @ function(x)
