"""Derivatives of expressions that call tables, or have algebraic unknowns.

CasADi differentiates everything but the calls (see `odefit.model.table_calls`).  So each distinct call becomes a
variable, w_k = T_k(x_k), with arguments x_k(z, w_1, .., w_{k-1}), inner calls first, and the expression a function
F(z, w).  Then, in a direction v of z,

    dx_k = D_z x_k[v] + sum_{j<k} dx_k/dw_j dw_j,        dw_k = sum_i dT_k/dx_ki dx_ki,
    dF   = D_z F[v] + sum_k dF/dw_k dw_k,

where dT_k/dx_ki is again a look-up at the same arguments.  With all directions at once these are rows of a Jacobian.
In the end the calls are put back for the w_k.  What comes out can be differentiated again.

The outputs of a block of algebraic unknowns are several such variables with the same arguments; how they move is told
in `odefit.compile.implicit_rules`.  So are those of a right-hand side that cannot be traced: see
`odefit.compile.foreign_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import casadi as ca

from odefit.compile.foreign_rules import ForeignValue
from odefit.compile.implicit_rules import Solution, solution_key
from odefit.compile.table_inputs import DERIVATIVES, PlacedBlock
from odefit.errors import CompileError
from odefit.model.foreign import Foreign
from odefit.model.table_calls import call_table, with_calls_replaced
from odefit.native.table_slots import SLOT


class _LookUp:
    """A call of a table as a variable: which input stands for it, and its arguments in z and earlier variables."""

    def __init__(self, inputs: Any, element: int, arguments: tuple[Any, ...], name: str) -> None:
        self._inputs, self._element, self._given = inputs, element, arguments
        self.arguments: Any = ca.vertcat(*arguments)
        self.variables: Any = ca.SX.sym(name)

    def moved(self, dx: Any) -> Any:
        """Return the derivatives of the variable in directions of the arguments, which are columns."""
        return ca.horzcat(*self._slopes()) @ dx

    def _slopes(self) -> list[Any]:
        """Return the derivatives by the arguments: calls too."""
        slot, order = divmod(self._element - 1, SLOT)
        if order not in DERIVATIVES:
            raise CompileError("a derivative of third order of a table was asked for")
        elements = [1 + SLOT * slot + kind for kind in DERIVATIVES[order]]
        return [call_table(self._inputs[e], self._given) for e in elements[: len(self._given)]]

    def closed(self, expression: Any) -> Any:
        """Return an expression with the call in place of the variable."""
        return ca.substitute(expression, self.variables, call_table(self._inputs[self._element], self._given))


@dataclass
class _Opened:
    """An expression with variables in place of all distinct calls; `inputs` are the symbols of the slots."""

    inputs: Any
    out: Any = None
    calls: list[_LookUp | Solution | ForeignValue] = field(default_factory=list)

    @classmethod
    def of(cls, out: Any, inputs: Any, blocks: Sequence[PlacedBlock]) -> _Opened:
        opened = cls(inputs)
        places = {inputs[i].element_hash(): i for i in range(inputs.numel())}
        block_at = {one.slot: one.block for one in blocks}
        looked_up: dict[tuple[int, ...], _LookUp] = {}
        solved: dict[tuple[int, ...], Solution | ForeignValue] = {}

        def variable(table: Any, arguments: tuple[Any, ...]) -> Any:
            place = places[table.element_hash()]
            if place in block_at:
                key = solution_key(table, arguments)
                if key not in solved:
                    block = block_at[place]
                    given = arguments[:-1]
                    foreign = isinstance(block, Foreign)
                    solved[key] = ForeignValue(block, table, given) if foreign else Solution(block, table, given)
                    opened.calls.append(solved[key])
                return solved[key].output(int(arguments[-1]))
            key = (table.element_hash(), *(argument.element_hash() for argument in arguments))
            if key not in looked_up:
                looked_up[key] = _LookUp(inputs, place, arguments, f"w{len(looked_up)}")
                opened.calls.append(looked_up[key])
            return looked_up[key].variables

        opened.out = with_calls_replaced(out, variable)
        return opened

    def closed(self, expression: Any) -> Any:
        """Return an expression with the calls in place of their variables."""
        for call in reversed(self.calls):  # a call uses variables of earlier ones only
            expression = call.closed(expression)
        return expression


def directional(out: Any, z: Any, v: Any, inputs: Any, blocks: Sequence[PlacedBlock] = ()) -> Any:
    """Return the derivative of a column of expressions by `z` in the direction `v`."""
    opened = _Opened.of(out, inputs, blocks) if inputs.numel() else None
    if opened is None or not opened.calls:
        return ca.jtimes(out, z, v)  # forward
    variables, seeds = z, v
    for call in opened.calls:
        move = call.moved_along if isinstance(call, ForeignValue) else call.moved
        moved = move(ca.jtimes(call.arguments, variables, seeds))
        variables, seeds = ca.vertcat(variables, call.variables), ca.vertcat(seeds, moved)
    return opened.closed(ca.jtimes(opened.out, variables, seeds))


def jacobian(out: Any, z: Any, inputs: Any, options: Mapping[str, Any], blocks: Sequence[PlacedBlock] = ()) -> Any:
    """Return the sparse matrix of derivatives of a column of expressions by `z`."""
    opened = _Opened.of(out, inputs, blocks) if inputs.numel() else None
    if opened is None or not opened.calls:
        return ca.jacobian(out, z, dict(options))
    n, variables, rows = z.numel(), z, ca.SX(0, z.numel())
    for call in opened.calls:
        by_variables = ca.jacobian(call.arguments, variables, dict(options))
        by_z = by_variables[:, :n] + by_variables[:, n:] @ rows
        rows, variables = ca.vertcat(rows, call.moved(by_z)), ca.vertcat(variables, call.variables)
    whole = ca.jacobian(opened.out, variables, dict(options))
    return opened.closed(whole[:, :n] + whole[:, n:] @ rows)
