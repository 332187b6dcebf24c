"""From the columns of a sheet to single measured values, each with its place in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from odefit.errors import MeasurementError, ProblemError, suggestion
from odefit.formats.data_columns import DataNames, Layout, layout_of
from odefit.formats.data_dates import date_of, days_since
from odefit.formats.data_options import FROM, DataOptions
from odefit.formats.sheet import MISSING, Column, Sheet
from odefit.model.names import normal_form
from odefit.problem.cells import SIGMA, words_for_argument

Array = npt.NDArray[np.float64]
SIDES = {"before": -1, "after": 1}
"""What the data column `side` says, and what `Measurements.side` holds."""


@dataclass(frozen=True, eq=False)
class Values:
    """The measured values of one sheet; every array has shape (n,).

    Attributes
    ----------
    sheet, columns
        Where the values stand: line by line in these columns of the sheet.
    experiment, time, observable, value, sigma, weight, side, since, groups, arguments
        As in `Measurements`.
    row
        Which values were taken together, numbered within the sheet.
    places
        For standard deviations and arguments the columns, as many as `columns`, where they stand; they are called as in
        messages (see `odefit.problem.cells`).
    """

    sheet: Sheet
    columns: tuple[str, ...]
    experiment: Column
    time: Array
    observable: Column
    value: Array
    row: npt.NDArray[np.int64]
    sigma: Column
    weight: Array
    side: npt.NDArray[np.int64]
    since: Array
    groups: Mapping[str, Column]
    arguments: Mapping[str, Column]
    places: Mapping[str, tuple[str, ...]]

    def place(self, index: int, cell: str = "") -> str:
        """Return the place of a value in words, or that of its cell of an argument or `sigma`, if it has one."""
        row, position = divmod(index, len(self.columns))
        own = self.places.get(cell, self.columns)[position]
        return self.sheet.place(row, own if own in self.sheet else self.columns[position])


@contextmanager
def located(parts: Sequence[Values]) -> Iterator[None]:
    """Let an error about a single measurement name its place in the sheets, put together in this order."""
    try:
        yield
    except MeasurementError as error:
        index = error.index
        for part in parts:
            if index < len(part.value):
                raise ProblemError(f"{part.place(index, error.cell)}: {error.fault}") from error
            index -= len(part.value)
        raise


def values_of(sheet: Sheet, options: DataOptions, names: DataNames, experiment: str | None) -> Values:
    """Read the measured values of a sheet.

    Parameters
    ----------
    experiment
        The experiment of a sheet without a column of that name; None if that column is needed.
    """
    layout = layout_of(sheet, options, names)
    melted_experiment = options.melt is not None and options.melt.into == "experiment"
    if experiment is None and "experiment" not in sheet and not melted_experiment:
        known = ", ".join(f"'{name}'" for name in names.experiments)
        several = f", but there are the experiments {known}" if known else ", and there are other data"
        raise ProblemError(f"{sheet.name} has no column 'experiment'{several}; add that column.")
    times = _times(sheet, layout.time, options)
    return (_tidy if layout.kind == "tidy" else _spread)(sheet, layout, options, names, times, experiment)


def _times(sheet: Sheet, column: str, options: DataOptions) -> Array:
    if options.origin is not None:
        times = days_since(sheet, column, options.origin)
    else:
        try:
            times = sheet.numbers(column)
        except ProblemError:
            dates = [row for row, cell in enumerate(sheet.texts(column)[:100]) if date_of(cell) is not None]
            if not dates:
                raise
            raise ProblemError(
                f"{sheet.place(dates[0], column)}: the times are dates, which need an origin: "
                'write origin = "2020-03-01", say, in [data]; the unit is a day.'
            ) from None
    for row in np.flatnonzero(np.isnan(times) | (times == -np.inf)):
        place = sheet.place(int(row), column)
        what = "missing" if np.isnan(times[row]) else "not finite"
        raise ProblemError(f"{place}: the time is {what}; every row needs the time of its measurement.")
    return times


def _spread(
    sheet: Sheet, layout: Layout, options: DataOptions, names: DataNames, times: Array, experiment: str | None
) -> Values:
    """Take the cells of wide and matrix sheets, line by line."""
    m, k = len(sheet), len(layout.values)

    def repeated(cells: Column) -> Column:
        return np.repeat(cells, k)

    def tiled(cells: tuple[str, ...]) -> Column:
        return np.tile(np.array(cells, dtype=object), m)

    def columns_of(kind: str) -> tuple[str, ...]:
        """Return where each value finds its own: in a column that serves its column, or in that of the row."""
        return tuple(title if (title := f"{name}.{kind}") in sheet else kind for name in layout.values)

    def spread(kind: str, read: Callable[[str], Column], missing: Column) -> Column:
        of_row = read(kind) if kind in (*layout.spreads, *layout.arguments.values()) and kind in sheet else missing
        titles = columns_of(kind)
        if all(title == kind for title in titles):
            return np.repeat(of_row, k)
        return np.stack([of_row if title == kind else read(title) for title in titles], axis=1).ravel()

    nothing, no_name = np.full(m, np.nan), np.full(m, "", dtype=object)
    groups = {name: repeated(_group(sheet, name)) for name in layout.groups}
    experiments = None if experiment is None else np.full(m, experiment, dtype=object)
    if "experiment" in sheet:
        experiments = _names(sheet, "experiment", names.experiments)
    melt = options.melt if layout.kind == "matrix" else None
    observables = tuple(normal_form(name) if names.observables is not None else name for name in layout.values)
    if melt is not None:
        if not names.observes(normal_form(melt.value)):
            raise ProblemError(
                f"[data] melt value = '{melt.value}' is no state and no definition of the model"
                f"{suggestion(melt.value, names.observables or ())}"
            )
        if melt.into == "experiment":
            experiments = None
            _check_melted(sheet, layout.values, names.experiments)
        else:
            groups[melt.into] = tiled(layout.values)
        observables = (melt.value if names.observables is None else normal_form(melt.value),) * k
    every = tiled(layout.values) if experiments is None else repeated(experiments)
    return Values(
        sheet=sheet,
        columns=layout.values,
        experiment=every,
        time=np.repeat(times, k),
        observable=tiled(observables),
        value=np.stack([sheet.numbers(name) for name in layout.values], axis=1).ravel(),
        row=np.repeat(np.arange(m), k),
        sigma=spread("sigma", sheet.cells, nothing),
        weight=spread("weight", sheet.numbers, nothing),
        side=np.repeat(_sides(sheet, measured=layout.kind == "wide" and "side" in layout.values), k),
        since=np.repeat(_since(sheet, options, measured=layout.kind == "wide" and FROM in layout.values), k),
        groups=groups,
        arguments={symbol: spread(name, sheet.cells, no_name) for symbol, name in layout.arguments.items()},
        places={
            SIGMA: columns_of("sigma"),
            **{words_for_argument(symbol): columns_of(name) for symbol, name in layout.arguments.items()},
        },
    )


def _check_melted(sheet: Sheet, titles: tuple[str, ...], known: tuple[str, ...]) -> None:
    for name in titles:
        if known and name not in known:
            raise ProblemError(
                f"{sheet.name} has a column '{name}', which is not an experiment{suggestion(name, known)}"
            )


def _tidy(
    sheet: Sheet, layout: Layout, options: DataOptions, names: DataNames, times: Array, experiment: str | None
) -> Values:
    m = len(sheet)
    missing = np.full(m, np.nan)
    return Values(
        sheet=sheet,
        columns=("value",),
        experiment=_names(sheet, "experiment", names.experiments)
        if "experiment" in sheet
        else np.full(m, experiment, dtype=object),
        time=times,
        observable=_names(sheet, "observable", names.observables or ()),
        value=sheet.numbers("value"),
        row=_row_numbers(sheet) if "row" in sheet else np.arange(m),
        sigma=sheet.cells("sigma") if "sigma" in sheet else missing,
        weight=sheet.numbers("weight") if "weight" in sheet else missing,
        side=_sides(sheet),
        since=_since(sheet, options),
        groups={name: _group(sheet, name) for name in layout.groups},
        arguments={symbol: sheet.cells(name) for symbol, name in layout.arguments.items()},
        places={
            SIGMA: ("sigma",),
            **{words_for_argument(symbol): (name,) for symbol, name in layout.arguments.items()},
        },
    )


def _names(sheet: Sheet, column: str, known: tuple[str, ...]) -> Column:
    """Return a column of names, each of which is there and, if names are `known`, one of them."""
    cells = sheet.texts(column)
    kind = "an experiment" if column == "experiment" else "a state or definition of the model"
    translated: dict[str, str] = {}
    for name in dict.fromkeys(cells.tolist()):
        translated[name] = name if name in known or column == "experiment" else normal_form(name)
        if name and (not known or translated[name] in known):
            continue
        place = sheet.place(int(np.flatnonzero(cells == name)[0]), column)
        if not name:
            raise ProblemError(f"{place}: the cell is empty; every row needs the name of {kind}.")
        raise ProblemError(f"{place}: '{name}' is not the name of {kind}{suggestion(name, known)}")
    if all(old == new for old, new in translated.items()):
        return cells
    return np.array([translated[name] for name in cells.tolist()], dtype=object)


def _sides(sheet: Sheet, *, measured: bool = False) -> npt.NDArray[np.int64]:
    """Return the side of each row, 1 for "after"; -1 where nothing is said, or where `side` is a `measured` column."""
    sides = np.full(len(sheet), -1)
    if measured or "side" not in sheet:
        return sides
    cells = sheet.texts("side").tolist()
    for row, cell in enumerate(cells):
        if cell in MISSING:
            continue
        if cell not in SIDES:
            raise ProblemError(
                f"{sheet.place(row, 'side')}: '{cell}' is no side; write before or after (an event at that time)."
            )
        sides[row] = SIDES[cell]
    return sides


def _since(sheet: Sheet, options: DataOptions, *, measured: bool = False) -> Array:
    """Return where the interval of each row begins; NaN where nothing is said, or where it is a `measured` column."""
    if measured or FROM not in sheet:
        return np.full(len(sheet), np.nan)
    return sheet.numbers(FROM) if options.origin is None else days_since(sheet, FROM, options.origin)


def _group(sheet: Sheet, column: str) -> Column:
    """Return a column of groups, "" where one is missing."""
    cells = sheet.texts(column)
    missing = [name for name in dict.fromkeys(cells.tolist()) if name in MISSING and name]
    return np.where(np.isin(cells, missing), "", cells).astype(object) if missing else cells


def _row_numbers(sheet: Sheet) -> npt.NDArray[np.int64]:
    numbers = sheet.numbers("row")
    wrong = ~(np.abs(numbers) < 2.0**53) | (numbers != np.floor(numbers))
    if wrong.any():
        place = sheet.place(int(np.flatnonzero(wrong)[0]), "row")
        raise ProblemError(f"{place}: the row is not a whole number; values with the same number were taken together.")
    return numbers.astype(np.int64)
