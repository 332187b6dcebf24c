"""Which rows of an objective are rules, and what they are multiplied by.

A rule may have any unit.  Its row is multiplied so that it is as large as the data are in units of their noise when all
unknowns change by their own size; so it makes no difference in which unit it is written, or how often it is multiplied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from odefit.solve.nodes import NodesLinear

if TYPE_CHECKING:
    from odefit.problem.constrained import Constrained
    from odefit.transcribe.interval_plan import IntervalPlan

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

ROUNDING = 1e-10
"""Of its level, by which a rule may be missed on account of rounding."""
_NO_INDICES = np.empty(0, np.int64)


class RuleRows:
    """The rows of rules.

    Attributes
    ----------
    constrained
        The problem with its rules; None: there are none.
    rows, number
        Rows, and the number of the measurement that each is (see `Constrained.rows`); those that the data do not reach
        yet have none.
    limits
        Rows that must not become negative.
    weights
        What all rows are multiplied by, (N,): 1 for those that are no rules.
    level
        Size of a row of a rule when all unknowns change by their own size.
    """

    def __init__(self, constrained: Constrained | None, plan: IntervalPlan | None) -> None:
        self.constrained = constrained
        self.rows = self.number = self.limits = _NO_INDICES
        self.weights, self.level = np.ones(0), 1.0
        if constrained is None or plan is None:
            return
        source = np.concatenate([o.source for o in plan.whole.data.of_experiment])
        row_of = {int(s): row for row, s in enumerate(source)}
        found = [
            (row_of[one.measurement], number, constrained.constraints[one.constraint].at_least)
            for number, one in enumerate(constrained.rows)
            if one.measurement in row_of
        ]
        self.rows = np.array([one[0] for one in found], np.int64)
        self.number = np.array([one[1] for one in found], np.int64)
        self.limits = self.rows[np.array([one[2] for one in found], dtype=bool)]
        self.weights = np.ones(plan.n_rows)

    def too_late(self, theta: Array, plan: IntervalPlan) -> str:
        """Say which rule looks at a time that is not reached at this theta; "" if none does."""
        if self.constrained is None or not self.constrained.moving:
            return ""
        return self.constrained.too_late(plan.compiled.natural(theta))

    def settle(self, linear: NodesLinear, scale: Array, level: float) -> None:
        """Choose the weights at a point, where nothing has been multiplied yet."""
        size = linear.row_sizes(self.rows, scale)
        self.weights[self.rows] = level / np.where(size > 0.0, size, level)
        self.level = level

    def drift(self, linear: NodesLinear, scale: Array) -> float:
        """Return by which factor the size of a row has changed at most since the weights were chosen."""
        size = linear.row_sizes(self.rows, scale) / self.level
        size = size[size > 0.0]
        return float(np.max(np.maximum(size, 1.0 / size), initial=1.0))

    @property
    def rounding(self) -> float:
        """What rules may be missed by on account of rounding."""
        return ROUNDING * self.level * float(np.sqrt(self.rows.size))

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
