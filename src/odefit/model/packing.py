"""Fields of a model as plain values and back, for pickles.

Symbols are live objects of CasADi.  All expressions of a model become one CasADi function of all its symbols, which
CasADi writes as text, instruction by instruction: what is read back is the same graph, so that native code made of it
has the same key, and no text or Python function of the user's is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import casadi as ca

from odefit.model.aggregates import Gathered
from odefit.model.events import StateEvent, TimeEvent
from odefit.model.implicit import Block

_MAPPINGS = ("rhs", "initial", "definitions")


def packed_expressions(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a model with names in place of symbols, and all expressions as one text."""
    names, tables = tuple(state["symbols"]), tuple(state["tables"])
    blocks = [one.symbol for one in state["implicit"]]
    symbols = [*state["symbols"].values(), *state["tables"].values(), *blocks]
    expressions = [value for name in _MAPPINGS for value in state[name].values()]
    expressions += [value for row in state["mass"].values() for value in row.values()]
    expressions += [value for event in state["events"] for value in (event.time, *event.changes.values())]
    expressions += [value for event in state["state_events"] for value in (event.condition, *event.changes.values())]
    gathered = state["gathered"].values()
    expressions += [value for one in gathered for value in (one.expression, one.counts)]
    function = ca.Function("equations", symbols, expressions)
    keys = {name: tuple(state[name]) for name in _MAPPINGS}
    return {
        **state,
        **keys,
        "mass": tuple((row, tuple(coefficients)) for row, coefficients in state["mass"].items()),
        "written": dict(state["written"]),
        "events": tuple((tuple(event.changes), event.text, event.first) for event in state["events"]),
        "state_events": tuple(
            (tuple(event.changes), event.text, event.stop, event.initially) for event in state["state_events"]
        ),
        "gathered": tuple((name, one.kind, one.interval) for name, one in state["gathered"].items()),
        "implicit": tuple(
            (one.unknowns, one.residual.serialize(), one.equations, one.inner) for one in state["implicit"]
        ),
        "tables": tables,
        "symbols": (names, function.serialize()),
    }


def unpacked_expressions(packed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the model that `packed_expressions` was given, with symbols of their own."""
    names, text = packed["symbols"]
    function = ca.Function.deserialize(text)
    symbols = function.sx_in()
    expressions: Iterator[Any] = iter(function.call(symbols))
    mappings = {name: {key: next(expressions) for key in packed[name]} for name in _MAPPINGS}
    mass = {row: {name: next(expressions) for name in names} for row, names in packed["mass"]}
    events = tuple(
        TimeEvent(next(expressions), {name: next(expressions) for name in changed}, text, first)
        for changed, text, first in packed["events"]
    )
    state_events = tuple(
        StateEvent(next(expressions), {name: next(expressions) for name in changed}, *further)
        for changed, *further in packed["state_events"]
    )
    symbols_by_name = dict(zip(names, symbols, strict=False))
    gathered = {
        name: Gathered(symbols_by_name[name], kind, next(expressions), next(expressions), interval)
        for name, kind, interval in packed["gathered"]
    }
    tables = dict(zip(packed["tables"], symbols[len(names) :], strict=False))
    blocks = zip(symbols[len(names) + len(tables) :], packed["implicit"], strict=True)
    return {
        **packed,
        **mappings,
        "mass": mass,
        "events": events,
        "state_events": state_events,
        "gathered": gathered,
        "implicit": tuple(
            Block(unknowns, symbol, ca.Function.deserialize(residual), equations, inner)
            for symbol, (unknowns, residual, equations, inner) in blocks
        ),
        "symbols": symbols_by_name,
        "tables": tables,
    }
