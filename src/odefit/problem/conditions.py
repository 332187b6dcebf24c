"""Data columns that are conditions.

What an experiment sets is a condition of it, not something measured.  Values that the data have of it are compared
with what the experiment sets and take no further part: as data they would be residuals of zero, degrees of freedom
that nobody has.

* In an experiment that sets the name to a number, or to an expression that is one, the values must agree.
* In one that sets it to an expression of the time, of states or parameters they are not compared; nor where events
  change it.
* In one that does not set it, while others do, the model's own definition counts.  If that is a number the name is a
  condition here too; otherwise the values are data.  A parameter is no definition: there it must be set.

Values that are missing or have weight 0 are not compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.model.names import state_of_initial
from odefit.problem.experiments import Experiment
from odefit.problem.resolution import resolve_in_experiment

if TYPE_CHECKING:
    from odefit.problem.problem import Problem

_ROUNDING = 1e-9


def condition_names(experiments: Iterable[Experiment]) -> tuple[str, ...]:
    """Return the names that some experiment sets, initial values left out."""
    every = (name for one in experiments for period in one.shown for name in period.overrides)
    return tuple(dict.fromkeys(name for name in every if state_of_initial(name) is None))


def conditions_among(problem: Problem) -> npt.NDArray[np.bool_]:
    """Tell which measurements of `problem` are values of conditions; they are checked."""
    data = problem.measurements
    among = np.zeros(len(data), dtype=bool)
    for name in condition_names(problem.experiments):
        measured = data.observable == name
        for experiment in problem.experiments if measured.any() else ():
            mine = measured & (data.experiment == experiment.name)
            if mine.any() and _is_condition(problem, experiment, name, mine & data.used):
                among |= mine
    return among


def _is_condition(problem: Problem, experiment: Experiment, name: str, rows: npt.NDArray[np.bool_]) -> bool:
    """Tell whether `name` is a condition of `experiment`; compare the measurements in `rows`."""
    data = problem.measurements
    number = _number(problem, experiment, name)
    is_set = any(name in period.overrides for period in experiment.shown)
    if math.isfinite(number):
        far = np.abs(data.value - number) > _ROUNDING * np.maximum(np.abs(data.value), abs(number))
        source = f"experiment '{experiment.name}' sets '{name}' to" if is_set else f"'{name}' is"
        data.refuse(
            rows & far,
            lambda i: (
                f"the value is {data.value[i]:.10g}, but {source} {number:.10g}; correct one of the two (a column that "
                "experiments set is a condition, not fitted)."
            ),
        )
        return True
    if not is_set and name not in problem.model.definitions:
        data.refuse(
            rows,
            lambda i: (
                f"'{name}' is a condition, since other experiments set it, but experiment '{experiment.name}' does "
                "not; set it there too, or leave these values out."
            ),
        )
        return True
    return is_set


def _number(problem: Problem, experiment: Experiment, name: str) -> float:
    """Return the value of `name` in `experiment` if it is a number whatever the parameters are, else NaN."""
    if name in problem.model.changed_by_events:
        return math.nan
    value = resolve_in_experiment(problem, problem.model.symbols[name], experiment)
    return math.nan if ca.symvar(value) else float(ca.evalf(value))
