"""A task: what is integrated in one go, as kernels see it, and what happens at its output times.

A task is made of *pieces*, stretches between two discontinuities: no step crosses the end of one.  Tasks are rows of a
table (see `odefit.native.records`), in which `Task` comes first, `Elimination` second, `Switching` third, `Gathering`
fourth, `Bordering` fifth, and the record of the *sink* last.  The sink is a kernel that is called at each output time:
it keeps states and sensitivities (`keep_states`), or makes rows of residuals of them (`odefit.transcribe`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types

from odefit.compile import Occurrences, Switches
from odefit.compile.gathering import Gatherings
from odefit.integrate.border_record import Bordering
from odefit.integrate.directions import place_of
from odefit.native.kernel import kernel
from odefit.native.kernel_calls import kernel_call
from odefit.native.linear_systems import Elimination
from odefit.native.records import Floats, Integers, Layout, Unsigned

_NONE, _NO_INDICES = np.empty(0), np.empty(0, np.int64)


class Task(NamedTuple):
    """One initial value problem, how it is to be integrated, and the grid to replay.

    Attributes
    ----------
    value, directions, jacobian, second
        Addresses of the right-hand side and of its derivatives; those that a method does not use may be 0.
    n, n_parameters
        Number of states, and length of p.
    n_columns, n_directions
        Columns of the seeds, and how many of them, the first ones, reach the states: these are integrated.
    start, rtol, max_step, max_steps
        Start time, relative tolerance, longest step, and limit on attempted steps.
    aims, atol
        Absolute tolerance of each state: what is asked for (see `odefit.integrate.sizes`), and the number that it comes
        to, which is found where steps are chosen and belongs to the grid.
    choices
        Bits that belong to the method (see there).
    p, u, y0, dy0, dp, d2y0, d2p
        Parameters, inputs, initial state and seeds, see `odefit.integrate.Run`; matrices row by row.
    times, after, ends, kinks
        Output times, which of them mean the state behind an event (empty: none), the ends of the pieces, and times
        within them at which a step ends but integration goes on.
    steps, orders, counts
        The grid; `counts` holds, behind room for the numbers of `Counters`, how many steps each piece has.
    stop
        A flag that ends the integration.
    slots
        Number of tables whose slots stand in u, see `odefit.compile.table_inputs`.
    moving
        Whether ends of pieces depend on parameters: then a piece is integrated in the fraction of it, from 0 to 1,
        steps are fractions too, and the last two entries of p are its start and length.
    sink, method
        Addresses of the kernel that is called at output times, see `SINK`, and of the one that integrates, see
        `METHOD`.
    """

    value: int
    directions: int
    jacobian: int
    second: int
    n: int
    n_parameters: int
    n_columns: int
    n_directions: int
    start: float
    rtol: float
    max_step: float
    max_steps: int
    choices: int
    p: Floats
    u: Floats
    y0: Floats
    dy0: Floats
    dp: Floats
    d2y0: Floats
    d2p: Floats
    times: Floats
    after: Integers
    ends: Floats
    kinks: Floats
    aims: Floats
    atol: Floats
    steps: Floats
    orders: Integers
    counts: Integers
    stop: Integers
    slots: int
    moving: int
    sink: int
    method: int


class Switching(NamedTuple):
    """The conditions in time of a task, and the pieces they make; see `odefit.integrate.pieces`.

    Attributes
    ----------
    value, jacobian, second, row_ptr, col
        Addresses and pattern of the switches and their slopes, see `odefit.compile.Switches`; 0: there are none.
    level, affine, whole, switch_of, kind
        See there.
    stops
        Ends of pieces from elsewhere, the last one the end of the task.
    passed
        What the grid was made with: the number of pieces, and what ends each (a switch, -1: nothing, below: an event,
        see `odefit.integrate.events`), in this order.
    inputs, end_slopes, end_bends
        Filled for one evaluation: inputs u of each piece, and derivatives of the ends of pieces by the directions and
        by pairs of them, row by row.
    moments, changes, first_change, target
        Addresses and patterns of what events are, see `odefit.compile.EventFunctions`.
    event_kind, event_arguments
        See `odefit.compile.Occurrences`.
    over
        Whether events up to the start of the task, that one included, have happened: it goes on where another one ends.
    """

    value: int = 0
    jacobian: int = 0
    second: int = 0
    row_ptr: Integers = _NO_INDICES
    col: Unsigned = np.empty(0, np.uint64)
    level: Integers = _NO_INDICES
    affine: Integers = _NO_INDICES
    whole: Integers = _NO_INDICES
    switch_of: Integers = _NO_INDICES
    kind: Integers = _NO_INDICES
    stops: Floats = _NONE
    passed: Integers = _NO_INDICES
    inputs: Floats = _NONE
    end_slopes: Floats = _NONE
    end_bends: Floats = _NONE
    moments: int = 0
    moments_jacobian: int = 0
    moments_second: int = 0
    moments_row_ptr: Integers = _NO_INDICES
    moments_col: Unsigned = np.empty(0, np.uint64)
    changes: int = 0
    changes_jacobian: int = 0
    changes_second: int = 0
    changes_row_ptr: Integers = _NO_INDICES
    changes_col: Unsigned = np.empty(0, np.uint64)
    first_change: Integers = _NO_INDICES
    target: Integers = _NO_INDICES
    event_kind: Integers = _NO_INDICES
    event_arguments: Floats = _NONE
    over: int = 0

    @classmethod
    def of(
        cls,
        switches: Switches | None,
        occurrences: Occurrences,
        stops: Floats,
        passed: Integers,
        *,
        second: bool = False,
    ) -> Switching:
        """Return the record of these switches and events; with their second derivatives, if asked for."""
        if switches is None:
            return cls()
        f, events = switches.function, switches.events
        record = cls(
            f.value, f.jacobian, f.second if second else 0, f.row_ptr, f.col, switches.level, switches.affine,
            switches.whole, switches.switch_of, switches.kind, stops, passed,
        )  # fmt: skip
        if events is None:
            return record
        moments, changes = events.moments, events.changes
        return record._replace(
            moments=moments.value, moments_jacobian=moments.jacobian,
            moments_second=moments.second if second else 0,
            moments_row_ptr=moments.row_ptr, moments_col=moments.col,
            changes=changes.value, changes_jacobian=changes.jacobian,
            changes_second=changes.second if second else 0,
            changes_row_ptr=changes.row_ptr, changes_col=changes.col,
            first_change=events.first_change, target=events.target,
            event_kind=occurrences.kind, event_arguments=occurrences.arguments,
        )  # fmt: skip


class Gathering(NamedTuple):
    """What a task gathers over time; see `odefit.integrate.gathering`.

    Attributes
    ----------
    integrals
        States of which what was gained since the beginning of an interval is observed.
    since, remember, n_slots
        Per output: the slot in which the beginning of its interval is remembered (-1: the start), and the slot in which
        it is remembered itself (-1: in none); how many there are.  Slots are used in the order of time.
    extremes, signs, in_interval
        States that stand for extremes, 1 or -1 for the largest or the smallest value, and 1 for those of an interval.
    watch, watch_jacobian, row_ptr, col
        Address of the expressions whose extremes are wanted, and behind them whether they count, a function of
        ((t, y), p, u); its Jacobian by (t, y, p) and the pattern of that.
    """

    integrals: Integers = _NO_INDICES
    since: Integers = _NO_INDICES
    remember: Integers = _NO_INDICES
    n_slots: int = 0
    extremes: Integers = _NO_INDICES
    signs: Floats = _NONE
    in_interval: Integers = _NO_INDICES
    watch: int = 0
    watch_jacobian: int = 0
    row_ptr: Integers = _NO_INDICES
    col: Unsigned = np.empty(0, np.uint64)

    @classmethod
    def of(cls, found: Gatherings, since: Integers, remember: Integers, n_slots: int) -> Gathering:
        """Return the record of what a model gathers, with these intervals."""
        watch, record = found.watch, cls(found.in_intervals if n_slots else _NO_INDICES, since, remember, n_slots)
        if watch is None:
            return record
        return record._replace(
            extremes=found.extremes, signs=found.signs, in_interval=found.extremes_in_intervals, watch=watch.value,
            watch_jacobian=watch.jacobian, row_ptr=watch.row_ptr, col=watch.col,
        )  # fmt: skip


class Kept(NamedTuple):
    """Where `keep_states` writes: states (m, n), sensitivities (m, n, q) and (m, n, pairs), row by row."""

    y: Floats
    first: Floats
    second: Floats


KEEPING = Layout(Task, Elimination, Switching, Gathering, Bordering, Kept)
"""Rows of tasks whose solution is kept."""

task_at = KEEPING.reader(Task)
elimination_at = KEEPING.reader(Elimination)
switching_at = KEEPING.reader(Switching)
gathering_at = KEEPING.reader(Gathering)
bordering_at = KEEPING.reader(Bordering)
_kept_at = KEEPING.reader(Kept)

_TABLE = types.Array(types.int64, 2, "C")
_MATRIX = types.Array(types.float64, 2, "C")
_STEPS, _ORDERS = types.Array(types.float64, 1, "C"), types.Array(types.int64, 1, "C")

SINK = types.int64(_TABLE, types.int64, types.int64, _MATRIX, _MATRIX, _MATRIX)
"""``sink(table, i, index, y, s, s2)``: output number `index` of task `i`; returns `index`.

States and directions are in row 0, these in blocks of four, see `odefit.integrate.directions`.
"""

call_sink = kernel_call(SINK)

METHOD = types.Tuple(
    (types.int64, types.float64, types.int64, types.float64, types.int64, types.int64, _STEPS, _ORDERS)
)(_TABLE, types.int64, types.int64, types.boolean, _STEPS, _ORDERS, types.int64)
"""``solve(table, i, order, replay, taken, orders, n_taken)``: every method, made by `odefit.integrate.time_loop`.

With derivatives up to `order`; with `replay` the steps of the task's grid are taken again.  Steps that are chosen, and
their orders, are noted in `taken` and `orders`, behind `n_taken` that are there.  Returns status code, time reached,
state to blame (-1: none), largest error over tolerance, number of outputs written, `n_taken`, and the two arrays, which
are longer ones if they had to grow.
"""


@kernel
def keep_states(table, i, index, y, s, s2):
    """Keep states and sensitivities: a sink."""
    task, kept = task_at(table, i), _kept_at(table, i)
    n = task.n
    for j in range(n):
        kept.y[index * n + j] = y[0, j]
    _keep_directions(s, n, kept.first, index, task.times.size)
    _keep_directions(s2, n, kept.second, index, task.times.size)
    return index


@kernel(inline=True)
def _keep_directions(s, n, out, index, n_times):
    q = out.size // (n_times * n) if n > 0 else 0
    for j in range(n):
        for c in range(q):
            out[(index * n + j) * q + c] = s[0, place_of(c, j, n)]
