"""Tables 1, 2 and 3 of the paper on incremental single shooting, computed anew.

    python -m benchmarks.iss [number of starts]

C. Michalik, R. Hannemann and W. Marquardt, Comput. Chem. Eng. 33 (2009) 1298-1305.  A fit is *correct* if it
converged and all parameters are within 5 % of the best minimum, *wrong* if it converged elsewhere; else it failed in
the integration or in the optimiser (which includes wrong minima that the linearised model cannot confirm).  Starts
and noise have fixed seeds (the paper's are not published).  ``start = auto`` replaces the start by one from the data,
so that all starts are one and the same where the model is affine in its parameters.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence

import numpy as np

import odefit as of
from odefit.gallery import load
from odefit.problem import Problem

METHODS = ("single", "incremental", "incremental-dense", "start = auto")
KINDS = ("correct", "wrong", "integration", "optimiser")
PAPER = {
    "system I, mu = 5": {"single": (16, 84, 0, 0), "incremental": (18, 82, 0, 0)},
    "system I, mu = 10": {"single": (75, 0, 0, 25), "incremental": (100, 0, 0, 0)},
    "system I, mu = 20": {"single": (20, 0, 0, 80), "incremental": (99, 0, 0, 1)},
    "system I, mu = 40": {"single": (0, 0, 0, 100), "incremental": (100, 0, 0, 0)},
    "system II": {"single": (1, 15, 84, 0), "incremental": (69, 2, 29, 0)},
}
TABLE_3 = (4.2176, 9.1574, 7.9221, 9.5949)
UNSTABLE = """
y1' = y2
y2' = {mu}^2*y1 - ({mu}^2 + p^2)*sin(p*t)
y1(0) = 0
y2(0) = 3.141592653589793
"""


def system_one(mu: float) -> Problem:
    """Return Bulirsch's problem; the paper prints its initial values the wrong way round."""
    t = np.arange(1, 11) / 10
    noise = 0.05 * np.random.default_rng(5).standard_normal((2, t.size))
    values = {"y1": np.sin(math.pi * t) + noise[0], "y2": math.pi * np.cos(math.pi * t) + noise[1]}
    return of.Problem(
        model=of.Model.from_text(UNSTABLE.format(mu=mu)),
        parameters=[of.Parameter("p", start=3.0)],
        measurements=of.Measurements.from_columns(t, values, sigma={"y1": 0.05, "y2": 0.05}),
    )


def best_minimum(problem: Problem, starts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the estimates of the best converged fit from starts that are near the truth."""
    fits = [of.fit(problem.with_start(**start)) for start in starts]
    return min((fit for fit in fits if fit.converged), key=lambda fit: fit.objective).estimates


def count(
    problem: Problem, starts: Sequence[Mapping[str, float]], method: str, answer: Mapping[str, float]
) -> tuple[list[int], float]:
    """Return how the fits ended, in the order of `KINDS`, and CPU milliseconds a start."""
    counts = dict.fromkeys(KINDS, 0)
    options = {"start": "auto"} if method == "start = auto" else {"method": method}
    of.fit(problem.with_start(**answer), **options)
    began = time.process_time()
    for start in starts:
        result = of.fit(problem.with_start(**start), **options)
        near = all(abs(result.estimates[name] - value) < 0.05 * abs(value) for name, value in answer.items())
        kind = "integration" if result.status == "failed" else "optimiser"
        counts[("correct" if near else "wrong") if result.converged else kind] += 1
    return list(counts.values()), 1e3 * (time.process_time() - began) / len(starts)


def print_counts(title: str, problem: Problem, starts: list[dict[str, float]], answer: Mapping[str, float]) -> None:
    for method in METHODS:
        counts, cost = count(problem, starts, method, answer)
        paper = "/".join(map(str, PAPER[title].get(method, ("-",))))
        print(f"{title:18} {method:18} {paper:>14} {'/'.join(map(str, counts)):>14} {cost:9.1f}", flush=True)


def print_table_3(problem: Problem) -> None:
    start = dict(zip(("k1", "k2", "k3", "k4"), TABLE_3, strict=True))
    result = of.fit(problem.with_start(**start), method="incremental")
    print(f"\nTable 3 (start {TABLE_3}): {result.status}, objective {result.objective:.6g}")
    print("horizon     " + "".join(f"{a.horizon:>9g}" for a in result.attempts))
    print("iterations  " + "".join(f"{a.iterations:>9}" for a in result.attempts))
    for name in start:
        print(f"{name:12}" + "".join(f"{a.estimates[name]:>9.4f}" for a in result.attempts))
    print(f"equivalent iterations {result.equivalent_iterations:.2f} (paper 12.35), of {result.iterations} (paper 55)")


def main(n: int = 100) -> None:
    print(f"{n} starts; counts are {'/'.join(KINDS)}")
    print(f"{'problem':18} {'method':18} {'paper':>14} {'here':>14} {'ms/start':>9}")
    for mu in (5, 10, 20, 40):
        problem = system_one(mu)
        points = np.random.default_rng(1).uniform(-500, 500, n)
        answer = best_minimum(problem, [{"p": p} for p in np.linspace(2.8, 3.4, 7)])
        print_counts(f"system I, mu = {mu}", problem, [{"p": p} for p in points], answer)
    problem = load("lotka_volterra_iss")
    points = np.random.default_rng(1).uniform(0, 10, (n, 4))
    starts = [dict(zip(("k1", "k2", "k3", "k4"), row, strict=True)) for row in points.tolist()]
    print_counts("system II", problem, starts, best_minimum(problem, [{}]))
    print_table_3(problem)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
