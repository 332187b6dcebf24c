"""Whether a fit that ended without converging is at a regular minimum, and standard errors from its true curvature.

The Hessian of half a sum of squares is H = J'J + sum_i r_i r_i''.  Gauss-Newton steps leave the second term out.  Where
it is as large as the first one they overshoot or creep, however good the point is, and J'J tells neither how far the
minimum is nor how well the data determine it.  In the extreme J is singular *at* the minimum.  This is common where a
model does not change if two of its rates are exchanged (absorption and distribution of a drug): along their difference
u it depends on u^2, so that J has no component along u at u = 0, and data beyond the fold have their minimum there.
It is as regular as any: its curvature along u is 2 r'a for residuals r + a u^2.

So H is computed, by differences of the gradient J'r on one set of step grids, on which the objective is smooth, at a
tighter tolerance.  Unknown i is changed by a part of c_i = s/||J_i||, which changes the residual by its standard
deviation s, but by no more than a small part of its own size.  In these units K = C H C/s^2 has no dimension (J'J
contributes a diagonal of ones), and so has the gradient, g = C J'r/s^2.  Differences to h and 2h give K to fourth
order, and E, how much they differ.  Unknowns on a bound, or pressed against one that is next to nothing away, stay.

The point is a regular minimum *as far as statistics can tell*, if

* K is positive definite beyond doubt: its smallest eigenvalue is ten times larger than ||E|| and than rounding;
* the minimum of the quadratic model is near: its reduction of the objective, delta^2 s^2/2 with delta^2 = g'K^-1 g, is
  that of moving no combination of parameters by more than delta standard errors.  delta <= `LARGEST_SHIFT`.

With an eigenvalue that is negative beyond doubt, or a larger delta, it is no minimum.  Otherwise nothing can be told,
and what is said of it is what the linearised model says.

At a regular minimum s^2 H^-1 (the inverse of the observed information) takes the place of s^2 (J'J)^-1.  Along a fold
the objective rises faster than the quadratic model says, with |a|^2 u^4/2: intervals are too long there, if anything.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.native.stop import StopFlag, raise_on_interrupt
from odefit.problem import Problem
from odefit.solve import Failed, SolverResult, heavy_of
from odefit.strategy.derivatives import LARGEST_SHIFT, tightened
from odefit.strategy.uncertainty import Uncertainty
from odefit.transcribe import SingleShooting

Array = npt.NDArray[np.float64]

_STEP, _OF_SIZE = 1e-3, 1e-4  # of c, and at most of the size of an unknown
_ON_BOUND = 1e-6  # of c: an unknown that is pressed against a bound so near is on it
_BEYOND_DOUBT = 10.0
_ROUNDING = 1e-8  # of the largest eigenvalue
_MOST_UNKNOWNS = 60


class SecondOrder(NamedTuple):
    """What the Hessian says of a point.

    Attributes
    ----------
    hessian
        (n, n) on the solver's scale, zero in rows and columns of unknowns on a bound; None if it is not positive
        definite in the others beyond doubt.
    distance
        To the minimum of the quadratic model, in standard errors of the combination that is farthest; infinite if it
        has none.
    """

    hessian: Array | None
    distance: float

    @property
    def is_minimum(self) -> bool:
        """Whether this is a regular minimum as far as statistics can tell."""
        return self.hessian is not None and self.distance <= LARGEST_SHIFT


def second_order(
    problem: Problem, uncertainty: Uncertainty, methods: Collection[str], rtol: float
) -> SecondOrder | None:
    """Look at the curvature around the solution of a fit that crept, at this tolerance; None where that is not done.

    Rows of very large weight hold unknowns in ways that a Hessian does not tell, and many unknowns cost too much.
    Nor is there one where step grids cannot be replayed at the points next to it.
    """
    solution = uncertainty.solution
    deviation = uncertainty.independent.deviation
    if solution.x.size > _MOST_UNKNOWNS or heavy_of(solution.evaluation) is not None or not deviation > 0.0:
        return None
    if len(set(methods)) == 1:
        problem = problem.with_settings(integrator=next(iter(methods)))
    stop = StopFlag()
    objective = SingleShooting(tightened(problem, rtol), stop)
    with raise_on_interrupt(stop), np.errstate(all="ignore"):
        objective.refresh(solution.x)
        return _look_around(objective, solution, deviation)


def _look_around(objective: SingleShooting, solution: SolverResult, deviation: float) -> SecondOrder | None:
    """Return what the Hessian in the free unknowns says; None if there is none on these grids, or it says nothing."""
    x = solution.x
    here = objective.evaluate(x, 1)
    if isinstance(here, Failed) or here.linear is None:
        return None
    compiled, descent, c = objective.compiled, here.linear.descent(), deviation / here.linear.column_norms()
    near_lower = (x - compiled.theta_lower <= _ON_BOUND * c) & (descent < 0.0)
    near_upper = (compiled.theta_upper - x <= _ON_BOUND * c) & (descent > 0.0)
    free = np.flatnonzero(~(solution.active | near_lower | near_upper))
    c = c[free]
    size = np.where(compiled.logarithmic, 1.0, np.abs(x))[free]
    step = np.where(size > 0.0, np.minimum(_STEP * c, _OF_SIZE * size), _STEP * c)
    if not (free.size and np.isfinite(step).all() and step.all()):
        return None
    near, far = (_differences(objective, x, free, times * step) for times in (1.0, 2.0))
    if near is None or far is None:
        return None
    unit = np.outer(c, c) / deviation**2
    curvature, error = unit * (4.0 * near - far) / 3.0, unit * (near - far) / 3.0
    if not (np.isfinite(curvature).all() and np.isfinite(error).all()):
        return None
    doubt = float(np.linalg.norm(error, 2) + np.linalg.norm(curvature - curvature.T, 2))
    curvature = 0.5 * (curvature + curvature.T)
    values, vectors = np.linalg.eigh(curvature)
    least = max(_BEYOND_DOUBT * doubt, _ROUNDING * values[-1])
    if not values[0] > least:
        return SecondOrder(None, math.inf) if values[0] < -least else None
    gradient = vectors.T @ (c * descent[free] / deviation**2)
    hessian = np.zeros((x.size, x.size))
    hessian[np.ix_(free, free)] = curvature / unit
    return SecondOrder(hessian, math.sqrt(float(np.sum(np.square(gradient) / values))))


def _differences(objective: SingleShooting, x: Array, free: npt.NDArray[np.intp], step: Array) -> Array | None:
    """Return the Hessian by central differences of the gradient; None where there is no gradient."""
    rows = []
    for i, h in zip(free, step, strict=True):
        sides = []
        for change in (h, -h):
            moved = x.copy()
            moved[i] += change
            point = objective.evaluate(moved, 1)
            if isinstance(point, Failed) or point.linear is None:
                return None
            sides.append(-point.linear.descent()[free])
        rows.append((sides[0] - sides[1]) / (2.0 * h))
    return np.array(rows)
