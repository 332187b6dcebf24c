"""Initial values that contradict the equations without derivatives, in words: which were changed, and by how much."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem
from odefit.integrate.contract import Status
from odefit.integrate.experiment import solve_experiment
from odefit.problem import Problem
from odefit.problem.resolution import names_in

_NOTICED = 10.0  # times the tolerance
_LISTED = 3


class Change(NamedTuple):
    """An initial value that was `given`, and the consistent one that was `used` in its place."""

    experiment: str
    state: str
    given: float
    used: float


def changed_initial_values(
    problem: Problem, compiled: CompiledProblem, theta: npt.NDArray[np.float64]
) -> tuple[Change, ...]:
    """Return the initial values that are not used as they are given; guesses of algebraic unknowns are none."""
    model, rtol, changes = problem.model, problem.settings.rtol, []
    guesses = {*model.algebraic_states}
    for e, experiment in enumerate(problem.experiments if model.mass else ()):
        seeds, start = solve_experiment(problem, compiled, theta, e, np.array([experiment.start]))
        if start.status is not Status.OK:  # said where the experiment is solved
            continue
        for state, given, used, atol in zip(model.states, seeds.y0, start.y[0], start.grid.atol, strict=True):
            if state not in guesses and abs(used - given) > _NOTICED * (abs(atol) + rtol * max(abs(given), abs(used))):
                changes.append(Change(experiment.name, state, float(given), float(used)))
    return tuple(changes)


def words_for_initial_values(problem: Problem, compiled: CompiledProblem, theta: npt.NDArray[np.float64]) -> str:
    """Return a sentence about them; an empty one if all are used as they are given."""
    changes = changed_initial_values(problem, compiled, theta)
    if not changes:
        return ""
    where = len(problem.experiments) > 1
    listed = [
        f"{one.state}(0) = {one.used:.6g} instead of {one.given:.6g}" + f" in experiment '{one.experiment}'" * where
        for one in changes[:_LISTED]
    ]
    more = f", and {len(changes) - _LISTED} more" if len(changes) > _LISTED else ""
    return (
        f"Initial values contradict an equation without derivatives, {_equation(problem, changes[0].state)}, and were "
        f"changed: {', '.join(listed)}{more}. Give values that satisfy it if these are not the ones you mean."
    )


def _equation(problem: Problem, state: str) -> str:
    """Return the words of the first equation without derivatives in which a state occurs."""
    model = problem.model
    rows = [row for row, one in model.mass.items() if not one]
    right_sides = model.resolve([model.rhs[row] for row in rows])
    found = [row for row, right in zip(rows, right_sides, strict=True) if state in names_in(right)]
    return model.written[(found or rows)[0]]
