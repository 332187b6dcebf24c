"""Equation text to equations: collect the statements, check them against each other, build SX."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from casadi import SX

from odefit.errors import LanguageError, nearest
from odefit.model.calls import function_of_call
from odefit.model.dependencies import Cycle, evaluation_order, path_to
from odefit.model.equations import Equations
from odefit.model.event_statements import EventStatement, is_event, read_event
from odefit.model.functions import FUNCTIONS
from odefit.model.holding import Holding, check_targets, check_times, refuse_tables_in_times, time_events
from odefit.model.lowering import Namespace, fault_of_value, lower
from odefit.model.names import CONSTANTS, checked_time
from odefit.model.nodes import Call, Name, walk
from odefit.model.statements import Statement, read_statement
from odefit.model.table_calls import table_symbol
from odefit.model.tokens import error_at, statements

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
    read: _Read = [
        read_event(text, tokens, time) if is_event(tokens) else read_statement(text, tokens, time)
        for tokens in statements(text)
    ]
    events = [one for one in read if isinstance(one, EventStatement)]
    rhs = _of_kind(text, read, "derivative")
    definitions = _of_kind(text, read, "definition")
    initial = _of_kind(text, read, "initial")
    if not rhs and not definitions and not initial:
        raise LanguageError("the text holds no equation; write x' = ... and x(0) = ..., or name = ...")
    _check_one_meaning(text, rhs, definitions)
    _check_initial_values(text, rhs, definitions, initial)
    _check_tables(text, tables or (), rhs, definitions)
    parameters = _parameters(text, read, time, rhs, definitions, tables or ())
    called = _called_tables(text, read, time, rhs, {*parameters, *definitions}, tables)
    names = _used_names(definitions.values())
    _check_acyclic(text, definitions, names)
    _check_initial_dependence(text, initial, {time, *rhs}, names, time)
    check_targets(text, events, rhs, (*parameters, *definitions), {*(tables or ()), *called})
    check_times(text, events, time, rhs, names)
    refuse_tables_in_times(text, events, called)

    symbols = {name: SX.sym(name) for name in (time, *rhs, *parameters, *definitions)}
    table_symbols = {name: table_symbol(name) for name in (tables if tables is not None else called)}
    holding = Holding.of(events, parameters, definitions, symbols)
    before = Namespace(time, rhs.keys(), symbols, table_symbols)
    namespace = Namespace(time, rhs.keys(), {**symbols, **holding.parameters}, table_symbols)
    return Equations(
        time=time,
        states=(*rhs, *holding.symbols),
        parameters=parameters,
        rhs={name: lower(text, one.right, namespace) for name, one in rhs.items()}
        | dict.fromkeys(holding.symbols, SX(0.0)),
        initial={name: lower(text, initial[name].right, before) for name in rhs} | dict(holding.initial),
        definitions={
            name: holding.definition(name, lower(text, one.right, namespace)) for name, one in definitions.items()
        },
        symbols={**symbols, **holding.symbols},
        tables={name: table_symbols[name] for name in called},
        events=time_events(text, events, holding, before, namespace),
        held=tuple(holding.symbols),
    )


def _of_kind(text: str, read: _Read, kind: str) -> dict[str, Statement]:
    written = {"derivative": "{}' = ...", "initial": "{}(0) = ...", "definition": "{} = ..."}[kind]
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


def _check_one_meaning(text: str, rhs: _Table, definitions: _Table) -> None:
    for name in rhs:
        if name in definitions:
            places = [(rhs[name].name, f"{name}' = ..."), (definitions[name].name, f"{name} = ...")]
            (first, earlier), (second, later) = sorted(places, key=lambda place: place[0].line)
            message = f"'{later}' contradicts '{earlier}' in line {first.line}; a name has one meaning"
            raise error_at(text, second, f"{message}: rename or remove one")


def _check_initial_values(text: str, rhs: _Table, definitions: _Table, initial: _Table) -> None:
    for name, one in initial.items():
        if name in rhs:
            continue
        if name in definitions:
            reason = f"'{name}' is a definition (line {definitions[name].name.line}), not a state"
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
            if isinstance(node, Call) and node.token.value not in FUNCTIONS:
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
            fault = fault_of_value(name, time, tables)
            if fault is not None:
                raise error_at(text, node.token, fault)
            names[name] = None
    return tuple(names)


def _used_names(read: Iterable[Statement]) -> dict[str, list[str]]:
    return {
        one.name.value: list(dict.fromkeys(node.token.value for node in walk(one.right) if isinstance(node, Name)))
        for one in read
    }


def _check_acyclic(text: str, definitions: _Table, names: Mapping[str, list[str]]) -> None:
    try:
        evaluation_order(names)
    except Cycle as cycle:
        place = definitions[cycle.names[0]].name
        message = f"the definitions {cycle} need each other; remove one of these uses"
        raise error_at(text, place, message) from None


def _check_initial_dependence(
    text: str, initial: _Table, varying: set[str], names: Mapping[str, list[str]], time: str
) -> None:
    used_names = _used_names(initial.values())
    for name, one in initial.items():
        chain = path_to(used_names[name], varying, names)
        if not chain:
            continue
        through = f" through {' -> '.join(chain[:-1])}" if len(chain) > 1 else ""
        culprit = "the independent variable" if chain[-1] == time else "the state"
        message = f"{name}(0) depends on {culprit} '{chain[-1]}'{through}"
        raise error_at(text, one.name, f"{message}; use numbers, parameters and definitions of these only")
