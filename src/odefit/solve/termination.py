"""When to stop, and what that means.

The *decrement* ||S d|| of the full (undamped) Gauss-Newton step d is the norm of the part of the
residual that the linearised model could still remove.  A point with a small one solves a problem
whose data are perturbed by that much (Edsberg and Wedin, 3.2.7).  It is judged relative to the
residual, and absolutely against what the integration resolves: with exact data the relative test
alone would never fire.  A small *damped* step is no sign of convergence.
"""

from __future__ import annotations

from dataclasses import dataclass

CONVERGED = "converged"
FLAT = "flat-valley"
STALLED = "stalled"
LIMIT = "iteration-limit"
NO_INFLUENCE = "no-influence"
INTERRUPTED = "interrupted"
FAILED = "failed"


@dataclass(frozen=True)
class Termination:
    """Tests of convergence.

    Attributes
    ----------
    tol
        Relative: decrement <= tol ||r||.
    tol_abs
        Absolute: decrement <= tol_abs.
    flat, flat_times
        A valley: this many damped steps in a row that neither promise nor bring more than the
        fraction `flat` of the objective.  Not converged.
    rounding
        A promised reduction below this fraction of the objective cannot be seen.
    max_iterations
        Bound on the iterations.
    """

    tol: float = 1e-6
    tol_abs: float = 0.0
    flat: float = 1e-6
    flat_times: int = 3
    rounding: float = 1e-14
    max_iterations: int = 200

    def convergence(self, decrement: float, residual_norm: float) -> str:
        """Return which test of convergence is met, in words, or an empty string."""
        if decrement <= self.tol * residual_norm:
            return (
                f"the linearised model could remove only the fraction {decrement / residual_norm:.1e} of the residual"
                if residual_norm > 0
                else "the residual is zero"
            )
        if decrement <= self.tol_abs:
            return f"what the linearised model could still remove ({decrement:.1e}) is below the integration error"
        return ""

    def is_flat(self, promised: float, gained: float, value: float) -> bool:
        """Tell whether a damped step was of no consequence."""
        return promised <= self.flat * value and gained <= self.flat * value

    def is_rounding(self, promised: float, value: float) -> bool:
        """Tell whether a promised reduction is too small to be seen."""
        return promised <= self.rounding * value
