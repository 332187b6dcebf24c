"""The merit function: the objective, with smaller weights where those of the data are very large.

A step is judged by its reduction of light + sum_i min(w_i, m)/2 c_i^2, where c is what the heavy rows miss.
With the weights themselves (infinite ones above all) this would forbid almost every step.  The merit
weight m is the smallest for which the step would be a good one for the linear model: the best multiple of
it must be at least 0.8 (Edsberg and Wedin (24)).  With p = S v for the light rows and q = E v for the heavy
ones,

    (-p'r + m (-q'c)) / (p'p + m q'q) >= 0.8     or     m >= (0.8 p'p + p'r) / (-(0.8 q'q + q'c)).

Rows whose own weight is below m count with that instead, as light rows do; m never becomes smaller on the way.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.solve.contract import LinearModel, Point, heavy_of
from odefit.solve.steps import StepInfo

Array = npt.NDArray[np.float64]

_BEST_MULTIPLE = 0.8
_LARGEST = 1e12


class Merit:
    """Merit function of one minimisation; for an objective without heavy rows, the objective.

    Attributes
    ----------
    trivial
        There are no heavy rows.
    """

    def __init__(self, root: Array) -> None:
        self.trivial = not root.size
        self._weight = np.square(root)
        self._m = 1.0

    def of(self, point: Point) -> float:
        """Return its value at a point."""
        if self.trivial:
            return point.value
        heavy = heavy_of(point)
        assert heavy is not None
        return heavy.light + 0.5 * float(np.minimum(self._weight, self._m) @ np.square(heavy.misfit))

    def level(self, point: Point) -> float:
        """Return what changes of the merit function are compared with; see `magnitude_of`."""
        value, least = point.value if self.trivial else self.of(point), 0.5 * point.size * point.size
        return value if value >= least else max(-value, least)

    def promised(self, linear: LinearModel, step: StepInfo) -> float:
        """Choose the weight for `step` and return the reduction that the linear model promises."""
        if self.trivial:
            return step.promised
        p, q, heavy = linear.times(step.v[None, :])[0].ravel(), linear.heavy_times(step.v), linear.heavy
        gain, size = float(p @ linear.right.ravel()), float(p @ p)
        heavy_gain, heavy_size = q * heavy.right, np.square(q)
        self._m = self._smallest(_BEST_MULTIPLE * size - gain, heavy_gain - _BEST_MULTIPLE * heavy_size)
        weight = np.minimum(self._weight, self._m)
        return gain - 0.5 * size + float(weight @ (heavy_gain - 0.5 * heavy_size))

    def _smallest(self, lacking: float, slack: Array) -> float:
        """Return the smallest m >= the present one with ``sum min(w, m) slack >= lacking``, if there is one."""
        m = self._m
        for _ in range(self._weight.size + 1):  # each time at least one more row is light
            light = self._weight <= m
            more = float(slack[~light].sum())
            remainder = lacking - float(self._weight[light] @ slack[light])
            if not more * m < remainder or not more > 0.0:
                break
            next_weight = float(self._weight[~light].min())
            m = min(_LARGEST, next_weight, remainder / more)
            if m < next_weight:
                break
        return m

    def violation(self, point: Point) -> float:
        """Return by how much the rows of infinite weight are missed."""
        if self.trivial:
            return 0.0
        heavy = heavy_of(point)
        assert heavy is not None
        return math.sqrt(float(np.sum(np.square(heavy.misfit[np.isinf(self._weight)]))))
