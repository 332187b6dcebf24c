"""Derivatives of a right-hand side that cannot be traced: its own outputs.

Called at (t, y, p), m numbers, for n states, the kernel (`odefit.native.foreign_differences`) returns the value f and
the matrix of its derivatives, entry (i, j) of which is output ``n + i m + j``.  In a direction dx of the arguments

    df = f_x dx,

an expression in these outputs.  Where there is one direction, or one in each lane, the kernel is given dx behind the
arguments, and its output i is df_i, which takes two calls of the function instead of two for each argument.

Neither can be differentiated again: differences of differences would be good for no more than a few digits.
"""

from __future__ import annotations

from typing import Any

import casadi as ca

from odefit.errors import UnsupportedError
from odefit.model.foreign import Foreign
from odefit.model.table_calls import call_table

_NOT_TWICE = (
    "second derivatives of a right-hand side that cannot be traced (Model.from_callable); write the equations as text, "
    "or as a function that can be traced (Model.from_function)"
)


class ForeignValue:
    """The results of a function at some arguments as variables.

    Parameters
    ----------
    slot
        The symbol that stands for the function.
    given
        t, y and p, in z and earlier variables.

    Attributes
    ----------
    arguments
        The same, as a column.
    variables
        The derivatives of the states.
    """

    def __init__(self, foreign: Foreign, slot: Any, given: tuple[Any, ...]) -> None:
        if len(given) > foreign.n_arguments:
            raise UnsupportedError(_NOT_TWICE)
        self._slot, self._given = slot, given
        self._direction: tuple[Any, ...] = ()
        self.arguments: Any = ca.vertcat(*given)
        name = foreign.symbol.name()
        self.variables: Any = ca.SX.sym(f"{name}f", len(foreign.states))
        self._along: Any = ca.SX.sym(f"{name}d", len(foreign.states))
        self._slopes: Any = ca.SX.sym(f"{name}J", len(foreign.states), foreign.n_arguments)

    def output(self, number: int) -> Any:
        """Return the variable of an output."""
        if number >= self.variables.numel():
            raise UnsupportedError(_NOT_TWICE)
        return self.variables[number]

    def moved(self, dx: Any) -> Any:
        """Return the derivatives of the variables in directions of the arguments, which are columns."""
        return self._slopes @ dx

    def moved_along(self, dx: Any) -> Any:
        """Return the derivatives of the variables in one direction of the arguments, which is told once."""
        self._direction = tuple(ca.vertsplit(ca.densify(dx)))
        return self._along

    def closed(self, expression: Any) -> Any:
        """Return an expression with calls in place of the variables and of their derivatives."""
        every = ca.vertcat(self.variables, ca.vec(self._slopes.T))  # row by row
        with_arguments = call_table(self._slot, self._given)
        calls = [call_table(with_arguments, [ca.SX(number)]) for number in range(every.numel())]
        if self._direction:
            along = call_table(with_arguments, self._direction)
            every = ca.vertcat(every, self._along)
            calls += [call_table(along, [ca.SX(number)]) for number in range(self._along.numel())]
        return ca.substitute(expression, every, ca.vertcat(*calls))
