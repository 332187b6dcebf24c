"""Calls of tables in expressions.

A table ``U(x)`` has no formula, so that CasADi's SX has no operation for it.  (Its own calls do not serve: they are
folded to a number where the argument is one, and `substitute_inplace` does not survive them.)  A call is written with
an operation that no expression of the language makes, ``CALL(table, x)``, where `table` is a symbol that stands for the
table; with two arguments ``CALL(CALL(table, x), z)``.  Such an expression can be inlined, substituted, searched and
pickled like any other.  It must not be evaluated or differentiated by CasADi itself: `odefit.compile` places the tables
of an experiment in it, and differentiates through the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import casadi as ca
from casadi import SX

CALL = ca.OP_PRINTME
MOST_ARGUMENTS = 2
_MARK = "()"
_binary: Any = SX.binary
_unary: Any = SX.unary

Build = Callable[[SX, tuple[SX, ...]], SX]


def table_symbol(name: str) -> SX:
    """Return a symbol that stands for the table `name`."""
    return SX.sym(name + _MARK)


def table_of_symbol(name: str) -> str | None:
    """Return the table that a symbol of this name stands for; None if it is no table."""
    return name.removesuffix(_MARK) if name.endswith(_MARK) else None


def call_table(table: SX, arguments: Sequence[SX]) -> SX:
    """Return the value of a table, given by its symbol, at one or two arguments."""
    value = table
    for argument in arguments:
        value = _binary(CALL, value, argument)
    return value


def has_table(expression: Any) -> bool:
    """Tell whether a table is called in an expression, whatever symbol stands for it."""
    return has_calls(ca.Function("f", [ca.vertcat(SX(0, 1), *ca.symvar(expression))], [expression]))


def has_calls(function: Any) -> bool:
    """Tell whether a table is called on the tape of a CasADi function."""
    return any(function.instruction_id(k) == CALL for k in range(function.n_instructions()))


def with_calls_replaced(out: SX, build: Build) -> SX:
    """Return a column of expressions in which each call of a table is what ``build(table, arguments)`` makes of it."""
    if not out.numel():
        return out
    symbols = ca.symvar(out)
    stacked = ca.vertcat(*symbols) if symbols else SX(0, 1)
    function = ca.Function("expressions", [stacked], [ca.densify(out)])
    if not has_calls(function):
        return out
    register: dict[int, Any] = {}  # an expression, or a table with its arguments so far
    result = SX.zeros(out.numel())
    for k in range(function.n_instructions()):
        operation, places = function.instruction_id(k), function.instruction_input(k)
        target = function.instruction_output(k)
        if operation == ca.OP_OUTPUT:
            result[target[1]] = _value(register[places[0]], build)
        elif operation == ca.OP_CONST:
            register[target[0]] = SX(function.instruction_constant(k))
        elif operation == ca.OP_INPUT:
            register[target[0]] = symbols[places[1]]
        elif operation == CALL:
            table = register[places[0]]
            table, before = table if isinstance(table, tuple) else (table, ())
            register[target[0]] = (table, (*before, _value(register[places[1]], build)))
        else:
            parts = [_value(register[i], build) for i in places]
            register[target[0]] = _unary(operation, *parts) if len(parts) == 1 else _binary(operation, *parts)
    return result


def _value(entry: Any, build: Build) -> SX:
    return build(*entry) if isinstance(entry, tuple) else entry


def calls_in(out: SX) -> list[tuple[str, tuple[SX, ...]]]:
    """Return name and arguments of every call of a table in a column of expressions, inner ones first."""
    found: list[tuple[str, tuple[SX, ...]]] = []

    def note(table: SX, arguments: tuple[SX, ...]) -> SX:
        name = table_of_symbol(table.name())
        if name is not None:  # not a block of algebraic unknowns
            found.append((name, arguments))
        return call_table(table, arguments)

    with_calls_replaced(out, note)
    return found
