"""Derived quantities that are taken along the solution: ``integral(Cp, over=t, from=0, to=24)``, ``A(t=3600)``.

They are definitions of a model that has hidden states for what they use (`Model.with_quantities`), observed where the
last of it is complete: at the latest of the times that they name, or, for an aggregate without ``to``, at the end of
the experiment.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import casadi as ca

from odefit.errors import OdefitError, ProblemError
from odefit.model import Model
from odefit.model.aggregates import Aggregates
from odefit.problem.event_times import ParameterValues

if TYPE_CHECKING:
    from odefit.problem.problem import Problem


class Quantities(NamedTuple):
    """The derived quantities of a problem.

    Attributes
    ----------
    expressions
        Of each one, in the symbols of the model, of the problem, and of hidden states.
    along
        Names of those that are taken along the solution.
    model
        A model that has these as definitions; that of the problem if there are none.
    ends
        For each of these when it is complete; None among them: at the end of the experiment.
    """

    expressions: Mapping[str, Any]
    along: tuple[str, ...]
    model: Model
    ends: Mapping[str, tuple[Any, ...]]


def quantities_of(problem: Problem) -> Quantities:
    """Return the derived quantities of `problem`, read; they are worked out once."""
    if not problem.derived:
        return Quantities({}, (), problem.model, {})
    key = ("derived quantities", tuple(problem.derived.items()), tuple(problem.own_symbols))
    return problem.structure.kept.get(key, lambda: _read(problem))


def quantities_by_text(problem: Problem) -> Mapping[str, Any]:
    """Return the expressions of all texts; an error says which quantity it belongs to."""
    read = quantities_of(problem)
    return {text: read.expressions[name] for name, text in problem.derived.items()}


def _read(problem: Problem) -> Quantities:
    aggregates, expressions = Aggregates(intervals=False), {}
    for name, text in problem.derived.items():
        try:
            expressions[name] = problem.structure.expressions.read_along(text, aggregates)
        except OdefitError as error:
            error.args = (f"the derived quantity '{name}': {error.args[0]}",)
            raise
    hidden = {**aggregates.gathered, **aggregates.readings}
    used = {name: _reached(expression, hidden) for name, expression in expressions.items()}
    along = tuple(name for name in expressions if used[name])
    if not along:
        return Quantities(expressions, (), problem.model, {})
    own = {
        name: symbol
        for name, symbol in problem.own_symbols.items()
        if any(symbol.name() in _names(expression) for expression in _all_expressions(expressions, aggregates))
    }
    model = problem.model.with_quantities({name: expressions[name] for name in along}, aggregates, own)
    ends = {name: tuple(aggregates.ends[one] for one in used[name]) for name in along}
    return Quantities(expressions, along, model, ends)


def _all_expressions(expressions: Mapping[str, Any], aggregates: Aggregates) -> list[Any]:
    inner = [part for one in aggregates.gathered.values() for part in (one.expression, one.counts)]
    inner += [part for one in aggregates.readings.values() for part in (one.expression, one.time)]
    return [*expressions.values(), *inner]


def _names(expression: Any) -> set[str]:
    return {symbol.name() for symbol in ca.symvar(expression)}


def _reached(expression: Any, hidden: Mapping[str, Any]) -> list[str]:
    """Return the hidden states that an expression uses, directly or through others."""
    found: dict[str, None] = {}
    waiting = [expression]
    while waiting:
        for name in _names(waiting.pop()):
            if name in hidden and name not in found:
                found[name] = None
                waiting.append(hidden[name].expression)
    return list(found)


def problem_along(problem: Problem) -> Problem:
    """Return the problem whose definitions are the quantities along the solution."""
    return dataclasses.replace(problem, model=quantities_of(problem).model, derived={})


def check_quantities(problem: Problem) -> None:
    """Refuse quantities that are taken at a time, a number, which an experiment does not have."""
    read = quantities_of(problem)
    endless = all(math.isnan(problem.end_of(experiment)) for experiment in problem.experiments)
    for experiment in problem.experiments if read.along else ():
        end = problem.end_of(experiment)
        for name in read.along:
            where = f"the derived quantity '{name}' in experiment '{experiment.name}'"
            ends = read.ends[name]
            numbers = [float(one) for one in ends if one is not None and one.is_constant()]
            if min(numbers, default=math.inf) < experiment.start:
                raise ProblemError(
                    f"{where} is taken at {min(numbers):g}, before the experiment's start at {experiment.start:g}."
                )
            if None in ends and endless:
                raise ProblemError(f"{where} has no end; give to=..., or until = ... in the experiment.")
            if None in ends and max(numbers, default=end) > end:
                raise ProblemError(
                    f"{where} looks at {max(numbers):g}, behind the end of the experiment at {end:g}, while an "
                    "aggregate in it has no end; give it to=..."
                )


def has_end(problem: Problem, e: int, name: str) -> bool:
    """Tell whether quantity `name` is ever complete in experiment number `e`, which may have no end."""
    return None not in quantities_of(problem).ends[name] or not math.isnan(problem.end_of(problem.experiments[e]))


def completion(problem: Problem, estimates: Mapping[str, float], e: int, name: str) -> float:
    """Return when quantity `name` of experiment number `e` is complete; NaN if it never is, at these estimates."""
    ends, experiment = quantities_of(problem).ends[name], problem.experiments[e]
    values = ParameterValues(problem, estimates, e)
    times = [values.of(one) for one in ends if one is not None]
    if not all(math.isfinite(time) and time >= experiment.start for time in times):
        return math.nan
    if None not in ends:
        return max([*times, experiment.start])
    end = problem.end_of(experiment)
    return end if max(times, default=end) <= end else math.nan
