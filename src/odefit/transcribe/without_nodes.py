"""The point that multiple shooting, or a fit with rules, has reached, as a point of the problem that was asked for.

Node states follow from theta where nothing is left of the gaps.  So the Jacobian of the original problem is that of all
rows with node states eliminated, and no growing solution is integrated over the whole time for it.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from odefit.problem import Problem
from odefit.solve import Failed, HeavyMisfit, LeastSquares, SolverResult
from odefit.solve.dense import DenseLinear
from odefit.solve.nodes import NodesLinear
from odefit.transcribe.multiple import MultipleShooting
from odefit.transcribe.plan import Plan, plan_of

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def without_nodes(
    objective: MultipleShooting, solution: SolverResult, problem: Problem, sizes: Array, active: Indices | None = None
) -> SolverResult:
    """Return the solution in theta alone.

    Parameters
    ----------
    problem
        The problem that was asked for: without nodes, and without the rows of rules.
    sizes
        Typical ones of all unknowns.
    active
        Rows of rules that hold as equations; the linearisation has them as rows of infinite weight.
    """
    q, n = objective.intervals.n_theta, solution.x.size
    x, point = solution.x[:q].copy(), solution.evaluation
    if isinstance(point, Failed):
        evaluation = point._replace(x=x)
    else:
        evaluation = _point(
            objective, point, x, plan_of(problem), sizes, np.empty(0, np.int64) if active is None else active
        )
    return dataclasses.replace(
        solution, x=x, evaluation=evaluation, active=solution.active[:q], rank=max(0, solution.rank - (n - q))
    )


def own_rows(objective: MultipleShooting, plan: Plan) -> Indices:
    """Return the rows that the original problem has: its data, and its priors."""
    data = objective.plan.data
    n_own = sum(o.source.size for o in plan.data.of_experiment)
    known = np.concatenate([o.source for o in plan.data.of_experiment])
    source = np.concatenate([o.source for o in data.of_experiment])
    rows = np.flatnonzero(np.isin(source, known))
    assert rows.size == n_own
    first = data.n_data + objective.intervals.n_handover
    n_priors = plan.n_residuals - plan.n_data
    return np.concatenate([rows, np.arange(first, first + n_priors)])


def _point(
    objective: MultipleShooting, point: LeastSquares, x: Array, plan: Plan, sizes: Array, active: Indices
) -> LeastSquares:
    rows, data = own_rows(objective, plan), plan.data
    residual, differences = point.residual[rows], point.differences[rows]
    misfit = residual[data.heavy] * data.heavy_factor
    light = 0.5 * float(np.sum(np.square(np.delete(residual, data.heavy))))
    if point.heavy is not None and not data.heavy.size:
        light = point.heavy.light
    finite = np.isfinite(data.heavy_root)
    value = light + 0.5 * float(np.sum(np.square(data.heavy_root[finite] * misfit[finite])))
    linear = None
    if isinstance(point.linear, NodesLinear):
        whole = point.linear.in_shared(sizes)
        jacobian, all_rows = np.vstack([whole[rows], whole[active]]), np.append(residual, np.zeros(active.size))
        heavy = np.concatenate([residual.size + np.arange(active.size), data.heavy])
        factor = np.append(np.ones(active.size), data.heavy_factor)
        root = np.append(np.full(active.size, np.inf), data.heavy_root)
        order = np.argsort(-root, kind="stable")
        linear = DenseLinear(jacobian, all_rows, heavy[order], factor[order], root[order])
    heavy_misfit = None
    if data.heavy.size:
        heavy_misfit = HeavyMisfit(misfit, data.heavy_root, light, 0.0)
    return point._replace(
        x=x, value=value, residual=residual, linear=linear, size=math.sqrt(2.0 * light), heavy=heavy_misfit,
        differences=differences,
    )  # fmt: skip
