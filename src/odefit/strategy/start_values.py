"""Start values from the data by integral matching: no integration of the model, no start values needed.

Along a solution y(t_i) - y(t_{i-1}) = int f(t, y, q) dt.  With the states replaced by a monotone cubic (PCHIP)
through the data, the integrals by Gauss quadrature, and each difference weighted with the standard deviations of
its two data, this is a regression for the parameters that needs nothing else.  It is *linear* in every set of
parameters in which f is affine (rate constants of mass action): these come from linear least squares within their
bounds, whatever the user's start values are.  Other parameters are drawn around theirs, the linear ones eliminated for
each draw, and the best few refined.

States that are not measured come from conservation relations w'y = const where these suffice; else they are
integrated with the measured ones inserted, and the regression is nonlinear.  Parameters of initial values only are
matched to the data at the start, or to the matched model run back from the first data.

The estimates are biased by noise in the regressors, and are meant as start values only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from odefit.problem import Parameter, Problem
from odefit.strategy.matching import Matched, Regression

Array = npt.NDArray[np.float64]

_INSIDE = 1e-3  # a value moved inside its bounds keeps this part of the width (or of its size) from the bound


@dataclass(frozen=True)
class StartValues:
    """What matching found.

    Attributes
    ----------
    values
        Start values by slot.
    used
        What was done, in words.
    missing
        Slot to the reason why it keeps its start value.
    moved
        Slot to words on a matched value that could not be used as it is.
    """

    values: dict[str, float]
    used: str
    missing: dict[str, str] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All of it as sentences."""
        parts = [self.used]
        reasons: dict[str, list[str]] = {}
        for name, reason in self.missing.items():
            reasons.setdefault(reason, []).append(f"'{name}'")
        parts += [f"Kept at the given start: {', '.join(names)} ({reason})." for reason, names in reasons.items()]
        return " ".join([*parts, *self.moved.values()])


def wanted_parameters(problem: Problem, start: str) -> tuple[str, ...]:
    """Return the parameters whose start values are to come from the data."""
    return tuple(p.name for p in problem.free if start == "auto" or p.auto)


def matched_start(problem: Problem, names: Sequence[str]) -> tuple[Problem, StartValues]:
    """Return `problem` with start values of the named parameters from its data, and an account of them."""
    regression = Regression(problem, names)
    matched = regression.solve()
    values: dict[str, float] = {}
    moved: dict[str, str] = {}
    for name, value in matched.values.items():
        parameter = regression.slots[name].parameter
        low, upper = parameter.natural_lower, parameter.upper
        values[name] = _inside(value, matched.resolution.get(name, 0.0), parameter)
        free = matched.suggested.get(name)  # what it would be without any bounds
        if free is None and name not in matched.suggested and not low <= value <= upper:
            free = value
        if free is not None:
            side = "above" if free > 0 else "below"
            what = f"{free:.4g}" if math.isfinite(free) else f"a value {side} {upper if free > 0 else low:g}"
            moved[name] = (
                f"The data suggest {what} for '{name}', outside its bounds [{low:g}, {upper:g}]; "
                f"{values[name]:.4g} is used."
            )
    record = StartValues(values, _words(values, matched, regression), matched.missing, moved)
    changed = problem.with_start(**values) if values else problem
    return changed, record


def _inside(value: float, resolution: float, parameter: Parameter) -> float:
    """Return a value strictly inside the bounds; on a log scale at least what the data can tell from zero."""
    low, upper = parameter.natural_lower, parameter.upper
    width = upper - low if math.isfinite(upper - low) else max(abs(value), resolution) or 1.0
    least = low + min(_INSIDE * width, max(resolution, 1e-9 * width)) if math.isfinite(low) else -math.inf
    most = upper - _INSIDE * width if math.isfinite(upper) else math.inf
    if parameter.is_logarithmic and low == 0.0 and resolution > 0.0:
        least = min(resolution, most)
    return min(max(value, least), most)


def _words(values: Mapping[str, float], matched: Matched, regression: Regression) -> str:
    if not matched.values:
        return "No start value could be found from the data."
    how = {"linear": "linear least squares", "bounded": "linear least squares within bounds"}
    kind = how.get(matched.kind, "a nonlinear regression")
    used = ", ".join(f"{name} = {value:.4g}" for name, value in values.items())
    text = f"Start values from the data by integral matching ({kind}): {used}."
    if regression.completed:
        text += f" Not measured, but known from conservation: {', '.join(regression.completed)}."
    if regression.integrated:
        text += f" Not measured, and integrated with the others inserted: {', '.join(regression.integrated)}."
    if matched.tied:
        text += f" The data tell only a combination of {', '.join(matched.tied)}: their values are one choice of many."
    if regression.data.short:
        text += f" Not used, since the others cover much more time: {', '.join(regression.data.short)}."
    if regression.data.sparse:
        text += f" There are very few data of {', '.join(regression.data.sparse)}: these values are rough."
    return text
