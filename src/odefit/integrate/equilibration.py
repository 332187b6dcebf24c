"""An equilibration by itself: a table of one row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from odefit.compile import CompiledModel, Laws, Seeds, StartFromRest
from odefit.errors import OdefitError, UnsupportedError
from odefit.integrate.contract import Array, Counters, Integrator, Status, StepGrid, Trajectory
from odefit.integrate.selection import Selection
from odefit.integrate.solving import keeper_address
from odefit.integrate.steady_state import RESTING, Equilibrium, reach_steady_state
from odefit.integrate.task import Task
from odefit.native.stop import StopFlag

_NONE, _NO_INDICES = np.empty(0), np.empty(0, np.int64)


class Rest(NamedTuple):
    """What a solution comes to.

    Attributes
    ----------
    status, t_end, cause
        How it ended, after which time, and the state to blame (-1: none).
    y, S, S2
        The steady state (n,), its derivatives (n, q) and (n, q (q + 1)/2); NaN where there is none.
    """

    status: Status
    t_end: float
    cause: int
    y: Array
    S: Array
    S2: Array


AT_ONCE = Rest(Status.OK, 0.0, -1, _NONE, _NONE, _NONE)
"""Of an experiment that has no time before it."""


def begun_at_rest(seeds: Seeds, start: StartFromRest, rest: Rest) -> Seeds:
    """Return the seeds of an experiment that begins where its equilibration came to rest."""
    p, y0, dp, dy0, d2p, d2y0 = (part.copy() for part in seeds)
    n, q = start.n_states, dy0.shape[1]
    y0[:n] = rest.y[:n]
    known = np.flatnonzero(start.column >= 0) if q else _NO_INDICES
    dy0[:n] = 0.0
    dy0[:n, known] = rest.S[:n, start.column[known]]
    if d2y0.shape[1]:
        d2y0[:n] = 0.0
        width = rest.S.shape[1]
        for a in known.tolist():
            for b in known[known >= a].tolist():
                one, other = sorted((int(start.column[a]), int(start.column[b])))
                d2y0[:n, _pair(a, b, q)] = rest.S2[:n, _pair(one, other, width)]
    for part, of_state in ((p, y0), (dp, dy0), (d2p, d2y0)):
        part[start.entry] = of_state[start.state]
    return Seeds(p, y0, dp, dy0, d2p, d2y0)


def _pair(a: int, b: int, q: int) -> int:
    """Return the number of the pair a <= b of `q` columns."""
    return a * q - a * (a - 1) // 2 + b - a


def solution_at_rest(rest: Rest, n_times: int, order: int) -> Trajectory:
    """Return a solution that is a steady state at all times; NaN where there is none."""
    y, s, s2 = (np.repeat(part[None], n_times, axis=0) for part in (rest.y, rest.S, rest.S2))
    counts = np.zeros(len(Counters._fields), np.int64)
    # it is exact: none of its states is wrong by a tolerance
    grid = StepGrid("", _NONE, counts, atol=np.full(rest.y.size, -np.inf))
    return Trajectory(
        rest.status, rest.t_end, rest.cause, y, s[:, :, : None if order else 0], s2, grid, 0.0, "", counts
    )


def equilibrate(
    choice: Integrator,
    model: CompiledModel,
    seeds: Seeds,
    laws: Laws,
    u: Array,
    *,
    n_slots: int = 0,
    rtol: float,
    aims: Array,
    order: int = 0,
    max_steps: int = 100_000,
    stop: StopFlag | None = None,
) -> Rest:
    """Find the steady state that a model comes to from the initial state of `seeds`.

    Parameters
    ----------
    laws
        What is conserved; see `odefit.compile.conserved`.
    u, n_slots
        Inputs of the model, and the number of tables whose slots stand in them.
    aims
        Absolute tolerances as they are asked for, see `odefit.integrate.sizes`.
    """
    p, y0, dp, dy0, d2p, d2y0 = (np.ascontiguousarray(part) for part in seeds)
    n, q, rhs = y0.size, dy0.shape[1] if order else 0, model.rhs
    pairs = q * (q + 1) // 2 if order == 2 else 0
    found = np.full(n, np.nan), np.full((n, q), np.nan), np.full((n, pairs), np.nan)
    stop = StopFlag() if stop is None else stop
    atol, counts = np.empty(n), np.zeros(0, np.int64)
    task = Task(
        value=rhs.value, directions=rhs.directions, jacobian=rhs.jacobian, second=0,
        n=n, n_parameters=p.size, n_columns=q, n_directions=q, start=0.0, rtol=rtol, max_step=np.inf, max_steps=0,
        choices=0, p=p, u=u, y0=y0, dy0=dy0.reshape(-1), dp=dp.reshape(-1), d2y0=d2y0.reshape(-1),
        d2p=d2p.reshape(-1), times=_NONE, after=_NO_INDICES, ends=_NONE, kinks=_NONE, aims=aims, atol=atol,
        steps=_NONE, orders=_NO_INDICES, counts=counts, stop=stop.array, slots=n_slots, moving=0, sink=0, method=0,
    )  # fmt: skip
    if order == 2 and laws.varying.size:
        raise UnsupportedError(
            "second derivatives of a steady state whose conserved totals have weights that depend on parameters"
        )
    weights = np.ascontiguousarray(laws.weights).reshape(-1)
    y, first, second = (part.reshape(-1) for part in found)
    rest = Equilibrium(keeper_address(), weights, *laws[1:], rhs.row_ptr, rhs.col, y, first, second)
    table = np.zeros((1, RESTING.width), np.int64)
    selection = Selection(choice, model, rtol, max_steps)
    selection.choose()
    while True:
        if order > selection.method.highest_order:
            raise OdefitError(
                f"the integrator '{selection.method.name}' has no second-order sensitivities, order = {order} was "
                "asked for; take 'dopri5' or 'ddm' for them, or order = 1"
            )
        task = task._replace(
            method=selection.address, choices=selection.choices, max_steps=selection.max_steps,
            second=selection.second(order),
        )  # fmt: skip
        for record in (task, selection.elimination, rest):
            RESTING.put(table[0], record)
        status, t_end, cause = reach_steady_state(table, 0, order)
        if not selection.answer(status):
            return Rest(Status(status), t_end, cause, *found)
