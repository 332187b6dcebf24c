"""Conditions in time: from a right-hand side with jumps to one that is smooth within a *piece*.

No step may cross a jump of the right-hand side.  A comparison of two expressions of time and parameters,
``t >= lag`` say, changes only where g = t - lag is zero.  So every such comparison is taken out of the expressions and
becomes an *input* u, a number that is constant within a piece; what is left, f(t, y, p, u), is smooth there.  The
*switches* g(t, p, u) tell where pieces end: at their zeros.

    t < s, t <= s, ..        u = 0 or 1                      g = t - s, zeros
    sign(x)                  u                               g = x, zeros
    abs(x)                   u x with u = sign(x)            g = x, zeros
    fmin(a, b), fmax(a, b)   a where u, else b               g = a - b, zeros
    floor(x), ceil(x)        u                               g = x, whole numbers
    fmod(a, b)               a - b u with u = trunc(a/b)     g = a/b, whole numbers

A switch may depend on inputs: in ``t - 24*floor(t/24) < 8`` the floor is the input of *level* 1, the comparison one of
level 2.  Given the inputs of lower levels, it is smooth again.  ``and``, ``or``, ``not`` and what depends on inputs
alone need nothing: they are constant within a piece.

**Moving ends.**  Where switches depend on parameters, so do the ends of the pieces.  A piece [a, a + L] is then
integrated in the fraction s of it, 0 <= s <= 1, t = a + L s,

    dy/ds = F(s, y, (p, a, L), u) = L f(a + L s, y, p, u),

where a and L are two more parameters with derivatives of their own.  Nothing else is needed for exact derivatives of
the discrete solution: with frozen steps in s the steps in t stretch with their piece, and every method differentiates F
by its parameters.  The directions at the end of a piece are the total derivatives d/dtheta y(tau(theta), theta), which
are continuous: there is no jump to be added.  (`odefit.integrate.moving_output` has what this means for output.)

**Tables.**  A table of kind "hold" is constant within a piece if pieces end at its knots; it may stand in conditions.
Where its argument is a multiple of time plus a number, the knots are times that are known (see
`odefit.compile.experiment_tables`).  Any other argument x of time and parameters, ``t - lag`` or ``t - 24*floor(t/24)``
say, has a comparison ``x >= k`` for each knot k, an input like all others, and the table is asked for the last knot
whose comparison is true: in a piece of length zero too, this is what the order of times says.  Corners of other tables
end pieces in the same way.

What depends on states is left as it is; `Split.on_states` names where it jumps.  So is a comparison that changes at no
time behind the beginning: ``if(r > 0, sin(r)/r, 1)`` says what holds at r = 0 itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import casadi as ca

from odefit.compile.implicit_conditions import called_block, conditions_inside
from odefit.compile.switch_kinds import (
    CEIL,
    EQUAL,
    FLOOR,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    MINUS_SIGN,
    SIGN,
    TRUNCATE,
    UNEQUAL,
)
from odefit.errors import UnsupportedError
from odefit.model.implicit import Block, is_block_symbol, unknowns_of_symbol
from odefit.model.table_calls import CALL, call_table, has_table, table_of_symbol, with_calls_replaced

PIECE_START, PIECE_LENGTH = "(start of the piece)", "(length of the piece)"
"""Names of the two entries of p, the last ones, that kernels fill for pieces with moving ends."""

_COMPARED = {ca.OP_LT: LESS, ca.OP_LE: LESS_EQUAL, ca.OP_EQ: EQUAL, ca.OP_NE: UNEQUAL}
_SWAPPED = {
    LESS: GREATER, GREATER: LESS, LESS_EQUAL: GREATER_EQUAL, GREATER_EQUAL: LESS_EQUAL, EQUAL: EQUAL, UNEQUAL: UNEQUAL,
    SIGN: MINUS_SIGN,
}  # fmt: skip
_ROUNDED = {ca.OP_FLOOR: FLOOR, ca.OP_CEIL: CEIL}
_EXTREMES = {ca.OP_FMIN: LESS_EQUAL, ca.OP_FMAX: GREATER_EQUAL}
_CONTINUOUS = frozenset([*_EXTREMES, ca.OP_FABS])
_NOT_SMOOTH = frozenset(
    [*_COMPARED, *_ROUNDED, *_EXTREMES, ca.OP_SIGN, ca.OP_FABS, ca.OP_FMOD, ca.OP_COPYSIGN]
)  # fmt: skip
_DEEP = 1_000_000  # levels of an expression that are compared
_binary: Any = ca.SX.binary
_unary: Any = ca.SX.unary


class Corners(NamedTuple):
    """Where a table is not smooth.

    `stepwise`: it is constant between two knots.  `knots`: those of each argument, the first one first if it is
    stepwise; empty if its arguments are states, or multiples of time plus a number.
    """

    stepwise: bool
    knots: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, eq=False)
class Split:
    """A right-hand side whose conditions in time are inputs.

    Attributes
    ----------
    out, inputs
        The right-hand side, and the symbols u in it, both columns.
    switches
        The g, a column; functions of t, p and u.
    level, affine, whole
        Per switch: its level, whether it is affine in t, whether whole numbers count and not only zero.
    switch_of, kind
        Per input: its switch, and what it is of it.
    on_states
        Conditions on states, and tables of them with steps, as text; not `min`, `max` and `abs`, which are continuous.
    """

    out: Any
    inputs: Any
    switches: Any
    level: tuple[int, ...]
    affine: tuple[bool, ...]
    whole: tuple[bool, ...]
    switch_of: tuple[int, ...]
    kind: tuple[int, ...]
    on_states: tuple[str, ...]

    def depends_on_parameters(self, time: Any) -> bool:
        """Tell whether a switch depends on more than time and inputs: then its times may move."""
        known = {time.name(), *(self.inputs[j].name() for j in range(self.inputs.numel()))}
        return bool({symbol.name() for symbol in ca.symvar(self.switches)} - known)


@dataclass(slots=True)
class _Value:
    """A register of the tape: its expression, what it depends on, and the highest level of its inputs."""

    expression: Any
    of_time: bool = False
    of_states: bool = False
    level: int = 0


def smooth(out: Any) -> Split:
    """Return a right-hand side without conditions in time, which ends its pieces for other reasons."""
    nothing = ca.SX(0, 1)
    return Split(out, nothing, nothing, (), (), (), (), (), ())


def split_at_conditions(
    out: Any,
    time: Any,
    states: Any,
    begin: float = -math.inf,
    tables: Mapping[str, Corners] | None = None,
    held: Collection[str] = (),
    blocks: Sequence[Block] = (),
) -> Split | None:
    """Take the conditions in `time` out of a right-hand side; None if all of it is smooth.

    It may call `tables`, and `blocks` of algebraic unknowns.  Conditions that change at no time behind `begin` stay.
    States that are `held` change between pieces only.
    """
    others = [symbol for symbol in ca.symvar(ca.vertcat(out, time, states)) if symbol.name() != time.name()]
    state_names = {states[i].name() for i in range(states.numel())}
    parameters = [symbol for symbol in others if symbol.name() not in state_names]
    function = ca.Function("f", [time, states, ca.vertcat(*parameters)], [ca.densify(out)])
    operations = [function.instruction_id(k) for k in range(function.n_instructions())]
    if not (_NOT_SMOOTH | {CALL}).intersection(operations):
        return None
    names = {time.name(), *(symbol.name() for symbol in others)}
    walk = _Walk((time, states, ca.vertcat(*parameters)), names, begin, tables or {}, held, blocks)
    return walk.split(function, operations)


class _Walk:
    """The walk along the tape of a right-hand side, in which it is built again with inputs."""

    def __init__(
        self,
        arguments: tuple[Any, Any, Any],
        names: Collection[str],
        begin: float,
        tables: Mapping[str, Corners],
        held: Collection[str],
        blocks: Sequence[Block],
    ) -> None:
        self._time, self._names, self._begin, self._tables = arguments[0], set(names), begin, tables
        self._held, self._blocks = frozenset(held), blocks
        self._arguments = arguments
        self._pairs: list[tuple[Any, Any]] = []  # switches g = a - b
        self._level: list[int] = []
        self._whole: list[bool] = []
        self._inputs: list[Any] = []
        self._switch_of: list[int] = []
        self._kind: list[int] = []
        self._on_states: dict[str, None] = {}

    def split(self, function: Any, operations: list[int]) -> Split:
        """Return what the tape comes to."""
        register: dict[int, _Value] = {}
        out = ca.SX.zeros(function.numel_out(0))
        for k, operation in enumerate(operations):
            places, result = function.instruction_input(k), function.instruction_output(k)
            if operation == ca.OP_OUTPUT:
                out[result[1]] = register[places[0]].expression
            elif operation == ca.OP_CONST:
                register[result[0]] = _Value(ca.SX(function.instruction_constant(k)))
            elif operation == ca.OP_INPUT:
                symbol = self._arguments[places[0]][places[1]]
                of_states = places[0] == 1 and symbol.name() not in self._held
                register[result[0]] = _Value(symbol, of_time=places[0] == 0, of_states=of_states)
            else:
                register[result[0]] = self._apply(operation, [register[i] for i in places])
        switches = [a - b for a, b in self._pairs]
        slopes = [ca.jtimes(g, self._time, ca.SX(1)) for g in switches]
        return Split(
            out=out,
            inputs=ca.vertcat(*self._inputs) if self._inputs else ca.SX(0, 1),
            switches=ca.vertcat(*switches) if switches else ca.SX(0, 1),
            level=tuple(self._level),
            affine=tuple(not ca.depends_on(slope, self._time) for slope in slopes),
            whole=tuple(self._whole),
            switch_of=tuple(self._switch_of),
            kind=tuple(self._kind),
            on_states=tuple(self._on_states),
        )

    def _apply(self, operation: int, operands: list[_Value]) -> _Value:
        """Return the value of an operation; one that is not smooth in time alone gets an input."""
        if operation == CALL:
            return self._call(*operands)
        parts = [operand.expression for operand in operands]
        plain = _unary(operation, parts[0]) if len(parts) == 1 else _binary(operation, parts[0], parts[1])
        of_time, of_states = any(o.of_time for o in operands), any(o.of_states for o in operands)
        level = max(o.level for o in operands)
        if operation not in _NOT_SMOOTH or not (of_time or of_states):
            return _Value(plain, of_time, of_states, level)
        if of_states:
            if operation not in _CONTINUOUS:
                self._on_states[self._words(plain)] = None
            return _Value(plain, of_time, of_states, level)
        if operation not in _ROUNDED and self._is_settled(parts):
            return _Value(plain, of_time, of_states, level)
        if has_table(ca.vertcat(*parts)):
            if operation in _CONTINUOUS:
                return _Value(plain, of_time, of_states, level)
            raise UnsupportedError(f"a condition in time, or min and max, that depends on {_called_in(parts)}")
        return self._with_input(operation, parts, _text(plain), level)

    def _is_settled(self, parts: list[Any]) -> bool:
        """Tell whether a difference of numbers and of time changes its sign at no time behind the beginning."""
        difference = parts[0] - (parts[1] if len(parts) == 2 else 0)
        if {symbol.name() for symbol in ca.symvar(difference)} != {self._time.name()}:
            return False
        found = affine_in(difference, self._time)
        return found is not None and -found[0] / found[1] <= self._begin

    def _call(self, table: _Value, argument: _Value) -> _Value:
        """Return the call of a table; at a time that is no known one its corners end pieces."""
        x, level = argument.expression, max(table.level, argument.level)
        if _is_unknown(table.expression):
            value = _Value(
                call_table(table.expression, (x,)),
                table.of_time or argument.of_time, table.of_states or argument.of_states, level,
            )  # fmt: skip
            self._look_inside(value)
            return value
        name, place = _called(table.expression)
        corners = self._tables.get(name, Corners(False))
        of_time, of_states = argument.of_time, table.of_states or argument.of_states
        if argument.of_states:
            if corners.stepwise:
                self._on_states[f"{name}({_text(x)}) of kind 'hold'"] = None
        elif argument.of_time and is_switched(x, self._time, corners):
            knots = [ca.SX(knot) for knot in corners.knots[place]]
            inputs = [
                self._input(x, knot, GREATER_EQUAL, f"{_text(x)} >= {knot}", level)
                for knot in (knots[1:] if corners.stepwise else knots)
            ]
            level += 1
            if corners.stepwise:
                x = _held(x, knots, inputs)
        constant = corners.stepwise and not argument.of_states
        return _Value(call_table(table.expression, (x,)), table.of_time or (of_time and not constant), of_states, level)

    def _look_inside(self, unknown: _Value) -> None:
        """Note the conditions on an unknown in its own equations, if it depends on states; with time alone, refuse."""
        called = called_block(unknown.expression, self._blocks) if unknown.of_states or unknown.of_time else None
        for condition in conditions_inside(*called, _NOT_SMOOTH - _CONTINUOUS) if called else ():
            if not unknown.of_states:
                raise UnsupportedError(
                    f"a condition on an algebraic unknown that changes with time alone ('{_text(condition)}' in its "
                    "equation)"
                )
            self._on_states[self._words(condition)] = None

    def _words(self, condition: Any) -> str:
        """Return a condition as text; of one that is too long for that, the states in it."""
        text = _text(condition)
        if "@" not in text:
            return text
        states = self._arguments[1]
        names = {symbol.name() for symbol in ca.symvar(condition)}
        return "a condition on " + ", ".join(n for i in range(states.numel()) if (n := states[i].name()) in names)

    def _with_input(self, operation: int, parts: list[Any], name: str, level: int) -> _Value:
        """Return an operation on time and parameters that is not smooth, by means of an input."""
        x, zero = parts[0], ca.SX(0)
        if operation in _COMPARED:
            u = self._input(x, parts[1], _COMPARED[operation], name, level)
            return _Value(u != 0, level=level + 1)  # a condition, which selects
        if operation == ca.OP_SIGN:
            return _Value(self._input(x, zero, SIGN, name, level), level=level + 1)
        if operation in _ROUNDED:
            return _Value(self._input(x, zero, _ROUNDED[operation], name, level), level=level + 1)
        if operation == ca.OP_FABS:
            return _Value(self._input(x, zero, SIGN, f"sign({_text(x)})", level) * x, True, level=level + 1)
        if operation == ca.OP_FMOD:
            u = self._input(x / parts[1], zero, TRUNCATE, f"trunc({_text(x / parts[1])})", level)
            return _Value(x - parts[1] * u, True, level=level + 1)
        if operation == ca.OP_COPYSIGN:
            size = self._input(x, zero, SIGN, f"sign({_text(x)})", level) * x
            sign = self._input(parts[1], zero, SIGN, f"sign({_text(parts[1])})", level)
            return _Value(size * sign, True, level=level + 1)
        u = self._input(x, parts[1], _EXTREMES[operation], name, level)
        return _Value(ca.if_else(u != 0, x, parts[1]), True, level=level + 1)

    def _input(self, a: Any, b: Any, kind: int, name: str, level: int) -> Any:
        """Return the symbol of an input; equal ones share one, and equal pairs a switch."""
        whole = kind in (FLOOR, CEIL, TRUNCATE)
        if kind == SIGN and a.op() == ca.OP_SUB:  # of a difference: the switch of a comparison
            a, b = a.dep(0), a.dep(1)
        switch, kind = self._switch(a, b, kind, whole, level)
        for u, other, of in zip(self._inputs, self._switch_of, self._kind, strict=True):
            if (other, of) == (switch, kind):
                return u
        while name in self._names:
            name += "'"
        self._names.add(name)
        self._inputs.append(ca.SX.sym(name))
        self._switch_of.append(switch)
        self._kind.append(kind)
        return self._inputs[-1]

    def _switch(self, a: Any, b: Any, kind: int, whole: bool, level: int) -> tuple[int, int]:
        """Return the switch of a - b, perhaps that of b - a, and what the input is of it."""
        for number, (c, d) in enumerate(self._pairs):
            if self._whole[number] == whole:
                if ca.is_equal(a, c, _DEEP) and ca.is_equal(b, d, _DEEP):
                    return number, kind
                if kind in _SWAPPED and ca.is_equal(a, d, _DEEP) and ca.is_equal(b, c, _DEEP):
                    return number, _SWAPPED[kind]
        self._pairs.append((a, b))
        self._level.append(level + 1)
        self._whole.append(whole)
        return len(self._pairs) - 1, kind


def affine_in(expression: Any, time: Any) -> tuple[float, float] | None:
    """Return shift and rate of an expression ``shift + rate t``; None if it is no such, or constant."""
    if {symbol.name() for symbol in ca.symvar(expression)} != {time.name()}:
        return None
    function = ca.Function("f", [time], [expression])
    if any(function.instruction_id(k) in _NOT_SMOOTH for k in range(function.n_instructions())):
        return None  # floor(t) has the slope of a constant
    rate = ca.jacobian(expression, time)
    if ca.symvar(rate):
        return None
    shift, slope = float(ca.evalf(ca.substitute(expression, time, ca.SX(0)))), float(ca.evalf(rate))
    return (shift, slope) if math.isfinite(shift) and math.isfinite(slope) and slope != 0.0 else None


def is_switched(argument: Any, time: Any, corners: Corners) -> bool:
    """Tell whether the corners of a table that is called at a time are switches."""
    return bool(corners.knots) and not has_table(argument) and affine_in(argument, time) is None


def _held(x: Any, knots: list[Any], inputs: list[Any]) -> Any:
    """Return the knot whose value a stepwise table has at `x`; `x` itself before the first one."""
    held = ca.fmin(x, knots[0])
    for knot, u in zip(knots[1:], inputs, strict=True):
        held = ca.if_else(u != 0, knot, held)
    return held


def _called(table: Any) -> tuple[str, int]:
    """Return the table that an expression stands for, and how many arguments it has got already."""
    place = 0
    while table.op() == CALL:
        table, place = table.dep(0), place + 1
    return str(table_of_symbol(table.name())), place


def _is_unknown(call: Any) -> bool:
    """Tell whether what is called is a block of algebraic unknowns."""
    while call.op() == CALL:
        call = call.dep(0)
    return is_block_symbol(call.name())


def _called_in(parts: list[Any]) -> str:
    """Say which table is called in expressions, or else which algebraic unknown, and what to do."""
    names = sorted(symbol.name() for symbol in ca.symvar(ca.vertcat(*parts)))
    tables = [table for name in names if (table := table_of_symbol(name)) is not None]
    if tables:
        advice = "put it into the values of the table, or take one of kind 'hold'"
        return f"the table '{tables[0]}' ({advice})"
    unknowns = [unknowns_of_symbol(name) for name in names if is_block_symbol(name)]
    return f"the algebraic unknown '{unknowns[0]}', where this changes with time alone"


def _text(expression: Any) -> str:
    """Return an expression as text of bounded length, without the brackets around it; unknowns by their names."""

    def name(called: Any, arguments: tuple[Any, ...]) -> Any:
        if not is_block_symbol(called.name()):
            return call_table(called, arguments)
        return ca.SX.sym(unknowns_of_symbol(called.name()).split(", ")[int(arguments[-1])])

    text = str(with_calls_replaced(expression, name))
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    return text if len(text) <= 60 else text[:57] + "..."


def stretched(out: Any, time: Any) -> tuple[Any, Any, Any]:
    """Return the right-hand side of a piece with moving ends, and the symbols of its fraction, start and length."""
    fraction, start, length = ca.SX.sym("s"), ca.SX.sym(PIECE_START), ca.SX.sym(PIECE_LENGTH)
    return length * ca.substitute(out, time, start + length * fraction), fraction, ca.vertcat(start, length)
