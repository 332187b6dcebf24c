"""The residuals as time series: one for each experiment and observable, in the order of time.

Values that must be met exactly (infinite weights, and those so large that rounding could not tell the difference) are
left out, for they are not random.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.solve import Point
from odefit.transcribe import Plan
from odefit.transcribe.observation import ROUNDING

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

AS_GOOD_AS_EXACT = 1e4  # root weight from which rounding could not tell a row from one that holds exactly


class Residuals(NamedTuple):
    """Weighted residuals of the data, series after series.

    Attributes
    ----------
    value, model, data
        Per measurement: weighted residual, and weighted model value and datum, whose difference it is; (N,).
    root_weight
        Square roots of the weights.
    row
        Which row of the Jacobian it is.
    experiment, observable, time
        Number of the experiment, number of the observable, time of the measurement.
    first
        Where each series begins, and N; (number of series + 1,).
    """

    value: Array
    model: Array
    data: Array
    root_weight: Array
    row: Indices
    experiment: Indices
    observable: Indices
    time: Array
    first: Indices

    def in_units_of(self, unit: float) -> Residuals:
        """Return the same with the residuals divided by `unit`, a power of two: nothing is rounded."""
        return self._replace(value=self.value / unit)

    @property
    def linked(self) -> npt.NDArray[np.bool_]:
        """Whether a residual and the next one belong to the same series, (N - 1,)."""
        out = np.ones(max(self.value.size - 1, 0), dtype=bool)
        out[self.first[1:-1] - 1] = False
        return out


def exact_rows(plan: Plan) -> Indices:
    """Return the rows of the measurements that must be met exactly, or as good as exactly."""
    return plan.data.heavy[plan.data.heavy_root >= AS_GOOD_AS_EXACT]


def resolution_of(plan: Plan, point: Point) -> float:
    """Return the norm of the weighted residuals that integration and rounding cannot resolve at a point."""
    return math.hypot(point.resolution, ROUNDING * plan.data.norm)


def residual_series(plan: Plan, point: Point) -> Residuals:
    """Sort the differences of model and data at a point into series."""
    data = plan.data
    observations = data.of_experiment
    experiment = np.concatenate([np.full(o.value.size, o.experiment) for o in observations])
    observable = np.concatenate([o.observable for o in observations])
    time = np.concatenate([o.times[o.at] for o in observations])
    weighted = np.concatenate([o.weighted for o in observations])
    roots = np.concatenate([o.root_weight for o in observations])
    random = np.ones(data.n_data, dtype=bool)
    random[exact_rows(plan)] = False
    # measurements of an experiment are in the order of time already, and a stable sort keeps it
    order = np.lexsort((observable, experiment))
    order = order[random[order]]
    key = np.stack([experiment[order], observable[order], np.isinf(time[order])])  # a steady state has no neighbour
    begins = np.flatnonzero(np.any(np.diff(key, axis=1) != 0, axis=0)) + 1
    value = point.differences[order]
    return Residuals(
        value=value,
        model=value + weighted[order],
        data=weighted[order],
        root_weight=roots[order],
        row=order,
        experiment=experiment[order],
        observable=observable[order],
        time=time[order],
        first=np.concatenate([[0], begins, [order.size]]).astype(np.int64),
    )
