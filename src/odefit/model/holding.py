"""What the events of a text change, as states.

An event may set a state, a parameter or a definition, and what it sets holds until the next event.  A state jumps.  For
the others there are *held* states, whose derivative is zero and which only events change:

    parameter k      h with h(0) = k; equations, definitions and events use h where they say k.
    definition d = e h with h(0) = 0 and a flag s with s(0) = 0; d becomes h where s is set, else e.

Initial values and times of events mean the parameter k itself, the value with which an experiment begins.  Where they
use definitions that are made of h, ``Model.resolve(..., at_start=True)`` puts in h(0).

The flag is the condition itself, not compared with anything: a comparison with a state would count as a condition that
steps may miss, which this one, constant between events, is not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from casadi import SX

from odefit.errors import ModelError, nearest
from odefit.model.arithmetic import add, divide, multiply, subtract, where
from odefit.model.dependencies import path_to
from odefit.model.event_statements import Assignment, EventStatement
from odefit.model.events import StateEvent, TimeEvent, flag_name, held_name
from odefit.model.lowering import Namespace, lower
from odefit.model.nodes import Call, Name, walk
from odefit.model.tokens import error_at, unsupported_at

_CHANGES: Mapping[str, Callable[[SX, SX], SX]] = MappingProxyType(
    {"+=": add, "-=": subtract, "*=": multiply, "/=": divide}
)


@dataclass(frozen=True, eq=False)
class Holding:
    """The held states of a text.

    Attributes
    ----------
    symbols, initial
        Held states, in order, to their symbols and initial values.
    parameters
        Parameters that are held, to the symbols that equations use in their place.
    definitions
        Names of the definitions that are held.
    """

    symbols: Mapping[str, SX]
    initial: Mapping[str, SX]
    parameters: Mapping[str, SX]
    definitions: tuple[str, ...]

    @classmethod
    def of(
        cls, events: Sequence[EventStatement], parameters: Collection[str], definitions: Collection[str],
        symbols: Mapping[str, SX],
    ) -> Holding:  # fmt: skip
        """Return what `events` need, for a text with these parameters and definitions."""
        targets = dict.fromkeys(one.target.value for event in events for one in event.assignments)
        return cls.of_names(tuple(targets), parameters, definitions, symbols)

    @classmethod
    def of_names(
        cls, targets: Sequence[str], parameters: Collection[str], definitions: Collection[str],
        symbols: Mapping[str, SX],
    ) -> Holding:  # fmt: skip
        """Return what is needed to change these names; states among them need nothing."""
        held: dict[str, SX] = {}
        initial: dict[str, SX] = {}
        for name in targets:
            if name in parameters:
                held[held_name(name)], initial[held_name(name)] = SX.sym(held_name(name)), symbols[name]
            elif name in definitions:
                for state in (held_name(name), flag_name(name)):
                    held[state], initial[state] = SX.sym(state), SX(0.0)
        return cls(
            held,
            initial,
            {name: held[held_name(name)] for name in targets if name in parameters},
            tuple(name for name in targets if name in definitions),
        )

    def definition(self, name: str, formula: SX) -> SX:
        """Return the right side of a definition, which an event may have set."""
        if name not in self.definitions:
            return formula
        return where(self.symbols[flag_name(name)], self.symbols[held_name(name)], formula)

    def changes(self, text: str, event: EventStatement, namespace: Namespace) -> dict[str, SX]:
        """Return what `event` makes of which states; `namespace` is that of the equations."""
        changes: dict[str, SX] = {}
        for one in event.assignments:
            name, value = one.target.value, _new_value(text, one, namespace)
            changes[name if name in namespace.states else held_name(name)] = value
            if name in self.definitions:
                changes[flag_name(name)] = SX(1.0)
        return changes


def _new_value(text: str, one: Assignment, namespace: Namespace) -> SX:
    value = lower(text, one.right, namespace)
    if one.operator == "=":
        return value
    try:
        return _CHANGES[one.operator](namespace.symbols[one.target.value], value)
    except ModelError as error:
        raise error_at(text, one.target, str(error)) from None


def time_events(
    text: str, events: Sequence[EventStatement], holding: Holding, before: Namespace, equations: Namespace
) -> tuple[TimeEvent, ...]:
    """Return the events of a text; `before` is the namespace of initial values, `equations` that of equations."""
    return tuple(
        TimeEvent(lower(text, event.cause, before), holding.changes(text, event, equations), event.text)
        for event in events
        if not event.on_condition
    )


def state_events(
    text: str, events: Sequence[EventStatement], holding: Holding, equations: Namespace
) -> tuple[StateEvent, ...]:
    """Return the events of a text that happen when a condition becomes true."""
    return tuple(
        StateEvent(
            lower(text, event.cause, equations), holding.changes(text, event, equations), event.text, event.stop,
            event.initially,
        )
        for event in events
        if event.on_condition
    )  # fmt: skip


def check_targets(
    text: str,
    events: Sequence[EventStatement],
    states: Collection[str],
    others: Collection[str],
    tables: Collection[str],
    algebraic: Collection[str] = (),
) -> None:
    """Refuse targets that are no state and, among `others`, no parameter and no definition."""
    for one in (assignment for event in events for assignment in event.assignments):
        name = one.target.value
        if name in tables:
            raise error_at(text, one.target, f"'{name}' is a table, which an event cannot change")
        if name in algebraic:
            advice = "change a parameter in its equations instead"
            raise error_at(
                text, one.target, f"'{name}' is an algebraic unknown, which an event cannot change; {advice}"
            )
        if name not in states and name not in others:
            hint = nearest(name, states) or nearest(name, others)
            hint = hint or f"; the states are {', '.join(states)}" * bool(states)
            raise error_at(
                text,
                one.target,
                f"the event changes '{name}', which is no state and does not occur in the equations{hint}",
            )


def check_times(
    text: str, events: Sequence[EventStatement], time: str, states: Collection[str], needs: Mapping[str, Sequence[str]]
) -> None:
    """Refuse times that depend on the time or on states; `needs` are the names in each definition."""
    for event in events:
        for node in () if event.on_condition else walk(event.cause):
            if not isinstance(node, Name):
                continue
            chain = path_to([node.token.value], {time, *states}, needs)
            if chain:
                through = f" through {' -> '.join(chain[:-1])}" if len(chain) > 1 else ""
                culprit = "the independent variable" if chain[-1] == time else "the state"
                raise error_at(
                    text,
                    node.token,
                    f"the time of the event depends on {culprit} '{chain[-1]}'{through}; use numbers, parameters and "
                    "definitions of these only",
                )


def refuse_tables_in_times(text: str, events: Sequence[EventStatement], tables: Collection[str]) -> None:
    """Refuse times of events that call a table."""
    for event in events:
        for node in () if event.on_condition else walk(event.cause):
            if isinstance(node, Call) and node.token.value in tables:
                raise unsupported_at(text, node.token, f"the table '{node.token.value}' in the time of an event")
