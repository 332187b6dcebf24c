"""How data are to be read: the keys of ``[data]`` beside the file."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odefit.errors import ProblemError
from odefit.formats.data_dates import origin_of
from odefit.formats.sections import check_keys, table, text
from odefit.model.names import normal_form

TIDY = ("observable", "value")
FROM = "from"
"""The column that says where the interval of a row begins."""
ROW = ("experiment", "sigma", "weight", "side", FROM)
PLANNED = ("below", "above")
RESERVED = ("time", "row", *TIDY, *ROW, *PLANNED)
"""Columns with a meaning of their own."""


@dataclass(frozen=True)
class Melt:
    """A matrix file: the header becomes the column `into`, the cells values of the observable `value`."""

    into: str
    value: str


@dataclass(frozen=True)
class DataOptions:
    """How columns are read.

    Attributes
    ----------
    time
        Name of the time column; None for ``time``, or else the model's independent variable.
    origin
        The date that is time 0, if times are dates; the unit is a day.
    columns
        The file's name of a column to another.
    melt
        How a matrix file is melted.
    arguments
        Symbol of the model to the column whose cells say what it stands for.
    """

    time: str | None = None
    origin: datetime.datetime | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    melt: Melt | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, *, time: Any = None, origin: Any = None, columns: Any = None, melt: Any = None, arguments: Any = None
    ) -> DataOptions:
        """Check the values of the keys; None stands for a key that is not given."""
        renamed = {} if columns is None else table("[data] columns", columns)
        for old, new in renamed.items():
            if not text(f"the new name of column '{old}'", new).strip():
                raise ProblemError(f"[data] columns gives '{old}' an empty name; remove the column from the file.")
        return cls(
            time=None if time is None else text("[data] time", time).strip(),
            origin=None if origin is None else origin_of(origin),
            columns={old.strip(): new.strip() for old, new in renamed.items()},
            melt=None if melt is None else _melt(melt),
            arguments={} if arguments is None else _arguments(arguments),
        )


def _arguments(entry: Any) -> dict[str, str]:
    result: dict[str, str] = {}
    for symbol, column in table("[data] arguments", entry).items():
        name = text(f"[data] arguments {symbol}", column).strip()
        if not name or name in RESERVED:
            raise ProblemError(
                f"[data] arguments takes '{symbol}' from the column '{name}', which has another meaning; "
                "copy it to a column with a name of its own."
            )
        normal = normal_form(symbol.strip())
        if normal in result:
            raise ProblemError(f"[data] arguments has '{normal}' twice, in two spellings; keep one.")
        result[normal] = name
    return result


def _melt(entry: Any) -> Melt:
    section = table("[data] melt", entry)
    check_keys("[data] melt", section, ("into", "value"))
    for key in ("into", "value"):
        if key not in section:
            raise ProblemError(
                f'[data] melt has no \'{key}\'; write melt = {{ into = "new column", value = "observable" }}.'
            )
    melt = Melt(text("[data] melt into", section["into"]).strip(), text("[data] melt value", section["value"]).strip())
    if not melt.into or (melt.into in RESERVED and melt.into != "experiment"):
        raise ProblemError(f"[data] melt into = '{melt.into}' cannot be the name of a new column; choose another one.")
    return melt
