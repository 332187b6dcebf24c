"""Equations in several derivatives from traced functions: what these returned becomes rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from casadi import SX

from odefit.errors import ModelError, nearest
from odefit.model.arithmetic import negate
from odefit.model.linear_terms import is_zero, terms_of_expression
from odefit.model.row_elimination import Row

_ADVICE = "introduce an unknown: algebraic={'v': 0}, ydot.x - y.v, and the equation in y.v"


def rows_of_mass(
    sides: Mapping[str, SX], coefficients: Mapping[str, Mapping[str, SX]], states: Collection[str]
) -> list[Row]:
    """Return the rows of `rhs` and `mass`; one that `mass` lacks is explicit if it has the name of a state."""
    for row, entries in coefficients.items():
        if row not in sides:
            raise ModelError(f"mass has a row {row!r}, for which rhs gives no right side{nearest(row, sides)}")
        for name in entries:
            if name not in states:
                raise ModelError(
                    f"mass has a derivative of {name!r} in row {row!r}, which is not a state{nearest(name, states)}"
                )
    rows = []
    for row, side in sides.items():
        explicit = row not in coefficients and row in states
        own = {row: SX(1.0)} if explicit else dict(coefficients.get(row, {}))
        rows.append(Row({name: one for name, one in own.items() if not is_zero(one)}, side, repr(row), explicit))
    return rows


def rows_of_residuals(residuals: Mapping[str, SX], derivatives: Mapping[str, SX]) -> list[Row]:
    """Return the rows of residuals in the symbols `derivatives`, by state."""
    rows = []
    for name, one in residuals.items():
        terms = terms_of_expression(one, derivatives)
        if terms is None:
            raise ModelError(f"residual {name!r} is not linear in ydot; {_ADVICE}")
        rows.append(Row(terms.coefficients, negate(terms.rest), repr(name)))
    return rows


def rows_of_equations(equations: Mapping[str, SX]) -> list[Row]:
    """Return the rows of algebraic equations."""
    return [Row({}, one, repr(name)) for name, one in equations.items()]
