"""What a kernel needs of a model, in one argument."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class System(NamedTuple):
    """Addresses of the compiled functions of a model, and what they are called with.

    Attributes
    ----------
    value, directions, jacobian, second
        Addresses of f, of its derivatives in four directions of (y, p) at once, of its Jacobian by (y, p), and of its
        second derivative; 0 where a kernel does not need one.
    p, u
        Parameters and inputs.
    n
        Number of states.
    """

    value: int
    directions: int
    jacobian: int
    second: int
    p: npt.NDArray[np.float64]
    u: npt.NDArray[np.float64]
    n: int
