"""Collocation: the states at all points of finite elements are unknowns, and the answer is polished by shooting.

The states begin where the data are, however poor the start values of the parameters, and nothing is integrated that
could run away.  What collocation finds (see `odefit.transcribe.collocation`) is the start of single shooting, whose
result is the answer: estimates, statistics and status are those of the problem itself, to the accuracy of the
integrator.  Where trajectories are too unstable for that, multiple shooting takes its place.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np

from odefit.errors import OdefitError
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.problem.constrained import constrained
from odefit.solve import Failed, Solver, SolverStatus, TraceRow
from odefit.strategy.attempt import Attempt
from odefit.strategy.multiple import fit_multiple
from odefit.strategy.result import FitResult
from odefit.strategy.single import fit_single
from odefit.transcribe import SingleShooting
from odefit.transcribe.collocation import Collocated, Collocation
from odefit.transcribe.collocation_program import Limits

Callback = Callable[[TraceRow], None]

_WORSE = 1.05  # times the objective of collocation: then single shooting has lost the minimum
_UNSTABLE = 100.0  # times that, at the same parameters
_NOISE = 1e-4  # square of the noise that data have at least, relative to them: differences below are no instability
_LARGEST_EXPONENT = 20.0  # of a share between bounds, that they differ from it


def fit_collocation(
    problem: Problem, solver: Solver, stop: StopFlag | None = None, callback: Callback | None = None
) -> FitResult:
    """Fit by collocation, and polish the estimates by shooting."""
    collocation = _collocation_of(problem, stop)
    found = collocation.solve()
    status = _status(found)
    objective = collocation.plan.in_units(found.value)
    estimates = natural_start(collocation, found)
    first = Attempt(
        "collocation", status, objective, found.iterations, n_data=collocation.plan.n_fitted, estimates=estimates
    )
    results: list[FitResult] = []
    unstable = found.converged and _is_unstable(problem, estimates, found.value, stop)
    for start, method in _tries(found, estimates, unstable=unstable):
        if results and _settles(results, found, objective):
            break
        one = _polished(problem.with_start(**start) if start else problem, method, solver, stop, callback)
        if one is not None:
            results.append(one)
    best = min(results, key=_rank)
    note = "; ".join(part for part in (_note(found), best.solution.note) if part)
    attempts = (first, *(dataclasses.replace(one.attempts[0], estimates=_natural(one)) for one in results))
    return FitResult(
        problem,
        dataclasses.replace(best.solution, note=note),
        best.integrators,
        "collocation",
        best.solver,
        attempts,
        rules=best.rules,
        placed=best.placed,
    )


def _collocation_of(problem: Problem, stop: StopFlag | None) -> Collocation:
    """Return the program of a problem, which has its rules among the equations and limits."""
    with_rules = constrained(problem)
    if with_rules is None:
        return Collocation(problem, stop)
    limits = {row.measurement for row in with_rules.rows if with_rules.constraints[row.constraint].at_least}
    return Collocation(with_rules.problem, stop, Limits(frozenset(limits)), len(problem.measurements))


def _natural(result: FitResult) -> dict[str, float]:
    """Return natural values of the free parameters."""
    compiled = result.plan.compiled
    return dict(zip(compiled.theta_names, compiled.to_natural(result.solution.x)[0].tolist(), strict=True))


def natural_start(collocation: Collocation, found: Collocated) -> dict[str, float]:
    """Return the estimates of collocation as start values within the bounds; nothing if they are no numbers."""
    compiled = collocation.compiled
    theta = found.theta
    if not np.isfinite(theta).all():
        return {}
    is_logit = np.array([scale == "logit" for scale in compiled.theta_scales], dtype=bool)
    theta = np.where(is_logit, np.clip(theta, -_LARGEST_EXPONENT, _LARGEST_EXPONENT), theta)
    natural = np.clip(compiled.to_natural(theta)[0], compiled.lower, compiled.upper)
    if not np.isfinite(natural).all():
        return {}
    return dict(zip(compiled.theta_names, natural.tolist(), strict=True))


def _is_unstable(problem: Problem, estimates: Mapping[str, float], value: float, stop: StopFlag | None) -> bool:
    """Tell whether single shooting loses the trajectory: from the same parameters it comes to something else."""
    if not estimates:
        return False
    objective = SingleShooting(problem.with_start(**estimates), stop)
    start = objective.compiled.theta_start
    objective.refresh(start)
    point = objective.evaluate(start, 0)
    return isinstance(point, Failed) or not point.value <= _UNSTABLE * (value + objective.plan.data.norm**2 * _NOISE)


def _tries(
    found: Collocated, estimates: Mapping[str, float], *, unstable: bool
) -> list[tuple[Mapping[str, float], str]]:
    """Return from where, and by which method, the answer is sought, in order."""
    if found.interrupted:
        return [(estimates, "single")]
    tries: list[tuple[Mapping[str, float], str]] = []
    if estimates:
        tries = [(estimates, "single"), (estimates, "multiple")]
    if unstable:
        tries.reverse()
    return tries if found.converged else [*tries[:1], ({}, "single"), *tries[1:]]


def _polished(
    problem: Problem, method: str, solver: Solver, stop: StopFlag | None, callback: Callback | None
) -> FitResult | None:
    """Return the result of shooting; None where multiple shooting is not offered."""
    if method == "single":
        return fit_single(problem, solver, stop, callback)
    try:
        return fit_multiple(problem, solver, stop, callback)
    except OdefitError:
        return None


def _settles(results: list[FitResult], found: Collocated, objective: float) -> bool:
    """Tell whether what was found is the answer: a minimum that is no worse than that of collocation."""
    last = min(results, key=_rank)
    if last.status == SolverStatus.INTERRUPTED:
        return True
    if not found.converged:  # nothing is known of its estimates: the start values are tried, too
        return last.converged and len(results) > 1
    if found.cause:
        return last.converged
    slack = _WORSE * objective + 1e-12
    return math.isfinite(last.objective) and last.objective <= slack and last.status != SolverStatus.FAILED


def _rank(result: FitResult) -> tuple[bool, float]:
    """Order results: those with an objective first, then by it."""
    value = result.objective
    return (not math.isfinite(value), value if math.isfinite(value) else 0.0)


def _status(found: Collocated) -> SolverStatus:
    if found.interrupted:
        return SolverStatus.INTERRUPTED
    if found.converged:
        return SolverStatus.CONVERGED
    if "limit of iterations" in found.cause:
        return SolverStatus.LIMIT
    return SolverStatus.INFEASIBLE if "any better" in found.cause else SolverStatus.FAILED


def _note(found: Collocated) -> str:
    """Say what was wrong with collocation."""
    if not found.cause or found.interrupted:
        return ""
    if found.converged:
        return f"Collocation converged, but {found.cause}; the estimates are those of shooting from there"
    return f"Collocation failed ({found.cause}); the estimates are those of shooting from where it ended"
