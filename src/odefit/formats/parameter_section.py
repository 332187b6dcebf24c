"""``[parameters]``: entries, a table in a file, and patterns of names.

An entry is a start value or a table.  ``file = "parameters.csv"`` names a table with a row for each
parameter; where an entry has the same name, tables are merged and the entry wins, a number replaces the
row.  An entry ``"k*"`` holds for every name of the model without a value that matches it and has no entry
or row of its own.  ``"A0[b1]" = 2`` is the start value of one experiment or group of a parameter with `per`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from odefit.errors import ProblemError, UnsupportedError, suggestion
from odefit.formats.data_files import is_pattern
from odefit.formats.inheritance import Located, merged
from odefit.formats.sections import check_keys, flag, number, text
from odefit.formats.sheet import MISSING, number_of
from odefit.formats.sheet_file import read_sheet
from odefit.model import Model
from odefit.model.names import normal_form
from odefit.problem import Parameter

_READERS: dict[str, Callable[[str, Any], Any]] = {
    "start": number, "lower": number, "upper": number, "scale": text, "fixed": flag, "prior": text,
    "expression": text, "per": text, "linear": flag, "unit": text, "auto": flag,
}  # fmt: skip
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def read_parameters(section: Mapping[str, Any], model: Model) -> tuple[tuple[Parameter, ...], dict[str, float]]:
    """Read the parameters, and the start values of single slots, such as ``A0[b1]``."""
    entries = dict(section)
    file = entries.get("file")
    if isinstance(file, Located):
        del entries["file"]
        entries = merged(_rows(file), entries, ("parameters",))
    entries = _normal(entries)
    starts = {name: entries.pop(name) for name in _slots(entries, model)}
    parameters = tuple(_parameter(name, entry) for name, entry in _expanded(entries, model).items())
    return parameters, {name: number(f"the start value of '{name}'", value) for name, value in starts.items()}


def _normal(entries: Mapping[str, Any]) -> dict[str, Any]:
    """Write names as the model does (look-alike letters are one); what stands in brackets is kept."""
    result: dict[str, Any] = {}
    for name, entry in entries.items():
        base, bracket, key = name.partition("[")
        normal = f"{normal_form(base)}{bracket}{key}"
        if normal in result:
            raise ProblemError(f"the parameter '{normal}' is given twice, in two spellings; keep one.")
        result[normal] = entry
    return result


def _slots(entries: Mapping[str, Any], model: Model) -> list[str]:
    """Return the names such as ``A0[b1]`` of which the part before the bracket is a parameter with `per`."""
    candidates = [name for name in entries if "[" in name and name.endswith("]")]
    if not candidates:
        return []
    others = _expanded({name: entry for name, entry in entries.items() if name not in candidates}, model)
    owners = {name for name, entry in others.items() if isinstance(entry, dict) and "per" in entry}
    return [name for name in candidates if name.partition("[")[0] in owners]


def _expanded(entries: Mapping[str, Any], model: Model) -> dict[str, Any]:
    """Replace patterns by the names that they stand for."""
    result: dict[str, Any] = {}
    pattern_of: dict[str, str] = {}
    for name, entry in entries.items():
        if not is_pattern(name):
            result[name] = entry
            continue
        matching = [one for one in model.parameters if fnmatchcase(one, name)]
        if not matching:
            hint = suggestion(name, model.parameters)
            raise ProblemError(f"the pattern '{name}' in [parameters] matches no parameter of the model{hint}")
        for one in matching:
            if one in entries:
                continue
            if one in pattern_of:
                raise ProblemError(
                    f"the parameter '{one}' matches the patterns '{pattern_of[one]}' and '{name}'; "
                    "give it an entry of its own."
                )
            pattern_of[one] = name
            result[one] = entry
    return result


def _parameter(name: str, entry: Any) -> Parameter:
    if not isinstance(entry, dict):
        if entry == "auto":
            return Parameter(name, auto=True)
        if isinstance(entry, str):
            raise ProblemError(
                f"the start value of '{name}' must be a number, not the text '{entry}'; "
                f'an expression is written {name} = {{ expression = "..." }}.'
            )
        return Parameter(name, start=number(f"the start value of '{name}'", entry))
    where = f"parameter '{name}'"
    check_keys(where, entry, _READERS)
    if entry.get("start") == "auto":  # a short form of auto = true
        entry = {key: value for key, value in entry.items() if key != "start"} | {"auto": True}
    if entry.get("linear") is True:
        raise UnsupportedError(f"linear = true of '{name}'; give it a start value instead")
    if "start" not in entry and "expression" not in entry and not entry.get("auto"):
        raise ProblemError(f"{where} has no start value; add start = ...")
    options = {key: _READERS[key](f"'{key}' of '{name}'", value) for key, value in entry.items()}
    return Parameter(name, **options)


def _rows(file: Located) -> dict[str, Any]:
    """Read a table of parameters: a column a key; an empty cell is a key that is not given."""
    sheet = read_sheet(file.folder / text("[parameters] file", file.given), what="file of parameters")
    check_keys(sheet.name, sheet.columns, ("name", *_READERS), kind="column")
    if "name" not in sheet:
        raise ProblemError(f"{sheet.name} has no column 'name' for the names of the parameters.")
    result: dict[str, Any] = {}
    for row, name in enumerate(sheet.texts("name").tolist()):
        place = sheet.place(row, "name")
        if not name:
            raise ProblemError(f"{place}: the cell is empty; every row needs the name of a parameter.")
        if name in result:
            raise ProblemError(f"{place}: the parameter '{name}' is given twice; keep one row.")
        entry: dict[str, Any] = {}
        for key in sheet.columns:
            cell = sheet.columns[key][row]
            if key != "name" and cell not in MISSING:
                entry[key] = _cell(sheet.place(row, key), key, cell, sheet.decimal_comma)
        result[name] = entry
    return result


def _cell(place: str, key: str, cell: str, decimal_comma: bool) -> Any:
    reader = _READERS[key]
    if reader is flag:
        if cell.lower() not in _FLAGS:
            raise ProblemError(f"{place}: '{cell}' is neither true nor false.")
        return _FLAGS[cell.lower()]
    if reader is text or (key == "start" and cell == "auto"):
        return cell
    try:
        value = number_of(cell, decimal_comma)
    except ValueError:
        raise ProblemError(f"{place}: '{cell}' is not a number; leave it empty if there is none.") from None
    if math.isnan(value):
        raise ProblemError(f"{place}: '{cell}' is not a number; leave it empty if there is none.")
    return value
