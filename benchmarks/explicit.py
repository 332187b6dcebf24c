"""Work and precision of the explicit methods on non-stiff problems: states and sensitivities, error against CPU time.

    python -m benchmarks.explicit [problem ...]

One solution with all first-order sensitivities at the start values of gallery problems (at the output times of the
first experiment), of Lorenz' equations and of an Arenstorf orbit, atol = rtol/100.  The error is the largest one of
states and sensitivities at the output times, each state relative to its own largest value; the true solution is that
of `dop853` at rtol 1e-13.  Times at equal accuracy are interpolated in logarithms between the tolerances of `dopri5`,
at the error that `dop853` has at the rtol of the column.  Best of interleaved rounds; models are compiled before.
"""

from __future__ import annotations

import math
import sys
from functools import partial
from typing import NamedTuple

import numpy as np

import odefit as of
from benchmarks.tables import print_rows
from benchmarks.timing import best_cpu_seconds
from odefit.compile import CompiledModel, compile_problem
from odefit.gallery import load
from odefit.integrate import METHODS, Run, Status, Trajectory
from odefit.problem import Problem

GALLERY = ("barnes", "pyridine", "lotka_volterra_iss", "bioprocess", "shock_front", "herbert")
NAMES = ("dopri5", "dop853")
TOLERANCES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12)
SHOWN = (1e-4, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12)
LORENZ = "x' = s*(y - x)\ny' = x*(r - z) - y\nz' = x*y - b*z\nx(0) = x0\ny(0) = 1\nz(0) = 1.05"
ARENSTORF = """
r1 = ((x + m)^2 + y^2)^1.5
r2 = ((x - 1 + m)^2 + y^2)^1.5
x' = v
y' = w
v' = x + 2*w - (1 - m)*(x + m)/r1 - m*(x - 1 + m)/r2
w' = y - 2*v - (1 - m)*y/r1 - m*y/r2
x(0) = 0.994
y(0) = 0
v(0) = 0
w(0) = w0
"""


class Point(NamedTuple):
    """One run: what it reached and what it cost."""

    steps: int
    error: float
    seconds: float


def problem_from_text(text: str, start: dict[str, float], times: np.ndarray) -> Problem:
    model = of.Model.from_text(text)
    data = of.Measurements.from_columns(times, {next(iter(model.states)): np.zeros(times.size)})
    return of.Problem(model, tuple(of.Parameter(name, value) for name, value in start.items()), data)


def problem_of(name: str) -> Problem:
    if name == "Lorenz":
        return problem_from_text(LORENZ, {"s": 10.0, "r": 28.0, "b": 8 / 3, "x0": 1.0}, np.linspace(0.0, 5.0, 21))
    if name == "Arenstorf":
        return problem_from_text(ARENSTORF, {"m": 0.012277471, "w0": -2.00158510637908252}, np.linspace(0.0, 17.0, 18))
    return load(name)


def run_of(problem: Problem) -> tuple[CompiledModel, Run]:
    """Return the first experiment at the start values, with its free parameters as directions."""
    compiled = compile_problem(problem)
    seeds = compiled.parameters(compiled.theta_start, 0, 1)
    of_first = problem.measurements.experiment == problem.measurements.experiment[0]
    times = np.unique(problem.measurements.time[of_first])
    return compiled.model(0), Run.of(seeds, 0.0, times)


def error(trajectory: Trajectory, true: Trajectory) -> float:
    y = np.abs(trajectory.y - true.y).max(axis=0) / np.abs(true.y).max(axis=0)
    s = np.abs(trajectory.S - true.S).max(axis=(0, 2)) / np.abs(true.S).max(axis=(0, 2))
    return float(max(y.max(), s.max()))


def measure(name: str) -> dict[tuple[str, float], Point]:
    """Return the points of both methods at all tolerances."""
    model, run = run_of(problem_of(name))
    true = METHODS["dop853"].solve(model, run, rtol=1e-13, atol=1e-15, order=1)
    calls = {
        f"{method} {rtol:g}": partial(METHODS[method].solve, model, run, rtol=rtol, atol=1e-2 * rtol, order=1)
        for method in NAMES
        for rtol in TOLERANCES
    }
    trajectories = {key: call() for key, call in calls.items()}
    for trajectory in (true, *trajectories.values()):
        if trajectory.status is not Status.OK:
            raise RuntimeError(f"{name}: {trajectory.sentence(model)}")
    best = best_cpu_seconds(calls, rounds=20, seconds_per_turn=0.002)
    return {
        (method, rtol): Point(trajectories[key].counters.steps, error(trajectories[key], true), best[key])
        for method in NAMES
        for rtol in TOLERANCES
        for key in [f"{method} {rtol:g}"]
    }


def seconds_at(points: list[Point], level: float) -> float:
    """Return the interpolated time to the error `level`; NaN where the points do not enclose it."""
    front = [a for a in points if not any(b.seconds < a.seconds and b.error <= a.error for b in points)]
    front.sort(key=lambda point: point.error)
    if not front[0].error <= level <= front[-1].error:
        return math.nan
    logs = np.log([[point.error, point.seconds] for point in front])
    return float(np.exp(np.interp(math.log(level), logs[:, 0], logs[:, 1])))


def ratio(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else "-"


def main() -> None:
    """Compare on the problems named, or on all."""
    rows, equal_rtol, equal_accuracy = [], [], []
    for name in sys.argv[1:] or (*GALLERY, "Lorenz", "Arenstorf"):
        points = measure(name)
        dopri5 = [points["dopri5", rtol] for rtol in TOLERANCES]
        for rtol in SHOWN:
            cells = [
                cell
                for method in NAMES
                for p in [points[method, rtol]]
                for cell in (p.steps, f"{p.error:.0e}", f"{p.seconds * 1e6:.1f}")
            ]
            rows.append([name, f"{rtol:.0e}", *cells])
        new = [points["dop853", rtol] for rtol in SHOWN]
        old = [points["dopri5", rtol].seconds for rtol in SHOWN]
        equal_rtol.append([name, *(ratio(a.seconds / b) for a, b in zip(new, old, strict=True))])
        equal_accuracy.append([name, *(ratio(a.seconds / seconds_at(dopri5, a.error)) for a in new)])
    header = [f"{method}: {word}" for method in NAMES for word in ("steps", "error", "CPU us")]
    print_rows("Solutions with sensitivities", ["problem", "rtol", *header], rows)
    shown = [f"{rtol:.0e}" for rtol in SHOWN]
    print_rows("CPU of dop853 over that of dopri5 at equal rtol", ["problem", *shown], equal_rtol)
    print_rows("CPU of dop853 over that of dopri5 at equal accuracy", ["problem", *shown], equal_accuracy)


if __name__ == "__main__":
    main()
