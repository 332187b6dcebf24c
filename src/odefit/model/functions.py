"""The functions of the language: one table for equation text and for traced Python.

Every entry builds scalar SX.  log10 and log2 are log times a constant, so their derivative is c/x (infinite
at zero, as for log); min and max fold over their arguments and share the derivative equally on a tie; the
derivative of sign, floor and ceil is zero, that of abs is sign, hence zero at zero.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import casadi as ca
from casadi import SX

from odefit.model.arithmetic import add, greater, less, multiply, where

_binary: Any = SX.binary
_unary: Any = SX.unary


@dataclass(frozen=True)
class GrammarFunction:
    """A function of the language.

    Attributes
    ----------
    name
        How it is called in equation text.
    min_args, max_args
        Number of arguments; `max_args` None means any number from `min_args` on.
    build
        From scalar SX arguments to a scalar SX.
    """

    name: str
    min_args: int
    max_args: int | None
    build: Callable[..., SX]

    @property
    def arity(self) -> str:
        """The number of arguments in words."""
        if self.max_args is None:
            return f"{self.min_args} or more arguments"
        return f"{self.min_args} argument{'s' if self.min_args > 1 else ''}"

    def takes(self, count: int) -> bool:
        """Tell whether `count` arguments are allowed."""
        return self.min_args <= count and (self.max_args is None or count <= self.max_args)


def _unary_function(code: int) -> Callable[[SX], SX]:
    return lambda x: _unary(code, x)


def _scaled_log(base: float) -> Callable[[SX], SX]:
    return lambda x: multiply(SX(1.0 / math.log(base)), _unary(ca.OP_LOG, x))


def _fold(wins: Callable[[SX, SX], SX]) -> Callable[..., SX]:
    def pick(a: SX, b: SX) -> SX:
        half = SX(0.5)
        tie = add(multiply(half, a), multiply(half, b))  # also NaN if one of them is
        return where(wins(a, b), a, where(wins(b, a), b, tie))

    return lambda *values: functools.reduce(pick, values)


_ONE_ARGUMENT = {
    "exp": _unary_function(ca.OP_EXP),
    "log": _unary_function(ca.OP_LOG),
    "log10": _scaled_log(10.0),
    "log2": _scaled_log(2.0),
    "sqrt": _unary_function(ca.OP_SQRT),
    "abs": _unary_function(ca.OP_FABS),
    "sign": _unary_function(ca.OP_SIGN),
    "sin": _unary_function(ca.OP_SIN),
    "cos": _unary_function(ca.OP_COS),
    "tan": _unary_function(ca.OP_TAN),
    "asin": _unary_function(ca.OP_ASIN),
    "acos": _unary_function(ca.OP_ACOS),
    "atan": _unary_function(ca.OP_ATAN),
    "sinh": _unary_function(ca.OP_SINH),
    "cosh": _unary_function(ca.OP_COSH),
    "tanh": _unary_function(ca.OP_TANH),
    "floor": _unary_function(ca.OP_FLOOR),
    "ceil": _unary_function(ca.OP_CEIL),
    "erf": _unary_function(ca.OP_ERF),
}

FUNCTIONS: Mapping[str, GrammarFunction] = MappingProxyType(
    {name: GrammarFunction(name, 1, 1, build) for name, build in _ONE_ARGUMENT.items()}
    | {
        "atan2": GrammarFunction("atan2", 2, 2, lambda y, x: _binary(ca.OP_ATAN2, y, x)),
        "min": GrammarFunction("min", 2, None, _fold(less)),
        "max": GrammarFunction("max", 2, None, _fold(greater)),
        "if": GrammarFunction("if", 3, 3, where),
    }
)
