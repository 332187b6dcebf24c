"""How native code is given tables and algebraic unknowns: their places in the inputs u, and calls in expressions.

The inputs of a model that calls tables, or has algebraic unknowns, are

    u = (middle, slot 0, slot 1, .., memory 0, memory 1, ..)

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

**Algebraic unknowns.**  Behind the tables each block of unknowns has a slot: the address of the kernel that solves for
them (`odefit.native.implicit_solve`), what is remembered, and why there was no solution.  The memory of a block is the
last solution, where the next one begins.  In an expression ``CALL(slot[0], guess, .., w, .., i)`` is output i of the
kernel, see `odefit.compile.implicit_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import casadi as ca

from odefit.compile.switches import Corners, affine_in, is_switched
from odefit.compile.table_data import axes_of, corner_knots
from odefit.errors import UnsupportedError
from odefit.model.implicit import Block, is_block_symbol
from odefit.model.table_calls import call_table, calls_in, table_of_symbol, with_calls_replaced
from odefit.native import implicit_solve
from odefit.native.table_slots import MIDDLE, SLOT
from odefit.problem import Experiment, Problem
from odefit.problem.equilibration import runs_of
from odefit.problem.resolution import names_in, resolve_in_experiment, symbol_of

ORDERS = ((0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
"""Which derivative each symbol of a slot is, by first and second argument."""

DERIVATIVES = {0: (1, 2), 1: (3, 4), 2: (4, 5)}


MOST_SWITCHES = 100
"""Of a table that is called at a state, or a time which is no multiple of time plus a number: more corners are no
switches."""


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
            ends = None
            if table.kind == "linear" and table.arguments == 1:
                ends = float(axes_of(table)[0][0]), float(axes_of(table)[0][-1]), table.outside == "hold"
            corners = Corners(corners.stepwise, knots if max(map(len, knots)) <= MOST_SWITCHES else (), ends)
        shapes.append(TableShape(name, table.arguments, table.names, corners))
    return tuple(shapes)


def _switched_tables(problem: Problem) -> Iterator[str]:
    """Yield the tables that are called, somewhere, at a state or a time that is no multiple of time plus a number."""
    model = problem.model
    time, states = model.symbols[model.time], {*model.states}
    some = [e for e in runs_of(problem).all if any(isinstance(value, str) for value in e.overrides.values())]
    for experiment in (None, *some):
        conditions = (event.condition for event in model.state_events)
        parts = [
            resolve_in_experiment(problem, one, experiment)
            for one in (*model.rhs.values(), *model.coefficients, *conditions)
        ]
        for name, arguments in calls_in(ca.vertcat(*parts)):
            for argument in arguments:
                if names_in(argument) & {time.name(), *states} and affine_in(argument, time) is None:
                    yield name


def n_inputs(shapes: Sequence[TableShape], blocks: Sequence[Block] = ()) -> int:
    """Return the number of inputs that these tables and blocks of unknowns need."""
    slots = _n_slots(shapes) + len(blocks)
    return 1 + SLOT * slots + sum(memory_size(block) for block in blocks) if slots else 0


def _n_slots(shapes: Sequence[TableShape]) -> int:
    return sum(1 + len(shape.names) for shape in shapes)


def memory_size(block: Block) -> int:
    """Return how many numbers the memory of a block has."""
    return implicit_solve.memory_size(len(block.unknowns), block.n_arguments)


@dataclass(frozen=True, eq=False)
class PlacedBlock:
    """A block of unknowns, and where its slot and its memory stand in u."""

    block: Block
    slot: int
    memory: int

    def shifted(self, by: int) -> PlacedBlock:
        """Return it as it stands in inputs that begin elsewhere."""
        return PlacedBlock(self.block, self.slot + by, self.memory + by)


def placed_blocks(shapes: Sequence[TableShape], blocks: Sequence[Block]) -> tuple[PlacedBlock, ...]:
    """Return where the blocks stand behind these tables."""
    first = _n_slots(shapes)
    memory = 1 + SLOT * (first + len(blocks))
    result = []
    for number, block in enumerate(blocks, first):
        result.append(PlacedBlock(block, 1 + SLOT * number, memory))
        memory += memory_size(block)
    return tuple(result)


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
    blocks
        Those of the algebraic unknowns.
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
        blocks = problem.model.implicit
        self.blocks = placed_blocks(shapes, blocks)
        self._place_of_block = {one.block.symbol.element_hash(): one.slot for one in self.blocks}
        size = n_inputs(shapes, blocks)
        self.inputs: Any = ca.SX.sym("(input)", size) if size else ca.SX(0, 1)
        self.time_calls: dict[TimeCall, None] = {}
        self.moving_calls: dict[str, str] = {}

    def placed(self, out: Any, *, within_piece: bool = False) -> Any:
        """Return a column of expressions with slots in the place of tables; in the right-hand side `within_piece`."""
        if not self.inputs.numel():
            return out
        placed = with_calls_replaced(out, self._within_piece if within_piece else self._value)
        return ca.cse(placed) if self.blocks else placed  # equal arguments are solved for once

    def _within_piece(self, table: Any, arguments: tuple[Any, ...]) -> Any:
        if is_block_symbol(table.name()):
            return self._value(table, arguments)
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
        if is_block_symbol(table.name()):
            return call_table(self.inputs[self._place_of_block[table.element_hash()]], arguments)
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
