"""The regression of integral matching: which equations the data give, and its solution.

See `odefit.strategy.start_values` for the idea.  Unknowns are natural values of slots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from odefit.problem import Problem
from odefit.strategy.matching_data import Array, Indices, MatchingRun, evaluated, matching_data
from odefit.strategy.matching_hidden import HiddenStates
from odefit.strategy.matching_solvers import linear_fit, nearest_first, refined, undetermined

_DRAWS, _DECADES = 64, 2.0  # nonlinear parameters: draws around the start
_AT_BOUND = 1e-6  # nearer to a bound than this part of its size or width
_NOT_MATCHED = "in no equation that the data could be matched to"
_NOT_TOLD = "not told apart from others by the data"
_SILENT = "without influence on what is measured"
_UNMEASURED = "initial value of a state that is not measured"
_NO_SENSE = "the regression found no finite value"


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


class Regression:
    """The matching problem for the named parameters; the others are taken at their start values."""

    def __init__(self, problem: Problem, names: Sequence[str]) -> None:
        slots = problem.slots.slots
        self.slots = {slot.name: slot for slot in slots}
        self.start = np.array([problem.starts.get(slot.name, slot.parameter.start) for slot in slots])
        self.wanted = np.array(
            [i for i, s in enumerate(slots) if s.parameter.name in names and i in problem.slots.fitted], dtype=np.int64
        )
        self.names = [slots[i].name for i in self.wanted]
        self.lower = np.array([slots[i].parameter.natural_lower for i in self.wanted])
        self.upper = np.array([slots[i].parameter.upper for i in self.wanted])
        self.matched_with_hidden = np.zeros(self.wanted.size, dtype=bool)
        self.suggested: dict[str, float] = {}
        self.tied: tuple[str, ...] = ()
        self.data = matching_data(problem, self.start, self.wanted)
        self.runs = self.data.runs
        self.completed, self.integrated = self._unmeasured(problem.model.states)
        self._selectors = [self._selector(run) for run in self.runs]

    def _unmeasured(self, states: tuple[str, ...]) -> tuple[list[str], list[str]]:
        """Return states known from conservation only, and states that have to be integrated."""
        hidden = {states[i] for run in self.runs for i in run.hidden}
        unseen = {states[i] for run in self.runs for i in run.unseen}
        seen = {states[i] for run in self.runs for s in run.series for i in np.flatnonzero(s.row)}
        return [s for s in states if self.runs and s not in unseen | seen], [s for s in states if s in hidden]

    def solve(self) -> Matched:
        """Return what was found."""
        missing: dict[str, str] = {}
        if not self.runs:
            return Matched({}, {}, dict.fromkeys(self.names, self.data.why_nothing), "none")
        in_rates, pairs = self._structure()
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
        matched = [i for i, name in enumerate(self.names) if name not in missing]
        return Matched(
            {self.names[i]: float(x[i]) + 0.0 for i in matched},  # no -0
            {self.names[i]: float(resolution[i]) for i in matched},
            missing,
            kind,
            self.suggested,
            tuple(name for name in self.tied if name not in missing),
        )

    def _structure(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return which unknowns the rates depend on, and in which pairs of them they are not affine."""
        in_rates = np.zeros(self.wanted.size, dtype=bool)
        pairs = np.zeros((self.wanted.size, self.wanted.size), dtype=bool)
        for run in self.runs:
            place = self._places(run)
            used = place >= 0
            in_rates[place[used & run.model.in_rates.any(axis=0)]] = True
            a, b = np.nonzero(run.model.pairs & used[:, None] & used[None, :])
            pairs[place[a], place[b]] = True
        return in_rates, pairs

    def _places(self, run: MatchingRun) -> Indices:
        """Return for each formal parameter its place among the unknowns, or -1."""
        place = np.full(self.start.size, -1, dtype=np.int64)
        place[self.wanted] = np.arange(self.wanted.size)
        return place[run.slots]

    def _selector(self, run: MatchingRun) -> Array:
        """Return dq/dx (n_q, n_wanted), ones and zeros."""
        return (self._places(run)[:, None] == np.arange(self.wanted.size)).astype(float)

    def formal_values(self, run: MatchingRun, x: Array) -> Array:
        """Return the formal parameters of an experiment at unknowns (n_wanted,) or columns of them."""
        q = np.repeat(self.start[:, None], x.shape[1], axis=1) if x.ndim == 2 else self.start.copy()
        q[self.wanted] = x
        return q[run.slots]

    def linearised(self, x: Array) -> tuple[Array, Array]:
        """Return the weighted residual at `x` (N,) and its derivatives (N, n_wanted)."""
        residuals, slopes = [], []
        for run, selector in zip(self.runs, self._selectors, strict=True):
            f, jacobian = run.model.along(run.nodes, run.node_states, self.formal_values(run, x))
            both = np.concatenate([f[:, :, None], jacobian @ selector], axis=2)
            both[:, ~run.relevant] = 0.0  # the rates of states without meaning may not be numbers
            differences = run.differences(run.quadrature(both))
            residuals.append((differences[:, 0] - run.steps) / run.sigma)
            slopes.append(differences[:, 1:] / run.sigma[:, None])
        return np.concatenate(residuals), np.concatenate(slopes)

    def _solve_linear(self, x: Array, active: Indices, resolution: Array) -> tuple[str, dict[str, str]]:
        x[active] = 0.0
        residual, slopes = self.linearised(x)
        start = self.start[self.wanted[active]]
        fit = linear_fit(slopes[:, active], -residual, start, *self._box(active))
        x[active], resolution[active] = fit.values, fit.resolution
        excluded = zip(active, fit.excluded, strict=True)
        self.suggested = {self.names[i]: float(value) for i, value in excluded if not math.isnan(value)}
        lost = {i: _SILENT if silent else _NOT_TOLD for i, silent in enumerate(fit.silent) if fit.lost[i]}
        return ("bounded" if fit.bounded else "linear"), {self.names[active[i]]: why for i, why in lost.items()}

    def _solve_nonlinear(
        self, x: Array, active: Indices, pairs: npt.NDArray[np.bool_], resolution: Array
    ) -> tuple[str, dict[str, str]]:
        """Draw the parameters in which f is not affine, eliminate the others, refine the best."""
        linear: list[int] = []
        for i in sorted(active.tolist(), key=lambda i: int(pairs[i, active].sum())):
            if not pairs[i, i] and not pairs[i, linear].any():
                linear.append(i)
        others = np.array([i for i in active if i not in linear], dtype=np.int64)
        tried = [self._eliminated(x, others, draw, np.array(linear, dtype=np.int64)) for draw in self._draws(others)]
        candidates = nearest_first([cost for cost, _ in tried], [trial[active] for _, trial in tried])

        def linearised(z: Array) -> tuple[Array, Array]:
            full = x.copy()
            full[active] = z
            residual, slopes = self.linearised(full)
            return residual, slopes[:, active]

        best = refined(linearised, candidates, self._size(active), *self._box(active))
        x[active] = np.nan if best is None else best
        if best is None:
            return "nonlinear", {}
        residual, slopes = linearised(best)
        spread = math.sqrt(float(residual @ residual) / max(residual.size - active.size, 1))
        norms = np.linalg.norm(slopes, axis=0)
        resolution[active] = spread / np.where(norms > 0, norms, np.inf)
        return "nonlinear", self._account(x, active, slopes)

    def _account(self, x: Array, active: Indices, slopes: Array) -> dict[str, str]:
        """Note at the solution what is tied or at a bound; return what has no influence, put back to its start."""
        norms = np.linalg.norm(slopes, axis=0)
        silent = norms == 0
        influential = active[~silent]
        if influential.size:
            self.tied = tuple(self.names[i] for i in influential[undetermined(slopes[:, ~silent] / norms[~silent])])
        for i in influential:
            low, high = self.lower[i], self.upper[i]
            size = max(abs(x[i]), abs(self.start[self.wanted[i]]))
            near = _AT_BOUND * (high - low if math.isfinite(high - low) else size)
            if x[i] - low <= near:
                self.suggested[self.names[i]] = -math.inf
            elif high - x[i] <= near:
                self.suggested[self.names[i]] = math.inf
        x[active[silent]] = self.start[self.wanted[active[silent]]]
        return {self.names[i]: _SILENT for i in active[silent]}

    def _size(self, places: Indices) -> Array:
        """Return the sizes of unknowns: those of their start values."""
        start = np.abs(self.start[self.wanted[places]])
        return np.where(start > 0, start, 1.0)

    def _eliminated(self, x: Array, others: Indices, draw: Array, linear: Indices) -> tuple[float, Array]:
        """Return the sum of squares with `others` at `draw` and the best `linear` ones, and where that is."""
        trial = x.copy()
        trial[others], trial[linear] = draw, 0.0
        residual, slopes = self.linearised(trial)
        if linear.size:
            start = self.start[self.wanted[linear]]
            trial[linear] = linear_fit(slopes[:, linear], -residual, start, *self._box(linear)).values
            residual = residual + slopes[:, linear] @ trial[linear]
        return float(residual @ residual), trial

    def _solve_hidden(self, x: Array, active: Indices) -> tuple[str, dict[str, str]]:
        """Match with the hidden states integrated, from draws of all parameters and of their initial values."""
        starts = {i for run in self.runs for i in self._places(run)[run.model.in_initial[run.hidden].any(axis=0)]}
        active = np.union1d(active, [i for i in starts if i >= 0]).astype(np.int64)
        self.matched_with_hidden[active] = True
        hidden = HiddenStates(self.runs)

        def residuals(z: Array) -> Array:
            full = np.repeat(x[:, None], z.shape[1], axis=1)
            full[active] = z
            return hidden.residuals([self.formal_values(run, full) for run in self.runs])

        def linearised(z: Array) -> tuple[Array, Array]:
            step = 1e-6 * np.maximum(np.abs(z), 1e-3 * self._size(active))
            columns = residuals(z[:, None] + np.concatenate([np.zeros((z.size, 1)), np.diag(step)], axis=1))
            return columns[:, 0], (columns[:, 1:] - columns[:, :1]) / step

        draws = np.array(self._draws(active)).T
        costs = np.square(residuals(draws)).sum(axis=0)
        candidates = nearest_first(costs.tolist(), list(draws.T))
        best = refined(linearised, candidates, self._size(active), *self._box(active))
        x[active] = np.nan if best is None else best
        return "nonlinear", {} if best is None else self._account(x, active, linearised(best)[1])

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
            known = np.setdiff1d(np.arange(run.n_states), run.unseen)
            if np.isin(self._places(run), idle).any():
                rows.append((run, known, self._state_at_start(run, x)[known]))
        a = np.zeros((0, idle.size))
        for _ in range(5):  # Gauss-Newton: exact at once for y(0) = a
            residuals, slopes = [], []
            for run, known, state in rows:
                y0, jacobian = evaluated(run.model.initial(self.formal_values(run, x)))
                residuals.append(state - y0[known, 0])
                slopes.append((jacobian @ self._selector(run))[np.ix_(known, idle)])
            a = np.concatenate(slopes) if slopes else a
            if not a.size or not np.isfinite(a).all():
                return dict.fromkeys([self.names[i] for i in idle], _NOT_MATCHED)
            x[idle] += np.linalg.lstsq(a, np.concatenate(residuals), rcond=1e-10)[0]
        if not np.isfinite(x[idle]).all():
            return dict.fromkeys([self.names[i] for i in idle], _NO_SENSE)
        has_influence = np.linalg.norm(a, axis=0) > 0
        in_initial = {
            int(i) for run in self.runs for i in self._places(run)[run.model.in_initial.any(axis=0)] if i >= 0
        }
        x[idle[~has_influence]] = self.start[self.wanted][idle[~has_influence]]
        return {self.names[i]: _UNMEASURED if i in in_initial else _NOT_MATCHED for i in idle[~has_influence]}

    def _state_at_start(self, run: MatchingRun, x: Array) -> Array:
        """Return the state at the start: from data there, or run back from the first ones."""
        t = run.grid[0]
        y = run.states_at(np.array([t]))[0]
        if run.unseen.size or t == run.t0:
            return y
        q = self.formal_values(run, x)
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
