"""The record of one experiment: what the kernel that replays it is told, by address."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem, CompiledStructure
from odefit.native.records import Words, packed
from odefit.transcribe.observation import Observation

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Pattern = npt.NDArray[np.uint64]


class Record(NamedTuple):
    """Arguments of `map_slots`, of an explicit integrator and of `observe_residuals`.

    Grids, and the numbers of a problem (`lower`, `upper`, `slot_values`), are put in later.
    """

    n_states: int
    n_parameters: int
    first_row: int
    n_arguments: int  # of a measurement
    start: Array  # one number
    scale_codes: Indices
    free: Indices
    column_of_slot: Indices
    map: int
    map_jacobian: int
    map_row_ptr: Indices
    map_col: Pattern
    gather: Indices
    constants: Array
    column_of_input: Indices
    rhs: int
    rhs_directions: int
    times: Array
    ends: Array
    observe: int
    observe_jacobian: int
    observe_row_ptr: Indices
    observe_col: Pattern
    at: Indices
    observable: Indices
    value: Array
    root_weight: Array
    columns: Indices
    row_slots: Indices
    lower: Array = np.empty(0)
    upper: Array = np.empty(0)
    slot_values: Array = np.empty(0)
    integrator: int = 0
    steps: Array = np.empty(0)
    counts: Indices = np.empty(0, np.int64)


(
    N_STATES, N_PARAMETERS, FIRST_ROW, N_ARGUMENTS, START, SCALE_CODES, FREE, COLUMN_OF_SLOT, MAP,
    MAP_JACOBIAN, MAP_ROW_PTR, MAP_COL, GATHER, CONSTANTS, COLUMN_OF_INPUT, RHS, RHS_DIRECTIONS, TIMES, ENDS,
    OBSERVE, OBSERVE_JACOBIAN, OBSERVE_ROW_PTR, OBSERVE_COL, AT, OBSERVABLE, VALUE, ROOT_WEIGHT, COLUMNS,
    ROW_SLOTS, LOWER, UPPER, SLOT_VALUES, INTEGRATOR, STEPS, COUNTS,
) = range(len(Record._fields))  # fmt: skip


def record_of(
    compiled: CompiledStructure, o: Observation, first_row: int, columns: Indices, of_slot: Indices
) -> Record:
    """Return the record of an observed experiment, without a grid and without the numbers of a problem.

    Parameters
    ----------
    first_row, columns, of_slot
        Its first row; columns of its seeds, and of all slots.
    """
    model, observe = compiled.model(o.experiment), compiled.observe(o.experiment)
    experiment_map = compiled.map_of(o.experiment)
    return Record(
        n_states=model.n_states,
        n_parameters=model.n_parameters,
        first_row=first_row,
        n_arguments=o.row_slots.shape[1],
        start=np.array([o.t0]),
        scale_codes=compiled.scale_codes,
        free=compiled.free,
        column_of_slot=of_slot,
        map=experiment_map.function.value,
        map_jacobian=experiment_map.function.jacobian,
        map_row_ptr=experiment_map.function.row_ptr,
        map_col=experiment_map.function.col,
        gather=experiment_map.gather,
        constants=experiment_map.constants,
        column_of_input=experiment_map.column,
        rhs=model.rhs.value,
        rhs_directions=model.rhs.directions,
        times=o.times,
        ends=o.ends if model.n_states else np.empty(0),
        observe=observe.value,
        observe_jacobian=observe.jacobian,
        observe_row_ptr=observe.row_ptr,
        observe_col=observe.col,
        at=o.at,
        observable=o.observable,
        value=o.value,
        root_weight=o.root_weight,
        columns=columns,
        row_slots=o.row_slots,
    )


def with_numbers(table: Words, compiled: CompiledProblem) -> Words:
    """Return a copy of a table of records with the numbers of a problem, which must be kept, in all of them."""
    result = table.copy()
    result[:, 2 * LOWER : 2 * (SLOT_VALUES + 1)] = packed((compiled.lower, compiled.upper, compiled.slot_start))
    return result
