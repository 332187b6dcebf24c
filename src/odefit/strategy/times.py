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
    if not np.isfinite(unique_times).all():
        raise ProblemError("a simulation was asked for at a time that is not a finite number.")
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
    """Return the times asked for, else an even grid from the start to `until` or the last datum."""
    if times is not None:
        return requested_times(experiment, times)
    data = problem.measurements
    data_times = data.time[data.experiment == experiment.name]
    ends = [float(data_times.max())] if data_times.size else []
    if not math.isnan(experiment.until):
        ends.append(experiment.until)
    end = max(ends) if ends else (float(data.time.max()) if len(data) else math.nan)
    if not end > experiment.start:
        raise ProblemError(f"experiment '{experiment.name}' has no data and no end; give times or until = ...")
    return np.linspace(experiment.start, end, _POINTS)
