"""What the picture of a fit shows: measured values, and the model's curves through them.

A *series* is what one curve belongs to: an observable in an experiment and, where parameters depend on the single
measurement (a wavelength), one value of the columns that choose them; so too with arguments of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from odefit.compile import curves_of as model_curves
from odefit.errors import OdefitError, ProblemError, suggestion
from odefit.problem import Problem
from odefit.problem.arguments import symbols_used
from odefit.problem.intervals import interval_beginnings, interval_observables
from odefit.statistics.delta import Band, prediction_band
from odefit.strategy import FitResult
from odefit.strategy.times import prediction_times
from odefit.transcribe.arguments import RowArguments, arguments_of_rows

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_DECADES = 3.0  # that times span, from which their axis may be logarithmic
_EARLY = 0.1  # of the last time: half of the times lie before, if they are spread over decades
_POINTS = 201
_ROUNDS = 4
_MOST_POINTS = 2000
_MOST_JUMPS = 500
_BESIDE = 1e-6  # of the times shown, by which a point behind an event is away from it
_BEND = 0.002  # of a curve's range, by which it may leave the straight line between its points


@dataclass(frozen=True, eq=False)
class Series:
    """One curve with its data.

    Attributes
    ----------
    experiment, observable, group
        Number of the experiment, name, and what the columns say that single measurements depend on ("" for none).
    rows
        Its measurements, with a value, as indices of the problem's.
    arguments
        Those of one of these measurements; None if the curve does not depend on the measurement.
    """

    experiment: int
    observable: str
    group: str
    rows: Indices
    arguments: RowArguments | None


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve at the estimates, with the ends of its 95 % band (NaN where there is none), all (m,).

    `rest` is the value of the steady state, where data are of it.
    """

    times: Array
    value: Array
    lower: Array
    upper: Array
    rest: Array = field(default_factory=lambda: np.empty(0))

    @property
    def columns(self) -> tuple[Array, Array, Array]:
        """Value and ends of the band."""
        return self.value, self.lower, self.upper


def chosen_experiments(problem: Problem, experiment: str | list[str] | None) -> list[int]:
    """Return the numbers of the experiments asked for, by default all."""
    known = [e.name for e in problem.experiments]
    names = known if experiment is None else [experiment] if isinstance(experiment, str) else list(experiment)
    for name in names:
        if name not in known:
            raise OdefitError(f"there is no experiment '{name}' to plot{suggestion(name, known)}")
    return [known.index(name) for name in names]


def chosen_observables(problem: Problem, observable: str | list[str] | None) -> list[str]:
    """Return the names asked for (states and definitions too), by default what is measured."""
    if observable is None:
        return list(problem.observables)
    known = [*problem.model.shown, *problem.model.definitions]
    names = [observable] if isinstance(observable, str) else list(observable)
    for name in names:
        if name not in known:
            raise OdefitError(f"there is no state or definition '{name}' to plot{suggestion(name, known)}")
    return names


def series_of(result: FitResult, experiments: list[int], observables: list[str]) -> list[Series]:
    """Return all series of these experiments and observables, in this order."""
    problem = result.problem
    data, compiled = problem.measurements, result.plan.compiled
    series = []
    for e in experiments:
        same_for_all = model_curves(problem, compiled, e).names
        of_experiment = (data.experiment == problem.experiments[e].name) & np.isfinite(data.value)
        for observable in observables:
            rows = np.flatnonzero(of_experiment & (data.observable == observable))
            if observable in same_for_all:
                series.append(Series(e, observable, "", rows, None))
            else:
                series += _groups(problem, e, observable, rows)
    return series


def _groups(problem: Problem, e: int, observable: str, rows: Indices) -> list[Series]:
    """Return a series for all that the observable's parameters and arguments are in these measurements."""
    by_row = problem.slots.by_row
    used = symbols_used(problem, observable, problem.experiments[e])
    arguments = arguments_of_rows(problem, e, rows)
    columns = [j for j, name in enumerate(by_row) if name in used]
    members: dict[tuple[tuple[int, float], ...], list[int]] = {}  # in the order of the data
    for k, (source, number) in enumerate(zip(arguments.source.tolist(), arguments.number.tolist(), strict=True)):
        key = tuple((source[j], number[j] if source[j] < 0 else 0.0) for j in columns)
        members.setdefault(key, []).append(k)
    series = []
    for same in members.values():
        one = RowArguments(arguments.source[same[0]], arguments.number[same[0]])
        words = dict.fromkeys(_words(problem, int(rows[same[0]]), by_row[j], int(one.source[j])) for j in columns)
        series.append(Series(e, observable, ", ".join(words), rows[same], one))
    return series


def _words(problem: Problem, row: int, name: str, source: int) -> str:
    """Say what the parameter or argument `name` is in a measurement: its group, or the slot or number in its cell."""
    data, slots = problem.measurements, problem.structure.slots.names
    if name not in data.arguments:
        per = next(p.per or "" for p in problem.parameters if p.name == name)
        return f"{per} {data.groups[per][row]}"
    cell = data.arguments[name][row]
    if 0 <= source < len(slots):
        cell = slots[source]
    return f"{name} {cell if isinstance(cell, str) else f'{cell:g}'}"


def first_decade(times: Array) -> float:
    """Return the smallest positive time if an even axis would crowd most times at its left end, else 0."""
    positive = times[times > 0]
    if not positive.size or (times < 0).any():
        return 0.0
    first, last = float(positive.min()), float(positive.max())
    spread = np.log10(last / first) > _DECADES and np.median(times) < _EARLY * last
    return first if spread else 0.0


def curves_of(result: FitResult, series: list[Series], first: float) -> list[Curve]:
    """Return the curves of these series, each at as many times as it needs to look smooth.

    Parameters
    ----------
    first
        Time from which the axis is logarithmic; 0 if it is even.
    """
    together: dict[tuple[int, bytes], list[int]] = {}
    for i, one in enumerate(series):
        same = b"" if one.arguments is None else b"".join(column.tobytes() for column in one.arguments)
        together.setdefault((one.experiment, same), []).append(i)
    in_intervals = interval_observables(result.problem)
    curves = {i: _levels(result, one) for i, one in enumerate(series) if one.observable in in_intervals}
    for (e, _), every in together.items():
        members = [i for i in every if i not in curves]
        if not members:
            continue
        names = [series[i].observable for i in members]
        band = _smooth_band(result, e, series[members[0]].arguments, names, first)
        for i in members:
            curves[i] = _curve(result, band, series[i].observable)
        resting = [i for i in members if np.isinf(result.problem.measurements.time[series[i].rows]).any()]
        if resting:
            rest = _band(result, e, np.array([np.inf]), series[members[0]].arguments)
            for i in resting:
                curves[i] = replace(curves[i], rest=rest.values[:, rest.names.index(series[i].observable)])
    return [curves[i] for i in range(len(series))]


def _levels(result: FitResult, one: Series) -> Curve:
    """Return what is observed in intervals: a level in each of them, with gaps in between."""
    problem, compiled = result.problem, result.plan.compiled
    begin, end = interval_beginnings(problem)[one.rows], problem.measurements.time[one.rows]
    order = np.lexsort((begin, end))
    begin, end = begin[order], end[order]
    with np.errstate(all="ignore"):
        band = prediction_band(
            problem, compiled, result.solution.x, result.statistics, one.experiment, end, one.arguments,
            names=(one.observable,), begin=begin,
        )  # fmt: skip
    levels = _curve(result, band, one.observable)
    gap = np.full(end.size, np.nan)
    times = np.stack((begin, end, gap), axis=1).ravel()
    return Curve(times, *(np.stack((part, part, gap), axis=1).ravel() for part in levels.columns))


def _curve(result: FitResult, band: Band, name: str) -> Curve:
    column = band.names.index(name)
    value = band.values[:, column]
    reach = np.full(value.shape, np.nan)
    if result.statistics is not None:
        reach = result.statistics.quantile * band.errors[:, column]
    return Curve(band.times, value, value - reach, value + reach)


def _smooth_band(result: FitResult, e: int, arguments: RowArguments | None, names: list[str], first: float) -> Band:
    """Return a band at times that are added where one of the `names` bends sharply, as seen on the axis."""
    times = _first_times(result, e, first)
    band = _band(result, e, times, arguments)
    for _ in range(_ROUNDS):
        position = np.arcsinh(times / first) if first else times
        bends = _bends(position, band.values[:, [band.names.index(name) for name in names]])
        added = 0.5 * (position[1:] + position[:-1])[bends]
        if not added.size or times.size + added.size > _MOST_POINTS:
            break
        times = np.union1d(times, first * np.sinh(added) if first else added)
        band = _band(result, e, times, arguments)
    return band


def _band(result: FitResult, e: int, times: Array, arguments: RowArguments | None) -> Band:
    compiled, x = result.plan.compiled, result.solution.x
    with np.errstate(all="ignore"):  # what cannot be computed is NaN, and not drawn
        band = prediction_band(result.problem, compiled, x, result.statistics, e, times, arguments)
    return band if arguments is not None or np.isinf(times).any() else result.through_nodes(band, e)


def _first_times(result: FitResult, e: int, first: float) -> Array:
    problem = result.problem
    experiment, data = problem.experiments[e], problem.measurements
    data_times = np.unique(data.time[(data.experiment == experiment.name) & np.isfinite(data.time)])
    try:
        even = prediction_times(problem, experiment)
    except ProblemError:  # all data at the start: there is no curve, but there are values
        return data_times
    if np.isinf(even).any():  # nothing but steady states
        return np.array([experiment.start])
    begin, end = float(even[0]), float(even[-1])
    data_times = np.union1d(data_times, _beside_jumps(result, e, begin, end))
    if not first:
        return np.union1d(np.linspace(begin, end, _POINTS), data_times)
    position = np.linspace(np.arcsinh(begin / first), np.arcsinh(end / first), _POINTS)
    return np.union1d(np.clip(first * np.sinh(position), begin, end), data_times)


def _beside_jumps(result: FitResult, e: int, begin: float, end: float) -> Array:
    """Return the times of events, which show the state before, and times just behind them: a jump is upright."""
    events = np.array([time for time in result.problem.event_times(result.estimates, e) if begin <= time < end])
    if events.size > _MOST_JUMPS:
        return np.empty(0)
    return np.concatenate((events, np.minimum(events + _BESIDE * (end - begin), end)))


def _bends(position: Array, values: Array) -> npt.NDArray[np.bool_]:
    """Tell which intervals (m - 1,) lie beside a point that is off the straight line between its neighbours."""
    result = np.zeros(max(position.size - 1, 0), dtype=bool)
    for value in values.T:
        finite = value[np.isfinite(value)]
        if position.size < 3 or finite.size < 3 or not np.ptp(finite) > 0:
            continue
        share = (position[1:-1] - position[:-2]) / (position[2:] - position[:-2])
        chord = value[:-2] + share * (value[2:] - value[:-2])
        off = np.abs(value[1:-1] - chord) > _BEND * np.ptp(finite)  # False for NaN
        result[:-1] |= off
        result[1:] |= off
    return result
