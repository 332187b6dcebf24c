"""``[tables.U]``: what equations call like a function.

The rows come from one of

* ``x`` and ``y``: lists of numbers; `x` may hold dates, `y` names of parameters.  For two arguments `x` is a list of
  two lists and `y` a list of rows;
* ``file``: a CSV file with a column of arguments and one of values (``x = "name"`` and ``y = "name"`` say which, if
  there are more).  For two arguments the header holds the second one, and each row begins with the first;
* ``column``: a column of the data; each experiment has a table of its own.

Dates are days since ``[data] origin``, as the times of the data are.  An experiment replaces a table by a number or by
an entry of its own, ``b1 = { U = { file = "u1.csv" } }``, which takes `kind` and `outside` from ``[tables.U]``.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from odefit.errors import OdefitError, ProblemError, UnsupportedError, suggestion
from odefit.formats.data_dates import date_in, date_of, days_at, days_since, origin_of
from odefit.formats.inheritance import Located
from odefit.formats.sections import check_keys, number, table, text, words_for
from odefit.formats.sheet import Sheet, number_of
from odefit.formats.sheet_file import read_sheet
from odefit.model.names import normal_form
from odefit.problem import Measurements, Table

KEYS = ("file", "column", "x", "y", "kind", "outside")
_SOURCES = ("file", "column", "x")


@dataclass(frozen=True)
class TableSection:
    """``[tables]``, read.

    Attributes
    ----------
    tables
        Those whose rows are given.
    columns
        Table to the data column that holds its rows.
    entries
        The keys of each table.
    origin
        The date that is time 0.
    """

    tables: Mapping[str, Table]
    columns: Mapping[str, str]
    entries: Mapping[str, Mapping[str, Any]]
    origin: datetime.datetime | None

    @classmethod
    def read(cls, section: Mapping[str, Any], origin: Any) -> TableSection:
        """Read the section; `origin` is that of ``[data]``, None without one."""
        start = None if origin is None else origin_of(origin)
        tables: dict[str, Table] = {}
        columns: dict[str, str] = {}
        entries: dict[str, Mapping[str, Any]] = {}
        for key, entry in section.items():
            name, where = normal_form(key), f"[tables.{key}]"
            keys = table(where, entry)
            check_keys(where, keys, KEYS)
            entries[name] = keys
            given = [source for source in _SOURCES if source in keys and not (source == "x" and "file" in keys)]
            if len(given) != 1:
                came = " and ".join(f"'{source}'" for source in given) if given else "none of them"
                raise ProblemError(
                    f"{where} needs its rows from one of 'file', 'column' or 'x' with 'y'; it has {came}."
                )
            if "column" in keys:
                columns[name] = text(f"{where} column", keys["column"])
            else:
                tables[name] = _table(where, keys, start)
        return cls(tables, columns, entries, start)

    @property
    def names(self) -> tuple[str, ...]:
        """The tables, in the order of the file."""
        return tuple(self.entries)

    def replaced(self, where: str, name: str, value: Any) -> Table:
        """Return what an experiment has in the place of the table `name`."""
        if isinstance(value, dict):
            check_keys(where, value, KEYS, ("column",))
            inherited = {key: one for key, one in self.entries.get(name, {}).items() if key in ("kind", "outside")}
            return _table(where, {**inherited, **value}, self.origin)
        if isinstance(value, str):
            raise UnsupportedError(f"a table that is replaced by an expression ({where})")
        return Table.constant(number(where, value))

    def of_data(self, measurements: Measurements, experiment: str) -> dict[str, Table]:
        """Return the tables of one experiment that are columns of its data."""
        result = {}
        for name, column in self.columns.items():
            rows = (measurements.experiment == experiment) & (measurements.observable == normal_form(column))
            rows &= np.isfinite(measurements.value)
            if rows.any():
                keys = self.entries[name]
                where = f"[tables.{name}], column '{column}' of experiment '{experiment}'"
                result[name] = _made(where, measurements.time[rows], measurements.value[rows], keys)
        return result


def names_of_tables(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of all tables of a problem file, those that only experiments have included."""
    names = dict.fromkeys(normal_form(key) for key in table("[tables]", content.get("tables", {})))
    for entry in table("[experiments]", content.get("experiments", {})).values():
        if isinstance(entry, dict):
            own = (key for key, value in entry.items() if isinstance(value, dict) and {*value} & {*_SOURCES})
            names.update(dict.fromkeys(map(normal_form, own)))
    return tuple(names)


def _table(where: str, keys: Mapping[str, Any], origin: datetime.datetime | None) -> Table:
    file = keys.get("file")
    if file is not None:
        x, y = _from_file(where, file, keys, origin)
        return _made(where, x, y, keys)
    if "y" not in keys or "x" not in keys:
        raise ProblemError(f"{where} needs both x and y, lists of knots and of values.")
    x, y = keys["x"], keys["y"]
    for name, value in (("x", x), ("y", y)):
        if not isinstance(value, list):
            raise ProblemError(f"{where} {name} must be a list, not {words_for(value)}.")
    axes = x if len(x) == 2 and all(isinstance(axis, list) for axis in x) else [x]
    knots = [_knots(f"{where} x", axis, origin) for axis in axes]
    if len(axes) == 2:
        rows = [row if isinstance(row, list) else [row] for row in y]
        return _made(where, knots, [[number(f"{where} y", value) for value in row] for row in rows], keys)
    return _made(where, knots[0], [_value(f"{where} y", value) for value in y], keys)


def _made(where: str, x: Any, y: Any, keys: Mapping[str, Any]) -> Table:
    options = {key: text(f"{where} {key}", keys[key]) for key in ("kind", "outside") if key in keys}
    try:
        return Table(x, y, **options)
    except OdefitError as error:
        error.args = (f"{where}: {error.args[0]}",)
        raise


def _value(where: str, value: Any) -> float | str:
    return normal_form(value) if isinstance(value, str) else number(where, value)


def _knots(where: str, axis: Sequence[Any], origin: datetime.datetime | None) -> list[float]:
    return [_knot(where, value, origin) for value in axis]


def _knot(where: str, value: Any, origin: datetime.datetime | None) -> float:
    """Return a knot as a number; a date becomes days since the origin."""
    date = date_in(value)
    if date is not None:
        return days_at(where, date, origin)
    if isinstance(value, str):
        raise ProblemError(f"{where} has the knot '{value}', which is no number and no date such as 2020-03-01.")
    return number(f"each of {where}", value)


def _from_file(where: str, file: Any, keys: Mapping[str, Any], origin: datetime.datetime | None) -> tuple[Any, Any]:
    if not isinstance(file, Located) or not isinstance(file.given, str):
        given = file.given if isinstance(file, Located) else file
        raise ProblemError(f"{where} file must be the name of one file, not {words_for(given)}.")
    sheet = read_sheet(file.folder / file.given, what=f"file of {where}")
    columns = list(sheet.columns)
    if "x" in keys or "y" in keys:
        named = [_column(where, sheet, keys, key, columns[place]) for place, key in enumerate(("x", "y"))]
        return _arguments(sheet, named[0], origin), _values(sheet, named[1])
    if len(columns) == 2:
        return _arguments(sheet, columns[0], origin), _values(sheet, columns[1])
    try:
        second = [number_of(column, sheet.decimal_comma) for column in columns[1:]]
    except ValueError:
        raise ProblemError(
            f"{where}: {sheet.name} has {len(columns)} columns; say which hold arguments and values, "
            f'x = "{columns[0]}" and y = "{columns[-1]}", say.'
        ) from None
    rows = np.stack([sheet.numbers(column) for column in columns[1:]], axis=1) if second else np.empty((len(sheet), 0))
    return [_arguments(sheet, columns[0], origin), second], rows


def _column(where: str, sheet: Sheet, keys: Mapping[str, Any], key: str, default: str) -> str:
    column = text(f"{where} {key}, the name of a column,", keys.get(key, default))
    if column not in sheet:
        raise ProblemError(
            f"{where} {key} = '{column}' is no column of {sheet.name}{suggestion(column, sheet.columns)}"
        )
    return column


def _arguments(sheet: Sheet, column: str, origin: datetime.datetime | None) -> Any:
    if origin is not None and any(date_of(cell) is not None and "-" in cell[1:] for cell in sheet.texts(column)[:1]):
        return days_since(sheet, column, origin)
    return sheet.numbers(column)


def _values(sheet: Sheet, column: str) -> Any:
    cells = sheet.texts(column).tolist()
    names = [cell for cell in cells if cell.isidentifier() and cell.lower() not in ("nan", "na", "inf")]
    if not names:
        return sheet.numbers(column)
    return [normal_form(cell) if cell in names else number_of(cell, sheet.decimal_comma) for cell in cells]
