"""Derivatives of algebraic unknowns, by the implicit function.

For a block G(x, w) = 0 the kernel returns x and the inverse A = G_x^{-1}, entry (i, j) of which is output k + i k + j.
In a direction dw of the arguments

    dx = -A G_w dw,        dA = -A (D G_x [dx, dw]) A,

the second since A G_x = 1.  Both are expressions in the outputs x and A and the arguments w, so that derivatives of any
order follow by differentiating again, and nothing is iterated for them.  Guesses have no influence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import casadi as ca

from odefit.model.implicit import Block
from odefit.model.table_calls import call_table

_FORWARD = {"helper_options": {"enable_reverse": False}}  # a branch that is not taken must not spread


class Solution:
    """The outputs of a block at some arguments as variables.

    Parameters
    ----------
    slot
        The symbol that stands for the block.
    given
        Guesses and w, in z and earlier variables.

    Attributes
    ----------
    arguments
        w.
    """

    def __init__(self, block: Block, slot: Any, given: tuple[Any, ...]) -> None:
        k = len(block.unknowns)
        self._block, self._slot, self._k = block, slot, k
        self._given = given
        self.arguments: Any = ca.vertcat(ca.SX(0, 1), *given[k:])
        name = block.symbol.name()
        self._x: Any = ca.SX.sym(f"{name}x", k)
        self._inverse: Any = ca.SX.sym(f"{name}A", k * k)
        self._differentiates_inverse = False

    def output(self, number: int) -> Any:
        """Return the variable of an output; those of the inverse are variables from then on."""
        if number < self._k:
            return self._x[number]
        self._differentiates_inverse = True
        return self._inverse[number - self._k]

    @property
    def variables(self) -> Any:
        """The outputs that are differentiated."""
        return ca.vertcat(self._x, self._inverse) if self._differentiates_inverse else self._x

    def moved(self, dw: Any) -> Any:
        """Return the derivatives of the variables in directions of w, which are columns."""
        k, x, w = self._k, self._block.residual.sx_in()[0], self._block.residual.sx_in()[1]
        residual = self._block.residual(x, w)
        by_x, by_w = (ca.jacobian(residual, one, _FORWARD) for one in (x, w))
        formal, here = ca.vertcat(x, w), ca.vertcat(self._x, self.arguments)
        inverse = ca.reshape(self._inverse, k, k).T  # row by row
        dx = -(inverse @ (ca.substitute(by_w, formal, here) @ dw))
        if not self._differentiates_inverse:
            return dx
        columns = []
        for c in range(dw.shape[1]):
            direction = ca.SX.sym("d", formal.numel())
            bent = ca.jtimes(ca.vec(by_x), formal, direction)
            moves = ca.densify(ca.vertcat(here, dx[:, c], dw[:, c]))
            bent = ca.substitute(bent, ca.vertcat(formal, direction), moves)
            change = -(inverse @ ca.reshape(bent, k, k) @ inverse)
            columns.append(ca.vertcat(dx[:, c], ca.vec(change.T)))
        return ca.horzcat(*columns)

    def closed(self, expression: Any) -> Any:
        """Return an expression with calls in place of the variables."""
        every = ca.vertcat(self._x, self._inverse)
        with_arguments = call_table(self._slot, self._given)
        calls = [call_table(with_arguments, [ca.SX(number)]) for number in range(every.numel())]
        return ca.substitute(expression, every, ca.vertcat(*calls))


def solution_key(table: Any, arguments: Sequence[Any]) -> tuple[int, ...]:
    """Return what tells calls of a block at different arguments apart; the number of the output does not."""
    return table.element_hash(), *(argument.element_hash() for argument in arguments[:-1])
