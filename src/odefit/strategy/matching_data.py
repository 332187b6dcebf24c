"""The data side of integral matching: curves through the series of an experiment, and their differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.criteria.least_squares import root_weights
from odefit.problem import Experiment, Problem
from odefit.strategy.matching_model import Flags, MatchingModel, matching_models

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_GAUSS, _WEIGHTS = np.polynomial.legendre.leggauss(4)
_LEAST_SIGMA = 0.05  # of a datum, relative to the largest of its observable: an initial value that is known has none
_SHORT = 0.2  # part of the time of the longest series that another one has to cover
FEW = 4
"""Data of an observable, below which a curve through them says little."""
_NO_EQUATIONS = "the model has no differential equations to match"
_CURVED = "{} is no sum of states with known factors"
_UNKNOWN_FACTOR = "{} has a factor or offset that is itself unknown"
_MOVING = "{} has a factor or offset that changes in time"
_LARGEST = 1e100  # its square is a number, and so are sums of these
_TOO_LARGE = "the numbers of {} are larger than 1e100"
_TOO_STEEP = "values of {} change too fast between two times"
_ONE_TIME = "{} is measured at one time only"
_NO_OVERLAP = "what is measured has no times in common"


class Series(NamedTuple):
    """An observable of one experiment: its row C, offset c, how many data it has, and these ordered by time."""

    name: str
    row: Array
    offset: float
    n_data: int
    times: Array
    values: Array
    sigma: Array


@dataclass(eq=False)
class MatchingRun:
    """One experiment: its series, and how states and equations follow from them.

    An equation is the difference of two neighbouring data of a series, which the integral of its row of the rates
    over the time in between should equal.

    Attributes
    ----------
    model, slots, t0, series
        The model, the slot of each of its formal parameters, the start, the data.
    y0
        The initial state if it is known: then conservation relations help.
    grid
        All times of the series that lie within each of them.
    unseen, hidden
        States that the data do not tell, and those of them that what is measured depends on.
    relevant
        (n,): which rates count, the others may have no meaning.
    nodes, weights
        Of the quadrature, intervals of the grid one after the other.
    steps, sigma
        Differences of the data (N,), and their standard deviations.
    """

    model: MatchingModel
    slots: Indices
    t0: float
    series: list[Series]
    y0: Array | None
    grid: Array = field(init=False)
    unseen: Indices = field(init=False)
    hidden: Indices = field(init=False)
    relevant: Flags = field(init=False)
    nodes: Array = field(init=False)
    weights: Array = field(init=False)
    steps: Array = field(init=False)
    sigma: Array = field(init=False)

    def __post_init__(self) -> None:
        self._rows = np.stack([s.row for s in self.series])
        self._offsets = np.array([s.offset for s in self.series])
        self._find_states()
        self.grid = self._common_times()
        if self.is_usable:
            self._curves = self._interpolated()
            half = 0.5 * np.diff(self.grid)[:, None]
            self.nodes, self.weights = (self.grid[:-1, None] + half * (1.0 + _GAUSS)).ravel(), (half * _WEIGHTS).ravel()
            self.node_states = self.states_at(self.nodes)
            self._find_differences()

    @property
    def is_usable(self) -> bool:
        """Whether there is an interval of time to match on."""
        return self.grid.size > 1

    def _find_states(self) -> None:
        """Work out which states the series determine."""
        n = self._rows.shape[1]
        helps = self.y0 is not None and np.linalg.matrix_rank(self._rows) < n
        last = max(float(s.times[-1]) for s in self.series)
        relations = self.model.conserved(self.t0, last) if helps else np.empty((0, n))
        matrix = np.vstack([self._rows, relations])
        self._conserved = relations @ self.y0 if self.y0 is not None else np.empty(0)
        self._to_states = np.asarray(np.linalg.pinv(matrix), dtype=float)  # (n, n_series + n_conserved)
        _, size, vt = np.linalg.svd(matrix)
        rank = int(np.sum(size > 1e-10 * size[0]))
        self.unseen = np.flatnonzero(np.any(np.abs(vt[rank:]) > 1e-8, axis=0))
        is_measured, is_unseen = np.any(self._rows != 0, axis=0), np.isin(np.arange(n), self.unseen)
        self.relevant = self.model.needed_for(is_measured, is_unseen)
        self.hidden = self.unseen[self.relevant[self.unseen]]

    def _common_times(self) -> Array:
        first = max(float(s.times[0]) for s in self.series)
        last = min(float(s.times[-1]) for s in self.series)
        times = np.unique(np.concatenate([s.times for s in self.series]))
        grid = times[(times >= first) & (times <= last)]
        return np.append(self.t0, grid) if self.hidden.size and grid.size and grid[0] > self.t0 else grid

    def _interpolated(self) -> list[tuple[Any, list[int]]]:
        """Interpolate the series, those with the same times together."""
        from scipy.interpolate import PchipInterpolator  # slow to import

        groups: dict[bytes, list[int]] = {}
        for i, s in enumerate(self.series):
            groups.setdefault(s.times.tobytes(), []).append(i)
        return [
            (PchipInterpolator(self.series[g[0]].times, np.stack([self.series[i].values for i in g], axis=1)), g)
            for g in groups.values()
        ]

    def _find_differences(self) -> None:
        """Find neighbouring data within the grid: their series, places on the grid, and differences."""
        of_series, places, steps, sigma = [], [], [], []
        for k, s in enumerate(self.series):
            inside = (s.times >= self.grid[0]) & (s.times <= self.grid[-1])
            at = np.searchsorted(self.grid, s.times[inside])
            of_series.append(np.full(max(at.size - 1, 0), k))
            places.append(np.stack([at[:-1], at[1:]]))
            steps.append(np.diff(s.values[inside]))
            sigma.append(np.hypot(s.sigma[inside][1:], s.sigma[inside][:-1]))
        self._of_series = np.concatenate(of_series)
        self._earlier, self._later = np.concatenate(places, axis=1)
        self.steps, self.sigma = np.concatenate(steps), np.concatenate(sigma)

    @property
    def n_states(self) -> int:
        """Number of states."""
        return self._rows.shape[1]

    def states_at(self, t: Array) -> Array:
        """Return the states (m, n) that the data suggest; those that are hidden have no meaning."""
        n_series = len(self.series)
        known = np.empty((t.size, n_series + self._conserved.size))
        known[:, n_series:] = self._conserved
        for curve, members in self._curves:
            known[:, members] = curve(np.clip(t, curve.x[0], curve.x[-1]))
        known[:, :n_series] -= self._offsets
        return known @ self._to_states.T

    def quadrature(self, values: Array) -> Array:
        """Integrate values at the nodes (m, ...) over each interval of the grid."""
        weighted = values * self.weights.reshape(-1, *[1] * (values.ndim - 1))
        return weighted.reshape(self.grid.size - 1, _GAUSS.size, *values.shape[1:]).sum(axis=1)

    def differences(self, integrals: Array) -> Array:
        """Return what the data differences (N, ...) should be by integrals of the rates (intervals, n, ...)."""
        observed = np.tensordot(self._rows, integrals, axes=(1, 1))
        total = np.zeros((observed.shape[0], self.grid.size, *observed.shape[2:]))
        np.cumsum(observed, axis=1, out=total[:, 1:])
        return total[self._of_series, self._later] - total[self._of_series, self._earlier]


@dataclass
class MatchingData:
    """The experiments that have something to match, and what was left out.

    Attributes
    ----------
    unusable
        Observable to the reason why it cannot be used.
    short
        Observables that cover too little time beside the others.
    """

    problem: Problem
    runs: list[MatchingRun] = field(default_factory=list)
    unusable: dict[str, str] = field(default_factory=dict)
    short: list[str] = field(default_factory=list)

    @property
    def sparse(self) -> list[str]:
        """Observables that have very few data."""
        return list(dict.fromkeys(s.name for run in self.runs for s in run.series if s.n_data < FEW))

    @property
    def why_nothing(self) -> str:
        """Why no experiment can be matched."""
        if not self.problem.model.states:
            return _NO_EQUATIONS
        kinds: dict[str, list[str]] = {}
        for name, why in self.unusable.items():
            kinds.setdefault(why, []).append(f"'{name}'")
        return "; ".join(why.format(" or ".join(names)) for why, names in kinds.items()) or _NO_OVERLAP

    def add(self, experiment: Experiment, model: MatchingModel, slots: Indices, q: Array, unknown: Flags) -> None:
        """Add an experiment with formal parameters `q`, of which some are `unknown`."""
        y0 = evaluated(model.initial(q))[0][:, 0]
        is_fixed = ~np.any(model.in_initial & unknown, axis=1)
        series = self._long_enough(self._series(experiment, model, q, unknown, y0, is_fixed))
        if series:
            run = MatchingRun(model, slots, experiment.start, series, y0 if is_fixed.all() else None)
            if run.is_usable:
                self.runs.append(run)

    def _series(
        self, experiment: Experiment, model: MatchingModel, q: Array, unknown: Flags, y0: Array, is_fixed: Flags
    ) -> list[Series]:
        """Return the observables that can be used, with the known initial value as a datum."""
        data = self.problem.measurements
        roots = root_weights(self.problem)
        mine = (data.experiment == experiment.name) & (roots > 0)
        rows, offsets = evaluated(model.observed(experiment.start, q))
        result = []
        for k, name in enumerate(self.problem.observables):
            indices = np.flatnonzero(mine & (data.observable == name))
            if not indices.size:
                continue
            if not model.usable[k] or not model.steady[k] or np.any(model.observed_by[k] & unknown):
                self.unusable[name] = (
                    _CURVED if not model.usable[k] else _UNKNOWN_FACTOR if model.steady[k] else _MOVING
                )
                continue
            with np.errstate(divide="ignore", over="ignore"):
                sigma = 1.0 / roots[indices]
                times, values, sigma = _averaged(data.time[indices], data.value[indices], sigma)
                first = float(rows[k] @ y0 + offsets[k, 0])
            known = bool(is_fixed[rows[k] != 0].all())
            sizes = [abs(first) if known else 0.0, *(float(np.abs(part).max()) for part in (times, values, sigma))]
            if not max(sizes) < _LARGEST:
                self.unusable[name] = _TOO_LARGE
                continue
            sigma = np.maximum(sigma, _LEAST_SIGMA * (sigma.max() or 1.0))
            n_data = times.size
            if known:
                later = times > experiment.start
                times = np.append(experiment.start, times[later])
                values = np.append(first, values[later])
                sigma = np.append(_LEAST_SIGMA * sigma.max(), sigma[later])
            with np.errstate(over="ignore"):
                steepest = float(np.abs(np.diff(values) / np.diff(times)).max(initial=0.0))
            if not steepest < _LARGEST:
                self.unusable[name] = _TOO_STEEP
            elif times.size > 1:
                result.append(Series(name, rows[k], float(offsets[k, 0]), n_data, times, values, sigma))
            else:
                self.unusable[name] = _ONE_TIME
        return result

    def _long_enough(self, series: list[Series]) -> list[Series]:
        """Leave out series that would confine the others, which are used together, to a small part of their time."""
        longest = max((float(s.times[-1] - s.times[0]) for s in series), default=0.0)
        short = [s.name for s in series if s.times[-1] - s.times[0] < _SHORT * longest]
        self.short += [name for name in short if name not in self.short]
        return [s for s in series if s.name not in short]


def matching_data(problem: Problem, start: Array, unknowns: Indices) -> MatchingData:
    """Return what can be matched.

    Parameters
    ----------
    start
        Values of all slots.
    unknowns
        Slots whose values are looked for; the others are known.
    """
    data = MatchingData(problem)
    models = matching_models(problem)
    for experiment, model, slot_of_name in zip(problem.experiments, models, problem.slots.of_experiment, strict=True):
        if experiment.use == "fit" and problem.model.states:
            slots = np.array([slot_of_name.get(name, 0) for name in model.formal], dtype=np.int64)
            data.add(experiment, model, slots, start[slots], np.isin(slots, unknowns))
    return data


def _averaged(times: Array, values: Array, sigma: Array) -> tuple[Array, Array, Array]:
    """Return distinct times with means of the values and their standard deviations."""
    distinct, at = np.unique(times, return_inverse=True)
    count = np.bincount(at)
    return distinct, np.bincount(at, values) / count, np.sqrt(np.bincount(at, sigma**2)) / count


def evaluated(results: Sequence[Any]) -> tuple[Array, ...]:
    """Return the results of a CasADi function as arrays."""
    return tuple(np.array(one) for one in results)
