"""``[experiments]``: entries, and a table in a file.

``file = "runs.csv"`` names a table with a row for each experiment: the column `experiment` (or `name`) is its
name, `until`, `use` and `start` mean what they mean in an entry, every other column replaces a value of the
model; an empty cell replaces nothing.  Where an entry has the same name, the two are merged and the entry wins.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from odefit.errors import ProblemError, UnsupportedError, suggestion
from odefit.formats.inheritance import Located, merged
from odefit.formats.sections import number, text, words_for
from odefit.formats.sheet import MISSING, Sheet, number_of
from odefit.formats.sheet_file import read_sheet
from odefit.formats.table_section import TableSection
from odefit.model import Model
from odefit.model.names import normal_form
from odefit.problem import Experiment, Period, Table, initial_name

OPTIONS = ("until", "use", "start", "before")
PERIODS = "periods"
STEADY = "steady"
_IN_FILES = ("until", "use", "start")


def read_experiments(
    section: Mapping[str, Any], t0: float, model: Model, tables: TableSection | None = None, names: Collection[str] = ()
) -> tuple[Experiment, ...]:
    """Read the experiments that are described.

    Parameters
    ----------
    t0
        Where they all start.
    tables, names
        The tables that are given for all of them, and the names of all tables.
    """
    known = TableSection({}, {}, {}, None) if tables is None else tables
    entries = dict(section)
    file = entries.get("file")
    if isinstance(file, Located):
        del entries["file"]
        entries = merged(_rows(file, model, names), entries)
    experiments = []
    for name, entry in entries.items():
        if not isinstance(entry, dict):
            raise ProblemError(
                f"experiment '{name}' must be a table, not {words_for(entry)}; write {name} = {{ k = 2 }}, or {{}}."
            )
        experiments.append(_experiment(name, entry, t0, known, names))
    return tuple(experiments)


def _experiment(
    name: str, entry: Mapping[str, Any], t0: float, known: TableSection, names: Collection[str]
) -> Experiment:
    where = f"experiment '{name}'"
    overrides: dict[str, float | str] = {}
    tables: dict[str, Table] = {}
    options: dict[str, Any] = {}
    later: list[Period] = []
    for key, value in entry.items():
        if key in ("start", "before"):
            continue
        if key == "until":
            options["until"] = number(f"'until' of {where}", value)
        elif key == "use":
            options["use"] = text(f"'use' of {where}", value)
        elif key == PERIODS:
            later = _periods(where, value)
        elif normal_form(key) in names:
            tables[normal_form(key)] = known.replaced(f"the table '{key}' in {where}", normal_form(key), value)
        else:
            overrides[normal_form(key)] = _override(f"'{key}' in {where}", value)
    return Experiment(name, (*_time_before(where, entry), Period(t0, overrides), *later), tables, **options)


def _time_before(where: str, entry: Mapping[str, Any]) -> list[Period]:
    """Read what goes before an experiment that starts from a steady state."""
    if "start" not in entry:
        if "before" in entry:
            raise ProblemError(
                f"{where} has 'before', the conditions before its start, but does not start from their steady state; "
                f'add start = "{STEADY}".'
            )
        return []
    start = entry["start"]
    if start != STEADY:
        raise ProblemError(
            f"'start' of {where} is {words_for(start)}; it is \"{STEADY}\" or left out (the time of the start is t0 in "
            "[model])."
        )
    before = entry.get("before", {})
    if not isinstance(before, dict):
        raise ProblemError(f"'before' of {where} must be a table, not {words_for(before)}; write before = {{ k = 2 }}.")
    values = {normal_form(key): _override(f"'{key}' in 'before' of {where}", one) for key, one in before.items()}
    return [Period(-math.inf, values)]


def _periods(where: str, value: Any) -> list[Period]:
    """Read the periods behind the first one."""
    form = "write [[experiments.NAME.periods]] with from = ... for each"
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ProblemError(f"'{PERIODS}' of {where} must be a list of tables, not {words_for(value)}; {form}.")
    periods = []
    for count, entry in enumerate(value, start=2):
        place = f"period {count} of {where}"
        for key in ("start", "before"):
            if key in entry:
                raise UnsupportedError(f"'{key}' in {place}")
        if "from" not in entry:
            raise ProblemError(
                f"{place} lacks 'from', the time at which it begins; {form} (the first is the experiment itself)."
            )
        overrides = {
            normal_form(key): _override(f"'{key}' in {place}", one) for key, one in entry.items() if key != "from"
        }
        periods.append(Period(_override(f"'from' of {place}", entry["from"]), overrides))
    return periods


def _override(where: str, value: Any) -> float | str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | dict | list):
        raise ProblemError(f"{where} must be a number or the text of an expression, not {words_for(value)}.")
    return number(where, value)


def _rows(file: Located, model: Model, tables: Collection[str]) -> dict[str, Any]:
    sheet = read_sheet(file.folder / text("[experiments] file", file.given), what="file of experiments")
    name_column = next((column for column in ("experiment", "name") if column in sheet), None)
    if name_column is None:
        raise ProblemError(f"{sheet.name} has no column 'experiment' for the names of the experiments.")
    _check_columns(sheet, name_column, model, tables)
    result: dict[str, Any] = {}
    for row, name in enumerate(sheet.texts(name_column).tolist()):
        place = sheet.place(row, name_column)
        if not name:
            raise ProblemError(f"{place}: the cell is empty; every row needs the name of an experiment.")
        if name in result:
            raise ProblemError(f"{place}: the experiment '{name}' is given twice; keep one row.")
        cells = {key: column[row] for key, column in sheet.columns.items() if key != name_column}
        result[name] = {
            key: _cell(sheet.place(row, key), key, cell, sheet.decimal_comma)
            for key, cell in cells.items()
            if cell not in MISSING
        }
    return result


def _check_columns(sheet: Sheet, name_column: str, model: Model, tables: Collection[str]) -> None:
    known = (*_replaceable(model), *tables)
    for column in sheet.columns:
        if column == name_column or column in _IN_FILES:
            continue
        if column == "before":
            raise UnsupportedError(f"the column 'before' of {sheet.name}; write it into entries of [experiments]")
        name = normal_form(column)
        if name in model.shown:
            raise ProblemError(
                f"{sheet.name} has a column '{column}', a state; write '{initial_name(column)}' for its initial value."
            )
        if name not in known:
            raise ProblemError(
                f"{sheet.name} has a column '{column}', which the model does not have{suggestion(column, known)}"
            )


def _replaceable(model: Model) -> tuple[str, ...]:
    initial: Iterable[str] = map(initial_name, model.shown)
    return (*initial, *model.parameters, *model.definitions)


def _cell(place: str, key: str, cell: str, decimal_comma: bool) -> float | str:
    try:
        value: float | str = number_of(cell, decimal_comma)
    except ValueError:
        value = cell
    if key == "until" and isinstance(value, str):
        raise ProblemError(f"{place}: '{cell}' is not a number.")
    return cell if key in ("use", "start") else value
