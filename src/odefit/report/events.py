"""Events and doses in words."""

from __future__ import annotations

import textwrap

from odefit.problem import Dose, Problem

_WIDTH = 100
_MOST_SHOWN = 6


def words_for_events(problem: Problem) -> list[str]:
    """Return lines that list the events of the equations and the doses of the experiments; none if there are none."""
    lines = [*_of_equations(problem), *_of_experiments(problem), *_arrival(problem)]
    return ["Events", *lines] if lines else []


def _of_equations(problem: Problem) -> list[str]:
    events = (*problem.model.events, *problem.model.state_events)
    return [line for event in events for line in _wrapped(f"  {event.text}")]


def _of_experiments(problem: Problem) -> list[str]:
    """List the doses, those that several experiments have in common once."""
    by_doses: dict[tuple[Dose, ...], list[str]] = {}
    for experiment in problem.experiments:
        if experiment.events:
            by_doses.setdefault(experiment.events, []).append(experiment.name)
    lines = []
    for doses, names in by_doses.items():
        every = len(names) == len(problem.experiments) > 1
        who = "all experiments" if every else ", ".join(_some(names, "experiments"))
        lines += _wrapped(f"  {who}: {'; '.join(_some([_dose(dose) for dose in doses], 'doses'))}")
    return lines


def _some(words: list[str], kind: str) -> list[str]:
    left = len(words) - _MOST_SHOWN
    return words if left <= 0 else [*words[:_MOST_SHOWN], f"{left} more {kind}"]


def _dose(dose: Dose) -> str:
    amount = _value(dose.amount)
    words = f"{dose.target} is set to {amount}" if dose.how == "set" else f"{amount} to {dose.target}"
    words += f" at {_value(dose.time)}"
    if dose.is_infusion:
        words += f" over {_value(dose.duration)}"
    if dose.count > 1:
        words += f", {dose.count} times, every {_value(dose.every)}"
    return words


def _arrival(problem: Problem) -> list[str]:
    lines = []
    for state in dict.fromkeys((*problem.lag, *problem.fraction)):
        late = f"{_value(problem.lag[state])} later" if state in problem.lag else ""
        given = f"what is given to {state}"
        if state in problem.fraction:
            words = f"of {given}, the fraction {_value(problem.fraction[state])} arrives{', ' * bool(late)}{late}"
        else:
            words = f"{given} arrives {late}"
        lines.append(f"  {words}")
    return lines


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent="    ", drop_whitespace=True)
