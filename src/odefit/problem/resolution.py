"""What an expression comes to: definitions, parameters that are computed, and what experiments replace put in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import casadi as ca

from odefit.model.implicit import is_block_symbol, unknowns_of_symbol
from odefit.model.table_calls import table_of_symbol
from odefit.problem.experiments import Experiment

if TYPE_CHECKING:
    from odefit.problem.problem import Problem


def symbol_of(problem: Problem, name: str) -> Any:
    """Return the symbol of a parameter, the model's or the problem's own."""
    return problem.model.symbols[name] if name in problem.model.symbols else problem.own_symbols[name]


def names_in(expression: Any) -> set[str]:
    """Return the names of the symbols that stand in an expression; tables and blocks of unknowns are none."""
    names = {symbol.name() for symbol in ca.symvar(ca.SX(expression))}
    return {name for name in names if table_of_symbol(name) is None and not is_block_symbol(name)}


def tables_in(expression: Any) -> set[str]:
    """Return the names of the tables that are called in an expression."""
    tables = (table_of_symbol(symbol.name()) for symbol in ca.symvar(ca.SX(expression)))
    return {name for name in tables if name is not None}


def unknowns_in(expression: Any) -> set[str]:
    """Return the blocks of algebraic unknowns in a resolved expression, by the names of their unknowns."""
    names = {symbol.name() for symbol in ca.symvar(ca.SX(expression))}
    return {unknowns_of_symbol(name) for name in names if is_block_symbol(name)}


def computed_parameters(problem: Problem) -> dict[str, Any]:
    """Return the parameters of the model that are defined by an expression."""
    return {
        p.name: problem.expression(p.expression)
        for p in problem.parameters
        if p.expression is not None and p.name in problem.model.parameters
    }


def resolved(
    problem: Problem,
    expressions: list[Any],
    replacing: Mapping[str, Any],
    keeping: Collection[str] = (),
    *,
    at_start: bool = False,
) -> list[Any]:
    """Inline the definitions of the model, with `replacing` for some of them, and the computed parameters.

    Parameters of the problem's own that are computed come first: what they are made of may be replaced.  `at_start`
    puts in the initial values of held states, as initial values and times of events need it.
    """
    values = dict(zip(replacing, _with_own(problem, list(replacing.values())), strict=True))
    return problem.model.resolve(_with_own(problem, expressions), values, keeping, at_start=at_start)


def _with_own(problem: Problem, expressions: list[Any]) -> list[Any]:
    """Put in parameters of the problem's own that are defined by expressions."""
    texts = {p.name: p.expression for p in problem.parameters if p.expression and p.name in problem.own_symbols}
    symbols = [problem.own_symbols[name] for name in texts]
    values = [problem.expression(text) for text in texts.values()]
    for _ in range(len(texts)):  # an expression may use another one; chains are at most this long
        expressions = list(ca.substitute(expressions, symbols, values))
    return expressions


def resolve_in_experiment(
    problem: Problem, expression: Any, experiment: Experiment | None, *, at_start: bool = False
) -> Any:
    """Return `expression` in the parameters, with what `experiment` replaces (None: nothing) put in."""
    replacing = computed_parameters(problem)
    for name, value in experiment.overrides.items() if experiment else ():
        replacing[name] = problem.expression(value) if isinstance(value, str) else ca.SX(float(value))
    return resolved(problem, [expression], replacing, at_start=at_start)[0]
