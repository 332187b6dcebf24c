"""Statements: the left side says what an equation defines.

x' = expr           differential equation
a*x' + b*y' = expr  equation in several derivatives, linear in them
x(0) = expr         initial value
name = expr         definition
algebraic x ~ expr  algebraic unknown, with a guess
0 = expr            equation for the algebraic unknowns in it

Events (``at t=5: x += 1``, ``when x > 1: x = 0``) are read by `odefit.model.event_statements` and `when_statements`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from odefit.model.diagnosis import explain_character
from odefit.model.grammar import parse
from odefit.model.linear_terms import derivatives_in, with_joined_primes
from odefit.model.names import fault_of_name
from odefit.model.nodes import Node
from odefit.model.tokens import Token, error_at, unsupported_at

Kind = Literal["derivative", "initial", "definition", "algebraic", "equation", "mass"]

_UNSUPPORTED = {
    "field": "fields over a grid",
}
_SHAPES: dict[tuple[str, ...], Kind] = {
    ("NAME", "PRIME"): "derivative",
    ("NAME", "LPAR", "NUMBER", "RPAR"): "initial",
    ("NAME",): "definition",
}


@dataclass(frozen=True, eq=False)
class Statement:
    """One equation of the text.

    Attributes
    ----------
    kind
        What it defines.
    name
        The name on the left side; the zero of an equation; the first token of an equation in several derivatives.
    right
        The right side; of an algebraic unknown the guess.
    written
        The text of an equation.
    left
        The left side of an equation in several derivatives, in which ``x'`` is a name.
    """

    kind: Kind
    name: Token
    right: Node
    written: str = ""
    left: Node | None = None

    @property
    def expressions(self) -> tuple[Node, ...]:
        """All expressions in it."""
        return (self.right,) if self.left is None else (self.left, self.right)


def read_statement(text: str, tokens: Sequence[Token], time: str) -> Statement:
    """Read one statement of `text`."""
    if tokens[0].value == "algebraic" and not _names_something(tokens):
        return _read_algebraic(text, tokens, time)
    _refuse_unsupported(text, tokens)
    split = _top_level_equal(tokens)
    if split is None:
        raise error_at(text, tokens[0], _no_equation(tokens))
    left, right = tokens[:split], tokens[split + 1 :]
    _refuse_second_equal(text, tokens[split], right)
    if [token.type for token in left] == ["NUMBER"] and float(left[0].value) == 0.0:
        return Statement("equation", left[0], parse(text, right), _written(text, tokens))
    kind = _SHAPES.get(tuple(token.type for token in left))
    if kind is None and _is_in_derivatives(left):
        return _read_in_derivatives(text, tokens, split, time)
    if kind is None or (kind == "initial" and float(left[2].value) != 0.0):
        raise _explain_left(text, tokens[split], left, time)
    fault = fault_of_name(left[0].value, time)
    if fault is not None:
        raise error_at(text, left[0], fault)
    return Statement(kind, left[0], parse(text, right), _written(text, tokens) if kind == "derivative" else "")


def _is_in_derivatives(left: Sequence[Token]) -> bool:
    """Tell whether a left side is an expression with derivatives, whatever else is wrong with it."""
    kinds = [token.type for token in left]
    if "PRIME" not in kinds or kinds[-1] in ("SIGN", "SCALE", "OTHER"):
        return False
    return kinds[0] != "NAME" or kinds[1] != "PRIME" or kinds[2] not in ("PRIME", "LPAR")


def _read_in_derivatives(text: str, tokens: Sequence[Token], split: int, time: str) -> Statement:
    """Read ``a*x' + b*y' = expr``."""
    joined = with_joined_primes(tokens[:split])
    for before, token in pairwise(joined):
        if token.type == "PRIME" and before.type == "NAME":
            name = before.value.rstrip("'")
            raise error_at(text, token, f"only first derivatives; write two equations: {name}' = v and v' = ...")
    left = parse(text, joined)
    for name, token in derivatives_in(left).items():
        fault = fault_of_name(name, time)
        if fault is not None:
            raise error_at(text, token, fault)
    return Statement("mass", joined[0], parse(text, tokens[split + 1 :]), _written(text, tokens), left)


def _read_algebraic(text: str, tokens: Sequence[Token], time: str) -> Statement:
    """Read ``algebraic x ~ guess``."""
    advice = "write algebraic x ~ 0.5, a name and a guess"
    if len(tokens) == 1 or tokens[1].type != "NAME":
        raise error_at(text, tokens[min(1, len(tokens) - 1)], f"the name of an algebraic unknown is missing; {advice}")
    name = tokens[1]
    if name.value == "field" and len(tokens) > 2 and tokens[2].type == "NAME":
        raise unsupported_at(text, name, _UNSUPPORTED["field"])
    fault = fault_of_name(name.value, time)
    if fault is not None:
        raise error_at(text, name, fault)
    if len(tokens) < 4 or tokens[2].value != "~":
        place = tokens[min(2, len(tokens) - 1)]
        raise error_at(text, place, f"an algebraic unknown has a guess, from which it is found; {advice}")
    return Statement("algebraic", name, parse(text, tokens[3:]))


def _written(text: str, tokens: Sequence[Token]) -> str:
    """Return a statement as it was written, on one line."""
    lines = text.splitlines()
    first, last = tokens[0], tokens[-1]
    if first.line == last.line:
        return lines[first.line - 1][first.column - 1 : last.end - 1]
    return " ".join(token.value for token in tokens)


def _names_something(tokens: Sequence[Token]) -> bool:
    """Tell whether a statement gives its first word a meaning, which such a word cannot have."""
    following = tuple(token.type for token in tokens[1:3])
    return following[:1] in (("EQUAL",), ("PRIME",)) or following == ("LPAR", "NUMBER")


def _refuse_unsupported(text: str, tokens: Sequence[Token]) -> None:
    first = tokens[0]
    if first.value in _UNSUPPORTED and not _names_something(tokens):
        raise unsupported_at(text, first, _UNSUPPORTED[first.value])


def _top_level_equal(tokens: Sequence[Token]) -> int | None:
    depth = 0
    for index, token in enumerate(tokens):
        if token.type == "EQUAL" and depth == 0:
            return index
        depth += (token.type == "LPAR") - (token.type == "RPAR")
    return None


def _refuse_second_equal(text: str, equal: Token, right: Sequence[Token]) -> None:
    second = _top_level_equal(right)
    if second is None or any(token.type == "OTHER" for token in right[:second]):
        return  # the parser explains a strange character better
    if right[0].line != equal.line:
        # an equals sign at the end of a line continues it, so the next statement was swallowed
        raise error_at(text, equal, "nothing stands on the right of '='; complete the equation")
    if right[second].line != equal.line:
        # the last token above the line of the second equals sign is what joined the lines
        last = [token for token in right if token.line < right[second].line][-1]
        message = f"the line ends with '{last.value}', so the next one, which has its own '=', continues it"
        raise error_at(text, last, f"{message}; complete or remove the end of this line")
    raise error_at(text, right[second], "a second '=' in one statement; to compare, use '=='")


def _no_equation(tokens: Sequence[Token]) -> str:
    first = tokens[0]
    if first.type in ("SIGN", "SCALE", "POWER", "COMPARE", "AND", "OR", "COMMA"):
        return (
            f"a statement cannot begin with '{first.value}'; to continue the line before, "
            f"end that one with '{first.value}' or put the expression in brackets"
        )
    return "this is no equation; write x' = ..., x(0) = ... or name = ..."


def _explain_left(text: str, equal: Token, left: Sequence[Token], time: str) -> Exception:
    """Word the error for a left side that is none of the three shapes."""
    if not left:
        return error_at(text, equal, "a name is missing on the left of '='")
    first, last = left[0], left[-1]
    kinds = [token.type for token in left]
    written = "".join(token.value for token in left)
    if _is_leibniz(left, time):
        return error_at(text, first, f"write {first.value[1:]}' = ... instead of {written} = ...")
    if len(left) == 2 and last.value in ("+", "-", "*", "/", ":"):
        return error_at(text, last, f"'{last.value}=' does not make a definition; write {first.value} = ...")
    strange = next((index for index, kind in enumerate(kinds) if kind == "OTHER"), None)
    if strange is not None:
        return error_at(text, left[strange], explain_character(left, strange))
    if first.type != "NAME":
        fault = fault_of_name(first.value, time) or f"'{first.value}' cannot begin a left side; write a name"
        return error_at(text, first, fault)
    if kinds[1:3] == ["PRIME", "PRIME"]:
        advice = f"write two equations: {first.value}' = v and v' = ..."
        return error_at(text, left[2], f"only first derivatives; {advice}")
    if kinds[1] == "LPAR" and last.type == "RPAR":
        advice = f"an initial value is written {first.value}(0) = ..., a definition without brackets"
        return error_at(text, left[1], f"'{written}' cannot be on the left side; {advice}")
    offender = left[2] if kinds[1] == "PRIME" else left[1]
    message = f"the left side is x', x(0) or a name; '{offender.value}' does not belong there"
    return error_at(text, offender, message)


def _is_leibniz(left: Sequence[Token], time: str) -> bool:
    """Recognise dx/dt."""
    if [token.type for token in left] != ["NAME", "SCALE", "NAME"]:
        return False
    over, slash, under = (token.value for token in left)
    return slash == "/" and len(over) > 1 and over[0] == "d" and under in (f"d{time}", "dt")
