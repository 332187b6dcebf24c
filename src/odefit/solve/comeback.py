"""Ends on a plateau, and the way back from them.

An unknown on a logarithmic scale, theta = log k, has the column k dr/dk.  It vanishes for k -> 0 although dr/dk does
not, and for k -> infinity, where the model depends on 1/k, as (1/k) dr/d(1/k); on a logit scale likewise at both
bounds, with the odds in place of k.  There all tests of convergence hold, and no step on the logarithmic scale leads
back: a trust region that allows a factor e cannot bridge twelve decades, and columns lost in rounding allow no step.
Such an end is no minimum.

**Idle unknowns.**  With c theta the logarithm (c = 1, or log 10), an unknown is *idle* if its change by a factor e
would alter the residual by less than `FELT` of its norm: c^-1 ||J_i|| <= FELT ||r||.  Its standard error is larger
than 1/FELT factors e over the root of the number of data; so no unknown that the data determine is idle.  The same
holds for directions: where the rank is deficient, unknowns may be idle in a combination only (V and K of a saturation
that is never reached; the data fix V/K).  The criterion depends on no unit.

**Natural steps.**  In u = k the full Gauss-Newton step is du/u = c dtheta, the same vector, but it is meant
differently: k becomes k (1 + c dtheta) and not k exp(c dtheta).  For a step to smaller values the natural variable is
1/k.  Both together:

    theta_new = theta + sign(dtheta) log(1 + c |dtheta|)/c,

which for small steps is the step itself.  The step is that of the problem whose columns have norm one, so that small
ones are not lost.

**Probes.**  Columns that are zero (exp(-k t) for huge k) tell no direction.  Idle unknowns are looked at in steps of
`STRIDE` factors e up and down.  A probe is promising if its objective is lower, or if the linear model says there that
it can be made lower by far.

From a trial point that is promising the minimisation goes on, and the lower end counts.  All this is bounded: trial
points by `MOST_TRIALS`, new minimisations by `MOST_RETURNS`.  If nothing leads back, an idle unknown that does have
influence elsewhere is named, and the fit has not converged.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.solve.contract import Evaluation, Failed, Objective, Point, SolverResult, heavy_of, magnitude_of
from odefit.solve.gauss_newton import flat_valley
from odefit.solve.status import SolverStatus
from odefit.solve.termination import Termination

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

FELT = 1e-3
STRIDE, FARTHEST = 3.0, 36.0
MOST_TRIALS, MOST_RETURNS = 120, 6
_MOST_DIRECTIONS = 6
_SHARES = (1.0, 0.1, 0.01)  # of the natural step that are tried
_BY_FAR = 0.5  # of the objective, that a linear model must promise to be left at most
_SEEN = 1e-8  # relative change of the objective that is no rounding
_LOST = 1e-10  # singular value of scaled columns, relative to the largest one, that is lost in rounding
_UNDERFLOWN = 1e-18  # column over residual, below which it tells no direction
_LOGARITHMS = 0.99  # share of logarithmic unknowns in a direction that may be probed
_LARGEST_LOGARITHM = math.log(np.finfo(float).max)
_SUCCESSES = (SolverStatus.CONVERGED, SolverStatus.NO_INFLUENCE)
_ENDS = (
    SolverStatus.CONVERGED,
    SolverStatus.FLAT,
    SolverStatus.SLOW,
    SolverStatus.STALLED,
    SolverStatus.NO_INFLUENCE,
)


class Plateau(NamedTuple):
    """What is idle at the end of a minimisation.

    Attributes
    ----------
    unknowns
        Idle ones.
    directions
        In which probes are made, a row each, in factors e.
    natural
        The natural step, as a function of the share of it that is taken.
    """

    unknowns: npt.NDArray[np.int64]
    directions: Array
    natural: Callable[[float], Array] | None


def solve_with_comeback(
    minimise: Callable[[Array], SolverResult],
    objective: Objective,
    x0: Array,
    box: tuple[Array, Array],
    rates: Array,
    termination: Termination,
) -> SolverResult:
    """Minimise from `x0`, and again from where plateaus are left.

    Parameters
    ----------
    minimise
        One minimisation, from a point on.
    box
        Lower and upper bounds.
    rates
        c: the factor that makes natural logarithms of the unknowns, 0 for those that are no logarithms.
    """
    result = minimise(x0)
    counts = _Counts(result)
    if not rates.any():
        return result
    trials, felt = 0, False
    while (plateau := find_plateau(result, rates)) is not None:
        better = None
        for x in trial_points(plateau, result.x, box, rates):
            trials += 1
            if trials > MOST_TRIALS or counts.returns >= MOST_RETURNS:
                felt = True  # not all was looked at: an idle unknown may well have influence
                break
            objective.refresh(x)
            point = objective.evaluate(x, 1)
            if isinstance(point, Failed):
                if point.interrupted:
                    return counts.added(result, SolverStatus.INTERRUPTED)
                continue
            felt = felt or _differs(point, result, termination)
            if not _is_promising(point, result, termination):
                continue
            again = minimise(x)
            counts.add(again)
            if again.status == SolverStatus.INTERRUPTED:
                return counts.added(result, SolverStatus.INTERRUPTED)
            if _is_lower(again.evaluation, result, termination):
                better = again
                break
        felt = felt or _has_vanished(result.x, plateau, rates)
        if better is None:
            objective.refresh(result.x)  # the grids are those of the result again
            return counts.added(_named(result, objective, plateau, felt))
        result = better
    return counts.added(result)


def idle_unknowns(result: SolverResult, rates: Array) -> Flags:
    """Tell which unknowns are idle where a minimisation ended."""
    point = result.evaluation
    if isinstance(point, Failed) or point.linear is None:
        return np.zeros(rates.size, dtype=bool)
    return (rates > 0.0) & ~result.active & (point.linear.column_norms() <= FELT * point.size * rates)


def find_plateau(result: SolverResult, rates: Array) -> Plateau | None:
    """Return what is idle at the end of a minimisation; None if nothing is, or if it ended for other reasons."""
    point = result.evaluation
    if isinstance(point, Failed) or point.linear is None or result.status not in _ENDS or not point.size > 0.0:
        return None
    if heavy_of(point) is not None:  # rows of very large weight hold unknowns in ways that columns do not tell
        return None
    movable = (rates > 0.0) & ~result.active
    sizes = point.linear.column_norms()
    idle = idle_unknowns(result, rates)
    lost = result.rank < int(np.count_nonzero(~result.active & (sizes > 0.0)))
    if not (idle.any() or (lost and movable.any())) or not np.isfinite(sizes).all():
        return None
    unknowns = np.flatnonzero(idle)
    directions = np.zeros((unknowns.size, rates.size))
    directions[np.arange(unknowns.size), unknowns] = 1.0
    factors = _factors(point, ~result.active & (sizes > _UNDERFLOWN * point.size))
    if factors is None:
        return Plateau(unknowns, directions[:_MOST_DIRECTIONS], None)
    directions = np.vstack([directions, _in_factors(factors.null, rates)])
    if not len(directions):
        return None
    return Plateau(unknowns, directions[:_MOST_DIRECTIONS], lambda share: _natural(share * factors.step, rates))


class _Factors(NamedTuple):
    """The linear problem in columns of norm one: full step, what it removes, and directions lost in rounding."""

    step: Array
    removed: float
    null: Array


def _factors(point: Point, usable: Flags) -> _Factors | None:
    """Factor the usable columns; None if there are none."""
    assert point.linear is not None
    if not usable.any():
        return None
    triangle = point.linear.triangle()
    scale = 1.0 / point.linear.column_norms()[usable]
    left, values, right = np.linalg.svd(triangle.R[:, usable] * scale, full_matrices=False)
    kept = values > _LOST * values[0]
    removed = left.T[kept] @ triangle.b
    step, null = np.zeros(usable.size), np.zeros((int(np.count_nonzero(~kept)), usable.size))
    step[usable] = scale * (right[kept].T @ (removed / values[kept]))
    null[:, usable] = right[~kept] * scale
    return _Factors(step, 0.5 * float(removed @ removed), null)


def _in_factors(null: Array, rates: Array) -> Array:
    """Return directions of logarithmic unknowns alone, the largest change being a factor e."""
    logarithmic = rates > 0.0
    pure = [row * rates for row in null if np.linalg.norm(row[logarithmic]) >= _LOGARITHMS * np.linalg.norm(row)]
    return np.array([row / np.max(np.abs(row)) for row in pure]).reshape(len(pure), rates.size)


def _natural(step: Array, rates: Array) -> Array:
    """Return where a step in natural variables leads on the logarithmic scales."""
    safe = np.where(rates > 0.0, rates, 1.0)
    return np.where(rates > 0.0, np.sign(step) * np.log1p(rates * np.abs(step)) / safe, step)


def trial_points(plateau: Plateau, x: Array, box: tuple[Array, Array], rates: Array) -> Iterator[Array]:
    """Yield points that may lead back: natural steps, then probes from near to far."""
    seen = [x]

    safe = np.where(rates > 0.0, rates, 1.0)
    farthest = np.where(rates > 0.0, FARTHEST / safe, math.inf)

    def fresh(v: Array) -> Iterator[Array]:
        point = np.clip(x + np.clip(v, -farthest, farthest), *box)
        if np.isfinite(point).all() and not any(np.array_equal(point, other) for other in seen):
            seen.append(point)
            yield point

    if plateau.natural is not None:
        for share in _SHARES:
            yield from fresh(plateau.natural(share))
    for length in np.arange(STRIDE, FARTHEST + STRIDE, STRIDE):
        for direction in plateau.directions:
            yield from fresh(length * direction / safe)
            yield from fresh(-length * direction / safe)


def _seen(result: SolverResult, termination: Termination) -> float:
    """Return the change of the objective that is neither rounding nor error of the integration."""
    point = result.evaluation
    assert not isinstance(point, Failed)
    return _SEEN * magnitude_of(point) + (termination.tol_abs + point.resolution) * point.size


def _is_lower(point: Evaluation, result: SolverResult, termination: Termination) -> bool:
    return not isinstance(point, Failed) and point.value < result.value - _seen(result, termination)


def _differs(point: Point, result: SolverResult, termination: Termination) -> bool:
    return abs(point.value - result.value) > _seen(result, termination)


def _is_promising(point: Point, result: SolverResult, termination: Termination) -> bool:
    """Tell whether a minimisation from `point` may end lower."""
    if _is_lower(point, result, termination):
        return True
    if point.linear is None or not math.isfinite(point.value):
        return False
    sizes = point.linear.column_norms()
    factors = _factors(point, ~result.active & (sizes > _LOST * point.size) & np.isfinite(sizes))
    return factors is not None and point.value - factors.removed < _BY_FAR * result.value - _seen(result, termination)


def _has_vanished(x: Array, plateau: Plateau, rates: Array) -> bool:
    """Tell whether an idle unknown is 0 or infinite as a number: nothing near it tells what it does elsewhere."""
    logarithms = (rates * x)[plateau.unknowns]
    return bool(np.any(np.abs(logarithms) > _LARGEST_LOGARITHM))


def _named(result: SolverResult, objective: Objective, plateau: Plateau, felt: bool) -> SolverResult:
    """Return a result that nothing led back from: not converged, if an idle unknown has influence elsewhere.

    Where no unknown has any influence, nothing was minimised.
    """
    point = result.evaluation
    assert not isinstance(point, Failed)
    assert point.linear is not None
    free = ~result.active
    if result.converged and free.any() and (point.linear.column_norms()[free] <= _LOST * point.size).all():
        words = "the data do not depend on any free parameter near this point"
        return dataclasses.replace(result, status=SolverStatus.NO_INFLUENCE, message=words)
    if result.status not in _SUCCESSES or not felt or not plateau.unknowns.size:
        return result
    status, message = flat_valley(objective.names[int(plateau.unknowns[0])])
    return dataclasses.replace(result, status=status, message=message)


class _Counts:
    """What all minimisations of a fit have cost."""

    def __init__(self, first: SolverResult) -> None:
        self.results = [first]

    @property
    def returns(self) -> int:
        return len(self.results) - 1

    def add(self, result: SolverResult) -> None:
        self.results.append(result)

    def added(self, result: SolverResult, status: SolverStatus | None = None) -> SolverResult:
        """Return `result` with the cost of all of them."""
        if status is not None:
            words = "the fit was stopped; this is the best point so far"
            result = dataclasses.replace(result, status=status, message=words)
        if not self.returns:
            return result
        rows = [row for one in self.results for row in one.trace]
        return dataclasses.replace(
            result,
            iterations=sum(one.iterations for one in self.results),
            evaluations=sum(one.evaluations for one in self.results),
            refreshes=sum(one.refreshes for one in self.results),
            trace=tuple(row._replace(iteration=i) for i, row in enumerate(rows, 1)),
        )
