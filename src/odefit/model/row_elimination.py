"""Equations whose derivatives depend on each other: what is left without derivatives.

Rows ``sum_j B_ij x_j' = f_i`` whose coefficients are linearly dependent, sum_i m_i B_i = 0 whatever time, states and
parameters are, hide the algebraic equation 0 = sum_i m_i f_i.  (An amplifier has -C (x' - y') = f, C (x' - y') = g, so
that 0 = f + g.)  One of the rows, the last, is replaced by it; the others stay as they were written.

The rows are reduced to echelon form at random samples (`odefit.model.generic_values`): row i minus m times the pivot
row p, m = B_ic / B_pc in the column c of the pivot.  What cancels at all samples is zero; a row of which nothing is
left is dependent.  For such rows alone the steps are repeated symbolically.  A multiplier that is the same number at
all samples is that number.

Definitions count as values of their own, since an experiment may replace them.  Rows that only the formulas of
definitions make dependent are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import NDArray

from odefit.model.arithmetic import add, divide, multiply, subtract
from odefit.model.generic_values import SAMPLES, generic, samples

_CANCELLED = 1e-9
"""Of its terms: smaller differences are rounding."""
_SAME = 1e-10

Values = NDArray[np.float64]


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


class _Step(NamedTuple):
    """Of the reduction of a row: minus `multiplier` times row `pivot`, which has its pivot in `column`."""

    pivot: int
    column: str
    multiplier: Values
    left: tuple[str, ...]


def without_dependent_rows(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, explicit ones first, with algebraic equations in the place of dependent ones."""
    echelon = _echelon([row.coefficients for row in rows])
    if echelon is None:
        return list(rows)
    steps, reduced = echelon
    symbolic = _Symbolic(rows, steps)
    return [
        symbolic.reduced(number) if row.coefficients and not reduced[number] else row for number, row in enumerate(rows)
    ]


def first_dependent(coefficients: Sequence[dict[str, SX]]) -> tuple[int, ...]:
    """Return the numbers of rows whose coefficients depend on each other, the last one on the others; () if none."""
    steps, reduced = _echelon(coefficients) or ([], [])
    for number, left in enumerate(reduced):
        if coefficients[number] and not left:
            involved, waiting = {number}, [number]
            for one in waiting:
                further = {step.pivot for step in steps[one]} - involved
                involved |= further
                waiting.extend(further)
            return tuple(sorted(involved))
    return ()


def _echelon(coefficients: Sequence[dict[str, SX]]) -> tuple[list[list[_Step]], list[dict[str, Values]]] | None:
    """Return the steps that reduce each row, and what is left of it; None where there are no finite samples."""
    values = _sampled(coefficients)
    if values is None:
        return None
    steps: list[list[_Step]] = []
    reduced: list[dict[str, Values]] = []
    pivot_of: dict[str, int] = {}
    for number, row in enumerate(values):
        left, taken = _reduced(row, reduced, pivot_of)
        steps.append(taken)
        reduced.append(left)
        if left:
            sizes = {name: np.abs(one) for name, one in left.items()}
            largest = np.max(list(sizes.values()), axis=0)
            pivot_of[max(sizes, key=lambda name: float(np.min(sizes[name] / largest)))] = number
    return steps, reduced


def _sampled(coefficients: Sequence[dict[str, SX]]) -> list[dict[str, Values]] | None:
    """Return the coefficients at all samples; None where they are never finite."""
    flat = [one for row in coefficients for one in row.values()]
    if not flat:
        return [{} for _ in coefficients]
    values = samples(generic(ca.vertcat(*flat)))
    if len(values) < SAMPLES:
        return None
    columns = iter(values.T)
    return [{name: next(columns) for name in row} for row in coefficients]


def _reduced(
    row: dict[str, Values], rows: Sequence[dict[str, Values]], pivot_of: dict[str, int]
) -> tuple[dict[str, Values], list[_Step]]:
    """Return what is left of a row after the pivots, and the steps that led there."""
    row, steps = dict(row), []
    while True:
        # a pivot row holds no pivot of those before it, so the first pivot goes first
        pivot, column = min(((pivot_of[name], name) for name in row if name in pivot_of), default=(-1, ""))
        if pivot < 0:
            return row, steps
        multiplier = row[column] / rows[pivot][column]
        for name, one in rows[pivot].items():
            before, change = row.get(name, np.zeros(SAMPLES)), multiplier * one
            after = before - change
            if name == column or np.all(np.abs(after) <= _CANCELLED * (np.abs(before) + np.abs(change))):
                row.pop(name, None)
            else:
                row[name] = after
        steps.append(_Step(pivot, column, multiplier, tuple(row)))


class _Symbolic:
    """The rows after reduction, as expressions, each made when it is asked for."""

    def __init__(self, rows: Sequence[Row], steps: Sequence[list[_Step]]) -> None:
        self._rows, self._steps = rows, steps
        self._made: dict[int, tuple[Row, frozenset[int]]] = {}

    def reduced(self, number: int) -> Row:
        """Return a row after its steps, with the words of all that entered it."""
        row, sources = self._of(number)
        words = " and ".join(self._rows[one].words for one in sorted(sources))
        return replace(row, words=f"{words}, of which the derivatives cancel")

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
    mean = float(np.mean(values))
    if np.all(np.abs(values - mean) <= _SAME * abs(mean)):
        return SX(float(f"{mean:.11g}"))
    return divide(over, under)


def _minus(rest: SX, multiplier: SX, other: SX) -> SX:
    """Return rest - multiplier * other, without products by 1 and -1."""
    if multiplier.is_constant() and abs(float(multiplier)) == 1.0:
        return subtract(rest, other) if float(multiplier) > 0.0 else add(rest, other)
    return subtract(rest, multiply(multiplier, other))
