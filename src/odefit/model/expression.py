"""Symbolic values handed to a user's Python function.

A bare SX falls into silent traps: ``math.exp(sx)``, ``float(sx)`` and ``array[i] = sx`` give NaN.
`Expression` wraps it, offers what can be traced (operators, numpy's ufuncs, the methods that numpy looks for
in object arrays) and raises for all else, saying what to write instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import casadi as ca
import numpy as np
from casadi import SX

from odefit.errors import ModelError
from odefit.model import arithmetic
from odefit.model.functions import FUNCTIONS

_REAL = (int, float, np.integer, np.floating, np.bool_)


def constant(value: Any) -> SX:
    """Return a real number as SX; NaN is refused."""
    number = float(value)
    if math.isnan(number):
        raise ModelError("a NaN was used in an expression; check the numbers that the function computes")
    return SX(number)


def operand(value: object) -> SX | None:
    """Return the SX of an Expression or a real number, None for anything else."""
    if isinstance(value, Expression):
        return value.sx
    if isinstance(value, _REAL):
        return constant(value)
    return None


def _binary(build: Callable[[SX, SX], SX]) -> Callable[[Expression, Any], Any]:
    def method(self: Expression, other: Any) -> Any:
        right = operand(other)
        return NotImplemented if right is None else Expression(build(self.sx, right))

    return method


def _reflected(build: Callable[[SX, SX], SX]) -> Callable[[Expression, Any], Any]:
    def method(self: Expression, other: Any) -> Any:
        left = operand(other)
        return NotImplemented if left is None else Expression(build(left, self.sx))

    return method


def _unary(build: Callable[[SX], SX]) -> Callable[[Expression], Expression]:
    def method(self: Expression) -> Expression:
        return Expression(build(self.sx))

    return method


def _refusing(message: str) -> Callable[..., Any]:
    def method(self: Expression, *_: object) -> NoReturn:
        raise ModelError(message)

    return method


_NO_NUMBER = (
    "a symbolic expression has no numerical value while the model is traced: for math.exp(x) use "
    "numpy.exp(x) or odefit.exp(x), for array[i] = x use a list or an array of dtype object"
)
_NO_TRUTH = (
    "a symbolic condition is neither true nor false while the model is traced: for 'a if cond else b' use "
    "odefit.where(cond, a, b), for 'and', 'or', 'not' use '&', '|', '~', for min and max use "
    "odefit.minimum and odefit.maximum"
)
_NO_SEQUENCE = "a symbolic expression is a scalar: it has no length and cannot be iterated or unpacked"


class Expression:
    """A scalar symbolic value.

    Attributes
    ----------
    sx
        The CasADi expression.
    """

    __slots__ = ("sx",)
    sx: SX

    def __init__(self, sx: SX) -> None:
        self.sx = sx

    __add__ = _binary(arithmetic.add)
    __radd__ = _reflected(arithmetic.add)
    __sub__ = _binary(arithmetic.subtract)
    __rsub__ = _reflected(arithmetic.subtract)
    __mul__ = _binary(arithmetic.multiply)
    __rmul__ = _reflected(arithmetic.multiply)
    __truediv__ = _binary(arithmetic.divide)
    __rtruediv__ = _reflected(arithmetic.divide)
    __pow__ = _binary(arithmetic.power)
    __rpow__ = _reflected(arithmetic.power)
    __and__ = _binary(arithmetic.both)
    __rand__ = _reflected(arithmetic.both)
    __or__ = _binary(arithmetic.either)
    __ror__ = _reflected(arithmetic.either)
    __lt__ = _binary(arithmetic.less)
    __le__ = _binary(arithmetic.less_equal)
    __gt__ = _binary(arithmetic.greater)
    __ge__ = _binary(arithmetic.greater_equal)
    __eq__: Any = _binary(arithmetic.equal)
    __ne__: Any = _binary(arithmetic.not_equal)
    __hash__: Any = None
    __neg__ = _unary(arithmetic.negate)
    __pos__ = _unary(arithmetic.identity)
    __invert__ = _unary(arithmetic.invert)
    __abs__ = _unary(FUNCTIONS["abs"].build)
    __floor__ = _unary(FUNCTIONS["floor"].build)
    __ceil__ = _unary(FUNCTIONS["ceil"].build)

    __float__ = _refusing(_NO_NUMBER)
    __int__ = _refusing(_NO_NUMBER)
    __index__ = _refusing(_NO_NUMBER)
    __complex__ = _refusing(_NO_NUMBER)
    __bool__ = _refusing(_NO_TRUTH)
    __len__ = _refusing(_NO_SEQUENCE)
    __iter__ = _refusing(_NO_SEQUENCE)

    # numpy looks for these methods on the elements of object arrays
    exp = _unary(FUNCTIONS["exp"].build)
    log = _unary(FUNCTIONS["log"].build)
    log10 = _unary(FUNCTIONS["log10"].build)
    log2 = _unary(FUNCTIONS["log2"].build)
    sqrt = _unary(FUNCTIONS["sqrt"].build)
    sin = _unary(FUNCTIONS["sin"].build)
    cos = _unary(FUNCTIONS["cos"].build)
    tan = _unary(FUNCTIONS["tan"].build)
    arcsin = _unary(FUNCTIONS["asin"].build)
    arccos = _unary(FUNCTIONS["acos"].build)
    arctan = _unary(FUNCTIONS["atan"].build)
    sinh = _unary(FUNCTIONS["sinh"].build)
    cosh = _unary(FUNCTIONS["cosh"].build)
    tanh = _unary(FUNCTIONS["tanh"].build)
    fabs = _unary(FUNCTIONS["abs"].build)
    arctan2 = _binary(FUNCTIONS["atan2"].build)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        build = UFUNCS.get(ufunc.__name__)
        if build is None or method != "__call__":
            name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
            raise ModelError(f"numpy.{name} cannot be traced; express it by the functions of the language")
        out = options.pop("out", None)
        if options:
            raise ModelError(f"numpy.{ufunc.__name__} is traced without the option '{next(iter(options))}'")
        result = elementwise(build, inputs)
        if out is None:
            return result
        if out[0].dtype != object:
            raise ModelError(_NO_NUMBER)
        out[0][...] = result
        return out[0]

    def __repr__(self) -> str:
        size = ca.n_nodes(self.sx)
        return f"Expression({self.sx})" if size <= 30 else f"<Expression with {size} operations>"


def elementwise(build: Callable[..., SX], inputs: tuple[Any, ...]) -> Any:
    """Apply `build` to expressions, numbers and arrays of both.

    Returns
    -------
    Expression, or an object array of them if an input is an array
        A plain float if all inputs are numbers.
    """
    if not any(isinstance(value, np.ndarray | list | tuple) for value in inputs):
        return _scalar(build, *inputs)
    arrays = [np.asarray(value, dtype=object) for value in inputs]
    broadcast = np.broadcast(*arrays)
    result = np.empty(broadcast.shape, dtype=object)
    for index, values in zip(np.ndindex(broadcast.shape), broadcast, strict=True):
        result[index] = _scalar(build, *values)
    return result if result.ndim else result.item()


def _scalar(build: Callable[..., SX], *values: Any) -> Any:
    arguments = [operand(value) for value in values]
    for value, argument in zip(values, arguments, strict=True):
        if argument is None:
            raise ModelError(f"an expression cannot be combined with a {type(value).__name__}; use real numbers")
    result = build(*arguments)
    return Expression(result) if any(isinstance(value, Expression) for value in values) else float(result)


def _square(x: SX) -> SX:
    return arithmetic.multiply(x, x)


def _reciprocal(x: SX) -> SX:
    return arithmetic.divide(SX(1.0), x)


_SAME_NAME = ("exp", "log", "log10", "log2", "sqrt", "sign", "sin", "cos", "tan")
_SAME_NAME += ("sinh", "cosh", "tanh", "floor", "ceil")

UFUNCS: dict[str, Callable[..., SX]] = {name: FUNCTIONS[name].build for name in _SAME_NAME} | {
    "add": arithmetic.add,
    "subtract": arithmetic.subtract,
    "multiply": arithmetic.multiply,
    "divide": arithmetic.divide,
    "power": arithmetic.power,
    "float_power": arithmetic.power,
    "negative": arithmetic.negate,
    "positive": arithmetic.identity,
    "square": _square,
    "reciprocal": _reciprocal,
    "absolute": FUNCTIONS["abs"].build,
    "fabs": FUNCTIONS["abs"].build,
    "arcsin": FUNCTIONS["asin"].build,
    "arccos": FUNCTIONS["acos"].build,
    "arctan": FUNCTIONS["atan"].build,
    "arctan2": FUNCTIONS["atan2"].build,
    "maximum": FUNCTIONS["max"].build,
    "minimum": FUNCTIONS["min"].build,
    "fmax": FUNCTIONS["max"].build,
    "fmin": FUNCTIONS["min"].build,
    "less": arithmetic.less,
    "less_equal": arithmetic.less_equal,
    "greater": arithmetic.greater,
    "greater_equal": arithmetic.greater_equal,
    "equal": arithmetic.equal,
    "not_equal": arithmetic.not_equal,
    "logical_and": arithmetic.both,
    "logical_or": arithmetic.either,
    "logical_not": arithmetic.invert,
    "bitwise_and": arithmetic.both,
    "bitwise_or": arithmetic.either,
    "invert": arithmetic.invert,
}
