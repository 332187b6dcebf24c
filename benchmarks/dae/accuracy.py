"""Errors at the end over the tolerance, and CPU times of states alone, for every integrator that can.

Explicit methods are left out on Robertson's reactions, which run to t = 1e11.
"""

from __future__ import annotations

import numpy as np

from benchmarks.dae.methods import NATIVE, Call, by_odefit
from benchmarks.dae.problems import DaeProblem, Form, reference_problems
from benchmarks.tables import print_rows
from benchmarks.timing import best_cpu_seconds
from odefit.integrate import METHODS

TOLERANCES = (1e-4, 1e-6, 1e-8, 1e-10)
_TOO_LONG = ("robertson",)


def show() -> None:
    """Print the table."""
    rows: list[list[str]] = []
    for problem in reference_problems():
        for words, form, names in _forms(problem):
            for name in names:
                rows.append([problem.name, words, name, *_cells(problem, form, name)])
    header = ["problem", "unknowns", "integrator"]
    header += [f"{rtol:.0e}: {word}" for rtol in TOLERANCES for word in ("error", "CPU us")]
    title = "States alone: error at the end over atol + rtol |y|, and CPU us, at each rtol"
    print_rows(title, header, rows, text=3)


def _forms(problem: DaeProblem) -> list[tuple[str, Form, tuple[str, ...]]]:
    forms = [("states", problem.native, NATIVE)]
    if problem.inner is not None:
        implicit = tuple(name for name, one in METHODS.items() if getattr(one, "implicit", False))
        forms.append(("inside f", problem.inner, implicit if problem.name in _TOO_LONG else tuple(METHODS)))
    return forms


def _cells(problem: DaeProblem, form: Form, name: str) -> list[str]:
    states = form.model.states
    right = np.array([problem.end[state] for state in states])
    calls: dict[str, Call] = {}
    errors: list[float] = []
    for rtol in TOLERANCES:
        call = calls[f"{rtol:g}"] = by_odefit(form, states, name, rtol, problem.scale, order=0)
        y, _ = call()
        errors.append(float(np.max(np.abs(y[-1] - right) / (rtol * (problem.scale + np.abs(right))))))
    seconds = best_cpu_seconds(calls, rounds=8, seconds_per_turn=0.002)
    return [cell for e, s in zip(errors, seconds.values(), strict=True) for cell in (f"{e:.2g}", f"{s * 1e6:.0f}")]
