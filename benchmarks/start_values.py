"""Start values from the data: how often they lead to the minimum, and what they cost.

    python -m benchmarks.start_values [number of noise seeds]

Each problem is simulated at known parameters with as many seeds of noise; `reached` counts the fits by single shooting
from the matched start values whose objective is within 1 % of the best known: the better one of this fit and of one
that starts at the truth.  The user's own start values are far off, and are not used.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

import odefit as of
from odefit.gallery import load
from odefit.problem import Problem
from odefit.strategy.start_values import matched_start

FITZHUGH = """
V' = c*(V - V^3/3 + R)
R' = -(V - a + b*R)/c
V(0) = -1
R(0) = 1
"""
PYRIDINE = (1.81, 0.894, 29.4, 9.21, 0.058, 2.43, 0.0644, 5.55, 0.0201, 0.577, 2.15)


class Case(NamedTuple):
    """A problem with poor start values, its truth, and how its data are made."""

    problem: Callable[[], Problem]
    truth: Mapping[str, float]
    times: np.ndarray
    noise: float
    relative: bool = True


def fitzhugh_nagumo() -> Problem:
    """Return the relaxation oscillator with both states measured."""
    data = of.Measurements.from_columns([1.0, 2.0], {"V": [0.0, 0.0], "R": [0.0, 0.0]})
    names = ("a", "b", "c")
    parameters = [of.Parameter(name, start=5.0, lower=1e-3, upper=100.0) for name in names]
    return of.Problem(model=of.Model.from_text(FITZHUGH), parameters=parameters, measurements=data)


def orbits() -> Problem:
    return load("lotka_volterra_iss").with_start(k1=7.0, k2=8.0, k3=9.0, k4=6.0)


BARNES = {"k1": 0.86, "k2": 2.08, "k3": 1.81}
ORBITS = {"k1": 1.0, "k2": 1.0, "k3": 1.0, "k4": 0.1}
CASES = {
    "Barnes (a), 5 %": Case(lambda: load("barnes"), BARNES, np.linspace(0, 5, 11), 0.05),
    "Barnes (a), 20 %": Case(lambda: load("barnes"), BARNES, np.linspace(0, 5, 11), 0.2),
    "Barnes (b), 5 %": Case(lambda: load("barnes/b"), BARNES | {"a": 1.0, "b": 0.3}, np.linspace(0, 5, 11), 0.05),
    "Barnes (b), 20 %": Case(lambda: load("barnes/b"), BARNES | {"a": 1.0, "b": 0.3}, np.linspace(0, 5, 11), 0.2),
    **{
        f"system II, {n} points, {round(100 * noise)} %": Case(orbits, ORBITS, np.linspace(10 / n, 10, n), noise)
        for n in (20, 10, 7)
        for noise in (0.05, 0.1, 0.2)
    },
    **{
        f"pyridine, noise {noise:g}": Case(
            lambda: load("pyridine"),
            {f"k{i + 1}": value for i, value in enumerate(PYRIDINE)},
            np.linspace(0.1, 2.5, 25),
            noise,
            relative=False,
        )
        for noise in (0.005, 0.01, 0.02)
    },
    **{
        f"FitzHugh-Nagumo, {round(100 * noise)} %": Case(
            fitzhugh_nagumo, {"a": 0.2, "b": 0.2, "c": 3.0}, np.linspace(0.5, 20, 40), noise
        )
        for noise in (0.05, 0.1, 0.2)
    },
}


def simulated(case: Case, problem: Problem, seed: int) -> Problem:
    """Return the problem with data of one noise seed; relative noise is of the value, at least 1 % of the largest."""
    frame = of.simulate(problem, case.truth, times=case.times)
    rng = np.random.default_rng(seed)
    columns, sigma = {}, {}
    for name in problem.observables:
        exact = frame[name].to_numpy()
        least = 0.01 * np.abs(exact).max()
        sigma[name] = (
            case.noise * np.maximum(np.abs(exact), least) if case.relative else np.full(exact.size, case.noise)
        )
        columns[name] = exact + sigma[name] * rng.standard_normal(exact.size)
    return problem.with_measurements(of.Measurements.from_columns(case.times, columns, sigma=sigma))


def reached(case: Case, seeds: int) -> tuple[int, float, float]:
    """Return how many seeds reach the minimum, CPU milliseconds of the start values, and mean iterations."""
    problem = case.problem()
    good, cost, iterations = 0, [], []
    for seed in range(seeds):
        noisy = simulated(case, problem, seed)
        names = [p.name for p in noisy.free]
        matched_start(noisy, names)
        began = time.process_time()
        changed, _ = matched_start(noisy, names)
        cost.append(time.process_time() - began)
        result = of.fit(changed)
        best = min(result.objective, of.fit(noisy.with_start(**case.truth)).objective)
        good += result.objective <= 1.01 * best
        iterations.append(result.iterations)
    return good, 1e3 * float(np.median(cost)), float(np.mean(iterations))


def main(seeds: int = 20) -> None:
    print(f"{'problem':32} {'reached':>8} {'ms':>8} {'iterations':>11}")
    for name, case in CASES.items():
        good, cost, iterations = reached(case, seeds)
        print(f"{name:32} {good:>4}/{seeds:<3} {cost:8.2f} {iterations:11.1f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
