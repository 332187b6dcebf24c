"""Output times with intervals: those of measurements, say, and the beginnings of their intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_NO_INDICES = np.empty(0, np.int64)


class Outputs(NamedTuple):
    """Times in order, and what is wanted at each: after, since, remember and n_slots as in `Run`.

    `at` are the places of the times that were asked for.

    A time stands there twice where states before and behind an event are wanted, or where measurements at one time have
    intervals of different beginnings.
    """

    times: Array
    after: Indices
    since: Indices
    remember: Indices
    n_slots: int
    at: Indices


def outputs_of(time: Array, behind: npt.NDArray[np.bool_], begin: Array, start: float) -> Outputs:
    """Return the outputs for measurements that are sorted by time, side and beginning of interval.

    Parameters
    ----------
    time, behind, begin
        Per measurement: its time, whether it means the state behind an event, and where its interval begins (NaN: it
        has none).
    start
        Where the experiment begins.
    """
    has_interval = np.isfinite(begin)
    kept = np.unique(begin[has_interval & (begin > start)])  # those that must be remembered
    new = np.ones(time.size, dtype=bool)
    same = (time[1:] == time[:-1]) & (behind[1:] == behind[:-1])
    new[1:] = ~(same & ((begin[1:] == begin[:-1]) | ~(has_interval[1:] | has_interval[:-1])))
    after = behind[new].astype(np.int64) if behind.any() else _NO_INDICES
    if not has_interval.any():
        return Outputs(time[new], after, _NO_INDICES, _NO_INDICES, 0, np.cumsum(new) - 1)
    # an output of its own remembers each beginning, before all others of its time that mean the state before an event
    n = int(new.sum())
    times = np.concatenate([kept, time[new]])
    sides = np.concatenate([np.zeros(kept.size, np.int64), behind[new].astype(np.int64)])
    rank = np.concatenate([np.zeros(kept.size, np.int64), np.ones(n, np.int64)])
    order = np.lexsort((np.arange(times.size), rank, sides, times))
    remember = np.concatenate([np.arange(kept.size), np.full(n, -1)])[order]
    began = begin[new]
    slot = np.where(np.isfinite(began) & (began > start), np.searchsorted(kept, began), -1)
    since = np.concatenate([np.full(kept.size, -1), slot])[order]
    place = np.empty(times.size, dtype=np.int64)
    place[order] = np.arange(times.size)
    return Outputs(
        times[order],
        sides[order] if behind.any() else _NO_INDICES,
        since.astype(np.int64),
        remember.astype(np.int64),
        int(kept.size),
        place[kept.size + np.cumsum(new) - 1],
    )
