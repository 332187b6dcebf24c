"""The shock fronts with kappa as an algebraic unknown, beside six Newton steps written out: same fit, and cost of both.

    python -m benchmarks.implicit

For each integrator: the largest relative difference of the estimates of two fits, iterations, and the CPU time of
whole fits and of evaluations with and without derivatives on frozen steps, as ratios to the formula.  Best of
interleaved rounds; models are compiled before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import cycle

import odefit as of
from benchmarks.tables import print_rows
from benchmarks.timing import best_cpu_seconds
from odefit.compile import compile_problem
from odefit.gallery import load
from odefit.problem import Problem
from odefit.transcribe import SingleShooting

INTEGRATORS = ("dopri5", "dop853", "rk32", "ddm", "bdf3")
NAMES = {"formula": "shock_front", "unknown": "shock_front/implicit"}
RTOL = 1e-7


def evaluations(problem: Problem) -> dict[str, Callable[[], object]]:
    """Return evaluations near the start values, on steps that are chosen there; the last point is remembered."""
    objective = SingleShooting(problem)
    x = compile_problem(problem).theta_start
    objective.refresh(x)
    points = cycle((x, 1.000001 * x))

    def evaluate(order: int) -> object:
        return objective.evaluate(next(points), order)

    return {f"order {order}": partial(evaluate, order) for order in (0, 1)}


def row(integrator: str) -> list[str]:
    problems = {one: load(name).with_settings(integrator=integrator, rtol=RTOL) for one, name in NAMES.items()}
    results = {one: of.fit(problem) for one, problem in problems.items()}
    formula, unknown = results["formula"], results["unknown"]
    apart = max(abs(unknown.estimates[name] / value - 1.0) for name, value in formula.estimates.items())
    cells = [
        integrator,
        f"{formula.status} / {unknown.status}",
        f"{formula.iterations} / {unknown.iterations}",
        f"{apart:.0e}",
    ]
    fits = best_cpu_seconds({one: partial(of.fit, problem) for one, problem in problems.items()}, rounds=5)
    cells += [f"{1e3 * fits['formula']:.1f}", f"{fits['unknown'] / fits['formula']:.2f}"]
    calls = {(one, kind): call for one, problem in problems.items() for kind, call in evaluations(problem).items()}
    seconds = best_cpu_seconds({" ".join(key): call for key, call in calls.items()}, rounds=20)
    for kind in ("order 0", "order 1"):
        cells += [
            f"{1e6 * seconds[f'formula {kind}']:.0f}",
            f"{seconds[f'unknown {kind}'] / seconds[f'formula {kind}']:.2f}",
        ]
    return cells


def main() -> None:
    """Print the table."""
    header = [
        "integrator",
        "status",
        "iterations",
        "apart",
        "fit ms",
        "ratio",
        "values us",
        "ratio",
        "derivatives us",
        "ratio",
    ]
    title = f"Shock fronts, rtol {RTOL:g}: by the formula, and ratio of the algebraic unknown to it"
    print_rows(title, header, [row(one) for one in INTEGRATORS], text=3)


if __name__ == "__main__":
    main()
