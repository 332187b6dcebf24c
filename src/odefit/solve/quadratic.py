"""The quadratic model of a smooth objective, as a least-squares problem.

With the Hessian scaled to a unit diagonal, D H D = V L V', the model f + g'd + d'H d/2 has, up to a constant, the form
||A d - c||^2/2 with A = |L|^(1/2) V' D^-1 and c = -|L|^(-1/2) V' D g: A'c = -g always, and A'A = H where H is positive
definite.  Along directions of negative curvature |L| is taken (the step leaves a saddle point instead of seeking it),
and eigenvalues at the level of rounding are raised to that level.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from odefit.solve.contract import LinearModel, Smooth
from odefit.solve.dense import DenseLinear

Array = npt.NDArray[np.float64]

_ROUNDING = 1e-14  # of the largest eigenvalue


def quadratic_model(gradient: Array, hessian: Array) -> LinearModel:
    """Return the linear model whose normal equations are those of a Newton step."""
    diagonal = np.sqrt(np.abs(np.diag(hessian)))
    scale = 1.0 / np.where(diagonal > 0.0, diagonal, 1.0)
    values, vectors = np.linalg.eigh(scale[:, None] * hessian * scale)
    sizes = np.abs(values)
    roots = np.sqrt(np.maximum(sizes, _ROUNDING * np.max(sizes, initial=0.0)))
    rows = roots[:, None] * vectors.T / scale
    right = -(vectors.T @ (scale * gradient)) / np.where(roots > 0.0, roots, 1.0)
    return DenseLinear(rows, -right)


def smooth_point(
    x: Array,
    generation: int,
    value: float,
    derivatives: tuple[Array, Array] | None,
    size: float,
    error_ratio: float = 0.0,
) -> Smooth:
    """Return a point of an objective with gradient and Hessian, or (None) without them."""
    linear = None if derivatives is None else quadratic_model(*derivatives)
    return Smooth(x, generation, value, linear, size, error_ratio)
