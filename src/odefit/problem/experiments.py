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
        Where it begins.  That of a later period may be the text of an expression of parameters.  -inf: the time before
        the experiment, which then begins with the steady state of these conditions.
    overrides
        What the experiment replaces: a parameter's or definition's name, or an initial value written
        ``"A(0)"``, to a number or the text of an expression.  What the first period replaces holds all the time, the
        time before included; what any other one does holds in it alone.  In a later one ``"A(0)"`` is the value with
        which the state goes on.
    steady_state
        Whether it lasts until nothing changes any more: true of the time before an experiment, and of no other.
    """

    start: float | str = 0.0
    overrides: Mapping[str, float | str] = field(default_factory=dict)
    steady_state: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "overrides", FrozenMapping(self.overrides))
        if self.start == -math.inf:
            object.__setattr__(self, "steady_state", True)
        elif self.steady_state:
            raise UnsupportedError(
                f"a period that begins at {self.start} and lasts until nothing changes; one that begins at -inf is the "
                "time before an experiment that starts from a steady state"
            )
        elif not isinstance(self.start, str) and not math.isfinite(self.start):
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
        At least one, in order of time; see `odefit.problem.periods`.  One that begins at -inf, and comes first, is the
        time before the experiment: see `odefit.problem.equilibration`.
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
        if self.first.steady_state:
            raise ProblemError(
                f"experiment '{self.name}' has nothing but a time before its start; give the period with which it "
                "begins, Period(0.0) say."
            )
        if any(period.steady_state for period in self.later):
            raise ProblemError(f"experiment '{self.name}': a period that begins at -inf comes before all others.")
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
    def before(self) -> Mapping[str, float | str] | None:
        """What is replaced in the time before it; None if it begins with the initial state of the model."""
        first, *_ = self.periods
        return first.overrides if first.steady_state else None

    @property
    def shown(self) -> tuple[Period, ...]:
        """All periods but the time before it."""
        first, *others = self.periods
        return tuple(others) if first.steady_state and others else self.periods

    @property
    def first(self) -> Period:
        """The period with which it begins."""
        first, *_ = self.shown
        return first

    @property
    def later(self) -> tuple[Period, ...]:
        """The periods behind the first one."""
        _, *later = self.shown
        return tuple(later)

    @property
    def start(self) -> float:
        """Time at which the experiment begins: that of its first period."""
        return float(self.first.start)

    @property
    def overrides(self) -> Mapping[str, float | str]:
        """What the experiment replaces from its beginning on; `later` periods may replace it, and more."""
        return self.first.overrides
