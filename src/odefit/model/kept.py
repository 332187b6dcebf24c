"""What later stages have made of an object, kept with the object itself."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Kept:
    """Things made of an object, by what else they depend on: each is made once, and lives no longer than the object.

    Only the `most` that were used last are kept.  Threads that ask for the same thing wait for one of them to make
    it.  A thing must not refer to the object, nor is it ever copied or pickled with it: it can be made again.
    """

    __slots__ = ("_lock", "_most", "_things")

    def __init__(self, most: int = 32) -> None:
        self._most = most
        self._things: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.RLock()  # making one thing may ask for another

    def __len__(self) -> int:
        return len(self._things)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returns, or returned when it was called for this key."""
        with self._lock:
            if key in self._things:
                self._things.move_to_end(key)
                return self._things[key]
            thing = make()
            self._things[key] = thing
            if len(self._things) > self._most:
                self._things.popitem(last=False)
            return thing
