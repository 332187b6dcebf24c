"""The operators of the language on scalar SX, safe to differentiate.

CasADi's overloaded Python operators resolve their arguments for 16 us each; `SX.binary` on two SX takes
2 us.  All arithmetic of the package therefore goes through the few functions of this module.

Powers
------
``pow(x, k)`` has the derivative ``log(x) x^k`` in `k`: NaN at x = 0, the most common initial value.  CasADi's
``constpow`` does not help, it becomes ``pow`` again as soon as the exponent is a symbol.  With both symbolic,

    x^k = pow(xs, k)   for x > 0,   xs = x there and 1 elsewhere,
        = e(x, k)      for x = 0,
        = NaN          for x < 0 and for NaN.

`e` needs the value and the x-derivatives of 0^k but no k-derivative.  It is ``pow(xe, m)`` where
m = (floor(k) + ceil(k)) / 2: m lies on the same side of 0, 1 and 2 as k, so 0^m, m 0^(m-1) and
m (m-1) 0^(m-2) are zero, one, two or infinite exactly when those of k are, and CasADi differentiates
floor and ceil to zero.  Left over are k = 0 (0 * 0^-1) and k = 1 (0 * 0^-1 in the second derivative), which
are taken apart as 1 and x.  At x = 0 then

    ======== ===== ========== ===========
    k        value d/dx       d2/dx2
    ======== ===== ========== ===========
    k > 2    0     0          0
    k = 2    0     0          2
    1<k<2    0     0          inf
    k = 1    0     1          0
    0<k<1    0     inf        -inf
    k = 0    1     0          0
    k < 0    inf   -inf       inf
    ======== ===== ========== ===========

and every derivative that involves k is 0: the limit of the first for k > 0 and of the mixed one for k > 1;
elsewhere the limit is infinite, and a finite 0 is the more useful answer for a fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import casadi as ca
from casadi import SX

from odefit.errors import ModelError

_binary: Any = SX.binary
_unary: Any = SX.unary


def _binary_operation(code: int) -> Callable[[SX, SX], SX]:
    def build(a: SX, b: SX) -> SX:
        return _binary(code, a, b)

    return build


add = _binary_operation(ca.OP_ADD)
subtract = _binary_operation(ca.OP_SUB)
multiply = _binary_operation(ca.OP_MUL)
less = _binary_operation(ca.OP_LT)
less_equal = _binary_operation(ca.OP_LE)
equal = _binary_operation(ca.OP_EQ)
not_equal = _binary_operation(ca.OP_NE)
both = _binary_operation(ca.OP_AND)
either = _binary_operation(ca.OP_OR)
_select = _binary_operation(ca.OP_IF_ELSE_ZERO)


def greater(a: SX, b: SX) -> SX:
    """Return a > b as 0 or 1."""
    return less(b, a)


def greater_equal(a: SX, b: SX) -> SX:
    """Return a >= b as 0 or 1."""
    return less_equal(b, a)


def negate(a: SX) -> SX:
    """Return -a."""
    return _unary(ca.OP_NEG, a)


def invert(a: SX) -> SX:
    """Return the logical negation of `a` as 0 or 1."""
    return _unary(ca.OP_NOT, a)


def identity(a: SX) -> SX:
    """Return +a, which is `a`."""
    return a


def divide(a: SX, b: SX) -> SX:
    """Return a / b; a constant zero divisor is refused, since CasADi makes +inf of any x/0, even of 0/0."""
    if b.is_constant() and float(b) == 0.0:
        raise ModelError("division by the constant zero; change the divisor")
    return _binary(ca.OP_DIV, a, b)


def where(condition: SX, then: SX, otherwise: SX) -> SX:
    """Return `then` where `condition` is not zero, else `otherwise`; the branch not taken may be NaN."""
    return add(_select(condition, then), _select(invert(condition), otherwise))


def power(x: SX, k: SX) -> SX:
    """Return x^k with derivatives that are right at x = 0; see the top of the module."""
    if k.is_constant() or (x.is_constant() and float(x) > 0.0):
        return _binary(ca.OP_POW, x, k)
    zero, one = SX(0.0), SX(1.0)
    positive, at_zero, linear = less(zero, x), equal(x, zero), equal(k, one)
    inside = _binary(ca.OP_POW, where(positive, x, one), k)
    needs_power = both(at_zero, both(not_equal(k, zero), invert(linear)))
    frozen = multiply(SX(0.5), add(_unary(ca.OP_FLOOR, k), _unary(ca.OP_CEIL, k)))
    edge = where(linear, x, _binary(ca.OP_POW, where(needs_power, x, one), frozen))
    # NaN times both arguments: its derivatives are NaN as well, never a plausible zero.
    total = add(x, k)
    outside = multiply(SX.nan(), multiply(total, total))
    return where(positive, inside, where(at_zero, edge, outside))


BINARY: Mapping[str, Callable[[SX, SX], SX]] = MappingProxyType(
    {
        "+": add,
        "-": subtract,
        "*": multiply,
        "/": divide,
        "^": power,
        "**": power,
        "<": less,
        "<=": less_equal,
        ">": greater,
        ">=": greater_equal,
        "==": equal,
        "!=": not_equal,
        "and": both,
        "or": either,
    }
)
UNARY: Mapping[str, Callable[[SX], SX]] = MappingProxyType({"-": negate, "+": identity, "not": invert})
