"""Conditions: from a right-hand side with jumps to one that is smooth within a *piece*.

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

A comparison that changes at no time behind the beginning is left as it is: ``if(r > 0, sin(r)/r, 1)`` says what holds
at r = 0 itself.

**States.**  A comparison of what depends on states is an input in the same way.  Where it changes is not known
beforehand: the *borders* g(t, y, p, u) are watched while the piece is integrated, which ends where one is crossed.  So
are comparisons of time with what events or other borders change.  A border may depend on inputs of others, of lower
level.  An input of a border can have the value `AS_IT_IS`, too: then the condition itself decides, in every evaluation.
(What is beyond a border may not exist, ``if(x > 0, sqrt(x), 0)``, and steps go a little beyond.)

Whether two numbers are equal, ``x == 1``, is left as it is: it is true at single moments.  `Split.on_states` names
such, and tables of a state with so many steps that they are not watched.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import casadi as ca

from odefit.compile.condition_inputs import ConditionInputs
from odefit.compile.implicit_conditions import called_block, conditions_inside
from odefit.compile.switch_kinds import (
    CEIL,
    EQUAL,
    FLOOR,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    SIGN,
    TRUNCATE,
    UNEQUAL,
    as_it_is,
)
from odefit.errors import UnsupportedError
from odefit.model.implicit import Block, is_block_symbol, unknowns_of_symbol
from odefit.model.table_calls import CALL, call_table, has_table, table_of_symbol, with_calls_replaced

PIECE_START, PIECE_LENGTH = "(start of the piece)", "(length of the piece)"
"""Names of the two entries of p, the last ones, that kernels fill for pieces with moving ends."""

_COMPARED = {ca.OP_LT: LESS, ca.OP_LE: LESS_EQUAL, ca.OP_EQ: EQUAL, ca.OP_NE: UNEQUAL}
_ROUNDED = {ca.OP_FLOOR: FLOOR, ca.OP_CEIL: CEIL}
_EXTREMES = {ca.OP_FMIN: LESS_EQUAL, ca.OP_FMAX: GREATER_EQUAL}
_CONTINUOUS = frozenset([*_EXTREMES, ca.OP_FABS])
_NOT_SMOOTH = frozenset(
    [*_COMPARED, *_ROUNDED, *_EXTREMES, ca.OP_SIGN, ca.OP_FABS, ca.OP_FMOD, ca.OP_COPYSIGN]
)  # fmt: skip
_EQUALITIES = frozenset([ca.OP_EQ, ca.OP_NE])
_binary: Any = ca.SX.binary
_unary: Any = ca.SX.unary


class Corners(NamedTuple):
    """Where a table is not smooth.

    `stepwise`: it is constant between two knots.  `knots`: those of each argument, the first one first if it is
    stepwise; empty if its arguments are multiples of time plus a number.  `ends`: first and last knot of a linear table
    of one argument, and whether it is constant beyond them.
    """

    stepwise: bool
    knots: tuple[tuple[float, ...], ...] = ()
    ends: tuple[float, float, bool] | None = None


@dataclass(frozen=True, eq=False)
class Borders:
    """Conditions on states that are inputs, in the order in which they were met.

    Attributes
    ----------
    inputs
        Their symbols, a column.
    functions
        The g, a column; functions of t, y, p and all inputs.
    level, whole
        Per border: its level, whether whole numbers count and not only zero.
    border_of, kind
        Per input: its border, and what it is of it.
    words
        Per border: the condition as text.
    """

    inputs: Any
    functions: Any
    level: tuple[int, ...] = ()
    whole: tuple[bool, ...] = ()
    border_of: tuple[int, ...] = ()
    kind: tuple[int, ...] = ()
    words: tuple[str, ...] = ()


NO_BORDERS = Borders(ca.SX(0, 1), ca.SX(0, 1))


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
        What jumps where states have certain values and is no input, as text.
    borders
        Conditions on states.
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
    borders: Borders = NO_BORDERS

    def depends_on_parameters(self, time: Any) -> bool:
        """Tell whether a switch depends on more than time and inputs: then its times may move."""
        known = {time.name(), *(self.inputs[j].name() for j in range(self.inputs.numel()))}
        return bool({symbol.name() for symbol in ca.symvar(self.switches)} - known)


@dataclass(slots=True)
class _Value:
    """A register of the tape: its expression, what it depends on, and the highest level of its inputs.

    `late`: it changes between pieces in a way that is not known beforehand.  `depth` is the highest level of borders.
    """

    expression: Any
    of_time: bool = False
    of_states: bool = False
    level: int = 0
    late: bool = False
    depth: int = 0


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
        self._time, self._begin, self._tables = arguments[0], begin, tables
        self._held, self._blocks = frozenset(held), blocks
        self._arguments = arguments
        taken = set(names)
        self._in_time, self._on_states = ConditionInputs(taken), ConditionInputs(taken)
        self._left: dict[str, None] = {}

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
                held = symbol.name() in self._held
                register[result[0]] = _Value(symbol, places[0] == 0, places[0] == 1 and not held, late=held)
            else:
                register[result[0]] = self._apply(operation, [register[i] for i in places])
        in_time, on_states = self._in_time, self._on_states
        switches = in_time.differences()
        slopes = [ca.jtimes(g, self._time, ca.SX(1)) for g in switches]
        return Split(
            out=out,
            inputs=in_time.column(),
            switches=ca.vertcat(*switches) if switches else ca.SX(0, 1),
            level=tuple(in_time.level),
            affine=tuple(not ca.depends_on(slope, self._time) for slope in slopes),
            whole=tuple(in_time.whole),
            switch_of=tuple(in_time.switch_of),
            kind=tuple(in_time.kind),
            on_states=tuple(self._left),
            borders=Borders(
                on_states.column(),
                ca.vertcat(*on_states.differences()) if on_states.pairs else ca.SX(0, 1),
                tuple(on_states.level),
                tuple(on_states.whole),
                tuple(on_states.switch_of),
                tuple(on_states.kind),
                tuple(on_states.words),
            ),
        )

    def _apply(self, operation: int, operands: list[_Value]) -> _Value:
        """Return the value of an operation; one that is not smooth gets an input."""
        if operation == CALL:
            return self._call(*operands)
        parts = [operand.expression for operand in operands]
        plain = _unary(operation, parts[0]) if len(parts) == 1 else _binary(operation, parts[0], parts[1])
        of_time, of_states = any(o.of_time for o in operands), any(o.of_states for o in operands)
        value = _Value(
            plain, of_time, of_states, max(o.level for o in operands), any(o.late for o in operands),
            max(o.depth for o in operands),
        )  # fmt: skip
        if operation not in _NOT_SMOOTH or not (of_time or of_states):
            return value
        if of_states and operation in _EQUALITIES:
            self._left[self._words(plain)] = None
            return value
        if of_states or value.late:
            return self._with_input(operation, parts, value, self._on_states)
        if operation not in _ROUNDED and self._is_settled(parts):
            return value
        if has_table(ca.vertcat(*parts)):
            if operation in _CONTINUOUS:
                return value
            raise UnsupportedError(f"a condition in time, or min and max, that depends on {_called_in(parts)}")
        return self._with_input(operation, parts, value, self._in_time)

    def _is_settled(self, parts: list[Any]) -> bool:
        """Tell whether a difference of numbers and of time changes its sign at no time behind the beginning."""
        difference = parts[0] - (parts[1] if len(parts) == 2 else 0)
        if {symbol.name() for symbol in ca.symvar(difference)} != {self._time.name()}:
            return False
        found = affine_in(difference, self._time)
        return found is not None and -found[0] / found[1] <= self._begin

    def _call(self, table: _Value, argument: _Value) -> _Value:
        """Return the call of a table; where its argument is no known time its corners end pieces."""
        x, level, depth = argument.expression, max(table.level, argument.level), max(table.depth, argument.depth)
        if _is_unknown(table.expression):
            value = _Value(
                call_table(table.expression, (x,)), table.of_time or argument.of_time,
                table.of_states or argument.of_states, level, table.late or argument.late, depth,
            )  # fmt: skip
            self._look_inside(value)
            return value
        name, place = _called(table.expression)
        corners = self._tables.get(name, Corners(False))
        of_time, of_states = argument.of_time, table.of_states or argument.of_states
        late, constant = table.late or argument.late, corners.stepwise
        knots = [ca.SX(knot) for knot in corners.knots[place]] if corners.knots else []
        dynamic = argument.of_states or (argument.of_time and argument.late)
        if dynamic and corners.stepwise and not knots:
            self._left[f"{name}({_text(x)}) of kind 'hold'"] = None
        if knots and (dynamic or (argument.of_time and is_switched(x, self._time, corners))):
            inputs = [
                self._comparison(x, knot, f"{_text(x)} >= {knot}", argument, dynamic=dynamic)
                for knot in (knots[1:] if corners.stepwise else knots)
            ]
            level, depth, late = (level, depth + 1, True) if dynamic else (level + 1, depth, late)
            if corners.stepwise:
                x = _held(x, knots, inputs)
            elif dynamic and corners.ends is not None:
                line = _line(table.expression, x, knots, inputs, corners.ends)
                return _Value(line, of_time, of_states, level, late, depth)
        else:
            constant = constant and not argument.of_states
        return _Value(
            call_table(table.expression, (x,)),
            table.of_time or (of_time and not constant),
            of_states and not (constant and not table.of_states),
            level,
            late,
            depth,
        )

    def _comparison(self, x: Any, knot: Any, name: str, argument: _Value, *, dynamic: bool) -> Any:
        """Return whether an argument of a table is at a knot or behind it, as an input."""
        if not dynamic:
            return self._in_time.symbol(x, knot, GREATER_EQUAL, name, argument.level) != 0
        u = self._on_states.symbol(x, knot, GREATER_EQUAL, name, argument.depth)
        return _decided(u, GREATER_EQUAL, x >= knot, u != 0)

    def _look_inside(self, unknown: _Value) -> None:
        """Note the conditions on an unknown in its own equations, if it depends on states; with time alone, refuse."""
        called = called_block(unknown.expression, self._blocks) if unknown.of_states or unknown.of_time else None
        for condition in conditions_inside(*called, _NOT_SMOOTH - _CONTINUOUS) if called else ():
            if not unknown.of_states:
                raise UnsupportedError(
                    f"a condition on an algebraic unknown that changes with time alone ('{_text(condition)}' in its "
                    "equation)"
                )
            self._left[self._words(condition)] = None

    def _words(self, condition: Any) -> str:
        """Return a condition as text; of one that is too long for that, the states in it."""
        text = _text(condition)
        if "@" not in text:
            return text
        states = self._arguments[1]
        names = {symbol.name() for symbol in ca.symvar(condition)}
        return "a condition on " + ", ".join(n for i in range(states.numel()) if (n := states[i].name()) in names)

    def _with_input(self, operation: int, parts: list[Any], value: _Value, inputs: ConditionInputs) -> _Value:
        """Return an operation that is not smooth by means of an input; `value` is what it is without."""
        x, zero, plain, on_states = parts[0], ca.SX(0), value.expression, inputs is self._on_states
        below = value.depth if on_states else value.level

        def symbol(a: Any, b: Any, kind: int, name: str) -> Any:
            return inputs.symbol(a, b, kind, name, below)

        def result(kind: int, u: Any, expression: Any, *, constant: bool) -> _Value:
            """Return the value that is `expression` with input `u`; `constant`: within a piece."""
            if not on_states:
                return _Value(expression, not constant, level=value.level + 1, late=value.late, depth=value.depth)
            decided = _decided(u, kind, plain, expression)
            of_time, of_states = value.of_time and not constant, value.of_states and not constant
            return _Value(decided, of_time, of_states, value.level, True, value.depth + 1)

        name = self._words(plain) if on_states else _text(plain)
        sign_name = f"sign({self._words(x) if on_states else _text(x)})"
        if operation in _COMPARED:
            kind = _COMPARED[operation]
            u = symbol(x, parts[1], kind, name)
            return result(kind, u, u != 0, constant=True)  # a condition, which selects
        if operation in (ca.OP_SIGN, *_ROUNDED):
            kind = SIGN if operation == ca.OP_SIGN else _ROUNDED[operation]
            u = symbol(x, zero, kind, name)
            return result(kind, u, u, constant=True)
        if operation == ca.OP_FABS:
            u = symbol(x, zero, SIGN, sign_name)
            return result(SIGN, u, u * x, constant=False)
        if operation == ca.OP_FMOD:
            u = symbol(x / parts[1], zero, TRUNCATE, f"trunc({_text(x / parts[1])})")
            return result(TRUNCATE, u, x - parts[1] * u, constant=False)
        if operation == ca.OP_COPYSIGN:
            size = symbol(x, zero, SIGN, sign_name)
            sign = symbol(parts[1], zero, SIGN, f"sign({_text(parts[1])})")
            return result(SIGN, size, size * x * sign, constant=False)
        kind = _EXTREMES[operation]
        u = symbol(x, parts[1], kind, name)
        return result(kind, u, ca.if_else(u != 0, x, parts[1]), constant=False)


def _decided(u: Any, kind: int, plain: Any, expression: Any) -> Any:
    """Return an expression with the input of a border, or the plain one where this leaves the decision to it."""
    return ca.if_else(u == as_it_is(kind), plain, expression)


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


def _held(x: Any, knots: list[Any], reached: list[Any]) -> Any:
    """Return the knot whose value a stepwise table has at `x`; `x` itself before the first one."""
    held = ca.fmin(x, knots[0])
    for knot, there in zip(knots[1:], reached, strict=True):
        held = ca.if_else(there, knot, held)
    return held


def _line(table: Any, x: Any, knots: list[Any], reached: list[Any], ends: tuple[float, float, bool]) -> Any:
    """Return a linear table as the straight line of the piece that `x` is in, which goes on behind its corners."""
    first, last, is_held = ends
    inner = [(knot, there) for knot, there in zip(knots, reached, strict=True) if first < float(knot) < last]
    points = [ca.SX(first), *(knot for knot, _ in inner), ca.SX(last)]
    left, right = points[0], points[1]
    for (knot, there), end in zip(inner, points[2:], strict=True):
        left, right = ca.if_else(there, knot, left), ca.if_else(there, end, right)
    at_left, at_right = call_table(table, (left,)), call_table(table, (right,))
    line = at_left + (x - left) / (right - left) * (at_right - at_left)
    if not is_held:  # beyond its ends the table knows best what to do
        return ca.if_else(ca.logic_or(x < first, x > last), call_table(table, (x,)), line)
    for knot, there in zip(knots, reached, strict=True):
        if float(knot) <= first:
            line = ca.if_else(there, line, call_table(table, (ca.SX(first),)))
        elif float(knot) >= last:
            line = ca.if_else(there, call_table(table, (ca.SX(last),)), line)
    return line


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


def in_fraction(out: Any, time: Any) -> tuple[Any, Any, Any]:
    """Return expressions of time as ones of the fraction of a piece, its symbol, and those of start and length."""
    fraction, start, length = ca.SX.sym("s"), ca.SX.sym(PIECE_START), ca.SX.sym(PIECE_LENGTH)
    return ca.substitute(out, time, start + length * fraction), fraction, ca.vertcat(start, length)
