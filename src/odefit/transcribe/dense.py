"""The linearisation of single shooting: one dense Jacobian, reduced by Householder QR."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from odefit.native.orthogonal import reduce_least_squares, reduce_right_side
from odefit.solve.contract import Reduced

Array = npt.NDArray[np.float64]


class DenseLinear:
    """``r + J dx`` with a dense J (m, n); see `odefit.solve.contract.LinearModel`."""

    __slots__ = ("_beta", "_factors", "_reduced", "jacobian", "residual")

    def __init__(self, jacobian: Array, residual: Array) -> None:
        self.jacobian = jacobian
        self.residual = residual
        self._reduced: Reduced | None = None

    def reduce(self) -> Reduced:
        """Factor once and remember."""
        if self._reduced is None:
            n = self.jacobian.shape[1]
            r, b = np.empty((n, n)), np.empty(n)
            self._factors = self.jacobian.copy()
            self._beta = reduce_least_squares(self._factors, self.residual, r, b)
            self._reduced = Reduced(r, b)
        return self._reduced

    def reduce_residual(self, residual: Array) -> Array:
        """Return ``-Q' residual``."""
        self.reduce()
        b = np.empty(self.jacobian.shape[1])
        reduce_right_side(self._factors, self._beta, residual, b)
        return b
