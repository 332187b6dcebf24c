"""How much of an equation G(x, w) = 0 is rounding errors: a bound, as an expression.

Every operation v = f(a, b) of the tape rounds its result, and hands on the errors of its operands, so that with unit
roundoff u a bound is

    e_v = |f_a| e_a + |f_b| e_b + 2 u |v|,

the factor 2 for functions that are not rounded correctly.  Inputs x and w are numbers like any other: their bound is 0.
"""

from __future__ import annotations

from typing import Any

import casadi as ca
from casadi import SX

_UNIT = 2.0**-53
_binary: Any = SX.binary
_unary: Any = SX.unary


def rounding_bounds(residual: Any, x: SX, w: SX) -> SX:
    """Return the bounds of the errors of a CasADi function ``(x, w) -> G``, evaluated at `x` and `w`."""
    inputs = (x, w)
    values: dict[int, SX] = {}
    errors: dict[int, SX] = {}
    bounds = SX.zeros(residual.numel_out(0))
    for k in range(residual.n_instructions()):
        operation, places = residual.instruction_id(k), residual.instruction_input(k)
        target = residual.instruction_output(k)
        if operation == ca.OP_OUTPUT:
            bounds[target[1]] = errors[places[0]]
            continue
        if operation == ca.OP_CONST:
            value, error = SX(residual.instruction_constant(k)), SX(0)
        elif operation == ca.OP_INPUT:
            value, error = inputs[places[0]][places[1]], SX(0)
        else:
            operands = [values[place] for place in places]
            value = _unary(operation, *operands) if len(operands) == 1 else _binary(operation, *operands)
            error = 2.0 * _UNIT * ca.fabs(value)
            for slope, place in zip(_slopes(operation, operands), places, strict=True):
                if not errors[place].is_zero():
                    error += ca.fabs(slope) * errors[place]
        values[target[0]], errors[target[0]] = value, error
    return bounds


def _slopes(operation: int, operands: list[SX]) -> list[SX]:
    """Return the derivatives of an operation by its operands, where these are."""
    formal = [SX.sym("a") for _ in operands]
    result = _unary(operation, *formal) if len(formal) == 1 else _binary(operation, *formal)
    every, here = ca.vertcat(*formal), ca.vertcat(*operands)
    return [ca.substitute(ca.densify(ca.jacobian(result, one)), every, here) for one in formal]
