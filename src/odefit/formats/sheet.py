"""A table of cells with names for its columns and places for its rows: a CSV file, or a data frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError

Column = npt.NDArray[Any]
MISSING = frozenset({"", ".", "NA", "na", "NaN", "nan", "NAN"})
"""Cells that hold no number, and no group."""


@dataclass(frozen=True, eq=False)
class Sheet:
    """Columns of equal length by name; every message names the place.

    Attributes
    ----------
    name
        What messages call it: ``'a.csv'``, ``the data frame``.
    columns
        Name to text (objects, "" where empty) or numbers (floats, NaN where missing), each of shape (m,).
    row_name
        From the index of a row to its place in words: ``line 5``.
    sources
        What the file calls a column that was renamed.
    decimal_comma
        Whether ``1,5`` is a number.
    """

    name: str
    columns: Mapping[str, Column]
    row_name: Callable[[int], str]
    sources: Mapping[str, str] = field(default_factory=dict)
    decimal_comma: bool = False

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __contains__(self, column: object) -> bool:
        return column in self.columns

    def place(self, row: int, column: str) -> str:
        """Return the place of a cell in words."""
        return f"{self.name}, {self.row_name(row)}, column '{self.sources.get(column, column)}'"

    def texts(self, column: str) -> Column:
        """Return a column of text, "" where a cell is empty."""
        return self.columns[column]

    def numbers(self, column: str) -> npt.NDArray[np.float64]:
        """Return a column of numbers, NaN where one is missing; other text is an error with its place."""
        cells = self.columns[column]
        if cells.dtype != object:
            return cells
        try:
            return _converted(cells)
        except ValueError:
            return np.array([self._number(row, column) for row in range(len(cells))], dtype=float)

    def cells(self, column: str) -> Column:
        """Return a column whose cells are numbers or names: floats if all are numbers, else numbers, names and ""."""
        cells = self.columns[column]
        if cells.dtype != object:
            return cells
        read = {cell: self._number_or_name(cell) for cell in dict.fromkeys(cells.tolist())}
        result = np.empty(len(cells), dtype=object)
        result[:] = [read[cell] for cell in cells.tolist()]
        return result

    def _number_or_name(self, cell: str) -> float | str:
        try:
            number = number_of(cell, self.decimal_comma)
        except ValueError:
            return cell
        return "" if number != number else number

    def _number(self, row: int, column: str) -> float:
        cell = self.columns[column][row]
        try:
            return number_of(cell, self.decimal_comma)
        except ValueError:
            raise ProblemError(f"{self.place(row, column)}: {_not_a_number(cell)}") from None


def _converted(cells: Column) -> npt.NDArray[np.float64]:
    """Turn text into numbers at once; ValueError if a cell needs a closer look."""
    texts = cells.tolist()
    if any("_" in cell for cell in texts):
        raise ValueError(texts)
    return np.array([np.nan if cell in MISSING else float(cell) for cell in texts], dtype=float)


def number_of(cell: str, decimal_comma: bool = False) -> float:
    """Return the number that a cell holds, NaN for a missing one; raise ValueError for other text."""
    if cell in MISSING:
        return np.nan
    if "_" in cell:
        raise ValueError(cell)
    if decimal_comma and cell.count(",") == 1 and "." not in cell:
        cell = cell.replace(",", ".")
    return float(cell)


def _not_a_number(cell: str) -> str:
    if cell[:1] in ("<", ">"):
        return f"'{cell}' is not a number; values known to lie below or above something are not supported yet."
    if "," in cell:
        return f"'{cell}' is not a number; write it with a decimal point and without other separators."
    return f"'{cell}' is not a number; leave a missing value empty."


def checked_header(name: str, header: list[str], rename: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Rename columns, and refuse a name that occurs twice.

    Returns
    -------
    names, sources
        The names of the columns; those that were renamed, to what the file calls them.
    """
    names = [rename.get(column, column) for column in header]
    places: dict[str, int] = {}
    for index, column in enumerate(names):
        if not column:
            continue
        if column in places:
            first = places[column]
            both = "" if header[first] == header[index] else f" ('{header[first]}' and '{header[index]}')"
            raise ProblemError(
                f"{name} has two columns '{column}'{both}, numbers {first + 1} and {index + 1}; rename or remove one."
            )
        places[column] = index
    return names, {new: old for new, old in zip(names, header, strict=True) if new != old}
