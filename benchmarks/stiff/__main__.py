"""Work and precision on stiff problems: states and sensitivities, error against CPU time.

    python -m benchmarks.stiff [small | large]

Errors are the largest ones at the output times, of each state (and of its sensitivities to the logarithms of the
parameters) relative to its own largest value; the true solution is that of `ddm` at rtol 1e-11, which the others
approach.  The accuracy of a run is the worse of its two errors; times at equal accuracy are interpolated in logarithms
between tolerances.  Best of interleaved rounds; models are compiled before the clock starts.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

import odefit as of
from benchmarks.peers.problems import Array
from benchmarks.stiff.methods import LARGE, SMALL, Method, Solution
from benchmarks.stiff.problems import StiffProblem, brusselator, hires, pyridine, robertson
from benchmarks.tables import print_rows
from benchmarks.timing import best_cpu_seconds
from odefit.integrate import METHODS, Status

SMALL_PROBLEMS = (robertson, hires, pyridine)
LARGE_STATES = (200, 2000)
MOST_DIFFSL = 500
LEVELS = (1e-3, 1e-4, 1e-5, 1e-6)
OWN = ("odefit ddm", "odefit auto")
EXTRAPOLATION = "odefit limex"
CVODES = "CVODES (CasADi)"
_SLOW = 0.3  # seconds: what takes longer is timed twice
_BEST_ROBERTSON, _BEST_FIT = 300e-6, 6e-3


class Point(NamedTuple):
    """One run: what it was asked for, what it reached and what it cost."""

    method: str
    rtol: float
    error_y: float
    error_s: float
    seconds: float

    @property
    def error(self) -> float:
        return max(self.error_y, self.error_s)


def truth(problem: StiffProblem) -> Solution:
    trajectory = METHODS["ddm"].solve(problem.model, problem.run, rtol=1e-11, atol=1e-11 * problem.scale, order=1)
    if trajectory.status is not Status.OK:
        raise RuntimeError(trajectory.sentence(problem.model))
    return trajectory.y, trajectory.S


def errors(solution: Solution, true: Solution) -> tuple[float, float]:
    """Return the errors of states and sensitivities, each state relative to its own largest value."""

    def worst(one: Array, other: Array) -> float:
        axes = (0,) if one.ndim == 2 else (0, 2)
        return float((np.abs(one - other).max(axis=axes) / np.abs(other).max(axis=axes)).max())

    return worst(solution[0], true[0]), worst(solution[1], true[1])


def measure(problem: StiffProblem, methods: Mapping[str, type[Method]]) -> tuple[list[Point], list[str]]:
    """Return the points of all methods, and a line for each that cannot be used."""
    true = truth(problem)
    calls: dict[str, Callable[[], Solution]] = {}
    reached: dict[str, tuple[str, float, float, float]] = {}
    broken: list[str] = []
    for name, method in methods.items():
        try:
            ready = method(problem)
            for rtol in problem.tolerances:
                call = ready.at(rtol)
                key = f"{name} {rtol:g}"
                reached[key] = (name, rtol, *errors(call(), true))
                calls[key] = call
        except Exception as error:  # a peer's failure is its result, not ours
            broken.append(f"{name} on {problem.name}: {type(error).__name__}: {str(error).splitlines()[0]}")
    first = best_cpu_seconds(calls, rounds=1, seconds_per_turn=0.0)
    quick = {key: call for key, call in calls.items() if first[key] < _SLOW}
    best = first | best_cpu_seconds(quick, rounds=8, seconds_per_turn=0.005)
    return [Point(*reached[key], min(best[key], first[key])) for key in calls], broken


def seconds_at(points: list[Point], level: float) -> float:
    """Return the interpolated time to the error `level`; NaN where the points do not enclose it.

    A point that costs more than another one which is as accurate has nothing to say.
    """
    front = [a for a in points if not any(b.seconds < a.seconds and b.error <= a.error for b in points)]
    front.sort(key=lambda point: point.error)
    if not front or not front[0].error <= level <= front[-1].error:
        return math.nan if not front or front[0].error > level else front[-1].seconds
    logs = np.log([[point.error, point.seconds] for point in front])
    return float(np.exp(np.interp(math.log(level), logs[:, 0], logs[:, 1])))


def compare(problem: StiffProblem, methods: Mapping[str, type[Method]], *, large: bool) -> list[str]:
    """Print the tables of one problem; return a line for each method that cannot be used."""
    points, broken = measure(problem, methods)
    rows = [
        [a.method, f"{a.rtol:.0e}", f"{a.error_y:.1e}", f"{a.error_s:.1e}", f"{a.seconds * 1e6:.0f}"] for a in points
    ]
    title = f"{problem.name}: {problem.n} states, {problem.q} sensitivities, atol = {problem.scale:g} rtol"
    print_rows(title, ["method", "rtol", "error of y", "error of S", "CPU us"], rows)
    table = {
        name: [seconds_at([a for a in points if a.method == name], level) for level in LEVELS]
        for name in methods
        if any(a.method == name for a in points)
    }
    base = table[OWN[0]]

    def cell(seconds: float, base_seconds: float) -> str:
        return f"{seconds * 1e6:.0f} ({seconds / base_seconds:.1f})" if math.isfinite(seconds * base_seconds) else "-"

    rows = [[name, *map(cell, line, base)] for name, line in table.items()]
    print_rows("CPU us at equal accuracy (ratio to odefit ddm)", ["method", *(f"{x:.0e}" for x in LEVELS)], rows)
    for line in marks(table, large=large):
        print(f"  {line}")
    sys.stdout.flush()
    return broken


def marks(table: Mapping[str, list[float]], *, large: bool) -> list[str]:
    """Say which marks are met: odefit's default against CVODES and against the fastest other peer."""
    seconds = np.fmin(*(np.array(table[name]) for name in OWN))
    lines: list[str] = []
    others = [name for name in table if name not in (*OWN, EXTRAPOLATION)]
    for names, mark in (([CVODES], 10.0), ([name for name in others if name != CVODES], 1.0 if large else 3.0)):
        peers = [name for name in names if name in table]
        for i, level in enumerate(LEVELS):
            times = {name: table[name][i] for name in peers if math.isfinite(table[name][i])}
            if times and math.isfinite(seconds[i]):
                rival = min(times, key=times.__getitem__)
                factor = times[rival] / seconds[i]
                verdict = "met" if factor >= mark else "MISSED"
                lines.append(f"error {level:.0e}: {factor:5.1f} x against {rival}, wanted {mark:g}: {verdict}")
    return lines


def robertson_marks() -> None:
    """Print the two absolute marks: one solution, and one fit of noisy data."""
    problem = robertson()
    model, run = problem.model, problem.run
    candidates: dict[str, Callable[[], object]] = {
        f"solution by {name}": (lambda method=METHODS[name]: method.solve(model, run, rtol=1e-6, atol=1e-10, order=1))
        for name in ("ddm",)
    }
    noisy = noisy_robertson(1)
    fits = {f"fit from {start}": noisy.with_start(**starts) for start, starts in STARTS.items()}
    results = {name: of.fit(one) for name, one in fits.items()}
    candidates |= {name: (lambda one=one: of.fit(one)) for name, one in fits.items()}
    best = best_cpu_seconds(candidates, rounds=20)
    print("\nRobertson at rtol 1e-6, atol 1e-10, 38 times, three sensitivities")
    for name, seconds in best.items():
        mark = _BEST_FIT if name in results else _BEST_ROBERTSON
        verdict = "met" if seconds <= mark else "MISSED"
        note = ""
        if name in results:
            result = results[name]
            note = f"  {result.status}, {result.iterations} iterations, {result.evaluations} evaluations, "
            note += ", ".join(f"{k} {v:.4g}" for k, v in result.estimates.items())
        print(f"  {name:<24} {seconds * 1e6:8.0f} us, wanted {mark * 1e6:.0f}: {verdict}{note}")


STARTS = {"ones": {"k1": 1.0, "k2": 1.0, "k3": 1.0}, "twice the truth": {"k1": 0.08, "k2": 2e4, "k3": 6e7}}


def noisy_robertson(seed: int):
    """Return the fit of data with noise of 1 % of the largest value of each state."""
    problem = robertson()
    exact = truth(problem)[0]
    noise = np.random.default_rng(seed).standard_normal(exact.shape)
    values = exact + 0.01 * exact.max(axis=0) * noise
    columns = {state: values[:, i] for i, state in enumerate(problem.rates)}
    sigma = dict(zip(problem.rates, 0.01 * exact.max(axis=0), strict=True))
    data = of.Measurements.from_columns(problem.times, columns, sigma=sigma)
    return problem.problem(data, rtol=1e-6, atol=1e-10)


def main() -> None:
    """Compare on the small problems, the large ones, or all."""
    size = sys.argv[1] if len(sys.argv) > 1 else "all"
    broken: list[str] = []
    if size != "large":
        for make in SMALL_PROBLEMS:
            broken += compare(make(), SMALL, large=False)
        robertson_marks()
    if size != "small":
        for n in LARGE_STATES:
            compiled = {name: method for name, method in LARGE.items() if n <= MOST_DIFFSL or name != "pydiffsol bdf"}
            broken += compare(brusselator(n), compiled, large=True)
            if len(compiled) < len(LARGE):
                broken.append(f"pydiffsol bdf on {n} states: its compiler takes more than 90 s for so many equations")
    if broken:
        print("\nCannot be used:", *broken, sep="\n  ")


if __name__ == "__main__":
    main()
