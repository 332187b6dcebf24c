"""Equilibrations, compiled: what they conserve, and what they give to the experiments behind them.

An experiment that starts from a steady state has the states of its equilibration in the place of its own initial
values, all but those that are held: what periods and events change has its value at the start.  Where equations use
``A(0)``, an entry of p, this is the value of the steady state too.
"""

from __future__ import annotations

from typing import NamedTuple

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.compile.conditions import Pattern, Variant, map_expressions, pattern_of
from odefit.compile.conserved import conserved_totals
from odefit.compile.functions import NativeFunction
from odefit.compile.native_problem import CompiledModel
from odefit.errors import UnsupportedError
from odefit.model import Model
from odefit.model.names import state_of_initial
from odefit.problem import Experiment, Problem
from odefit.problem.noise import sigma_expressions
from odefit.problem.resolution import names_in

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


class StartFromRest(NamedTuple):
    """What an experiment takes from its equilibration.

    Attributes
    ----------
    run
        Number of the equilibration.
    column
        For each column of the experiment's seeds that of the equilibration, -1: it does not depend on it.
    n_states
        How many states, the first ones.
    entry, state
        Entries of p that are initial values, and the states they are of.
    """

    run: int
    column: Indices
    n_states: int
    entry: Indices
    state: Indices


def start_from_rest(
    model: Model, e: int, run: int, compiled: CompiledModel, columns: tuple[Indices, ...]
) -> StartFromRest:
    """Return what experiment number `e` takes from its equilibration, which is run number `run`."""
    place = {theta: c for c, theta in enumerate(columns[run].tolist())}
    shown = model.shown
    entries = [(k, state_of_initial(name)) for k, name in enumerate(compiled.parameters)]
    entries = [(k, state) for k, state in entries if state in shown]
    return StartFromRest(
        run,
        np.array([place.get(theta, -1) for theta in columns[e].tolist()], dtype=np.int64),
        len(shown),
        np.array([k for k, _ in entries], dtype=np.int64),
        np.array([shown.index(state) for _, state in entries if state is not None], dtype=np.int64),
    )


def check_start(problem: Problem, experiment: Experiment, variant: Variant) -> None:
    """Refuse numbers of an experiment that depend on an initial value, which is not known before it has come to rest.

    In equations and observables it may be used.
    """
    model = problem.model
    initial = {*model.initial_values}
    own: Pattern = pattern_of(experiment)
    names, outputs = map_expressions(problem, variant, own, keeping=tuple(initial))
    for name, expression in zip(names, outputs, strict=True):
        used = sorted(names_in(expression) & initial)
        if used and name not in initial and state_of_initial(name) not in model.shown:
            raise UnsupportedError(
                f"'{name}' in experiment '{experiment.name}', which starts from a steady state, depends on "
                f"'{used[0]}'; use '{used[0]}' in the equations instead"
            )
    for name, text in sigma_expressions(problem).items():
        resolved = model.resolve([problem.expression(text)], keeping=tuple(initial))
        for used in sorted(names_in(resolved[0]) & initial):
            raise UnsupportedError(
                f"[noise] {name} depends on '{used}', which is not known in experiment '{experiment.name}' before it "
                "has come to rest"
            )


def check_equilibration(problem: Problem, experiment: Experiment, model: CompiledModel) -> None:
    """Refuse equations that have no steady state since they depend on time."""
    rhs = model.rhs.library.symbolic("rhs")
    time, where = rhs.time.name(), f"before the start of experiment '{experiment.name}'"
    advice = f"replace what makes it so in 'before' (a steady state does not depend on {problem.model.time})"
    for k, state in enumerate(problem.model.shown):
        if time in {symbol.name() for symbol in ca.symvar(rhs.out[k])}:
            raise UnsupportedError(f"{where} the equation of '{state}' depends on {problem.model.time}; {advice}")
    if model.switches is not None:
        raise UnsupportedError(f"{where} there are conditions in {problem.model.time}; {advice}")
    gathered = [problem.model.states.index(name) for name in problem.model.gathered]
    for k, state in enumerate(problem.model.shown):
        columns = model.rhs.col[model.rhs.row_ptr[k] : model.rhs.row_ptr[k + 1]]
        if np.isin(columns, gathered).any():
            raise UnsupportedError(f"{where} the equation of '{state}' depends on an aggregate over time")


def laws_of(model: Model, compiled: CompiledModel, start: NativeFunction, known: Array, constants: Array) -> Array:
    """Return what an equilibration conserves, (laws, n); aggregates over time are put aside.

    Parameters
    ----------
    start
        Its map.
    known, constants
        Values of the inputs of the map, NaN for those that are estimated, and the numbers of the experiment.
    """
    aside = [model.states.index(name) for name in model.gathered]
    rhs, begin = compiled.rhs.library.symbolic("rhs").value, start.library.symbolic("map").value
    return conserved_totals(rhs, begin, known, constants, aside)
