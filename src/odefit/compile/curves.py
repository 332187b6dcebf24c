"""States and definitions along a trajectory, with derivatives: for simulations and prediction bands.

Evaluated by CasADi's virtual machine: this is never inside an integration, and needs no compilation.
"""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.compile.conditions import Variant, model_functions
from odefit.problem import Problem

Array = npt.NDArray[np.float64]


class Curves:
    """All states and definitions of one variant of a problem's model.

    Definitions that use a parameter which depends on the single measurement have no curve and are left out,
    unless `by_row` asks for them: then the arguments of one measurement follow the entries of p.
    """

    def __init__(self, problem: Problem, variant: Variant, *, by_row: bool = False) -> None:
        everything = (*problem.model.states, *problem.model.definitions)
        observe = model_functions(problem, variant, everything)["observe"]
        a = dict(observe.arrays)["a"]
        asks = a.numel() and not by_row
        depends = [ca.depends_on(observe.out[i], a) if asks else False for i in range(len(everything))]
        kept = [i for i, is_by_row in enumerate(depends) if not is_by_row]
        self.names = tuple(everything[i] for i in kept)
        out = observe.out[kept] if kept else ca.SX(0, 1)
        arrays = dict(observe.arrays)
        p = ca.vertcat(arrays["p"], a) if by_row else arrays["p"]
        inputs = [observe.time, arrays["y"], p]
        z = ca.vertcat(arrays["y"], p)
        self._value = ca.Function("curves", inputs, [ca.densify(out)])
        self._jacobian = ca.Function("curves_jacobian", inputs, [ca.densify(ca.jacobian(out, z))])

    def values(self, times: Array, y: Array, p: Array) -> Array:
        """Return the curves, shape (m, len(names)), for times (m,) and states (m, n).

        Where a state is missing, everything is: max(x, 0) of a missing x is no result.
        """
        curves = self._along(self._value, times, y, p, 1)[:, :, 0]
        return np.where(np.all(np.isfinite(y), axis=1, keepdims=True), curves, np.nan)

    def derivatives(
        self, times: Array, y: Array, s: Array, columns: npt.NDArray[np.int64], p: Array, dp: Array
    ) -> Array:
        """Return the derivatives by all thetas, (m, len(names), n_theta).

        Parameters
        ----------
        s, columns
            Sensitivities (m, n, q) with respect to the thetas `columns`; the states depend on no others.
        dp
            Derivatives of p by all thetas, (n_p, n_theta).
        """
        n = y.shape[1]
        jacobian = self._along(self._jacobian, times, y, p, n + p.size)
        result = jacobian[:, :, n:] @ dp
        result[:, :, columns] += jacobian[:, :, :n] @ s
        return result

    def _along(self, function: Any, times: Array, y: Array, p: Array, width: int) -> Array:
        m, k = times.size, len(self.names)
        if not m or not k:
            return np.empty((m, k, width))
        result = np.array(function.map(m)(times[None, :], y.T, np.tile(p[:, None], m)))
        return result.reshape(k, m, width).transpose(1, 0, 2)
