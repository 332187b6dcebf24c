"""Derivatives of expressions that call tables.

CasADi differentiates everything but the calls (see `odefit.model.table_calls`).  So each distinct call becomes a
variable, w_k = T_k(x_k), with arguments x_k(z, w_1, .., w_{k-1}), inner calls first, and the expression a function
F(z, w).  Then, in a direction v of z,

    dx_k = D_z x_k[v] + sum_{j<k} dx_k/dw_j dw_j,        dw_k = sum_i dT_k/dx_ki dx_ki,
    dF   = D_z F[v] + sum_k dF/dw_k dw_k,

where dT_k/dx_ki is again a look-up at the same arguments.  With all directions at once these are rows of a Jacobian.
In the end the calls are put back for the w_k.  What comes out can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import casadi as ca

from odefit.compile.table_inputs import DERIVATIVES
from odefit.errors import CompileError
from odefit.model.table_calls import call_table, with_calls_replaced
from odefit.native.table_slots import SLOT


@dataclass(slots=True)
class _Call:
    """A call as a variable: which input stands for it, its arguments in z and earlier variables, and the variable."""

    element: int
    arguments: tuple[Any, ...]
    variable: Any


@dataclass
class _Opened:
    """An expression with a variable in place of each distinct call; `inputs` are the symbols of the slots."""

    inputs: Any
    out: Any = None
    calls: list[_Call] = field(default_factory=list)

    @classmethod
    def of(cls, out: Any, inputs: Any) -> _Opened:
        opened = cls(inputs)
        places = {inputs[i].element_hash(): i for i in range(inputs.numel())}
        known: dict[tuple[int, ...], Any] = {}

        def variable(table: Any, arguments: tuple[Any, ...]) -> Any:
            key = (table.element_hash(), *(argument.element_hash() for argument in arguments))
            if key not in known:
                known[key] = ca.SX.sym(f"w{len(known)}")
                opened.calls.append(_Call(places[table.element_hash()], arguments, known[key]))
            return known[key]

        opened.out = with_calls_replaced(out, variable)
        return opened

    def slopes(self, call: _Call) -> list[Any]:
        """Return the derivatives of a call by its arguments: calls too."""
        slot, order = divmod(call.element - 1, SLOT)
        if order not in DERIVATIVES:
            raise CompileError("a derivative of third order of a table was asked for")
        elements = [1 + SLOT * slot + kind for kind in DERIVATIVES[order]]
        return [call_table(self.inputs[e], call.arguments) for e in elements[: len(call.arguments)]]

    def closed(self, expression: Any) -> Any:
        """Return an expression with the calls in place of their variables."""
        for call in reversed(self.calls):  # a call uses variables of earlier ones only
            value = call_table(self.inputs[call.element], call.arguments)
            expression = ca.substitute(expression, call.variable, value)
        return expression


def directional(out: Any, z: Any, v: Any, inputs: Any) -> Any:
    """Return the derivative of a column of expressions by `z` in the direction `v`."""
    opened = _Opened.of(out, inputs) if inputs.numel() else None
    if opened is None or not opened.calls:
        return ca.jtimes(out, z, v)  # forward
    variables, seeds = z, v
    for call in opened.calls:
        moved = ca.jtimes(ca.vertcat(*call.arguments), variables, seeds)
        slopes = opened.slopes(call)
        variables = ca.vertcat(variables, call.variable)
        seeds = ca.vertcat(seeds, sum((slope * moved[i] for i, slope in enumerate(slopes)), start=ca.SX(0)))
    return opened.closed(ca.jtimes(opened.out, variables, seeds))


def jacobian(out: Any, z: Any, inputs: Any, options: Mapping[str, Any]) -> Any:
    """Return the sparse matrix of derivatives of a column of expressions by `z`."""
    opened = _Opened.of(out, inputs) if inputs.numel() else None
    if opened is None or not opened.calls:
        return ca.jacobian(out, z, dict(options))
    n, variables, rows = z.numel(), z, ca.SX(0, z.numel())
    for call in opened.calls:
        by_variables = ca.jacobian(ca.vertcat(*call.arguments), variables, dict(options))
        by_z = by_variables[:, :n] + by_variables[:, n:] @ rows
        slopes = ca.horzcat(*opened.slopes(call))
        rows, variables = ca.vertcat(rows, slopes @ by_z), ca.vertcat(variables, call.variable)
    whole = ca.jacobian(opened.out, variables, dict(options))
    return opened.closed(whole[:, :n] + whole[:, n:] @ rows)
