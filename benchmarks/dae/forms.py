"""The two forms of algebraic unknowns, solved inside f or states: CPU of evaluations with sensitivities.

All experiments of a problem, at its start values and at equal tolerances: on steps that are kept (what most evaluations
of a fit are) and where steps are chosen anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle

import numpy as np

import odefit as of
from benchmarks.dae.methods import NATIVE
from benchmarks.dae.problems import reference_problems
from benchmarks.tables import print_rows
from benchmarks.timing import best_cpu_seconds
from odefit.gallery import load
from odefit.model.unknowns_as_states import with_unknowns_as_states
from odefit.problem import Problem
from odefit.solve import Failed
from odefit.transcribe import SingleShooting

RTOL = 1e-7
GALLERY = ("urease", "dow/dae", "shock_front/implicit")
TIMES = {"akzo": np.linspace(9.0, 180.0, 20), "robertson": 0.4 * 10.0 ** np.arange(12.0)}


def problems() -> dict[str, Problem]:
    """Return the problems by name."""
    found: dict[str, Problem] = {}
    for one in reference_problems():
        if one.name in TIMES:
            times = TIMES[one.name]
            columns = {name: np.zeros(times.size) for name in one.problem.model.states}
            found[one.name] = replace(one.problem, measurements=of.Measurements.from_columns(times, columns))
    return found | {name: load(name) for name in GALLERY}


def calls_of(problem: Problem) -> dict[str, Callable[[], object]]:
    """Return an evaluation with derivatives on steps that are kept, and one on steps chosen for it, if they succeed."""
    steady, renewed = SingleShooting(problem), SingleShooting(problem)
    x = steady.compiled.theta_start
    steady.refresh(x)
    near = cycle((1.000001 * x, 0.999999 * x))  # the point of the steps itself, and the last one, are remembered
    begun = cycle((x, 1.000001 * x))

    def kept() -> object:
        return steady.evaluate(next(near), 1)

    def chosen() -> object:
        point = next(begun)
        renewed.refresh(point)
        return renewed.evaluate(point, 1)

    calls = {"kept": kept, "chosen": chosen}
    return {kind: call for kind, call in calls.items() if not any(isinstance(call(), Failed) for _ in range(2))}


def show() -> None:
    """Print the table."""
    rows: list[list[str]] = []
    for name, problem in problems().items():
        states = replace(problem, model=with_unknowns_as_states(problem.model))
        forms = {("inside f", one): problem for one in ("auto", "ddm")} | {("states", one): states for one in NATIVE}
        calls = {
            (*form, kind): call
            for form, one in forms.items()
            for kind, call in calls_of(one.with_settings(integrator=form[1], rtol=RTOL)).items()
        }
        seconds = best_cpu_seconds({"|".join(key): call for key, call in calls.items()}, rounds=15)
        base = {kind: seconds[f"inside f|ddm|{kind}"] for kind in ("kept", "chosen")}
        for unknowns, integrator in forms:
            row = [name, unknowns, integrator]
            for kind in base:
                one = seconds.get(f"{unknowns}|{integrator}|{kind}", float("nan"))
                row += [f"{one * 1e6:.0f}", f"{one / base[kind]:.2f}"] if math.isfinite(one) else ["fails", ""]
            rows.append(row)
    header = ["problem", "unknowns", "integrator", "kept steps us", "ratio", "chosen steps us", "ratio"]
    print_rows(f"Evaluations with sensitivities, rtol {RTOL:g}: CPU, and ratio to ddm inside f", header, rows, text=3)
