"""What right-hand sides cost that cannot be traced: as text, compiled by numba, in C (a cfunc), in Python.

    python -m benchmarks.foreign

For each problem and integrator: the largest relative difference of the estimates from those of the text, and the CPU
time of whole fits and of evaluations with and without derivatives on frozen steps, as ratios to the text.  Best of
interleaved rounds; everything is compiled before.  Behind it: how often a function of n states is called for one
evaluation with derivatives, and how exact these are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numba
import numpy as np

import odefit as of
from benchmarks.tables import print_rows
from benchmarks.timing import best_cpu_seconds
from odefit.compile import compile_problem
from odefit.gallery import load
from odefit.model import Model
from odefit.problem import Problem
from odefit.transcribe import SingleShooting


def barnes(t: float, y: Any, p: Any, out: Any) -> None:
    """Write the derivatives of Barnes' problem."""
    out[0] = p[0] * y[0] - p[1] * y[0] * y[1]
    out[1] = p[1] * y[0] * y[1] - p[2] * y[1]


def robertson(t: float, y: Any, p: Any, out: Any) -> None:
    """Write those of Robertson's."""
    forth, back, on = p[0] * y[0], p[1] * y[1] * y[2], p[2] * y[1] ** 2
    out[0], out[1], out[2] = back - forth, forth - back - on, on


def chain(t: float, y: Any, p: Any, out: Any) -> None:
    """Write those of compartments in a row, the rates of which are in a cycle of three."""
    n = y.size
    for i in range(n):
        inflow = p[(i - 1) % 3] * y[i - 1] if i > 0 else 0.0
        out[i] = inflow - p[i % 3] * y[i]


def of_chain(n: int) -> Problem:
    """Return a problem with `n` compartments, as text."""
    rates = ("a", "b", "c")
    lines = [f"x{i}' = {f'{rates[(i - 1) % 3]}*x{i - 1} - ' if i else '-'}{rates[i % 3]}*x{i}" for i in range(n)]
    lines += [f"x{i}(0) = {1 if i == 0 else 0}" for i in range(n)]
    times = np.linspace(0.5, 5.0, 10)
    data = of.Measurements.from_columns(times.tolist(), {f"x{n - 1}": (0.1 * times / (1 + times)).tolist()})
    parameters = [of.Parameter(name, value) for name, value in zip(rates, (1.0, 1.3, 0.8), strict=True)]
    return Problem(Model.from_text("\n".join(lines)), parameters, data)


def as_function(problem: Problem, function: Any) -> Problem:
    """Return the problem with a function in place of its equations."""
    text = problem.model
    initial = {name: float(value) for name, value in text.initial.items()}
    return replace(problem, model=Model.from_callable(function, text.states, text.parameters, initial))


PROBLEMS = {
    "barnes": (partial(load, "barnes"), barnes, ("dopri5", "ddm")),
    "robertson": (partial(load, "robertson"), robertson, ("ddm",)),
}


def evaluations(problem: Problem) -> dict[str, Callable[[], object]]:
    """Return evaluations near the start values, on steps that are chosen there; the last point is remembered."""
    objective = SingleShooting(problem)
    x = compile_problem(problem).theta_start
    objective.refresh(x)
    points = count()

    def evaluate(order: int) -> object:
        return objective.evaluate((1.0 + 1e-9 * next(points)) * x, order)

    return {f"order {order}": partial(evaluate, order) for order in (0, 1)}


def rows(name: str, integrator: str) -> list[list[str]]:
    """Return a row for each kind of right-hand side."""
    made, function, _ = PROBLEMS[name]
    text = made().with_settings(integrator=integrator)
    kinds = {
        "text": text,
        "numba": as_function(text, numba.njit(function)),
        "cfunc": as_function(text, numba.cfunc(f"void(float64, {', '.join(['CPointer(float64)'] * 3)})")(function)),
        "Python": as_function(text, function),
    }
    results = {kind: of.fit(problem) for kind, problem in kinds.items()}
    fits = best_cpu_seconds({kind: partial(of.fit, problem) for kind, problem in kinds.items()}, rounds=2)
    calls = {f"{kind} {o}": one for kind, problem in kinds.items() for o, one in evaluations(problem).items()}
    seconds = best_cpu_seconds(calls, rounds=3)
    found = []
    for kind, result in results.items():
        expected = results["text"].estimates
        apart = max(abs(result.estimates[one] / value - 1.0) for one, value in expected.items())
        times = (fits, "", 1e3), (seconds, " order 0", 1e6), (seconds, " order 1", 1e6)
        cells = [f"{unit * table[kind + end]:.1f} ({table[kind + end] / table['text' + end]:.1f})"
                 for table, end, unit in times]  # fmt: skip
        found.append([name, integrator, kind, f"{apart:.0e}", *cells])
    return found


def calls_and_digits(n: int, integrator: str) -> list[str]:
    """Count the calls of a function of `n` states, and compare its derivatives with exact ones."""
    called = 0

    def counted(t: float, y: Any, p: Any, out: Any) -> None:
        nonlocal called
        called += 1
        chain(t, y, p, out)

    text = of_chain(n).with_settings(integrator=integrator)
    objectives = [SingleShooting(one) for one in (text, as_function(text, counted))]
    x, found = compile_problem(text).theta_start, []
    for objective in objectives:
        objective.refresh(x)
        called = 0
        objective.evaluate(1.000001 * x, 0)
        without, called = called, 0
        evaluation: Any = objective.evaluate(1.000002 * x, 1)
        found.append((without, called, evaluation.linear.jacobian))
    exact, (without, with_derivatives, jacobian) = found[0][2], found[1]
    apart = np.max(np.abs(jacobian - exact)) / np.max(np.abs(exact))
    return [str(n), integrator, str(without), f"{with_derivatives / without:.1f}", f"{apart:.0e}"]


def main() -> None:
    """Print the tables."""
    header = ["problem", "integrator", "right-hand side", "apart", "fit ms (ratio)", "values us", "derivatives us"]
    found = [row for name, (*_, integrators) in PROBLEMS.items() for one in integrators for row in rows(name, one)]
    print_rows("Right-hand sides that cannot be traced, beside the text: CPU time and (ratio)", header, found, text=3)
    header = ["states", "integrator", "calls for values", "with derivatives, times", "derivatives apart"]
    found = [calls_and_digits(n, one) for n in (3, 12) for one in ("dopri5", "ddm")]
    print_rows("Calls of the function in one evaluation on frozen steps, 3 parameters", header, found, text=2)


if __name__ == "__main__":
    main()
