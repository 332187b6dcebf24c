"""``[data]``: all files of a problem become its measurements.

Which experiment a file without a column ``experiment`` belongs to:

- no ``[experiments]``: a single file is the experiment ``main``; of several files each is an experiment
  of its own, named like the file without its ending;
- one experiment described (those with ``use = "predict"`` have no data and do not count): that one, for
  any number of files; none that counts: ``main``;
- several described: each file belongs to the one that has its name without the ending, or the part of it
  that the star of a pattern stands for (``spectra_b330.csv`` in ``spectra_*.csv`` to ``b330``); a single
  file that no experiment is named after belongs to ``main`` if that is described.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from odefit.errors import ProblemError, suggestion
from odefit.formats.data_columns import DataNames
from odefit.formats.data_files import DataFile, find_data_files
from odefit.formats.data_options import DataOptions
from odefit.formats.data_values import Values, located, values_of
from odefit.formats.sections import check_keys
from odefit.formats.sheet import Sheet
from odefit.formats.sheet_file import read_sheet
from odefit.problem import Experiment, Measurements

MAIN = "main"
KEYS = ("file", "columns", "time", "origin", "sigma", "melt", "arguments")


def read_data(
    section: dict[str, Any],
    folder: Path,
    names: DataNames,
    described: Sequence[Experiment],
) -> tuple[Measurements, Sequence[Values]]:
    """Read the data of a problem file; return them with the values of each sheet, which know their places.

    Parameters
    ----------
    section
        The table ``[data]``.
    folder
        What file names are relative to.
    names
        The names that data may use.
    described
        The experiments of ``[experiments]``.
    """
    check_keys("[data]", section, KEYS)
    options = DataOptions.of(**{key: section.get(key) for key in ("time", "origin", "columns", "melt", "arguments")})
    if "file" not in section:
        raise ProblemError('there are no data; add file = "....csv" to [data].')
    files = find_data_files(section["file"], folder)
    sheets = [
        read_sheet(file.path, what="data file", texts=names.texts(options), rename=options.columns) for file in files
    ]
    melted = options.melt is not None and options.melt.into == "experiment"
    bare = [file for file, sheet in zip(files, sheets, strict=True) if "experiment" not in sheet and not melted]
    owners = _owners(bare, described, alone=len(files) == 1)
    parts = [values_of(sheet, options, names, owners.get(file.path)) for file, sheet in zip(files, sheets, strict=True)]
    return joined(parts, options, names), parts


def _owners(files: Sequence[DataFile], described: Sequence[Experiment], *, alone: bool) -> dict[Path, str]:
    """Find the experiment of each file that has no column for it; a file without an entry needs that column."""
    if not described:
        return _named_by_title({file.path: MAIN if alone else file.titles[0] for file in files})
    measured = [one.name for one in described if one.use != "predict"]
    if len(measured) <= 1:
        return {file.path: measured[0] if measured else MAIN for file in files}
    owners: dict[Path, str] = {}
    for file in files:
        fitting = [title for title in file.titles if title in measured]
        if fitting:
            owners[file.path] = fitting[0]
        elif alone and MAIN in measured:
            owners[file.path] = MAIN
        elif not alone:
            raise ProblemError(
                f"the data file '{file.path.name}' has no column 'experiment', and no experiment is called "
                f"'{file.titles[-1]}'{suggestion(file.titles[-1], measured)}"
            )
    return owners


def _named_by_title(owners: dict[Path, str]) -> dict[Path, str]:
    seen: dict[str, Path] = {}
    for path, name in owners.items():
        if name in seen:
            raise ProblemError(
                f"the data files '{seen[name]}' and '{path}' would both be the experiment '{name}'; "
                "rename one or add a column 'experiment'."
            )
        seen[name] = path
    return owners


def joined(parts: Sequence[Values], options: DataOptions, names: DataNames) -> Measurements:
    """Put the values of all sheets together."""
    _check_renamed([part.sheet for part in parts], options)
    groups = dict.fromkeys(name for part in parts for name in part.groups)
    for name in names.groups:
        if name not in groups:
            columns = dict.fromkeys(column for part in parts for column in part.sheet.columns)
            raise ProblemError(
                f"a parameter has per = \"{name}\", but the data have no column '{name}'{suggestion(name, columns)}"
            )
    for symbol, column in options.arguments.items():
        if not any(symbol in part.arguments for part in parts):
            columns = dict.fromkeys(name for part in parts for name in part.sheet.columns)
            raise ProblemError(
                f"[data] arguments takes '{symbol}' from the column '{column}', but the data have no such column"
                f"{suggestion(column, columns)}"
            )
    rows: list[Any] = []
    for part in parts:
        # rows of later sheets are numbered on; the first one keeps its own numbers
        rows.append(part.row + (int(rows[-1].max()) + 1 - int(part.row.min()) if rows else 0))
    with located(parts):
        return Measurements(
            experiment=_stacked([part.experiment for part in parts]),
            time=_stacked([part.time for part in parts]),
            observable=_stacked([part.observable for part in parts]),
            value=_stacked([part.value for part in parts]),
            row=_stacked(rows),
            sigma=_stacked([part.sigma for part in parts]),
            weight=_stacked([part.weight for part in parts]),
            side=_stacked([part.side for part in parts]),
            since=_stacked([part.since for part in parts]),
            groups={name: _texts([part.groups.get(name) for part in parts], parts) for name in groups},
            arguments={
                symbol: _texts([part.arguments.get(symbol) for part in parts], parts) for symbol in options.arguments
            },
        )


def _texts(columns: Sequence[Any], parts: Sequence[Values]) -> Any:
    """Put columns of text together; what a sheet does not have is empty."""
    pairs = zip(columns, parts, strict=True)
    return _stacked([np.full(len(part.value), "", object) if one is None else one for one, part in pairs])


def _check_renamed(sheets: Sequence[Sheet], options: DataOptions) -> None:
    """Every column that is renamed occurs in some sheet."""
    renamed = {source for sheet in sheets for source in sheet.sources.values()}
    for source, name in options.columns.items():
        if source not in renamed and source != name:
            columns = dict.fromkeys(sheet.sources.get(column, column) for sheet in sheets for column in sheet.columns)
            raise ProblemError(
                f"[data] columns renames '{source}', but the data have no such column{suggestion(source, columns)}"
            )


def _stacked(arrays: list[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
