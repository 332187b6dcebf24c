"""The regression of integral matching: which equations the data give, and its solution.

See `odefit.strategy.start_values` for the idea.  Unknowns are natural values of slots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
_RANK = 1e-8  # relative singular value below which a direction is not determined
_TAKES_PART = 0.05  # component of such a direction that counts
_DRAWS, _BEST, _DECADES = 64, 5, 2.0  # nonlinear parameters: draws around the start, how many are refined
_MOST_STEPS = 60  # evaluations of each refinement
_SUBSTEPS = 100  # of Runge-Kutta for states that are not measured, at least, over an experiment
_SHORT = 0.2  # part of the time of the longest series that another one has to cover
_FEW = 4  # data of an observable, below which a curve through them says little
_CLEARLY = 2.0  # standard errors by which a value is outside its bounds
_EQUALLY_GOOD = 1e-6  # relative difference of sums of squares that does not count
_ROUNDING = 1e-6  # of the size that would explain all differences
_AT_BOUND = 1e-6  # nearer to a bound than this part of its size or width
_NOT_MATCHED = "in no equation that the data could be matched to"
_NOT_TOLD = "not told apart from others by the data"
_SILENT = "without influence on what is measured"
_UNMEASURED = "initial value of a state that is not measured"
_NO_SENSE = "the regression found no finite value"
_NO_EQUATIONS = "the model has no differential equations to match"
_CURVED = "{} is no sum of states with known factors"
_UNKNOWN_FACTOR = "{} has a factor or offset that is itself unknown"
_MOVING = "{} has a factor or offset that changes in time"
_ONE_TIME = "{} is measured at one time only"
_NO_OVERLAP = "what is measured has no times in common"


@dataclass(frozen=True)
class Matched:
    """What a regression found.

    Attributes
    ----------
    values, resolution
        By slot: the value, and what the data can tell from zero.
    missing
        Slot to the reason why there is no value.
    kind
        "linear", "bounded", "nonlinear" or "none".
    suggested
        Values by slot that the data suggest but bounds exclude (infinite where only the side is known).
    tied
        Slots of which the data tell only a combination; their values are one choice.
    """

    values: dict[str, float]
    resolution: dict[str, float]
    missing: dict[str, str]
    kind: str
    suggested: dict[str, float] = field(default_factory=dict)
    tied: tuple[str, ...] = ()


class _Series(NamedTuple):
    """An observable of one experiment: its row C, offset c, and data ordered by time."""

    name: str
    row: Array
    offset: float
    times: Array
    values: Array
    sigma: Array


@dataclass(eq=False)
class _Run:
    """One experiment: series, the grid of all their times, and how states follow from them."""

    model: MatchingModel
    slots: Indices
    t0: float
    series: list[_Series]
    grid: Array = field(init=False)
    to_states: Array = field(init=False)  # (n, n_series + n_conserved)
    conserved: Array = field(init=False)
    unseen: Indices = field(init=False)  # states that the series do not determine
    hidden: Indices = field(init=False)  # those of them that what is measured depends on

    def prepare(self, y0: Array | None) -> None:
        """Work out which states the series determine; with `y0` known conservation helps."""
        rows = np.stack([s.row for s in self.series])
        n = rows.shape[1]
        helps = y0 is not None and np.linalg.matrix_rank(rows) < n
        last = max(float(s.times[-1]) for s in self.series)
        w = self.model.conserved(self.t0, last) if helps else np.empty((0, n))
        matrix = np.vstack([rows, w])
        self.conserved = w @ y0 if y0 is not None else np.empty(0)
        self.to_states = np.asarray(np.linalg.pinv(matrix), dtype=float)
        _, size, vt = np.linalg.svd(matrix)
        rank = int(np.sum(size > 1e-10 * size[0]))
        self.unseen = np.flatnonzero(np.any(np.abs(vt[rank:]) > 1e-8, axis=0))
        self.relevant = self.model.needed_for(np.any(rows != 0, axis=0), np.isin(np.arange(n), self.unseen))
        self.hidden = self.unseen[self.relevant[self.unseen]]
        first = max(float(s.times[0]) for s in self.series)
        last = min(float(s.times[-1]) for s in self.series)
        times = np.unique(np.concatenate([s.times for s in self.series]))
        self.grid = times[(times >= first) & (times <= last)]
        if self.hidden.size and self.grid.size and self.grid[0] > self.t0:
            self.grid = np.append(self.t0, self.grid)
        curves = self._curves()
        self.states_at: Callable[[Array], Array] = lambda t: self._states(curves, t)

    def _curves(self) -> list[tuple[Any, list[int]]]:
        """Interpolate the series, those with the same times together."""
        from scipy.interpolate import PchipInterpolator  # slow to import

        groups: dict[bytes, list[int]] = {}
        for i, s in enumerate(self.series):
            groups.setdefault(s.times.tobytes(), []).append(i)
        return [
            (PchipInterpolator(self.series[g[0]].times, np.stack([self.series[i].values for i in g], axis=1)), g)
            for g in groups.values()
        ]

    def _states(self, curves: list[tuple[Any, list[int]]], t: Array) -> Array:
        """Return the states (m, n) that the data suggest; those that are hidden have no meaning."""
        known = np.empty((t.size, len(self.series) + self.conserved.size))
        known[:, len(self.series) :] = self.conserved
        for curve, members in curves:
            known[:, members] = curve(np.clip(t, curve.x[0], curve.x[-1]))
        known[:, : len(self.series)] -= [s.offset for s in self.series]
        return known @ self.to_states.T

    def nodes(self) -> tuple[Array, Array]:
        """Return Gauss nodes (m,) and weights of all intervals of the grid."""
        half = 0.5 * np.diff(self.grid)[:, None]
        return (self.grid[:-1, None] + half * (1.0 + _GAUSS)).ravel(), (half * _WEIGHTS).ravel()

    def differences(self, integrals: Array) -> tuple[Array, Array, Array]:
        """Return data differences, the same of `integrals` (intervals, n, ...), and standard deviations."""
        total = np.concatenate([np.zeros((1, *integrals.shape[1:])), np.cumsum(integrals, axis=0)])
        left, right, sigma = [], [], []
        for s in self.series:
            inside = (s.times >= self.grid[0]) & (s.times <= self.grid[-1])
            at = np.searchsorted(self.grid, s.times[inside])
            left.append(np.diff(s.values[inside]))
            right.append(np.tensordot(np.diff(total[at], axis=0), s.row, axes=(1, 0)))
            sigma.append(np.sqrt(s.sigma[inside][1:] ** 2 + s.sigma[inside][:-1] ** 2))
        return np.concatenate(left), np.concatenate(right), np.concatenate(sigma)


class Regression:
    """The matching problem for the named parameters; the others are taken at their start values."""

    def __init__(self, problem: Problem, names: Sequence[str]) -> None:
        self.problem = problem
        listed = problem.slots.slots
        self.slots = {slot.name: slot for slot in listed}
        self.start = np.array([problem.starts.get(slot.name, slot.parameter.start) for slot in listed])
        self.wanted = np.array(
            [i for i, s in enumerate(listed) if s.parameter.name in names and i in problem.slots.fitted], dtype=np.int64
        )
        self.names = [listed[i].name for i in self.wanted]
        self.lower = np.array([_lowest(listed[i].parameter) for i in self.wanted])
        self.upper = np.array([listed[i].parameter.upper for i in self.wanted])
        self.matched_with_hidden = np.zeros(self.wanted.size, dtype=bool)
        self.suggested: dict[str, float] = {}
        self.tied: tuple[str, ...] = ()
        self.sparse: list[str] = []
        self.short: list[str] = []
        self.unusable: dict[str, str] = {}  # observable to why
        self.runs = [run for run in self._runs() if run.grid.size > 1]
        self.completed, self.integrated = self._unmeasured()

    def _runs(self) -> list[_Run]:
        result = []
        models = matching_models(self.problem)
        gathered = self.problem.slots.of_experiment
        for experiment, model, chosen in zip(self.problem.experiments, models, gathered, strict=True):
            if experiment.use != "fit" or not self.problem.model.states:
                continue
            slots = np.array([chosen.get(name, 0) for name in model.formal], dtype=np.int64)
            unknown = np.isin(slots, self.wanted)
            y0, _ = _evaluated(model.initial(self.start[slots]))
            fixed = ~np.any(model.in_initial & unknown, axis=1)
            series = self._series(experiment, model, slots, unknown, y0[:, 0], fixed)
            if series:
                run = _Run(model, slots, experiment.start, series)
                run.prepare(y0[:, 0] if fixed.all() else None)
                result.append(run)
        return result

    def _series(
        self, experiment: Experiment, model: MatchingModel, slots: Indices, unknown: Flags, y0: Array, fixed: Flags
    ) -> list[_Series]:
        """Return the observables that can be used, with the known initial value as a datum."""
        data = self.problem.measurements
        roots = root_weights(data)
        mine = (data.experiment == experiment.name) & (roots > 0)
        rows, offsets = _evaluated(model.observed(experiment.start, self.start[slots]))
        offsets = offsets[:, 0]
        result = []
        for k, name in enumerate(self.problem.observables):
            own = np.flatnonzero(mine & (data.observable == name))
            if not own.size:
                continue
            if not model.usable[k] or not model.steady[k] or np.any(model.observed_by[k] & unknown):
                why = _CURVED if not model.usable[k] else _UNKNOWN_FACTOR if model.steady[k] else _MOVING
                self.unusable[name] = why
                continue
            with np.errstate(divide="ignore"):
                sigma = 1.0 / roots[own]
            times, values, sigma = _averaged(data.time[own], data.value[own], sigma)
            sigma = np.maximum(sigma, _LEAST_SIGMA * (sigma.max() or 1.0))
            if times.size < _FEW and name not in self.sparse:
                self.sparse.append(name)
            if fixed[rows[k] != 0].all():
                later = times > experiment.start
                times = np.append(experiment.start, times[later])
                values = np.append(rows[k] @ y0 + offsets[k], values[later])
                sigma = np.append(_LEAST_SIGMA * sigma.max(), sigma[later])
            if times.size > 1:
                result.append(_Series(name, rows[k], float(offsets[k]), times, values, sigma))
            else:
                self.unusable[name] = _ONE_TIME
        return self._long_enough(result)

    def _long_enough(self, series: list[_Series]) -> list[_Series]:
        """Leave out series that would confine the others, which are used together, to a small part of their time."""
        longest = max((float(s.times[-1] - s.times[0]) for s in series), default=0.0)
        short = [s.name for s in series if s.times[-1] - s.times[0] < _SHORT * longest]
        self.short += [name for name in short if name not in self.short]
        self.sparse = [name for name in self.sparse if name not in short]
        return [s for s in series if s.name not in short]

    def _why_nothing(self) -> str:
        """Return why no run can be matched."""
        if not self.problem.model.states:
            return _NO_EQUATIONS
        kinds: dict[str, list[str]] = {}
        for name, why in self.unusable.items():
            kinds.setdefault(why, []).append(f"'{name}'")
        return "; ".join(why.format(" or ".join(names)) for why, names in kinds.items()) or _NO_OVERLAP

    def _unmeasured(self) -> tuple[list[str], list[str]]:
        """Return states known from conservation only, and states that have to be integrated."""
        states = self.problem.model.states
        hidden = {states[i] for run in self.runs for i in run.hidden}
        unseen = {states[i] for run in self.runs for i in run.unseen}
        seen = {states[i] for run in self.runs for s in run.series for i in np.flatnonzero(s.row)}
        return [s for s in states if self.runs and s not in unseen | seen], [s for s in states if s in hidden]

    def solve(self) -> Matched:
        """Return what was found."""
        missing: dict[str, str] = {}
        if not self.runs:
            return Matched({}, {}, dict.fromkeys(self.names, self._why_nothing()), "none")
        in_rates = np.zeros(self.wanted.size, dtype=bool)
        pairs = np.zeros((self.wanted.size, self.wanted.size), dtype=bool)
        for run in self.runs:
            place = self._places(run)
            used = place >= 0
            in_rates[place[used & run.model.in_rates.any(axis=0)]] = True
            a, b = np.nonzero(run.model.pairs & used[:, None] & used[None, :])
            pairs[place[a], place[b]] = True
        active = np.flatnonzero(in_rates)
        x = self.start[self.wanted].copy()
        resolution = np.zeros(x.size)
        kind = "none"
        if active.size:
            if self.integrated:
                kind, lost = self._solve_hidden(x, active)
            elif not pairs[np.ix_(active, active)].any():
                kind, lost = self._solve_linear(x, active, resolution)
            else:
                kind, lost = self._solve_nonlinear(x, active, pairs, resolution)
            missing |= lost
            bad = [i for i in active if not math.isfinite(x[i])]
            x[bad] = self.start[self.wanted][bad]
            missing |= {self.names[i]: _NO_SENSE for i in bad}
        idle = np.flatnonzero(~in_rates & ~self.matched_with_hidden)
        if idle.size:
            missing |= self._match_initial(x, idle)
        found = [i for i, name in enumerate(self.names) if name not in missing]
        return Matched(
            {self.names[i]: float(x[i]) + 0.0 for i in found},  # no -0
            {self.names[i]: float(resolution[i]) for i in found},
            missing,
            kind,
            self.suggested,
            tuple(name for name in self.tied if name not in missing),
        )

    def _places(self, run: _Run) -> Indices:
        """Return for each formal parameter its place among the unknowns, or -1."""
        place = np.full(self.start.size, -1, dtype=np.int64)
        place[self.wanted] = np.arange(self.wanted.size)
        return place[run.slots]

    def _selector(self, run: _Run) -> Array:
        """Return dq/dx (n_q, n_wanted), ones and zeros."""
        return (self._places(run)[:, None] == np.arange(self.wanted.size)).astype(float)

    def _values(self, run: _Run, x: Array) -> Array:
        q = self.start.copy()
        q[self.wanted] = x
        return q[run.slots]

    def _linearised(self, x: Array) -> tuple[Array, Array]:
        """Return the weighted residual at `x` (N,) and its derivatives (N, n_wanted)."""
        residuals, slopes = [], []
        for run in self.runs:
            times, weights = run.nodes()
            f, jacobian = run.model.along(times, run.states_at(times), self._values(run, x))
            both = np.concatenate([f[:, :, None], jacobian @ self._selector(run)], axis=2) * weights[:, None, None]
            both[:, ~run.relevant] = 0.0  # the rates of states without meaning may not be numbers
            integrals = both.reshape(run.grid.size - 1, _GAUSS.size, *both.shape[1:]).sum(axis=1)
            left, right, sigma = run.differences(integrals)
            residuals.append((right[:, 0] - left) / sigma)
            slopes.append(right[:, 1:] / sigma[:, None])
        return np.concatenate(residuals), np.concatenate(slopes)

    def _solve_linear(self, x: Array, active: Indices, resolution: Array) -> tuple[str, dict[str, str]]:
        x[active] = 0.0
        residual, slopes = self._linearised(x)
        given = self.start[self.wanted[active]]
        kind, lost, self.suggested = self._least_squares(x, active, slopes[:, active], -residual, given, resolution)
        return kind, lost

    def _least_squares(
        self, x: Array, active: Indices, a: Array, b: Array, given: Array, resolution: Array
    ) -> tuple[str, dict[str, str], dict[str, float]]:
        """Solve ``a x = b`` within the bounds; what is not determined keeps its given value.

        Returns the kind, why unknowns are not determined, and values that bounds exclude.
        """
        x[active] = given
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            x[active] = np.nan
            return "linear", {}, {}
        norms = np.linalg.norm(a, axis=0)
        safe = np.where(norms > 0, norms, 1.0)
        lost = _undetermined(a / safe) | (norms == 0)
        kept = active[~lost]
        kind, suggested = "linear", {}
        if kept.size:
            right = b - a[:, lost] @ given[lost]
            scaled = a[:, ~lost] / safe[~lost]
            found = np.linalg.lstsq(scaled, right, rcond=None)[0] / safe[~lost]
            rest = right - a[:, ~lost] @ found
            spread = math.sqrt(float(rest @ rest) / max(rest.size - kept.size, 1))
            resolution[kept] = spread / safe[~lost]
            if np.any((found < self.lower[kept]) | (found > self.upper[kept])):
                kind = "bounded"
                factor = np.linalg.inv(np.linalg.qr(scaled)[1])
                error = spread * np.linalg.norm(factor, axis=1) + _ROUNDING * np.linalg.norm(right)
                suggested = self._excluded(kept, found, _CLEARLY * error / safe[~lost])
                inside = (self.lower[kept] * safe[~lost], self.upper[kept] * safe[~lost])
                found = _within(scaled, right, *inside) / safe[~lost]
            x[kept] = found
        silent = norms[lost] == 0
        why = {self.names[i]: _SILENT if mute else _NOT_TOLD for i, mute in zip(active[lost], silent, strict=True)}
        return kind, why, suggested

    def _excluded(self, places: Indices, values: Array, reach: Array) -> dict[str, float]:
        """Return the values that are farther outside their bounds than `reach`."""
        outside = (values < self.lower[places] - reach) | (values > self.upper[places] + reach)
        return {self.names[i]: float(v) for i, v, out in zip(places, values, outside, strict=True) if out}

    def _nonlinear_account(self, x: Array, active: Indices, slopes: Array) -> dict[str, str]:
        """Note at the solution what is tied or at a bound; return what has no influence, put back to its start."""
        norms = np.linalg.norm(slopes, axis=0)
        mute = norms == 0
        tied = _undetermined(slopes[:, ~mute] / norms[~mute]) if not mute.all() else np.zeros(0, dtype=bool)
        self.tied = tuple(self.names[i] for i in active[~mute][tied])
        for i in active[~mute]:
            low, high = self.lower[i], self.upper[i]
            near = _AT_BOUND * (high - low if math.isfinite(high - low) else max(abs(x[i]), abs(self.start_of(i))))
            if x[i] - low <= near:
                self.suggested[self.names[i]] = -math.inf
            elif high - x[i] <= near:
                self.suggested[self.names[i]] = math.inf
        x[active[mute]] = self.start[self.wanted[active[mute]]]
        return {self.names[i]: _SILENT for i in active[mute]}

    def start_of(self, place: int) -> float:
        """Return the given start of an unknown."""
        return float(self.start[self.wanted[place]])

    def _solve_nonlinear(
        self, x: Array, active: Indices, pairs: npt.NDArray[np.bool_], resolution: Array
    ) -> tuple[str, dict[str, str]]:
        """Draw the parameters in which f is not affine, eliminate the others, refine the best."""
        linear: list[int] = []
        for i in sorted(active.tolist(), key=lambda i: int(pairs[i, active].sum())):
            if not pairs[i, i] and not pairs[i, linear].any():
                linear.append(i)
        others = np.array([i for i in active if i not in linear], dtype=np.int64)
        chosen = np.array(linear, dtype=np.int64)
        tried = []
        for draw in self._draws(others):
            trial = x.copy()
            trial[others] = draw
            trial[chosen] = 0.0
            residual, slopes = self._linearised(trial)
            if not np.isfinite(residual).all():
                continue
            if chosen.size:
                given = self.start[self.wanted[chosen]]
                self._least_squares(trial, chosen, slopes[:, chosen], -residual, given, np.zeros(x.size))
                residual = residual + slopes[:, chosen] @ trial[chosen]
            tried.append((float(residual @ residual), trial))
        candidates = _nearest_first([cost for cost, _ in tried], [t[active] for _, t in tried])

        def residual_of(z: Array) -> Array:
            full = x.copy()
            full[active] = z
            return self._linearised(full)[0]

        def slopes_of(z: Array) -> Array:
            full = x.copy()
            full[active] = z
            return self._linearised(full)[1][:, active]

        best = _refined(residual_of, slopes_of, candidates, self._size(active), *self._box(active))
        x[active] = np.nan if best is None else best
        if best is None:
            return "nonlinear", {}
        residual, slopes = self._linearised(x)
        spread = math.sqrt(float(residual @ residual) / max(residual.size - active.size, 1))
        norms = np.linalg.norm(slopes[:, active], axis=0)
        resolution[active] = spread / np.where(norms > 0, norms, np.inf)
        return "nonlinear", self._nonlinear_account(x, active, slopes[:, active])

    def _size(self, places: Indices) -> Array:
        """Return the sizes of unknowns: those of their start values."""
        start = np.abs(self.start[self.wanted[places]])
        return np.where(start > 0, start, 1.0)

    def _solve_hidden(self, x: Array, active: Indices) -> tuple[str, dict[str, str]]:
        """Match with the hidden states integrated, from draws of all parameters and of their initial values."""
        starts = {i for run in self.runs for i in self._places(run)[run.model.in_initial[run.hidden].any(axis=0)]}
        active = np.union1d(active, [i for i in starts if i >= 0]).astype(np.int64)
        self.matched_with_hidden[active] = True

        def many(z: Array) -> Array:
            full = np.repeat(x[:, None], z.shape[1], axis=1)
            full[active] = z
            with np.errstate(all="ignore"):
                found = np.concatenate([self._hidden_residual(run, full) for run in self.runs])
            return np.where(np.isfinite(found) & (np.abs(found) < 1e8), found, 1e8)

        def slopes_of(z: Array) -> Array:
            step = 1e-6 * np.maximum(np.abs(z), 1e-3 * self._size(active))
            found = many(z[:, None] + np.concatenate([np.zeros((z.size, 1)), np.diag(step)], axis=1))
            return (found[:, 1:] - found[:, :1]) / step

        draws = np.array(self._draws(active)).T
        size = np.square(many(draws)).sum(axis=0)
        candidates = _nearest_first(size.tolist(), list(draws.T))
        best = _refined(lambda z: many(z[:, None])[:, 0], slopes_of, candidates, self._size(active), *self._box(active))
        x[active] = np.nan if best is None else best
        return "nonlinear", {} if best is None else self._nonlinear_account(x, active, slopes_of(best))

    def _hidden_residual(self, run: _Run, x: Array) -> Array:
        """Return the weighted residual for each column of `x`; states and integrals by Runge-Kutta 4."""
        k = x.shape[1]
        q = np.repeat(self.start[:, None], k, axis=1)
        q[self.wanted] = x
        q = q[run.slots]
        parts = max(1, math.ceil(_SUBSTEPS / (run.grid.size - 1)))
        h = np.repeat(np.diff(run.grid) / parts, parts)
        fine = np.repeat(run.grid[:-1], parts) + h * np.tile(np.arange(parts), run.grid.size - 1)
        inserted = np.vstack([fine, h, *(run.states_at(fine + part * h).T for part in (0.0, 0.5, 1.0))])
        n = run.to_states.shape[0]
        march = run.model.integrated(run.hidden, fine.size)
        integrals = np.empty((run.grid.size - 1, n, k))
        for j in range(k):
            hidden = _evaluated(run.model.initial(q[:, j]))[0][run.hidden, 0]
            found = march(np.append(hidden, np.zeros(n)), inserted, np.repeat(q[:, j : j + 1], fine.size, axis=1))
            ends = np.array(found)[run.hidden.size :, parts - 1 :: parts].T
            integrals[:, :, j] = np.diff(ends, axis=0, prepend=0.0)
        left, right, sigma = run.differences(integrals)
        return (right - left[:, None]) / sigma[:, None]

    def _box(self, places: Indices) -> tuple[Array, Array]:
        return self.lower[places], self.upper[places]

    def _draws(self, places: Indices) -> list[Array]:
        """Return the start and draws around it: factors up to some decades, within the bounds."""
        start = self.start[self.wanted[places]]
        rng = np.random.default_rng(0)
        factors = 10.0 ** rng.uniform(-_DECADES, _DECADES, (_DRAWS, places.size))
        centre = np.where(start != 0, start, 1.0)
        lower, upper = self._box(places)
        return [start, *(np.clip(centre * factor, lower, upper) for factor in factors)]

    def _match_initial(self, x: Array, idle: Indices) -> dict[str, str]:
        """Fill parameters that only initial values depend on; return those that could not be."""
        rows = []
        for run in self.runs:
            known = np.setdiff1d(np.arange(run.to_states.shape[0]), run.unseen)
            if np.isin(self._places(run), idle).any():
                rows.append((run, known, self._state_at_start(run, x)[known]))
        a = np.zeros((0, idle.size))
        for _ in range(5):  # Gauss-Newton: exact at once for y(0) = a
            residuals, slopes = [], []
            for run, known, wanted in rows:
                y0, jacobian = _evaluated(run.model.initial(self._values(run, x)))
                residuals.append(wanted - y0[known, 0])
                slopes.append((jacobian @ self._selector(run))[np.ix_(known, idle)])
            a = np.concatenate(slopes) if slopes else a
            if not a.size or not np.isfinite(a).all():
                return dict.fromkeys([self.names[i] for i in idle], _NOT_MATCHED)
            x[idle] += np.linalg.lstsq(a, np.concatenate(residuals), rcond=1e-10)[0]
        if not np.isfinite(x[idle]).all():
            return dict.fromkeys([self.names[i] for i in idle], _NO_SENSE)
        told = np.linalg.norm(a, axis=0) > 0
        in_initial = {
            int(i) for run in self.runs for i in self._places(run)[run.model.in_initial.any(axis=0)] if i >= 0
        }
        x[idle[~told]] = self.start[self.wanted][idle[~told]]
        return {self.names[i]: _UNMEASURED if i in in_initial else _NOT_MATCHED for i in idle[~told]}

    def _state_at_start(self, run: _Run, x: Array) -> Array:
        """Return the state at the start: from data there, or run back from the first ones."""
        t = run.grid[0]
        y = run.states_at(np.array([t]))[0]
        if run.unseen.size or t == run.t0:
            return y
        q = self._values(run, x)
        h = (run.t0 - t) / 8

        def f(time: float, state: Array) -> Array:
            return run.model.along(np.array([time]), state[None], q)[0][0]

        for _ in range(8):
            k1 = f(t, y)
            k2 = f(t + h / 2, y + h / 2 * k1)
            k3 = f(t + h / 2, y + h / 2 * k2)
            k4 = f(t + h, y + h * k3)
            y, t = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), t + h
        return y if np.isfinite(y).all() else run.states_at(run.grid[:1])[0]


def _undetermined(a: Array) -> npt.NDArray[np.bool_]:
    """Return which unknowns take part in a direction that ``a`` (columns of norm 1) does not determine."""
    _, w, vt = np.linalg.svd(a, full_matrices=a.shape[0] < a.shape[1])
    size = np.append(w, np.zeros(a.shape[1] - w.size))
    return np.any(np.abs(vt[size <= _RANK * max(size[0], 1e-300)]) > _TAKES_PART, axis=0)


def _nearest_first(costs: list[float], points: list[Array]) -> list[Array]:
    """Return the best few of the points; the first one, made of the given start, leads if none is better."""
    order = sorted(range(len(costs)), key=lambda i: costs[i])
    if order and costs[0] <= costs[order[0]] * (1 + _EQUALLY_GOOD):
        order.remove(0)
        order.insert(0, 0)
    return [points[i] for i in order[:_BEST]]


def _refined(
    residual: Callable[[Array], Array], slopes: Callable[[Array], Array], candidates: list[Array], size: Array,
    lower: Array, upper: Array,
) -> Array | None:  # fmt: skip
    """Return the best point that least squares finds from the candidates, in units of `size`."""
    from scipy.optimize import least_squares  # slow to import

    best, best_cost = None, math.inf
    lower, upper = lower / size, upper / size
    gap = 1e-9 * np.where(np.isfinite(upper - lower), upper - lower, 1.0)
    jacobian: Any = _scaled(slopes, size)
    for start in candidates:
        inside = np.clip(start / size, lower + gap, upper - gap)
        found = least_squares(
            lambda z: residual(size * z), inside, jacobian, (lower, upper), method="trf", x_scale="jac",
            max_nfev=_MOST_STEPS, ftol=1e-6,
        )  # fmt: skip
        if found.cost < best_cost * (1 - _EQUALLY_GOOD):
            best, best_cost = size * found.x, float(found.cost)
    return best


def _scaled(slopes: Callable[[Array], Array], size: Array) -> Callable[[Array], Array]:
    """Return derivatives by unknowns in units of `size`."""
    return lambda z: slopes(size * z) * size


def _within(a: Array, b: Array, lower: Array, upper: Array) -> Array:
    """Return the linear least-squares solution in a box."""
    from scipy.optimize import lsq_linear, nnls  # slow to import, and needed only here

    if np.all(lower == 0.0) and np.isinf(upper).all():
        return nnls(a, b)[0]
    return lsq_linear(a, b, (lower, upper), method="bvls").x


def _lowest(parameter: Any) -> float:
    return max(parameter.lower, 0.0) if parameter.scale in ("log", "log10") else parameter.lower


def _evaluated(results: Sequence[Any]) -> tuple[Array, ...]:
    return tuple(np.array(one) for one in results)


def _averaged(times: Array, values: Array, sigma: Array) -> tuple[Array, Array, Array]:
    """Return distinct times with means of the values and their standard deviations."""
    distinct, at = np.unique(times, return_inverse=True)
    count = np.bincount(at)
    return distinct, np.bincount(at, values) / count, np.sqrt(np.bincount(at, sigma**2)) / count
