"""Equations and observables as collocation needs them: CasADi functions of one point in time.

States whose right side is zero (what events hold, say) change between pieces only: they are *constant*, the others
*moving*.  An algebraic unknown that is solved for inside the equations is an unknown z at each point here, and its
equations are rows.  Tables of the time are numbers at each point, and conditions in time are inputs u that are constant
within a piece (see `odefit.compile.switches`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.compile.conditions import Variant, events_of, parameters_of, split_of, stack
from odefit.compile.equation_rows import balance
from odefit.compile.switches import PIECE_LENGTH, PIECE_START, Split
from odefit.errors import UnsupportedError
from odefit.model.implicit import Block, is_block_symbol
from odefit.model.table_calls import table_of_symbol, with_calls_replaced
from odefit.problem import Problem
from odefit.problem.resolution import resolved, symbol_of
from odefit.transcribe.collocation_tables import TableValue

Indices = npt.NDArray[np.int64]

_SMALL = 1e-3
"""Positive guesses below this are those of quantities, such as the concentration of an ion, whose logarithm is the
better unknown: they range over powers of ten, and on the other side of zero there is another solution."""
_DEEP = 1_000_000  # levels of an expression that are compared
OTHERS = 'use method = "single" or "incremental"'
"""What to do where collocation cannot help."""


@dataclass(frozen=True, eq=False)
class PointFunction:
    """Functions of one point in time that need values of tables, and have algebraic unknowns.

    Attributes
    ----------
    function
        Of (t, moving, z, rates, h, constant, p, a, u, tables); the rows of `z` come last.
    guess
        First values of z, a function of the same.
    unknowns
        The rows of z, and their derivatives by z.
    n_z, tables
        Number of unknowns, and what is known of the tables.
    """

    function: Any
    guess: Any
    unknowns: Any
    n_z: int
    tables: tuple[TableValue, ...]


@dataclass(frozen=True, eq=False)
class CollocationModel:
    """The right-hand side and observables of a variant of the model.

    Attributes
    ----------
    names
        Of the entries of p.
    moving, constant
        Which of the states are unknowns at all points, and which change between pieces only.
    equations, observables
        What must be zero, with rates multiplied by the length of the element; and what is measured.
    differential, coupled
        Which rows of the equations of moving states hold derivatives; whether equations are in several derivatives.
    split, switches
        Conditions in time, and their switches as a function of (t, p, u); None if there are none.
    moments, changes, first_change, target
        Events, see `odefit.compile.events.EventFunctions`; functions of (p, a) and of (t, y, p, a).
    """

    names: tuple[str, ...]
    moving: Indices
    constant: Indices
    equations: PointFunction
    observables: PointFunction
    differential: npt.NDArray[np.bool_]
    coupled: bool
    split: Split | None
    switches: Any
    moments: Any
    changes: Any
    first_change: Indices
    target: Indices


def collocation_model(problem: Problem, variant: Variant) -> CollocationModel:
    """Return the functions of a variant, or refuse it in words."""
    model = problem.model
    if model.foreign:
        raise UnsupportedError(f"collocation with a right-hand side that is a function of numbers; {OTHERS}")
    split = split_of(problem, variant)
    if model.state_events or (split is not None and (split.borders.kind or split.on_states)):
        what = split.borders.words or split.on_states if split is not None else ()
        words = f" ({what[0]})" if what else ""
        raise UnsupportedError(f"collocation with conditions on states{words}; {OTHERS}")
    names = tuple(n for n in parameters_of(problem, variant) if n not in (PIECE_START, PIECE_LENGTH))
    p = stack(symbol_of(problem, name) for name in names)
    time, states = model.symbols[model.time], [model.symbols[name] for name in model.states]
    f, coefficients = _right_sides(problem, variant, split)
    moving = np.array([k for k in range(len(states)) if not _is_constant(model, f, k)], dtype=np.int64)
    constant = np.setdiff1d(np.arange(len(states)), moving)
    rates, length = ca.SX.sym("rate", len(states)), ca.SX.sym("h")
    rows = balance(model, f, coefficients, rates, length)
    u = split.inputs if split is not None else ca.SX(0, 1)
    a = stack(symbol_of(problem, name) for name in problem.slots.by_row)
    arguments = (
        time, stack(states[k] for k in moving), stack(rates[int(k)] for k in moving), length,
        stack(states[k] for k in constant), p, a, u,
    )  # fmt: skip
    observed = _resolved(problem, variant, [model.symbols[name] for name in problem.observables])
    is_algebraic = [name in model.mass and not model.mass[name] for name in model.states]
    events = events_of(problem, variant) if variant.events else None
    moments = changes = None
    if events is not None:
        moments, changes = (one.value for one in events.functions(time, stack(states), p))
    return CollocationModel(
        names=names,
        moving=moving,
        constant=constant,
        equations=_point_function(stack(rows[int(k)] for k in moving), arguments, _Placed(problem, variant)),
        observables=_point_function(stack(observed), arguments, _Placed(problem, variant)),
        differential=np.array([not is_algebraic[k] for k in moving], dtype=bool),
        coupled=bool(model.mass),
        split=split,
        switches=None if split is None else ca.Function("switches", [time, p, u], [ca.densify(split.switches)]),
        moments=moments,
        changes=changes,
        first_change=np.array([0] if events is None else events.first_change, dtype=np.int64),
        target=np.array([] if events is None else events.target, dtype=np.int64),
    )


def _resolved(problem: Problem, variant: Variant, expressions: list[Any]) -> list[Any]:
    """Return expressions in t, y and p, definitions inlined."""
    replacing = {name: problem.expression(text) for name, text in variant.inlined}
    return resolved(problem, expressions, replacing, keeping=variant.lifted)


def _right_sides(problem: Problem, variant: Variant, split: Split | None) -> tuple[Any, Any]:
    """Return right sides and coefficients of derivatives, conditions in time taken out."""
    model, n = problem.model, len(problem.model.states)
    if split is None:
        parts = _resolved(problem, variant, [*(model.rhs[name] for name in model.states), *model.coefficients])
    else:
        parts = ca.vertcat(split.out).elements()
        del parts[n : n + len(model.state_events)]
    return stack(parts[:n]), stack(parts[n:])


def _is_constant(model: Any, f: Any, k: int) -> bool:
    used = {name for row in model.mass.values() for name in row}
    name = model.states[k]
    return name not in model.mass and name not in used and bool(f[k].is_zero())


def _point_function(rows: Any, arguments: tuple[Any, ...], placed: _Placed) -> PointFunction:
    """Return rows as a function, with numbers and unknowns in the place of tables and of blocks of unknowns."""
    rows = with_calls_replaced(ca.vertcat(ca.SX(0, 1), rows), placed.value)
    z, tables = stack(placed.unknowns), stack(placed.symbols)
    inputs = [arguments[0], arguments[1], z, *arguments[2:], tables]
    for name in placed.names_beside(rows, inputs):
        raise UnsupportedError(f"collocation with '{name}' in the equations of this experiment; {OTHERS}")
    out = ca.densify(ca.vertcat(rows, stack(placed.rows)))
    guess = ca.Function("guess", inputs, [ca.densify(stack(placed.guesses))])
    own = ca.densify(stack(placed.rows))
    unknowns = ca.Function("unknowns", inputs, [own, ca.densify(ca.jacobian(own, z))])
    return PointFunction(
        ca.Function("rows", inputs, [out]), guess, unknowns, len(placed.unknowns), tuple(placed.tables)
    )


class _Placed:
    """What stands in the place of tables and algebraic unknowns."""

    def __init__(self, problem: Problem, variant: Variant) -> None:
        self._problem = problem
        self._time = problem.model.symbols[problem.model.time]
        self._shapes = {shape.name: shape for shape in variant.tables}
        self._blocks = {block.symbol.element_hash(): block for block in problem.model.implicit}
        self.symbols: list[Any] = []
        self.tables: list[TableValue] = []
        self._table_calls: list[tuple[str, Any, Any]] = []
        self.unknowns: list[Any] = []
        self.rows: list[Any] = []
        self.guesses: list[Any] = []
        self._calls: list[tuple[int, Any, Any]] = []

    def names_beside(self, rows: Any, inputs: Sequence[Any]) -> list[str]:
        """Return names in rows that are no inputs."""
        known = {s.element_hash() for one in inputs for s in ca.symvar(ca.vertcat(ca.SX(0, 1), one))}
        every = ca.symvar(ca.vertcat(rows, *self.rows, *self.guesses))
        return sorted(s.name() for s in every if s.element_hash() not in known)

    def value(self, called: Any, arguments: tuple[Any, ...]) -> Any:
        """Return what stands in the place of a call."""
        if is_block_symbol(called.name()):
            return self._unknown(called, arguments)
        return self._table(str(table_of_symbol(called.name())), arguments)

    def _table(self, name: str, arguments: tuple[Any, ...]) -> Any:
        argument, *others = arguments
        if others:
            raise UnsupportedError(f"collocation with the table '{name}' of two arguments; {OTHERS}")
        for known, at, value in self._table_calls:
            if known == name and ca.is_equal(at, argument, _DEEP):
                return value
        if {s.element_hash() for s in ca.symvar(argument)} - {self._time.element_hash()}:
            raise UnsupportedError(
                f"collocation with the table '{name}' of anything but the time; {OTHERS}",
            )
        shape, function = self._shapes[name], ca.Function("argument", [self._time], [argument])
        value = ca.SX(0)
        for parameter in (None, *shape.names):
            symbol = ca.SX.sym(f"{name}()")
            self.symbols.append(symbol)
            self.tables.append(TableValue(name, parameter, function, shape.corners.stepwise))
            value += symbol if parameter is None else symbol * symbol_of(self._problem, parameter)
        self._table_calls.append((name, argument, value))
        return value

    def _unknown(self, called: Any, arguments: tuple[Any, ...]) -> Any:
        block: Block = self._blocks[called.element_hash()]
        number, given = int(float(arguments[-1])), ca.vertcat(*arguments[:-1])
        k = len(block.unknowns)
        for key, known, x in self._calls:
            if key == called.element_hash() and ca.is_equal(known[k:], given[k:], _DEEP):
                return x[number]
        unknowns = ca.SX.sym(f"{called.name()}{len(self._calls)}", k)
        self.unknowns += unknowns.elements()
        parts: list[Any] = []
        for i in range(k):
            unknown, guess = unknowns[i], given[i]
            is_small = guess.is_constant() and 0.0 < float(guess) < _SMALL
            parts.append(ca.exp(unknown) if is_small else unknown)
            self.guesses.append(ca.log(guess) if is_small else guess)
        x = ca.vertcat(*parts)
        self._calls.append((called.element_hash(), given, x))
        self.rows += block.residual(x, ca.vertcat(ca.SX(0, 1), given[k:])).elements()
        return x[number]
