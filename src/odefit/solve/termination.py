"""When to stop, and what that means.

The *decrement* ||S d|| of the full (undamped) Gauss-Newton step d is the norm of the part of the
residual that the linearised model could still remove.  A point with a small one solves a problem
whose data are perturbed by that much (Edsberg and Wedin, 3.2.7).  It is judged relative to the
residual, and absolutely against what the integration resolves there, and against rounding: with exact
data the relative test alone would never fire.  A small *damped* step is no sign of convergence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Termination:
    """Tests of convergence.

    Attributes
    ----------
    tol
        Relative: decrement <= tol size, the norm of the residual for a sum of squares.
    tol_abs
        Absolute: decrement <= tol_abs, what is lost by rounding.
    residual_error
        Norm of the rounding errors in the residual, which hide a small gain.
    tol_exact
        What rows of infinite weight may be missed by on account of rounding.
    unresolved, most_unresolved
        The same tests with this part of what the integration does not resolve at the point.  More than
        `most_unresolved` does not count: an integration that leaves the data themselves open decides nothing.
    flat, flat_times, valley_condition
        Idle steps: this many damped steps in a row that neither promise nor bring more than the
        fraction `flat` of the objective.  Not converged: a valley if the linear problem is worse
        conditioned than `valley_condition`, else curvature.
    largest_last_step
        Not converged while the full step would change an unknown by more than this, relative to its scale.
    rounding
        A promised reduction below this fraction of the objective cannot be seen.
    max_iterations
        Bound on the iterations.
    """

    tol: float = 1e-6
    tol_abs: float = 0.0
    residual_error: float = 0.0
    tol_exact: float = 0.0
    unresolved: float = 0.1
    most_unresolved: float = math.inf
    flat: float = 1e-6
    flat_times: int = 3
    valley_condition: float = 1e-3
    largest_last_step: float = 0.1
    rounding: float = 1e-14
    max_iterations: int = 200

    def convergence(self, decrement: float, size: float, resolution: float = 0.0) -> str:
        """Return which test of convergence is met, in words, or an empty string."""
        if decrement <= self.tol * size:
            return (
                f"the linearised model could remove only the fraction {decrement / size:.1e} of the residual"
                if size > 0
                else "the residual is zero"
            )
        open_to = self.unresolved * min(resolution, self.most_unresolved)
        for limit, words in ((open_to, "the integration error"), (self.tol_abs, "rounding")):
            if decrement <= limit:
                return f"what the linearised model could still remove ({decrement:.1e}) is below {words}"
        return ""

    def lost(self, size: float) -> float:
        """Return what rounding makes of half a sum of squares whose root is `size`: r'e for residuals wrong by e."""
        return self.residual_error * (size + self.residual_error)

    def is_feasible(self, violation: float, size: float, resolution: float = 0.0) -> bool:
        """Tell whether rows of infinite weight hold: a hundred times more exactly than the others converge."""
        return violation <= max(self.tol_exact, self.unresolved * resolution, 0.01 * self.tol * size)

    def is_flat(self, promised: float, gained: float, level: float) -> bool:
        """Tell whether a damped step was of no consequence."""
        return promised <= self.flat * level and gained <= self.flat * level

    def is_rounding(self, promised: float, level: float) -> bool:
        """Tell whether a promised reduction is too small to be seen."""
        return promised <= self.rounding * level
