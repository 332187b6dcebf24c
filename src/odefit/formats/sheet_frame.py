"""Sheets from pandas data frames."""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from odefit.errors import ProblemError
from odefit.formats.sheet import Column, Sheet, checked_header

if TYPE_CHECKING:
    import pandas as pd


def sheet_of_frame(
    frame: pd.DataFrame, *, name: str, time: Collection[str], texts: Collection[str], rename: Mapping[str, str]
) -> Sheet:
    """Take the cells of a data frame as if they stood in a file.

    Parameters
    ----------
    frame
        Labels of columns become names; levels of the index with the name of the time or of a text column
        count as columns.
    name
        What messages call it.
    time
        Possible names of the time column.
    texts
        Columns that hold text, by their new names.
    rename
        From the frame's names of columns to others.
    """
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        raise ProblemError(f"{name} is a {type(frame).__name__}; give a pandas DataFrame.")
    table: Any = frame
    index = table.index
    level_names = {*time, *texts}
    levels = [
        label
        for label in index.names
        if label is not None and label not in table.columns and rename.get(str(label), str(label)) in level_names
    ]
    if levels:
        table = table.reset_index(level=levels)
    if table.columns.nlevels > 1:
        raise ProblemError(f"{name} has columns with several levels of names; give them one name each.")
    names, sources = checked_header(name, [label_of(one).strip() for one in table.columns], rename)
    if "" in names:
        raise ProblemError(f"{name} has a column without a name (number {names.index('') + 1}); name or remove it.")
    if not len(table):
        raise ProblemError(f"{name} has no rows.")
    columns: dict[str, Column] = {}
    for position, column in enumerate(names):
        series = table.iloc[:, position]
        columns[column] = _cells(series, column in texts)

    def row_name(row: int) -> str:
        return f"index {index[row]}"

    return Sheet(name, columns, row_name, sources)


def label_of(value: Any) -> str:
    """Return the text of one cell, as it would stand in a file: 3.0 is 3, a missing value is empty."""
    if isinstance(value, str):
        return value
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return ""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
    if isinstance(value, datetime.date):  # datetime and Timestamp as well
        return value.isoformat()
    return str(value)


def _cells(series: Any, text: bool) -> Column:
    """Return floats where a column of numbers is numeric already, text otherwise."""
    if not text and series.dtype.kind in "iuf":
        return series.to_numpy(dtype=float, na_value=np.nan)
    return np.array([label_of(value).strip() for value in series.tolist()], dtype=object)
