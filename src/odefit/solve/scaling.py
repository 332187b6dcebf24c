"""Typical sizes of the unknowns: what a step of length one means.

A fit must not depend on the units that parameters, data and time are given in.  So a size is made of numbers that carry
the unit of the unknown, and of nothing else:

* a logarithmic unknown has scale 1: a change by a factor means the same in every unit;
* a linear one the size of its value, but at least a tenth of its start value, so that passing zero does not freeze it;
* a start at zero says nothing of the size, nor does one so small that a change by its own size could not be felt.
  There it is the change that alters the residual by as much as the residual at the start, ||r_0||/||J_i||, with the
  largest column J_i met so far (as in MINPACK, whose sizes never grow either).

An unknown without influence so far has no size.  None is needed: nothing that it is multiplied with differs from zero.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import numpy.typing as npt

from odefit.native.kernel import kernel
from odefit.solve.contract import Point, heavy_of

Array = npt.NDArray[np.float64]

_NO_SIZES = np.empty(0)
_OF_START = 0.1
_UNFELT = 1e-8  # of the residual: a start value that makes less of a difference tells no size


@kernel(inline=True)
def scale_of(x, least, logarithmic):
    """Return the scale of one unknown, whose scale is `least` at zero."""
    if logarithmic:
        return 1.0
    size = max(abs(x), least)
    return size if size > 0.0 else 1.0


@kernel
def scales(x, least, logarithmic, out):
    """Fill the scales of all unknowns."""
    for i in range(x.size):
        out[i] = scale_of(x[i], least[i], logarithmic[i])


class Scaling:
    """Scales of the unknowns; they follow the iterates.

    Attributes
    ----------
    start, logarithmic
        Where the unknowns started, and which of them are logarithmic.
    sizes
        Scales of the last unknowns, states at nodes say, which stay as they are.
    least
        Scale of a linear unknown that becomes zero; 0 as long as nothing is known of it.
    """

    __slots__ = ("_columns", "_level", "_open", "least", "logarithmic", "sizes", "start")

    def __init__(self, start: Array, logarithmic: npt.NDArray[np.bool_], sizes: Array = _NO_SIZES) -> None:
        self.start, self.logarithmic, self.sizes = start, logarithmic, sizes
        self.least = _OF_START * np.abs(start)
        self._open = np.flatnonzero(~logarithmic[: start.size - sizes.size])  # unknowns whose start may tell no size
        self._columns = np.zeros(start.size)
        self._level = math.nan

    def begin(self) -> Scaling:
        """Return the scaling of a new minimisation from the same start."""
        return Scaling(self.start, self.logarithmic, self.sizes)

    def learn(self, point: Point) -> None:
        """Learn from the next point, which has a linearisation, sizes that the start values do not tell."""
        if not self._open.size:
            return
        level, columns = _sizes(point)
        if math.isnan(self._level):  # all data are met: what the other unknowns contribute takes the residual's place
            self._level = level or float(np.max(self.least * columns, initial=0.0)) or 1.0
        self._columns = np.maximum(self._columns, columns)
        columns, start = self._columns[self._open], np.abs(self.start[self._open])
        unfelt = start * columns <= _UNFELT * self._level
        self._open, columns = self._open[unfelt], columns[unfelt]
        felt = columns > 4.0 * self._level / sys.float_info.max  # elsewhere the size would be no number
        self.least[self._open[felt]] = self._level / columns[felt]

    def largest(self, v: Array, x: Array) -> float:
        """Return the largest change in `v`, relative to the scale of its unknown at `x`."""
        return float((np.abs(v) / self.of(x)).max())

    def of(self, x: Array) -> Array:
        """Return the scale of each unknown at `x`."""
        out = np.empty_like(x)
        scales(x, self.least, self.logarithmic, out)
        if self.sizes.size:
            out[out.size - self.sizes.size :] = self.sizes
        return out


def _sizes(point: Point) -> tuple[float, Array]:
    """Return the norms of the residual and of the columns; rows of infinite weight count as ordinary ones."""
    assert point.linear is not None
    level, columns = point.size, point.linear.all_column_norms()
    heavy = heavy_of(point)
    if heavy is not None:
        infinite = np.isinf(heavy.root)
        level = math.hypot(level, float(np.linalg.norm(np.where(infinite, 1.0, heavy.root) * heavy.misfit)))
    return level, columns
