"""Intervals between nodes: the measurements of an experiment, cut into parts that are integrated by themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError
from odefit.integrate import piece_ends
from odefit.transcribe.observation import PER_MEASUREMENT, Observation

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Nodes = int | tuple[float, ...] | Mapping[int, tuple[float, ...]] | None
"""How many nodes an experiment has at most, or where they stand: in all experiments, or in each by its number."""

MOST_NODES = 100
"""Nodes of an experiment unless more are asked for: longer series are thinned."""


@dataclass(frozen=True, eq=False)
class Interval:
    """A part of an experiment.

    Attributes
    ----------
    observation
        Its measurements.  It begins at ``observation.t0``; behind them stands an output where it ends at a node.
    is_first, is_last
        Of its experiment: the first begins where the experiment does, the last hands nothing over.
    whole
        Number of the observation that it is a part of.
    """

    observation: Observation
    is_first: bool
    is_last: bool
    whole: int


def node_times(
    o: Observation, nodes: Nodes, uncut: tuple[float, float] | None = None, n_measured: int | None = None
) -> Array:
    """Return where the nodes of an experiment stand: given times, that many data times, or all of them.

    None stands at the ends, within the interval over which a measurement is taken, or where time must stay `uncut`.
    Measurements from number `n_measured` on are rules, which need no nodes.
    """
    if o.at_rest:
        return np.empty(0)
    taken = o.at if n_measured is None else o.at[o.source < n_measured]
    times = np.unique(o.times[taken])
    last = float(o.times[-1])
    given = nodes.get(o.experiment, ()) if isinstance(nodes, Mapping) else nodes
    candidates = np.array(given, dtype=float) if isinstance(given, tuple) else times
    inside = candidates[(candidates > o.t0) & (candidates < last)]
    if uncut is not None:
        inside = inside[(inside <= uncut[0]) | (inside >= uncut[1])]
    if not isinstance(given, tuple):
        most = MOST_NODES if given is None else given
        if inside.size > most:
            inside = inside[np.unique(np.linspace(0, inside.size - 1, most + 2)[1:-1].round().astype(int))]
    return inside[~_within_intervals(o, inside)]


def _within_intervals(o: Observation, times: Array) -> npt.NDArray[np.bool_]:
    """Tell which times lie within the interval over which a measurement is taken."""
    within = np.zeros(times.size, dtype=bool)
    if not o.n_slots:
        return within
    began = np.full(o.n_slots, o.t0)
    began[o.remember[o.remember >= 0]] = o.times[o.remember >= 0]
    for k in np.flatnonzero(o.since >= 0):
        within |= (times > began[o.since[k]]) & (times < o.times[k])
    return within


def check_nodes(nodes: Nodes, found: list[Array], observed: list[Observation]) -> None:
    """Refuse given nodes of which none is of use."""
    if any(one.size for one in found) or nodes is None or isinstance(nodes, Mapping) or nodes == ():
        return
    finite = [o for o in observed if not o.at_rest]
    if not finite:
        return
    first, last = min(o.t0 for o in finite), max(float(o.times[-1]) for o in finite)
    text = list(nodes) if isinstance(nodes, tuple) else nodes
    raise ProblemError(
        f"nodes = {text}: no node lies between the start at {first:g} and the last datum at {last:g} (nor may one lie "
        'within the interval of a measurement); leave them out to have nodes at the data, or use method = "single".'
    )


def cut(o: Observation, nodes: Array, whole: int, *, apart: bool) -> list[Interval]:
    """Cut an experiment at its nodes.

    What is measured at a node belongs to the interval that begins there: it ties the state to the data.  Where
    something may happen at that time, or states must be made consistent first, it belongs to the interval that ends
    there.  So do events: what is handed over is the state behind them.

    Parameters
    ----------
    whole
        Number of the observation.
    apart
        Whether the state to be handed over may be another one than the last that is measured: behind an event, or
        without what was remembered in intervals.
    """
    edges, parts = [o.t0, *nodes.tolist(), np.inf], []
    for k, (begin, end) in enumerate(zip(edges, edges[1:], strict=False)):
        is_first, is_last = k == 0, k == nodes.size
        if apart or o.consistent:
            outputs = np.flatnonzero(((o.times > begin) | is_first) & (o.times <= end))
        else:
            outputs = np.flatnonzero((o.times >= begin) & ((o.times < end) | is_last))
        part = _part(o, outputs, begin, is_first)
        if not is_last:
            part = _with_handover(part, end, apart=apart)
        ends = piece_ends(begin, part.times, o.stops, entered=bool(part.after.any() or o.consistent))
        parts.append(Interval(dataclasses.replace(part, ends=ends), is_first, is_last, whole))
    return parts


def _part(o: Observation, outputs: Indices, begin: float, is_first: bool) -> Observation:
    """Return the measurements at these outputs, with beginnings of intervals that stand where it begins."""
    rows = np.isin(o.at, outputs)
    slots = np.empty(0, np.int64)
    if o.n_slots:
        wanted = np.unique(o.since[outputs])
        if not is_first:
            here = np.flatnonzero((o.times == begin) & np.isin(o.remember, wanted[wanted >= 0]))
            outputs = np.concatenate([here, outputs])
        slots = np.unique(o.remember[outputs])
        slots = slots[slots >= 0]
    place = np.full(o.times.size, -1, np.int64)
    place[outputs] = np.arange(outputs.size)
    changes = {name: getattr(o, name)[rows] for name in PER_MEASUREMENT}
    changes |= {"at": place[o.at[rows]], "times": o.times[outputs], "t0": begin, "n_slots": slots.size}
    changes["after"] = o.after[outputs] if o.after.size else o.after
    if o.n_slots:
        number = np.full(o.n_slots + 1, -1, np.int64)  # the last entry is that of -1
        number[slots] = np.arange(slots.size)
        changes |= {"since": number[o.since[outputs]], "remember": number[o.remember[outputs]]}
    return dataclasses.replace(o, **changes)


def _with_handover(o: Observation, end: float, *, apart: bool) -> Observation:
    """Add an output where the state is handed over, unless it is the last one already."""
    if not apart and o.times.size and o.times[-1] == end:
        return o
    after = np.append(o.after if o.after.size else np.zeros(o.times.size, np.int64), int(apart))
    minus = np.full(1, -1, np.int64)
    return dataclasses.replace(
        o,
        times=np.append(o.times, end),
        after=after if after.any() else np.empty(0, np.int64),
        since=np.concatenate([o.since, minus]) if o.since.size or o.n_slots else o.since,
        remember=np.concatenate([o.remember, minus]) if o.remember.size or o.n_slots else o.remember,
    )
