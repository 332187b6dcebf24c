"""Pyridine with independent noise: the solvers against each other and against SciPy.

    python -m benchmarks.pyridine

Exact data at 26 and 51 times on [0, 2.5] plus noise of 0.01 from numpy's default_rng(seed), all starts at one, log
parameters.  SciPy's `least_squares` has the same residuals with their exact Jacobian (integrated at the same
tolerances, grids adapted at every point), and xtol = ftol = gtol = 1e-12.

The mark: the objective of `trust` exceeds the best that anyone found by at most 1e-4 of it, or the fit says that a
parameter runs away, and which.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

import odefit as of
from benchmarks.tables import print_rows
from odefit.gallery import load
from odefit.problem import Problem
from odefit.solve import SOLVERS

SEEDS, SIZES, NOISE, MARK = range(1, 6), (26, 51), 0.01, 1e-4
TRUE = {
    "k1": 1.81, "k2": 0.894, "k3": 29.4, "k4": 9.21, "k5": 0.058, "k6": 2.43, "k7": 0.0644, "k8": 5.55, "k9": 0.0201,
    "k10": 0.577, "k11": 2.15,
}  # fmt: skip
STATES = tuple(f"y{i}" for i in range(1, 8))


@dataclass(frozen=True)
class Attempt:
    """What one method found; `work` is iterations/evaluations, and SciPy's nfev."""

    objective: float
    work: str
    status: str
    named: str = ""


def noisy(seed: int, size: int) -> Problem:
    """Return the problem with independent noise at `size` times."""
    # one method for all: where every evaluation chooses anew, as SciPy's do, a change of method is a jump
    problem = load("pyridine").with_settings(integrator="dopri5")
    times = np.linspace(0.0, 2.5, size)
    exact = of.simulate(problem.with_settings(rtol=1e-11, atol=1e-13), TRUE, times=times)[list(STATES)].to_numpy()
    values = exact + NOISE * np.random.default_rng(seed).standard_normal(exact.shape)
    columns = {name: values[:, i] for i, name in enumerate(STATES)}
    return problem.with_measurements(of.Measurements.from_columns(time=times, columns=columns))


def by_odefit(problem: Problem, solver: str) -> Attempt:
    result = of.fit(problem, solver=solver)
    named = re.search(r"'(\w+)' keeps moving", result.message)
    work = f"{result.iterations}/{result.evaluations}"
    return Attempt(result.objective, work, result.status, named[1] if named else "")


class Scipy:
    """Residuals and Jacobian in log parameters, computed together."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.names = [p.name for p in problem.free]
        self.at, self.found = np.empty(0), None

    def evaluate(self, x):
        if not np.array_equal(x, self.at):
            self.at = x.copy()
            self.found = self.problem.evaluate(dict(zip(self.names, np.exp(x).tolist(), strict=True)))
        return self.found

    def residuals(self, x):
        evaluation = self.evaluate(x)
        return evaluation.residuals if evaluation.status == "ok" else np.full(evaluation.residuals.size, 1e6)

    def jacobian(self, x):
        evaluation = self.evaluate(x)
        if evaluation.jacobian is None:
            return np.zeros((evaluation.residuals.size, x.size))
        return evaluation.jacobian * np.exp(x)

    def fit(self, method: str) -> Attempt:
        bounds = (-np.inf, np.inf) if method == "lm" else (-50.0, 50.0)  # beyond e^50 no number is left
        result = least_squares(
            self.residuals, np.zeros(len(self.names)), jac=self.jacobian, method=method, bounds=bounds, xtol=1e-12,
            ftol=1e-12, gtol=1e-12, max_nfev=2000,
        )  # fmt: skip
        status = {0: "limit", 1: "gtol", 2: "ftol", 3: "xtol", 4: "ftol, xtol"}.get(result.status, "failed")
        return Attempt(float(result.cost), str(result.nfev), status)


def compare(seed: int, size: int) -> dict[str, Attempt]:
    """Return what every method found."""
    problem = noisy(seed, size)
    attempts = {solver: by_odefit(problem, solver) for solver in SOLVERS}
    return attempts | {f"scipy {method}": Scipy(problem).fit(method) for method in ("trf", "lm")}


def excess(attempts: dict[str, Attempt]) -> float:
    """Return by which fraction the objective of `trust` exceeds the best."""
    best = min(a.objective for a in attempts.values())
    return attempts["trust"].objective / best - 1.0


def meets_mark(attempts: dict[str, Attempt]) -> bool:
    return excess(attempts) <= MARK or bool(attempts["trust"].named)


def main() -> None:
    rows, summary = [], []
    for size in SIZES:
        for seed in SEEDS:
            attempts = compare(seed, size)
            best = min(a.objective for a in attempts.values())
            for name, a in attempts.items():
                over = f"{a.objective / best - 1.0:.1e}"
                rows.append([str(size), str(seed), name, a.status, a.named, f"{a.objective:.10f}", over, a.work])
            mark = "met" if meets_mark(attempts) else "missed"
            trust = attempts["trust"]
            summary.append(
                [str(size), str(seed), trust.status, trust.named, f"{best:.10f}", f"{excess(attempts):.1e}", mark]
            )
    header = ["times", "seed", "method", "status", "runs away", "objective", "excess", "iterations/evaluations"]
    print_rows("Pyridine with independent noise of 0.01, from ones", header, rows, text=5)
    header = ["times", "seed", "status", "runs away", "best of all", "excess of trust", "mark"]
    print_rows("The default solver", header, summary, text=4)


if __name__ == "__main__":
    main()
