"""Equation text to equations: collect the statements, check them against each other, build SX."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from casadi import SX

from odefit.errors import LanguageError, nearest
from odefit.model.aggregates import Aggregates, aggregates_in, is_aggregate, is_interval, is_point, with_gathered
from odefit.model.calls import function_of_call, state_at_start
from odefit.model.dependencies import Cycle, evaluation_order, path_to, symbols_in
from odefit.model.equations import Equations
from odefit.model.event_statements import EventStatement, is_event, read_event
from odefit.model.functions import FUNCTIONS
from odefit.model.holding import (
    Holding,
    check_targets,
    check_times,
    refuse_tables_in_times,
    state_events,
    time_events,
)
from odefit.model.implicit_statements import read_unknowns
from odefit.model.linear_terms import state_of_derivative
from odefit.model.lowering import Namespace, fault_of_value, lower
from odefit.model.mass_statements import read_mass, states_in
from odefit.model.names import CONSTANTS, checked_time, initial_name
from odefit.model.nodes import Call, Name, walk
from odefit.model.statements import Statement, read_statement
from odefit.model.table_calls import table_symbol
from odefit.model.tokens import Token, error_at, statements
from odefit.model.when_statements import is_when, read_when

_Table = Mapping[str, Statement]
_Read = Sequence[Statement | EventStatement]


def read_equations(text: str, time: str = "t", tables: Collection[str] | None = None) -> Equations:
    """Read the equations of a model.

    Parameters
    ----------
    text
        Statements of the language, one a line.
    time
        Name of the independent variable.
    tables
        Names of the tables that equations may call; None: not known yet, what can be a table is one.
    """
    time = checked_time(time)
    read: _Read = [_read(text, tokens, time) for tokens in statements(text)]
    events = [one for one in read if isinstance(one, EventStatement)]
    plain = [one for one in read if isinstance(one, Statement)]
    _of_kind(text, read, "derivative")  # refuses a second x' = ...
    rhs, in_several = states_in(plain), any(one.kind == "mass" for one in plain)
    definitions = _of_kind(text, read, "definition")
    initial = _of_kind(text, read, "initial")
    algebraic = _of_kind(text, read, "algebraic")
    if not (rhs or definitions or initial or algebraic or _equations(read)):
        raise LanguageError("the text holds no equation; write x' = ... and x(0) = ..., or name = ...")
    _check_one_meaning(text, {"{}' = ...": rhs, "{} = ...": definitions, "algebraic {} ~ ...": algebraic})
    _check_initial_values(text, rhs, {**definitions, **algebraic}, initial)
    _check_tables(text, tables or (), rhs, {**definitions, **algebraic})
    parameters = _parameters(text, read, time, rhs, {**definitions, **algebraic}, tables or ())
    called = _called_tables(text, read, time, rhs, {*parameters, *definitions, *algebraic}, tables)
    with_formula = {**definitions, **{initial_name(name): one for name, one in initial.items()}}
    names = _used_names(with_formula, rhs)
    _check_acyclic(text, with_formula, names)
    _check_intervals(text, read, names, time)
    check_targets(text, events, rhs, (*parameters, *definitions), {*(tables or ()), *called}, algebraic)
    refuse_tables_in_times(text, events, called)

    every = (time, *rhs, *parameters, *definitions, *algebraic, *map(initial_name, rhs))
    symbols = {name: SX.sym(name) for name in every}
    table_symbols = {name: table_symbol(name) for name in (tables if tables is not None else called)}
    holding, aggregates = Holding.of(events, parameters, definitions, symbols), Aggregates(intervals=True)
    before = Namespace(time, rhs.keys(), symbols, table_symbols)
    namespace = Namespace(time, rhs.keys(), {**symbols, **holding.parameters}, table_symbols, aggregates)
    formulas = {name: holding.definition(name, lower(text, one.right, namespace)) for name, one in definitions.items()}
    solved, further = ({}, algebraic) if in_several else (algebraic, {})  # unknowns that become states are `further`
    rows = read_mass(text, plain, further, formulas, names, namespace) if in_several else None
    equations = [] if in_several else _equations(read)
    blocks, unknowns = read_unknowns(text, solved, equations, formulas, names, before, namespace)
    names |= {name: [symbol.name() for symbol in symbols_in(one)] for name, one in unknowns.items()}
    _check_acyclic(text, {**with_formula, **algebraic}, names)
    _check_initial_dependence(text, initial, {time, *rhs, *further}, names, time)
    check_times(text, events, time, (*rhs, *further), names)
    right_sides = rows.rhs if rows else {name: lower(text, one.right, namespace) for name, one in rhs.items()}
    starts = {name: initial[name] for name in rhs} | further
    read_all = Equations(
        time=time,
        states=(*rhs, *further, *holding.symbols),
        parameters=parameters,
        rhs=right_sides | dict.fromkeys(holding.symbols, SX(0.0)),
        initial={name: lower(text, one.right, before) for name, one in starts.items()} | dict(holding.initial),
        definitions={**formulas, **unknowns},
        symbols={**symbols, **holding.symbols},
        tables={name: table_symbols[name] for name in called},
        events=time_events(text, events, holding, before, namespace),
        state_events=state_events(text, events, holding, namespace),
        held=tuple(holding.symbols),
        algebraic=tuple(solved),
        implicit=blocks,
        mass=rows.mass if rows else {},
        written=rows.written if rows else {},
    )
    return with_gathered(read_all, aggregates.gathered)


def _read(text: str, tokens: Sequence[Token], time: str) -> Statement | EventStatement:
    if is_event(tokens):
        return read_event(text, tokens, time)
    return read_when(text, tokens, time) if is_when(tokens) else read_statement(text, tokens, time)


def _of_kind(text: str, read: _Read, kind: str) -> dict[str, Statement]:
    written = {
        "derivative": "{}' = ...",
        "initial": "{}(0) = ...",
        "definition": "{} = ...",
        "algebraic": "algebraic {} ~ ...",
    }[kind]
    by_name: dict[str, Statement] = {}
    for one in read:
        if isinstance(one, EventStatement) or one.kind != kind:
            continue
        name = one.name.value
        if name in by_name:
            what = written.format(name)
            raise error_at(text, one.name, f"'{what}' stands in line {by_name[name].name.line} already; keep one")
        by_name[name] = one
    return by_name


def _equations(read: _Read) -> list[Statement]:
    return [one for one in read if isinstance(one, Statement) and one.kind == "equation"]


def _check_one_meaning(text: str, tables: Mapping[str, _Table]) -> None:
    """Refuse names that are given two meanings; `tables` are statements by how each meaning is written."""
    seen: dict[str, list[tuple[Token, str]]] = {}
    for written, table in tables.items():
        for name, one in table.items():
            seen.setdefault(name, []).append((one.name, written.format(name)))
    for places in seen.values():
        if len(places) > 1:
            (first, earlier), (second, later), *_ = sorted(places, key=lambda place: place[0].line)
            message = f"'{later}' contradicts '{earlier}' in line {first.line}; a name has one meaning"
            raise error_at(text, second, f"{message}: rename or remove one")


def _check_initial_values(text: str, rhs: _Table, definitions: _Table, initial: _Table) -> None:
    for name, one in initial.items():
        if name in rhs:
            continue
        if name in definitions:
            other = definitions[name]
            kind = "an algebraic unknown" if other.kind == "algebraic" else "a definition"
            reason = f"'{name}' is {kind} (line {other.name.line}), not a state"
        else:
            reason = f"'{name}' has no equation {name}' = ..."
        hint = nearest(name, rhs) or "; add the equation or remove this line"
        raise error_at(text, one.name, f"{reason}, so it takes no initial value{hint}")
    for name, one in rhs.items():
        if name not in initial:
            message = f"{name} has an equation {name}' = ... but no initial value"
            raise error_at(text, one.name, f'{message}; add "{name}(0) = ..."')


def _check_tables(text: str, tables: Collection[str], rhs: _Table, definitions: _Table) -> None:
    for name in tables:
        one = rhs.get(name) or definitions.get(name)
        if one is not None:
            raise error_at(text, one.name, f"'{name}' is a table too; a name has one meaning: rename one of the two")


def _called_tables(
    text: str,
    read: _Read,
    time: str,
    states: Collection[str],
    values: Collection[str],
    tables: Collection[str] | None,
) -> dict[str, None]:
    """Return the names of the tables that are called, in order of first appearance."""
    called: dict[str, None] = {}
    for right in (expression for one in read for expression in one.expressions):
        for node in walk(right):
            if not isinstance(node, Call) or node.token.value in FUNCTIONS:
                continue
            if node.token.value not in values and is_aggregate(node):
                continue
            if is_point(node, time) and (node.token.value in values or node.token.value in states):
                continue
            if state_at_start(node, states) is None:
                function_of_call(text, node, time=time, states=states, values=values, tables=tables)
                called[node.token.value] = None
    return called


def _parameters(
    text: str, read: _Read, time: str, rhs: _Table, definitions: _Table, tables: Collection[str]
) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for right in (expression for one in read for expression in one.expressions):
        for node in walk(right):
            if not isinstance(node, Name):
                continue
            name = node.token.value
            if name in names or name == time or name in rhs or name in definitions or name in CONSTANTS:
                continue
            if state_of_derivative(name) is not None:
                continue
            fault = fault_of_value(name, time, tables)
            if fault is not None:
                raise error_at(text, node.token, fault)
            names[name] = None
    return tuple(names)


def _used_names(formulas: _Table, states: Collection[str]) -> dict[str, list[str]]:
    """Return the names that each formula uses, initial values ``A(0)`` among them."""
    result = {}
    for name, one in formulas.items():
        used: dict[str, None] = {}
        for node in walk(one.right):
            state = state_at_start(node, states)
            if isinstance(node, Name) or state is not None:
                used[node.token.value if state is None else initial_name(state)] = None
        result[name] = list(used)
    return result


def _check_intervals(text: str, read: _Read, names: Mapping[str, list[str]], time: str) -> None:
    """Refuse aggregates over the interval of a measurement where there is no measurement."""
    intervals = {}
    for one in read:
        found = [call for root in one.expressions for call in aggregates_in(root) if is_interval(text, call, time)]
        if isinstance(one, Statement) and one.kind == "definition":
            inner = [call for outer in aggregates_in(one.right) for call in aggregates_in(outer)[1:]]
            if found:
                intervals[one.name.value] = found[0]
            found = [call for call in inner if is_interval(text, call, time)]
        for call in found:
            raise error_at(text, call.token, _no_interval(call, time))
    for one in read:
        is_definition = isinstance(one, Statement) and one.kind == "definition"
        roots = [call for root in one.expressions for call in aggregates_in(root)] if is_definition else one.expressions
        for node in (node for root in roots for node in walk(root)):
            chain = path_to([node.token.value], intervals, names) if isinstance(node, Name) else []
            if chain:
                raise error_at(text, node.token, f"'{node.token.value}': {_no_interval(intervals[chain[-1]], time)}")


def _no_interval(call: Call, time: str) -> str:
    name = call.token.value
    return (
        f"{name}(..., over={time}) is taken since the row of data before, which there is not here; give from=..., "
        f"{name}(..., over={time}, from=0) say"
    )


def _check_acyclic(text: str, definitions: _Table, names: Mapping[str, list[str]]) -> None:
    try:
        evaluation_order(names)
    except Cycle as cycle:
        place = definitions[cycle.names[0]].name
        message = f"{cycle.words} need each other; remove one of these uses"
        raise error_at(text, place, message) from None


def _check_initial_dependence(
    text: str, initial: _Table, varying: set[str], names: Mapping[str, list[str]], time: str
) -> None:
    for name, one in initial.items():
        chain = path_to(names[initial_name(name)], varying, names)
        if not chain:
            continue
        through = f" through {' -> '.join(chain[:-1])}" if len(chain) > 1 else ""
        culprit = "the independent variable" if chain[-1] == time else "the state"
        message = f"{name}(0) depends on {culprit} '{chain[-1]}'{through}"
        raise error_at(text, one.name, f"{message}; use numbers, parameters and definitions of these only")
