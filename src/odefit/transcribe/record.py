"""Tasks of a fit: the rows of their table, and what all of them share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem, CompiledStructure
from odefit.compile.parameter_map import Mapping, Unknowns
from odefit.integrate.border_record import Bordering
from odefit.integrate.steady_state import Equilibrium
from odefit.integrate.task import Gathering, Switching, Task
from odefit.native.linear_systems import Elimination
from odefit.native.records import Floats, Integers, Layout, Unsigned, Words
from odefit.transcribe.observation import Observation

_NONE, _NO_INDICES = np.empty(0), np.empty(0, np.int64)


class Measured(NamedTuple):
    """The measurements of a task, ordered by time, and where their residuals go.

    Attributes
    ----------
    observe, observe_jacobian, row_ptr, col
        Addresses of the observables and of their Jacobian by (y, p, a); CSR pattern.
    at_time
        Output time k has the measurements ``at_time[k]`` to ``at_time[k + 1] - 1``.
    observable, value, root_weight
        Per measurement: which observable, datum, square root of the weight.
    argument_source, argument_number, n_arguments
        Per measurement: where its own arguments a are found, or what they are, row by row, and how many it has; see
        `RowArguments`.
    columns, column_of_slot
        Columns of the seeds, and of all slots (-1: fixed), in the Jacobian.
    first_row
        Of its residuals.
    order, width, residual, blur, jacobian, slots, slopes, scratch
        Of one evaluation: order of derivatives, width of the Jacobian, where to write, values of all slots and their
        derivatives by theta, and room to work in.
    """

    observe: int
    observe_jacobian: int
    row_ptr: Integers
    col: Unsigned
    at_time: Integers
    observable: Integers
    value: Floats
    root_weight: Floats
    argument_source: Integers
    argument_number: Floats
    n_arguments: int
    columns: Integers
    column_of_slot: Integers
    first_row: int
    order: int = 0
    width: int = 0
    residual: Floats = _NONE
    blur: Floats = _NONE
    jacobian: Floats = _NONE
    slots: Floats = _NONE
    slopes: Floats = _NONE
    scratch: Floats = _NONE


class Begin(NamedTuple):
    """Where a task begins that begins where another one came to rest (see `odefit.compile.equilibria`), or at a node.

    Attributes
    ----------
    state, first
        Of the steady state or node: values (none: the task begins with its own initial state), and derivatives by its
        columns.
    column
        For each column of the task that of the other one, -1: it has none.
    n_states
        How many states, the first ones, are taken over.
    entry, of_state
        Entries of p that are initial values, and the states they are of.
    at_node, since
        Whether it begins at a node, and then where the experiment begins that it is a part of.
    """

    state: Floats = _NONE
    first: Floats = _NONE
    column: Integers = _NO_INDICES
    n_states: int = 0
    entry: Integers = _NO_INDICES
    of_state: Integers = _NO_INDICES
    at_node: int = 0
    since: float = 0.0


class Handover(NamedTuple):
    """What a task hands over to the node where it ends: rows weight * (y - state), see `write_interval`.

    Attributes
    ----------
    first_row, weight_column
        Of these rows, and the column of the Jacobian in which their weights are noted.
    state, weight
        Of the node, (n,).
    """

    first_row: int
    weight_column: int
    state: Floats
    weight: Floats


class Penalty(NamedTuple):
    """Residuals of priors: addresses (0: there are none), CSR pattern, their numbers; columns of slots; first row."""

    value: int = 0
    jacobian: int = 0
    row_ptr: Integers = _NO_INDICES
    col: Unsigned = np.empty(0, np.uint64)
    constants: Floats = _NONE
    column_of_slot: Integers = _NO_INDICES
    first_row: int = 0


FITTING = Layout(Task, Elimination, Switching, Gathering, Bordering, Equilibrium, Begin, Mapping, Measured, Handover)
"""Rows of tasks that are fitted; only those that end at a node hand something over."""
SHARED = Layout(Unknowns, Penalty)
"""The one row of what all tasks share."""


Records = tuple[Task, Switching, Gathering, Bordering, Equilibrium, Begin, Mapping, Measured]


def task_records(
    compiled: CompiledStructure, o: Observation, first_row: int, columns: Integers, of_slot: Integers
) -> Records:
    """Return the records of an observed experiment, without method and grid.

    Parameters
    ----------
    first_row, columns, of_slot
        Its first row; columns of its seeds, and of all slots.
    """
    model, observe = compiled.model(o.experiment), compiled.observe(o.experiment)
    task = _task(compiled, o.experiment, columns.size)._replace(times=o.times, after=o.after, ends=o.ends)
    switching = Switching.of(model.switches, compiled.occurrences[o.experiment], o.ends, _NO_INDICES)
    measured = Measured(
        observe=observe.value,
        observe_jacobian=observe.jacobian,
        row_ptr=observe.row_ptr,
        col=observe.col,
        at_time=_first_of_times(o),
        observable=o.observable,
        value=o.value,
        root_weight=o.root_weight,
        argument_source=np.ascontiguousarray(o.argument_source).reshape(-1),
        argument_number=np.ascontiguousarray(o.argument_number).reshape(-1),
        n_arguments=o.argument_source.shape[1],
        columns=columns,
        column_of_slot=of_slot,
        first_row=first_row,
    )
    gathering = Gathering.of(model.gathering, o.since, o.remember, o.n_slots)
    begin, rest = Begin(), compiled.starts_from_rest[o.experiment]
    if rest is not None:
        begin = Begin(column=rest.column, n_states=rest.n_states, entry=rest.entry, of_state=rest.state)
    equilibrium = Equilibrium()
    if o.at_rest:
        equilibrium = Equilibrium(row_ptr=model.rhs.row_ptr, col=model.rhs.col, follows=1)
    bordering = Bordering.of(model.switches, _NO_INDICES)
    return task, switching, gathering, bordering, equilibrium, begin, compiled.mappings[o.experiment], measured


def _task(compiled: CompiledStructure, run: int, n_columns: int) -> Task:
    """Return what all tasks of a run have in common."""
    model = compiled.model(run)
    return Task(
        value=model.rhs.value, directions=model.rhs.directions, jacobian=model.rhs.jacobian, second=0,
        n=model.n_states, n_parameters=model.n_parameters, n_columns=n_columns,
        n_directions=compiled.n_directions[run], start=float(compiled.experiment_starts[run]), rtol=0.0, max_step=0.0,
        max_steps=0, choices=0, p=_NONE, u=_NONE, y0=_NONE, dy0=_NONE, dp=_NONE, d2y0=_NONE, d2p=_NONE, times=_NONE,
        after=_NO_INDICES, ends=_NONE, kinks=compiled.tables[run].kinks, aims=_NONE, atol=_NONE, steps=_NONE,
        orders=_NO_INDICES, counts=_NO_INDICES, stop=_NO_INDICES, slots=compiled.tables[run].n_slots,
        moving=int(model.switches is not None and model.switches.moving), sink=0, method=0,
    )  # fmt: skip


def equilibration_records(compiled: CompiledStructure, run: int) -> Records:
    """Return the records of an equilibration, without method, laws and place for its result; nothing is measured."""
    rhs = compiled.model(run).rhs
    measured = Measured(
        0, 0, np.zeros(1, np.int64), np.empty(0, np.uint64), np.zeros(1, np.int64), _NO_INDICES, _NONE, _NONE,
        _NO_INDICES, _NONE, 0, _NO_INDICES, _NO_INDICES, 0,
    )  # fmt: skip
    task = _task(compiled, run, compiled.columns[run].size)
    equilibrium = Equilibrium(row_ptr=rhs.row_ptr, col=rhs.col)
    return task, Switching(), Gathering(), Bordering(), equilibrium, Begin(), compiled.mappings[run], measured


def penalty_record(compiled: CompiledStructure, first_row: int, of_slot: Integers) -> Penalty:
    """Return the record of the priors of a problem."""
    function = compiled.penalty
    if function is None:
        return Penalty()
    return Penalty(
        function.value,
        function.jacobian,
        function.row_ptr,
        function.col,
        compiled.penalty_constants,
        of_slot,
        first_row,
    )


def table_of(records: list[Records]) -> Words:
    """Return the table of these tasks."""
    table = np.zeros((len(records), FITTING.width), np.int64)
    for row, parts in zip(table, records, strict=True):
        for part in (*parts, Elimination()):
            FITTING.put(row, part)
    return table


Fields = dict[str, Any]
_PARTS = (Task, Switching, Gathering, Measured)
PartFields = tuple[Fields, Fields, Fields, Fields]
NO_CHANGES: PartFields = ({}, {}, {}, {})


def part_of_records(o: Observation, first_row: int) -> PartFields:
    """Return what changes in the records where only a part of the measurements is fitted, see `_PARTS`."""
    measured = {
        "at_time": _first_of_times(o),
        "observable": o.observable,
        "value": o.value,
        "root_weight": o.root_weight,
        "argument_source": np.ascontiguousarray(o.argument_source).reshape(-1),
        "argument_number": np.ascontiguousarray(o.argument_number).reshape(-1),
        "first_row": first_row,
    }
    gathering = {"since": o.since, "remember": o.remember}
    return {"times": o.times, "after": o.after, "ends": o.ends}, {"stops": o.ends}, gathering, measured


def table_of_part(table: Words, rows: list[int], parts: list[PartFields]) -> Words:
    """Return the `rows` of a table with these fields, which must be kept, in the place of their own."""
    result = table[rows]
    for row, changed in zip(result, parts, strict=True):
        for part, fields in zip(_PARTS, changed, strict=True):
            for name, value in fields.items():
                FITTING.set(row, part, name, value)
    return result


def _first_of_times(o: Observation) -> Integers:
    """Return the first measurement of each output time, and their number."""
    return np.searchsorted(o.at, np.arange(o.times.size + 1)).astype(np.int64)


def shared_row(compiled: CompiledProblem, penalty: Penalty) -> Words:
    """Return the row of what tasks share, with the numbers of a problem."""
    row = np.zeros((1, SHARED.width), np.int64)
    SHARED.put(row[0], compiled.unknowns)
    SHARED.put(row[0], penalty)
    return row


def unknowns_of_penalties(compiled: CompiledStructure) -> list[npt.NDArray[np.int64]]:
    """Return which unknowns each prior depends on."""
    function = compiled.penalty
    if function is None:
        return []
    unknowns = []
    for i in range(function.n_out):
        theta = compiled.theta_of_q[function.col[function.row_ptr[i] : function.row_ptr[i + 1]]]
        unknowns.append(np.unique(theta[theta >= 0]).astype(np.int64))
    return unknowns
