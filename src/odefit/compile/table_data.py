"""Tables of numbers as piecewise polynomials, packed for look-ups.

For one argument, with n knots k_1 < .. < k_n and n + 1 intervals, the first before k_1 and the last behind k_n,

    n, low, high, -inf, k_1, .., k_n, inf, then four coefficients of each interval,

in powers of x - b, where b is the knot at which the interval begins (k_1 for the first).  An argument outside [low,
high] is refused.  For two arguments

    n, m, low_1, high_1, low_2, high_2, knots of the first, knots of the second, then sixteen coefficients of each cell,

cells row by row, coefficients of s^a r^b row by row.  The polynomials are SciPy's.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.problem import Table

Array = npt.NDArray[np.float64]


def packed_table(table: Table, parameter: str | None = None) -> Array:
    """Return the data of a table's numbers or, with `parameter`, of what that parameter is multiplied by."""
    if table.arguments == 1:
        low, high = range_of(table, table.x)
        return np.concatenate([[table.x.size, low, high], _framed(table.x), polynomials(table, parameter).reshape(-1)])
    first, second = table.x
    # (n + 1, 4, m): polynomials in s with a coefficient for each knot of the second argument, interpolated in turn
    along = _coefficients(table, first, table.y)
    n, _, m = along.shape
    across = _coefficients(table, second, along.reshape(4 * n, m).T)  # (m + 1, 4, 4 (n + 1))
    cells = across.reshape(m + 1, 4, n, 4).transpose(2, 0, 3, 1)
    numbers = [first.size, second.size, *range_of(table, first), *range_of(table, second)]
    return np.concatenate([numbers, _framed(first), _framed(second), cells.reshape(-1)])


def polynomials(table: Table, parameter: str | None = None) -> Array:
    """Return the coefficients of each interval of a table of one argument, (n + 1, 4); `parameter` as above."""
    values = np.array([_number(value, parameter) for value in table.y]) if table.names else np.asarray(table.y)
    return _coefficients(table, table.x, values[:, None])[:, :, 0]


def _number(value: float | str, parameter: str | None) -> float:
    if parameter is not None:
        return float(value == parameter)
    return 0.0 if isinstance(value, str) else value


def range_of(table: Table, knots: Array) -> tuple[float, float]:
    """Return the arguments between which a table has values."""
    if table.outside != "error":
        return -math.inf, math.inf
    return float(knots[0]), math.inf if table.kind == "hold" else float(knots[-1])


def _framed(knots: Array) -> Array:
    return np.concatenate([[-np.inf], knots, [np.inf]])


def _coefficients(table: Table, knots: Array, values: Array) -> Array:
    """Return coefficients in ascending powers, (n + 1, 4, m), of m functions with values (n, m) at the knots."""
    n, m = values.shape
    inner = np.zeros((n - 1, 4, m))
    if table.kind == "hold":
        inner[:, 0] = values[:-1]
    elif table.kind == "linear":
        inner[:, 0] = values[:-1]
        inner[:, 1] = np.diff(values, axis=0) / np.diff(knots)[:, None]
    else:
        from scipy.interpolate import CubicSpline, PchipInterpolator

        spline = (PchipInterpolator if table.kind == "pchip" else CubicSpline)(knots, values, axis=0)
        inner[:] = spline.c[::-1].transpose(1, 0, 2)
    before, behind = np.zeros((1, 4, m)), np.zeros((1, 4, m))
    before[0, 0], behind[0, 0] = values[0], values[-1]
    if table.outside != "hold" and table.kind != "hold":
        width = float(knots[-1] - knots[-2])
        c0, c1, c2, c3 = inner[-1]
        before[0] = inner[0]
        # the last polynomial in powers of the distance from the last knot
        behind[0, 1:] = c1 + width * (2 * c2 + 3 * width * c3), c2 + 3 * width * c3, c3
    return np.concatenate([before, inner, behind])


def corners(table: Table, place: int) -> tuple[Array, Array]:
    """Return the knots of argument number `place` at which the value of a table jumps, and at which its slope does."""
    knots: Array = axes_of(table)[place]
    none, every = np.empty(0), table.arguments == 2 or bool(table.names)
    if table.kind == "hold":
        # nothing is before the first knot if that is an error
        changes = np.concatenate(
            [[table.outside == "error"], [True] * (knots.size - 1) if every else np.diff(table.y) != 0]
        )
        return knots[changes], none
    if table.kind == "linear" and every:
        return none, knots
    if table.kind == "linear":
        slopes = _coefficients(table, knots, np.asarray(table.y)[:, None])[:, 1, 0]
        return none, knots[np.diff(slopes) != 0.0]
    return none, knots[[0, -1]] if table.outside == "hold" else none


def corner_knots(table: Table) -> tuple[tuple[float, ...], ...]:
    """Return the knots of each argument at which a table has a corner; of one with steps its first knot before them."""
    result = []
    for place, knots in enumerate(axes_of(table)):
        jumps, kinks = corners(table, place)
        first = knots[:1] if table.kind == "hold" else knots[:0]
        result.append((*first.tolist(), *jumps[jumps > knots[0]].tolist(), *kinks.tolist()))
    return tuple(result)


def axes_of(table: Table) -> tuple[Array, ...]:
    """Return the knots of each argument."""
    return table.x if table.arguments == 2 else (table.x,)
