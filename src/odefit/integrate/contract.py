"""What an integrator is given and what it returns; the whole contract, stated once.

These records are named tuples: a fit makes some of them at every evaluation, and a solution may take
no longer than ten microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from odefit.compile import NO_OCCURRENCES, CompiledModel, ExperimentTables, Occurrences, Seeds
from odefit.native.stop import StopFlag

if TYPE_CHECKING:
    from odefit.integrate.selection import Candidate
    from odefit.integrate.single_method import SingleMethod

Array = npt.NDArray[np.float64]
_NO_INPUTS = np.empty(0)
Tolerance = float | str | Mapping[str, float] | Array | None
"""Absolute tolerances as they are asked for; see `odefit.integrate.sizes.aims_of`."""


class Status(IntEnum):
    """How an integration ended.  The numbers are what kernels return."""

    OK = 0
    NONFINITE_START = 1
    NONFINITE = 2
    STEP_UNDERFLOW = 3
    TOO_MANY_STEPS = 4
    STOPPED = 5
    NONFINITE_DERIVATIVE = 6
    NOT_SOLVED = 7
    STIFF = 8
    REORDER = 9
    SWITCHED = 10
    ROOM_FOR_PIECES = 11
    TOO_MANY_PIECES = 12
    UNDEFINED_CONDITION = 13
    OUTSIDE_TABLE = 14
    EVENT_TOO_EARLY = 15
    UNDEFINED_EVENT = 16
    NONFINITE_EVENT = 17
    ROOM_FOR_CROSSINGS = 18
    TOO_MANY_CROSSINGS = 19
    UNDEFINED_BORDER = 20
    CHATTERING = 21
    ZENO = 22
    GRAZING = 23
    CASCADE = 24
    ENDED = 25
    NOT_AT_REST = 26
    GROWS = 27
    UNSTABLE = 28
    DEGENERATE = 29
    INCONSISTENT = 30
    UNDETERMINED = 31

    @property
    def sentence(self) -> str:
        """What happened and what to do, with ``{t}`` and ``{cause}`` to be filled in."""
        return _SENTENCES[self]


_SENTENCES = {
    Status.OK: "the integration succeeded",
    Status.NONFINITE_START: (
        "the derivative of '{cause}' is not a finite number at the start, t = {t}; "
        "check the start values and the initial state"
    ),
    Status.NONFINITE: (
        "the solution could not be continued beyond t = {t}: the equation of '{cause}' gave a value that is not "
        "a finite number however small the step"
    ),
    Status.STEP_UNDERFLOW: (
        "the solution could not be continued beyond t = {t}: '{cause}' changes so fast that the step size fell "
        "below rounding (a pole or a jump?)"
    ),
    Status.TOO_MANY_STEPS: (
        "the limit on the number of steps was reached at t = {t}, where '{cause}' forces small steps; "
        "raise max_steps, or the model may be stiff"
    ),
    Status.STOPPED: "the integration was stopped at t = {t}",
    Status.NONFINITE_DERIVATIVE: (
        "a derivative of '{cause}' with respect to a parameter is not a finite number at t = {t}; "
        "look for sqrt, log or a power at the edge of their domain"
    ),
    Status.NOT_SOLVED: (
        "the equations of the step behind t = {t} could not be solved for '{cause}': step sizes that were chosen for "
        "other parameters do not fit"
    ),
    Status.STIFF: "the model was recognised as stiff at t = {t}",
    Status.REORDER: "the equations of the step behind t = {t} need another order of elimination",
    Status.SWITCHED: (
        "conditions in time change in another order behind t = {t}, or another number of times, than where the steps "
        "were chosen; choose steps anew"
    ),
    Status.ROOM_FOR_PIECES: "conditions in time change more often behind t = {t} than there was room for",
    Status.TOO_MANY_PIECES: (
        "conditions in time (or floor, ceil of it) change more than 100 000 times behind t = {t}; write the equations "
        "without them"
    ),
    Status.UNDEFINED_CONDITION: (
        "a condition in time compares something that is not a number somewhere behind t = {t} (a root or logarithm of "
        "a negative number?); write it so that it has a value at all times of the experiment"
    ),
    Status.OUTSIDE_TABLE: "the solution could not be continued beyond t = {t}: {cause}",
    Status.EVENT_TOO_EARLY: (
        "an event happens before the start, t = {t} (a time or lag that has become too small?); give its parameters "
        "a lower bound"
    ),
    Status.UNDEFINED_EVENT: (
        "the time of an event behind t = {t} is not a number (a duration that is not positive, a period that begins "
        "before the one before it, a root or logarithm of a negative number?); write it so that it has a value for all "
        "parameters within their bounds"
    ),
    Status.NONFINITE_EVENT: "the event at t = {t} gives '{cause}' a value that is not a finite number",
    Status.ROOM_FOR_CROSSINGS: "conditions on states change more often up to t = {t} than there was room for",
    Status.TOO_MANY_CROSSINGS: (
        "conditions on states have changed 100 000 times up to t = {t}, the last one '{cause}'; write the model "
        "without so many events, or end the experiment earlier"
    ),
    Status.UNDEFINED_BORDER: (
        "the condition '{cause}' compares something that is not a number at t = {t} (a root or logarithm of a negative "
        "number?); write it so that it has a value for all states"
    ),
    Status.CHATTERING: (
        "the condition '{cause}' changes to and fro without end at t = {t}: on both sides the equations lead back to "
        "the border; write the motion along it as equations of its own, or give the condition two thresholds"
    ),
    Status.ZENO: (
        "events follow each other without end at t = {t}, the time between them shrinking to nothing (the last one: "
        "'{cause}'); let them cease below some size, or end the experiment with stop"
    ),
    Status.GRAZING: (
        "the border of '{cause}' is touched at t = {t}, not crossed: there the time of the event has no derivative"
    ),
    Status.CASCADE: "events set off each other without end at t = {t}, the last one '{cause}'",
    Status.ENDED: "the event '{cause}' ends the experiment at t = {t}; nothing can be computed behind that time",
    Status.NOT_AT_REST: (
        "the solution comes to no steady state: '{cause}' still changes after a time of {t} (an oscillation, or "
        "something very slow?)"
    ),
    Status.GROWS: (
        "the solution comes to no steady state: '{cause}' grows without bound, and still does after a time of {t} "
        "(is there nothing that removes it?)"
    ),
    Status.UNSTABLE: (
        "after a time of {t} the solution rests at a steady state that is not stable, which the least disturbance "
        "would make it leave; give another initial state"
    ),
    Status.DEGENERATE: (
        "the steady state that the solution is close to after a time of {t} is degenerate: one of a continuum, so that "
        "it depends on the whole way there and not on conserved totals alone, or one that the solution comes to ever "
        "more slowly; take a late time instead"
    ),
    Status.INCONSISTENT: (
        "no values were found at t = {t} that satisfy the equations without derivatives; the one that could not be "
        "met is {cause}; give initial values closer to a solution, or look whether it has one"
    ),
    Status.UNDETERMINED: (
        "the equations do not determine all unknowns at t = {t}: their matrix is singular there, whatever the step (an "
        "index higher than 1, the end of a branch of solutions, or a guess at which a derivative vanishes?); look at "
        "{cause}"
    ),
}
_AT_START_OF_EQUATIONS = (
    "at the start, t = {t}, this equation gives a value that is not a finite number, or has an unknown that is none: "
    "{cause}; check the start values, the initial state and guesses"
)
_OF_BRANCH = "(a pole or a jump, or the end of a branch of solutions of {equation}?)"
_OF_BORDERS = frozenset(
    {Status.TOO_MANY_CROSSINGS, Status.UNDEFINED_BORDER, Status.CHATTERING, Status.ZENO, Status.GRAZING}
)
_OF_EQUATIONS = frozenset({Status.INCONSISTENT, Status.UNDETERMINED})
_OF_EVENTS = frozenset({Status.CASCADE, Status.ENDED})


class Run(NamedTuple):
    """One initial value problem with the directions in which it is differentiated.

    Attributes
    ----------
    t0, y0, p, u
        Start time, initial state (n,), parameters (n_p,), inputs.
    times
        Where the solution is wanted: sorted, distinct, none before `t0`; shape (m,).
    ends
        Ends of the pieces, sorted, the last one ``times[-1]``: no step crosses one, integration
        restarts there.  Empty if nothing lies behind `t0`.  (`piece_ends` makes it.)
    dy0, dp
        First-order seeds (n, q) and (n_p, q): derivatives of y0 and p in q directions.
    d2y0, d2p
        Second-order seeds (n, q (q + 1)/2) and (n_p, q (q + 1)/2), pairs a <= b of directions.
    kinks
        Times at which a step ends, while integration goes on: the right-hand side is continuous there, but not smooth.
    slots
        Number of tables whose slots stand in u.
    after
        Per output time whether the state behind an event at that time is wanted, and not that before it.  Empty: never.
    occurrences
        What happens in the run; see `odefit.compile.events`.
    since, remember, n_slots
        Intervals of aggregates, see `odefit.integrate.gathering.Gathering`; empty where nothing is wanted of them.
    """

    t0: float
    y0: Array
    p: Array
    u: Array
    times: Array
    ends: Array
    dy0: Array
    dp: Array
    d2y0: Array
    d2p: Array
    kinks: Array = np.empty(0)
    slots: int = 0
    after: npt.NDArray[np.int64] = np.empty(0, np.int64)
    occurrences: Occurrences = NO_OCCURRENCES
    since: npt.NDArray[np.int64] = np.empty(0, np.int64)
    remember: npt.NDArray[np.int64] = np.empty(0, np.int64)
    n_slots: int = 0

    @classmethod
    def of(cls, seeds: Seeds, t0: float, times: Array, ends: Array | None = None) -> Run:
        """Make the run of an experiment with these seeds from `t0`; without `ends` it is one piece."""
        if ends is None:
            ends = piece_ends(t0, times)
        p, y0, dp, dy0, d2p, d2y0 = seeds
        return cls(t0, y0, p, _NO_INPUTS, times, ends, dy0, dp, d2y0, d2p)

    def with_tables(self, tables: ExperimentTables, u: Array) -> Run:
        """Return the run with the tables of its experiment, whose slots stand in `u`."""
        return self._replace(u=u, kinks=tables.kinks, slots=tables.n_slots)


def piece_ends(t0: float, times: Array, stops: Array | None = None, *, entered: bool = False) -> Array:
    """Return the ends of the pieces of a run to ``times[-1]`` that restarts at `stops`, which are sorted.

    With nothing behind `t0` there is none, or one of no length if a piece must be `entered`: something happens at the
    start, or a consistent state needs the conditions and tables that hold there.
    """
    if not times.size or times[-1] <= t0:
        return np.array([t0]) if entered and times.size else np.empty(0)
    end = times[-1:]
    if stops is None or not stops.size:
        return end.copy()
    return np.concatenate([stops[(stops > t0) & (stops < end[0])], end])


class StepGrid(NamedTuple):
    """The steps of a solution; replaying them gives the same discrete map again.

    Attributes
    ----------
    method
        The integrator that made it; another one refuses it.
    steps
        Step sizes h of all pieces, one after the other; fractions of the piece where its ends depend on parameters.
    counts
        Behind the numbers of `Counters` (what making it cost): how many steps each piece has.  A
        piece ends at a stop or at the end.
    orders
        Methods of variable order: the order of each step in the lowest three bits; higher ones are the method's own.
    algebra
        Implicit methods: the linear algebra that served where steps were chosen, so that a replay need not find it; the
        method's own.
    passed
        Models with conditions in time: the number of pieces, and which condition changes at the end of each.
    atol
        Absolute tolerance of each state, by which the error of a replay is measured; empty: those that are asked for.
    crossed
        Models with conditions on states: how many of their borders were crossed, and of each its number, its piece, and
        how many steps were taken up to it.
    """

    method: str
    steps: Array
    counts: npt.NDArray[np.int64]
    orders: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
    algebra: Any = None
    passed: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
    atol: Array = np.empty(0)
    crossed: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)

    @classmethod
    def from_pieces(cls, method: str, pieces: Sequence[Array], orders: Sequence[int] = ()) -> StepGrid:
        """Make a grid from the step sizes of each piece, and the orders of all steps where a method needs them."""
        counts = [0] * len(Counters._fields) + [len(h) for h in pieces]
        steps = np.concatenate([np.asarray(h, dtype=float) for h in pieces]) if pieces else np.empty(0)
        return cls(method, steps, np.array(counts, dtype=np.int64), np.array(orders, dtype=np.int64))

    @property
    def pieces(self) -> tuple[Array, ...]:
        """The step sizes, piece by piece."""
        return tuple(np.split(self.steps, np.cumsum(self.counts[len(Counters._fields) :])[:-1]))


class Counters(NamedTuple):
    """What an integration cost."""

    steps: int
    rejected: int
    rhs: int
    jacobian: int
    second: int


class Trajectory(NamedTuple):
    """The solution at the times asked for.

    Attributes
    ----------
    status, t_end, cause
        How it ended, where, and which state was to blame (-1: none).
    y, S, S2
        States (m, n), sensitivities (m, n, q), second-order ones (m, n, q (q + 1)/2).  Times that were not
        reached hold NaN, never zero.
    grid
        The steps taken (of a failed integration: up to the failure); of a replay the same again, with the linear
        algebra that served this time.
    error_ratio
        Largest estimated local error over the tolerance, over all steps: at most 1 where the steps
        were chosen, anything where they were replayed.
    derivatives
        "discrete": S is the derivative of y as computed on this grid, to rounding; "variational": it
        solves the variational equations to tolerance.
    counts
        The numbers of `counters`, then the steps of each piece.
    refusal
        With the status OUTSIDE_TABLE: which table was asked for what, or which equation has no solution, in words.
    """

    status: Status
    t_end: float
    cause: int
    y: Array
    S: Array
    S2: Array
    grid: StepGrid
    error_ratio: float
    derivatives: str
    counts: npt.NDArray[np.int64]
    refusal: str = ""

    @property
    def counters(self) -> Counters:
        """What it cost."""
        return Counters(*self.counts[: len(Counters._fields)].tolist())

    def sentence(self, model: CompiledModel) -> str:
        """Say in words how the integration ended."""
        return ending(self.status, self.t_end, self.cause, model, self.refusal)


def ending(status: Status, t_end: float, cause: int, model: CompiledModel, refusal: str = "") -> str:
    """Say in words how an integration ended; `cause` is the state to blame (-1: none), `refusal` what a table said."""
    name = model.states[cause] if 0 <= cause < len(model.states) else "the model"
    borders = None if model.switches is None else model.switches.borders
    if borders is not None and status in _OF_BORDERS:
        name = borders.words[cause]
    elif borders is not None and status in _OF_EVENTS:
        name = borders.texts[cause]
    if status is Status.OUTSIDE_TABLE:
        name = refusal or "a table was asked for a value that it does not have"
    sentence = status.sentence
    if 0 <= cause < len(model.written):
        equation = model.written[cause]
        if status in _OF_EQUATIONS:
            name = equation
        elif status is Status.NONFINITE_START:
            sentence, name = _AT_START_OF_EQUATIONS, equation
        elif status is Status.STEP_UNDERFLOW and model.algebraic[cause]:
            sentence = sentence.replace("(a pole or a jump?)", _OF_BRANCH.format(equation=equation))
    return sentence.format(t=f"{t_end:.6g}", cause=name)


class Integrator(Protocol):
    """A method for initial value problems, or a choice of some.  Instances hold no state; threads may share them."""

    @property
    def name(self) -> str:
        """What problem files call it."""
        ...

    def candidates(self, rtol: float) -> tuple[Candidate, ...]:
        """Return who may integrate at this tolerance, in the order in which they are tried."""
        ...

    def maker(self, method: str) -> SingleMethod:
        """Return who made a step grid of this method; another one refuses it."""
        ...

    def solve(
        self,
        model: CompiledModel,
        run: Run,
        *,
        grid: StepGrid | None = None,
        rtol: float,
        atol: Tolerance = "auto",
        order: int = 0,
        max_step: float = np.inf,
        max_steps: int = 100_000,
        stop: StopFlag | None = None,
    ) -> Trajectory:
        """Solve `run` with derivatives up to `order` (0, 1 or 2).

        Without `grid` steps are chosen, none longer than `max_step`, so that the estimated local error is below
        ``atol + rtol |y|`` for every state (`atol` as in `odefit.integrate.sizes.aims_of`); with `grid` exactly those
        steps are taken again and the error is only estimated.  Numerical failure is a status, never an exception;
        work is bounded by `max_steps` attempted steps.
        """
        ...
