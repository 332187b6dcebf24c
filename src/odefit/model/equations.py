"""What the readers of models (text, traced functions) hand over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from casadi import SX

from odefit.model.aggregates import Gathered
from odefit.model.events import StateEvent, TimeEvent
from odefit.model.implicit import Block


@dataclass(frozen=True, eq=False)
class Equations:
    """Differential equations with definitions, explicit and implicit ones, symbolic and without numbers.

    Attributes
    ----------
    time
        Name of the independent variable.
    states
        Names of the states, in the order of their equations, and behind them those that are held.
    parameters
        Names that have no equation, in order of first appearance.
    rhs
        State to scalar SX; definitions appear as symbols, they are not inlined.
    initial
        State to scalar SX of parameters and of definitions that depend on parameters only.
    definitions
        Name to scalar SX, not inlined; each can be an observable.
    symbols
        Every name (time, states, parameters, definitions, and initial values ``A(0)``) to its scalar symbol.
    tables
        Tables that are called, to the symbols that stand for them; see `odefit.model.table_calls`.
    events
        Events at a time, in the order of the text.
    state_events
        Events on a condition, likewise.
    held
        Those of the states, the last ones, that hold what events change (see `odefit.model.events`), or gather
        something: nobody wants to see them.
    gathered
        Those of the held ones that are aggregates over time, see `odefit.model.aggregates`.
    algebraic, implicit
        Those of the definitions that are algebraic unknowns, and the blocks in which these are solved for, see
        `odefit.model.implicit`.
    mass, written
        Coefficients of derivatives, by row and state, and the equations of these rows, for messages; see
        `odefit.model.mass_rows`.  Empty for explicit differential equations.
    """

    time: str
    states: tuple[str, ...]
    parameters: tuple[str, ...]
    rhs: Mapping[str, SX]
    initial: Mapping[str, SX]
    definitions: Mapping[str, SX]
    symbols: Mapping[str, SX]
    tables: Mapping[str, SX] = field(default_factory=dict)
    events: tuple[TimeEvent, ...] = ()
    state_events: tuple[StateEvent, ...] = ()
    held: tuple[str, ...] = ()
    gathered: Mapping[str, Gathered] = field(default_factory=dict)
    algebraic: tuple[str, ...] = ()
    implicit: tuple[Block, ...] = ()
    mass: Mapping[str, Mapping[str, SX]] = field(default_factory=dict)
    written: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = {row: MappingProxyType(dict(coefficients)) for row, coefficients in self.mass.items()}
        object.__setattr__(self, "mass", rows)
        for name in ("rhs", "initial", "definitions", "symbols", "tables", "gathered", "mass", "written"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
