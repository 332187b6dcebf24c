"""What a `Shooter` needs of a plan: the tasks that it integrates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem
from odefit.native.records import Words

Indices = npt.NDArray[np.int64]


class TaskTable(Protocol):
    """Tasks without methods and grids; see `odefit.transcribe.plan.Plan`."""

    @property
    def compiled(self) -> CompiledProblem:
        """Functions, and the numbers of the problem."""
        ...

    @property
    def table(self) -> Words:
        """A row for each task."""
        ...

    @property
    def shared(self) -> Any:
        """What all tasks share."""
        ...

    @property
    def equilibrations(self) -> tuple[int, ...]:
        """Numbers of the equilibrations, whose tasks come first."""
        ...

    @property
    def runs(self) -> tuple[int, ...]:
        """What each task is of."""
        ...

    @property
    def tasks(self) -> tuple[tuple[int, bool], ...]:
        """The same, and whether it is that of a steady state with data."""
        ...

    @property
    def resting(self) -> frozenset[int]:
        """The tasks that come to rest."""
        ...

    @property
    def first_count(self) -> Indices:
        """Where each task counts its steps."""
        ...

    @property
    def in_pieces(self) -> Mapping[int, int]:
        """The tasks that have conditions in time, each with a guess how many pieces there are."""
        ...
