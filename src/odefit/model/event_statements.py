"""Events at a time in equation text: ``at t=t1: x += 5, k = 0``; those on a condition are in `when_statements`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odefit.model.grammar import parse
from odefit.model.names import fault_of_name
from odefit.model.nodes import Node
from odefit.model.tokens import Token, error_at, unsupported_at

OPERATORS = ("=", "+=", "-=", "*=", "/=")
_FORM = "an event is written at {}=5: x += 1, y = 0"


@dataclass(frozen=True, eq=False)
class Assignment:
    """What an event does to one name: ``target operator right``, with one of `OPERATORS`."""

    target: Token
    operator: str
    right: Node


@dataclass(frozen=True, eq=False)
class EventStatement:
    """An event of the text.

    Attributes
    ----------
    place
        Its first token.
    cause
        When it is: a time, or the condition that becomes true.
    assignments
        What it does, all at once.
    text
        As it was written.
    on_condition
        Whether it has a condition, and not a time.
    stop
        Why it ends the experiment; None: it does not.
    initially
        What the condition counts as before the start: None, what it is there; False, false.
    """

    place: Token
    cause: Node
    assignments: tuple[Assignment, ...]
    text: str
    on_condition: bool = False
    stop: str | None = None
    initially: bool | None = None

    @property
    def expressions(self) -> tuple[Node, ...]:
        """All expressions in it, in the order of the text."""
        return self.cause, *(one.right for one in self.assignments)


def is_event(tokens: Sequence[Token]) -> bool:
    """Tell whether a statement opens like an event, and not like an equation of something called `at`."""
    following = tuple(token.type for token in tokens[1:3])
    return tokens[0].value == "at" and following[:1] not in (("EQUAL",), ("PRIME",)) and following != ("LPAR", "NUMBER")


def read_event(text: str, tokens: Sequence[Token], time: str) -> EventStatement:
    """Read one statement of `text` that opens with ``at``."""
    _check_opening(text, tokens, time)
    form = _FORM.format(time)
    colon = next((i for i, token in enumerate(tokens) if token.type == "OTHER" and token.value == ":"), None)
    if colon is None:
        raise error_at(text, tokens[-1], f"':' is missing behind the time of the event; {form}")
    if colon == 3:
        raise error_at(text, tokens[colon], f"the time of the event is missing; {form}")
    if colon == len(tokens) - 1:
        raise error_at(text, tokens[colon], f"nothing stands behind ':' (on the same line); {form}")
    moment = parse(text, tokens[3:colon])
    return EventStatement(tokens[0], moment, read_assignments(text, tokens, colon, time), written(text, tokens))


def read_assignments(text: str, tokens: Sequence[Token], colon: int, time: str) -> tuple[Assignment, ...]:
    """Read what stands behind the colon of an event, token number `colon`."""
    assignments: dict[str, Assignment] = {}
    for part in _split_at_commas(tokens[colon + 1 :]):
        one = _assignment(text, part, tokens[colon], time)
        if one.target.value in assignments:
            raise error_at(text, one.target, f"the event changes '{one.target.value}' twice; keep one")
        assignments[one.target.value] = one
    return tuple(assignments.values())


def _check_opening(text: str, tokens: Sequence[Token], time: str) -> None:
    """See that the statement opens with ``at t=``."""
    first = tokens[0]
    kinds = tuple(token.type for token in tokens[1:3])
    if kinds != ("NAME", "EQUAL"):
        place = tokens[1] if len(tokens) > 1 else first
        raise error_at(text, place, f"behind 'at' the time has to come; {_FORM.format(time)}")
    name = tokens[1].value
    if name == "t" and time != "t":
        raise error_at(text, tokens[1], f"the independent variable is called '{time}' here; write at {time}=...")
    if name != time:
        raise unsupported_at(
            text, first, f"boundary conditions at {name}=... (events at a time are written at {time}=...)"
        )


def _split_at_commas(tokens: Sequence[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += (token.type == "LPAR") - (token.type == "RPAR")
        if token.type == "COMMA" and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _assignment(text: str, tokens: Sequence[Token], colon: Token, time: str) -> Assignment:
    if not tokens:
        raise error_at(text, colon, "a comma stands behind ':' or another comma; remove it")
    target = tokens[0]
    operator = "".join(token.value for token in tokens[1:3])
    width = 2
    if len(tokens) > 1 and tokens[1].type == "EQUAL":
        operator, width = "=", 1
    if target.type != "NAME" or operator not in OPERATORS:
        raise _explain_assignment(text, tokens)
    fault = fault_of_name(target.value, time)
    if fault is not None:
        raise error_at(text, target, fault)
    right = tokens[1 + width :]
    if not right:
        raise error_at(text, tokens[width], f"nothing stands on the right of '{operator}'; complete the event")
    return Assignment(target, operator, parse(text, right))


def _explain_assignment(text: str, tokens: Sequence[Token]) -> Exception:
    """Word the error for what is no assignment."""
    target, kinds = tokens[0], [token.type for token in tokens]
    if kinds[:2] == ["NAME", "PRIME"]:
        advice = f"write {target.value} = ..., or change a parameter of its equation"
        return error_at(text, tokens[1], f"an event changes values, not derivatives; {advice}")
    if kinds[:2] == ["NAME", "LPAR"]:
        return error_at(text, tokens[1], f"an event changes a name without brackets; write {target.value} = ...")
    if target.value == "stop":
        return error_at(text, target, "an event at a time cannot stop; say until = ... in the experiment")
    known = ", ".join(f"x {operator} ..." for operator in OPERATORS)
    return error_at(text, target if len(tokens) < 2 else tokens[1], f"an event does one of {known}")


def written(text: str, tokens: Sequence[Token]) -> str:
    """Return the statement on one line, without comments."""
    first, last = tokens[0], tokens[-1]
    lines = text.splitlines()
    if first.line == last.line:
        return lines[first.line - 1][first.column - 1 : last.end - 1]
    parts = []
    for number in range(first.line, last.line + 1):
        own = [token for token in tokens if token.line == number]
        if own:
            parts.append(lines[number - 1][own[0].column - 1 : own[-1].end - 1])
    return " ".join(parts)
