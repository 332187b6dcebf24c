"""Values of rational expressions at random points modulo a prime, and elimination with them: exact.

Whether coefficients cancel cannot be seen from numbers with rounding errors: beside a parameter C, which is 1 in a
sample and 1e-12 in truth, the number 1e-12 is not to be lost.  Modulo a prime P = 2^61 - 1 there is no rounding.  A
rational expression that is not zero identically is zero at a random point with a probability of about 1/P (Schwartz and
Zippel).  A number with decimals is the fraction that is meant, 0.3 is 3/10.  A divisor that is zero at a point makes
that point useless; if this happens at several, no point serves.

Each value is a pair, at two points, so that what does not depend on the point is seen as well.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Generic, NamedTuple, TypeVar

import casadi as ca
import numpy as np
from casadi import SX

from odefit.model.dependencies import symbols_in

PRIME = 2**61 - 1
_TRIALS = 4
_SEED = 20_011
_DIGITS = 15
_MEANT = 1000  # denominators up to which a number is the fraction that it is next to
_LARGEST_NUMERATOR, _LARGEST_DENOMINATOR = 1 << 20, 1 << 12

Values = tuple[int, int]
K = TypeVar("K", bound=Hashable)


def residues(out: SX) -> list[Values] | None:
    """Return the values of a column of rational expressions at two random points; None where there are none."""
    rng = random.Random(_SEED)
    symbols = symbols_in(out)
    function = ca.Function("values", [ca.vertcat(SX(0, 1), *symbols)], [ca.densify(out)])
    found: list[list[int]] = []
    for _ in range(_TRIALS):
        try:
            found.append(_at_point(function, out.numel(), [rng.randrange(1, PRIME) for _ in symbols]))
        except ZeroDivisionError:
            continue
        if len(found) == 2:
            return list(zip(*found, strict=True))
    return None


def _at_point(function: ca.Function, n: int, point: Sequence[int]) -> list[int]:
    register: dict[int, int] = {}
    result = [0] * n
    for k in range(function.n_instructions()):
        operation, places = function.instruction_id(k), function.instruction_input(k)
        target = function.instruction_output(k)
        if operation == ca.OP_OUTPUT:
            result[target[1]] = register[places[0]]
        elif operation == ca.OP_CONST:
            register[target[0]] = _of_number(function.instruction_constant(k))
        elif operation == ca.OP_INPUT:
            register[target[0]] = point[places[1]]
        else:
            register[target[0]] = _applied(operation, [register[place] for place in places])
    return result


def _of_number(number: float) -> int:
    if not np.isfinite(number):
        raise ZeroDivisionError
    simple = Fraction(number).limit_denominator(_MEANT)
    meant = simple if float(simple) == number else Fraction(f"{number:.{_DIGITS}g}")
    return meant.numerator % PRIME * pow(meant.denominator, -1, PRIME) % PRIME


def _applied(operation: int, parts: list[int]) -> int:
    a, b = parts[0], parts[-1]
    if operation == ca.OP_ADD:
        return (a + b) % PRIME
    if operation == ca.OP_SUB:
        return (a - b) % PRIME
    if operation == ca.OP_NEG:
        return -a % PRIME
    if operation == ca.OP_TWICE:
        return 2 * a % PRIME
    if operation in (ca.OP_MUL, ca.OP_SQ):
        return a * b % PRIME
    if operation == ca.OP_DIV:
        return divided(a, b)
    if operation == ca.OP_INV:
        return divided(1, a)
    raise AssertionError(f"operation {operation} is not rational")


def divided(a: int, b: int) -> int:
    """Return a / b; raise ZeroDivisionError for b = 0."""
    if b == 0:
        raise ZeroDivisionError
    return a * pow(b, -1, PRIME) % PRIME


def as_fraction(values: Values) -> Fraction | None:
    """Return the simple fraction that a value is at both points, None if there is none.

    Any other value would be taken for one with a probability of 2^33 / P, 4e-9: so few are simple.
    """
    if values[0] != values[1]:
        return None
    # Euclid's algorithm passes through the fraction of which numerator and denominator are both small (Wang)
    before, now, factor_before, factor = PRIME, values[0], 0, 1
    while now >= _LARGEST_NUMERATOR:
        quotient = before // now
        before, now, factor_before, factor = now, before - quotient * now, factor, factor_before - quotient * factor
    return Fraction(now, factor) if abs(factor) < _LARGEST_DENOMINATOR else None


class Step(NamedTuple, Generic[K]):
    """Of the reduction of a row: minus `multiplier` times row `pivot`, with its pivot in `column`; what is `left`."""

    pivot: int
    column: K
    multiplier: Values
    left: tuple[K, ...]


class Echelon(NamedTuple, Generic[K]):
    """Rows reduced one after the other: the steps of each, what is left of it, and the column of each pivot."""

    steps: list[list[Step[K]]]
    reduced: list[dict[K, Values]]
    pivots: dict[K, int]

    def rows_of_zero(self, number: int) -> list[int]:
        """Return the rows of which row `number`, with nothing left, is a combination, itself among them."""
        combination = {number: 1}
        for one in sorted(range(number + 1), reverse=True):
            for step in self.steps[one] if combination.get(one) else ():
                change = combination[one] * step.multiplier[0]
                combination[step.pivot] = (combination.get(step.pivot, 0) - change) % PRIME
        return sorted(one for one, factor in combination.items() if factor)

    def null_columns(self, free: K) -> list[K]:
        """Return the columns of the combination of columns that is zero and holds `free`, which has no pivot."""
        values = {free: 1}
        for column, row in sorted(self.pivots.items(), key=lambda entry: -entry[1]):
            others = ((name, one[0]) for name, one in self.reduced[row].items() if name != column)
            total = sum(one * values.get(name, 0) for name, one in others)
            values[column] = divided(-total % PRIME, self.reduced[row][column][0])
        return [name for name, one in values.items() if one]


def echelon(rows: Sequence[Mapping[K, Values]]) -> Echelon[K]:
    """Reduce rows, which hold their values by column; zeros are left out."""
    found: Echelon[K] = Echelon([], [], {})
    for number, row in enumerate(rows):
        left, steps = {name: one for name, one in row.items() if any(one)}, list[Step[K]]()
        while True:
            # a pivot row holds no pivot of those before it, so the first pivot goes first
            present = [(found.pivots[name], name) for name in left if name in found.pivots]
            if not present:
                break
            pivot, column = min(present, key=lambda one: one[0])
            other = found.reduced[pivot]
            multiplier = (divided(left[column][0], other[column][0]), divided(left[column][1], other[column][1]))
            for name, one in other.items():
                after = _minus(left.get(name, (0, 0)), multiplier, one)
                if any(after):
                    left[name] = after
                else:
                    left.pop(name, None)
            steps.append(Step(pivot, column, multiplier, tuple(left)))
        found.steps.append(steps)
        found.reduced.append(left)
        pivot_columns = [name for name, one in left.items() if all(one)]
        if pivot_columns:
            found.pivots[pivot_columns[0]] = number
    return found


def _minus(a: Values, multiplier: Values, b: Values) -> Values:
    return (a[0] - multiplier[0] * b[0]) % PRIME, (a[1] - multiplier[1] * b[1]) % PRIME
