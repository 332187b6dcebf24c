"""Tables as formulas, for integral matching, which evaluates and differentiates a model by CasADi.

A table of one argument becomes the polynomial of its interval, chosen by comparisons: a formula as long as the table.
Outside its knots it goes on with the first or last polynomial; whether that is allowed is seen by the fit.
"""

from __future__ import annotations

from typing import Any

import casadi as ca

from odefit.compile.table_data import polynomials
from odefit.errors import UnsupportedError
from odefit.model.implicit import is_block_symbol, unknowns_of_symbol
from odefit.model.table_calls import table_of_symbol, with_calls_replaced
from odefit.problem import Experiment, Problem, Table
from odefit.problem.resolution import resolve_in_experiment, symbol_of

MOST_ROWS = 200


def with_tables_written_out(problem: Problem, out: Any, experiment: Experiment) -> Any:
    """Return a column of resolved expressions with formulas in the place of the tables of `experiment`."""

    def formula(symbol: Any, arguments: tuple[Any, ...]) -> Any:
        if is_block_symbol(symbol.name()):
            unknown = unknowns_of_symbol(symbol.name())
            raise UnsupportedError(
                f"start values from the data (start = \"auto\") with the algebraic unknown '{unknown}'"
            )
        name = str(table_of_symbol(symbol.name()))
        table = problem.table(name, experiment)
        if table.arguments == 2 or table.x.size > MOST_ROWS:
            raise UnsupportedError(
                f"start values from the data (start = \"auto\") with the table '{name}', which has two arguments or "
                f"more than {MOST_ROWS} rows"
            )
        return resolve_in_experiment(problem, _formula(problem, table, arguments[0]), experiment)

    return with_calls_replaced(out, formula) if out.numel() else out


def _formula(problem: Problem, table: Table, x: Any) -> Any:
    coefficients = ca.SX(polynomials(table))
    for name in table.names:
        coefficients += symbol_of(problem, name) * polynomials(table, name)
    knots = table.x.tolist()
    value = _polynomial(coefficients[0, :], x - knots[0])
    for i, knot in enumerate(knots):
        value = ca.if_else(x >= knot, _polynomial(coefficients[i + 1, :], x - knot), value)
    return value


def _polynomial(coefficients: Any, s: Any) -> Any:
    """Return the polynomial with these coefficients, ascending; those that are zero leave nothing behind."""
    result = ca.SX(0)
    for k in reversed(range(4)):
        result = result * s + coefficients[k]
    return result
