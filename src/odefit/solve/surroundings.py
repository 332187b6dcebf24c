"""Whether a point is surrounded by larger values: the evidence for a minimum where rounding hides the way to it.

Where a model depends on its unknowns so strongly that their rounding decides the residual, no step is short enough to
tell a descent, and the tests of convergence say nothing: the full step S d = -r is as short as rounding at *every*
point, since S is so large.  What can still be seen is the objective further away.  Along each right singular vector of
S, to both sides, as far as the linearised model changes the residual by ten times its norm (and not by rounding only),
the objective has to rise by at least a quarter of what the linearised model says.  Then a minimum lies between these
points, as near as that.

The objective of a chaotic model does not rise there: its solutions stay in bounds whatever the unknowns are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from odefit.solve.contract import Evaluation, Failed, Flags, Point
from odefit.solve.weighted_factors import RANK_TOLERANCE

Array = npt.NDArray[np.float64]

_FAR = 10.0  # norms of the residual, by which the linearised model changes it
_NOT_ROUNDING = 32.0 * float(np.finfo(float).eps)  # relative change of the unknowns, not to be taken for rounding
_OF_PREDICTED = 0.25


def is_surrounded(
    point: Point,
    free: Flags,
    scale: Array,
    box: tuple[Array, Array],
    evaluate: Callable[[Array, int], Evaluation],
) -> bool:
    """Tell whether the objective rises around `point` as its linearisation, which must exist, says.

    Parameters
    ----------
    free, scale
        Unknowns that are not held at a bound, and the scales of all.
    box
        Bounds; what lies outside is no way down.
    evaluate
        The objective, on the grids of the point.
    """
    assert point.linear is not None
    with np.errstate(over="ignore", invalid="ignore"):
        rows = point.linear.triangle().rows()[0][:, free] * scale[free]
    if not (np.isfinite(rows).all() and point.size > 0.0):
        return False
    sizes, vectors = np.linalg.svd(rows, full_matrices=False)[1:]
    felt = sizes > RANK_TOLERANCE * np.max(sizes, initial=0.0)
    for size, vector in zip(sizes[felt].tolist(), vectors[felt], strict=True):
        reach = max(_FAR * point.size / size, _NOT_ROUNDING)
        predicted = 0.5 * (reach * size) * (reach * size - 2.0 * point.size)  # at least
        for far in (reach, -reach):
            x = point.x.copy()
            with np.errstate(over="ignore", invalid="ignore"):  # then the objective fails there
                x[free] += far * (scale[free] * vector)
            if np.any((x < box[0]) | (x > box[1])):
                continue
            there = evaluate(x, 0)
            if isinstance(there, Failed) or not there.value - point.value >= _OF_PREDICTED * predicted:
                return False
    return bool(felt.any())
