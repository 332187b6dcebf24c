"""Start values drawn around those of a problem, and how a point looks at tight tolerances."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import odefit as of
from odefit.problem import Problem
from odefit.solve import Failed
from odefit.strategy import FitResult
from odefit.transcribe import SingleShooting

TIGHT = {"rtol": 1e-10, "atol": 1e-12}
_DROP = 1e-10  # singular values below this fraction of the largest are rounding


def perturbed(problem: Problem, factor: float, count: int, seed: int) -> list[Problem]:
    """Return `count` problems whose free starts are multiplied by log-uniform factors in [1/factor, factor].

    Signs are kept, and starts that leave the bounds are put on them.  A parameter with several slots has one
    factor for all.
    """
    random = np.random.default_rng(seed)
    problems = []
    for _ in range(count):
        factors = factor ** random.uniform(-1.0, 1.0, len(problem.free))
        starts = {
            p.name: float(np.clip(p.start * f, p.lower, p.upper)) for p, f in zip(problem.free, factors, strict=True)
        }
        problems.append(problem.with_start(**starts))
    return problems


@dataclass(frozen=True)
class Look:
    """A point seen at tight tolerances.

    Attributes
    ----------
    objective
        Half the weighted sum of squares; NaN if the model cannot be computed there.
    removable
        Norm of the projection of the residual on the column space of the Jacobian (of the unknowns that are not at
        a bound, in the null space of rows of infinite weight): 0 at a stationary point.
    full_step
        Largest relative change of an unknown by the full Gauss-Newton step (absolute on log scales).
    violation
        By how much rows of infinite weight are missed.
    norm
        Of the residual.
    """

    objective: float
    removable: float = math.nan
    full_step: float = math.nan
    violation: float = 0.0
    norm: float = math.nan


def look(result: FitResult) -> Look:
    """Return how the end of a fit looks at tight tolerances."""
    objective = SingleShooting(result.problem.with_settings(**TIGHT))
    x = result.solution.x
    objective.refresh(x)
    point = objective.evaluate(x, 1)
    if isinstance(point, Failed) or point.linear is None:
        return Look(math.nan)
    reduced = point.linear.triangle()
    linear_scale = np.array([scale == "linear" for scale in objective.compiled.theta_scales])
    size = np.where(linear_scale, np.maximum(np.abs(x), 1e-8), 1.0)
    free = ~result.solution.active
    columns, right = reduced.R[:, free] * size[free], reduced.b
    exact = np.isinf(reduced.heavy.root)
    inside, violation = np.eye(columns.shape[1]), 0.0
    if exact.any():
        inside = _null_space(reduced.heavy.rows[exact][:, free] * size[free])
        violation = float(np.linalg.norm(reduced.heavy.right[exact]))
    removable, step = _projection(columns @ inside, right)
    full_step = float(np.abs(inside @ step).max(initial=0.0))
    return Look(point.value, removable, full_step, violation, math.sqrt(2.0 * point.value))


def _null_space(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    _, values, vectors = np.linalg.svd(rows)
    return vectors[int(np.sum(values > _DROP * values[0])) :].T


def _projection(matrix: npt.NDArray[np.float64], right: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray]:
    """Return the norm of the projection of `right` on the columns of `matrix`, and the least-squares solution."""
    u, values, vectors = np.linalg.svd(matrix, full_matrices=False)
    kept = values > _DROP * values.max(initial=0.0)
    along = u.T[kept] @ right
    return float(np.linalg.norm(along)), vectors[kept].T @ (along / values[kept])


def tight_minimum(problem: Problem) -> float:
    """Return the objective to which the default solver comes from the start values, at tight tolerances."""
    result = of.fit(problem.with_settings(**TIGHT, tol=1e-8))
    return result.objective
