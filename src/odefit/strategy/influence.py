"""Whether a parameter without derivatives has an influence all the same, at another value.

A derivative of zero says nothing of changes that are not small: a lag behind the last measurement has none, and yet a
shorter one would change everything.  So before a parameter is called without influence, the residuals are compared at
changed values: half and twice as large and the like, and, since it may be a time, shifted by parts of the longest
experiment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from odefit.native.stop import StopFlag, raise_on_interrupt
from odefit.problem import Problem
from odefit.solve import Failed
from odefit.transcribe import SingleShooting

Array = npt.NDArray[np.float64]

_FACTORS = (0.9, 1.1, 0.5, 2.0, 0.1, 10.0, -1.0)
_SHIFTS = (-0.02, 0.02, -0.2, 0.2, -0.5, 0.5, -0.9, 0.9)
_FELT = 10.0  # integration errors that a change of the residuals must exceed


def values_with_influence(problem: Problem, x: Array, unknowns: Iterable[int]) -> dict[int, float]:
    """Return, of these unknowns, those that change the residuals at another value than at `x`, with such a value."""
    stop = StopFlag()
    with raise_on_interrupt(stop):
        # steps for one value may not do for another: every point adapts its own
        objective = SingleShooting(problem, stop, readapt=True)
        before = objective.evaluate(x, 0)
        if isinstance(before, Failed):
            return {}
        data = objective.plan.data
        smallest = _FELT * problem.settings.rtol * (data.norm + data.exact_norm)
        found = {}
        for i in unknowns:
            for value, there in _changed(objective, x, i):
                after = objective.evaluate(there, 0)
                if isinstance(after, Failed):
                    continue
                with np.errstate(over="ignore"):  # a change too large for a number is felt
                    change = float(np.linalg.norm(after.differences - before.differences))
                if change > smallest:
                    found[i] = value
                    break
        return found


def _changed(objective: SingleShooting, x: Array, i: int) -> Iterator[tuple[float, Array]]:
    """Yield other natural values of unknown `i` within its bounds, each with the point where it has that value."""
    compiled = objective.compiled
    natural = compiled.to_natural(x)[0]
    here = float(natural[i])  # Python's own numbers become infinite without a word
    lengths = (float(o.times[-1]) - float(o.t0) for o in objective.observations if not o.at_rest)
    horizon = max(lengths, default=0.0)
    values = [here * factor for factor in _FACTORS] if here != 0.0 else [-1.0, 1.0]
    values += [here + horizon * shift for shift in _SHIFTS]
    for value in filter(math.isfinite, values):
        outside = not compiled.lower[i] <= value <= compiled.upper[i]
        if value == here or outside or (value <= 0.0 and compiled.theta_scales[i] != "linear"):
            continue
        moved, there = natural.copy(), x.copy()
        moved[i] = value
        there[i] = compiled.to_theta(moved)[i]
        if np.isfinite(there[i]):
            yield value, there
