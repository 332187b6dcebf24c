"""The Euclidean norm of numbers whose squares may be too small or too large for a number."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def norm(values: npt.NDArray[np.float64]) -> float:
    """Return the norm; NaN or infinity only where it is so itself."""
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest == 0.0 or not math.isfinite(largest):
        return largest
    scaled = values.ravel() / largest
    return largest * math.sqrt(float(scaled @ scaled))
