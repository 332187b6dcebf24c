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

    Rows of very large weight are kept out of the reduction, where they would drown the others.  The reduced problem is
    stored as `odefit.native.orthogonal._reduce_copy` leaves it; with `system` it is given.
    """

    __slots__ = ("_observations", "_reduced", "_system", "jacobian", "residual")

    def __init__(
        self, jacobian: Array, residual: Array, observations: Observations, system: Array | None = None
    ) -> None:
        self.jacobian = jacobian
        self.residual = residual
        self._observations = observations
        self._reduced: Reduced | None = None
        self._system = system

    def reduce(self) -> Reduced:
        """Factor once and remember."""
        if self._reduced is None:
            heavy = self._heavy() if self._observations.heavy.size else NO_HEAVY
            system = self._system = self._factored() if self._system is None else self._system
            n = system.shape[1]
            self._reduced = Reduced(system[-n - 2 : -2], system[-2], heavy)
        return self._reduced

    def reduce_residual(self, residual: Array) -> Array:
        """Return ``-Q' residual``."""
        self.reduce()
        assert self._system is not None
        n = self.jacobian.shape[1]
        b = np.empty(n)
        reduce_right_side(self._system[: -n - 2], self._system[-1], self._light(residual), b)
        return b

    def _factored(self) -> Array:
        """Return factors of the rows that are not heavy above R, b and beta."""
        jacobian = self._light(self.jacobian)
        m, n = jacobian.shape
        system = np.empty((m + n + 2, n))
        system[:m] = jacobian
        system[-1] = reduce_least_squares(system[:m], self._light(self.residual), system[m : m + n], system[-2])
        return system

    def _light(self, rows: Array) -> Array:
        heavy = self._observations.heavy
        return np.delete(rows, heavy, axis=0) if heavy.size else rows

    def _heavy(self) -> Heavy:
        data = self._observations
        rows = self.jacobian[data.heavy] * data.heavy_factor[:, None]
        return Heavy(rows, -self.residual[data.heavy] * data.heavy_factor, data.heavy_root)
