"""Data columns that are conditions.

A name that `experiments` set is a condition of the runs, not something measured.  Values that the data have of it
are compared with what holds in their experiment and take no further part: as data they would be residuals of
zero, degrees of freedom that nobody has.

* In an experiment that sets the name to a number, or to an expression that is one, the values must agree.
* In one that sets it to an expression of the time, of states or parameters they are not compared.
* In one that does not set it, while others do, the model's own definition counts if it is a number.  Otherwise the
  values would be data here and a condition there: an error.

Values that are missing or have weight 0 are not compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.problem.experiments import Experiment, state_of_initial

if TYPE_CHECKING:
    from odefit.problem.problem import Problem

_ROUNDING = 1e-9


def condition_names(experiments: Iterable[Experiment]) -> tuple[str, ...]:
    """Return the names that some experiment sets, initial values left out."""
    every = (name for one in experiments for name in one.periods[0].overrides)
    return tuple(dict.fromkeys(name for name in every if state_of_initial(name) is None))


def conditions_among(problem: Problem) -> npt.NDArray[np.bool_]:
    """Tell which measurements of `problem` are values of conditions; they are checked."""
    data = problem.measurements
    names = [name for name in condition_names(problem.experiments) if np.any(data.observable == name)]
    if not names:
        return np.zeros(len(data), dtype=bool)
    described = np.isin(data.experiment, [one.name for one in problem.experiments])
    for name in names:
        for experiment in problem.experiments:
            _check(problem, experiment, name)
    return np.isin(data.observable, names) & described


def _check(problem: Problem, experiment: Experiment, name: str) -> None:
    data = problem.measurements
    mine = data.used & (data.observable == name) & (data.experiment == experiment.name)
    if not mine.any():
        return
    number = _number(problem, experiment, name)
    is_set = name in experiment.periods[0].overrides
    if math.isfinite(number):
        far = np.abs(data.value - number) > _ROUNDING * np.maximum(np.abs(data.value), abs(number))
        source = f"experiment '{experiment.name}' sets '{name}' to" if is_set else f"'{name}' is"
        data.refuse(
            mine & far,
            lambda i: (
                f"the value is {data.value[i]:.10g}, but {source} {number:.10g}; correct one of the two (a column that "
                "experiments set is a condition, not fitted)."
            ),
        )
    elif not is_set:
        data.refuse(
            mine,
            lambda i: (
                f"'{name}' is a condition, since other experiments set it, but experiment '{experiment.name}' does "
                "not; set it there too, leave these values out, or give what is measured a definition of its own."
            ),
        )


def _number(problem: Problem, experiment: Experiment, name: str) -> float:
    """Return the value of `name` in `experiment` if it is a number whatever the parameters are, else NaN."""
    model = problem.model
    replacing = {
        other: problem.expression(value) if isinstance(value, str) else ca.SX(float(value))
        for other, value in experiment.periods[0].overrides.items()
        if state_of_initial(other) is None
    }
    value = model.resolve([model.symbols[name]], replacing)[0]
    return math.nan if ca.symvar(value) else float(ca.evalf(value))
