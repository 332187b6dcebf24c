"""Derived quantities: what a problem's ``[derived]`` section computes from the estimates.

A quantity that depends on something an experiment replaces, or on a parameter with one value per experiment,
has a value for each experiment, called ``t_half[s1]``; others have a single one.  All of them together are one native
function of the slots, compiled once for the problems that differ in start values, bounds and settings only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem
from odefit.compile.conditions import formal_parameters, stack
from odefit.compile.functions import FunctionLibrary, NativeFunction, SymbolicFunction
from odefit.errors import ProblemError
from odefit.native.calls import call_model
from odefit.native.kernel import kernel
from odefit.problem import Problem
from odefit.problem.resolution import resolve_in_experiment, symbol_of
from odefit.statistics.covariance import ParameterStatistics
from odefit.statistics.delta import Estimate, standard_errors, with_interval

Array = npt.NDArray[np.float64]


class _Quantities(NamedTuple):
    """Names of the quantities, and the native function ``(slots) -> values``."""

    labels: tuple[str, ...]
    function: NativeFunction


def derived_quantities(
    problem: Problem, compiled: CompiledProblem, theta: Array, statistics: ParameterStatistics | None
) -> dict[str, Estimate]:
    """Return the derived quantities with their uncertainty, by the delta method."""
    if not problem.derived:
        return {}
    key = ("derived", tuple(problem.derived.items()))
    labels, function = problem.structure.kept.get(key, lambda: _compiled(problem, compiled))
    slots, slopes = compiled.slot_values(theta)
    values, gradients = np.empty(len(labels)), np.zeros((len(labels), compiled.n_theta))
    addresses = (function.value, function.jacobian)
    evaluate_quantities(
        addresses, function.row_ptr, function.col, slots, slopes, compiled.theta_of_q, values, gradients
    )
    if statistics is None:
        return {label: Estimate(value, None, None) for label, value in zip(labels, values.tolist(), strict=True)}
    errors = standard_errors(gradients, statistics.covariance)
    return {
        label: with_interval(value, error, statistics.quantile)
        for label, value, error in zip(labels, values.tolist(), errors.tolist(), strict=True)
    }


def _compiled(problem: Problem, compiled: CompiledProblem) -> _Quantities:
    slots = ca.SX.sym("slot", len(compiled.slot_names))
    formal = stack(symbol_of(problem, name) for name in formal_parameters(problem))
    labels: list[str] = []
    out: list[Any] = []
    for label, expression, e in _quantities(problem):
        labels.append(label)
        out.append(ca.substitute(expression, formal, slots[compiled.inputs(e).tolist()]))
    nothing = ca.SX(0, 1)
    arrays = (("q", slots), ("c", nothing), ("u", nothing))
    function = SymbolicFunction("derived", ca.SX.sym("t"), arrays, ("q",), stack(out))
    return _Quantities(tuple(labels), FunctionLibrary("derived quantities", [function])["derived"])


@kernel
def evaluate_quantities(functions, row_ptr, col, slots, slopes, theta_of_slot, values, gradients):
    """Fill the values (k,), and add their derivatives by theta to `gradients` (k, n_theta).

    Parameters
    ----------
    functions, row_ptr, col
        Addresses of values and derivatives by the slots, and the pattern of the latter.
    slopes, theta_of_slot
        Derivative of each slot by its theta, and which one that is, -1: fixed.
    """
    nothing, nonzeros = np.empty(0), np.empty(col.size)
    call_model(functions[0], 0.0, slots, 0, nothing, nothing, values, 0)
    call_model(functions[1], 0.0, slots, 0, nothing, nothing, nonzeros, 0)
    for i in range(values.size):
        for entry in range(row_ptr[i], row_ptr[i + 1]):
            theta = theta_of_slot[col[entry]]
            if theta >= 0:
                gradients[i, theta] += nonzeros[entry] * slopes[col[entry]]


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
