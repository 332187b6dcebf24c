"""Equations whose derivatives depend on each other: what is left without derivatives.

Rows ``sum_j B_ij x_j' = f_i`` whose coefficients are linearly dependent, sum_i m_i B_i = 0 whatever time, states and
parameters are, hide the algebraic equation 0 = sum_i m_i f_i.  (An amplifier has -C (x' - y') = f, C (x' - y') = g, so
that 0 = f + g.)  One of the rows, the last, is replaced by it; the others stay as they were written.

The rows are reduced to echelon form at random points (`odefit.model.residues`): row i minus m times the pivot row p,
m = B_ic / B_pc in the column c of the pivot.  A row of which nothing is left is dependent.  For such rows alone the
steps are repeated symbolically.  A multiplier that is the same simple fraction at all points is that number.

Definitions count as values of their own, since an experiment may replace them.  Rows that only the formulas of
definitions make dependent are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import casadi as ca
from casadi import SX

from odefit.model.arithmetic import add, divide, multiply, subtract
from odefit.model.generic_values import generic
from odefit.model.residues import Step, Values, as_fraction, echelon, residues


@dataclass(frozen=True, eq=False)
class Row:
    """An equation ``sum_j coefficients[j] * j' = rest``.

    Attributes
    ----------
    coefficients
        By state; none is the number zero.  Empty for an algebraic equation.
    rest
        Its right side.
    words
        How it is called in messages: its text, with the line.
    explicit
        Whether it was written ``x' = expr``.
    """

    coefficients: dict[str, SX]
    rest: SX
    words: str
    explicit: bool = False


def listed(words: Sequence[str], most: int = 6) -> str:
    """Join words with commas and an 'and'."""
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def without_dependent_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, explicit ones first, with algebraic equations in the place of dependent ones."""
    values = _values([row.coefficients for row in rows])
    if values is None:
        return list(rows)
    rows = [
        replace(row, coefficients={name: one for name, one in row.coefficients.items() if any(own[name])})
        for row, own in zip(rows, values, strict=True)
    ]
    found = echelon(values)
    symbolic = _Symbolic(rows, found.steps)
    return [
        symbolic.reduced(number) if row.coefficients and not found.reduced[number] else row
        for number, row in enumerate(rows)
    ]


def first_dependent(coefficients: Sequence[dict[str, SX]]) -> list[int]:
    """Return the numbers of rows whose coefficients depend on each other, the last one on the others; none if none."""
    values = _values(coefficients)
    if values is None:
        return []
    found = echelon(values)
    dependent = (number for number, left in enumerate(found.reduced) if coefficients[number] and not left)
    number = next(dependent, None)
    return [] if number is None else found.rows_of_zero(number)


def _values(coefficients: Sequence[dict[str, SX]]) -> list[dict[str, Values]] | None:
    """Return the values of coefficients at random points; None where there are none."""
    flat = [one for row in coefficients for one in row.values()]
    values = residues(generic(ca.vertcat(SX(0, 1), *flat)))
    if values is None:
        return None
    rest = iter(values)
    return [{name: next(rest) for name in row} for row in coefficients]


class _Symbolic:
    """The rows after reduction, as expressions, each made when it is asked for."""

    def __init__(self, rows: Sequence[Row], steps: Sequence[list[Step[str]]]) -> None:
        self._rows, self._steps = rows, steps
        self._made: dict[int, tuple[Row, frozenset[int]]] = {}

    def reduced(self, number: int) -> Row:
        """Return a row after its steps, with the words of all that entered it."""
        row, sources = self._of(number)
        words = listed([self._rows[one].words for one in sorted(sources)])
        return replace(row, words=f"what is left of {words} when their derivatives cancel")

    def _of(self, number: int) -> tuple[Row, frozenset[int]]:
        waiting = [number]
        while waiting:
            current = waiting[-1]
            lacking = [step.pivot for step in self._steps[current] if step.pivot not in self._made]
            if lacking:
                waiting.extend(lacking)
                continue
            waiting.pop()
            if current not in self._made:
                self._made[current] = self._make(current)
        return self._made[number]

    def _make(self, number: int) -> tuple[Row, frozenset[int]]:
        row, sources = self._rows[number], frozenset({number})
        for step in self._steps[number]:
            pivot, further = self._made[step.pivot]
            multiplier = _multiplier(row.coefficients[step.column], pivot.coefficients[step.column], step.multiplier)
            coefficients = {}
            for name in step.left:
                change = multiply(multiplier, pivot.coefficients.get(name, SX(0.0)))
                coefficients[name] = subtract(row.coefficients.get(name, SX(0.0)), change)
            row = replace(row, coefficients=coefficients, rest=_minus(row.rest, multiplier, pivot.rest), explicit=False)
            sources |= further
        return row, sources


def _multiplier(over: SX, under: SX, values: Values) -> SX:
    """Return over / under, as a number if it is a simple one."""
    if over.is_constant() and under.is_constant():
        return SX(float(over) / float(under))
    fraction = as_fraction(values)
    return divide(over, under) if fraction is None else SX(float(fraction))


def _minus(rest: SX, multiplier: SX, other: SX) -> SX:
    """Return rest - multiplier * other, without products by 1 and -1."""
    if multiplier.is_constant() and abs(float(multiplier)) == 1.0:
        return subtract(rest, other) if float(multiplier) > 0.0 else add(rest, other)
    return subtract(rest, multiply(multiplier, other))
