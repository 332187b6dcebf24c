"""Experiments: under which conditions the model was run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from odefit.errors import ProblemError, UnsupportedError
from odefit.problem.events import Dose
from odefit.problem.tables import Table
from odefit.problem.values import FrozenMapping, Value, one_nan

USES = ("fit", "validate", "predict")


@dataclass(frozen=True)
class Period(Value):
    """A stretch of time with constant conditions.

    Attributes
    ----------
    start
        Where it begins; -inf means pre-equilibration.  That of a later period may be the text of an expression of
        parameters.
    overrides
        What the experiment replaces: a parameter's or definition's name, or an initial value written
        ``"A(0)"``, to a number or the text of an expression.  What the first period replaces holds all the time, what a
        later one does in it alone, where ``"A(0)"`` is the value with which the state goes on.
    steady_state
        Begin from the steady state of these conditions.
    """

    start: float | str = 0.0
    overrides: Mapping[str, float | str] = field(default_factory=dict)
    steady_state: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "overrides", FrozenMapping(self.overrides))
        if self.steady_state or self.start == -math.inf:
            raise UnsupportedError("an experiment that starts from a steady state")
        if not isinstance(self.start, str) and not math.isfinite(self.start):
            raise ProblemError(f"an experiment starts at {self.start}; give a finite time.")
        for name, value in self.overrides.items():
            if not isinstance(value, str) and not math.isfinite(value):
                raise ProblemError(f"an experiment sets '{name}' to {value}; give a finite number.")


@dataclass(frozen=True)
class Experiment(Value):
    """One run of the model: periods in order of time, and what its data are for.

    Attributes
    ----------
    periods
        At least one, in order of time; see `odefit.problem.periods`.
    tables
        Tables that replace those of the problem: name to `Table`, or to a number for one that is constant.
    events
        Doses, in any order; those at one time act in this order, behind the events of the equations.
    until
        Simulate at least to this time (NaN: to the last datum).
    use
        "fit": its data are fitted; "validate": scored only; "predict": it has none.
    """

    name: str
    periods: tuple[Period, ...] = (Period(),)
    tables: Mapping[str, Table] = field(default_factory=dict)
    events: tuple[Dose, ...] = ()
    until: float = math.nan
    use: str = "fit"

    def __post_init__(self) -> None:
        for name in ("periods", "events"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        tables = {name: t if isinstance(t, Table) else Table.constant(t) for name, t in self.tables.items()}
        object.__setattr__(self, "tables", FrozenMapping(tables))
        object.__setattr__(self, "until", one_nan(self.until))
        if not self.periods:
            raise ProblemError(f"experiment '{self.name}' has no period; give at least Period(start).")
        if isinstance(self.first.start, str):
            raise ProblemError(
                f"experiment '{self.name}' starts at '{self.first.start}'; the start of an experiment is a number "
                "(that of a later period may be an expression)."
            )
        for event in self.events:
            if not isinstance(event, Dose):
                raise ProblemError(f"experiment '{self.name}' has the event {event!r}; give odefit.Dose objects.")
        if math.isinf(self.until):
            raise ProblemError(f"experiment '{self.name}' has until = {self.until}; give a finite time.")
        if self.use not in USES:
            raise ProblemError(f"experiment '{self.name}' has use = '{self.use}'; the uses are {', '.join(USES)}.")

    @property
    def first(self) -> Period:
        """The period with which it begins."""
        first, *_ = self.periods
        return first

    @property
    def later(self) -> tuple[Period, ...]:
        """The other periods."""
        _, *later = self.periods
        return tuple(later)

    @property
    def start(self) -> float:
        """Time at which the experiment begins: that of its first period."""
        return float(self.first.start)

    @property
    def overrides(self) -> Mapping[str, float | str]:
        """What the experiment replaces from its beginning on; `later` periods may replace it, and more."""
        return self.first.overrides
