"""The point that multiple shooting, or a fit with rules, has reached, as a point of the problem that was asked for.

Node states follow from theta where nothing is left of the gaps.  So the Jacobian of the original problem is that of all
rows with node states eliminated, and no growing solution is integrated over the whole time for it.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import numpy.typing as npt

from odefit.solve import HeavyMisfit, LeastSquares, SolverResult
from odefit.solve.dense import DenseLinear
from odefit.solve.nodes import NodesLinear
from odefit.transcribe.active_rules import in_shared
from odefit.transcribe.multiple import MultipleShooting
from odefit.transcribe.plan import Plan

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def without_nodes(
    objective: MultipleShooting, solution: SolverResult, plan: Plan, sizes: Array, active: Indices
) -> SolverResult:
    """Return the solution in theta alone.

    Parameters
    ----------
    plan
        That of the problem that was asked for: without nodes, and without the rows of rules.
    sizes
        Typical ones of all unknowns.
    active
        Rows of rules that hold as equations; the linearisation has them as rows of infinite weight.
    """
    q, n = objective.intervals.n_theta, solution.x.size
    point = solution.evaluation
    evaluation = (
        point_without_nodes(objective, point, plan, sizes, active)
        if isinstance(point, LeastSquares)
        else point._replace(x=solution.x[:q].copy())
    )
    return dataclasses.replace(
        solution,
        x=solution.x[:q].copy(),
        evaluation=evaluation,
        active=solution.active[:q],
        rank=max(0, solution.rank - (n - q)),
    )


def own_rows(objective: MultipleShooting, plan: Plan) -> Indices:
    """Return the rows that the original problem has: its data, and its priors."""
    data = objective.plan.data
    known = np.concatenate([o.source for o in plan.data.of_experiment])
    rows = np.flatnonzero(np.isin(np.concatenate([o.source for o in data.of_experiment]), known))
    first = data.n_data + objective.intervals.n_handover
    return np.concatenate([rows, np.arange(first, first + plan.n_residuals - plan.n_data)])


def point_without_nodes(
    objective: MultipleShooting, point: LeastSquares, plan: Plan, sizes: Array, active: Indices
) -> LeastSquares:
    """Return a point in theta alone, gaps closed to first order if it has a linearisation; see `without_nodes`."""
    rows, data = own_rows(objective, plan), plan.data
    residual, differences, linear = point.residual[rows], point.differences[rows], None
    if isinstance(point.linear, NodesLinear):
        whole = in_shared(point.linear, point.residual, sizes)
        differences = differences + (whole.residual[rows] - residual)
        residual = whole.residual[rows]
        jacobian = np.vstack([whole.jacobian[rows], whole.jacobian[active], whole.exact])
        n_exact = active.size + whole.exact.shape[0]
        all_rows = np.append(residual, np.zeros(n_exact))
        heavy = np.concatenate([residual.size + np.arange(n_exact), data.heavy])
        factor = np.append(np.ones(n_exact), data.heavy_factor)
        root = np.append(np.full(n_exact, np.inf), data.heavy_root)
        order = np.argsort(-root, kind="stable")
        linear = DenseLinear(jacobian, all_rows, heavy[order], factor[order], root[order])
    misfit = residual[data.heavy] * data.heavy_factor
    light = point.value if point.heavy is None else point.heavy.light
    finite = np.isfinite(data.heavy_root)
    value = light + 0.5 * float(np.sum(np.square(data.heavy_root[finite] * misfit[finite])))
    return point._replace(
        x=point.x[: objective.intervals.n_theta].copy(),
        value=value,
        residual=residual,
        linear=linear,
        size=math.sqrt(2.0 * light),
        heavy=HeavyMisfit(misfit, data.heavy_root, light, 0.0) if data.heavy.size else None,
        differences=differences,
    )
