"""The functions of the language for Python right-hand sides: of expressions, numbers and arrays of both.

`minimum`, `maximum` and `where` stand for min, max and if, whose names Python has taken; `absolute` for abs,
which works as well.  `table` stands for the tables of a problem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odefit.errors import ModelError
from odefit.model.expression import Expression, elementwise, operand
from odefit.model.functions import FUNCTIONS
from odefit.model.table_calls import MOST_ARGUMENTS, call_table, table_symbol


def _function(name: str, python_name: str | None = None) -> Callable[..., Any]:
    function = FUNCTIONS[name]

    def traced(*values: Any) -> Any:
        if not function.takes(len(values)):
            raise ModelError(f"{traced.__name__}() takes {function.arity}, but {len(values)} came")
        return elementwise(function.build, values)

    traced.__name__ = traced.__qualname__ = python_name or name
    traced.__doc__ = f"Return {name} of expressions, numbers or arrays, elementwise ({function.arity})."
    return traced


exp = _function("exp")
log = _function("log")
log10 = _function("log10")
log2 = _function("log2")
sqrt = _function("sqrt")
absolute = _function("abs", "absolute")
sign = _function("sign")
sin = _function("sin")
cos = _function("cos")
tan = _function("tan")
asin = _function("asin")
acos = _function("acos")
atan = _function("atan")
atan2 = _function("atan2")
sinh = _function("sinh")
cosh = _function("cosh")
tanh = _function("tanh")
floor = _function("floor")
ceil = _function("ceil")
erf = _function("erf")
minimum = _function("min", "minimum")
maximum = _function("max", "maximum")
where = _function("if", "where")


def table(name: str) -> Callable[..., Any]:
    """Return the table `name`, which the problem gives, as a function of one or two expressions."""

    def looked_up(*values: Any) -> Any:
        if not 1 <= len(values) <= MOST_ARGUMENTS:
            raise ModelError(f"the table {name}() takes one or two arguments, but {len(values)} came")
        arguments = [operand(value) for value in values]
        if any(argument is None for argument in arguments):
            raise ModelError(f"the table {name}() takes expressions and numbers")
        return Expression(call_table(table_symbol(name), arguments))  # pyright: ignore[reportArgumentType]

    return looked_up
