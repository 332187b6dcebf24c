"""What a name with brackets means.

`f(...)` is a function of the language, a table, a construct that is not built yet (a value at a point, an aggregate,
a space derivative), or a mistake; this module tells which, and words the last two.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

from odefit.errors import nearest
from odefit.model.aggregates import is_point
from odefit.model.functions import FUNCTIONS, GrammarFunction
from odefit.model.nodes import Call, Name, Named, Node, Number
from odefit.model.table_calls import MOST_ARGUMENTS
from odefit.model.tokens import error_at, unsupported_at

_OTHER_SPELLINGS = {
    "ln": "log",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "fabs": "abs",
    "minimum": "min",
    "maximum": "max",
    "ifelse": "if",
    "where": "if",
    "piecewise": "if",
    "sgn": "sign",
    "pow": "x^y",
    "power": "x^y",
    "square": "x^2",
}


def function_of_call(
    text: str,
    call: Call,
    *,
    time: str,
    states: Collection[str],
    values: Collection[str],
    tables: Collection[str] | None = None,
) -> GrammarFunction | None:
    """Return the function that `call` means, None for a table, or raise the error that explains why there is neither.

    Parameters
    ----------
    text
        The whole text, for the message.
    call
        The call.
    time
        Name of the independent variable.
    states
        Names of the states.
    values
        Names used without brackets anywhere in the model: a bracket after one is a forgotten '*'.
    tables
        Names of the tables; None: not known yet, what can be a table is one.
    """
    name, arguments = call.token.value, call.operands
    named = [argument for argument in arguments if isinstance(argument, Named)]
    function = FUNCTIONS.get(name)
    if function is not None:
        if named:
            raise error_at(text, named[0].equal, "'=' inside an expression; to compare, use '=='")
        if not function.takes(len(arguments)):
            raise error_at(text, call.token, f"{name}() takes {function.arity}, but {len(arguments)} came")
        return function
    if tables is not None and name in tables:
        _check_table_call(text, call, named)
        return None
    if is_point(call, time):
        hint = nearest(name, (*states, *values))
        raise error_at(text, call.token, f"'{name}' is no state and no definition, so it has no value at a time{hint}")
    _refuse_unsupported(text, call, named, values)
    mistake = _mistake(text, call, time, states, values, tables)
    if mistake is not None:
        raise mistake
    _check_table_call(text, call, named)
    return None


def _check_table_call(text: str, call: Call, named: list[Named]) -> None:
    name, count = call.token.value, len(call.operands)
    if named:
        raise error_at(text, named[0].equal, "'=' inside an expression; to compare, use '=='")
    if count > MOST_ARGUMENTS:
        raise error_at(text, call.token, f"the table {name}() takes one or two arguments, but {count} came")


def _refuse_unsupported(text: str, call: Call, named: list[Named], values: Collection[str]) -> None:
    """Raise UnsupportedError for the constructs that have their own form."""
    name, count = call.token.value, len(call.operands)
    if named and count == 1:
        raise unsupported_at(text, call.token, f"values at a point such as {name}({named[0].token.value}=...)")
    if (name == "d" and count == 2) or (name == "div" and name not in values):
        raise unsupported_at(text, call.token, f"space derivatives such as {name}(u, r)")


def _mistake(
    text: str, call: Call, time: str, states: Collection[str], values: Collection[str], tables: Collection[str] | None
) -> Exception | None:
    """Tell a forgotten '*', a misspelt function and a table (None) apart."""
    name, arguments = call.token.value, call.operands
    only = arguments[0] if len(arguments) == 1 else None
    if name in states and only is not None:
        if _is_name(only, time):
            return error_at(text, call.token, f"'{name}' is a state; write '{name}', without '({time})'")
    if name in states or name in values:
        return error_at(text, call.bracket, f"an operator is missing: for a product write '{name}*('")
    suggestion = _similar_function(name)
    if suggestion:
        return error_at(text, call.token, f"there is no function '{name}'; did you mean '{suggestion}'?")
    if tables is not None:
        hint = nearest(name, tables) or f"; give it as [tables.{name}], or write one of {_listed()}"
        return error_at(text, call.token, f"there is no function and no table '{name}'{hint}")
    if len(arguments) not in (1, 2):
        return error_at(text, call.token, f"there is no function '{name}'; the functions are {_listed()}")
    apart = call.bracket.line != call.token.line or call.bracket.column != call.token.end
    if apart and only is not None and not isinstance(only, Name | Number):
        return error_at(text, call.bracket, f"an operator is missing: for a product write '{name}*('")
    return None


def state_at_start(node: Node, states: Collection[str]) -> str | None:
    """Return A for the call ``A(0)``, the initial value of a state, None for anything else."""
    if not isinstance(node, Call) or node.token.value not in states or len(node.operands) != 1:
        return None
    only = node.operands[0]
    return node.token.value if isinstance(only, Number) and float(only.token.value) == 0.0 else None


def _is_name(node: Node, name: str) -> bool:
    return isinstance(node, Name) and node.token.value == name


def _similar_function(name: str) -> str | None:
    """Find the function that was meant; stricter than `nearest`, since a table may be called Tin or cool."""
    lowered = name.lower()
    if lowered in _OTHER_SPELLINGS:
        return _OTHER_SPELLINGS[lowered]
    matches = difflib.get_close_matches(lowered, list(FUNCTIONS), n=1, cutoff=0.75)
    return matches[0] if matches else None


def _listed() -> str:
    return ", ".join(FUNCTIONS)
