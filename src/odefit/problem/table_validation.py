"""The checks of a problem's tables: every one that is called exists, and takes what it is called with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import casadi as ca

from odefit.errors import ProblemError, UnsupportedError, suggestion
from odefit.model.names import checked_name
from odefit.model.table_calls import calls_in
from odefit.problem.constraints import read_constraints
from odefit.problem.derived import quantities_of

if TYPE_CHECKING:
    from odefit.problem.problem import Problem


def check_tables(problem: Problem) -> set[str]:
    """Check the tables of `problem`; return the names of the parameters that are values of them."""
    if not (problem.tables or problem.model.tables or any(one.tables for one in problem.experiments)):
        return set()
    known = dict.fromkeys((*problem.tables, *(name for one in problem.experiments for name in one.tables)))
    _check_names(problem, known)
    called = _called(problem)
    for name, counts in called.items():
        _check_calls(problem, name, counts, known)
    for name in known:
        if name not in called and name not in problem.model.tables:
            raise ProblemError(
                f"the table '{name}' is not called in the equations or expressions{suggestion(name, called)} "
                f"Write {name}({problem.model.time}), say, or remove it."
            )
    return _check_values(problem)


def _check_names(problem: Problem, known: Iterable[str]) -> None:
    parameters = {p.name for p in problem.parameters}
    for name in known:
        checked_name(name, "table", problem.model.time)
        if name in problem.model.symbols or name in parameters:
            what = "parameter" if name in parameters or name in problem.model.parameters else "name in the equations"
            raise ProblemError(f"'{name}' is both a table and a {what}; a name has one meaning: rename one of the two.")


def _called(problem: Problem) -> dict[str, set[int]]:
    """Return the tables that are called, and with how many arguments each."""
    called: dict[str, set[int]] = {}
    for name, arguments in calls_in(ca.vertcat(*_expressions(problem))):
        called.setdefault(name, set()).add(len(arguments))
    for rule in problem.rules:
        resolved = problem.model.resolve([problem.expression(rule.expression)])[0]
        for name, _ in calls_in(resolved):
            raise UnsupportedError(f"the table '{name}' in a rule (\"{rule.expression}\")")
    return called


def _expressions(problem: Problem) -> Iterator[Any]:
    model = problem.model
    for part in (model.rhs, model.initial, model.definitions):
        yield from part.values()
    yield from model.coefficients
    for event in (*model.events, *model.state_events):
        yield from event.changes.values()
    yield from (event.condition for event in model.state_events)
    texts = [p.expression for p in problem.parameters if p.expression is not None]
    texts += [value for e in problem.experiments for value in e.overrides.values() if isinstance(value, str)]
    texts += [value for e in problem.experiments for value in (e.before or {}).values() if isinstance(value, str)]
    texts += [noise.expression for noise in problem.noise.values() if noise.expression is not None]
    for text in texts:
        yield problem.expression(text)
    if problem.structure.restrictions:
        yield from (one.expression for one in read_constraints(problem).constraints)
    if problem.derived:
        quantities = quantities_of(problem)
        yield from quantities.expressions.values()
        yield from (part for one in quantities.model.gathered.values() for part in (one.expression, one.counts))


def _check_calls(problem: Problem, name: str, counts: set[int], known: Iterable[str]) -> None:
    for experiment in problem.experiments:
        if name not in experiment.tables and name not in problem.tables:
            where = f" in experiment '{experiment.name}'" if any(name in e.tables for e in problem.experiments) else ""
            raise ProblemError(
                f"'{name}(...)' is called, but there is no function and no table '{name}'{where}"
                f"{suggestion(name, known)} Give it in [tables.{name}]."
            )
        table = problem.table(name, experiment)
        for count in sorted(counts):
            if count != table.arguments:
                raise ProblemError(
                    f"the table '{name}' takes {_words(table.arguments)}, but it is called with {_words(count)}."
                )


def _words(count: int) -> str:
    return "one argument" if count == 1 else f"{'two' if count == 2 else count} arguments"


def _check_values(problem: Problem) -> set[str]:
    """Check that names among the values are parameters."""
    every = [("", name, table) for name, table in problem.tables.items()]
    every += [(e.name, name, table) for e in problem.experiments for name, table in e.tables.items()]
    parameters = {p.name: p for p in problem.parameters}
    used: set[str] = set()
    for experiment, name, table in every:
        where = f"the table '{name}'" + (f" of experiment '{experiment}'" if experiment else "")
        for value in table.names:
            if value not in parameters:
                raise ProblemError(
                    f"{where} has the value '{value}', which is no parameter{suggestion(value, parameters)}"
                )
            if value in problem.slots.by_row:
                raise ProblemError(
                    f"{where} has the value '{value}', which has one value per {parameters[value].per}; a table needs "
                    "parameters that are the same for all measurements of an experiment."
                )
            used.add(value)
    return used
