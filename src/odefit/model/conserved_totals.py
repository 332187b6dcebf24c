"""Totals that a function conserves, as somebody says: ``sum_j w_j y_j`` stays as it begins.

Nothing can be found out about a function of numbers for certain.  What is said is put into its equations: by
elimination each total gets a state k of its own, and

    y_k' = -sum_j w_j y_j',

over the other states.  So the total is conserved to rounding, and whoever looks for conserved totals in the equations
finds it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from odefit.errors import ModelError, nearest

Total = tuple[tuple[str, float], ...]


def checked_totals(totals: Sequence[Mapping[str, float]], states: Sequence[str]) -> tuple[Total, ...]:
    """Return totals, given as states to weights, or raise ModelError."""
    if isinstance(totals, Mapping | str):
        raise ModelError(f'conserved is a list of totals, such as [{{"A": 1, "B": 1}}], got a {type(totals).__name__}')
    for total in totals:
        if not isinstance(total, Mapping) or not total:
            raise ModelError(
                f'a conserved total is a dict from state to weight, such as {{"A": 1, "B": 1}}, got {total!r}'
            )
        for name, weight in total.items():
            if name not in states:
                raise ModelError(f"a conserved total names {name!r}, which is no state{nearest(str(name), states)}")
            if not isinstance(weight, int | float) or not 0 < abs(weight) < float("inf"):
                raise ModelError(
                    f"the weight of {name!r} in a conserved total is {weight!r}; a number but zero is needed"
                )
    found = tuple(tuple((name, float(weight)) for name, weight in total.items()) for total in totals)
    eliminated(found, states)
    return found


def eliminated(totals: Sequence[Total], states: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return for one state of each total the weights w_j of the others in its derivative, exactly."""
    rows = [[Fraction(dict(total).get(name, 0.0)) for name in states] for total in totals]
    owner: dict[int, int] = {}
    for number, row in enumerate(rows):
        pivot = max((j for j, weight in enumerate(row) if weight), default=-1)
        if pivot < 0:
            raise ModelError("one of the conserved totals follows from the others; leave it out")
        rows[number] = [weight / row[pivot] for weight in row]
        for other in range(len(rows)):
            factor = rows[other][pivot]
            if other != number and factor:
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[number], strict=True)]
        owner[number] = pivot
    return {
        states[pivot]: {states[j]: float(weight) for j, weight in enumerate(rows[number]) if weight and j != pivot}
        for number, pivot in owner.items()
    }
