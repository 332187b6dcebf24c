"""Doses: what is done to single experiments at known or unknown times."""

from __future__ import annotations

import math
from dataclasses import dataclass

from odefit.problem.values import Value, one_nan

HOWS = ("add", "set")


@dataclass(frozen=True)
class Dose(Value):
    """Something that is added to a state, or that it is set to, once or again and again.

    Attributes
    ----------
    time
        When: a number, or the text of an expression of parameters.
    target
        The state.
    amount
        How much: a number, or the text of an expression of parameters.
    how
        "add", or "set".
    duration
        Given over this time, at a constant rate: a number or an expression; NaN: at once.
    every, count
        Given `count` times, `every` so much later.

    What is given to a state may come later by a *lag*, and only a *fraction* of it may arrive: see `Problem.lag` and
    `Problem.fraction`.
    """

    time: float | str
    target: str
    amount: float | str
    how: str = "add"
    duration: float | str = math.nan
    every: float = math.nan
    count: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.duration, str):
            object.__setattr__(self, "duration", one_nan(self.duration))
        object.__setattr__(self, "every", one_nan(self.every))

    @property
    def is_infusion(self) -> bool:
        """Whether it takes time."""
        return isinstance(self.duration, str) or not math.isnan(self.duration)
