"""Conditions on algebraic unknowns within their own equations: there the solution has a kink or a jump."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import casadi as ca
from casadi import SX

from odefit.model.implicit import Block
from odefit.model.table_calls import CALL

_binary: Any = SX.binary
_unary: Any = SX.unary


def called_block(call: Any, blocks: Sequence[Block]) -> tuple[Block, list[SX]] | None:
    """Return the block that a call is one of, and its arguments w; None as long as it has not got all of them.

    None, too, for the call of a function of its own.
    """
    given: list[SX] = []
    while call.op() == CALL:
        given.append(call.dep(1))
        call = call.dep(0)
    block = next((one for one in blocks if one.symbol.element_hash() == call.element_hash()), None)
    if block is None:
        return None
    first, last = len(block.unknowns), len(block.unknowns) + block.n_arguments  # guesses come first
    complete = len(given) == last + 1  # behind them the number of the output
    return (block, given[::-1][first:last]) if complete else None


def conditions_inside(block: Block, arguments: list[SX], operations: Collection[int]) -> list[SX]:
    """Return what is made by one of the `operations` in the equations of a block, in its unknowns and the arguments."""
    function = block.residual
    inputs = (ca.vertcat(*(SX.sym(name) for name in block.unknowns)), ca.vertcat(SX(0, 1), *arguments))
    registers: dict[int, SX] = {}
    found: list[SX] = []
    for k in range(function.n_instructions()):
        operation, places = function.instruction_id(k), function.instruction_input(k)
        if operation == ca.OP_OUTPUT:
            continue
        if operation == ca.OP_CONST:
            value = SX(function.instruction_constant(k))
        elif operation == ca.OP_INPUT:
            value = inputs[places[0]][places[1]]
        else:
            parts = [registers[place] for place in places]
            value = _unary(operation, *parts) if len(parts) == 1 else _binary(operation, *parts)
            if operation in operations:
                found.append(value)
        registers[function.instruction_output(k)[0]] = value
    return found
