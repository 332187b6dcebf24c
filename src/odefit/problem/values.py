"""Values: what is made once, never changes, and is copied and pickled by its content."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Value:
    """Base of frozen dataclasses that are pickled by their fields, and made anew, checked, by their constructor."""

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        fields = dataclasses.fields(self)  # pyright: ignore[reportArgumentType]
        return type(self), tuple(getattr(self, one.name) for one in fields if one.init)


class FrozenMapping(Mapping[K, V]):
    """A read-only mapping that can be pickled, and hashed if its values can be."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._entries = dict(entries)

    def __getitem__(self, key: K) -> V:
        return self._entries[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._entries!r})"

    def __reduce__(self) -> tuple[type, tuple[dict[K, V]]]:
        return type(self), (self._entries,)


def one_nan(number: float) -> float:
    """Return `number`, or `math.nan` for any NaN: Python takes that one for equal to itself in tuples of fields."""
    return math.nan if math.isnan(number) else number
