"""Equilibrations, compiled: what they conserve, and what they give to the experiments behind them.

An experiment that starts from a steady state has the states of its equilibration in the place of its own initial
values, all but those that are held: what periods and events change has its value at the start.  Where equations use
``A(0)``, an entry of p, this is the value of the steady state too.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.compile.conditions import Pattern, Variant, map_expressions, pattern_of
from odefit.compile.conserved import Laws, conserved_totals
from odefit.compile.events import Occurrences
from odefit.compile.functions import NativeFunction
from odefit.compile.native_problem import CompiledModel
from odefit.errors import UnsupportedError
from odefit.model import Model
from odefit.model.events import name_of_held, rate_name
from odefit.model.names import state_of_initial
from odefit.problem import Experiment, Problem
from odefit.problem.noise import sigma_expressions
from odefit.problem.periods import changes_of_periods
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
    t = problem.model.time
    advice = f"replace what makes it so in 'before' (a steady state does not depend on {t})"
    _refuse_time(problem, model, f"before the start of experiment '{experiment.name}'", advice)


def _refuse_time(problem: Problem, model: CompiledModel, where: str, advice: str) -> None:
    if model.in_equations:
        raise UnsupportedError(
            f"{where} the model has equations in several derivatives, whose steady state is not found"
        )
    rhs, t = model.rhs.library.symbolic("rhs"), problem.model.time
    gathered = [problem.model.states.index(name) for name in problem.model.gathered]
    inputs, switches = dict(rhs.arrays)["u"], model.switches
    first = inputs.numel() - (0 if switches is None else switches.n_inputs)  # behind tables
    conditions = {symbol.name() for symbol in ca.symvar(inputs[first:])}
    if switches is not None and switches.borders is not None:
        raise UnsupportedError(f"{where} there are conditions on states, or events on conditions")
    if switches is not None and switches.moving:
        raise UnsupportedError(f"{where} times of events or conditions depend on parameters")
    for k, state in enumerate(problem.model.shown):
        names = {symbol.name() for symbol in ca.symvar(rhs.out[k])}
        if names & conditions:  # those of aggregates do not matter
            raise UnsupportedError(f"{where} there are conditions in {t}; {advice}")
        if rhs.time.name() in names:
            raise UnsupportedError(f"{where} the equation of '{state}' depends on {t}; {advice}")
        columns = model.rhs.col[model.rhs.row_ptr[k] : model.rhs.row_ptr[k + 1]]
        if np.isin(columns, gathered).any():
            raise UnsupportedError(f"{where} the equation of '{state}' depends on an aggregate over {t}")


def last_change(problem: Problem, e: int, model: CompiledModel) -> float:
    """Return the time of the last event of experiment number `e`, or its start; behind it the model may come to rest.

    Raises
    ------
    UnsupportedError
        If it cannot, since its equations depend on time for ever; or if it is not known when it may, since times of
        events depend on parameters.
    """
    experiment = problem.experiments[e]
    t = problem.model.time
    where = f"a steady state ({t} = inf) of experiment '{experiment.name}', in which"
    _refuse_time(problem, model, where, "write what changes as an event, or as a period of the experiment")
    return max((experiment.start, *problem.event_times({}, e)))


class Behind(NamedTuple):
    """What is known of the states behind the last event of an experiment, see `conserved_totals`; and of p."""

    states: tuple[float | None, ...] = ()
    unknown: tuple[int, ...] = ()


def behind_events(problem: Problem, e: int, model: CompiledModel, occurrences: Occurrences) -> Behind:
    """Return what is known of the states of experiment number `e` behind its last event.

    Nothing of a state that moves.  All that was supplied over some time has been; what periods and events change has
    the value that it was set to last, if that is a number, and its first one if nothing changes it.
    """
    experiment, symbolic = problem.experiments[e], problem.model
    moved = experiment.before is not None or bool(occurrences.kind.size)
    if not moved:
        return Behind()
    by_statements = {target for event in symbolic.events for target in event.changes}
    by_periods = {change.target: change.value for change in changes_of_periods(symbolic, experiment)}
    rates = {rate_name(name) for name in symbolic.shown}
    known: list[float | None] = []
    for name in symbolic.states:
        last = by_periods.get(name)
        if name in symbolic.shown or name in by_statements:
            known.append(math.nan)
        elif name in rates:
            known.append(0.0)
        elif last is None or last == name_of_held(name):  # what an experiment begins with
            known.append(None)
        else:
            known.append(math.nan if isinstance(last, str) else float(last))
    initial = [k for k, name in enumerate(model.parameters) if name in symbolic.initial_values]
    return Behind(tuple(known), tuple(initial) if experiment.before is not None else ())


def laws_of(
    model: Model,
    compiled: CompiledModel,
    start: NativeFunction,
    known: Array,
    constants: Array,
    behind: Behind,
) -> Laws:
    """Return what is conserved on the way to rest; aggregates over time are put aside.

    Parameters
    ----------
    start
        Its map.
    known, constants
        Values of the inputs of the map, NaN for those that are estimated, and the numbers of the experiment.
    behind
        Where the way begins, if it is not the initial state.
    """
    aside = [model.states.index(name) for name in model.gathered]
    rhs, begin = compiled.rhs.library.symbolic("rhs").value, start.library.symbolic("map").value
    return conserved_totals(rhs, begin, known, constants, aside, behind.states, behind.unknown)
