"""One of the fits that a strategy is made of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odefit.strategy.result_content import with_none_for_missing


@dataclass(frozen=True)
class Attempt:
    """One of the fits that a strategy is made of.

    Attributes
    ----------
    method, status, objective, iterations
        What it was, and how it ended.
    horizon, share, n_data
        Time up to which data were used, the part of all integration lengths that this is, and their number.
    relaxations
        How often bounds from an earlier horizon had to be moved.
    estimates
        Natural values of the free parameters afterwards.
    """

    method: str
    status: str
    objective: float
    iterations: int
    horizon: float = math.nan
    share: float = 1.0
    n_data: int = 0
    relaxations: int = 0
    estimates: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain types; what a method does not have is left out."""
        result: dict[str, Any] = {
            "method": self.method,
            "status": self.status,
            "objective": self.objective,
        }
        if self.estimates and not math.isfinite(self.horizon):
            result |= {"iterations": self.iterations, "estimates": dict(self.estimates)}
        if math.isfinite(self.horizon):
            result |= {
                "horizon": self.horizon,
                "n_data": self.n_data,
                "share": self.share,
                "iterations": self.iterations,
                "relaxations": self.relaxations,
                "estimates": dict(self.estimates),
            }
        return with_none_for_missing(result)
