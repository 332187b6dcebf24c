"""The trust region: how far the linearisation is believed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrustRegion:
    """Radius control by the ratio of real to predicted reduction.

    Attributes
    ----------
    initial
        First radius in scaled unknowns: 1 means a change by 100 % (by a factor e on a log scale).
    accept
        Smallest ratio at which a step is taken.
    poor, good
        Below `poor` the radius becomes half the step, above `good` at least twice the step.
    attempts
        Most trial steps per iteration.
    """

    initial: float = 1.0
    accept: float = 0.1
    poor: float = 0.25
    good: float = 0.75
    attempts: int = 40

    def after_success(self, radius: float, length: float, ratio: float) -> float:
        """Return the radius after a step of this `length` was taken."""
        if ratio < self.poor:
            return 0.5 * length
        return max(radius, 2.0 * length) if ratio > self.good else radius

    def after_rejection(self, length: float) -> float:
        """Return the radius after a step was no good."""
        return 0.5 * length

    def after_failure(self, length: float) -> float:
        """Return the radius after the objective could not be computed."""
        return 0.25 * length
