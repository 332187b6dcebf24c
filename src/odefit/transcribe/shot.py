"""What is known of integrations and residuals, of one experiment or of several."""

from __future__ import annotations

import math
from typing import NamedTuple


class Shot(NamedTuple):
    """How experiments were integrated, and what their residuals are.

    Attributes
    ----------
    failed, status, t_end, cause
        Which observed experiment failed (-1: none), with which `odefit.integrate.Status`, when, and the state to blame.
    error_ratio
        Largest local integration error over tolerance.
    half_square, penalty, bad
        Half the sum of squares of measurements, and of priors; a row with a derivative that is not finite (-1: none).
    resolution
        Norm of what the integration does not resolve of the data; known at order 1.
    """

    failed: int
    status: int
    t_end: float
    cause: int
    error_ratio: float
    half_square: float = math.nan
    penalty: float = 0.0
    bad: int = -1
    resolution: float = 0.0

    def and_also(self, other: Shot) -> Shot:
        """Return what is known of both together; the first failure counts."""
        if self.failed >= 0 or other.failed >= 0:
            return self if self.failed >= 0 else other
        ratio, half_square = max(self.error_ratio, other.error_ratio), self.half_square + other.half_square
        penalty = self.penalty + other.penalty
        resolution = math.hypot(self.resolution, other.resolution)
        return Shot(-1, 0, math.nan, -1, ratio, half_square, penalty, max(self.bad, other.bad), resolution)
