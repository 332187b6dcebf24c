"""Multistart: the same fit from many start values, and the minima that it finds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.solve import Solver
from odefit.statistics.covariance import DETERMINED
from odefit.statistics.verdicts import WEAK, ZERO, joined
from odefit.strategy import FitResult, fit_by
from odefit.study.executors import default_workers, run_all
from odefit.study.sampling import sample_starts

_AS_GOOD = 1e-4  # relative difference of objectives that is of no consequence
_SAME = 1e-3  # relative difference of objectives that count as equally good
_APART = 0.01  # relative difference of estimates that makes two minima of equal objectives
_STANDARD_ERRORS = 0.1  # the same, in standard errors


@dataclass(frozen=True)
class StartRun:
    """One fit: where it started and how it ended."""

    number: int
    start: dict[str, float]
    status: str
    message: str
    objective: float
    estimates: dict[str, float]
    iterations: int
    evaluations: int

    @property
    def converged(self) -> bool:
        """Whether this fit converged."""
        return self.status == "converged"


@dataclass(frozen=True)
class Minimum:
    """Fits that ended at the same point, as far as the data tell points apart.

    Attributes
    ----------
    objective, estimates
        Of the best of them.
    count, runs
        How many there are, and their numbers.
    spread
        Largest difference of an estimate among them, relative to its size: large if the data do not fix a
        parameter.
    """

    objective: float
    count: int
    estimates: dict[str, float]
    spread: float
    runs: tuple[int, ...]


@dataclass(frozen=True)
class Cause:
    """Fits that did not converge for the same reason: their status, and of the first its number and message."""

    status: str
    count: int
    objective: float
    number: int
    message: str


@dataclass(frozen=True)
class Multistart:
    """All runs of a multistart, in the order of their starts (the first is the problem's own).

    Attributes
    ----------
    asked
        How many starts were asked for; there are fewer runs after Ctrl-C.
    best
        Number of the run that the result was taken from.
    resolution
        Difference of objectives that the error of the integration makes.
    told
        Parameters that the data determine at the best minimum, and the difference of their estimates that makes two
        minima of equally good fits.
    """

    runs: tuple[StartRun, ...]
    seed: int
    asked: int
    best: int
    resolution: float = 0.0
    told: dict[str, float] = field(default_factory=dict)

    @cached_property
    def minima(self) -> tuple[Minimum, ...]:
        """Distinct minima of the fits that converged, best first.

        Fits differ if their objectives do; those of the best objective also if their estimates do.
        """
        levels: list[list[StartRun]] = []
        for run in sorted((r for r in self.runs if r.converged), key=lambda r: r.objective):
            if levels and run.objective <= levels[-1][0].objective * (1 + _SAME) + self.resolution:
                levels[-1].append(run)
            else:
                levels.append([run])
        return tuple(_minimum(group) for level in levels[:1] for group in self._told_apart(level)) + tuple(
            _minimum(level) for level in levels[1:]
        )

    def _told_apart(self, level: list[StartRun]) -> list[list[StartRun]]:
        """Sort equally good fits by their estimates of the parameters that the data determine."""
        groups: list[list[StartRun]] = []
        for run in level:
            for group in groups:
                if not self.different(run.estimates, group[0].estimates):
                    group.append(run)
                    break
            else:
                groups.append([run])
        return groups

    def different(self, one: dict[str, float], other: dict[str, float]) -> list[str]:
        """Return the parameters that the data determine and that differ."""
        pairs = ((name, one[name], other[name], told) for name, told in self.told.items() if name in one)
        return [name for name, a, b, told in pairs if abs(a - b) > max(told, _APART * max(abs(a), abs(b)))]

    @property
    def equal(self) -> tuple[Minimum, ...]:
        """The minima that are as good as the best one, that one included."""
        best = self.minima[:1]
        return tuple(m for m in self.minima if m.objective <= best[0].objective * (1 + _SAME) + self.resolution)

    @property
    def exchanged(self) -> tuple[str, ...]:
        """Parameters by whose exchanged values the two best minima differ, if that is all."""
        if len(self.equal) < 2:
            return ()
        one, other = (m.estimates for m in self.equal[:2])
        names = self.different(one, other)
        pairs = zip(sorted(one[n] for n in names), sorted(other[n] for n in names), strict=True)
        same = all(abs(a - b) <= _APART * max(abs(a), abs(b)) for a, b in pairs)
        return tuple(names) if same else ()

    @property
    def failures(self) -> dict[str, int]:
        """Status of the fits that did not converge, and how many they are."""
        return {cause.status: cause.count for cause in self.causes}

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Why fits did not converge, most frequent first."""
        groups: dict[str, list[StartRun]] = {}
        for run in self.runs:
            if not run.converged:
                groups.setdefault(run.status, []).append(run)
        found = []
        for status, members in groups.items():
            values = [run.objective for run in members if math.isfinite(run.objective)]
            lowest = min(values, default=math.nan)
            found.append(Cause(status, len(members), lowest, members[0].number, members[0].message))
        return tuple(sorted(found, key=lambda cause: -cause.count))

    @property
    def text(self) -> str:
        """The outcome as sentences."""
        found = self.minima
        parts = [f"{len(self.runs)} of {self.asked} starts (seed {self.seed}): {sum(m.count for m in found)} converged"]
        if found:
            kinds = "1 minimum" if len(found) == 1 else f"{len(found)} minima"
            parts.append(f"to {kinds}, {found[0].count} of them to the best, objective {found[0].objective:.6g}")
        text = " ".join(parts) + "."
        if len(self.equal) > 1:
            text += f" {self.ambiguity}"
        if self.failures:
            text += f" Not converged: {', '.join(f'{word} {n}' for word, n in self.failures.items())}."
        return text

    @property
    def ambiguity(self) -> str:
        """A sentence on several minima that are equally good; empty if there is only one."""
        n = len(self.equal)
        if n < 2:
            return ""
        how = f"{joined(list(self.exchanged))} exchange their values" if self.exchanged else ""
        if not how:
            names = self.different(self.equal[0].estimates, self.equal[1].estimates)
            how = f"they differ in {joined(names)}"
        return f"{n} different minima are equally good ({how}): bounds or other data have to decide."

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, single runs included."""
        return {
            "seed": self.seed,
            "asked": self.asked,
            "best": self.best,
            "minima": [dataclasses.asdict(one) | {"runs": list(one.runs)} for one in self.minima],
            "equally_good": len(self.equal),
            "failures": self.failures,
            "runs": [_plain(run) for run in self.runs],
        }


def _plain(run: StartRun) -> dict[str, Any]:
    content = dataclasses.asdict(run)
    content["objective"] = run.objective if math.isfinite(run.objective) else None
    return content


def _minimum(group: list[StartRun]) -> Minimum:
    values = np.array([list(run.estimates.values()) for run in group])
    size = np.maximum(np.abs(values).max(axis=0), 1e-300)
    spread = float(np.max((values.max(axis=0) - values.min(axis=0)) / size)) if values.size else 0.0
    numbers = tuple(run.number for run in group)
    return Minimum(group[0].objective, len(group), group[0].estimates, spread, numbers)


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
    points = sample_starts(problem, starts, seed)

    def fitted(i: int) -> FitResult:
        changed = problem.with_start(**points[i]) if i else problem
        return fit_by(method, changed, solver=solver, start="given" if i else start, stop=stop)

    def work(i: int) -> StartRun:
        result = fitted(i)
        names = result.objective_function.names
        estimates = {name: result.estimates[name] for name in names if name in result.estimates}
        begun = points[i] if result.start_values is None else points[i] | result.start_values.values
        return StartRun(
            i, begun, result.status, result.message, result.objective, estimates, result.iterations,
            result.evaluations,
        )  # fmt: skip

    runs: list[StartRun] = []
    for _, run in run_all(work, starts, default_workers() if workers is None else workers, stop):
        runs.append(run)
        if progress is not None:
            progress(run, len(runs))
    runs.sort(key=lambda run: run.number)
    resolution = 0.5 * (problem.settings.rtol * first.objective_function.data_norm) ** 2
    if stop is not None and stop.is_set():
        return _interrupted(method, problem, runs, seed, starts, resolution, solver)
    best = _best(runs, resolution)
    # the fit itself, with its linearisation, was done elsewhere: fits are deterministic
    result = fitted(best)
    record = Multistart(tuple(runs), seed, starts, best, resolution, _told(result))
    return dataclasses.replace(result, multistart=record, start_values=first.start_values)


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
    chosen = next((run for run in runs if run.number == best and math.isfinite(run.objective)), None)
    once = problem if chosen is None else problem.with_start(**chosen.estimates)
    result = fit_by("single", once.with_settings(max_iterations=1), solver=solver, start="given")
    word = f"; this is the best of them (start {best}, {chosen.status})" if chosen in done else ""
    solution = dataclasses.replace(
        result.solution,
        status="interrupted",
        message=f"stopped after {len(done)} of {starts} starts{word}",
        iterations=0 if chosen is None else chosen.iterations,
        evaluations=0 if chosen is None else chosen.evaluations,
    )
    record = Multistart(tuple(done), seed, starts, best, resolution, _told(result))
    return dataclasses.replace(
        result, problem=problem, solution=solution, method=method, attempts=(), multistart=record
    )


def _best(runs: list[StartRun], resolution: float) -> int:
    """Return the first run that is as good as the best: of those that converged, if there are any."""
    candidates = [run for run in runs if run.converged] or [run for run in runs if math.isfinite(run.objective)]
    if not candidates:
        return 0
    lowest = min(run.objective for run in candidates)
    return next(run.number for run in candidates if run.objective <= lowest * (1 + _AS_GOOD) + resolution)


def _told(result: FitResult) -> dict[str, float]:
    """Return the free parameters that the data determine, with a small part of their standard errors."""
    rows = ((name, result.parameters[name]) for name in result.objective_function.names if name in result.parameters)
    return {
        name: _STANDARD_ERRORS * (row.standard_error or 0.0)
        for name, row in rows
        if row.verdict in (DETERMINED, ZERO, WEAK)
    }
