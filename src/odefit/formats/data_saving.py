"""Measurements as a tidy CSV file: experiment, time, observable, value, and what else there is."""

from __future__ import annotations

from typing import Any

import numpy as np

from odefit.errors import ProblemError
from odefit.formats.data_options import FROM, RESERVED
from odefit.formats.sheet import MISSING, Column
from odefit.problem import Problem


def data_csv(problem: Problem) -> str:
    """Return the text of the file; `load_problem` reads the same measurements in the same order."""
    data = problem.measurements
    columns: dict[str, list[str]] = {
        "experiment": _names("experiment", data.experiment),
        "time": _numbers(data.time),
        "observable": _names("observable", data.observable),
        "value": _numbers(data.value),
    }
    if data.has_sigma.any():
        columns["sigma"] = _cells("sigma", data.sigma)
    if not np.isnan(data.weight).all():
        columns["weight"] = _numbers(data.weight)
    if data.after.any():
        columns["side"] = ["after" if after else "before" for after in data.after.tolist()]
    if not np.isnan(data.since).all():
        columns[FROM] = _numbers(data.since)
    if not np.array_equal(data.row, np.arange(len(data))):
        if np.any(np.abs(data.row) >= 2**53):
            raise ProblemError("the measurements have numbers of rows beyond 2^53, which cannot be saved.")
        columns["row"] = [str(row) for row in data.row.tolist()]
    for name, cells in data.groups.items():
        if name in RESERVED:
            raise ProblemError(
                f"the group '{name}' has the name of another data column and cannot be saved; rename it."
            )
        columns[_cell("group", name)] = _names(f"group '{name}'", cells)
    for symbol, title in argument_columns(problem).items():
        columns[title] = _cells(f"argument '{symbol}'", data.arguments[symbol])
    lines = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True))]
    return "\n".join(lines) + "\n"


def argument_columns(problem: Problem) -> dict[str, str]:
    """Return the column of each argument: it is called like the symbol, if no other column is."""
    data, titles = problem.measurements, {}
    for symbol in data.arguments:
        title = symbol
        while title in RESERVED or title in data.groups or title in titles.values():
            title += "_"
        titles[symbol] = title
    return titles


def unused_group(problem: Problem) -> str | None:
    """Return the group that no parameter names, as melted data have; a file can say one."""
    named = {parameter.per for parameter in problem.parameters}
    unused = [name for name in problem.measurements.groups if name not in named]
    if len(unused) > 1:
        raise ProblemError(
            f"no parameter has one value per '{unused[0]}' or '{unused[1]}'; a file can keep only one such group."
        )
    return unused[0] if unused else None


def _numbers(values: Any) -> list[str]:
    """Write floats so that they read back exactly; a missing one is empty."""
    return ["" if value != value else repr(value) for value in values.tolist()]


def _cells(what: str, cells: Column) -> list[str]:
    """Write numbers and names."""
    if cells.dtype != object:
        return _numbers(cells)
    for name in dict.fromkeys(cells.tolist()):
        if isinstance(name, str) and name and name in MISSING:
            raise ProblemError(f"the {what} '{name}' would not be read back from a CSV file; rename the parameter.")
    return [cell if isinstance(cell, str) else repr(cell) for cell in cells.tolist()]


def _names(what: str, cells: Column) -> list[str]:
    written = {name: _cell(what, name) for name in dict.fromkeys(cells.tolist())}
    return [written[name] for name in cells.tolist()]


def _cell(what: str, name: Any) -> str:
    """Write a name, in quotes if it needs them; refuse one that would read back as another."""
    if not isinstance(name, str):
        raise ProblemError(f"the {what} {name!r} is not text and cannot be saved.")
    group = what.startswith("group '")
    if name != name.strip() or not (name.isprintable() or name == "") or (group and name and name in MISSING):
        raise ProblemError(f"the {what} {name!r} would not be read back from a CSV file; rename it.")
    if not name and not group:
        raise ProblemError(f"a measurement has an empty name of its {what}; name it.")
    return '"' + name.replace('"', '""') + '"' if any(letter in name for letter in ',;"#\t') else name
