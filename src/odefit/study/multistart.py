"""Multistart: the same fit from many start values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from odefit.native.stop import StopFlag
from odefit.native.threads import usable_cores
from odefit.problem import Problem
from odefit.solve import FROM_HERE, Solver, SolverStatus
from odefit.statistics.covariance import DETERMINED
from odefit.statistics.verdicts import WEAK, ZERO
from odefit.strategy import FitResult, fit_by
from odefit.strategy.single import meets_exact_data
from odefit.study.executors import run_all
from odefit.study.record import Multistart, StartRun, as_good_as, eligible
from odefit.study.sampling import sample_starts
from odefit.study.workers import LostWork

_AS_GOOD = 1e-4  # relative difference of objectives that is of no consequence
_STANDARD_ERRORS = 0.1  # differences of estimates below this part of them make no other minimum


def fit_from_many(
    method: str,
    problem: Problem,
    *,
    starts: int,
    seed: int = 0,
    workers: int | None = None,
    solver: str | Solver | None = None,
    start: str | None = None,
    stop: StopFlag | None = None,
    progress: Callable[[StartRun, int], None] | None = None,
) -> FitResult:
    """Fit from `starts` start values and return the best fit, with all of them as `multistart`.

    Parameters
    ----------
    starts, seed
        How many, the problem's own (or with ``start="auto"`` the matched one) among them, and which; the same
        seed gives the same starts and the same result whatever the number of workers.
    workers
        Processes or threads; as many as there are cores if None.
    progress
        Called in this process with each run when it is done (in any order), and how many are done.
    """
    # compile before any fork, and refuse what cannot be fitted at all
    first = fit_by(method, problem.with_settings(max_iterations=1), solver=solver, start=start, stop=stop)
    matched = {} if first.start_values is None else first.start_values.values
    points = sample_starts(problem.with_start(**matched), starts, seed)

    def fitted(i: int) -> FitResult:
        changed = problem.with_start(**points[i]) if i else problem
        return fit_by(method, changed, solver=solver, start="given" if i else start, stop=stop)

    def work(i: int) -> StartRun:
        result = fitted(i)
        names = result.plan.names
        estimates = {name: result.estimates[name] for name in names if name in result.estimates}
        return StartRun(
            i, points[i], result.status, result.message, result.objective, estimates, result.iterations,
            result.evaluations, meets_exact_data(result),
            result.plan.in_units(result.plan.criterion.change(result.resolution)),
        )  # fmt: skip

    runs: list[StartRun] = []
    for i, answer in run_all(work, starts, usable_cores() if workers is None else workers, stop):
        run = _lost(i, points[i], answer.cause) if isinstance(answer, LostWork) else answer
        runs.append(run)
        if progress is not None:
            progress(run, len(runs))
    runs.sort(key=lambda run: run.number)
    resolution = min(runs, key=_objective).resolution if runs else 0.0
    if stop is not None and stop.is_set():
        return _interrupted(method, problem, runs, seed, starts, resolution, solver)
    best = _best(runs, resolution)
    # the fit itself, with its linearisation, was done elsewhere: fits are deterministic
    result = fitted(best)
    record = _record(runs, seed, starts, best, resolution, result)
    solution = dataclasses.replace(result.solution, message=_agreed(runs, result.message))
    return dataclasses.replace(result, solution=solution, multistart=record, start_values=first.start_values)


def _lost(number: int, start: dict[str, float], cause: str) -> StartRun:
    """Return the record of a fit whose processes ended."""
    return StartRun(number, start, SolverStatus.FAILED.value, cause, math.nan, {}, 0, 0)


def _agreed(runs: list[StartRun], message: str) -> str:
    """Return the message of the best run; what it says of a place holds of the data where all starts agree."""
    if FROM_HERE in message and all(run.message == message for run in runs):
        return message.replace(FROM_HERE, f"all {len(runs)} starts agree that ")
    return message


def _interrupted(
    method: str,
    problem: Problem,
    runs: list[StartRun],
    seed: int,
    starts: int,
    resolution: float,
    solver: str | Solver | None,
) -> FitResult:
    """Return the best of the fits that were done when Ctrl-C came; it is not fitted anew, only evaluated."""
    done = [run for run in runs if run.status != "interrupted"]
    best = _best(done or runs, resolution)
    best_run = next((run for run in runs if run.number == best and math.isfinite(run.objective)), None)
    once = problem if best_run is None else problem.with_start(**best_run.estimates)
    result = fit_by("single", once.with_settings(max_iterations=1), solver=solver, start="given")
    word = f"; this is the best of them (start {best}, {best_run.status})" if best_run in done else ""
    solution = dataclasses.replace(
        result.solution,
        status=SolverStatus.INTERRUPTED,
        message=f"stopped after {len(done)} of {starts} starts{word}",
        iterations=0 if best_run is None else best_run.iterations,
        evaluations=0 if best_run is None else best_run.evaluations,
    )
    record = _record(done, seed, starts, best, resolution, result)
    return dataclasses.replace(
        result, problem=problem, solution=solution, method=method, attempts=(), multistart=record
    )


def _best(runs: list[StartRun], resolution: float) -> int:
    """Return the first run that is as good as the lowest, one that converged if there is such a one.

    A run that did not converge wins over one that did if it is lower: then that minimum is not the lowest.
    """
    candidates = eligible(runs)
    if not candidates:
        return 0
    lowest = min(run.objective for run in candidates)
    equal = [run for run in candidates if as_good_as(run.objective, lowest, resolution)]
    settled = [run for run in equal if run.converged] or equal
    lowest = min(run.objective for run in settled)
    return next(run.number for run in settled if as_good_as(run.objective, lowest, resolution, _AS_GOOD))


def _objective(run: StartRun) -> float:
    return run.objective if math.isfinite(run.objective) else math.inf


def _told(result: FitResult) -> dict[str, float]:
    """Return the free parameters that the data determine, with a small part of their standard errors."""
    rows = ((name, result.parameters[name]) for name in result.plan.names if name in result.parameters)
    return {
        name: _STANDARD_ERRORS * (row.standard_error or 0.0)
        for name, row in rows
        if row.verdict in (DETERMINED, ZERO, WEAK)
    }


def _record(
    runs: list[StartRun], seed: int, starts: int, best: int, resolution: float, result: FitResult
) -> Multistart:
    compiled = result.plan.compiled
    bounds = zip(compiled.lower.tolist(), compiled.upper.tolist(), strict=True)
    return Multistart(
        tuple(runs),
        seed,
        starts,
        best,
        resolution,
        _told(result),
        dict(zip(compiled.theta_names, compiled.theta_scales, strict=True)),
        dict(zip(compiled.theta_names, bounds, strict=True)),
    )
