"""The arguments a of single measurements, where their values are found and how they depend on theta.

An argument has a *source*: a slot, an entry of p of the measurement's experiment (numbered on behind the slots), or
none (-1): then it is a number.  By theta a slot has one derivative, its slope; an entry of p those of its row of dp.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.compile.structure import compiled_structure
from odefit.problem import Problem
from odefit.problem.arguments import resolved_cells
from odefit.problem.measurements import Column
from odefit.problem.slots import slots_of_parameter

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


class RowArguments(NamedTuple):
    """Sources and numbers of the arguments of some measurements, (m, n_a) each, or of one, (n_a,)."""

    source: Indices
    number: Array


def arguments_of_rows(problem: Problem, e: int, rows: Indices) -> RowArguments:
    """Return the arguments of the measurements `rows`, all of experiment number `e`, in the order of `Slots.by_row`."""
    data, layout = problem.measurements, problem.structure.slots
    parameters = {p.name: p for p in problem.parameters}
    columns = []
    for name in layout.by_row:
        if name in data.arguments:
            columns.append(sources_of_cells(problem, e, rows, data.arguments[name][rows]))
        else:
            slots = slots_of_parameter(layout, data, parameters[name], e, rows)
            columns.append(RowArguments(slots, np.full(rows.size, np.nan)))
    if not columns:
        return RowArguments(np.empty((rows.size, 0), dtype=np.int64), np.empty((rows.size, 0)))
    sources, numbers = zip(*columns, strict=True)
    return RowArguments(np.stack(sources, axis=1), np.stack(numbers, axis=1))


def sources_of_cells(problem: Problem, e: int, rows: Indices, cells: Column) -> RowArguments:
    """Return sources and numbers, (m,), of cells of the measurements `rows` of experiment number `e`."""
    slot, entry, number = resolved_cells(problem, e, rows, cells)
    for name in dict.fromkeys(entry.tolist()):
        if name:
            position = compiled_structure(problem).model(e).parameters.index(name)
            slot[entry == name] = len(problem.structure.slots.names) + position
    return RowArguments(slot, number)


def with_empty_cells_filled(arguments: RowArguments, at: Indices) -> RowArguments:
    """Give empty cells what a measurement at the same output time `at`, (m,), has in that place.

    An observable does not depend on an argument whose cell is empty.  So where every observable has arguments of its
    own, those at one time have all of them in common, and are evaluated at once.
    """
    source, number = arguments.source.copy(), arguments.number.copy()
    given = (source >= 0) | np.isfinite(number)
    for j in np.flatnonzero(~given.all(axis=0)).tolist():
        rows = np.flatnonzero(given[:, j])
        first = np.full(at.size, -1, dtype=np.int64)  # there are no more times than measurements
        first[at[rows[::-1]]] = rows[::-1]
        empty = np.flatnonzero(~given[:, j] & (first[at] >= 0))
        source[empty, j], number[empty, j] = source[first[at[empty]], j], number[first[at[empty]], j]
    return RowArguments(source, number)
