"""Typical sizes of the unknowns: what a step of length one means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from odefit.native.kernel import kernel

Array = npt.NDArray[np.float64]


@kernel(inline=True)
def scale_of(x, start, logarithmic):
    """Return the scale of one unknown.

    A logarithmic unknown has scale 1; a linear one the size of its value, but at least a tenth of its
    start value, so that passing zero does not freeze it.  A start at zero says nothing of the size: 1.
    """
    if logarithmic:
        return 1.0
    return max(abs(x), 0.1 * abs(start) if start != 0.0 else 1.0, 1e-8)


@kernel
def scales(x, start, logarithmic, out):
    """Fill the scales of all unknowns."""
    for i in range(x.size):
        out[i] = scale_of(x[i], start[i], logarithmic[i])


@dataclass(frozen=True, eq=False)
class Scaling:
    """Which unknowns are logarithmic, and where the linear ones started; scales follow the iterates."""

    start: Array
    logarithmic: npt.NDArray[np.bool_]

    def largest(self, v: Array, x: Array) -> float:
        """Return the largest change in `v`, relative to the scale of its unknown at `x`."""
        return float((np.abs(v) / self.of(x)).max())

    def of(self, x: Array) -> Array:
        """Return the scale of each unknown at `x`."""
        out = np.empty_like(x)
        scales(x, self.start, self.logarithmic, out)
        return out
