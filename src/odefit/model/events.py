"""Events: what a model's statements ``at t=t1: x += 5, k = 0`` and ``when x > a: x = b`` say.

At an event some states jump.  Everything that an event can change is a state: a parameter or definition
that an event sets is *held* by a state of its own, whose derivative is zero and which the equations use in its place
(`Model.held`).  So jumps of states are all that integrators know of events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from casadi import SX

_HELD, _SET, _RATE = " (held)", " (is set)", "rate into "


@dataclass(frozen=True, eq=False)
class TimeEvent:
    """An event of a model.

    Attributes
    ----------
    time
        When: scalar SX of parameters, and of definitions that depend on parameters only.
    changes
        States to their values behind the event: scalar SX in the symbols of the model, which mean the values before it.
    text
        The statement as it was written, for messages.
    first
        Whether it comes before all else that happens at its time.
    """

    time: SX
    changes: Mapping[str, SX]
    text: str
    first: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "changes", MappingProxyType(dict(self.changes)))


@dataclass(frozen=True, eq=False)
class StateEvent:
    """An event that happens when its condition becomes true.

    Attributes
    ----------
    condition
        Scalar SX in the symbols of the model, zero where it is false.
    changes, text
        See `TimeEvent`.
    stop
        Why it ends the experiment; None: it does not.
    initially
        None: the condition counts as before the start what it is there; False: as false.
    """

    condition: SX
    changes: Mapping[str, SX]
    text: str
    stop: str | None = None
    initially: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "changes", MappingProxyType(dict(self.changes)))


def held_name(name: str) -> str:
    """Return the state that holds the parameter or definition `name`; nobody can write such a name in a text."""
    return f"{name}{_HELD}"


def flag_name(name: str) -> str:
    """Return the state that tells whether an event has set the definition `name`."""
    return f"{name}{_SET}"


def rate_name(target: str) -> str:
    """Return the name of the held state that is the rate at which something is given to the state `target`."""
    return f"{_RATE}{target}"


def name_of_held(state: str) -> str:
    """Return what a held state belongs to, as the text calls it."""
    return state.removesuffix(_HELD).removesuffix(_SET).removeprefix(_RATE)
