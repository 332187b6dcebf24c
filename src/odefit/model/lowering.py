"""Syntax trees to scalar SX, with an explicit stack: depth is limited by memory only."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from casadi import SX

from odefit.errors import LanguageError, ModelError, nearest
from odefit.model.aggregates import Aggregates, is_aggregate, is_point
from odefit.model.arithmetic import BINARY, UNARY
from odefit.model.calls import function_of_call, state_at_start
from odefit.model.functions import FUNCTIONS
from odefit.model.grammar import parse
from odefit.model.names import CONSTANTS, RESERVED, initial_name
from odefit.model.nodes import Call, Name, Named, Node, Number, Operation
from odefit.model.table_calls import call_table
from odefit.model.tokens import Token, error_at, tokens, unsupported_at


@dataclass(frozen=True, eq=False)
class Namespace:
    """What the names of an expression mean.

    Attributes
    ----------
    time
        Name of the independent variable.
    states
        Names of the states.
    symbols
        Every name with its scalar symbol, also ``A(0)`` of the states.
    tables
        Names of the tables with the symbols that stand for them.
    aggregates, along
        Takes up integrals, means and extremes over time, None where there can be none; symbols of names that mean
        something else in them, where they follow events.
    """

    time: str
    states: Collection[str]
    symbols: Mapping[str, SX]
    tables: Mapping[str, SX] = field(default_factory=dict)
    aggregates: Aggregates | None = None
    along: Mapping[str, SX] = field(default_factory=dict)


def expression_from_text(text: str, namespace: Namespace) -> SX:
    """Read `text`, a single expression, in a namespace; line ends count as spaces."""
    all_tokens = [token for line in tokens(text) for token in line]
    if not all_tokens:
        raise LanguageError("an expression is needed, but the text is empty")
    return lower(text, parse(text, all_tokens), namespace)


def lower(text: str, root: Node, namespace: Namespace) -> SX:
    """Build the SX of a syntax tree of `text`."""
    pending: list[tuple[Node, bool]] = [(root, False)]
    values: list[SX] = []
    while pending:
        node, operands_done = pending.pop()
        if isinstance(node, Number):
            values.append(SX(_number(text, node.token)))
        elif isinstance(node, Name):
            values.append(_value_of_name(text, node.token, namespace))
        elif is_aggregate(node) and node.token.value not in namespace.symbols:
            values.append(_aggregate(text, node, namespace))
        elif is_point(node, namespace.time) and node.token.value in namespace.symbols:
            values.append(_aggregate(text, node, namespace))
        elif (state := state_at_start(node, namespace.states)) is not None:
            values.append(namespace.symbols[initial_name(state)])
        elif operands_done:
            first = len(values) - len(node.operands)
            values[first:] = [_apply(text, node, values[first:], namespace.tables)]
        else:
            if isinstance(node, Call):
                function_of_call(
                    text, node, time=namespace.time, states=namespace.states, values=namespace.symbols,
                    tables=namespace.tables,
                )  # fmt: skip
            pending.append((node, True))
            pending.extend((operand, False) for operand in reversed(node.operands))
    return values[0]


def _aggregate(text: str, node: Node, namespace: Namespace) -> SX:
    assert isinstance(node, Call)
    name, point = node.token.value, is_point(node, namespace.time)
    if namespace.aggregates is None:
        if point:
            raise unsupported_at(text, node.token, f"a value at a time, {name}({namespace.time}=...), here")
        advice = "write a definition in the equations, and use its name here"
        raise error_at(text, node.token, f"{name}(..., over={namespace.time}) cannot stand here; {advice}")
    time = namespace.symbols[namespace.time]
    take = namespace.aggregates.reading if point else namespace.aggregates.value
    inside = replace(namespace, symbols={**namespace.symbols, **namespace.along})
    return take(text, node, time, lambda one: lower(text, one, inside), lambda one: lower(text, one, namespace))


def _apply(text: str, node: Operation | Call | Named, arguments: list[SX], tables: Mapping[str, SX]) -> SX:
    try:
        if isinstance(node, Call):
            if node.token.value in tables:
                return call_table(tables[node.token.value], arguments)
            return FUNCTIONS[node.token.value].build(*arguments)
        if len(arguments) == 1:
            return UNARY[node.token.value](arguments[0])
        return BINARY[node.token.value](arguments[0], arguments[1])
    except ModelError as error:
        raise error_at(text, node.token, str(error)) from None


def _number(text: str, token: Token) -> float:
    value = float(token.value)
    if not math.isfinite(value):
        raise error_at(text, token, f"{token.value} is too large for a number; write inf if that is meant")
    return value


def _value_of_name(text: str, token: Token, namespace: Namespace) -> SX:
    symbol = namespace.symbols.get(token.value)
    if symbol is not None:
        return symbol
    if token.value in CONSTANTS:
        return SX(CONSTANTS[token.value])
    fault = fault_of_value(token.value, namespace.time, namespace.tables)
    if fault is not None:
        raise error_at(text, token, fault)
    hint = nearest(token.value, namespace.symbols)
    known = ", ".join(list(namespace.symbols)[:10])
    raise error_at(text, token, f"unknown name '{token.value}'{hint or f'; known names: {known}'}")


def fault_of_value(name: str, time: str, tables: Collection[str] = ()) -> str | None:
    """Say why `name` can never stand for a value, or return None."""
    if name in tables:
        return f"'{name}' is a table; write {name}({time}), or {name} of something else"
    if name in FUNCTIONS:
        return f"'{name}' is a function; write {name}(...)"
    if name == "t" and time != "t":
        return f"the independent variable is called '{time}' here; write '{time}' instead of 't'"
    if name in RESERVED and name != time and name not in CONSTANTS:
        return f"'{name}' is a reserved word and has no value"
    return None
