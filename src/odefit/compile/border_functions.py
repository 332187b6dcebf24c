"""Borders and conditions of events as functions: where states make the right-hand side change, and what happens there.

See `odefit.compile.switches` for borders g(t, y, p, u) and their inputs.  The condition of an event is, once its
comparisons are inputs, a function of these and of parameters: it can change only where a piece ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.compile.differentiation import directional
from odefit.compile.functions import FunctionLibrary, NativeFunction, SymbolicFunction
from odefit.compile.switches import Split
from odefit.compile.table_inputs import PlacedBlock
from odefit.model.events import StateEvent
from odefit.model.table_calls import with_calls_replaced
from odefit.problem.resolution import names_in

EQUATIONS, BOTH, EVENTS = range(3)
"""What depends on a border.  Where only conditions of events do, nothing happens unless one becomes true."""
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class BorderFunctions:
    """The native code of borders and of the conditions of events.

    Attributes
    ----------
    function
        The g, and behind them their derivatives along the solution; a function of ((t, y, y'), p, u).
    level, whole, border_of, kind
        See `odefit.compile.switches.Borders`.
    role
        Per border: `EQUATIONS`, `BOTH` or `EVENTS`: what depends on it.
    words
        Per border: the condition as text.
    triggers
        The conditions of events, a function of (p, u).
    first_event
        The kind of event, see `odefit.compile.events`, of the first of them; the others follow.
    from_false, stops
        Per event: whether its condition counts as false before the start, and whether it ends the experiment.
    texts, reasons
        Per event: the statement, and why it stops.
    """

    function: NativeFunction
    level: Integers
    whole: Integers
    border_of: Integers
    kind: Integers
    role: Integers
    words: tuple[str, ...]
    triggers: NativeFunction
    first_event: int
    from_false: Integers
    stops: Integers
    texts: tuple[str, ...]
    reasons: tuple[str, ...]


def border_functions(
    borders: Any, triggers: Any, time: Any, y: Any, p: Any, u: Any, blocks: tuple[PlacedBlock, ...]
) -> tuple[SymbolicFunction, SymbolicFunction]:
    """Return both functions; "y" is (t, y, y') for both, though conditions of events use none of it.

    Their comparisons are inputs.  What was compared is still written beside them, but never decides: there tables and
    algebraic unknowns need not be looked up.
    """
    nothing, rates = ca.SX.sym("nothing"), ca.SX.sym("rate", y.numel())
    along = borders
    if borders.numel():
        along = directional(borders, ca.vertcat(time, y), ca.vertcat(ca.SX(1), rates), u, blocks)
    triggers = with_calls_replaced(triggers, lambda *_: ca.SX(0))
    states = (("y", ca.vertcat(time, y, rates)), ("p", p), ("u", u))
    return (
        SymbolicFunction("borders", nothing, states, ("y", "p"), ca.vertcat(borders, along), blocks=blocks),
        SymbolicFunction("triggers", nothing, states, ("y", "p"), triggers, differentiated=False),
    )


def native_borders(
    library: FunctionLibrary, split: Split, n: int, events: tuple[StateEvent, ...], n_kinds: int
) -> BorderFunctions:
    """Return the code of the borders of `n` states; the events are the last ones of `n_kinds` kinds."""
    borders = split.borders
    behind = n + len(events)  # there are the coefficients of derivatives
    in_equations = names_in(split.out[:n]) | names_in(split.out[behind:]) | names_in(borders.functions)
    in_triggers = names_in(split.out[n:behind])
    role = [EQUATIONS] * len(borders.level)
    for border in range(len(borders.level)):
        names = {borders.inputs[u].name() for u, of in enumerate(borders.border_of) if of == border}
        if names & in_triggers:
            role[border] = BOTH if names & in_equations else EVENTS

    def integers(values: Any) -> Integers:
        return np.array(values, dtype=np.int64)

    return BorderFunctions(
        library["borders"],
        integers(borders.level),
        integers(borders.whole),
        integers(borders.border_of),
        integers(borders.kind),
        integers(role),
        borders.words,
        library["triggers"],
        n_kinds - len(events),
        integers([event.initially is False for event in events]),
        integers([event.stop is not None for event in events]),
        tuple(event.text for event in events),
        tuple(event.stop or "" for event in events),
    )
