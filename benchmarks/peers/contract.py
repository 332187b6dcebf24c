"""What a peer is, and SciPy's minimisers behind one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from scipy.optimize import least_squares, leastsq

from benchmarks.peers.problems import Array, FitProblem


class Outcome(NamedTuple):
    """End of a fit: half the sum of squares, and how many Jacobians or iterations it took."""

    objective: float
    count: int


class Peer(Protocol):
    """A program set up for one problem; `fit` is warm: everything is compiled and built before.

    Attributes
    ----------
    setup
        The options in a few words.
    """

    setup: str

    def __init__(self, problem: FitProblem) -> None: ...

    def fit(self) -> Outcome: ...


def minimise(
    residual: Callable[[Array], Array],
    jacobian: Callable[[Array], Array],
    start: Array,
    method: str,
    tol: float = 1e-8,
) -> Outcome:
    """Minimise by SciPy.

    Methods: "leastsq" is MINPACK with the least overhead, "leastsq unscaled" the same with all variables of
    equal size (in place of scaling by the Jacobian's columns), others are those of `least_squares`.
    """
    count = 0

    def counted(x: Array) -> Array:
        nonlocal count
        count += 1
        return jacobian(x)

    if method.startswith("leastsq"):
        sizes = np.ones_like(start) if method.endswith("unscaled") else None
        result = leastsq(
            residual, start, Dfun=counted, full_output=True, xtol=tol, ftol=tol, gtol=tol, maxfev=1000, diag=sizes
        )
        return Outcome(0.5 * float(np.square(result[2]["fvec"]).sum()), count)
    result = least_squares(residual, start, counted, method=method, xtol=tol, ftol=tol, gtol=tol, max_nfev=1000)
    return Outcome(float(result.cost), count)


class Remembered:
    """Residual and Jacobian from one computation of both, kept for the last point."""

    def __init__(self, both: Callable[[Array], tuple[Array, Array]]) -> None:
        self.both = both
        self.x = np.empty(0)
        self.last: tuple[Array, Array] = (np.empty(0), np.empty((0, 0)))

    def residual(self, x: Array) -> Array:
        self.x = x.copy()  # MINPACK reuses its array
        self.last = self.both(x)
        return self.last[0]

    def jacobian(self, x: Array) -> Array:
        if not np.array_equal(x, self.x):
            self.residual(x)
        return self.last[1]
