"""The functions of the language for Python right-hand sides: of expressions, numbers and arrays of both.

`minimum`, `maximum` and `where` stand for min, max and if, whose names Python has taken; `absolute` for abs,
which works as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odefit.errors import ModelError
from odefit.model.expression import elementwise
from odefit.model.functions import FUNCTIONS


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
