"""The steady states of a fit: where equilibrations write them, and the tasks behind them find them."""

from __future__ import annotations

import numpy as np

from odefit.integrate.solving import keeper_address
from odefit.integrate.steady_state import Equilibrium
from odefit.native.records import Words
from odefit.transcribe.plan import Plan
from odefit.transcribe.record import FITTING, Begin


class Rests:
    """The steady states of the tasks of one table, which has their addresses: it must live as long as that is used."""

    def __init__(self, plan: Plan, table: Words) -> None:
        self._kept: list[np.ndarray] = []
        compiled, structure = plan.compiled, plan.compiled.structure
        places = {}
        for row, run in zip(table, plan.equilibrations, strict=False):
            n, q = compiled.model(run).n_states, compiled.columns[run].size
            laws = np.ascontiguousarray(structure.laws(run, compiled.slot_start)).reshape(-1)
            places[run] = np.full(n, np.nan), np.full(n * q, np.nan)
            self._kept += [laws, *places[run]]
            FITTING.set(row, Equilibrium, "keeper", keeper_address())
            for name, array in zip(("laws", "state", "first"), (laws, *places[run]), strict=True):
                FITTING.set(row, Equilibrium, name, array)
        for row, run in zip(table, plan.runs, strict=True):
            equilibration = structure.equilibration[run] if run < structure.n_experiments else -1
            if equilibration >= 0:
                for name, array in zip(("state", "first"), places[equilibration], strict=True):
                    FITTING.set(row, Begin, name, array)
