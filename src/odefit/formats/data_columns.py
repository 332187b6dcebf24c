"""What the columns of a sheet of data are: time, measured values, what belongs to the row, groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from odefit.errors import ProblemError, UnsupportedError, suggestion
from odefit.formats.data_options import FROM, PLANNED, RESERVED, ROW, TIDY, DataOptions
from odefit.formats.sheet import Sheet
from odefit.model import Model
from odefit.model.names import normal_form

Kind = Literal["wide", "tidy", "matrix"]
SPREADS = ("sigma", "weight")
_LONGEST_SHOWN = 80  # characters in the name of a column


@dataclass(frozen=True)
class DataNames:
    """The names that data may use.

    Attributes
    ----------
    observables
        States, definitions, and conditions, which are checked; None if any name will do.
    groups
        Columns that some parameter has one value per entry of.
    experiments
        The experiments that are described; empty if the data decide.
    time
        The model's independent variable.
    """

    observables: tuple[str, ...] | None = None
    groups: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    time: str = "time"

    @classmethod
    def of(
        cls,
        model: Model | None,
        per: Iterable[str | None],
        experiments: Iterable[str] = (),
        conditions: Iterable[str] = (),
    ) -> DataNames:
        """Collect the names of a model, of `per` of its parameters, of experiments, and of what these set."""
        groups = tuple(dict.fromkeys(name for name in per if name is not None and name != "experiment"))
        for name in groups:
            if name in RESERVED:
                raise ProblemError(
                    f'per = "{name}" of a parameter names a data column with another meaning; '
                    "copy it to a column with a name of its own."
                )
            if model is not None and (name in model.shown or name in model.definitions):
                raise ProblemError(
                    f'per = "{name}" of a parameter names a state or definition of the model; '
                    "give the data column another name."
                )
        if model is None:
            return cls(None, groups, tuple(experiments))
        observables = dict.fromkeys((*model.shown, *model.definitions, *conditions))
        return cls(tuple(observables), groups, tuple(experiments), model.time)

    def observes(self, name: str) -> bool:
        """Tell whether `name` can be measured."""
        return self.observables is None or name in self.observables

    def times(self, options: DataOptions) -> tuple[str, ...]:
        """Return the names that the time column may have."""
        return (options.time,) if options.time is not None else tuple(dict.fromkeys(("time", self.time)))

    def texts(self, options: DataOptions) -> frozenset[str]:
        """Return the columns that hold text."""
        dates = self.times(options) if options.origin is not None else ()
        melted = () if options.melt is None else (options.melt.into,)
        row = [name for name in ("side", FROM) if name not in (self.observables or ())]
        texts = [name for name in row if name != FROM or options.origin is not None]
        return frozenset(
            {"experiment", "observable", *texts, *self.groups, *options.arguments.values(), *melted, *dates}
        )


@dataclass(frozen=True)
class Layout:
    """The columns of one sheet.

    Attributes
    ----------
    kind
        "wide": a column an observable; "tidy": a line a value; "matrix": to be melted.
    time
        The time column.
    values
        Columns with measured values, except in a tidy sheet.
    groups
        Columns that are groups.
    spreads
        "sigma" and "weight", as far as they are columns of the row.
    arguments
        Symbols to their columns, as far as the sheet has these, of the row or of single columns (``y.scale``).
    """

    kind: Kind
    time: str
    values: tuple[str, ...]
    groups: tuple[str, ...]
    spreads: tuple[str, ...]
    arguments: Mapping[str, str]


def layout_of(sheet: Sheet, options: DataOptions, names: DataNames) -> Layout:
    """Find out what each column of `sheet` is; a column without a meaning is an error."""
    time = _time_column(sheet, options, names)
    for symbol, column in options.arguments.items():
        if column == time or column in (names.observables or ()):
            what = "the time" if column == time else "a state or definition of the model"
            raise ProblemError(
                f"[data] arguments takes '{symbol}' from the column '{column}', which is {what}; copy it to a column "
                "with a name of its own."
            )
    tidy = all(name in sheet for name in TIDY)
    if options.melt is not None and not (tidy and options.melt.into in sheet):
        return _matrix(sheet, time, options, options.melt.into, names)
    if tidy:
        return _tidy(sheet, time, options, names)
    return _wide(sheet, time, options, names)


def _time_column(sheet: Sheet, options: DataOptions, names: DataNames) -> str:
    possible = names.times(options)
    for name in possible:
        if name in sheet:
            return name
    alternatives = " or ".join(f"'{name}'" for name in possible)
    columns = "Its columns are " + ", ".join(f"'{name}'" for name in list(sheet.columns)[:12])
    if len(sheet.columns) == 1 or max(map(len, sheet.columns)) > _LONGEST_SHOWN:  # may be anybody's file
        columns = "Its first line is no list of columns"
    advice = '[data] time = "..." names another one'
    if all(_is_number(name) for name in sheet.columns):
        advice = "the first line that is not a comment (#) must name the columns"
    elif len(sheet.columns) == 1:
        advice = "columns are separated by commas, semicolons or tabs"
    raise ProblemError(
        f"{sheet.name} has no column {alternatives} for the time{suggestion(possible[0], sheet.columns)} "
        f"{columns}; {advice}."
    )


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _arguments(sheet: Sheet, options: DataOptions, values: Iterable[str] = ()) -> dict[str, str]:
    """Return the arguments that the row, or one of the columns `values`, has a column for."""
    own = {name.rpartition(".")[2] for name in sheet.columns if name.rpartition(".")[0] in {*values}}
    return {symbol: name for symbol, name in options.arguments.items() if name in sheet or name in own}


def _matrix(sheet: Sheet, time: str, options: DataOptions, into: str, names: DataNames) -> Layout:
    if into in sheet:
        raise ProblemError(f"{sheet.name} has a column '{into}' already, so [data] melt cannot make it; rename one.")
    groups = tuple(name for name in names.groups if name in sheet)
    spreads = tuple(name for name in SPREADS if name in sheet)
    known = {time, "experiment", "side", FROM, *spreads, *groups, *options.arguments.values()}
    values = []
    for name in sheet.columns:
        if name in PLANNED:
            raise UnsupportedError(f"the data column '{name}' in {sheet.name}")
        if name not in known and not _serves(sheet, name, known, options):
            values.append(name)
    if not values:
        raise ProblemError(f"{sheet.name} has no column to melt; every column belongs to the row.")
    return Layout("matrix", time, tuple(values), groups, spreads, _arguments(sheet, options, values))


def _tidy(sheet: Sheet, time: str, options: DataOptions, names: DataNames) -> Layout:
    melted = () if options.melt is None else (options.melt.into,)
    groups = tuple(name for name in dict.fromkeys((*names.groups, *melted)) if name in sheet)
    known = (time, *TIDY, *ROW, "row", *groups, *options.arguments.values())
    for name in sheet.columns:
        if name in PLANNED:
            raise UnsupportedError(f"the data column '{name}' in {sheet.name}")
        if name not in known:
            raise ProblemError(
                f"{sheet.name} has a column '{name}' without a meaning{suggestion(name, (*known, *names.groups))} "
                f"{_advice(name)}"
            )
    spreads = tuple(name for name in SPREADS if name in sheet)
    return Layout("tidy", time, (), groups, spreads, _arguments(sheet, options))


def _wide(sheet: Sheet, time: str, options: DataOptions, names: DataNames) -> Layout:
    groups = tuple(name for name in names.groups if name in sheet)
    observables = names.observables or ()
    spreads = tuple(name for name in SPREADS if name in sheet and name not in observables)
    row = [name for name in ("side", FROM) if name not in observables]
    known = {time, "experiment", *row, *groups, *spreads, *options.arguments.values()}
    values = []
    for name in sheet.columns:
        if name in known or _serves(sheet, name, known, options):
            continue
        if name in PLANNED and name not in observables:
            raise UnsupportedError(f"the data column '{name}' in {sheet.name}")
        if not names.observes(normal_form(name)):
            raise ProblemError(_unknown_column(sheet, name, options, names))
        values.append(name)
    if not values:
        raise ProblemError(f"{sheet.name} has no column with measured values; name one after a state or definition.")
    return Layout("wide", time, tuple(values), groups, spreads, _arguments(sheet, options, values))


def _serves(sheet: Sheet, name: str, known: set[str], options: DataOptions) -> bool:
    """Tell whether a column such as ``y.sigma`` serves another one; if that does not exist it is an error."""
    base, dot, kind = name.rpartition(".")
    if not dot or kind not in (*SPREADS, *options.arguments.values()):
        return False
    if base not in sheet or base in known:
        columns = [column for column in sheet.columns if column not in known and column != name]
        raise ProblemError(
            f"{sheet.name} has a column '{name}', but no measured column '{base}'{suggestion(base, columns)}"
        )
    return True


def _unknown_column(sheet: Sheet, name: str, options: DataOptions, names: DataNames) -> str:
    observables = names.observables or ()
    known = (*observables, *ROW, *names.groups, *options.arguments.values())
    shown = sheet.sources.get(name, name)
    renamed = f" (renamed to '{name}')" if shown != name else ""
    message = f"{sheet.name} has a column '{shown}'{renamed}, which is no state and no definition of the model"
    if name in TIDY:
        missing = "value" if name == "observable" else "observable"
        return f"{message}; a tidy file needs a column '{missing}' beside it."
    return f"{message}{suggestion(name, known)} {_advice(name)}"


def _advice(name: str) -> str:
    return (
        f'Rename it in [data] columns, remove it, name it in [data] arguments, or let a parameter have per = "{name}".'
    )
