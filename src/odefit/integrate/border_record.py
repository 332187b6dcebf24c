"""The conditions on states of a task, as kernels see them; see `odefit.compile.border_functions`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odefit.compile import Switches
from odefit.native.records import Integers, Unsigned

_NO_INDICES = np.empty(0, np.int64)
PER_CROSSING = 3
"""Numbers that are noted of each border that is crossed: which one, in which piece, behind how many steps."""


class Bordering(NamedTuple):
    """What ends pieces because of states, and what happens then.

    Attributes
    ----------
    value, jacobian, second, row_ptr, col
        Addresses and pattern of the borders and of their rates, a function of ((t, y, y'), p, u).
    level, whole, border_of, kind, role
        See `odefit.compile.border_functions.BorderFunctions`.
    triggers, first_event, from_false, stops
        Address of the conditions of events, and what else belongs to these, see there.
    crossed
        What the grid was made with: how many borders were crossed, and then `PER_CROSSING` numbers of each.
    """

    value: int = 0
    jacobian: int = 0
    second: int = 0
    row_ptr: Integers = _NO_INDICES
    col: Unsigned = np.empty(0, np.uint64)
    level: Integers = _NO_INDICES
    whole: Integers = _NO_INDICES
    border_of: Integers = _NO_INDICES
    kind: Integers = _NO_INDICES
    role: Integers = _NO_INDICES
    triggers: int = 0
    first_event: int = 0
    from_false: Integers = _NO_INDICES
    stops: Integers = _NO_INDICES
    crossed: Integers = _NO_INDICES

    @classmethod
    def of(cls, switches: Switches | None, crossed: Integers, *, second: bool = False) -> Bordering:
        """Return the record of these conditions; with their second derivatives, if asked for."""
        if switches is None or switches.borders is None:
            return cls()
        found = switches.borders
        f = found.function
        return cls(
            f.value, f.jacobian, f.second if second else 0, f.row_ptr, f.col, found.level, found.whole,
            found.border_of, found.kind, found.role, found.triggers.value, found.first_event, found.from_false,
            found.stops, crossed,
        )  # fmt: skip


def room_for_crossings(switches: Switches | None, count: int = 32) -> Integers:
    """Return where `count` crossings can be noted; nowhere if there are no borders."""
    if switches is None or switches.borders is None:
        return _NO_INDICES
    return np.zeros(1 + PER_CROSSING * count, np.int64)
