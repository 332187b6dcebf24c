"""Where an experiment is simulated if nobody says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError
from odefit.problem import Experiment, Problem

_POINTS = 101


def requested_times(experiment: Experiment, times: Any) -> npt.NDArray[np.float64]:
    """Return the times asked for, sorted and checked."""
    unique_times = np.unique(np.asarray(times, dtype=float))
    if np.isnan(unique_times).any() or (unique_times == -np.inf).any():
        raise ProblemError("a simulation was asked for at a time that is not a number (inf means the steady state).")
    if unique_times.size and unique_times[0] < experiment.start:
        raise ProblemError(
            f"a simulation was asked for at {unique_times[0]:g}, before experiment '{experiment.name}' starts "
            f"at {experiment.start:g}."
        )
    return unique_times


def data_times(problem: Problem, experiment: Experiment, times: Any = None) -> npt.NDArray[np.float64]:
    """Return the times asked for, else those of the experiment's data, else an even grid."""
    if times is not None:
        return requested_times(experiment, times)
    data = problem.measurements
    measured = np.unique(data.time[data.experiment == experiment.name])
    return measured if measured.size else prediction_times(problem, experiment)


def prediction_times(problem: Problem, experiment: Experiment, times: Any = None) -> npt.NDArray[np.float64]:
    """Return the times asked for, else an even grid from the start to `until` or the last datum.

    Of an experiment that has nothing but data of its steady state, this is it.
    """
    if times is not None:
        return requested_times(experiment, times)
    data = problem.measurements
    end = problem.end_of(experiment)
    if math.isnan(end):
        end = float(np.max(data.time[np.isfinite(data.time)], initial=-math.inf))
    if not end > experiment.start and np.isinf(data.time[data.experiment == experiment.name]).any():
        return np.array([math.inf])
    if not end > experiment.start:
        raise ProblemError(f"experiment '{experiment.name}' has no data and no end; give times or until = ...")
    return np.linspace(experiment.start, end, _POINTS)
