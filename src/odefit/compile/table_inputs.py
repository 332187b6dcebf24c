"""How native code is given tables: their places in the inputs u, and calls of them in expressions.

The inputs of a model that calls tables are

    u = (middle, slot 0, slot 1, ..)

*Middle* is a time within the piece that is integrated: a table of kind "hold" does not change within a piece, so the
right-hand side asks for it there, and the end of a piece belongs to the piece before it.  A *slot* of `SLOT` numbers is
one table: the address of its data (see `odefit.compile.table_data`), what a look-up remembers from call to call (the
interval it found, for each argument), and the arguments of a look-up that was refused.  So nothing of a table but the
names of parameters in it is compiled, and each task has its own memory.

In an expression a slot is a group of symbols, one for each derivative that a look-up returns: ``CALL(slot[0], x)`` is
the value, ``CALL(slot[1], x)`` its derivative by x; `DERIVATIVES` says which symbol is the derivative of which.

**Parameters as values.**  Interpolation (but for pchip) is linear in the values, so a table with the parameters v_i
among its values is

    U(x) = B_0(x) + sum_i v_i B_i(x),

where B_0 interpolates the numbers, with 0 for the parameters, and B_i interpolates 1 where v_i stands and 0 elsewhere.
Each B is a table of numbers with a slot of its own, and derivatives by the v_i are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import casadi as ca

from odefit.compile.switches import Corners, affine_in, is_switched
from odefit.compile.table_data import corner_knots
from odefit.errors import UnsupportedError
from odefit.model.table_calls import call_table, calls_in, table_of_symbol, with_calls_replaced
from odefit.native.table_slots import MIDDLE, SLOT
from odefit.problem import Experiment, Problem
from odefit.problem.equilibration import runs_of
from odefit.problem.resolution import names_in, resolve_in_experiment, symbol_of

ORDERS = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
"""Which derivative each symbol of a slot is, by first and second argument."""

DERIVATIVES = {0: (1, 2), 1: (3, 4), 2: (4, 5)}


MOST_SWITCHES = 100
"""Of a table that is called at a time which is no multiple of time plus a number: more corners are not switches."""


class TableShape(NamedTuple):
    """What code depends on of a table: name, number of arguments, parameters among its values, where it has corners."""

    name: str
    arguments: int
    names: tuple[str, ...]
    corners: Corners


class TimeCall(NamedTuple):
    """A call of the right-hand side whose argument number `place` is ``shift + rate t``."""

    name: str
    place: int
    shift: float
    rate: float


def shapes_of(problem: Problem, experiment: Experiment) -> tuple[TableShape, ...]:
    """Return the shapes of all tables of an experiment."""
    names = dict.fromkeys((*problem.tables, *experiment.tables))
    if not names:
        return ()
    switched = problem.structure.kept.get("switched tables", lambda: frozenset(_switched_tables(problem)))
    shapes = []
    for name in sorted(names):
        table = problem.table(name, experiment)
        corners = Corners(table.kind == "hold")
        if name in switched:
            knots = corner_knots(table)
            corners = Corners(corners.stepwise, knots if max(map(len, knots)) <= MOST_SWITCHES else ())
        shapes.append(TableShape(name, table.arguments, table.names, corners))
    return tuple(shapes)


def _switched_tables(problem: Problem) -> Iterator[str]:
    """Yield the tables that are called, somewhere, at a time that is no multiple of time plus a number."""
    model = problem.model
    time, states = model.symbols[model.time], {*model.states}
    some = [e for e in runs_of(problem).all if any(isinstance(value, str) for value in e.overrides.values())]
    for experiment in (None, *some):
        rhs = [resolve_in_experiment(problem, one, experiment) for one in model.rhs.values()]
        for name, arguments in calls_in(ca.vertcat(*rhs)):
            for argument in arguments:
                symbols = names_in(argument)
                if time.name() in symbols and not symbols & states and affine_in(argument, time) is None:
                    yield name


def n_inputs(shapes: Sequence[TableShape]) -> int:
    """Return the number of inputs that these tables need."""
    slots = sum(1 + len(shape.names) for shape in shapes)
    return 1 + SLOT * slots if slots else 0


def first_slots(shapes: Sequence[TableShape]) -> dict[str, int]:
    """Return the first slot of each table: that of its numbers, followed by one for each parameter."""
    result, at = {}, 0
    for shape in shapes:
        result[shape.name] = at
        at += 1 + len(shape.names)
    return result


class PlacedTables:
    """Puts the slots of an experiment's tables into expressions.

    Attributes
    ----------
    inputs
        The symbols u.
    time_calls
        Calls of tables with an argument that depends on time alone, of expressions placed `within_piece`.
    moving_calls
        Texts of further calls whose argument changes along the trajectory, of tables with steps or corners.
    """

    def __init__(self, problem: Problem, shapes: Sequence[TableShape]) -> None:
        self._problem = problem
        self._shapes = {shape.name: shape for shape in shapes}
        self._first = first_slots(shapes)
        self._time = problem.model.symbols[problem.model.time]
        self.inputs: Any = ca.SX.sym("(input)", n_inputs(shapes)) if shapes else ca.SX(0, 1)
        self.time_calls: dict[TimeCall, None] = {}
        self.moving_calls: dict[str, str] = {}

    def placed(self, out: Any, *, within_piece: bool = False) -> Any:
        """Return a column of expressions with slots in the place of tables; in the right-hand side `within_piece`."""
        if not self._shapes:
            return out
        return with_calls_replaced(out, self._within_piece if within_piece else self._value)

    def _within_piece(self, table: Any, arguments: tuple[Any, ...]) -> Any:
        name = str(table_of_symbol(table.name()))
        symbols = {symbol.name() for symbol in ca.symvar(ca.vertcat(*arguments))}
        if self._time.name() in symbols or symbols & {*self._problem.model.states}:
            arguments = tuple(self._noted(name, place, argument) for place, argument in enumerate(arguments))
        return self._value(table, arguments)

    def _noted(self, name: str, place: int, argument: Any) -> Any:
        """Note where the argument of a call in the right-hand side meets knots; return what to call instead."""
        symbols, time = {symbol.name() for symbol in ca.symvar(argument)}, self._time
        corners = self._shapes[name].corners
        if time.name() not in symbols and not symbols & {*self._problem.model.states}:
            return argument
        affine = affine_in(argument, time)
        if affine is not None:
            self.time_calls[TimeCall(name, place, *affine)] = None
            return ca.substitute(argument, time, self.inputs[MIDDLE]) if corners.stepwise else argument
        of_states = symbols & {*self._problem.model.states}
        if not of_states and is_switched(argument, time, corners):
            return argument
        text = f"{name}({_text(argument)})"
        if corners.stepwise and not of_states:
            raise UnsupportedError(
                f"the table {text} of kind 'hold' whose argument is not a multiple of '{time.name()}' plus a number, "
                f"with another table in it or more than {MOST_SWITCHES} steps"
            )
        self.moving_calls[text] = name
        return argument

    def _value(self, table: Any, arguments: tuple[Any, ...]) -> Any:
        name = str(table_of_symbol(table.name()))
        shape, at = self._shapes[name], 1 + SLOT * self._first[name]
        value = call_table(self.inputs[at], arguments)
        for i, parameter in enumerate(shape.names):
            basis = call_table(self.inputs[at + SLOT * (i + 1)], arguments)
            value += symbol_of(self._problem, parameter) * basis
        return value


def _text(expression: Any) -> str:
    text = str(expression)
    text = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    return text if len(text) <= 40 else text[:37] + "..."
