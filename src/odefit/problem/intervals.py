"""Measurements of intervals: counts of a week, means of a day.

An observable with an aggregate over the interval of a measurement (`odefit.model.aggregates`) is observed since the
row's ``from``, else since the time of the row before with the same observable in the same experiment, a row whose value
is missing included, else since the experiment's start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from odefit.problem.problem import Problem

Array = npt.NDArray[np.float64]


def interval_observables(problem: Problem) -> tuple[str, ...]:
    """Return the measured names that are taken over the interval of a measurement."""
    model = problem.model
    if not model.intervals:
        return ()
    return tuple(
        name
        for name in problem.observables
        if name in model.definitions and problem.depends_on(model.symbols[name], model.intervals)
    )


def interval_beginnings(problem: Problem) -> Array:
    """Return where the interval of each measurement begins; NaN for those that have none."""
    data = problem.measurements
    result = np.full(len(data), np.nan)
    starts = {one.name: one.start for one in problem.experiments}
    for name in interval_observables(problem):
        for experiment, start in starts.items():
            rows = np.flatnonzero((data.observable == name) & (data.experiment == experiment))
            times = np.unique(data.time[rows])
            before = np.concatenate([[start], times])[np.searchsorted(times, data.time[rows])]
            result[rows] = np.where(np.isfinite(data.since[rows]), data.since[rows], before)
    return result


def check_intervals(problem: Problem) -> None:
    """Refuse intervals that are empty, begin too early, or belong to something that is measured at a time."""
    data = problem.measurements
    given = np.isfinite(data.since)
    observables = interval_observables(problem)
    data.refuse(
        given & ~np.isin(data.observable, observables),
        lambda i: (
            f"its interval begins at {data.since[i]:g}, but '{data.observable[i]}' is measured at a time; leave 'from' "
            f"out, or define it by an integral, mean, max or min over={problem.model.time}."
        ),
    )
    if not observables:
        return
    begin = interval_beginnings(problem)
    starts = {one.name: one.start for one in problem.experiments}
    start = np.array([starts.get(name, -np.inf) for name in data.experiment.tolist()])
    data.refuse(
        begin < start,
        lambda i: (
            f"its interval begins at {begin[i]:g}, before the experiment's start at {start[i]:g}; move the start."
        ),
    )
    data.refuse(
        data.used & (begin >= data.time),
        lambda i: (
            f"its interval from {begin[i]:g} to {data.time[i]:g} is empty; give an earlier 'from', let the experiment "
            "start earlier (t0), or remove the value."
        ),
    )
