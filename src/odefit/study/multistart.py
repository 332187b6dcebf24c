"""Multistart: the same fit from many start values, and the minima that it finds."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.solve import Solver
from odefit.strategy import FitResult, fit_by
from odefit.study.executors import default_workers, run_all
from odefit.study.sampling import sample_starts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AS_GOOD = 1e-6  # relative difference of objectives that is of no consequence
_SAME = 1e-3  # relative difference of objectives that count as one minimum


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
    """Fits that ended at the same objective.

    Attributes
    ----------
    objective, estimates
        Of the best of them.
    count, runs
        How many there are, and their numbers.
    spread
        Largest difference of an estimate among them, relative to its size: large if the data do not fix a
        parameter, or if several minima are equally good.
    """

    objective: float
    count: int
    estimates: dict[str, float]
    spread: float
    runs: tuple[int, ...]


@dataclass(frozen=True)
class Multistart:
    """All runs of a multistart, in the order of their starts (the first is the problem's own).

    Attributes
    ----------
    asked
        How many starts were asked for; there are fewer runs after Ctrl-C.
    best
        Number of the run that the result was taken from.
    scales, bounds
        How the solver saw the parameters, and between which natural values, by name.
    """

    runs: tuple[StartRun, ...]
    seed: int
    asked: int
    best: int
    scales: Mapping[str, str] = field(default_factory=dict, repr=False)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict, repr=False)

    @property
    def minima(self) -> tuple[Minimum, ...]:
        """Distinct minima of the fits that converged, best first."""
        groups: list[list[StartRun]] = []
        for run in sorted((r for r in self.runs if r.converged), key=lambda r: r.objective):
            if groups and run.objective <= groups[-1][0].objective * (1 + _SAME) + 1e-12:
                groups[-1].append(run)
            else:
                groups.append([run])
        return tuple(_minimum(group) for group in groups)

    @property
    def failures(self) -> dict[str, int]:
        """Status of the fits that did not converge, and how many they are."""
        return dict(Counter(run.status for run in self.runs if not run.converged).most_common())

    @property
    def text(self) -> str:
        """The outcome as sentences."""
        found = self.minima
        parts = [f"{len(self.runs)} of {self.asked} starts (seed {self.seed}): {sum(m.count for m in found)} converged"]
        if found:
            kinds = "1 minimum" if len(found) == 1 else f"{len(found)} minima"
            parts.append(f"to {kinds}, {found[0].count} of them to the best, objective {found[0].objective:.6g}")
        text = " ".join(parts) + "."
        if self.failures:
            text += f" Not converged: {', '.join(f'{word} {n}' for word, n in self.failures.items())}."
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, single runs included."""
        return {
            "seed": self.seed,
            "asked": self.asked,
            "best": self.best,
            "minima": [dataclasses.asdict(one) | {"runs": list(one.runs)} for one in self.minima],
            "failures": self.failures,
            "runs": [_plain(run) for run in self.runs],
        }

    def plot_waterfall(self, ax: Axes | None = None) -> Axes:
        """Draw the objectives of all runs, sorted: a plateau is a minimum that many runs found.

        Runs that converged have the colour of their minimum, others a mark for their status; those without an
        objective are counted in the legend.  Objectives below 1e-12 are drawn there.
        """
        from odefit.report.plots.multistart import plot_waterfall

        return plot_waterfall(self, ax)

    def plot_parameters(
        self, ax: Axes | None = None, *, parameters: str | Sequence[str] | None = None, starts: bool = False
    ) -> Axes:
        """Draw the estimates of all runs, a line each in the colour of its minimum, the best in front.

        Parameters
        ----------
        parameters
            Which, a name or several; by default all.
        starts
            Whether to draw the start values as well.
        """
        from odefit.report.plots.multistart import plot_parameters

        return plot_parameters(self, ax, parameters=parameters, starts=starts)


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
    fit_by(method, problem.with_settings(max_iterations=1), solver=solver, start=start, stop=stop)
    points = sample_starts(problem, starts, seed)

    def fitted(i: int) -> FitResult:
        first = i == 0
        changed = problem if first else problem.with_start(**points[i])
        return fit_by(method, changed, solver=solver, start=start if first else "given", stop=stop)

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
    best = _best(runs)
    # the fit itself, with its linearisation, was done elsewhere: fits are deterministic
    result = fitted(best)
    compiled = result.objective_function.compiled
    bounds = zip(compiled.lower.tolist(), compiled.upper.tolist(), strict=True)
    multistart = Multistart(
        tuple(runs), seed, starts, best,
        scales=dict(zip(compiled.theta_names, compiled.theta_scales, strict=True)),
        bounds=dict(zip(compiled.theta_names, bounds, strict=True)),
    )  # fmt: skip
    return dataclasses.replace(result, multistart=multistart)


def _best(runs: list[StartRun]) -> int:
    """Return the first run that is as good as the best: of those that converged, if there are any."""
    candidates = [run for run in runs if run.converged] or [run for run in runs if math.isfinite(run.objective)]
    if not candidates:
        return 0
    lowest = min(run.objective for run in candidates)
    return next(run.number for run in candidates if run.objective <= lowest * (1 + _AS_GOOD))
