"""The stop flag that every long kernel polls once a step."""

from __future__ import annotations

import numpy as np


class StopFlag:
    """One integer in shared memory: set it from any thread and running kernels return soon.

    A kernel that sees it returns its "stopped" status; results up to there are valid.  The flag is
    owned by whoever starts a computation (one flag a fit), never global.
    """

    __slots__ = ("array",)

    def __init__(self) -> None:
        self.array = np.zeros(1, dtype=np.int64)

    def set(self) -> None:
        """Ask all kernels that hold this flag to stop."""
        self.array[0] = 1

    def is_set(self) -> bool:
        """Tell whether a stop was asked for."""
        return bool(self.array[0])
