"""Frozen against re-adapted step grids at loose tolerances.

    python -m benchmarks.freeze

Nowak et al. (2005, 3.4) say that with frozen grids the objective is smooth, so that a Gauss-Newton iteration
works at much looser tolerances.  Every problem is fitted by `trust` from the file's start and from ten starts
multiplied by log-uniform factors in [1/2, 2], atol = rtol/100, with each rule of freezing.  Counted are the fits that

conv
    report convergence, and
ok
    have found the minimum to statistical accuracy, whatever they report: at rtol 1e-10 the objective at their
    estimates exceeds the best minimum known by at most 0.05 s^2, which is a displacement by at most 0.32 standard
    deviations in any direction.  s^2 is the variance of the weighted data: 1 where standard deviations are given, else
    2 phi/(N - n) at the minimum; for exact data s is taken as 1 % of the root mean square of the data.

Medians over the starts of iterations, evaluations and refreshes of the grids follow (with `readapt` every evaluation
is one).  The last line of a problem is the same at rtol 1e-7.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median_low

import odefit as of
from benchmarks.starts import TIGHT, perturbed
from benchmarks.tables import print_rows
from odefit.criteria.least_squares import has_absolute_sigma
from odefit.gallery import load
from odefit.problem import Problem
from odefit.solve import POLICIES

PROBLEMS = ("barnes", "barnes/b", "pyridine", "pyridine/exact", "bioprocess", "shock_front", "lotka_volterra_iss")
INTEGRATORS, TOLERANCES = ("dopri5", "rk32"), (1e-2, 1e-3)
STARTS, FACTOR, SEED = 10, 2.0, 2
DISPLACEMENT = 0.05


@dataclass(frozen=True)
class Score:
    """Fits of one problem with one setting."""

    fits: int
    ok: int
    converged: int
    iterations: int
    evaluations: int
    refreshes: int

    @property
    def words(self) -> list[str]:
        """Cells of a table."""
        return [f"{self.ok}", f"{self.converged}", f"{self.iterations}", f"{self.evaluations}", f"{self.refreshes}"]


def allowed(problem: Problem) -> float:
    """Return the largest objective (at tight tolerances) that counts as found."""
    result = of.fit(problem.with_settings(**TIGHT, tol=1e-8))
    best = result.objective
    if has_absolute_sigma(problem.measurements):
        variance = 1.0
    elif best < 1e-9:
        variance = (0.01 * result.plan.data.norm) ** 2 / result.n_data
    else:
        variance = 2.0 * best / (result.n_data - len(problem.free))
    return best + DISPLACEMENT * variance


def starts(name: str) -> list[Problem]:
    """Return the problem from its file's start and from the perturbed ones."""
    problem = load(name)
    return [problem, *perturbed(problem, FACTOR, STARTS, SEED)]


def score(problems: Iterable[Problem], limit: float, **settings: object) -> Score:
    """Fit all `problems` with the same settings."""
    results = [of.fit(problem.with_settings(**settings)) for problem in problems]
    values = [r.problem.with_settings(**TIGHT).evaluate(r.estimates, order=0).objective for r in results]
    return Score(
        len(results),
        sum(value <= limit for value in values if math.isfinite(value)),
        sum(r.converged for r in results),
        median_low(r.iterations for r in results),
        median_low(r.evaluations for r in results),
        median_low(r.solution.refreshes for r in results),
    )


def compare(name: str) -> list[tuple[str, float, dict[str, Score]]]:
    """Return scores by integrator, tolerance and rule."""
    problems = starts(name)
    limit = allowed(problems[0])
    scores = [
        (
            method,
            rtol,
            {
                rule: score(problems, limit, integrator=method, rtol=rtol, atol=rtol / 100, freeze=rule)
                for rule in POLICIES
            },
        )
        for method in INTEGRATORS
        for rtol in TOLERANCES
    ]
    return [*scores, ("dopri5", 1e-7, {rule: score(problems, limit, freeze=rule) for rule in POLICIES})]


def main() -> None:
    header = [
        "problem",
        "method",
        "rtol",
        *(cell for r in POLICIES for cell in (f"{r}: ok", "conv", "it", "ev", "ref")),
    ]
    rows, totals = [], {}
    for name in PROBLEMS:
        for method, rtol, scores in compare(name):
            rows.append([name, method, f"{rtol:g}", *(cell for s in scores.values() for cell in s.words)])
            for rule, s in scores.items():
                total = totals.setdefault((method, rtol, rule), [0, 0, 0])
                for i, n in enumerate((s.fits, s.ok, s.converged)):
                    total[i] += n
    print_rows(f"Of {STARTS + 1} starts each, by rule of freezing", header, rows, text=2)
    lines = [[m, rule, f"{rtol:g}", *map(str, total)] for (m, rtol, rule), total in totals.items()]
    print_rows("All problems", ["method", "rule", "rtol", "fits", "ok", "converged"], lines, text=2)


if __name__ == "__main__":
    main()
