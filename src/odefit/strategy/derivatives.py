"""Whether the derivatives that standard errors are made of are those of the true solution.

The solver needs the derivatives of the *discrete* solution, on the very steps that gave its values.  Statistics need
those of the true one.  Step control looks at the states alone; where it lets a sensitivity go wrong, in the fast parts
of a relaxation oscillation say, standard errors go wrong with it, and nothing else shows it.

So the linearisation is computed once more, on steps chosen at a tolerance a hundred times tighter.  With J W = Q of
orthonormal columns (W: the directions that the data determine, the rows W_j of length s_j being the standard errors for
a variance of 1) the other Jacobian J + D has the covariance W (I + Q'E + E'Q + E'E)^-1 W', E = D W.  All standard
errors therefore change by no more than about

    ||E|| <= sum_j ||D_j|| s_j,

which costs one pass over the Jacobian.  Only where this bound is too large are the standard errors themselves compared;
and where these change, tolerances are tightened until they do not.

The same evaluation tells whether the *estimates* are those of the true solution.  A fit minimises the discrete
objective; the true one, of residual r and Jacobian J at the same point, has its minimum a Gauss-Newton step away,

    d = -W W' J'r,

and d_j, less the step that the solver left undone, over the standard error of unknown j is the bias of the estimate
that the integration makes.  A 95 % interval
whose centre is wrong by b standard errors covers the true value in 95 % - 11.5 b^2 % of all cases.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.native.stop import StopFlag, raise_on_interrupt
from odefit.problem import Problem
from odefit.solve import Failed, LinearModel, Point, SolverResult, SolverStatus
from odefit.statistics.matrices import squared_rows
from odefit.strategy.uncertainty import Uncertainty
from odefit.transcribe import SingleShooting
from odefit.transcribe.extended import Placed

Array = npt.NDArray[np.float64]

LARGEST_CHANGE = 0.05
"""Relative change of a standard error that is let pass."""
LARGEST_SHIFT = 0.1
"""Bias of an estimate, in standard errors, that is let pass."""
_TIGHTER, _TIMES, _TIGHTEST = 1e-2, 3, 1e-13
_UNDETERMINED = 1e3  # times the value of an unknown: standard errors that large say nothing, right or wrong


class DerivativeCheck(NamedTuple):
    """What became of the standard errors when tolerances were tightened.

    Attributes
    ----------
    solution
        The solution with the linearisation that statistics are to use: its own where that was good enough.
    rtol
        The tolerance of that linearisation.
    change
        By which factor each standard error changed from the solver's linearisation to this one; None if not at all.
    settled
        Whether the last tightening changed no standard error by more than `LARGEST_CHANGE`; None: not checked.
    failure
        Why no tighter tolerance could be had, if that is so.
    shift
        By how many standard errors estimates would move at the tightest tolerance that was tried.
    """

    solution: SolverResult
    rtol: float
    change: Array | None = None
    settled: bool | None = None
    failure: str = ""
    shift: Array | None = None


def checked_derivatives(
    problem: Problem, uncertainty: Uncertainty, methods: Collection[str], placed: Placed | None = None
) -> DerivativeCheck:
    """Compare the linearisation of a solution with those at tighter tolerances.

    One method that integrated all experiments does so again, and no other one has to be compiled.  `placed` says where
    nodes stand and which rules hold, if the solution has any.
    """
    if len(set(methods)) == 1:
        problem = problem.with_settings(integrator=next(iter(methods)))
    first, rtol = uncertainty, problem.settings.rtol
    unchecked = DerivativeCheck(uncertainty.solution, rtol)
    if uncertainty.solution.status is SolverStatus.INTERRUPTED or not _integrates(uncertainty):
        return unchecked
    best, at, shift = uncertainty, rtol, None
    for k in range(1, _TIMES + 1):
        next_rtol = tighter(rtol, k)
        if next_rtol >= at:
            break
        point = _point_at(problem, uncertainty.solution.x, next_rtol, placed)
        if isinstance(point, Failed):
            return _account(first, best, at, shift, settled=False)._replace(failure=point.failure)
        new = _with_linearisation(uncertainty, point)
        if _is_same(best, new):
            shift = _shift(first, best, point)
            if best is first:
                return unchecked._replace(settled=True, shift=shift)
            return _account(first, new, next_rtol, shift, settled=True)
        best, at, shift = new, next_rtol, _shift(first, new, point)
    return _account(first, best, at, shift, settled=False)


def _integrates(uncertainty: Uncertainty) -> bool:
    """Tell whether an unknown reaches a state: else there are no sensitivities."""
    compiled = uncertainty.plan.compiled
    return any(compiled.structure.n_directions[o.experiment] for o in uncertainty.plan.data.of_experiment)


def _point_at(problem: Problem, x: Array, rtol: float, placed: Placed | None) -> Point | Failed:
    """Return the point with its linearisation on steps chosen at this tolerance."""
    stop = StopFlag()
    if placed is not None:
        with raise_on_interrupt(stop):
            return placed.point(tightened(problem, rtol), x, stop)
    objective = SingleShooting(tightened(problem, rtol), stop)
    with raise_on_interrupt(stop):
        objective.refresh(x)
        return objective.evaluate(x, 1)


def tighter(rtol: float, times: int = 1) -> float:
    """Return the next tolerance to be tried, or the one after so many times."""
    return max(rtol * _TIGHTER**times, _TIGHTEST)


def tightened(problem: Problem, rtol: float) -> Problem:
    """Return the problem with another relative tolerance, and absolute ones that follow."""
    settings = problem.settings
    return problem.with_settings(rtol=rtol, atol=_scaled(settings.atol, rtol / settings.rtol))


def _scaled(atol: Any, factor: float) -> Any:
    """Return absolute tolerances that are tightened as the relative one is; those not given are by themselves."""
    if isinstance(atol, Mapping):
        return {name: _scaled(value, factor) for name, value in atol.items()}
    return atol if atol is None or isinstance(atol, str) else atol * factor


def _with_linearisation(uncertainty: Uncertainty, point: Point) -> Uncertainty:
    """Return the statistics of the same residuals with another linearisation."""
    own = uncertainty.solution.evaluation
    assert not isinstance(own, Failed)
    solution = dataclasses.replace(uncertainty.solution, evaluation=own._replace(linear=point.linear))
    return dataclasses.replace(uncertainty, solution=solution)


def _is_same(old: Uncertainty, new: Uncertainty) -> bool:
    """Tell whether standard errors are the same with both linearisations."""
    with np.errstate(all="ignore"):
        errors = np.sqrt(squared_rows(old.directions.root))
        differences = np.sqrt(squared_rows((new.jacobian - old.jacobian).T))
        if float(differences @ errors) <= LARGEST_CHANGE:
            return True
        change = np.abs(np.log(_change(old, new)))
    if np.any(old.directions.lost_parameters != new.directions.lost_parameters):
        return False  # what is determined with one of them is not with the other
    return bool(np.all(change[np.isfinite(change)] <= math.log1p(LARGEST_CHANGE)))


def _change(old: Uncertainty, new: Uncertainty) -> Array:
    """Return by which factor each standard error changed; NaN where both say that the unknown is not determined."""
    a, b = old.independent.standard_error, new.independent.standard_error
    size = np.where(old.plan.compiled.logarithmic, 1.0, np.abs(old.solution.x))
    with np.errstate(all="ignore"):
        return np.where(np.minimum(a, b) <= _UNDETERMINED * size, b / a, np.nan)


def _shift(first: Uncertainty, best: Uncertainty, point: Point) -> Array:
    """Return the Gauss-Newton step from a point less the one that the solver left undone, in standard errors."""
    assert first.solution.linear is not None
    assert point.linear is not None
    with np.errstate(all="ignore"):
        step = _step(best, point.linear) - _step(first, first.solution.linear)
        return step / best.independent.standard_error


def _step(uncertainty: Uncertainty, linear: LinearModel) -> Array:
    root = uncertainty.directions.root
    return np.asarray(root @ (root.T @ linear.descent()))


def _account(
    first: Uncertainty, best: Uncertainty, rtol: float, shift: Array | None, *, settled: bool
) -> DerivativeCheck:
    change = None if best is first else _change(first, best)
    return DerivativeCheck(best.solution, rtol, change, settled, shift=shift)
