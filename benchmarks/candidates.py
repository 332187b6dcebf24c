"""Runge-Kutta methods that might replace `dopri5` at usual tolerances: CPU time with sensitivities at equal accuracy.

    python -m benchmarks.candidates [problem ...]

Each candidate is a file with coefficients in `benchmarks.tableaux`; its kernel is compiled here.  Error and times are
those of `benchmarks.explicit`.  The time of each method is interpolated in logarithms between its tolerances, at the
error that `dopri5` has at the rtol of the column.
"""

from __future__ import annotations

import hashlib
import sys
from functools import partial

import numpy as np

from benchmarks.explicit import Point, error, problem_from_text, problem_of, ratio, run_of, seconds_at
from benchmarks.tableaux import tsitouras54, verner65
from benchmarks.tables import print_rows
from benchmarks.timing import best_cpu_seconds
from odefit.integrate import METHODS, Integrator, Status
from odefit.integrate.explicit import ExplicitRungeKutta, explicit_kernel
from odefit.integrate.schemes import scheme_of
from odefit.integrate.tableau import Tableau
from odefit.problem import Problem

TOLERANCES = 10.0 ** -np.arange(3.0, 10.6, 0.5)
SHOWN = (1e-6, 1e-7, 1e-8)
TEXTS = {
    "Lotka-Volterra": (
        "x' = a*x - b*x*y\ny' = c*x*y - d*y\nx(0) = x0\ny(0) = y0",
        {"a": 1.5, "b": 1.0, "c": 1.0, "d": 3.0, "x0": 1.0, "y0": 1.0},
        np.linspace(0.0, 10.0, 21),
    ),
    "FitzHugh-Nagumo": (
        "v' = c*(v - v^3/3 + r)\nr' = -(v - a + b*r)/c\nv(0) = v0\nr(0) = r0",
        {"a": 0.2, "b": 0.2, "c": 3.0, "v0": -1.0, "r0": 1.0},
        np.linspace(0.0, 20.0, 41),
    ),
    "Brusselator": (
        "x' = a + x^2*y - (b + 1)*x\ny' = b*x - x^2*y\nx(0) = x0\ny(0) = y0",
        {"a": 1.0, "b": 3.0, "x0": 1.5, "y0": 3.0},
        np.linspace(0.0, 20.0, 41),
    ),
}
NAMES = ("barnes", "pyridine", *TEXTS, "bioprocess", "herbert", "Lorenz", "Arenstorf")


def method_of(tableau: Tableau) -> Integrator:
    """Return the integrator of a tableau outside the package.

    The cache of kernels goes by the sources of the package alone, so that the kernel is named after its coefficients.
    """
    digest = hashlib.sha256(repr([np.asarray(entry).tolist() for entry in tableau]).encode()).hexdigest()[:12]

    class Method(ExplicitRungeKutta):
        name = tableau.name
        kernel = staticmethod(explicit_kernel(f"{tableau.name}_{digest}", scheme_of(tableau)))

    return Method()


def measure(problem: Problem, methods: dict[str, Integrator]) -> dict[str, list[Point]]:
    """Return what each method reaches and costs at all tolerances."""
    model, run = run_of(problem)
    true = METHODS["dop853"].solve(model, run, rtol=1e-13, atol=1e-15, order=1)
    keys = {(name, rtol): f"{name} {rtol:g}" for name in methods for rtol in TOLERANCES}
    calls = {
        key: partial(methods[name].solve, model, run, rtol=rtol, atol=1e-2 * rtol, order=1)
        for (name, rtol), key in keys.items()
    }
    found = {key: call() for key, call in calls.items()}
    for trajectory in (true, *found.values()):
        if trajectory.status is not Status.OK:
            raise RuntimeError(trajectory.sentence(model))
    best = best_cpu_seconds(calls, rounds=15, seconds_per_turn=0.002)
    return {
        name: [
            Point(found[key].counters.steps, error(found[key], true), best[key])
            for rtol in TOLERANCES
            for key in [keys[name, rtol]]
        ]
        for name in methods
    }


def main() -> None:
    """Compare on the problems named, or on all."""
    methods = {name: METHODS[name] for name in ("dopri5", "dop853")}
    methods |= {module.TABLEAU.name: method_of(module.TABLEAU) for module in (tsitouras54, verner65)}
    others = [name for name in methods if name != "dopri5"]
    table, rows = [], []
    for name in sys.argv[1:] or NAMES:
        points = measure(problem_from_text(*TEXTS[name]) if name in TEXTS else problem_of(name), methods)
        ratios = []
        for rtol in SHOWN:
            base = points["dopri5"][int(np.abs(np.log(TOLERANCES / rtol)).argmin())]
            ratios += [seconds_at(points[other], base.error) / base.seconds for other in others]
        table.append(ratios)
        rows.append([name, *map(ratio, ratios)])
    rows.append(["geometric mean", *(ratio(value) for value in np.exp(np.nanmean(np.log(table), axis=0)))])
    header = [f"{other} {rtol:.0e}" for rtol in SHOWN for other in others]
    print_rows("CPU over that of dopri5, at the error of dopri5 at this rtol", ["problem", *header], rows)


if __name__ == "__main__":
    main()
