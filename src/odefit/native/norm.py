"""Numbers whose squares may be too small or too large for a number: their norm, and a unit that gives them squares."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_SMALL = 1e-30  # numbers down to here, and up to its inverse, have fourth powers without loss


def norm(values: Array) -> float:
    """Return the Euclidean norm; NaN or infinity only where it is so itself."""
    if not np.isfinite(values).all():
        return math.nan if np.isnan(values).any() else math.inf
    unit = unit_of(values)
    scaled = values.ravel() / unit
    return unit * math.sqrt(float(scaled @ scaled))


def column_norms(rows: Array) -> Array:
    """Return the norms of the columns."""
    units = [unit_of(column) for column in rows.T]
    return units * np.linalg.norm(rows / units, axis=0)


def unit_of(*values: Array | float) -> float:
    """Return 1 for numbers of ordinary size, else the power of two next to the largest of all `values`.

    To divide by a power of two rounds nothing, so that what does not depend on units keeps all its bits.
    """
    largest = max(float(np.max(np.abs(some), initial=0.0)) for some in values)
    if not 0.0 < largest < math.inf or _SMALL < largest < 1.0 / _SMALL:
        return 1.0
    return math.ldexp(1.0, math.frexp(largest)[1] - 1)
