"""Aggregates over time: ``integral|mean|max|min(expr, over=t, from=a, to=b)``.

Each is a hidden state (one of `Model.held`), so that what comes after the language knows states only:

    integral   z' = expr, z = 0 at the start;
    mean       the integral over the time that has passed, which is the integral of 1 (expr itself where none has);
    max, min   z' = expr as well, so that steps follow it; in its place the largest or smallest value is observed.

A value at a time, ``x(t=5)``, is a hidden state too, which an event sets at that time before anything else happens.

With ``from`` or ``to`` expr counts between these times only (conditions in time, which end pieces).  Without both, an
aggregate in the equations is over the *interval of a measurement*, since the row before: of `Model.intervals` what was
gained since the beginning of the interval is observed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import casadi as ca
from casadi import SX

from odefit.errors import suggestion
from odefit.model.arithmetic import both, divide, greater_equal, less, where
from odefit.model.nodes import Call, Name, Named, Node, walk
from odefit.model.tokens import error_at, unsupported_at

if TYPE_CHECKING:
    from odefit.model.equations import Equations

E = TypeVar("E", bound="Equations")

AGGREGATES = ("integral", "mean", "max", "min")
EXTREMES = ("max", "min")
_OPTIONS = ("over", "from", "to")


class Reading(NamedTuple):
    """A hidden state that is set to the value of an expression at a time."""

    symbol: SX
    expression: SX
    time: SX


class Gathered(NamedTuple):
    """A hidden state that gathers something along the way.

    Attributes
    ----------
    symbol
        Of the state.
    kind
        "integral", "max" or "min".
    expression
        What is gathered, already limited to the times it counts in if it is an integral.
    counts
        For an extreme: not zero where the expression counts.
    interval
        Whether it is over the interval of a measurement.
    """

    symbol: SX
    kind: str
    expression: SX
    counts: SX
    interval: bool

    @property
    def limited(self) -> SX:
        """The expression where it counts, 0 elsewhere."""
        return self.expression if self.counts.is_constant() else where(self.counts, self.expression, SX(0.0))

    def in_place(self, symbols: list[SX], others: list[SX]) -> Gathered:
        """Return it with other symbols in the place of some."""
        expression, counts = ca.substitute([self.expression, self.counts], symbols, others)
        return self._replace(expression=expression, counts=counts)


def is_aggregate(node: Node) -> bool:
    """Tell whether a call is an aggregate, and not max(a, b)."""
    if not isinstance(node, Call) or node.token.value not in AGGREGATES:
        return False
    named = any(isinstance(one, Named) and one.token.value in _OPTIONS for one in node.operands)
    return named or (node.token.value not in EXTREMES and len(node.operands) == 1)


def options_of(text: str, call: Call, time: str) -> dict[str, Node]:
    """Return the named arguments of an aggregate over time, checked."""
    name, (expression, *rest) = call.token.value, call.operands
    if isinstance(expression, Named):
        raise error_at(text, expression.token, f"what {name}() is taken of comes first: {name}(x, over={time})")
    options: dict[str, Node] = {}
    for one in rest:
        if not isinstance(one, Named):
            raise error_at(text, call.token, f"{name}() is taken of one expression: {name}(x, over={time})")
        key = one.token.value
        if key not in _OPTIONS:
            raise error_at(text, one.token, f"{name}() has no option '{key}'{suggestion(key, _OPTIONS)}")
        if key in options:
            raise error_at(text, one.token, f"'{key}' is given twice; keep one")
        options[key] = one.operands[0]
    over = options.get("over")
    if over is None:
        raise error_at(text, call.token, f"over what? write {name}(..., over={time})")
    if not isinstance(over, Name):
        raise error_at(text, call.token, f"'over' takes a name; write over={time}")
    if over.token.value != time:
        raise unsupported_at(text, over.token, f"aggregates over a grid, such as {name}(..., over={over.token.value})")
    return options


def is_interval(text: str, call: Call, time: str) -> bool:
    """Tell whether an aggregate in the equations is over the interval of a measurement."""
    options = options_of(text, call, time)
    return "from" not in options and "to" not in options


_Lower = Callable[[Node], SX]


@dataclass(frozen=True, eq=False)
class Aggregates:
    """Gathers the aggregates of a text.

    Attributes
    ----------
    intervals
        Whether those without ``from`` and ``to`` are over the interval of a measurement; else they begin at the start.
    gathered, readings
        Hidden states by name: aggregates, and values at a time.
    ends
        When each of these is complete; None: at the end of the experiment.
    """

    intervals: bool
    gathered: dict[str, Gathered] = field(default_factory=dict)
    readings: dict[str, Reading] = field(default_factory=dict)
    ends: dict[str, SX | None] = field(default_factory=dict)

    def reading(self, text: str, call: Call, time: SX, lower: _Lower, lower_time: _Lower) -> SX:
        """Return the value of a name at a time; see `value`."""
        name, [point] = call.token.value, call.operands
        assert isinstance(point, Named)
        if self.intervals:
            advice = f"write an event, at {time.name()}=...: w = {name}, and use w"
            raise error_at(text, call.token, f"values at a time stand in [derived]; {advice}")
        key = f"{name}({time.name()}={_text(point.operands[0])})"
        if key not in self.readings:
            when = lower_time(point.operands[0])
            self.readings[key] = Reading(SX.sym(key), lower(Name(call.token)), when)
            self.ends[key] = when
        return self.readings[key].symbol

    def value(self, text: str, call: Call, time: SX, lower: _Lower, lower_time: _Lower) -> SX:
        """Return the value of an aggregate; `lower` builds what it is taken of, `lower_time` begin and end."""
        options = options_of(text, call, time.name())
        kind, expression = call.token.value, lower(call.operands[0])
        begin, end = (lower_time(options[key]) if key in options else None for key in ("from", "to"))
        interval = self.intervals and begin is None and end is None
        words = _words(call, options)
        counts = SX(1.0)
        if begin is not None:
            counts = greater_equal(time, begin)
        if end is not None:
            counts = less(time, end) if begin is None else both(counts, less(time, end))
        if kind in EXTREMES:
            return self._state(f"{kind}({words})", Gathered(SX(), kind, expression, counts, interval), end)
        whole = Gathered(SX(), "integral", expression, counts, interval)
        integral = self._state(f"integral({words})", whole._replace(expression=whole.limited), end)
        if kind == "integral":
            return integral
        clock = whole._replace(expression=whole._replace(expression=SX(1.0)).limited)
        passed = self._state(f"integral(1, {_limits(options)})", clock, end)
        mean = divide(integral, passed)
        if not self.intervals:  # it is observed when it is complete
            return mean
        return where(passed, mean, expression)  # the time that has passed is the condition itself

    def _state(self, name: str, one: Gathered, end: SX | None) -> SX:
        name = name if self.intervals else f"{name} of the experiment"
        if name not in self.gathered:
            self.gathered[name] = one._replace(symbol=SX.sym(name))
            self.ends[name] = end
        return self.gathered[name].symbol


def is_point(node: Node, time: str) -> bool:
    """Tell whether a call is a value at a time, ``x(t=5)``."""
    if not isinstance(node, Call) or len(node.operands) != 1:
        return False
    [only] = node.operands
    return isinstance(only, Named) and only.token.value == time


def _words(call: Call, options: Mapping[str, Node]) -> str:
    """Return the arguments of an aggregate as text: the same for the same aggregate."""
    return f"{_text(call.operands[0])}, {_limits(options)}"


def _limits(options: Mapping[str, Node]) -> str:
    return ", ".join(f"{key}={_text(options[key])}" for key in _OPTIONS if key in options)


def _text(root: Node) -> str:
    """Return an expression with all its brackets."""
    done: list[str] = []
    waiting: list[tuple[Node, bool]] = [(root, False)]
    while waiting:
        node, visited = waiting.pop()
        operands = getattr(node, "operands", ())
        if not visited and operands:
            waiting.append((node, True))
            waiting.extend((one, False) for one in reversed(operands))
            continue
        first = len(done) - len(operands)
        inner = done[first:]
        del done[first:]
        done.append(_joined(node, inner, is_root=node is root))
    return done[0]


def _joined(node: Node, inner: list[str], *, is_root: bool) -> str:
    word = node.token.value
    if not inner:
        return word
    if isinstance(node, Call):
        return f"{word}({', '.join(inner)})"
    if isinstance(node, Named):
        return f"{word}={inner[0]}"
    joined = f"{word}{inner[0]}" if len(inner) == 1 else f"{inner[0]}{word}{inner[1]}"
    return joined if is_root else f"({joined})"


def with_gathered(equations: E, gathered: Mapping[str, Gathered]) -> E:
    """Return equations, or a model, with these hidden states behind the others.

    The expression of an extreme is integrated, too: the number is of no use, but steps are short where it changes fast,
    and pieces end where it begins and ceases to count.
    """
    if not gathered:
        return equations
    zero = dict.fromkeys(gathered, SX(0.0))
    slopes = {name: one.limited if one.kind in EXTREMES else one.expression for name, one in gathered.items()}
    return replace(
        equations,
        states=(*equations.states, *gathered),
        rhs={**equations.rhs, **slopes},
        initial={**equations.initial, **zero},
        symbols={**equations.symbols, **{name: one.symbol for name, one in gathered.items()}},
        held=(*equations.held, *gathered),
        gathered={**equations.gathered, **gathered},
    )


def aggregates_in(root: Node) -> list[Call]:
    """Return all aggregates in an expression."""
    return [node for node in walk(root) if isinstance(node, Call) and is_aggregate(node)]
