"""The linearisation of single shooting: one dense Jacobian, reduced by Householder QR."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from odefit.native.orthogonal import reduce_least_squares, reduce_right_side
from odefit.solve.contract import NO_HEAVY, Heavy, Reduced
from odefit.transcribe.observation import Observations

Array = npt.NDArray[np.float64]


class DenseLinear:
    """``r + J dx`` with a dense J (m, n); see `odefit.solve.contract.LinearModel`.

    Rows of very large weight are kept out of the reduction, where they would drown the others.
    """

    __slots__ = ("_beta", "_factors", "_observations", "_reduced", "jacobian", "residual")

    def __init__(self, jacobian: Array, residual: Array, observations: Observations) -> None:
        self.jacobian = jacobian
        self.residual = residual
        self._observations = observations
        self._reduced: Reduced | None = None

    def reduce(self) -> Reduced:
        """Factor once and remember."""
        if self._reduced is None:
            n = self.jacobian.shape[1]
            r, b = np.empty((n, n)), np.empty(n)
            data = self._observations
            if data.heavy.size:
                self._factors = np.delete(self.jacobian, data.heavy, axis=0)
                light = np.delete(self.residual, data.heavy)
                rows = self.jacobian[data.heavy] * data.heavy_factor[:, None]
                heavy = Heavy(rows, -self.residual[data.heavy] * data.heavy_factor, data.heavy_root)
            else:
                self._factors, light, heavy = self.jacobian.copy(), self.residual, NO_HEAVY
            self._beta = reduce_least_squares(self._factors, light, r, b)
            self._reduced = Reduced(r, b, heavy)
        return self._reduced

    def reduce_residual(self, residual: Array) -> Array:
        """Return ``-Q' residual``."""
        self.reduce()
        b = np.empty(self.jacobian.shape[1])
        heavy = self._observations.heavy
        light = np.delete(residual, heavy) if heavy.size else residual
        reduce_right_side(self._factors, self._beta, light, b)
        return b
