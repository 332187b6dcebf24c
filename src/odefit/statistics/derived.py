"""Derived quantities: what a problem's ``[derived]`` section computes from the estimates.

A quantity that depends on something an experiment replaces, or on a parameter with one value per experiment,
has a value for each experiment, called ``t_half[s1]``; others have a single one.  All of them together are one native
function of the slots, compiled once for the problems that differ in start values, bounds and settings only.  Its
inputs u are the tables of all experiments whose values a quantity takes, one experiment behind the other.

Quantities that are taken along the solution (`odefit.problem.derived`) are observed in a run of each experiment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem, compile_problem
from odefit.compile.conditions import formal_parameters, stack
from odefit.compile.functions import FunctionLibrary, NativeFunction, SymbolicFunction
from odefit.compile.table_inputs import PlacedBlock, PlacedTables, shapes_of
from odefit.errors import ProblemError
from odefit.native.calls import call_model
from odefit.native.kernel import kernel
from odefit.problem import Problem
from odefit.problem.derived import completion, has_end, problem_along, quantities_of
from odefit.problem.resolution import names_in, resolve_in_experiment, symbol_of, tables_in, unknowns_in
from odefit.statistics.covariance import ParameterStatistics
from odefit.statistics.delta import Estimate, prediction_band, standard_errors, with_interval

Array = npt.NDArray[np.float64]


class _Quantities(NamedTuple):
    """Names of the quantities, the native function ``(slots) -> values``, and whose tables it calls."""

    labels: tuple[str, ...]
    function: NativeFunction
    with_tables_of: tuple[int, ...]


def derived_quantities(
    problem: Problem, compiled: CompiledProblem, theta: Array, statistics: ParameterStatistics | None
) -> dict[str, Estimate]:
    """Return the derived quantities with their uncertainty, by the delta method."""
    if not problem.derived:
        return {}
    found = _of_parameters(problem, compiled, theta, statistics)
    found |= _along_the_solution(problem, theta, statistics)
    order = {name: place for place, name in enumerate(problem.derived)}
    return dict(sorted(found.items(), key=lambda entry: order[entry[0].split("[")[0]]))


def _along_the_solution(problem: Problem, theta: Array, statistics: ParameterStatistics | None) -> dict[str, Estimate]:
    """Return those that are taken along the solution; one experiment after the other."""
    names = quantities_of(problem).along
    if not names:
        return {}
    along = problem_along(problem)
    compiled = compile_problem(along)
    slots, _ = compiled.slot_values(theta)
    estimates = dict(zip(compiled.slot_names, slots.tolist(), strict=True))
    found: dict[str, Estimate] = {}
    for e, experiment in enumerate(problem.experiments):
        when = np.array([completion(problem, estimates, e, name) for name in names])
        times = np.unique(when[np.isfinite(when)])
        values = errors = np.full((1, len(names)), np.nan)
        if times.size:
            band = prediction_band(along, compiled, theta, statistics, e, times, names=names, after=True)
            values, errors = (np.vstack((part, np.full(len(names), np.nan))) for part in (band.values, band.errors))
        for column, (name, time) in enumerate(zip(names, when.tolist(), strict=True)):
            if not has_end(problem, e, name):
                continue
            row = int(np.searchsorted(times, time))  # that behind the last one is NaN: it is never complete
            label = name if len(problem.experiments) == 1 else f"{name}[{experiment.name}]"
            value, error = float(values[row, column]), float(errors[row, column])
            found[label] = (
                Estimate(value, None, None) if statistics is None else with_interval(value, error, statistics.quantile)
            )
    return {label: found[label] for label in sorted(found, key=lambda label: names.index(label.split("[")[0]))}


def _of_parameters(
    problem: Problem, compiled: CompiledProblem, theta: Array, statistics: ParameterStatistics | None
) -> dict[str, Estimate]:
    """Return those that are expressions of the parameters."""
    if len(quantities_of(problem).along) == len(problem.derived):
        return {}
    key = ("derived", tuple(problem.derived.items()))
    labels, function, with_tables_of = problem.structure.kept.get(key, lambda: _compiled(problem, compiled))
    slots, slopes = compiled.slot_values(theta)
    values, gradients = np.empty(len(labels)), np.zeros((len(labels), compiled.n_theta))
    addresses = (function.value, function.jacobian)
    u = np.concatenate([np.zeros(1), *(compiled.structure.tables[e].new_slots() for e in with_tables_of)])
    evaluate_quantities(
        addresses, function.row_ptr, function.col, slots, slopes, compiled.theta_of_q, u, values, gradients
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
    inputs: dict[int, Any] = {}  # slots of tables and unknowns, by experiment
    blocks: list[PlacedBlock] = []
    behind = 1
    for label, expression, e in _quantities(problem):
        if tables_in(expression) or unknowns_in(expression):
            experiment = problem.experiments[e]
            tables = PlacedTables(problem, shapes_of(problem, experiment))
            if e not in inputs:
                inputs[e] = ca.SX.sym(f"(tables of {e})", tables.inputs.numel() - 1)
                blocks += [one.shifted(behind - 1) for one in tables.blocks]
                behind += inputs[e].numel()
            placed = ca.substitute(tables.placed(expression), tables.inputs[1:], inputs[e])
            expression = resolve_in_experiment(problem, placed, experiment)  # parameters among values
        labels.append(label)
        out.append(ca.substitute(expression, formal, slots[compiled.inputs(e).tolist()]))
    u = ca.vertcat(ca.SX.sym("(unused)"), *inputs.values())
    arrays = (("q", slots), ("c", ca.SX(0, 1)), ("u", u))
    function = SymbolicFunction(
        "derived", ca.SX.sym("t"), arrays, ("q",), stack(out), blocks=tuple(blocks), remembering=False
    )
    return _Quantities(tuple(labels), FunctionLibrary("derived quantities", [function])["derived"], tuple(inputs))


@kernel
def evaluate_quantities(functions, row_ptr, col, slots, slopes, theta_of_slot, u, values, gradients):
    """Fill the values (k,), and add their derivatives by theta to `gradients` (k, n_theta).

    Parameters
    ----------
    functions, row_ptr, col
        Addresses of values and derivatives by the slots, and the pattern of the latter.
    slopes, theta_of_slot
        Derivative of each slot by its theta, and which one that is, -1: fixed.
    u
        Inputs of the functions.
    """
    nothing, nonzeros = np.empty(0), np.empty(col.size)
    call_model(functions[0], 0.0, slots, 0, nothing, u, values, 0)
    call_model(functions[1], 0.0, slots, 0, nothing, u, nonzeros, 0)
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
    read = quantities_of(problem)
    for name, expression in read.expressions.items():
        if name in read.along:
            continue
        if not _differs(problem, expression, local):
            yield name, resolve_in_experiment(problem, expression, None), 0
            continue
        for e, experiment in enumerate(problem.experiments):
            resolved = resolve_in_experiment(problem, expression, experiment)
            unknown = sorted(names_in(resolved) - known)
            if unknown:
                raise ProblemError(
                    f"the derived quantity '{name}' depends on '{unknown[0]}', which has no single value in "
                    f"experiment '{experiment.name}'."
                )
            yield f"{name}[{experiment.name}]", resolved, e


def _differs(problem: Problem, expression: Any, local: set[str]) -> bool:
    """Tell whether a quantity depends on something that experiments have values or tables of their own for."""
    if problem.depends_on(expression, local):
        return True
    called = tables_in(resolve_in_experiment(problem, expression, None))
    names = {value for name in called for e in problem.experiments for value in problem.table(name, e).names}
    own = any(name in e.tables for name in called for e in problem.experiments)
    return own or any(problem.depends_on(symbol_of(problem, name), local) for name in names)
