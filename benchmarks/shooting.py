"""Single, incremental and multiple shooting and collocation on problems that one of them is made for.

    python -m benchmarks.shooting [number of starts] [names of problems or methods]

A fit is *correct* if it converged to within 1 % of the best known objective, *wrong* if it converged elsewhere; else it
*failed*, and said so.  Starts and noise have fixed seeds.

system II           C. Michalik, R. Hannemann and W. Marquardt (2009): starts from U(0, 10) in all four parameters
FitzHugh-Nagumo     two states of which V alone is measured; starts within a factor 5 of the truth in all parameters
                    and both initial values
Lorenz              all states measured 200 times up to t = 20, where errors have grown by 1e8; starts within a factor 3
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

import odefit as of
from odefit.gallery import load
from odefit.problem import Problem

METHODS = ("single", "incremental", "multiple", "collocation")
KINDS = ("correct", "wrong", "failed")

FITZHUGH_NAGUMO = """
V' = c*(V - V^3/3 + R)
R' = -(V - a + b*R)/c
V(0) = V0
R(0) = R0
"""
LORENZ = """
x' = s*(y - x)
y' = x*(r - z) - y
z' = x*y - b*z
x(0) = x0
y(0) = y0
z(0) = z0
"""


def simulated(
    equations: str, truth: dict[str, float], times: np.ndarray, sigma: dict[str, float], seed: int
) -> Problem:
    """Return a problem with data simulated at `truth`, which is its start."""
    model = of.Model.from_text(equations)
    parameters = [of.Parameter(name, start=value) for name, value in truth.items()]
    nothing = of.Measurements.from_columns(times, {name: np.zeros(times.size) for name in sigma})
    frame = of.simulate(of.Problem(model, parameters, nothing).with_settings(rtol=1e-10), times=times)
    random = np.random.default_rng(seed)
    values = {name: frame[name].to_numpy() + s * random.standard_normal(times.size) for name, s in sigma.items()}
    return of.Problem(model, parameters, of.Measurements.from_columns(times, values, sigma=sigma))


def fitzhugh_nagumo(observed: tuple[str, ...] = ("V",), seed: int = 1) -> Problem:
    truth = {"a": 0.2, "b": 0.2, "c": 3.0, "V0": -1.0, "R0": 1.0}
    return simulated(FITZHUGH_NAGUMO, truth, np.linspace(0.0, 20.0, 41), dict.fromkeys(observed, 0.1), seed)


def lorenz(end: float = 20.0, seed: int = 1) -> Problem:
    truth = {"s": 10.0, "r": 28.0, "b": 8.0 / 3.0, "x0": -8.0, "y0": 7.0, "z0": 27.0}
    times = np.arange(0.1, end + 0.05, 0.1)
    return simulated(LORENZ, truth, times, dict.fromkeys("xyz", 0.5), seed)


def system_two() -> Problem:
    return load("lotka_volterra_iss")


def within_a_factor(problem: Problem, factor: float, count: int, seed: int) -> Iterator[Problem]:
    random = np.random.default_rng(seed)
    for _ in range(count):
        factors = factor ** random.uniform(-1.0, 1.0, len(problem.free))
        yield problem.with_start(**{p.name: p.start * f for p, f in zip(problem.free, factors, strict=True)})


def uniform(problem: Problem, high: float, count: int, seed: int) -> Iterator[Problem]:
    random = np.random.default_rng(seed)
    for _ in range(count):
        values = random.uniform(0.0, high, len(problem.free))
        yield problem.with_start(**{p.name: v for p, v in zip(problem.free, values.tolist(), strict=True)})


PROBLEMS: dict[str, tuple[Callable[[], Problem], Callable[[Problem, int], Iterator[Problem]]]] = {
    "system II": (system_two, lambda problem, count: uniform(problem, 10.0, count, 20)),
    "FitzHugh-Nagumo": (fitzhugh_nagumo, lambda problem, count: within_a_factor(problem, 5.0, count, 21)),
    "Lorenz": (lorenz, lambda problem, count: within_a_factor(problem, 3.0, count, 22)),
}


def best_known(problem: Problem) -> float:
    """Return the best objective of fits from the truth, by the methods that work there."""
    fits = [of.fit(problem, method=method) for method in ("single", "multiple")]
    return min(fit.objective for fit in fits if fit.converged)


def count(starts: list[Problem], method: str, best: float) -> tuple[list[int], list[float], float]:
    """Return how the fits ended, in the order of `KINDS`, their objectives, and CPU milliseconds a start."""
    counts, objectives = dict.fromkeys(KINDS, 0), []
    of.fit(starts[0], method=method)
    began = time.process_time()
    for problem in starts:
        fit = of.fit(problem, method=method)
        objectives.append(fit.objective)
        near = fit.objective <= 1.01 * best
        counts[("correct" if near else "wrong") if fit.converged else "failed"] += 1
    return list(counts.values()), objectives, 1e3 * (time.process_time() - began) / len(starts)


def main() -> None:
    words = sys.argv[1:]
    n = int(words.pop(0)) if words and words[0].isdigit() else 100
    chosen = [name for name in PROBLEMS if name in words] or list(PROBLEMS)
    methods = [name for name in METHODS if name in words] or list(METHODS)
    for name in chosen:
        make, starts_of = PROBLEMS[name]
        problem = make()
        best = best_known(problem)
        starts = list(starts_of(problem, n))
        print(f"\n{name}, {n} starts; best known objective {best:.7g}")
        print(f"{'method':12}" + "".join(f"{kind:>9}" for kind in KINDS) + f"{'ms CPU':>9}")
        for method in methods:
            counts, objectives, cost = count(starts, method, best)
            print(f"{method:12}" + "".join(f"{number:9}" for number in counts) + f"{cost:9.1f}", flush=True)
            lower = [value for value in objectives if value < best * (1.0 - 1e-4)]
            if lower:
                print(f"  {len(lower)} found a better objective: {min(lower):.7g}")


if __name__ == "__main__":
    main()
