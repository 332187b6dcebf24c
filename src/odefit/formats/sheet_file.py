"""Sheets from CSV files.

A regular file (see `CsvText.regular`) is read by pandas, with the columns of numbers straight into floats;
any other file, and any file with a cell that pandas does not take for a number, field by field.  Both ways
give the same cells; the second one finds the place of a mistake.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from odefit.errors import ProblemError, suggestion
from odefit.formats.csv_text import CsvText, split_csv
from odefit.formats.file_content import LARGEST_DATA, read_content
from odefit.formats.sheet import MISSING, Column, Sheet, checked_header

_FLAGS = ("True", "TRUE", "true", "False", "FALSE", "false")  # a column of these pandas takes for 0 and 1


def read_sheet(
    path: Path, *, what: str, texts: Collection[str] | None = None, rename: Mapping[str, str] | None = None
) -> Sheet:
    """Read a CSV file.

    Parameters
    ----------
    what
        What the file is, for messages: "data file".
    texts
        Columns that hold text, by their new names; None for all.
    rename
        From the file's names of columns to others; names that the file does not have are passed over.
    """
    source = split_csv(path.name, _content(path, what))
    name = f"'{path.name}'"
    names, sources = checked_header(name, list(source.header), rename or {})
    if not source.body:
        raise ProblemError(f"{name} has no rows below its header.")
    text = [texts is None or column in texts or not column for column in names]
    cells = _by_pandas(source, text) if source.regular() else None
    places: Any = source.numbers
    if cells is None:
        rows, places = source.records()
        cells = [_stripped(np.array(column, dtype=object)) for column in zip(*rows, strict=True)]

    def row_name(row: int) -> str:
        return f"line {places[row]}"

    columns: dict[str, Column] = {}
    for index, (column, entries) in enumerate(zip(names, cells, strict=True)):
        if column:
            columns[column] = entries
        elif any(entries.tolist()):
            raise ProblemError(
                f"{name} has a column without a name (number {index + 1}); name it in the first line, or remove it "
                "(numbers of rows: to_csv(index=False) in pandas, row.names=FALSE in R)."
            )
    return Sheet(name, columns, row_name, sources, source.decimal_comma)


def _content(path: Path, what: str) -> bytes:
    try:
        return read_content(path, LARGEST_DATA)
    except (FileNotFoundError, NotADirectoryError):
        hint = suggestion(path.name, _names_in(path.parent))
        raise ProblemError(
            f"the {what} '{path.name}' does not exist in '{path.parent}'{hint} Paths are relative to the problem file."
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ProblemError(f"the {what} '{path.name}' cannot be read: {reason}.") from error


def _names_in(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


def _by_pandas(source: CsvText, text: list[bool]) -> list[Column] | None:
    """Read regular text without quotes; None if a column of numbers holds something else."""
    import pandas as pd

    if any(word in source.body for word in _FLAGS):
        return None
    commas = source.decimal_comma and "," in source.body
    options: dict[str, Any] = {}
    if tuple(int(part) for part in pd.__version__.split(".")[:2]) < (3, 1):
        options["float_precision"] = "round_trip"  # later versions always read the nearest float
    try:
        frame: Any = pd.read_csv(
            io.StringIO(source.body),
            sep=source.separator,
            header=None,
            names=list(range(len(text))),
            index_col=False,
            dtype={index: object if one else float for index, one in enumerate(text)},
            keep_default_na=False,
            na_values={index: sorted(MISSING) for index, one in enumerate(text) if not one},
            decimal="," if commas else ".",
            skipinitialspace=True,
            skip_blank_lines=False,
            **options,
        )
    except (ValueError, OverflowError):
        return None
    return [_stripped(frame[index].to_numpy()) if one else frame[index].to_numpy() for index, one in enumerate(text)]


def _stripped(cells: Column) -> Column:
    """Remove the spaces around cells, once for each distinct one."""
    import pandas as pd

    codes, distinct = pd.factorize(cells)
    return np.array([cell.strip() for cell in distinct], dtype=object)[codes]
