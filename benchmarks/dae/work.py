"""Work and precision with first-order sensitivities, beside IDAS, and CVODES where unknowns can be put in.

The accuracy of a run is the worse of the largest errors of states and of sensitivities at the output times, each state
relative to its own largest value; times at equal accuracy are interpolated in logarithms between tolerances.  The true
solution is that of `ddm` at rtol 1e-11 with unknowns inside f; where there is no such form, unknowns are states.
Sensitivities are those to the logarithms of parameters, or to parameters on a linear scale.  IDAS and CVODES run
through CasADi, whose functions are interpreted; IDAS begins with consistent values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from benchmarks.dae.methods import NATIVE, Call, Solution, by_cvodes, by_idas, by_odefit
from benchmarks.dae.problems import DaeProblem, small_problems
from benchmarks.stiff.__main__ import Point, errors, seconds_at
from benchmarks.tables import print_rows
from benchmarks.timing import best_cpu_seconds

TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
LEVELS = (1e-3, 1e-4, 1e-5, 1e-6)
IDAS = "IDAS (CasADi)"
MARK = 10.0
_TRUE, _SLOW = 1e-11, 0.1  # seconds: what takes longer is timed less often


def programs(problem: DaeProblem) -> dict[str, Callable[[float], Call]]:
    """Return who solves a problem: a function that makes the call for a tolerance."""
    native, inner, scale = problem.native, problem.inner, problem.scale
    found: dict[str, Callable[[float], Call]] = {
        f"odefit {name}, states": (lambda rtol, name=name: by_odefit(native, problem.compared, name, rtol, scale))
        for name in NATIVE
    }
    if inner is not None:
        found["odefit ddm, inside f"] = lambda rtol: by_odefit(inner, problem.compared, "ddm", rtol, scale)
    found[IDAS] = lambda rtol: by_idas(problem, rtol)
    if problem.semi_explicit.eliminated is not None:
        found["CVODES (CasADi)"] = lambda rtol: by_cvodes(problem, rtol)
    return found


def truth(problem: DaeProblem) -> Solution:
    """Return the true solution."""
    return by_odefit(problem.inner or problem.native, problem.compared, "ddm", _TRUE, problem.scale)()


def measure(problem: DaeProblem) -> tuple[list[Point], list[str]]:
    """Return the runs of all programs, and a line for each that failed."""
    true, broken = truth(problem), []
    calls: dict[str, Call] = {}
    reached: dict[str, tuple[str, float, float, float]] = {}
    for name, make in programs(problem).items():
        for rtol in TOLERANCES:
            try:
                call = make(rtol)
                reached[f"{name} {rtol:g}"] = (name, rtol, *errors(call(), true))
                calls[f"{name} {rtol:g}"] = call
            except RuntimeError as error:  # a failure is the result of that program
                broken.append(f"{name} on {problem.name} at rtol {rtol:g}: {str(error).splitlines()[-1]}")
    first = best_cpu_seconds(calls, rounds=1, seconds_per_turn=0.0)
    quick = {key: call for key, call in calls.items() if first[key] < _SLOW}
    best = first | best_cpu_seconds(quick, rounds=8, seconds_per_turn=0.004)
    return [Point(*reached[key], min(best[key], first[key])) for key in calls], broken


def show() -> None:
    """Print the tables of all problems."""
    broken: list[str] = []
    runs: list[list[str]] = []
    rows: list[list[str]] = []
    least: dict[str, float] = {}
    for problem in small_problems():
        points, failed = measure(problem)
        broken += failed
        runs += [
            [problem.name, a.method, f"{a.rtol:.0e}", f"{a.error_y:.1e}", f"{a.error_s:.1e}", f"{a.seconds * 1e6:.0f}"]
            for a in points
        ]
        names = list(dict.fromkeys(point.method for point in points))
        times = {name: [seconds_at([a for a in points if a.method == name], x) for x in LEVELS] for name in names}
        base = times[names[0]]
        rows += [[problem.name, name, *map(_cell, line, base)] for name, line in times.items()]
        least[problem.name] = _least_ratio(times)
    header = ["problem", "program", "rtol", "error of y", "error of S", "CPU us"]
    print_rows("Solutions with sensitivities", header, runs, text=2)
    title = "CPU us at equal accuracy (ratio to odefit ddm with unknowns as states)"
    print_rows(title, ["problem", "program", *(f"{x:.0e}" for x in LEVELS)], rows, text=2)
    for name, ratio in least.items():
        verdict = "met" if ratio >= MARK else "MISSED"
        print(f"  {name}: IDAS takes at least {ratio:.1f} times the CPU of ddm, wanted {MARK:g}: {verdict}")
    if broken:
        print("\nFailed:", *broken, sep="\n  ")


def _cell(seconds: float, base: float) -> str:
    return f"{seconds * 1e6:.0f} ({seconds / base:.2g})" if math.isfinite(seconds * base) else "-"


def _least_ratio(times: Mapping[str, list[float]]) -> float:
    own, idas = next(iter(times.values())), times.get(IDAS, [])
    ratios = [b / a for a, b in zip(own, idas, strict=False) if math.isfinite(a * b)]
    return min(ratios, default=math.nan)
