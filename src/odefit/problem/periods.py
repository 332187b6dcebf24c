"""Experiments in several periods: what changes where one ends and the next begins.

What the first period replaces holds all the time; what a later one replaces holds in it alone.  Where a period begins,
states jump to what it sets, and what its conditions change jumps too: a parameter or definition that some later period
replaces is held by a state of its own, as one that an event changes (`odefit.model.holding`).  So a period begins with
a few states that are set, and integrators know of events only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odefit.errors import ProblemError, UnsupportedError, suggestion
from odefit.model import Model
from odefit.model.events import flag_name, held_name
from odefit.model.names import initial_name, state_of_initial
from odefit.problem.experiments import Experiment


class PeriodChange(NamedTuple):
    """A state that is set where a period begins.

    Attributes
    ----------
    time, before
        Where this period begins, and the one before: a number or the text of an expression.
    target, value
        The state, one that is held say, and what it is set to: a number, the text of an expression.
    """

    time: float | str
    before: float | str
    target: str
    value: float | str


def with_held_of_periods(model: Model, experiments: Iterable[Experiment]) -> Model:
    """Return `model` with held states for all that later periods replace."""
    names = {name for one in experiments for name in _replaced_later(one)}
    return model.with_held(tuple(name for name in (*model.parameters, *model.definitions) if name in names))


def changes_of_periods(model: Model, experiment: Experiment) -> tuple[PeriodChange, ...]:
    """Return what is set where the later periods begin, in order."""
    changes: list[PeriodChange] = []
    names = _replaced_later(experiment)
    for previous, period in zip(experiment.shown, experiment.later, strict=False):
        place = (period.start, previous.start)
        for name, value in period.overrides.items():
            state = state_of_initial(name)
            if state is not None:
                changes.append(PeriodChange(*place, state, value))
        for name in names:
            earlier = previous.overrides.get(name) if previous is not experiment.first else None
            now = period.overrides.get(name)
            if now == earlier:
                continue
            if name in model.parameters:  # its own name is what the experiment begins with
                changes.append(PeriodChange(*place, held_name(name), name if now is None else now))
                continue
            if now is not None:
                changes.append(PeriodChange(*place, held_name(name), now))
            changes.append(PeriodChange(*place, flag_name(name), 0.0 if now is None else 1.0))
    return tuple(changes)


def _replaced_later(experiment: Experiment) -> tuple[str, ...]:
    """Return the parameters and definitions that later periods of an experiment replace."""
    every = (name for period in experiment.later for name in period.overrides)
    return tuple(dict.fromkeys(name for name in every if state_of_initial(name) is None))


def check_periods(model: Model, experiment: Experiment) -> None:
    """Refuse later periods that begin too early, or replace what the model does not have."""
    start = experiment.start
    for number, period in enumerate(experiment.later, start=2):
        where = f"experiment '{experiment.name}': period {number}"
        if not isinstance(period.start, str):
            if not period.start > start:
                raise ProblemError(
                    f"{where} begins at {period.start:g}, not after the one before it, which begins at {start:g}; put "
                    "them in order."
                )
            start = period.start
        for name in period.overrides:
            _check_name(model, experiment, where, name)


def _check_name(model: Model, experiment: Experiment, where: str, name: str) -> None:
    state = state_of_initial(name)
    if state is not None:
        if state not in model.shown:
            raise ProblemError(f"{where} sets '{name}', but '{state}' is not a state{suggestion(state, model.shown)}")
        return
    if name in model.shown:
        raise ProblemError(
            f"{where} sets the state '{name}'; write \"{initial_name(name)}\" for its value where the period begins."
        )
    if name in model.tables or name in experiment.tables:
        raise UnsupportedError(f"{where}, which replaces the table '{name}'")
    fault = model.fault_of_replacing(name)
    if fault is not None:
        raise UnsupportedError(f"{where} sets '{name}': {fault}")
    if name not in model.parameters and name not in model.definitions:
        known = (*model.parameters, *model.definitions)
        raise ProblemError(f"{where} sets '{name}', which the model does not have{suggestion(name, known)}")
