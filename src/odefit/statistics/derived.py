"""Derived quantities: what a problem's ``[derived]`` section computes from the estimates.

A quantity that depends on something an experiment replaces, or on a parameter with one value per experiment,
has a value for each experiment, called ``t_half[s1]``; others have a single one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem
from odefit.compile.conditions import formal_parameters, stack
from odefit.errors import ProblemError
from odefit.problem import Problem
from odefit.problem.resolution import resolve_in_experiment, symbol_of
from odefit.statistics.covariance import ParameterStatistics
from odefit.statistics.delta import Estimate, standard_errors, with_interval

Array = npt.NDArray[np.float64]


def derived_quantities(
    problem: Problem, compiled: CompiledProblem, theta: Array, statistics: ParameterStatistics | None
) -> dict[str, Estimate]:
    """Return the derived quantities with their uncertainty, by the delta method."""
    slots, slopes = compiled.slot_values(theta)
    q = stack(symbol_of(problem, name) for name in formal_parameters(problem))
    result: dict[str, Estimate] = {}
    for label, expression, e in _quantities(problem):
        function = ca.Function("derived", [q], [ca.densify(expression), ca.densify(ca.jacobian(expression, q))])
        inputs = compiled.inputs(e)
        value, by_q = (np.array(part).ravel() for part in function(slots[inputs]))
        if statistics is None:
            result[label] = Estimate(float(value[0]), None, None)
            continue
        gradient = np.zeros(compiled.n_theta)
        free = compiled.theta_of_q[inputs] >= 0
        gradient[compiled.theta_of_q[inputs][free]] = by_q[free] * slopes[inputs][free]
        error = float(standard_errors(gradient[None, :], statistics.covariance)[0])
        result[label] = with_interval(float(value[0]), error, statistics.quantile)
    return result


def _quantities(problem: Problem) -> Iterator[tuple[str, Any, int]]:
    """Yield label, expression of the parameters, and the experiment whose values it takes."""
    replaced = {name for e in problem.experiments for name in e.overrides}
    local = replaced | {p.name for p in problem.parameters if p.per is not None}
    known = {*formal_parameters(problem)}
    for name, text in problem.derived.items():
        expression = problem.expression(text)
        if not problem.depends_on(expression, local):
            yield name, resolve_in_experiment(problem, expression, None), 0
            continue
        for e, experiment in enumerate(problem.experiments):
            resolved = resolve_in_experiment(problem, expression, experiment)
            unknown = sorted({symbol.name() for symbol in ca.symvar(resolved)} - known)
            if unknown:
                raise ProblemError(
                    f"the derived quantity '{name}' depends on '{unknown[0]}', which has no single value in "
                    f"experiment '{experiment.name}'."
                )
            yield f"{name}[{experiment.name}]", resolved, e
