"""The steady states of a fit: where tasks write them, and those behind equilibrations find them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from odefit.integrate.solving import keeper_address
from odefit.integrate.steady_state import Equilibrium, keep_end
from odefit.integrate.task import SINK, Task
from odefit.native.kernel_calls import kernel_address
from odefit.native.records import Words
from odefit.transcribe.record import FITTING, Begin
from odefit.transcribe.task_table import TaskTable


@cache
def _keeper_of_ends() -> int:
    return kernel_address(keep_end, SINK)


class Rests:
    """The steady states of the tasks of one table, which has their addresses: it must live as long as that is used."""

    def __init__(self, plan: TaskTable, table: Words) -> None:
        self._kept: list[npt.NDArray[Any]] = []
        compiled, structure = plan.compiled, plan.compiled.structure
        places = {}
        for i in sorted(plan.resting):
            row, (run, at_rest) = table[i], plan.tasks[i]
            n, q = compiled.model(run).n_states, compiled.columns[run].size
            laws = structure.laws(run, compiled.slot_start)
            place = np.full(n, np.nan), np.full(n * q, np.nan)
            arrays = (np.ascontiguousarray(laws.weights).reshape(-1), *laws[1:], *place)
            self._kept += arrays
            FITTING.set(row, Equilibrium, "keeper", keeper_address())
            for name, array in zip(("laws", "varying", "lead", "stays", "state", "first"), arrays, strict=True):
                FITTING.set(row, Equilibrium, name, array)
            if at_rest:
                FITTING.set(row, Task, "sink", _keeper_of_ends())
            else:
                places[run] = place
        for row, run in zip(table, plan.runs, strict=True):
            equilibration = structure.equilibration[run] if run < structure.n_experiments else -1
            if equilibration >= 0:
                for name, array in zip(("state", "first"), places[equilibration], strict=True):
                    FITTING.set(row, Begin, name, array)
