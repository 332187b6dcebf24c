"""Algebraic unknowns as states: the same model with algebraic rows instead of blocks.

An unknown H that a block solves for (`odefit.model.implicit`) is a definition whose value is a call.  All other
expressions of a model use the symbol of H, never the call itself.  So H becomes a state by leaving the definitions: its
symbol stays where it is, its guess becomes its initial value, and the equation of the block becomes its row,
0 = G(H, w) (`odefit.model.mass_rows`).

**What must be known at the start.**  Initial values of states and times of events are computed before there is any
state.  Where they use an unknown, which then depends on parameters only, it stays solved there: the call is put in,
also through definitions that depend on unknowns, and the block stays in `Model.implicit`.  (An experiment that replaces
such a definition does not change the initial value that was made with it.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import casadi as ca
from casadi import SX

from odefit.model.dependencies import evaluation_order, symbols_in
from odefit.model.implicit import Block
from odefit.model.model import Model
from odefit.model.table_calls import call_table, with_calls_replaced


def with_unknowns_as_states(model: Model) -> Model:
    """Return the model in which every algebraic unknown is a state with an algebraic row; see the top of the module.

    The same model always gives the same one; a model without blocks is returned as it is.
    """
    if not model.algebraic:
        return model
    return model.kept.get("unknowns as states", lambda: _with_unknowns_as_states(model))


def _with_unknowns_as_states(model: Model) -> Model:
    starts, sides, written = {}, {}, {}
    for block in model.implicit:
        if not set(block.unknowns) & set(model.algebraic):
            continue
        guesses, arguments = _of_calls(model, block)
        x = ca.vertcat(*(model.symbols[name] for name in block.unknowns))
        residual = block.residual(x, ca.vertcat(SX(0, 1), *arguments))
        for number, name in enumerate(block.unknowns):
            starts[name], sides[name], written[name] = guesses[number], residual[number], f"'{block.equations[number]}'"
    unknowns = model.algebraic
    at_start = _at_start(model)
    initial = {name: at_start(one) for name, one in model.initial.items()}
    events = tuple(replace(event, time=at_start(event.time)) for event in model.events)
    used = {one.element_hash() for part in (*initial.values(), *(e.time for e in events)) for one in symbols_in(part)}
    place = len(model.shown)
    return replace(
        model,
        states=(*model.shown, *unknowns, *model.held),
        rhs=_inserted(model.rhs, {name: sides[name] for name in unknowns}, place),
        initial=_inserted(initial, {name: starts[name] for name in unknowns}, place),
        definitions={name: one for name, one in model.definitions.items() if name not in unknowns},
        events=events,
        algebraic=(),
        implicit=tuple(block for block in model.implicit if block.symbol.element_hash() in used),
        mass={**model.mass, **{name: {} for name in unknowns}},
        written={**model.written, **written},
    )


def _inserted(values: Mapping[str, SX], further: Mapping[str, SX], place: int) -> dict[str, SX]:
    entries = list(values.items())
    return dict([*entries[:place], *further.items(), *entries[place:]])


def _of_calls(model: Model, block: Block) -> tuple[list[SX], list[SX]]:
    """Return guesses and arguments of a block, from the call that is the value of its first unknown."""
    found: list[tuple[SX, ...]] = []

    def note(table: SX, arguments: tuple[SX, ...]) -> SX:
        if table.element_hash() == block.symbol.element_hash():
            found.append(arguments)
        return call_table(table, arguments)

    with_calls_replaced(model.definitions[block.unknowns[0]], note)
    n = len(block.unknowns)
    return list(found[0][:n]), list(found[0][n:-1])


def _at_start(model: Model) -> Any:
    """Return the function that puts unknowns, and what depends on them, as calls into an expression."""
    names = {model.symbols[name].element_hash(): name for name in model.definitions}
    needs = {
        name: [names[s.element_hash()] for s in symbols_in(one) if s.element_hash() in names]
        for name, one in model.definitions.items()
    }
    dependent = set(model.algebraic)
    order = [name for name in evaluation_order(needs) if name in model.definitions]
    for name in order:
        if dependent.intersection(needs[name]):
            dependent.add(name)
    inner = [name for name in order if name in dependent]
    symbols, values = [model.symbols[name] for name in inner], [model.definitions[name] for name in inner]
    hashes = {symbol.element_hash() for symbol in symbols}

    def put_in(expression: SX) -> SX:
        if not any(symbol.element_hash() in hashes for symbol in symbols_in(expression)):
            return expression
        _, [result] = ca.substitute_inplace(symbols, values, [expression])
        return result

    return put_in
