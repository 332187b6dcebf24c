"""The record of a multistart: its runs, and the minima and causes of failure that they show."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from odefit.statistics.verdicts import joined
from odefit.strategy.result_content import with_none_for_missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SAME = 1e-3  # relative difference of objectives that count as equally good
_APART = 0.01  # relative difference of estimates that makes two minima of equal objectives


@dataclass(frozen=True)
class StartRun:
    """One fit: where it started and how it ended.

    `feasible` tells whether data of infinite weight are met; `resolution` is the difference of objectives that the
    error of the integration makes there.
    """

    number: int
    start: dict[str, float]
    status: str
    message: str
    objective: float
    estimates: dict[str, float]
    iterations: int
    evaluations: int
    feasible: bool = True
    resolution: float = 0.0

    @property
    def converged(self) -> bool:
        """Whether this fit converged."""
        return self.status == "converged"


def as_good_as(objective: float, lowest: float, resolution: float, share: float = _SAME) -> bool:
    """Tell whether an objective is equal to the lowest one, but for a share of it and what an integration resolves."""
    return objective <= lowest + share * abs(lowest) + resolution


def eligible(runs: Sequence[StartRun]) -> list[StartRun]:
    """Return the runs whose objectives can be compared.

    They have one, and meet data of infinite weight, which have no share in it; where no run does, all that have one.
    """
    known = [run for run in runs if math.isfinite(run.objective)]
    return [run for run in known if run.feasible] or known


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
    scales, bounds
        How the solver saw the parameters, and between which natural values, by name.
    """

    runs: tuple[StartRun, ...]
    seed: int
    asked: int
    best: int
    resolution: float = 0.0
    told: dict[str, float] = field(default_factory=dict)
    scales: Mapping[str, str] = field(default_factory=dict, repr=False)
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict, repr=False)

    @cached_property
    def minima(self) -> tuple[Minimum, ...]:
        """Distinct minima of the fits that converged, best first.

        Fits differ if their objectives do; those of the best objective also if their estimates do.
        """
        levels: list[list[StartRun]] = []
        for run in sorted((r for r in self.runs if r.converged), key=lambda r: r.objective):
            if levels and as_good_as(run.objective, levels[-1][0].objective, self.resolution):
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
        pairs = ((name, one[name], other[name], difference) for name, difference in self.told.items() if name in one)
        return [name for name, a, b, difference in pairs if abs(a - b) > max(difference, _APART * max(abs(a), abs(b)))]

    @property
    def equal(self) -> tuple[Minimum, ...]:
        """The minima that are as good as the best one, that one included."""
        best = self.minima[:1]
        return tuple(m for m in self.minima if as_good_as(m.objective, best[0].objective, self.resolution))

    @property
    def lower(self) -> tuple[StartRun, ...]:
        """Fits that did not converge but ended lower than the best minimum, lowest first."""
        if not self.minima:
            return ()
        least = self.minima[0].objective
        below = (r for r in eligible(self.runs) if not as_good_as(least, r.objective, self.resolution))
        return tuple(sorted(below, key=lambda r: r.objective))

    @property
    def best_run(self) -> StartRun | None:
        """The run that the result was taken from; None if it was not done."""
        return next((run for run in self.runs if run.number == self.best), None)

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
        causes = []
        for status, members in groups.items():
            values = [run.objective for run in members if math.isfinite(run.objective)]
            lowest = min(values, default=math.nan)
            causes.append(Cause(status, len(members), lowest, members[0].number, members[0].message))
        return tuple(sorted(causes, key=lambda cause: -cause.count))

    @property
    def headline(self) -> str:
        """How many starts there were and where they led, in a sentence."""
        minima = self.minima
        converged = sum(m.count for m in minima)
        parts = [f"{len(self.runs)} of {self.asked} starts (seed {self.seed}): {converged} converged"]
        if minima:
            kinds = "1 minimum" if len(minima) == 1 else f"{len(minima)} minima"
            parts.append(f"to {kinds}, {minima[0].count} of them to the best, objective {minima[0].objective:.6g}")
        if not minima and (lowest := min((r.objective for r in eligible(self.runs)), default=None)) is not None:
            parts.append(f"; the lowest objective reached is {lowest:.6g}")
        return " ".join(parts).replace(" ;", ";") + "."

    @property
    def text(self) -> str:
        """The outcome as sentences."""
        text = self.headline
        if len(self.equal) > 1:
            text += f" {self.ambiguity}"
        if self.lower:
            text += f" {self.doubt}"
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

    @property
    def doubt(self) -> str:
        """A sentence on fits that ended lower without converging; empty if there is none."""
        if not self.lower:
            return ""
        n, lowest = len(self.lower), self.lower[0]
        who = "1 fit that did not converge" if n == 1 else f"{n} fits that did not converge"
        return (
            f"{who} ended lower than the best minimum (start {lowest.number}, {lowest.status}, objective "
            f"{lowest.objective:.6g}): that minimum is not the lowest, and the result is the lowest of these fits."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain types, single runs included; None where a number does not exist."""
        content = {
            "seed": self.seed,
            "asked": self.asked,
            "best": self.best,
            "minima": [dataclasses.asdict(one) for one in self.minima],
            "equally_good": len(self.equal),
            "failures": self.failures,
            "runs": [dataclasses.asdict(run) for run in self.runs],
        }
        return with_none_for_missing(content)

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


def _minimum(group: list[StartRun]) -> Minimum:
    values = np.array([list(run.estimates.values()) for run in group])
    size = np.maximum(np.abs(values).max(axis=0), 1e-300)
    spread = float(np.max((values.max(axis=0) - values.min(axis=0)) / size)) if values.size else 0.0
    numbers = tuple(run.number for run in group)
    return Minimum(group[0].objective, len(group), group[0].estimates, spread, numbers)
