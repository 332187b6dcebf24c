"""Dates as times: days since an origin."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError
from odefit.formats.sections import words_for
from odefit.formats.sheet import MISSING, Sheet

_DAY = datetime.timedelta(days=1)
_EXAMPLES = "2020-03-01 or 2020-03-01T12:30"


def origin_of(origin: Any) -> datetime.datetime:
    """Read the origin: ISO text, or a date of TOML or Python."""
    if isinstance(origin, datetime.datetime):
        return origin
    if isinstance(origin, datetime.date):
        return datetime.datetime(origin.year, origin.month, origin.day)
    if not isinstance(origin, str):
        raise ProblemError(f"[data] origin must be a date such as {_EXAMPLES}, not {words_for(origin)}.")
    date = date_of(origin)
    if date is None:
        raise ProblemError(f"[data] origin '{origin}' is not a date; write {_EXAMPLES}.")
    return date


def date_of(text: str) -> datetime.datetime | None:
    """Return the date that ISO text holds, or None."""
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


def days_since(sheet: Sheet, column: str, origin: datetime.datetime) -> npt.NDArray[np.float64]:
    """Turn a column of dates into days since `origin`; a missing one is NaN.

    Dates with a time zone are compared in universal time, and then all of them need one (an origin
    without time zone counts as universal time).
    """
    zoned: bool | None = True if origin.tzinfo is not None else None
    known: dict[str, float] = {}
    cells = sheet.texts(column).tolist()
    for row, cell in enumerate(cells):
        if cell in known:
            continue
        if cell in MISSING:
            known[cell] = np.nan
            continue
        date = date_of(cell)
        if date is None:
            raise ProblemError(f"{sheet.place(row, column)}: '{cell}' is not a date; write {_EXAMPLES}.")
        if zoned is None:
            zoned = date.tzinfo is not None
        if zoned != (date.tzinfo is not None):
            raise ProblemError(
                f"{sheet.place(row, column)}: '{cell}' has {'no' if zoned else 'a'} time zone, unlike the dates "
                "before it or the origin; give all of them one, or none."
            )
        known[cell] = days_between(date, origin)
    return np.array([known[cell] for cell in cells], dtype=float)


def days_between(date: datetime.datetime, origin: datetime.datetime) -> float:
    """Return the days from `origin` to `date`; an origin without time zone counts as universal time."""
    if date.tzinfo is not None and origin.tzinfo is None:
        origin = origin.replace(tzinfo=datetime.UTC)
    return (date - origin) / _DAY


def date_in(value: Any) -> datetime.datetime | None:
    """Return the date that a value of a file is, as text or as a date of TOML; None if it is none."""
    if isinstance(value, datetime.date):
        return origin_of(value)
    return date_of(value) if isinstance(value, str) else None


def days_at(where: str, date: datetime.datetime, origin: datetime.datetime | None) -> float:
    """Return a date of the problem file, at the place `where`, as days since the origin, which it needs."""
    if origin is None:
        raise ProblemError(
            f'{where} has the date {date:%Y-%m-%d}, which needs an origin: write origin = "2020-03-01", say, in [data].'
        )
    if (date.tzinfo is None) != (origin.tzinfo is None):
        raise ProblemError(
            f"{where} has the date {date.isoformat()}; it and [data] origin need a time zone both, or neither."
        )
    return days_between(date, origin)
