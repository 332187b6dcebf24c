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
from odefit.solve import Failed, Point, SolverResult, SolverStatus
from odefit.statistics.matrices import squared_rows
from odefit.strategy.uncertainty import Uncertainty
from odefit.transcribe import SingleShooting

Array = npt.NDArray[np.float64]

LARGEST_CHANGE = 0.05
"""Relative change of a standard error that is let pass."""
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
    """

    solution: SolverResult
    rtol: float
    change: Array | None = None
    settled: bool | None = None
    failure: str = ""


def checked_derivatives(problem: Problem, uncertainty: Uncertainty, methods: Collection[str]) -> DerivativeCheck:
    """Compare the linearisation of a solution with those at tighter tolerances.

    One method that integrated all experiments does so again, and no other one has to be compiled.
    """
    if len(set(methods)) == 1:
        problem = problem.with_settings(integrator=next(iter(methods)))
    first, rtol = uncertainty, problem.settings.rtol
    unchecked = DerivativeCheck(uncertainty.solution, rtol)
    if uncertainty.solution.status is SolverStatus.INTERRUPTED or not _integrates(uncertainty):
        return unchecked
    best, at = uncertainty, rtol
    for k in range(1, _TIMES + 1):
        tighter = max(rtol * _TIGHTER**k, _TIGHTEST)
        if tighter >= at:
            return _account(first, best, at, settled=False)
        point = _point_at(problem, uncertainty.solution.x, tighter)
        if isinstance(point, Failed):
            return _account(first, best, at, settled=False)._replace(failure=point.failure)
        new = _with_linearisation(uncertainty, point)
        if _is_same(best, new):
            return unchecked._replace(settled=True) if best is first else _account(first, new, tighter, settled=True)
        best, at = new, tighter
    return _account(first, best, at, settled=False)


def _integrates(uncertainty: Uncertainty) -> bool:
    """Tell whether an unknown reaches a state: else there are no sensitivities."""
    compiled = uncertainty.plan.compiled
    return any(compiled.structure.n_directions[o.experiment] for o in uncertainty.plan.data.of_experiment)


def _point_at(problem: Problem, x: Array, rtol: float) -> Point | Failed:
    """Return the point with its linearisation on steps chosen at this tolerance."""
    settings, stop = problem.settings, StopFlag()
    atol = _scaled(settings.atol, rtol / settings.rtol)
    objective = SingleShooting(problem.with_settings(rtol=rtol, atol=atol), stop)
    with raise_on_interrupt(stop):
        objective.refresh(x)
        return objective.evaluate(x, 1)


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
    return bool(np.all(change[np.isfinite(change)] <= math.log1p(LARGEST_CHANGE)))


def _change(old: Uncertainty, new: Uncertainty) -> Array:
    """Return by which factor each standard error changed; NaN where both say that the unknown is not determined."""
    a, b = old.independent.standard_error, new.independent.standard_error
    size = np.where(old.plan.compiled.logarithmic, 1.0, np.abs(old.solution.x))
    with np.errstate(all="ignore"):
        return np.where(np.minimum(a, b) <= _UNDETERMINED * size, b / a, np.nan)


def _account(first: Uncertainty, best: Uncertainty, rtol: float, *, settled: bool) -> DerivativeCheck:
    return DerivativeCheck(best.solution, rtol, None if best is first else _change(first, best), settled)
