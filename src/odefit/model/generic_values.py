"""Expressions as rational functions, to see what holds whatever the numbers are.

An identity between rational functions that holds at a random point holds everywhere (`odefit.model.residues`).  What is
not rational in an expression is replaced by something generic,

    a < b, floor(a), sign(a), not a, ...    a number
    if(c, a, 0), abs(a)                     a times a number
    min(a, b), max(a, b)                    a and b times a number each, added
    U(a)                                    a quadratic polynomial of a
    exp(a), log(a), a^b, ...                an affine function of a and b

with new symbols for the numbers, the same ones wherever the same is written.  So no relation between such functions is
known but that equal ones are equal.  What vanishes then vanishes on every branch of a condition, for every table, and
where functions are steep or not defined; the converse need not hold, and is not claimed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import casadi as ca
import numpy as np
from casadi import SX

from odefit.model.arithmetic import add, multiply
from odefit.model.dependencies import evaluation_order, symbols_in
from odefit.model.table_calls import CALL

_NUMBERS = frozenset(
    {ca.OP_LT, ca.OP_LE, ca.OP_EQ, ca.OP_NE, ca.OP_NOT, ca.OP_AND, ca.OP_OR, ca.OP_FLOOR, ca.OP_CEIL, ca.OP_SIGN}
)
_EXTREMES = frozenset({ca.OP_FMIN, ca.OP_FMAX})
_RATIONAL = frozenset({ca.OP_ADD, ca.OP_SUB, ca.OP_MUL, ca.OP_DIV, ca.OP_NEG, ca.OP_SQ, ca.OP_TWICE, ca.OP_INV})
_binary: Any = SX.binary
_unary: Any = SX.unary


def inlined(expressions: list[SX], definitions: Mapping[str, SX], symbols: Mapping[str, SX]) -> list[SX]:
    """Return expressions with definitions, which do not need each other, put in."""
    if not definitions or not expressions:
        return expressions
    names = {symbols[name].element_hash(): name for name in definitions}
    needs = {
        name: [names[s.element_hash()] for s in symbols_in(one) if s.element_hash() in names]
        for name, one in definitions.items()
    }
    order = evaluation_order(needs)
    _, result = ca.substitute_inplace(
        [symbols[name] for name in order], [definitions[name] for name in order], expressions
    )
    return result


def generic(out: SX) -> SX:
    """Return a column of expressions with generic rational functions in the place of what is not rational."""
    symbols = symbols_in(out)
    function = ca.Function("generic", [ca.vertcat(SX(0, 1), *symbols)], [ca.densify(out)])
    keys: dict[Hashable, int] = {}
    numbers: dict[Hashable, SX] = {}

    def number(*key: Hashable) -> SX:
        return numbers.setdefault(key, SX.sym(f"number {len(numbers)}"))

    register: dict[int, tuple[SX, int, bool]] = {}  # value, key of what is written, whether it is NaN
    result = SX.zeros(out.numel())
    for k in range(function.n_instructions()):
        operation, places = function.instruction_id(k), function.instruction_input(k)
        target = function.instruction_output(k)
        if operation == ca.OP_OUTPUT:
            result[target[1]] = register[places[0]][0]
            continue
        if operation == ca.OP_CONST:
            constant = function.instruction_constant(k)
            key: Hashable = ("constant", repr(constant))
            value, lost = SX(constant), bool(np.isnan(constant))
        elif operation == ca.OP_INPUT:
            key, value, lost = ("symbol", places[1]), symbols[places[1]], False
        else:
            parts = [register[place] for place in places]
            key = (operation, *(part[1] for part in parts))
            values = [part[0] for part in parts]
            lost = any(part[2] for part in parts)
            if operation in _NUMBERS:
                value, lost = number(key), False
            elif operation == ca.OP_IF_ELSE_ZERO:
                # the branch for arguments without a value is never meant
                value, lost = (SX(0.0) if lost else multiply(number(parts[0][1], "if"), values[1])), False
            elif operation == ca.OP_FABS:
                value = multiply(number(key), values[0])
            elif operation in _EXTREMES:
                value = add(multiply(number(key, 0), values[0]), multiply(number(key, 1), values[1]))
            elif operation == CALL:
                table, argument = parts[0][1], values[1]
                slope = add(number(table, 1), multiply(number(table, 2), argument))
                value = add(values[0], multiply(slope, argument))
            elif operation not in _RATIONAL:
                value, lost = number(key), False
                for i, one in enumerate(values):
                    value = add(value, multiply(number(key, i), one))
            else:
                value = _unary(operation, *values) if len(values) == 1 else _binary(operation, *values)
        register[target[0]] = (value, keys.setdefault(key, len(keys)), lost)
    return result
