"""Python functions to equations: call them once with symbolic values and keep what they return."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import casadi as ca
import numpy as np
from casadi import SX

from odefit.errors import ModelError, OdefitError, nearest
from odefit.model.dependencies import path_to, symbols_in
from odefit.model.equations import Equations
from odefit.model.expression import Expression
from odefit.model.implicit import StructureFault, implicit_definitions
from odefit.model.lowering import Namespace, expression_from_text
from odefit.model.mass_rows import structured_rows
from odefit.model.names import checked_name, checked_time, initial_name, normal_form
from odefit.model.row_elimination import Row
from odefit.model.row_matching import MassFault
from odefit.model.table_calls import table_of_symbol
from odefit.model.traced_rows import rows_of_equations, rows_of_mass, rows_of_residuals

Traced = Callable[[Any, Any, Any], Mapping[str, Any]]
TracedMass = Callable[[Any, Any, Any], Mapping[str, Mapping[str, Any]]]
TracedResidual = Callable[[Any, Any, Any, Any], Mapping[str, Any]]
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


def trace_equations(
    rhs: Traced | None,
    states: Sequence[str],
    parameters: Sequence[str],
    initial: Initial,
    observables: Traced | None = None,
    time: str = "t",
    algebraic: Mapping[str, Any] | None = None,
    equations: Traced | None = None,
    mass: TracedMass | None = None,
    residual: TracedResidual | None = None,
) -> Equations:
    """Trace the functions of `Model.from_function`, which describes the arguments."""
    _check_functions(rhs, mass, residual)
    time = checked_time(time)
    state_names = _checked_names(states, "state", time)
    parameter_names = _checked_names(parameters, "parameter", time)
    unknown_names = _checked_names(algebraic or (), "algebraic unknown", time)
    symbols = {name: SX.sym(name) for name in (time, *state_names, *parameter_names, *unknown_names)}
    slopes = {name: SX.sym(f"{name}'") for name in state_names} if residual is not None else {}
    _refuse_repeated((*state_names, *parameter_names, *unknown_names))
    t = Expression(symbols[time])
    role = "state or algebraic unknown" if unknown_names else "state"
    y = Values(role, {name: symbols[name] for name in (*state_names, *unknown_names)})
    p = Values("parameter", {name: symbols[name] for name in parameter_names})

    right_sides: dict[str, SX] = {}
    if residual is not None:
        right_sides = _traced("residual", _call(residual, "residual", t, y, Values("derivative of a state", slopes), p))
    elif rhs is not None:
        returned = _call(rhs, "rhs", t, y, p)
        right_sides = _traced("rhs of", _by_state(returned, state_names, "rhs") if mass is None else returned)
    coefficients = {} if mass is None else _traced_mass(_call(mass, "mass", t, y, p))
    observed = {} if observables is None else _call(observables, "observables", t, y, p)
    definitions = {checked_name(name, "observable", time): one for name, one in _traced("observable", observed).items()}
    residuals = {} if equations is None else _traced("equation", _call(equations, "equations", t, y, p))
    named = (*state_names, *parameter_names, *unknown_names, *definitions)
    _refuse_repeated(named)
    tables = _unite_tables(right_sides, definitions, residuals, *coefficients.values())
    _refuse_repeated((*named, *tables))
    every = {**{f"equation {name}": one for name, one in residuals.items()}, **right_sides, **definitions}
    every |= {f"mass of {row}, {name}": one for row, entries in coefficients.items() for name, one in entries.items()}
    own_tables = {f"{name}()": one for name, one in tables.items()}
    _refuse_foreign(every, {**symbols, **own_tables, **{f"{name}'": one for name, one in slopes.items()}})

    symbols |= {name: SX.sym(name) for name in (*definitions, *map(initial_name, state_names))}
    initial_values = _by_state(_call(initial, "initial", p) if callable(initial) else initial, state_names, "initial")
    namespace = Namespace(time, state_names, symbols, tables)
    starts = {name: _value_at_start(value, "initial value", name, namespace) for name, value in initial_values.items()}
    guesses = {
        name: _value_at_start(value, "guess", name, namespace)
        for name, value in zip(unknown_names, (algebraic or {}).values(), strict=True)
    }
    _refuse_foreign({**starts, **guesses}, symbols)
    _refuse_varying("guess", guesses, dict.fromkeys(unknown_names, symbols[time]) | definitions, namespace)
    traced = _Traced(right_sides, residuals, definitions, starts, guesses, namespace)
    if mass is None and residual is None:
        return traced.with_blocks(parameter_names)
    if residual is not None:
        return traced.with_rows(parameter_names, rows_of_residuals(right_sides, slopes))
    by_row = {_normal(name): one for name, one in right_sides.items()}
    return traced.with_rows(parameter_names, rows_of_mass(by_row, coefficients, state_names))


@dataclass(frozen=True, eq=False)
class _Traced:
    """What the functions returned, checked; the namespace is that of the states with a derivative."""

    sides: dict[str, SX]
    residuals: dict[str, SX]
    definitions: dict[str, SX]
    starts: dict[str, SX]
    guesses: dict[str, SX]
    names: Namespace

    def with_blocks(self, parameters: tuple[str, ...]) -> Equations:
        """Return explicit differential equations, in which algebraic unknowns are solved for."""
        written = [(one, f"0 = ... of {name!r}") for name, one in self.residuals.items()]
        try:
            blocks, calls = implicit_definitions(self.guesses, written, self.definitions, self.names.symbols)
        except StructureFault as fault:
            where = "" if fault.equation is None else f"equation {list(self.residuals)[fault.equation]!r}: "
            raise ModelError(f"{where}{fault}") from None
        definitions = self.definitions | calls
        _refuse_varying("initial value", self.starts, definitions, self.names)
        return Equations(
            self.names.time, tuple(self.names.states), parameters, self.sides, self.starts, definitions,
            self.names.symbols, self.names.tables, algebraic=tuple(self.guesses), implicit=blocks,
        )  # fmt: skip

    def with_rows(self, parameters: tuple[str, ...], rows: list[Row]) -> Equations:
        """Return equations in several derivatives, of which algebraic unknowns are states."""
        states = (*self.names.states, *self.guesses)
        try:
            found = structured_rows(
                [*rows, *rows_of_equations(self.residuals)], states, self.names.symbols, self.definitions
            )
        except MassFault as fault:
            raise ModelError(str(fault)) from None
        _refuse_varying("initial value", self.starts, self.definitions, replace(self.names, states=states))
        return Equations(
            self.names.time, states, parameters, found.rhs, {**self.starts, **self.guesses}, self.definitions,
            self.names.symbols, self.names.tables, mass=found.mass, written=found.written,
        )  # fmt: skip


def _check_functions(rhs: object, mass: object, residual: object) -> None:
    """Refuse functions that say the same, or too little."""
    if residual is not None and (rhs is not None or mass is not None):
        raise ModelError("residual says all that rhs and mass do; give None for rhs, and no mass")
    if residual is None and rhs is None:
        raise ModelError("rhs is None; give the right sides, or a residual function")


def _traced(role: str, values: Mapping[str, Any]) -> dict[str, SX]:
    return {name: _traced_value(value, f"{role} {name!r}") for name, value in values.items()}


def _normal(name: object) -> str:
    return normal_form(str(name))


def _traced_mass(rows: Mapping[str, Any]) -> dict[str, dict[str, SX]]:
    for row, entries in rows.items():
        if not isinstance(entries, Mapping):
            raise ModelError(
                f"mass of row {row!r} has to be a dict from state to coefficient, got {_described(entries)}"
            )
    return {
        _normal(row): {_normal(name): one for name, one in _traced(f"mass of row {row!r},", entries).items()}
        for row, entries in rows.items()
    }


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


def _value_at_start(value: object, what: str, name: str, namespace: Namespace) -> SX:
    if isinstance(value, str):
        return expression_from_text(value, namespace)
    return _traced_value(value, f"{what} of {name!r}")


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
