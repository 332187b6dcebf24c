"""Projected gradient steps, which every step that meets a bound has to be compared with.

Too many unknowns may have been put on bounds at once; such a step may promise next to nothing.  The best of some
projected gradient steps is taken instead where it promises ten times as much.  No step can promise more than half the
square of the decrement, so that the comparison is seldom needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

FRACTION_OF_GRADIENT = 0.1
"""Of what a projected gradient step promises, that a step must promise."""
_HALVINGS = 60
_FAR = 1e6  # beyond the best multiple were there no bounds


def needs_comparison(promised: float, decrement: float) -> bool:
    """Tell whether a gradient step might promise so much more that it should be taken instead."""
    return not promised >= FRACTION_OF_GRADIENT * 0.5 * decrement**2


class GradientStep(NamedTuple):
    """The step, its length in scaled unknowns, and the reduction that the linear model promises for it."""

    v: Array
    length: float
    promised: float


def promised_reductions(moved: Array, right: Array) -> Array:
    """Return the reduction that a linear model promises for steps with the images `moved`, (k, m)."""
    return 0.5 * np.sum(moved * (2.0 * right - moved), axis=-1)


def gradient_step(
    times: Callable[[Array], Array],
    right: Array,
    descent: Array,
    scale: Array,
    low: Array,
    high: Array,
    radius: float,
) -> GradientStep:
    """Return the best of some projected, scaled gradient steps within the radius.

    Parameters
    ----------
    times, right
        The linear model: images of steps, a row each, and what they are to become; (k, n) -> (k, m), (m,).
    descent
        Negative gradient.
    low, high
        Bounds of the step.
    """
    nothing = GradientStep(np.zeros_like(descent), 0.0, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):  # a gradient too large for its square promises nothing
        length = float(np.linalg.norm(descent * scale))
        if length == 0.0:
            return nothing
        along = scale * scale * descent
        square = float(np.sum(np.square(times(along[None, :]))))
        longest = radius / length
        if square > 0.0:
            longest = min(longest, _FAR * float(descent @ along) / square)
        if not 0.0 < longest < np.inf:
            return nothing
        multiples = longest * 0.5 ** np.arange(_HALVINGS)
        steps = np.minimum(high, np.maximum(low, multiples[:, None] * along))
        promised = promised_reductions(times(steps), right)
    best = int(np.nanargmax(np.append(promised, 0.0)))
    if best == _HALVINGS:
        return nothing
    return GradientStep(steps[best], float(multiples[best]) * length, float(promised[best]))
