"""Which measurements an experiment has."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from odefit.compile.equilibria import last_change
from odefit.compile.structure import compiled_structure
from odefit.criteria.least_squares import heavy_measurements, root_weights
from odefit.integrate import piece_ends
from odefit.integrate.experiment import ends_to_last_change
from odefit.integrate.interval_outputs import outputs_of
from odefit.native.norm import norm
from odefit.problem import Problem
from odefit.problem.intervals import interval_beginnings
from odefit.transcribe.arguments import arguments_of_rows, with_empty_cells_filled

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_NONE = np.empty(0)
ROUNDING = 4 * float(np.finfo(float).eps)
"""Of the data: what is lost by their rounding, and by that of model values as large."""
_ROUNDING = 1e-14  # of a datum, by which it may be missed on account of rounding


@dataclass(frozen=True, eq=False)
class Observation:
    """The measurements of one experiment, ordered by time; or those of its steady state, at an infinite time.

    Attributes
    ----------
    experiment
        Its number.
    times, after, stops, ends
        Distinct times (twice where states before and behind an event were measured), which of them mean the state
        behind an event (empty: none), times at which the right-hand side jumps, and the ends of the pieces of
        integration.
    since, remember, n_slots
        Per output time: where the beginning of the interval of its measurements is remembered, and where it is itself;
        see `odefit.integrate.gathering`.  Empty where nothing is gathered in intervals.
    at, observable
        Per measurement: index into `times`, index among the problem's observables.
    value, root_weight
        Per measurement: datum and square root of the weight; where that is infinite, that of ordinary ones.
    argument_source, argument_number
        Per measurement: where its own arguments are found, or what they are, (m, n_a); see `RowArguments`.
    source
        Per measurement: its index in the problem's measurements.
    at_rest
        Whether they are those of the steady state: `ends` are then those of the way to the last event.
    consistent
        Whether states must be made consistent, at the start too.
    """

    experiment: int
    t0: float
    times: Array
    after: Indices
    stops: Array
    ends: Array
    since: Indices
    remember: Indices
    n_slots: int
    at: Indices
    observable: Indices
    value: Array
    root_weight: Array
    argument_source: Indices
    argument_number: Array
    source: Indices
    at_rest: bool = False
    consistent: bool = False

    @cached_property
    def weighted(self) -> Array:
        """The data times their root weights; infinite where that is too large for a number."""
        with np.errstate(over="ignore"):
            return self.root_weight * self.value


@dataclass(frozen=True, eq=False)
class Observations:
    """All measurements of one use: an entry per experiment that has any.

    Attributes
    ----------
    first
        First row of each experiment among all measurements.
    n_data, norm
        Number of measurements, norm of the weighted data (without heavy ones).
    exact_norm
        Norm of the data of infinite weight, as if of ordinary weight.
    heavy, heavy_root, heavy_factor
        Rows of the measurements with very large or infinite weights; the roots of those weights relative to
        those of ordinary measurements, descending; and what turns such a row into one of ordinary weight.
    heavy_rounding
        Residuals of those rows that are mere rounding: a very large weight would make them visible.
    """

    of_experiment: tuple[Observation, ...]
    first: tuple[int, ...]
    n_data: int
    norm: float
    exact_norm: float
    heavy: Indices
    heavy_root: Array
    heavy_factor: Array
    heavy_rounding: Array

    @cached_property
    def exact(self) -> Indices:
        """Rows of the measurements of infinite weight."""
        return self.heavy[np.isinf(self.heavy_root)]


PER_MEASUREMENT = ("at", "observable", "value", "root_weight", "argument_source", "argument_number", "source")
"""Fields of an observation with an entry for each measurement."""


def observations(problem: Problem, use: str = "fit") -> Observations:
    """Return the measurements of experiments with this use.

    They are worked out once for all problems that differ in numbers only.
    """
    return problem.structure.kept.get(("observations", use), lambda: _gathered(problem, use))


def until(data: Observations, horizons: Sequence[float]) -> Observations:
    """Return the measurements up to a time for each of the experiments; those left without any drop out."""
    observed, masks = [], []
    for o, horizon in zip(data.of_experiment, horizons, strict=True):
        n_times = int(np.searchsorted(o.times, horizon, side="right"))
        kept = o.at < n_times  # measurements are ordered by time: a first part of them
        masks.append(kept)
        if n_times and o.at_rest:
            observed.append(o)
        elif n_times:
            times, after = o.times[:n_times], o.after[:n_times]
            columns = {name: getattr(o, name)[kept] for name in PER_MEASUREMENT}
            columns |= {"since": o.since[:n_times], "remember": o.remember[:n_times]}
            ends = piece_ends(o.t0, times, o.stops, entered=bool(after.any() or o.consistent))
            observed.append(dataclasses.replace(o, times=times, after=after, ends=ends, **columns))
    mask = np.concatenate(masks)
    is_heavy = np.zeros(mask.size, dtype=bool)
    is_heavy[data.heavy] = True
    weighted = np.concatenate([o.weighted for o in data.of_experiment])
    heavy = mask[data.heavy]
    exact = data.exact[mask[data.exact]]
    return Observations(
        tuple(observed),
        (0, *np.cumsum([o.value.size for o in observed]).tolist()),
        int(mask.sum()),
        norm(weighted[mask & ~is_heavy]),
        norm(weighted[exact]),
        (np.cumsum(mask) - 1)[data.heavy[heavy]],
        data.heavy_root[heavy],
        data.heavy_factor[heavy],
        data.heavy_rounding[heavy],
    )


def _gathered(problem: Problem, use: str) -> Observations:
    roots = root_weights(problem)
    is_heavy, ordinary = heavy_measurements(problem, roots)
    observed = _observations(problem, use, roots, np.where(np.isinf(roots), ordinary, roots))
    sizes = [o.value.size for o in observed]
    source = np.concatenate([o.source for o in observed]) if observed else np.empty(0, np.int64)
    heavy = np.flatnonzero(is_heavy[source])
    relative = roots[source[heavy]] / ordinary[source[heavy]]
    order = np.argsort(-relative, kind="stable")
    heavy, relative = heavy[order], relative[order]
    weighted = np.concatenate([o.weighted for o in observed]) if observed else np.empty(0)
    exact = np.isinf(roots[source])
    return Observations(
        observed,
        (0, *np.cumsum(sizes).tolist()),
        sum(sizes),
        norm(weighted[~is_heavy[source]]),
        norm(weighted[exact]),
        heavy,
        relative,
        np.where(np.isinf(relative), 1.0, 1.0 / relative),
        _ROUNDING * np.abs(weighted[heavy]),
    )


def _observations(problem: Problem, use: str, roots: Array, finite_roots: Array) -> tuple[Observation, ...]:
    data = problem.measurements
    beginnings = interval_beginnings(problem)
    result = []
    for number, experiment in enumerate(problem.experiments):
        if experiment.use != use:
            continue
        mine = (data.experiment == experiment.name) & (roots > 0)
        for at_rest in (False, True):
            rows = np.flatnonzero(mine & (np.isinf(data.time) == at_rest))
            if rows.size:
                result.append(_observation(problem, number, rows, beginnings[rows], finite_roots, at_rest=at_rest))
    return tuple(result)


def _observation(
    problem: Problem, number: int, rows: Indices, begin: Array, finite_roots: Array, *, at_rest: bool
) -> Observation:
    """Return the measurements `rows` of experiment `number`, whose intervals begin at `begin`."""
    data, start = problem.measurements, problem.experiments[number].start
    index = {name: i for i, name in enumerate(problem.observables)}
    order = np.lexsort((begin, data.after[rows], data.time[rows]))
    source = rows[order]
    behind = data.after[source] & np.full(source.size, not at_rest)  # a steady state has one side
    outputs = outputs_of(data.time[source], behind, begin[order], start)
    arguments = with_empty_cells_filled(arguments_of_rows(problem, number, source), outputs.at)
    stops = compiled_structure(problem).tables[number].jumps if problem.model.tables or problem.tables else _NONE
    times, after = outputs.times, outputs.after
    if at_rest:
        ends = _ends_before_rest(problem, number)
    else:
        ends = piece_ends(start, times, stops, entered=bool(after.any() or problem.model.mass))
    return Observation(
        experiment=number,
        t0=start,
        times=times,
        after=after,
        stops=stops,
        ends=ends,
        since=outputs.since,
        remember=outputs.remember,
        n_slots=outputs.n_slots,
        at=outputs.at,
        observable=np.array([index[name] for name in data.observable[source].tolist()], dtype=np.int64),
        value=data.value[source].copy(),
        root_weight=finite_roots[source].copy(),
        argument_source=arguments.source,
        argument_number=arguments.number,
        source=source.astype(np.int64),
        at_rest=at_rest,
        consistent=bool(problem.model.mass),
    )


def _ends_before_rest(problem: Problem, e: int) -> Array:
    """Return the ends of the pieces to the last event of experiment `e`, behind which it comes to rest."""
    compiled = compiled_structure(problem)
    return ends_to_last_change(last_change(problem, e, compiled.model(e)), compiled, e)
