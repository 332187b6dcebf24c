"""Which rows of an objective are rules, and what they are multiplied by.

A rule may have any unit.  Its row is multiplied so that it is as large as the data are in units of their noise when all
unknowns change by their own size; so it makes no difference in which unit it is written, or how often it is multiplied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from odefit.solve.nodes import NodesLinear

if TYPE_CHECKING:
    from odefit.problem.constraints import Constrained
    from odefit.transcribe.interval_plan import IntervalPlan

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_NO_INDICES = np.empty(0, np.int64)


class RuleRows:
    """The rows of rules.

    Attributes
    ----------
    rows, number
        Rows, and the number of the condition that each is of (see `Constrained.rows`); those that the data do not
        reach yet have none.
    limits, penalties
        Rows that must not become negative, and rows that are not measurements.
    weights
        What all rows are multiplied by, (N,): 1 for those that are no rules.
    """

    def __init__(self, constrained: Constrained | None, plan: IntervalPlan | None) -> None:
        self.rows = self.number = self.limits = self.penalties = _NO_INDICES
        self.weights = np.ones(0)
        self._too_late: Callable[[Array], str] | None = None
        if constrained is None or plan is None:
            return
        data = plan.whole.data
        source = np.concatenate([o.source for o in data.of_experiment])
        row_of = {int(s): row for row, s in enumerate(source)}
        first_penalty = data.n_data + plan.n_handover
        found = []
        for number, one in enumerate(constrained.rows):
            row = first_penalty + one.penalty if one.measurement < 0 else row_of.get(one.measurement, -1)
            if row >= 0:
                found.append((row, number, constrained.constraints[one.constraint].at_least, one.measurement < 0))
        self.rows = np.array([one[0] for one in found], np.int64)
        self.number = np.array([one[1] for one in found], np.int64)
        self.limits = self.rows[np.array([one[2] for one in found], dtype=bool)]
        self.penalties = self.rows[np.array([one[3] for one in found], dtype=bool)]
        self.weights = np.ones(plan.n_rows)

    def too_late(self, theta: Array) -> str:
        """Say which rule looks at a time that is not reached at this theta; "" if none does."""
        return "" if self._too_late is None else self._too_late(theta)

    def settle(self, linear: NodesLinear, scale: Array, level: float) -> None:
        """Choose the weights at a point, where nothing has been multiplied yet."""
        size = linear.row_sizes(self.rows, scale)
        self.weights[self.rows] = level / np.where(size > 0.0, size, level)

    def weigh(self, residual: Array, jacobian: Array) -> None:
        """Multiply rows by their weights."""
        if self.rows.size:
            residual[self.rows] *= self.weights[self.rows]
            if jacobian.size:
                jacobian[self.rows] *= self.weights[self.rows, None]

    def weighed(self, values: Array, rows: Indices) -> Array:
        """Return the values of some rows, multiplied by their weights."""
        return values[rows] * self.weights[rows] if self.rows.size else values[rows]


NO_RULES = RuleRows(None, None)
