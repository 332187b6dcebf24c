"""Measurements from CSV files, wide (time, x, y) or tidy (experiment, time, observable, value)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError, UnsupportedError, nearest
from odefit.problem import Measurements

_TIDY = ("observable", "value")
_ROW = ("experiment", "sigma", "weight")
_PLANNED = ("below", "above", "from", "side")


def read_measurements(path: Path, time: str, sigma: float | None, observables: tuple[str, ...]) -> Measurements:
    """Read one file.

    Parameters
    ----------
    time
        Name of the time column.
    sigma
        Standard deviation of every value that has none of its own.
    observables
        Names of the model that a column may have.
    """
    import pandas as pd

    if not path.is_file():
        raise ProblemError(f"the data file '{path}' does not exist; paths are relative to the problem file.")
    try:
        frame: Any = pd.read_csv(path, skipinitialspace=True, comment="#", encoding="utf-8-sig")
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeDecodeError) as error:
        raise ProblemError(f"the data file '{path.name}' cannot be read: {str(error).strip()}.") from error
    if frame.empty:
        raise ProblemError(f"the data file '{path.name}' has no rows.")
    frame.columns = [str(name).strip() for name in frame.columns]
    if time not in frame:
        raise ProblemError(
            f"the data file '{path.name}' has no column '{time}' for the time{nearest(time, frame.columns)} "
            f'Its columns are {", ".join(frame.columns)}; [data] time = "..." names the right one.'
        )
    for name in _PLANNED:
        if name in frame and name not in observables:
            raise UnsupportedError(f"the data column '{name}' in '{path.name}'")
    tidy = all(name in frame for name in _TIDY)
    return (_tidy if tidy else _wide)(_Table(path.name, frame), time, sigma, observables)


class _Table:
    """A data frame that yields checked columns."""

    def __init__(self, name: str, frame: Any) -> None:
        self.name = name
        self.frame = frame

    def __contains__(self, column: str) -> bool:
        return column in self.frame

    def numbers(self, column: str) -> npt.NDArray[np.float64]:
        """Return a column of numbers; empty cells are NaN, text is an error that names the line."""
        import pandas as pd

        values = self.frame[column]
        converted: Any = pd.to_numeric(values, errors="coerce")
        result: npt.NDArray[np.float64] = converted.to_numpy(dtype=float)
        text = np.isnan(result) & values.notna().to_numpy()
        if text.any():
            row = int(np.flatnonzero(text)[0])
            raise ProblemError(
                f"'{self.name}', line {row + 2}, column '{column}': '{values.iloc[row]}' is not a number; "
                "leave a missing value empty."
            )
        return result

    def experiments(self) -> npt.NDArray[Any]:
        if "experiment" not in self.frame:
            return np.full(len(self.frame), "main", dtype=object)
        return self.frame["experiment"].astype(str).to_numpy(dtype=object)


def _wide(table: _Table, time: str, sigma: float | None, observables: tuple[str, ...]) -> Measurements:
    columns: list[str] = []
    for name in table.frame.columns:
        base, _, suffix = name.rpartition(".")
        if name == time or (name in _ROW and name not in observables):
            continue
        if suffix in ("sigma", "weight") and base in table:
            continue
        if name not in observables:
            raise ProblemError(
                f"'{table.name}' has a column '{name}', which is no state and no definition of the model"
                f"{nearest(name, observables)}"
            )
        columns.append(name)
    if not columns:
        raise ProblemError(f"'{table.name}' has no column with measured values; name one after a state or definition.")
    m = len(table.frame)

    def spread(kind: str) -> npt.NDArray[np.float64]:
        row = table.numbers(kind) if kind in table and kind not in observables else np.full(m, np.nan)
        parts = [table.numbers(f"{name}.{kind}") if f"{name}.{kind}" in table else row for name in columns]
        return np.stack(parts, axis=1).ravel()

    k = len(columns)
    return _finish(
        experiment=np.repeat(table.experiments(), k),
        time=np.repeat(table.numbers(time), k),
        observable=np.tile(np.array(columns, dtype=object), m),
        value=np.stack([table.numbers(name) for name in columns], axis=1).ravel(),
        row=np.repeat(np.arange(m), k),
        sigma=spread("sigma"),
        weight=spread("weight"),
        default_sigma=sigma,
    )


def _tidy(table: _Table, time: str, sigma: float | None, observables: tuple[str, ...]) -> Measurements:
    for name in table.frame.columns:
        if name not in (time, *_TIDY, *_ROW):
            raise ProblemError(f"'{table.name}' has an unknown column '{name}'{nearest(name, (*_TIDY, *_ROW))}")
    m = len(table.frame)
    missing = np.full(m, np.nan)
    return _finish(
        experiment=table.experiments(),
        time=table.numbers(time),
        observable=table.frame["observable"].astype(str).to_numpy(dtype=object),
        value=table.numbers("value"),
        row=np.arange(m),
        sigma=table.numbers("sigma") if "sigma" in table else missing,
        weight=table.numbers("weight") if "weight" in table else missing,
        default_sigma=sigma,
    )


def _finish(*, default_sigma: float | None, **columns: Any) -> Measurements:
    if default_sigma is not None:
        bare = np.isnan(columns["sigma"]) & np.isnan(columns["weight"])
        columns["sigma"] = np.where(bare, default_sigma, columns["sigma"])
    return Measurements(**columns)
