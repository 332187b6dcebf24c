"""Python functions to equations: call them once with symbolic values and keep what they return."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import casadi as ca
import numpy as np
from casadi import SX

from odefit.errors import ModelError, OdefitError, nearest
from odefit.model.conserved_totals import checked_totals
from odefit.model.dependencies import path_to, symbols_in
from odefit.model.equations import Equations
from odefit.model.expression import Expression
from odefit.model.foreign import Foreign
from odefit.model.implicit import StructureFault, implicit_definitions
from odefit.model.lowering import Namespace, expression_from_text
from odefit.model.names import checked_name, checked_time, initial_name, normal_form
from odefit.model.table_calls import table_of_symbol

Traced = Callable[[Any, Any, Any], Mapping[str, Any]]
Observables = Traced | Mapping[str, Any]
Initial = Mapping[str, Any] | Callable[[Any], Mapping[str, Any]]


class Values:
    """What a traced function receives: `y.name` or `y["name"]` is an Expression."""

    __slots__ = ("__expressions", "__role")

    def __init__(self, role: str, symbols: Mapping[str, SX]) -> None:
        # past __setattr__, which refuses
        object.__setattr__(self, "_Values__role", role)
        expressions = {name: Expression(symbol) for name, symbol in symbols.items()}
        object.__setattr__(self, "_Values__expressions", expressions)

    def __getitem__(self, name: str) -> Expression:
        try:
            return self.__expressions[normal_form(name)]
        except (KeyError, AttributeError):
            known = self.__expressions
            hint = nearest(name, known) if isinstance(name, str) else f"; use names such as {next(iter(known), '')!r}"
            raise ModelError(f"the model has no {self.__role} {name!r}{hint}") from None

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("__") and name.endswith("__"):
            # protocols of Python and numpy ask for these, and take AttributeError for no
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise ModelError(f"{self.__role} {name!r} cannot be assigned to; bind a new variable")

    def __setitem__(self, name: str, value: object) -> NoReturn:
        raise ModelError(f"{self.__role} {name!r} cannot be assigned to; bind a new variable")

    def __iter__(self) -> NoReturn:
        raise ModelError(f"a {self.__role} is reached by its name (y.name or y['name']), not by its place")


def foreign_equations(
    function: Any,
    states: Sequence[str],
    parameters: Sequence[str],
    initial: Initial,
    observables: Observables | None,
    time: str,
    further_parameters: Sequence[str],
    *,
    autonomous: bool,
    conserved: Sequence[Mapping[str, float]],
) -> Equations:
    """Return the equations of `Model.from_callable`, which describes the arguments."""
    from odefit.native.foreign_function import check_form

    time = checked_time(time)
    state_names = _checked_names(states, "state", time)
    if not state_names:
        raise ModelError("a function needs a state of which it gives the derivative; name it in states")
    check_form(function)
    totals = checked_totals(conserved, state_names)
    foreign = Foreign(function, state_names, _checked_names(parameters, "parameter", time), autonomous, totals)
    every = (*foreign.parameters, *_checked_names(further_parameters, "parameter", time))
    return trace_equations(foreign, state_names, every, initial, observables, time)


def trace_equations(
    rhs: Traced | Foreign,
    states: Sequence[str],
    parameters: Sequence[str],
    initial: Initial,
    observables: Observables | None = None,
    time: str = "t",
    algebraic: Mapping[str, Any] | None = None,
    equations: Traced | None = None,
) -> Equations:
    """Trace the functions of `Model.from_function`, which describes the arguments."""
    time = checked_time(time)
    state_names = _checked_names(states, "state", time)
    parameter_names = _checked_names(parameters, "parameter", time)
    unknown_names = _checked_names(algebraic or (), "algebraic unknown", time)
    symbols = {name: SX.sym(name) for name in (time, *state_names, *parameter_names, *unknown_names)}
    _refuse_repeated((*state_names, *parameter_names, *unknown_names))
    t = Expression(symbols[time])
    role = "state or algebraic unknown" if unknown_names else "state"
    y = Values(role, {name: symbols[name] for name in (*state_names, *unknown_names)})
    p = Values("parameter", {name: symbols[name] for name in parameter_names})

    if isinstance(rhs, Foreign):
        right_sides = rhs.derivatives(symbols[time], symbols)
    else:
        derivatives = _by_state(_call(rhs, "rhs", t, y, p), state_names, "rhs")
        right_sides = {name: _traced_value(value, f"rhs of {name!r}") for name, value in derivatives.items()}
    observed = _call(observables, "observables", t, y, p) if callable(observables) else observables or {}
    as_text = {name: SX.sym(name) for name in (*observed, *map(initial_name, state_names)) if not callable(observables)}
    written = Namespace(time, state_names, {**symbols, **as_text}) if as_text else None
    definitions = {
        checked_name(name, "observable", time): _value_in_text(value, f"observable {name!r}", written)
        for name, value in observed.items()
    }
    zeros = {} if equations is None else _call(equations, "equations", t, y, p)
    residuals = {str(name): _traced_value(value, f"equation {name!r}") for name, value in zeros.items()}
    named = (*state_names, *parameter_names, *unknown_names, *definitions)
    _refuse_repeated(named)
    tables = _unite_tables(right_sides, definitions, residuals)
    _refuse_repeated((*named, *tables))
    every = {**{f"equation {name}": one for name, one in residuals.items()}, **right_sides, **definitions}
    called = {"rhs~": rhs.symbol} if isinstance(rhs, Foreign) else {}
    _refuse_foreign(every, {**symbols, **as_text, **called, **{f"{name}()": one for name, one in tables.items()}})

    symbols |= {
        name: as_text[name] if name in as_text else SX.sym(name)
        for name in (*definitions, *map(initial_name, state_names))
    }
    initial_values = _by_state(_call(initial, "initial", p) if callable(initial) else initial, state_names, "initial")
    namespace = Namespace(time, state_names, symbols, tables)
    starts = {
        name: _value_in_text(value, f"initial value of {name!r}", namespace) for name, value in initial_values.items()
    }
    guesses = {
        name: _value_in_text(value, f"guess of {name!r}", namespace)
        for name, value in zip(unknown_names, (algebraic or {}).values(), strict=True)
    }
    _refuse_foreign({**starts, **guesses}, symbols)
    _refuse_varying("guess", guesses, dict.fromkeys(unknown_names, symbols[time]) | definitions, namespace)
    try:
        blocks, calls = implicit_definitions(
            guesses, [(one, f"0 = ... of {name!r}") for name, one in residuals.items()], definitions, symbols
        )
    except StructureFault as fault:
        where = "" if fault.equation is None else f"equation {list(residuals)[fault.equation]!r}: "
        raise ModelError(f"{where}{fault}") from None
    definitions |= calls
    _refuse_varying("initial value", starts, definitions, namespace)
    return Equations(
        time, state_names, parameter_names, right_sides, starts, definitions, symbols, tables,
        algebraic=unknown_names, implicit=blocks, foreign=(rhs,) if isinstance(rhs, Foreign) else (),
    )  # fmt: skip


def _unite_tables(*groups: dict[str, SX]) -> dict[str, SX]:
    """Give the calls of each table one symbol; return these symbols."""
    tables: dict[str, SX] = {}
    for expressions in groups:
        for key, sx in expressions.items():
            found = [one for one in symbols_in(sx) if table_of_symbol(one.name()) is not None]
            for symbol in found:
                name = str(table_of_symbol(symbol.name()))
                expressions[key] = ca.substitute(expressions[key], symbol, tables.setdefault(name, symbol))
    return tables


def _checked_names(names: Iterable[str], role: str, time: str) -> tuple[str, ...]:
    if isinstance(names, str):
        raise ModelError(f"{role}s are given as a list of names, got the text {names!r}")
    return tuple(checked_name(name, role, time) for name in names)


def _refuse_repeated(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ModelError(f"the name {name!r} is given twice; a name has one meaning")
        seen.add(name)


def _call(function: Callable[..., Any], role: str, *arguments: object) -> Mapping[str, Any]:
    try:
        result = function(*arguments)
    except OdefitError:
        raise
    except Exception as error:
        raise ModelError(f"the {role} function raised {type(error).__name__}: {error}") from error
    if not isinstance(result, Mapping):
        raise ModelError(f"the {role} function has to return a dict from name to value, got {_described(result)}")
    return result


def _by_state(values: object, states: Sequence[str], role: str) -> dict[str, Any]:
    """Return `values` in the order of the states, which they must match."""
    if not isinstance(values, Mapping):
        raise ModelError(f"{role} has to be a dict from state to value, got {_described(values)}")
    known = set(states)
    by_name = {normal_form(name) if isinstance(name, str) else name: value for name, value in values.items()}
    for name in by_name:
        if name not in known:
            hint = nearest(name, states) if isinstance(name, str) else ""
            raise ModelError(f"{role} gives a value for {name!r}, which is not a state{hint}")
    missing = [name for name in states if name not in by_name]
    if missing:
        raise ModelError(f"{role} gives no value for {', '.join(map(repr, missing[:5]))}; every state needs one")
    return {name: by_name[name] for name in states}


def _traced_value(value: object, what: str) -> SX:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, Expression):
        return value.sx
    if isinstance(value, int | float | np.integer | np.floating | np.bool_):
        number = float(value)
        if not math.isfinite(number):
            raise ModelError(f"{what} is {number}; a finite number or an expression is needed")
        return SX(number)
    raise ModelError(f"{what} has to be an expression or a number, got {_described(value)}")


def _value_in_text(value: object, what: str, namespace: Namespace | None) -> SX:
    if isinstance(value, str) and namespace is not None:
        return expression_from_text(value, namespace)
    return _traced_value(value, what)


def _refuse_foreign(expressions: Mapping[str, SX], symbols: Mapping[str, SX]) -> None:
    """Refuse symbols of another trace; all expressions at once, since a single search costs 20 us."""
    hashes = {symbol.element_hash() for symbol in symbols.values()}
    if all(symbol.element_hash() in hashes for symbol in symbols_in(ca.vertcat(SX(), *expressions.values()))):
        return
    for name, sx in expressions.items():
        if any(symbol.element_hash() not in hashes for symbol in symbols_in(sx)):
            raise ModelError(f"{name!r} uses an expression that was kept from another model; compute it anew")


def _refuse_varying(what: str, starts: Mapping[str, SX], definitions: Mapping[str, SX], namespace: Namespace) -> None:
    """Refuse initial values or guesses that depend on time or states, also through definitions."""
    varying = {namespace.time, *namespace.states}
    needs = {name: [symbol.name() for symbol in symbols_in(sx)] for name, sx in definitions.items()}
    for name, sx in starts.items():
        used = [] if sx.is_constant() else [symbol.name() for symbol in symbols_in(sx)]
        chain = path_to(used, varying, needs)
        if chain:
            message = f"the {what} of {name!r} depends on {' -> '.join(map(repr, chain))}"
            raise ModelError(f"{message}, which varies in time; use numbers and parameters only")


def _described(value: object) -> str:
    return "None (is a return missing?)" if value is None else f"a {type(value).__name__}"
