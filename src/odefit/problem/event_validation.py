"""The checks of events: none is before the start; what is given to which state, when, how often, how late."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from odefit.errors import ProblemError, UnsupportedError, suggestion
from odefit.problem.events import HOWS, Dose
from odefit.problem.experiments import Experiment
from odefit.problem.resolution import tables_in

if TYPE_CHECKING:
    from odefit.problem.problem import Problem

MOST_DOSES = 100_000
"""Doses of one entry; more are a mistake in `count`."""


def check_events(problem: Problem) -> None:
    """Refuse events of the equations whose time is a number before the start of an experiment."""
    numbers = [(float(event.time), event.text) for event in problem.model.events if event.time.is_constant()]
    for experiment in problem.experiments if numbers else ():
        time, text = min(numbers)
        if time < experiment.start:
            raise ProblemError(
                f"experiment '{experiment.name}': the event '{text}' is before the experiment's start at "
                f"{experiment.start:g}; move the start (t0) or remove it."
            )


def check_doses(problem: Problem) -> None:
    """Check what doses, lags and fractions say, all but their expressions; raise for the first that is wrong."""
    for experiment in problem.experiments:
        for dose in experiment.events:
            where = f"experiment '{experiment.name}': {dose.words}"
            _check_target(problem, where, dose)
            _check_numbers(where, dose)
            _check_repeats(where, dose)
            _check_beginning(problem, where, dose, experiment)
    targets = dict.fromkeys(dose.target for one in problem.experiments for dose in one.events)
    for what, values in (("lag", problem.lag), ("fraction", problem.fraction)):
        _check_arrival(problem, what, values, tuple(targets))


def texts_of_doses(problem: Problem) -> Iterator[tuple[str, str]]:
    """Yield each expression of doses, lags and fractions, with its place in words."""
    for experiment in problem.experiments:
        for dose in experiment.events:
            for name in ("time", "amount", "duration"):
                value = getattr(dose, name)
                if isinstance(value, str):
                    yield value, f"experiment '{experiment.name}': the {name} \"{value}\" of {dose.words}"
    for what, values in (("lag", problem.lag), ("fraction", problem.fraction)):
        for state, value in values.items():
            if isinstance(value, str):
                yield value, f"the {what} \"{value}\" of '{state}'"


def refuse_tables(problem: Problem) -> None:
    """Refuse doses whose expressions call a table."""
    for text, where in texts_of_doses(problem):
        for name in sorted(tables_in(problem.model.resolve([problem.expression(text)])[0])):
            raise UnsupportedError(f"{where}, which calls the table '{name}'")


def _check_target(problem: Problem, where: str, dose: Dose) -> None:
    model = problem.model
    if dose.target in model.algebraic_states:
        raise ProblemError(f"{where}: '{dose.target}' is an algebraic unknown, to which nothing can be given.")
    if dose.target in model.shown:
        return
    if dose.target in model.parameters or dose.target in model.definitions:
        raise ProblemError(
            f"{where}: '{dose.target}' is no state; write 'at {model.time}={dose.time}: {dose.target} = ...' in the "
            "equations to change it."
        )
    raise ProblemError(f"{where}: '{dose.target}' is no state{suggestion(dose.target, model.shown)}")


def _check_numbers(where: str, dose: Dose) -> None:
    if dose.how not in HOWS:
        raise ProblemError(f'{where}: how = \'{dose.how}\'; it is "add" or "set".')
    for name in ("time", "amount"):
        value = getattr(dose, name)
        if not isinstance(value, str) and not math.isfinite(value):
            raise ProblemError(f"{where}: the {name} is {value}; give a finite number.")
    if not dose.is_infusion:
        return
    if not isinstance(dose.duration, str) and not 0.0 < dose.duration < math.inf:
        raise ProblemError(
            f"{where}: the duration is {dose.duration:g}; it must be above 0 (leave it out for a dose at once)."
        )
    if dose.how == "set":
        raise ProblemError(f"{where}: what is set is set at once; remove the duration, or add.")


def _check_repeats(where: str, dose: Dose) -> None:
    if not 1 <= dose.count <= MOST_DOSES:
        raise ProblemError(f"{where}: count is {dose.count}; it must be between 1 and {MOST_DOSES}.")
    if dose.count > 1 and math.isnan(dose.every):
        raise ProblemError(
            f"{where} is given {dose.count} times, but 'every' is missing: the time between two of them."
        )
    if not math.isnan(dose.every) and not 0.0 < dose.every < math.inf:
        raise ProblemError(f"{where}: every is {dose.every:g}; it must be above 0.")


def _check_beginning(problem: Problem, where: str, dose: Dose, experiment: Experiment) -> None:
    lag = problem.lag.get(dose.target, 0.0)
    if isinstance(dose.time, str) or isinstance(lag, str) or not dose.time + lag < experiment.start:
        return
    late = f" with its lag of {lag:g}" if lag else ""
    raise ProblemError(
        f"{where}{late} is before the experiment's start at {experiment.start:g}; move the start (t0) or remove it."
    )


def _check_arrival(problem: Problem, what: str, values: Mapping[str, float | str], targets: tuple[str, ...]) -> None:
    for state, value in values.items():
        if state not in targets:
            reason = "to which nothing is given" if state in problem.model.shown else "which is no state"
            raise ProblemError(f"a {what} is given for '{state}', {reason}{suggestion(state, targets)}")
        if isinstance(value, str):
            continue
        if isinstance(value, bool) or not 0.0 <= value < math.inf:
            raise ProblemError(f"the {what} of '{state}' is {value}; it must be a finite number that is not negative.")
