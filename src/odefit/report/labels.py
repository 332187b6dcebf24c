"""Names as reports and plots show them, with their units."""

from __future__ import annotations

import math

from odefit.problem import Problem


def with_unit(name: str, unit: str) -> str:
    """Return the label of a column, row or axis."""
    return f"{name} [{unit}]" if unit else name


def time_unit(problem: Problem) -> str:
    """Return the unit of time, which ``[units]`` may call by the model's name for it or just `time`; "" if none."""
    units, symbols = problem.units, problem.model.symbols
    return units.get(problem.model.time) or ("" if "time" in symbols else units.get("time", ""))


def time_label(problem: Problem) -> str:
    """Return the label of the axis of times."""
    name = problem.model.time
    return with_unit("time" if name == "t" else name, time_unit(problem))


def words_for_time(problem: Problem, time: float) -> str:
    """Say which time is meant: "t = 5 min"; an infinite one is that of the steady state."""
    if math.isinf(time):
        return f"{problem.model.time} = inf"
    return f"{problem.model.time} = {time:g} {time_unit(problem)}".rstrip()
