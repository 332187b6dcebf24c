"""Rules that must hold: equalities and inequalities between parameters, and states and definitions at times.

    k1/k2 = c               between parameters
    x(t=5) >= 0             of states and definitions at a time
    x(0) = x(t=T)           between several times, which may be expressions of parameters
    0 <= A + B <= 3         at all times: a path constraint, which is held on a grid

Rules with ``~`` are priors (see `odefit.problem.priors`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import casadi as ca

from odefit.errors import LanguageError, OdefitError, ProblemError, UnsupportedError
from odefit.model.aggregates import Aggregates
from odefit.model.arithmetic import subtract
from odefit.model.tokens import Token, error_at, statements

if TYPE_CHECKING:
    from odefit.problem.problem import Problem

PARAMETERS, AT_TIMES, PATH = "parameters", "at times", "path"
"""What a rule is about."""
_RELATIONS = ("=", "==", "<=", ">=")


@dataclass(frozen=True)
class Constraint:
    """A rule, left minus right side: it must be zero, or at least zero.

    Attributes
    ----------
    text
        As it is written.
    greater, less
        Sides: ``greater - less`` is zero or, with `at_least`, not negative.
    """

    text: str
    greater: str
    less: str
    at_least: bool


def is_prior(text: str) -> bool:
    """Tell whether a rule is a prior on an expression."""
    return "~" in text


def constraints_from(text: str) -> tuple[Constraint, ...]:
    """Read a rule without ``~``: one, or two as in ``0 <= x <= 1``."""
    try:
        [tokens, *further] = statements(text) or [[]]
        if further or not tokens:
            raise ProblemError(f'the rule "{text}" is not one relation; write "x(t=5) >= 0", say.')
        relations = _relations(text, tokens)
    except LanguageError as error:
        error.args = (f'the rule "{text}": {error.args[0]}',)
        raise
    ends = [0, *(one.column - 1 for one in relations), len(text)]
    begins = [0, *(one.end - 1 for one in relations)]
    sides = [text[begin:end].strip() for begin, end in zip(begins, ends[1:], strict=True)]
    if not all(sides):
        raise ProblemError(f'the rule "{text}" has nothing on one side; write "x(t=5) >= 0", say.')
    result = []
    for one, left, right in zip(relations, sides, sides[1:], strict=False):
        greater, less = (right, left) if one.value == "<=" else (left, right)
        whole = text.strip() if len(relations) == 1 else f"{left} {one.value} {right}"
        result.append(Constraint(whole, greater, less, one.value in ("<=", ">=")))
    return tuple(result)


def _relations(text: str, tokens: Sequence[Token]) -> list[Token]:
    """Return the signs of relation outside all brackets, checked."""
    found, depth = [], 0
    for token in tokens:
        depth += {"LPAR": 1, "RPAR": -1}.get(token.type, 0)
        if depth == 0 and token.type in ("COMPARE", "EQUAL"):
            found.append(token)
    if not found:
        raise ProblemError(
            f'the rule "{text}" has no relation; write "k1 <= k2", "x(t=5) >= 0", "k1/k2 = c", or a prior with "~".'
        )
    for token in found:
        if token.value not in _RELATIONS:
            instead = token.value + "=" if token.value in ("<", ">") else "="
            raise error_at(text, token, f"'{token.value}' cannot be held by a fit; write {instead}")
    kinds = {token.value for token in found}
    if len(found) > 2 or (len(found) == 2 and not (len(kinds) == 1 and kinds <= {"<=", ">="})):
        raise error_at(text, found[-1], "a rule has one relation, or two of one direction: 0 <= x <= 1")
    return found


@dataclass(frozen=True, eq=False)
class ReadConstraint:
    """A rule with its expression.

    Attributes
    ----------
    constraint, expression
        The rule; what must be zero or not negative, in the symbols of the model, of the problem and of hidden states.
    kind
        `PARAMETERS`, `AT_TIMES` or `PATH`.
    reached
        Names of the hidden states that it uses, directly or through others.
    at
        When its last values are taken, if that is a number for all of them.
    """

    constraint: Constraint
    expression: Any
    kind: str
    reached: tuple[str, ...]
    at: float | None


@dataclass(frozen=True, eq=False)
class Read:
    """All rules of a problem, and the hidden states for values at earlier times and aggregates."""

    constraints: tuple[ReadConstraint, ...]
    aggregates: Aggregates


def read_constraints(problem: Problem) -> Read:
    """Return the rules of `problem` without ``~``, read; they are worked out once."""
    return problem.structure.kept.get(("rules", tuple(problem.own_symbols)), lambda: _read(problem))


def _read(problem: Problem) -> Read:
    aggregates, result = Aggregates(intervals=False), []
    for constraint in problem.structure.restrictions:
        try:
            greater = problem.structure.expressions.read_along(constraint.greater, aggregates)
            less = problem.structure.expressions.read_along(constraint.less, aggregates)
            result.append(_classified(problem, constraint, subtract(greater, less), aggregates))
        except OdefitError as error:
            if f'"{constraint.text}"' not in str(error.args[0]):
                error.args = (f'the rule "{constraint.text}": {error.args[0]}',)
            raise
    used = {name for one in result for name in one.reached}
    kept = Aggregates(
        False,
        {name: one for name, one in aggregates.gathered.items() if name in used},
        {name: one for name, one in aggregates.readings.items() if name in used},
        aggregates.ends,
    )
    return Read(tuple(result), kept)


def _classified(problem: Problem, constraint: Constraint, expression: Any, aggregates: Aggregates) -> ReadConstraint:
    hidden = {**aggregates.gathered, **aggregates.readings}
    reached = _reached(expression, hidden)
    moves = _moves(problem, expression)
    where = f'the rule "{constraint.text}"'
    if moves and reached:
        time = problem.model.time
        raise UnsupportedError(
            f"{where} with values at a time beside '{moves}' at all times; write {moves}({time}=...)"
        )
    if moves:
        if not constraint.at_least:
            raise ProblemError(
                f"{where} would have to hold at all times; give a time, {moves}({problem.model.time}=5) say, or write "
                "it as an equation of the model (0 = ...)."
            )
        return ReadConstraint(constraint, expression, PATH, (), None)
    if not reached:
        return ReadConstraint(constraint, expression, PARAMETERS, (), None)
    at = _common_time([aggregates.ends[name] for name in reached])
    if at is not None:  # what is looked at last needs no hidden state: it is observed at that time
        last = [one for name, one in aggregates.readings.items() if name in reached and float(one.time) == at]
        expression = ca.substitute([expression], [one.symbol for one in last], [one.expression for one in last])[0]
        if any(_reached(one.expression, hidden) for one in last):
            raise UnsupportedError(f"{where}: a value at a time of something that is itself taken at a time")
        reached = _reached(expression, hidden)
    return ReadConstraint(constraint, expression, AT_TIMES, tuple(reached), at)


def _common_time(ends: Sequence[Any]) -> float | None:
    """Return the last of these times if all are numbers."""
    if any(one is None or not one.is_constant() for one in ends):
        return None
    return max(float(one) for one in ends)


def _reached(expression: Any, hidden: Mapping[str, Any]) -> list[str]:
    """Return the hidden states that an expression uses, directly or through others."""
    found: dict[str, None] = {}
    waiting = [expression]
    while waiting:
        for symbol in ca.symvar(ca.SX(waiting.pop())):
            name = symbol.name()
            if name in hidden and name not in found:
                found[name] = None
                waiting.append(hidden[name].expression)
    return list(found)


def _moves(problem: Problem, expression: Any) -> str:
    """Return a name in an expression that changes with time; "" if there is none."""
    model = problem.model
    for symbol in ca.symvar(ca.SX(expression)):
        name = symbol.name()
        if name in (model.time, *model.states) or name in model.algebraic:
            return name
        if name in model.definitions and problem.depends_on(symbol, {model.time, *model.states, *model.algebraic}):
            return name
        if name in model.parameters or name in model.initial_values:
            continue
    return ""
