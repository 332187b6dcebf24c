"""Events on a condition in equation text: ``when x > a: x = b``, ``when V < 2.5: stop "cut-off"``.

The event happens when its condition becomes true.  One that is true at the start does not become true there, unless
``initially false`` stands behind it: ``when x > a initially false: x = b``.
"""

from __future__ import annotations

from collections.abc import Sequence

from odefit.model.event_statements import EventStatement, read_assignments, written
from odefit.model.grammar import parse
from odefit.model.nodes import Node, Operation
from odefit.model.tokens import Token, error_at

_FORM = 'such an event is written when x > 1: x = 0, or when x > 1: stop "why"'
_LOGICAL = frozenset({"AND", "OR", "NOT", "COMPARE"})


def is_when(tokens: Sequence[Token]) -> bool:
    """Tell whether a statement opens like an event on a condition, and not like an equation of something called so."""
    following = tuple(token.type for token in tokens[1:3])
    names_something = following[:1] in (("EQUAL",), ("PRIME",)) or following == ("LPAR", "NUMBER")
    return tokens[0].value == "when" and not (names_something and not any(token.value == ":" for token in tokens))


def read_when(text: str, tokens: Sequence[Token], time: str) -> EventStatement:
    """Read one statement of `text` that opens with ``when``."""
    colon = next((i for i, token in enumerate(tokens) if token.type == "OTHER" and token.value == ":"), None)
    if colon is None:
        raise error_at(text, tokens[-1], f"':' is missing behind the condition of the event; {_FORM}")
    if colon == len(tokens) - 1:
        raise error_at(text, tokens[colon], f"nothing stands behind ':' (on the same line); {_FORM}")
    condition, initially = list(tokens[1:colon]), None
    if len(condition) >= 2 and condition[-2].value == "initially":
        if condition[-1].value != "false":
            raise error_at(
                text,
                condition[-1],
                "only 'initially false' can be said; else a condition does not become true at the start",
            )
        condition, initially = condition[:-2], False
    if not condition:
        raise error_at(text, tokens[colon], f"the condition of the event is missing; {_FORM}")
    assigned = next((token for token in condition if token.type == "EQUAL"), None)
    if assigned is not None:
        raise error_at(text, assigned, "a condition compares; write <, <=, > or >= (events at a time open with 'at')")
    cause = parse(text, condition)
    if not _is_condition(cause):
        raise error_at(text, condition[0], f"this is a number, not a condition that becomes true; {_FORM}")
    stop = _read_stop(text, tokens, colon)
    assignments = () if stop is not None else read_assignments(text, tokens, colon, time)
    return EventStatement(
        tokens[0], cause, assignments, written(text, tokens), on_condition=True, stop=stop, initially=initially
    )


def _is_condition(node: Node) -> bool:
    """Tell whether an expression is true or false."""
    return isinstance(node, Operation) and node.token.type in _LOGICAL


def _read_stop(text: str, tokens: Sequence[Token], colon: int) -> str | None:
    """Return why the event stops, "" if it does not say; None if it does something else."""
    behind = tokens[colon + 1 :]
    if behind[0].value != "stop" or (len(behind) > 1 and behind[1].type in ("EQUAL", "SIGN", "SCALE")):
        return None
    if len(behind) == 1:
        return ""
    if len(behind) > 2 or behind[1].type != "STRING":
        raise error_at(text, behind[1], 'behind stop comes nothing, or why in quotation marks: stop "cut-off"')
    return behind[1].value[1:-1]
