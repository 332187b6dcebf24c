"""When to renew the step grids on which the objective is computed.

Between renewals the objective is one smooth function; after one it is another.  A renewal costs an
adaptive integration, and values on both sides of it must not be compared.  Policies are numbers; the
grids themselves belong to the transcription.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class Decision(Enum):
    """What to do about a trial point."""

    KEEP = "judge it on the present grids"
    SHORTEN = "give it up and try a shorter step"
    REFRESH = "adapt the grids to it and judge both points on the new ones"


class FreezePolicy(Protocol):
    """Looks at integration errors relative to tolerance and decides."""

    def decide(self, new_ratio: float, old_ratio: float, refreshes: int) -> Decision:
        """Judge a trial point with error ratio `new_ratio`, coming from a point with `old_ratio`.

        `refreshes` counts the renewals since the last step that was taken.  A renewal that leads to a step is progress,
        and iterations are limited anyway; those that lead nowhere are what must come to an end.
        """
        ...

    def is_trustworthy(self, ratio: float) -> bool:
        """Tell whether a result with this error ratio may be reported."""
        ...


@dataclass(frozen=True)
class OmegaTolerance:
    """Edsberg and Wedin, 3.1: keep the steps while the error stays below omega times the tolerance.

    To guarantee convergence the steps may be changed a limited number of times only: `most` times in vain, without a
    step being taken.  (Counted over the whole fit, the limit ends fits whose solution has a front that moves with the
    parameters: every step of theirs needs new grids.)
    """

    omega: float = 10.0
    most: int = 60

    def decide(self, new_ratio: float, old_ratio: float, refreshes: int) -> Decision:
        """See `FreezePolicy`."""
        if new_ratio <= self.omega:
            return Decision.KEEP
        return Decision.REFRESH if refreshes < self.most else Decision.SHORTEN

    def is_trustworthy(self, ratio: float) -> bool:
        """Within the tolerance: what an adaptive integration would deliver."""
        return ratio <= 1.0


@dataclass(frozen=True)
class ErrorGrowth:
    """The rules of Nowak et al.

    (14): a step that makes the error grow by more than `sigma2` over that of the last point is shortened (an
    error within the tolerance is no growth, whatever it was before).  (13): where the error exceeds `sigma1`
    times the tolerance otherwise, the grids are renewed.
    """

    sigma1: float = 10.0
    sigma2: float = 10.0
    most: int = 60

    def decide(self, new_ratio: float, old_ratio: float, refreshes: int) -> Decision:
        """See `FreezePolicy`."""
        if not new_ratio <= max(1.0, self.sigma2 * old_ratio):
            return Decision.SHORTEN
        if new_ratio <= self.sigma1:
            return Decision.KEEP
        return Decision.REFRESH if refreshes < self.most else Decision.SHORTEN

    def is_trustworthy(self, ratio: float) -> bool:
        """Within the tolerance: what an adaptive integration would deliver."""
        return ratio <= 1.0


@dataclass(frozen=True)
class Readapt:
    """No frozen grids: every evaluation of the objective adapts its own, as most programs do.

    For comparison.  The objective is not smooth then, and values on different grids are compared.
    """

    def decide(self, new_ratio: float, old_ratio: float, refreshes: int) -> Decision:
        """See `FreezePolicy`."""
        return Decision.KEEP if math.isfinite(new_ratio) else Decision.SHORTEN

    def is_trustworthy(self, ratio: float) -> bool:
        """Every evaluation was adaptive."""
        return True


POLICIES: dict[str, FreezePolicy] = {"omega": OmegaTolerance(), "growth": ErrorGrowth(), "readapt": Readapt()}
"""Freeze policies by the names that problem files use."""
