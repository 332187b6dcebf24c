"""Tables at known times: their values are numbers in a transcription by collocation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from odefit.compile.table_data import polynomials
from odefit.problem import Experiment, Problem

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TableValue:
    """A number that the equations need at each time: the value of a table, or of what a parameter in it multiplies.

    Attributes
    ----------
    table, parameter
        Names; None: the numbers of the table.
    argument
        CasADi function of the time.
    stepwise
        Whether it is constant between knots, and so within an element.
    """

    table: str
    parameter: str | None
    argument: Any
    stepwise: bool


def table_values(problem: Problem, experiment: Experiment, values: tuple[TableValue, ...], times: Array) -> Array:
    """Return all values at these times, (n_values, n_times)."""
    result = np.empty((len(values), times.size))
    for i, one in enumerate(values):
        table = problem.table(one.table, experiment)
        x = np.asarray(one.argument(times[None, :])).reshape(-1)
        coefficients = polynomials(table, one.parameter)
        interval = np.searchsorted(table.x, x, side="right")
        s = x - table.x[np.maximum(interval - 1, 0)]
        c = coefficients[interval]
        result[i] = c[:, 0] + s * (c[:, 1] + s * (c[:, 2] + s * c[:, 3]))
    return result
