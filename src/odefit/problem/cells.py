"""Cells of the data that hold a number or the name of a parameter: arguments of rows, and standard deviations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError
from odefit.model.names import normal_form

EMPTY = ""
"""A cell that says nothing."""

SIGMA = "sigma"
"""What messages call the cell of a standard deviation."""


def words_for_argument(symbol: str) -> str:
    """Return what messages call the cell of an argument."""
    return f"argument '{symbol}'"


def cells_of(column: str, entries: Iterable[Any]) -> npt.NDArray[np.object_]:
    """Return a copy of a column of cells, each a number, a name or `EMPTY`.

    Text that is a number is one: arrays of names and numbers are arrays of text in NumPy.  Nothing else is told apart;
    whether a name is that of a parameter, a problem knows.
    """
    known: dict[Any, float | str] = {}
    cells = []
    for entry in entries:
        if isinstance(entry, str):
            if entry not in known:
                known[entry] = _read(entry.strip())
            cells.append(known[entry])
            continue
        try:
            number = np.nan if entry is None else float(entry)
        except (TypeError, ValueError):
            raise ProblemError(
                f"the data column '{column}' holds {entry!r}, which is neither a number nor the name of a parameter."
            ) from None
        cells.append(EMPTY if number != number else number)
    result = np.empty(len(cells), dtype=object)
    result[:] = cells
    return result


def _read(text: str) -> float | str:
    try:
        number = float(text) if "_" not in text else None
    except ValueError:
        number = None
    if number is None:
        return normal_form(text)
    return EMPTY if number != number else number


def numbers_in(cells: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the numbers among cells, NaN for others."""
    if cells.dtype != object:
        return cells
    return np.array([np.nan if isinstance(cell, str) else cell for cell in cells.tolist()], dtype=float)


def names_of_cells(cells: npt.NDArray[Any]) -> npt.NDArray[np.object_]:
    """Return the names among cells, `EMPTY` for others."""
    names = np.full(cells.size, EMPTY, dtype=object)
    if cells.dtype == object:
        names[:] = [cell if isinstance(cell, str) else EMPTY for cell in cells.tolist()]
    return names
