"""Doses: what is done to single experiments at known or unknown times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from odefit.errors import ProblemError
from odefit.problem.values import Value, one_nan

HOWS = ("add", "set")


def _left_out() -> Any:
    """Let `count` be left out: it is 1, and must be given where `every` is."""
    return None


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
        Given `count` times, `every` so much later (a number); once if both are left out.

    What is given to a state may come later by a *lag*, and only a *fraction* of it may arrive: see `Problem.lag` and
    `Problem.fraction`.
    """

    time: float | str
    target: str
    amount: float | str
    how: str = "add"
    duration: float | str = math.nan
    every: float = math.nan
    count: int = _left_out()

    def __post_init__(self) -> None:
        for name in ("time", "amount", "duration"):
            object.__setattr__(self, name, self._checked(name, getattr(self, name)))
        if isinstance(self.every, str):
            raise ProblemError(f"{self.words}: 'every' is the text '{self.every}'; give a number.")
        object.__setattr__(self, "every", self._checked("every", self.every))
        if self.count is None and not math.isnan(self.every):
            raise ProblemError(f"{self.words} is given every {self.every:g}, but not how often; give 'count' too.")
        count = 1 if self.count is None else self.count
        if isinstance(count, bool) or not isinstance(count, int | np.integer):
            raise ProblemError(f"{self.words}: 'count' is {count!r}; give a whole number.")
        object.__setattr__(self, "count", int(count))

    def _checked(self, name: str, value: Any) -> float | str:
        """Return text as it is, and a number as a float."""
        if isinstance(value, str):
            return value
        if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
            raise ProblemError(
                f"{self.words}: '{name}' is {value!r}; give a number or the text of an expression of parameters."
            )
        return one_nan(float(value))

    @property
    def words(self) -> str:
        """What messages call it."""
        time = self.time if isinstance(self.time, str) else f"{self.time:.10g}" if _is_number(self.time) else "?"
        return f"the dose of '{self.target}' at {time}"

    @property
    def is_infusion(self) -> bool:
        """Whether it takes time."""
        return isinstance(self.duration, str) or not math.isnan(self.duration)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating)
