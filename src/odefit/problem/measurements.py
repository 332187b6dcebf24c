"""Measurements: all data of a problem in columns of equal length."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from odefit.errors import MeasurementError, ProblemError, UnsupportedError, suggestion
from odefit.problem.cells import SIGMA, cells_of, names_of_cells, numbers_in
from odefit.problem.values import FrozenMapping, Value

Column = npt.NDArray[Any]
_FURTHER = ("row", "sigma", "weight", "side", "since", "censoring")
DEVIATION = "a standard deviation is positive and finite, and not too small to divide by"
"""What `is_deviation` asks for, in words."""


def _empty() -> dict[str, Column]:
    return {}


def is_deviation(sigma: Any) -> Any:
    """Tell, of a number or of each in an array, whether it can be a standard deviation: residuals are divided by it."""
    return (sigma >= sys.float_info.min) & np.isfinite(sigma)


def _left_out() -> Any:
    """Let a column be left out; `__post_init__` fills in what that means."""
    return None


def _numbers(name: str, entries: Any) -> npt.NDArray[np.float64]:
    """Return a copy of a column of numbers; text in it is an error that shows it."""
    try:
        column = np.array(entries, dtype=float)
    except (TypeError, ValueError):
        for entry in entries:
            try:
                float(entry)
            except (TypeError, ValueError):
                raise ProblemError(f"the data column '{name}' holds '{entry}', which is not a number.") from None
        raise
    column[np.isnan(column)] = np.nan  # one of many bit patterns, so that missing values are equal
    return column


def _deviations(entries: Any) -> Column:
    """Return a copy of a column of standard deviations: numbers; or cells, if one of them names a parameter."""
    try:
        return _numbers("sigma", entries)
    except (ProblemError, TypeError, ValueError):
        cells = cells_of("sigma", entries)
        return cells if names_of_cells(cells).any() else numbers_in(cells)


def _locked(column: Column) -> Column:
    """Return the column, which from now on cannot be written to."""
    column.flags.writeable = False
    return column


def _comparable(column: Column) -> Any:
    """Return the bytes of numbers, or a list of texts."""
    return column.tolist() if column.dtype == object else column.tobytes()


@dataclass(frozen=True, eq=False)
class Measurements(Value):
    """Columns, one entry per measured value.

    Attributes
    ----------
    experiment, observable
        Names.
    time, value
        When and what; a missing value is NaN and is left out of every sum.  A time of inf means the steady state that
        the experiment comes to behind its last event.
    row
        Which values were taken together (the line of the data file): kept for criteria that need
        whole rows.
    sigma
        Absolute standard deviation of the single value, NaN where it has none of its own (see `Problem.sigma`).  Where
        some of them are parameters it is a column of objects: numbers, names, and "" for none (see `sigma_numbers`,
        `sigma_names`).
    weight
        Relative weight (the residual is multiplied by its square root), NaN where none is given; 0
        ignores the value, infinity makes the model pass through it.
    side
        -1: the value sees the state before an event at its time; +1: after it.
    since
        Start of the interval of an observable that is taken over one, NaN: see `odefit.problem.intervals`.
    censoring
        -1: the true value lies below, +1: above, 0: it is measured.
    coords
        Grid coordinates of single measurements, by name.
    arguments
        What symbols of the model stand for in each measurement: symbol to a column of numbers and names of parameters,
        "" where there is none (see `odefit.problem.arguments`).
    groups
        Further data columns by name, as text ("" where empty): a parameter may have one value `per` group.

    Every column after `value` may be left out.  Columns are copied and cannot be written to; measurements are equal
    if all columns are, to the bit.  Columns that this version cannot use (`censoring`, `coords`) are refused unless
    they say nothing.
    """

    experiment: Column
    time: Column
    observable: Column
    value: Column
    row: Column = _left_out()
    sigma: Column = _left_out()
    weight: Column = _left_out()
    side: Column = _left_out()
    since: Column = _left_out()
    censoring: Column = _left_out()
    coords: Mapping[str, Column] = field(default_factory=_empty)
    arguments: Mapping[str, Column] = field(default_factory=_empty)
    groups: Mapping[str, Column] = field(default_factory=_empty)

    def __post_init__(self) -> None:
        n = len(self.value)
        numbers = {"time": None, "value": None, "weight": np.nan, "since": np.nan}
        for name, default in numbers.items():
            column = getattr(self, name)
            self._set(name, np.full(n, default, dtype=float) if column is None else _numbers(name, column))
        self._set("sigma", np.full(n, np.nan) if self.sigma is None else _deviations(self.sigma))
        for name in ("experiment", "observable"):
            self._set(name, np.array(getattr(self, name), dtype=object))
        for name, default in (("row", np.arange(n)), ("side", np.full(n, -1)), ("censoring", np.zeros(n))):
            column = getattr(self, name)
            self._set(name, np.array(default if column is None else column, dtype=np.int64))
        for name, copied in (("coords", np.array), ("groups", partial(np.array, dtype=object)), ("arguments", None)):
            columns = {
                key: _locked(cells_of(key, column) if copied is None else copied(column))
                for key, column in getattr(self, name).items()
            }
            object.__setattr__(self, name, FrozenMapping(columns))
        self._check(n)

    def _set(self, name: str, column: Column) -> None:
        object.__setattr__(self, name, _locked(column))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Measurements):
            return NotImplemented
        return self is other or self._content() == other._content()

    def __hash__(self) -> int:
        return hash((self.time.tobytes(), self.value.tobytes()))

    def _content(self) -> list[Any]:
        """Return all columns as things that can be compared."""
        columns = [getattr(self, one.name) for one in fields(self)]
        return [
            {key: _comparable(column) for key, column in one.items()} if isinstance(one, Mapping) else _comparable(one)
            for one in columns
        ]

    def _check(self, n: int) -> None:
        for name in ("experiment", "time", "observable", *_FURTHER):
            length = len(getattr(self, name))
            if length != n:
                raise ProblemError(f"the data column '{name}' has {length} entries but there are {n} values.")
        for name, column in (*self.groups.items(), *self.arguments.items()):
            if len(column) != n:
                raise ProblemError(f"the data column '{name}' has {len(column)} entries but there are {n} values.")
        self._check_values()
        self._refuse_unsupported()

    def _check_values(self) -> None:
        """Refuse what no single measurement may be."""
        sigma, weight = self.sigma_numbers, self.weight
        self.refuse(
            np.isnan(self.time) | (self.time == -np.inf),
            lambda i: f"the time is {self.time[i]:g}; every value needs the time at which it was taken.",
        )
        self.refuse(
            np.isinf(self.since) | (self.since >= self.time),
            lambda i: f"its interval is from {self.since[i]:g} to {self.time[i]:g}; it must begin before it ends.",
        )
        self.refuse(np.isinf(self.value), lambda i: "the value is infinite; leave a missing value empty.")
        self.check_sigma(sigma)
        self.refuse(
            np.abs(self.side) != 1,
            lambda i: f"its side is {self.side[i]}; -1 is before an event at its time, 1 after it.",
        )
        self.refuse(weight < 0, lambda i: f"its weight is {weight[i]:g}; weights lie between 0 and inf.")
        self.refuse(
            self.has_sigma & np.isfinite(weight) & (weight != 0),
            lambda i: "it has both a sigma and a weight; give one of the two (or weight 0 or inf).",
        )

    def _refuse_unsupported(self) -> None:
        if np.any(self.censoring):
            raise UnsupportedError("censored measurements")
        if self.coords:
            raise UnsupportedError("measurements with coords")

    def __len__(self) -> int:
        return len(self.value)

    @property
    def used(self) -> npt.NDArray[np.bool_]:
        """Which values take part: those that are there and have not weight 0."""
        return np.isfinite(self.value) & (self.weight != 0)

    @cached_property
    def sigma_numbers(self) -> npt.NDArray[np.float64]:
        """The standard deviations that are given as numbers, NaN for others."""
        return numbers_in(self.sigma)

    @cached_property
    def sigma_names(self) -> Column:
        """The parameters that are standard deviations of single values, "" for others."""
        return names_of_cells(self.sigma)

    @property
    def has_sigma(self) -> npt.NDArray[np.bool_]:
        """Which values have a standard deviation of their own."""
        return ~np.isnan(self.sigma_numbers) | (self.sigma_names != "")

    @cached_property
    def named(self) -> frozenset[str]:
        """The names that stand in cells of arguments and of `sigma`."""
        columns = [self.sigma_names, *map(names_of_cells, self.arguments.values())]
        return frozenset(name for column in columns for name in column.tolist() if name)

    @property
    def after(self) -> npt.NDArray[np.bool_]:
        """Which values see the state after the events at their time; the others see the state before."""
        return self.side > 0

    def selected(self, chosen: npt.NDArray[np.bool_]) -> Measurements:
        """Return the chosen ones."""
        columns = {
            name: getattr(self, name)[chosen] for name in ("experiment", "time", "observable", "value", *_FURTHER)
        }
        for kind in ("groups", "arguments"):
            columns[kind] = {name: column[chosen] for name, column in getattr(self, kind).items()}
        return dataclasses.replace(self, **columns)

    def check_sigma(self, sigma: npt.NDArray[np.float64]) -> None:
        """Refuse numbers that are no standard deviations (NaN: there is none)."""
        self.refuse(
            ~np.isnan(sigma) & ~is_deviation(sigma),
            lambda i: f"its sigma is {sigma[i]:g}; {DEVIATION}.",
            cell=SIGMA,
        )

    def refuse(self, wrong: npt.NDArray[np.bool_], fault: Callable[[int], str], *, cell: str = "") -> None:
        """Raise for the first value that is wrong, with what `fault` says about it.

        `cell` is what messages call what is wrong, if it is not the value itself (see `odefit.problem.cells`).
        """
        if wrong.any():
            index = int(np.flatnonzero(wrong)[0])
            place = f"experiment '{self.experiment[index]}', time {self.time[index]:g}, '{self.observable[index]}'"
            raise MeasurementError(f"{place}: {fault(index)}", index=index, fault=fault(index), cell=cell)

    @classmethod
    def from_columns(
        cls,
        time: Sequence[float] | Column,
        columns: Mapping[str, Sequence[float] | Column],
        *,
        experiment: str | Sequence[str] = "main",
        sigma: Mapping[str, Sequence[float | str] | Column | float | str] | None = None,
        weight: Mapping[str, Sequence[float] | Column | float] | None = None,
        arguments: Mapping[str, Sequence[float | str] | Column | float | str] | None = None,
    ) -> Measurements:
        """Make measurements from a wide table: one time column, one column per observable.

        Parameters
        ----------
        time
            Shape (m,).
        columns
            Observable -> values, shape (m,); NaN where a value is missing.
        experiment
            One name, or one per row.
        sigma, weight
            Observable -> standard deviation or weight, a number or shape (m,); a standard deviation may be the name of
            a parameter.
        arguments
            Symbol of the model -> what it stands for, a number or the name of a parameter, or shape (m,).
        """
        times = _numbers("time", time)
        m = len(times)
        names = np.full(m, experiment, dtype=object) if isinstance(experiment, str) else np.asarray(experiment, object)
        if not columns:
            raise ProblemError("there is no column with measured values; give at least one.")
        if len(names) != m:
            raise ProblemError(f"the data column 'experiment' has {len(names)} entries but there are {m} times.")
        for name, values in columns.items():
            if len(values) != m:
                raise ProblemError(f"the data column '{name}' has {len(values)} values but there are {m} times.")

        def column_of(name: str, given: Any, read: Callable[[Any], Column]) -> Column:
            one = read(np.atleast_1d(np.asarray(given, dtype=object)))
            if one.size not in (1, m):
                raise ProblemError(f"{name} has {one.size} entries but there are {m} times.")
            return np.broadcast_to(one, m)

        def spread(kind: str, by_observable: Mapping[str, Any] | None, read: Callable[[Any], Column]) -> Column:
            for name in by_observable or {}:
                if name not in columns:
                    raise ProblemError(
                        f"{kind} is given for '{name}', which is not measured{suggestion(name, columns)}"
                    )
            given = by_observable or {}
            parts = [column_of(f"{kind} of '{name}'", given.get(name, np.nan), read) for name in columns]
            return np.stack(parts, axis=1).ravel()

        k = len(columns)
        return cls(
            experiment=np.repeat(names, k),
            time=np.repeat(times, k),
            observable=np.tile(np.array(list(columns), dtype=object), m),
            value=np.stack([_numbers(name, v) for name, v in columns.items()], axis=1).ravel(),
            row=np.repeat(np.arange(m), k),
            sigma=spread("sigma", sigma, _deviations),
            weight=spread("weight", weight, partial(_numbers, "weight")),
            arguments={
                name: np.repeat(column_of(f"the argument '{name}'", given, partial(cells_of, name)), k)
                for name, given in (arguments or {}).items()
            },
        )
