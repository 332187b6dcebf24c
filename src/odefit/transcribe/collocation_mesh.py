"""The elements of an experiment: where they begin and end, what happens in between, and where data stand on them.

*Breaks* are the start, times of data, jumps of tables, switches of conditions in time and moments of events.  Where one
depends on parameters it is an expression of them, and the order of the breaks is that at the parameters for which the
mesh is made: lengths must not become negative.  The *intervals* between breaks are divided into elements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.compile.switch_kinds import (
    CEIL,
    EQUAL,
    FLOOR,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    MINUS_SIGN,
    SIGN,
    UNEQUAL,
)
from odefit.transcribe.collocation_experiment import CollocationExperiment

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Key = tuple[Any, ...]

MOST_AT_DATA = 40
"""Distinct times of data in an experiment up to which all of them are breaks."""
_DATA_OF_ELEMENT = 1
_MOST_PARTS = 5  # of an interval at first
_SAMPLES = 400  # of a switch that is no straight line, in an interval between known breaks
_BISECTIONS = 60
_MOST_BREAKS = 2000


class Break(NamedTuple):
    """Where an element ends and another begins.

    Attributes
    ----------
    key
        What it is: a time, a moment of an event, the zero of a switch.
    time
        At the parameters for which the mesh was made.
    expression
        SX of the experiment's parameters; None: the time is a number.
    events
        Occurrences that act there, in order.
    """

    key: Key
    time: float
    expression: Any = None
    events: tuple[int, ...] = ()


class Place(NamedTuple):
    """Where a time stands: at a break (before or after its events), or at a fraction of an element."""

    at: int
    after: bool = False
    fraction: float = math.nan


@dataclass(frozen=True, eq=False)
class Mesh:
    """The elements of one experiment.

    Attributes
    ----------
    breaks
        In order, the first is the start.
    inputs
        Conditions in time in each interval between breaks, (n_intervals, n_inputs).
    parts
        Elements of each interval.
    places
        Of the output times of the observation.
    """

    breaks: tuple[Break, ...]
    inputs: Array
    parts: tuple[int, ...]
    places: tuple[Place, ...]

    @property
    def signature(self) -> Key:
        """What decides which program it needs."""
        return (
            tuple((one.key, one.events, None if one.expression is not None else one.time) for one in self.breaks),
            self.inputs.tobytes(), self.parts,
        )  # fmt: skip

    @property
    def order(self) -> Key:
        """The order of what happens."""
        return tuple((one.key, one.events) for one in self.breaks)

    @property
    def interval_of(self) -> Indices:
        """The interval of each element."""
        return np.repeat(np.arange(len(self.parts)), self.parts)

    @property
    def fractions(self) -> tuple[Array, Array]:
        """Where each element begins and ends, as fractions of its interval."""
        begin = np.concatenate([np.arange(m) / m for m in self.parts]) if self.parts else np.empty(0)
        end = np.concatenate([(np.arange(m) + 1) / m for m in self.parts]) if self.parts else np.empty(0)
        return begin, end

    @property
    def is_moving(self) -> npt.NDArray[np.bool_]:
        """Which intervals have an end that depends on parameters."""
        moves = np.array([one.expression is not None for one in self.breaks], dtype=bool)
        return moves[1:] | moves[:-1]

    def element_times(self) -> tuple[Array, Array]:
        """Return where the elements begin and end at the parameters for which the mesh was made."""
        times, k = np.array([one.time for one in self.breaks]), self.interval_of
        begin, end = self.fractions
        width = np.diff(times)
        return times[k] + begin * width[k], times[k] + end * width[k]


def mesh_of(one: CollocationExperiment, q: Array, parts: dict[Key, int], pushed: dict[Key, float]) -> Mesh | str:
    """Return the mesh at the parameters `q`, or why there is none.

    Parameters
    ----------
    parts
        Elements between two breaks, by the keys of these; where nothing is said, as many as data need.
    pushed
        By what moments are taken to be later than they are: so the order at a time that two share is chosen.
    """
    p = one.values(q)[0]
    breaks = _known_breaks(one, q, p, pushed)
    if isinstance(breaks, str):
        return breaks
    levels = 0 if one.model.split is None else max(one.model.split.level, default=0)
    for level in range(1, levels + 1):
        breaks = _with_switches(one, p, breaks, level, pushed)
    if len(breaks) > _MOST_BREAKS:
        return f"there are more than {_MOST_BREAKS} times at which something changes"
    inputs = np.array(
        [
            _inputs(one, p, 0.5 * (a.time + b.time), levels, breaks, pushed)
            for a, b in zip(breaks, breaks[1:], strict=False)
        ]
    ).reshape(max(0, len(breaks) - 1), _n_inputs(one))
    count = tuple(
        parts.get((a.key, b.key), _first_parts(one, a.time, b.time)) for a, b in zip(breaks, breaks[1:], strict=False)
    )
    mesh = Mesh(tuple(breaks), inputs, count, ())
    return Mesh(mesh.breaks, inputs, count, tuple(_places(one, mesh)))


def _known_breaks(one: CollocationExperiment, q: Array, p: Array, pushed: dict[Key, float]) -> list[Break] | str:
    """Return the breaks that are known without switches."""
    o = one.observation
    last = float(o.times[-1])
    moments = one.moments(q)
    is_moving = one.has_moving_times
    found: dict[Key, Break] = {}
    for time in (o.t0, *_data_breaks(one, everything=is_moving), *o.stops[(o.stops > o.t0) & (o.stops < last)]):
        found[("time", float(time))] = Break(("time", float(time)), float(time))
    for k in np.argsort(moments, kind="stable"):
        time, expression = float(moments[k]), one.moment_expressions[k]
        key: Key = ("time", time) if expression is None else ("moment", one.same_moment[k])
        later = pushed.get(key, 0.0)
        if math.isnan(time) or time + later > last:
            continue
        if time < o.t0:
            return f"an event is at {time:g}, before the start at {o.t0:g}"
        before = found.get(key, Break(key, time + later, expression))
        found[key] = before._replace(events=(*before.events, int(k)))
    return _in_order(found.values(), o.t0)


def _in_order(breaks: Any, start: float) -> list[Break]:
    """Return breaks by time; of several at one time those that are fixed come first."""
    return sorted(breaks, key=lambda one: (max(one.time, start), one.expression is not None))


def _data_breaks(one: CollocationExperiment, *, everything: bool) -> Array:
    """Return the times of data that are breaks."""
    o = one.observation
    times = np.unique(o.times)
    if everything or times.size <= MOST_AT_DATA:
        return times
    chosen = np.unique(np.linspace(0, times.size - 1, MOST_AT_DATA).round().astype(int))
    after = o.times[o.after.astype(bool)] if o.after.size else np.empty(0)
    return np.union1d(times[chosen], after)


def _first_parts(one: CollocationExperiment, begin: float, end: float) -> int:
    """Return into how many elements an interval is divided at first: a cubic follows a few data only."""
    times = np.unique(one.observation.times)
    inside = int(np.sum((times > begin) & (times < end)))
    return min(_MOST_PARTS, 1 + inside // _DATA_OF_ELEMENT)


def _n_inputs(one: CollocationExperiment) -> int:
    return 0 if one.model.split is None else len(one.model.split.kind)


def _with_switches(
    one: CollocationExperiment, p: Array, breaks: list[Break], level: int, pushed: dict[Key, float]
) -> list[Break]:
    """Return the breaks with those where switches of a level change."""
    split = one.model.split
    assert split is not None
    found = {b.key: b for b in breaks}
    for a, b in zip(breaks, breaks[1:], strict=False):
        if not a.time < b.time:
            continue
        u = _inputs(one, p, 0.5 * (a.time + b.time), level - 1, breaks, pushed)
        for j in np.flatnonzero(np.array(split.level) == level):
            for whole, time in _zeros(one, p, u, int(j), a.time, b.time):
                expression = one.zero_of_switch(int(j), u, whole)
                if expression is None:
                    key: Key = ("time", time)
                    found.setdefault(key, Break(key, time))
                else:
                    key = ("switch", int(j), whole, u.tobytes())
                    found[key] = Break(key, time + pushed.get(key, 0.0), expression)
    return _in_order(found.values(), one.observation.t0)


def _zeros(
    one: CollocationExperiment, p: Array, u: Array, j: int, begin: float, end: float
) -> list[tuple[float, float]]:
    """Return the whole numbers that a switch passes between two times, or zero, and when."""
    split = one.model.split
    assert split is not None
    n = 2 if split.affine[j] else _SAMPLES
    times = np.linspace(begin, end, n)
    values = one.switch(times, p, u, j)
    result = []
    for k in range(n - 1):
        low, high = sorted((values[k], values[k + 1]))
        levels = np.arange(math.floor(low), math.ceil(high) + 1) if split.whole[j] else np.zeros(1)
        for level in levels:
            if (values[k] - level) * (values[k + 1] - level) < 0.0:
                result.append((float(level), _bisected(one, p, u, j, level, (times[k], times[k + 1]), values[k])))
            elif values[k + 1] == level and times[k + 1] < end:
                result.append((float(level), float(times[k + 1])))
    return result


def _bisected(
    one: CollocationExperiment, p: Array, u: Array, j: int, level: float, bracket: tuple[float, float], at_begin: float
) -> float:
    low, high = bracket
    split = one.model.split
    assert split is not None
    if split.affine[j]:
        other = float(one.switch(np.array([high]), p, u, j)[0])
        return low + (high - low) * (level - at_begin) / (other - at_begin)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if (float(one.switch(np.array([middle]), p, u, j)[0]) - level) * (at_begin - level) > 0.0:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _inputs(
    one: CollocationExperiment, p: Array, time: float, most: int, breaks: list[Break], pushed: dict[Key, float]
) -> Array:
    """Return the inputs of switches up to a level, at a time within an interval; the others are zero.

    A switch is asked for its value as much earlier as its zero is taken to be later than it is.
    """
    split = one.model.split
    u = np.zeros(_n_inputs(one))
    if split is None:
        return u
    for level in range(1, most + 1):
        for i, j in enumerate(split.switch_of):
            if split.level[j] == level:
                own = [b for b in breaks if b.key[:2] == ("switch", j)]
                nearest = min(own, key=lambda b: abs(b.time - time), default=None)
                shift = 0.0 if nearest is None else pushed.get(nearest.key, 0.0)
                u[i] = _value(split.kind[i], float(one.switch(np.array([time - shift]), p, u, j)[0]))
    return u


def _value(kind: int, g: float) -> float:
    """Return what an input is of its switch."""
    truths = {
        LESS: g < 0, LESS_EQUAL: g <= 0, GREATER: g > 0, GREATER_EQUAL: g >= 0, EQUAL: g == 0, UNEQUAL: g != 0,
    }  # fmt: skip
    if kind in truths:
        return float(truths[kind])
    if kind in (SIGN, MINUS_SIGN):
        return float(np.sign(g)) * (1.0 if kind == SIGN else -1.0)
    return float(math.floor(g) if kind == FLOOR else math.ceil(g) if kind == CEIL else math.trunc(g))


def _places(one: CollocationExperiment, mesh: Mesh) -> list[Place]:
    """Return where the output times stand."""
    o, at = one.observation, {b.key: k for k, b in enumerate(mesh.breaks)}
    begin, end = mesh.element_times()
    result = []
    for k, time in enumerate(o.times.tolist()):
        number = at.get(("time", time))
        after = bool(o.after.size and o.after[k])
        if number is not None:
            result.append(Place(number, after))
            continue
        element = int(np.searchsorted(end, time))
        result.append(Place(element, False, (time - begin[element]) / (end[element] - begin[element])))
    return result
