"""Aggregates over time in a compiled model: which states they are, and the expressions whose extremes are wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.compile.functions import NativeFunction, SymbolicFunction
from odefit.model import Model
from odefit.model.aggregates import EXTREMES

Integers = npt.NDArray[np.int64]
_NO_INDICES = np.empty(0, np.int64)


class Gatherings(NamedTuple):
    """The hidden states of a model that gather something; see `odefit.model.aggregates`.

    Attributes
    ----------
    gained, in_intervals
        Numbers of all of them, and of the integrals over the interval of a measurement.
    extremes, signs, extremes_in_intervals
        Numbers of the extremes, 1 for the largest and -1 for the smallest value, and 1 for those in an interval.
    watch
        The expressions whose extremes are wanted, and behind them whether they count: a function of ((t, y), p, u),
        differentiated by (t, y, p).  None without extremes.
    """

    gained: Integers = _NO_INDICES
    in_intervals: Integers = _NO_INDICES
    extremes: Integers = _NO_INDICES
    signs: npt.NDArray[np.float64] = np.empty(0)
    extremes_in_intervals: Integers = _NO_INDICES
    watch: NativeFunction | None = None

    @property
    def has_intervals(self) -> bool:
        """Whether something is gathered in the intervals of measurements."""
        return bool(self.in_intervals.size or self.extremes_in_intervals.any())


NO_GATHERINGS = Gatherings()


def gatherings_of(model: Model, watch: NativeFunction | None) -> Gatherings:
    """Return the aggregates of a model."""
    if not model.gathered:
        return NO_GATHERINGS
    number = {name: i for i, name in enumerate(model.states)}
    extremes = {name: one for name, one in model.gathered.items() if one.kind in EXTREMES}
    integrals = [name for name in model.gathered if name not in extremes]
    return Gatherings(
        np.array([number[name] for name in model.gathered], dtype=np.int64),
        np.array([number[name] for name in integrals if model.gathered[name].interval], dtype=np.int64),
        np.array([number[name] for name in extremes], dtype=np.int64),
        np.array([1.0 if one.kind == "max" else -1.0 for one in extremes.values()]),
        np.array([int(one.interval) for one in extremes.values()], dtype=np.int64),
        watch,
    )


def watched(model: Model, y: Any, p: Any, u: Any, resolve: Callable[[list[Any]], Any]) -> SymbolicFunction | None:
    """Return the function of the expressions whose extremes are wanted; `resolve` puts them into t, y, p and u."""
    extremes = [one for one in model.gathered.values() if one.kind in EXTREMES]
    if not extremes:
        return None
    out = resolve([*(one.expression for one in extremes), *(one.counts for one in extremes)])
    arrays = (("y", ca.vertcat(model.symbols[model.time], y)), ("p", p), ("u", u))
    return SymbolicFunction("watch", ca.SX.sym("nothing"), arrays, ("y", "p"), out)
