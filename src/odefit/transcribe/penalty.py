"""Residuals of priors and rules."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem, CompiledStructure
from odefit.native.calls import call_model
from odefit.native.kernel import kernel

Array = npt.NDArray[np.float64]


@kernel
def penalty_residuals(
    functions, row_ptr, col, slots, constants, slopes, theta_of_slot, order, first, residual, jacobian
):
    """Fill the rows from `first` on with the residuals of the priors, and their derivatives by theta.

    Returns half the sum of squares, and the first row with a derivative that is not finite (-1: none).
    """
    n = row_ptr.size - 1
    out, nonzeros, nothing = np.empty(n), np.empty(col.size), np.empty(0)
    call_model(functions[0], 0.0, slots, 0, constants, nothing, out, 0)
    squares, bad = 0.0, -1
    for i in range(n):
        residual[first + i] = out[i]
        squares += out[i] * out[i]
    if order < 1:
        return 0.5 * squares, bad
    call_model(functions[1], 0.0, slots, 0, constants, nothing, nonzeros, 0)
    for i in range(n):
        for e in range(row_ptr[i], row_ptr[i + 1]):
            theta = theta_of_slot[col[e]]
            if theta >= 0:
                jacobian[first + i, theta] += nonzeros[e] * slopes[col[e]]
                if not math.isfinite(nonzeros[e]) and bad < 0:
                    bad = first + i
    return 0.5 * squares, bad


def unknowns_of_penalties(compiled: CompiledStructure) -> list[npt.NDArray[np.int64]]:
    """Return which unknowns each prior depends on."""
    function = compiled.penalty
    if function is None:
        return []
    unknowns = []
    for i in range(function.n_out):
        theta = compiled.theta_of_q[function.col[function.row_ptr[i] : function.row_ptr[i + 1]]]
        unknowns.append(np.unique(theta[theta >= 0]).astype(np.int64))
    return unknowns


def penalise(
    compiled: CompiledProblem,
    slots: Array,
    slopes: Array,
    column_of_slot: npt.NDArray[np.int64],
    order: int,
    first: int,
    residual: Array,
    jacobian: Array,
) -> tuple[float, int]:
    """Append the priors of a problem to its residuals; see `penalty_residuals` for what is returned."""
    function = compiled.penalty
    if function is None:
        return 0.0, -1
    return penalty_residuals(
        (function.value, function.jacobian), function.row_ptr, function.col, slots, compiled.penalty_constants,
        slopes, column_of_slot, order, first, residual, jacobian,
    )  # fmt: skip
