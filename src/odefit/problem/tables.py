"""Tables: inputs that are known at knots and interpolated between them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError, UnsupportedError, suggestion
from odefit.problem.values import Value

Array = npt.NDArray[np.float64]

KINDS = ("linear", "hold", "pchip", "cubic")
OUTSIDE = ("error", "hold", "extend")


@dataclass(frozen=True, eq=False)
class Table(Value):
    """A function given at knots, called ``U(x)`` in equations under the name that the problem gives it.

    Two tables are equal if their content is.

    Attributes
    ----------
    x
        The knots, increasing, (n,).  For a function of two arguments a pair of such lists, (n,) and (m,).
    y
        Values at the knots, (n,): numbers, or names of parameters.  With two arguments a matrix of numbers (n, m).
    kind
        What is between knots: "linear"; "hold", the value of the knot before; "pchip", cubic and monotone where the
        values are; "cubic", a spline with a continuous second derivative.
    outside
        What is before the first and behind the last knot: "error" ends the computation, "hold" goes on with the first
        or last value, "extend" with the first or last piece.  A table of kind "hold" goes on behind its last knot in
        any case: that is where its last value holds.
    """

    x: Any
    y: Any
    kind: str = "linear"
    outside: str = "error"

    def __post_init__(self) -> None:
        for name, value, known in (("kind", self.kind, KINDS), ("outside", self.outside, OUTSIDE)):
            if value not in known:
                hint = suggestion(str(value), known)
                raise ProblemError(f"a table has {name} = '{value}'; it is one of {', '.join(known)}{hint}")
        axes = tuple(self.x) if _is_pair(self.x) else (self.x,)
        knots = tuple(_knots(axis) for axis in axes)
        object.__setattr__(self, "x", knots if len(knots) == 2 else knots[0])
        object.__setattr__(self, "y", _matrix(self.y, knots) if len(knots) == 2 else _values(self.y))
        self._check(knots)

    def _check(self, knots: tuple[Array, ...]) -> None:
        shape = tuple(axis.size for axis in knots)
        if (len(self.y),) != shape and len(shape) == 1:
            raise ProblemError(f"a table has {shape[0]} knots but {len(self.y)} values; every knot needs one value.")
        least = 1 if self.kind == "hold" else 2
        if min(shape) < least:
            raise ProblemError(f"a table of kind '{self.kind}' has {min(shape)} knots; it needs at least {least}.")
        if self.kind == "pchip" and len(shape) == 2:
            raise UnsupportedError("a table of two arguments of kind 'pchip' (linear, hold and cubic are)")
        if self.kind == "pchip" and self.names:
            raise UnsupportedError("parameters as values of a table of kind 'pchip' (linear, hold and cubic are)")

    @classmethod
    def constant(cls, value: float) -> Table:
        """Return the table that has one value everywhere."""
        return cls([0.0], [value], kind="hold", outside="hold")

    @property
    def arguments(self) -> int:
        """Number of arguments, one or two."""
        return 2 if isinstance(self.x, tuple) else 1

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters among the values, in order of first appearance."""
        if isinstance(self.y, np.ndarray):
            return ()
        return tuple(dict.fromkeys(value for value in self.y if isinstance(value, str)))

    def _content(self) -> tuple[Any, ...]:
        x = tuple(axis.tobytes() for axis in self.x) if isinstance(self.x, tuple) else self.x.tobytes()
        y = (self.y.shape, self.y.tobytes()) if isinstance(self.y, np.ndarray) else self.y
        return x, y, self.kind, self.outside

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __repr__(self) -> str:
        if isinstance(self.x, tuple):
            size = " x ".join(str(axis.size) for axis in self.x)
            return f"<Table of {size} values, {self.kind}>"
        return f"<Table of {self.x.size} values from {self.x[0]:g} to {self.x[-1]:g}, {self.kind}>"


def _is_pair(x: Any) -> bool:
    return len(x) == 2 and all(isinstance(axis, Sequence | np.ndarray) and not isinstance(axis, str) for axis in x)


def _knots(axis: Any) -> Array:
    """Return a read-only copy of knots, which must increase."""
    knots = _numbers(axis, "knot")
    if knots.ndim != 1:
        raise ProblemError("the knots of a table are a list of numbers, or two of them for two arguments.")
    for i in np.flatnonzero(np.diff(knots) <= 0.0)[:1]:
        a, b = float(knots[i]), float(knots[i + 1])
        if a == b:
            raise ProblemError(f"a table has the knot {a:.10g} twice (rows {i + 1} and {i + 2}); keep one of the rows.")
        raise ProblemError(
            f"the knots of a table must increase, but {b:.10g} (row {i + 2}) comes behind {a:.10g}; sort the rows."
        )
    return knots


def _numbers(values: Any, what: str) -> Array:
    try:
        numbers = np.array(values, dtype=float)
    except (TypeError, ValueError):
        raise ProblemError(f"a {what} of a table is not a number.") from None
    for i in np.flatnonzero(~np.isfinite(numbers.reshape(-1)))[:1]:
        raise ProblemError(f"{what} number {i + 1} of a table is {numbers.reshape(-1)[i]}; all of them must be finite.")
    numbers.flags.writeable = False
    return numbers


def _values(y: Any) -> Any:
    """Return values at knots: an array, or a tuple if there are names among them."""
    entries = list(y)
    if not any(isinstance(entry, str) for entry in entries):
        numbers = _numbers(entries, "value")
        if numbers.ndim != 1:
            raise ProblemError(
                "the values of a table of one argument are a list, not a matrix; give two lists of knots."
            )
        return numbers
    for i, entry in enumerate(entries):
        if not isinstance(entry, str) and not math.isfinite(entry):
            raise ProblemError(f"value number {i + 1} of a table is {entry}; all of them must be finite.")
    return tuple(entry if isinstance(entry, str) else float(entry) for entry in entries)


def _matrix(y: Any, knots: tuple[Array, ...]) -> Array:
    values = _numbers(y, "value")
    shape = tuple(axis.size for axis in knots)
    if values.shape != shape:
        raise ProblemError(
            f"a table of two arguments has {shape[0]} and {shape[1]} knots, so its values are a matrix of {shape[0]} "
            f"rows and {shape[1]} columns; they have the shape {values.shape}."
        )
    return values
