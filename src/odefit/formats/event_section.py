"""``[events]``: doses, how late they come, and how much of them arrives.

The rows are those of a file, ``file = "doses.csv"``, or stand in the section itself,

    rows = [
      { experiment = "s1", time = 0, target = "depot", add = 100, every = 12, count = 6 },
      { time = "t_wash", target = "central", set = 0 },
    ]

with the same names as columns: ``experiment`` (missing: all of them), ``time``, ``target``, one of ``add`` and ``set``,
``duration``, ``every`` and ``count``.  Numbers may be expressions of parameters, but for the last two; a time may be a
date, as those of the data are.  ``lag`` and ``fraction`` are tables from states to numbers or expressions.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from odefit.errors import OdefitError, ProblemError, suggestion
from odefit.formats.data_dates import date_in, days_at, origin_of
from odefit.formats.inheritance import Located
from odefit.formats.sections import check_keys, number, table, text, whole, words_for
from odefit.formats.sheet import MISSING, number_of
from odefit.formats.sheet_file import read_sheet
from odefit.model.names import normal_form
from odefit.problem import Dose
from odefit.problem.events import HOWS

KEYS = ("file", "rows", "lag", "fraction")
COLUMNS = ("experiment", "time", "target", *HOWS, "duration", "every", "count")


@dataclass(frozen=True)
class EventSection:
    """``[events]``, read.

    Attributes
    ----------
    rows
        Place in words, experiment (None: all of them) and dose of each row.
    lag, fraction
        As in `Problem`.
    """

    rows: tuple[tuple[str, str | None, Dose], ...]
    lag: Mapping[str, float | str]
    fraction: Mapping[str, float | str]

    @classmethod
    def read(cls, section: Mapping[str, Any], origin: Any, time: str) -> EventSection:
        """Read the section; `origin` is that of ``[data]``, None without one, `time` the independent variable."""
        check_keys("[events]", section, KEYS)
        start = None if origin is None else origin_of(origin)
        if "file" in section and "rows" in section:
            raise ProblemError("[events] has both 'file' and 'rows'; keep one.")
        given = _file_rows(section["file"]) if "file" in section else _inline_rows(section.get("rows", []))
        rows = tuple(_row(where, cells, start, time) for where, cells in given)
        arrival = {
            what: {
                normal_form(state): _value(f"[events] {what} of '{state}'", value)
                for state, value in table(f"[events] {what}", section.get(what, {})).items()
            }
            for what in ("lag", "fraction")
        }
        return cls(rows, **arrival)

    def check_experiments(self, names: Collection[str]) -> None:
        """Refuse rows of experiments that are not there."""
        for where, experiment, _ in self.rows:
            if experiment is not None and experiment not in names:
                raise ProblemError(f"{where}: there is no experiment '{experiment}'{suggestion(experiment, names)}")

    def of(self, experiment: str) -> tuple[Dose, ...]:
        """Return the doses of an experiment, in the order of the rows."""
        return tuple(dose for _, name, dose in self.rows if name in (None, experiment))


def _inline_rows(rows: Any) -> Iterable[tuple[str, dict[str, Any]]]:
    if not isinstance(rows, list):
        raise ProblemError(f"[events] rows must be a list of tables, not {words_for(rows)}.")
    for i, row in enumerate(rows):
        where = f"[events] row {i + 1}"
        yield where, table(where, row)


def _file_rows(file: Any) -> Iterable[tuple[str, dict[str, Any]]]:
    if not isinstance(file, Located) or not isinstance(file.given, str):
        given = file.given if isinstance(file, Located) else file
        raise ProblemError(f"[events] file must be the name of one file, not {words_for(given)}.")
    sheet = read_sheet(file.folder / file.given, what="file of [events]")
    for row in range(len(sheet)):
        cells = {name: column[row] for name, column in sheet.columns.items() if name}
        filled = {name: cell for name, cell in cells.items() if cell not in MISSING}
        yield (
            f"{sheet.name}, {sheet.row_name(row)}",
            {
                name: cell if name in ("experiment", "target") else _number_or_text(cell, sheet.decimal_comma)
                for name, cell in filled.items()
            },
        )


def _number_or_text(cell: str, decimal_comma: bool) -> float | str:
    try:
        value = number_of(cell, decimal_comma)
    except ValueError:
        return cell
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _row(
    where: str, cells: dict[str, Any], origin: datetime.datetime | None, time: str
) -> tuple[str, str | None, Dose]:
    if time in cells and "time" not in cells:
        cells = {("time" if name == time else name): cell for name, cell in cells.items()}
    check_keys(where, cells, COLUMNS, kind="column")
    for name in ("time", "target"):
        if name not in cells:
            raise ProblemError(f"{where} has no '{name}'; every row needs one.")
    hows = [how for how in HOWS if how in cells]
    if len(hows) != 1:
        raise ProblemError(f"{where} has {'both' if hows else 'none'} of 'add' and 'set'; give one of them.")
    if "every" in cells and "count" not in cells:
        raise ProblemError(f"{where} has 'every' but not 'count'; say how often.")
    options: dict[str, Any] = {}
    if "duration" in cells:
        options["duration"] = _value(f"{where}: duration", cells["duration"])
    if "every" in cells:
        options["every"] = number(f"{where}: every", cells["every"])
    if "count" in cells:
        options["count"] = whole(f"{where}: count", cells["count"])
    target = normal_form(text(f"{where}: target", cells["target"]))
    when = _time(f"{where}: time", cells["time"], origin)
    try:
        dose = Dose(when, target, _value(f"{where}: {hows[0]}", cells[hows[0]]), hows[0], **options)
    except OdefitError as error:
        error.args = (f"{where}: {error.args[0]}",)
        raise
    experiment = text(f"{where}: experiment", cells["experiment"]) if "experiment" in cells else None
    return where, experiment, dose


def _time(where: str, value: Any, origin: datetime.datetime | None) -> float | str:
    """Return a time: a number, an expression, or a date in days since the origin."""
    date = None if isinstance(value, str) and value.isdigit() else date_in(value)
    return _value(where, value) if date is None else days_at(where, date, origin)


def _value(where: str, value: Any) -> float | str:
    if isinstance(value, str):
        return value
    return number(where, value)
