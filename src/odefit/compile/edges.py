"""Which states must keep their relative accuracy: those that a logarithm or a root of an observable depends on.

The logarithm of a state that has fallen to 1e-12 of what it was is a number like any other, and its error is the
relative one of the state.  With it goes all that feeds the state: an error of what is large becomes one of what is
small.
The tape of the observables tells which states reach an operation that has an edge at zero, the pattern of the
Jacobian which states feed these.  An algebraic unknown with such an operation in its equations is one itself.
"""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.compile.functions import NativeFunction, SymbolicFunction
from odefit.model.implicit import Block
from odefit.model.table_calls import CALL

_EDGED = frozenset([ca.OP_LOG, ca.OP_SQRT, ca.OP_POW, ca.OP_CONSTPOW])  # whole powers are no powers on the tape
_STATES, _INPUTS = 1, 3  # places of y and u among the arguments (t, y, p, u, ...)


def states_at_edges(observe: SymbolicFunction, rhs: NativeFunction, n: int) -> npt.NDArray[np.bool_]:
    """Return the states that logarithms, roots and powers in `observe` depend on, with all that feed them.

    Parameters
    ----------
    observe
        Function of (t, y, p, u, ...).
    rhs
        Its Jacobian's first `n` columns belong to y.
    """
    found = np.zeros(n, dtype=bool)
    found[list(_inside(observe))] = True
    rows = np.repeat(np.arange(n), np.diff(rhs.row_ptr))
    by_state = rhs.col < n
    rows, columns = rows[by_state], rhs.col[by_state].astype(np.int64)
    for _ in range(n if found.any() else 0):
        feeding = np.unique(columns[found[rows]])
        if found[feeding].all():
            break
        found[feeding] = True
    return found


def _has_edge(function: Any) -> bool:
    return any(function.instruction_id(k) in _EDGED for k in range(function.n_instructions()))


def _inside(observe: SymbolicFunction) -> set[int]:
    """Return the states that the operands of an operation with an edge depend on."""
    function = observe.value
    edged = {one.slot for one in observe.blocks if isinstance(one.block, Block) and _has_edge(one.block.residual)}
    depends: dict[int, frozenset[int]] = {}
    calls: dict[int, bool] = {}  # registers that stand for what is called: whether it has an edge
    inside: set[int] = set()
    for k in range(function.n_instructions()):
        operation, inputs = function.instruction_id(k), function.instruction_input(k)
        if operation == ca.OP_OUTPUT:
            continue
        target = function.instruction_output(k)[0]
        called = False
        if operation == ca.OP_INPUT:
            on = frozenset([inputs[1]] if inputs[0] == _STATES else [])
            called = inputs[0] == _INPUTS and inputs[1] in edged
        elif operation == ca.OP_CONST:
            on = frozenset()
        else:
            on = frozenset().union(*(depends[i] for i in inputs))
            called = operation == CALL and calls[inputs[0]]
            if operation in _EDGED or called:
                inside |= on
        depends[target], calls[target] = on, called
    return inside
