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
FEW = 4
"""Data of an observable, below which a curve through them says little."""


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
    hidden
        States that the data do not tell.
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
    hidden: Indices = field(init=False)
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
        relations = self.model.conserved if helps else np.empty((0, n))
        matrix = np.vstack([self._rows, relations])
        self._conserved = relations @ self.y0 if self.y0 is not None else np.empty(0)
        self._to_states = np.asarray(np.linalg.pinv(matrix), dtype=float)  # (n, n_series + n_conserved)
        _, size, vt = np.linalg.svd(matrix)
        rank = int(np.sum(size > 1e-10 * size[0]))
        self.hidden = np.flatnonzero(np.any(np.abs(vt[rank:]) > 1e-8, axis=0))

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


def matching_runs(problem: Problem, start: Array, wanted: Indices) -> list[MatchingRun]:
    """Return the experiments that have something to match.

    Parameters
    ----------
    start
        Values of all slots.
    wanted
        Slots whose values are looked for; the others are known.
    """
    runs = []
    models = matching_models(problem)
    for experiment, model, chosen in zip(problem.experiments, models, problem.slots.of_experiment, strict=True):
        if experiment.use != "fit" or not problem.model.states:
            continue
        slots = np.array([chosen.get(name, 0) for name in model.formal], dtype=np.int64)
        unknown = np.isin(slots, wanted)
        y0 = evaluated(model.initial(start[slots]))[0][:, 0]
        is_fixed = ~np.any(model.in_initial & unknown, axis=1)
        series = _series(problem, experiment, model, start[slots], unknown, y0, is_fixed)
        if series:
            run = MatchingRun(model, slots, experiment.start, series, y0 if is_fixed.all() else None)
            if run.is_usable:
                runs.append(run)
    return runs


def _series(
    problem: Problem, experiment: Experiment, model: MatchingModel, q: Array, unknown: Flags, y0: Array, is_fixed: Flags
) -> list[Series]:
    """Return the observables that can be used, with the known initial value as a datum."""
    data = problem.measurements
    roots = root_weights(data)
    mine = (data.experiment == experiment.name) & (roots > 0)
    last = float(data.time[mine].max()) if mine.any() else 0.0
    ends = [evaluated(model.observed(t, q)) for t in (experiment.start, last)]
    rows, offsets = ends[0][0], ends[0][1][:, 0]
    steady = np.all(ends[0][0] == ends[1][0], axis=1) & (ends[0][1] == ends[1][1])[:, 0]
    result = []
    for k, name in enumerate(problem.observables):
        own = np.flatnonzero(mine & (data.observable == name))
        if not own.size or not model.usable[k] or not steady[k] or np.any(model.observed_by[k] & unknown):
            continue
        with np.errstate(divide="ignore"):
            sigma = 1.0 / roots[own]
        times, values, sigma = _averaged(data.time[own], data.value[own], sigma)
        sigma = np.maximum(sigma, _LEAST_SIGMA * (sigma.max() or 1.0))
        n_data = times.size
        if is_fixed[rows[k] != 0].all():
            later = times > experiment.start
            times = np.append(experiment.start, times[later])
            values = np.append(rows[k] @ y0 + offsets[k], values[later])
            sigma = np.append(_LEAST_SIGMA * sigma.max(), sigma[later])
        if times.size > 1:
            result.append(Series(name, rows[k], float(offsets[k]), n_data, times, values, sigma))
    return result


def _averaged(times: Array, values: Array, sigma: Array) -> tuple[Array, Array, Array]:
    """Return distinct times with means of the values and their standard deviations."""
    distinct, at = np.unique(times, return_inverse=True)
    count = np.bincount(at)
    return distinct, np.bincount(at, values) / count, np.sqrt(np.bincount(at, sigma**2)) / count


def evaluated(results: Sequence[Any]) -> tuple[Array, ...]:
    """Return the results of a CasADi function as arrays."""
    return tuple(np.array(one) for one in results)
