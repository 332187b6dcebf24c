"""Equations in several derivatives: ``Model.mass``.

A model with states y has one row for each state, named by that state:

    sum_j mass[row][j] * j' = rhs[row].

* A state that is no key of `mass` has the explicit row ``x' = rhs[x]``.
* A key with coefficients is a differential row.  The state that names it is one whose derivative stands in it.
* A key with an empty mapping is an algebraic row, 0 = rhs[row].  The state that names it stands in the right side.

Coefficients are SX in the symbols of the model, with definitions as symbols, exactly like right sides: they may depend
on time, states, parameters, definitions and tables.  None is the number zero.  Held states always have explicit rows.

The rows come out of `structured_rows`:

1. Rows whose coefficients depend on each other become algebraic ones (`odefit.model.row_elimination`): the differential
   rows that are left are linearly independent, for almost all values of what stands in them.
2. Each row gets a state (`odefit.model.row_matching`), such that differential rows and the derivatives of algebraic
   rows by the states are a matrix with these entries on its diagonal, which is regular for almost all values: index 1.
3. A row ``c*x' = f`` with a number c that is named x becomes explicit, x' = f/c.

For single values (a capacity that an experiment sets to zero) rows may still become dependent: run time has to tell.

`written` holds the words for the rows in `mass`, text and line, to be used in messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from casadi import SX

from odefit.model.arithmetic import divide
from odefit.model.generic_values import inlined
from odefit.model.row_elimination import Row, first_dependent, listed, without_dependent_rows
from odefit.model.row_matching import MassFault, check_index, matched_states


class Structured(NamedTuple):
    """Right sides of all rows, coefficients and words of those that are not explicit; in the order of the states."""

    rhs: dict[str, SX]
    mass: dict[str, dict[str, SX]]
    written: dict[str, str]


def structured_rows(
    rows: Sequence[Row], states: Sequence[str], symbols: Mapping[str, SX], definitions: Mapping[str, SX]
) -> Structured:
    """Return rows named by states; raise MassFault where these are not determined.

    Parameters
    ----------
    rows
        The equations, as many as `states`.
    states
        All unknowns.
    symbols, definitions
        Of the model.
    """
    if len(rows) != len(states):
        raise MassFault(_numbers_differ(rows, states))
    rows = sorted(rows, key=lambda row: not row.explicit)  # stable
    rows = without_dependent_rows(rows)
    coefficients = _coefficients(rows, symbols, definitions)
    dependent = first_dependent(coefficients)
    if dependent:
        raise MassFault(_only_by_definitions([rows[k] for k in dependent]), dependent[-1])
    sides = inlined([row.rest for row in rows], definitions, symbols)
    members = [symbols[name] for name in states]
    names = matched_states(rows, sides, states, members)
    check_index(rows, coefficients, sides, states, members)
    return _by_state(dict(zip(names, rows, strict=True)), states)


def _coefficients(rows: Sequence[Row], symbols: Mapping[str, SX], definitions: Mapping[str, SX]) -> list[dict[str, SX]]:
    """Return the coefficients of each row with definitions put in."""
    flat = [one for row in rows for one in row.coefficients.values()]
    values = iter(inlined(flat, definitions, symbols))
    return [{name: next(values) for name in row.coefficients} for row in rows]


def _by_state(by_name: Mapping[str, Row], states: Sequence[str]) -> Structured:
    found = Structured({}, {}, {})
    for name in states:
        row = by_name[name]
        factor = row.coefficients.get(name) if len(row.coefficients) == 1 else None
        if factor is not None and factor.is_constant():
            found.rhs[name] = row.rest if float(factor) == 1.0 else divide(row.rest, factor)
            continue
        found.rhs[name], found.mass[name], found.written[name] = row.rest, row.coefficients, row.words
    return found


def _only_by_definitions(rows: Sequence[Row]) -> str:
    return (
        f"the derivatives in {listed([row.words for row in rows])} depend on each other through definitions, which an "
        "experiment may replace; write the coefficients out, without these definitions"
    )


def _numbers_differ(rows: Sequence[Row], states: Sequence[str]) -> str:
    advice = "add equations, or remove unknowns" if len(rows) < len(states) else "remove equations, or add unknowns"
    unknowns = f"{len(states)} unknown{'s' * (len(states) != 1)} ({listed(list(states), 20)})"
    equations = f"{_counted(len(rows), 'equation')} ({listed([row.words for row in rows], 20)})"
    return f"there {equations} for {unknowns}; their numbers must match: {advice}"


def _counted(count: int, what: str) -> str:
    return f"is 1 {what}" if count == 1 else f"are {count} {what}s"
