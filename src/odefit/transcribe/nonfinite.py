"""Words for an observable that has no finite value: which one, where, and what the integration has to do with it.

A state that ends at zero may come out slightly below it, by the error of the integration, and then has no logarithm.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem
from odefit.integrate import Status, Trajectory, ending
from odefit.transcribe.observation import Observation
from odefit.transcribe.plan import Plan
from odefit.transcribe.shot import Shot

Array = npt.NDArray[np.float64]


def words_for_observable(
    plan: Plan,
    observables: tuple[str, ...],
    row: int,
    integrate: Callable[[Observation], Trajectory],
    refusal: Callable[[int], str],
) -> str:
    """Say what is wrong with the measurement `row`.

    `integrate` computes the states of its experiment, `refusal` tells which table the task of that number asked in
    vain.
    """
    task, k = _measurement(plan, row)
    o = plan.data.of_experiment[task]
    where = f"t = {o.times[o.at[k]]:g}"
    if len(plan.experiment_names) > 1:
        where = f"{where} of experiment '{plan.experiment_names[o.experiment]}'"
    words = f"the observable '{observables[o.observable[k]]}' has no finite value at {where}"
    reason = refusal(task) or _lowest_state(plan, o, k, integrate(o))
    return f"{words}: {reason}" if reason else words


def words_for_shot(
    compiled: CompiledProblem, names: tuple[str, ...], number: int, shot: Shot, refusal: str = ""
) -> str:
    """Say how the integration of experiment or equilibration `number` ended; `names` are those of the experiments."""
    words = ending(Status(shot.status), shot.t_end, shot.cause, compiled.model(number), refusal)
    if number >= len(names):
        first = compiled.structure.equilibration.index(number)
        return f"before the start of experiment '{names[first]}' {words}"
    return f"experiment '{names[number]}': {words}" if len(names) > 1 else words


def _measurement(plan: Plan, row: int) -> tuple[int, int]:
    """Return the task of a row, and its number there."""
    for task, (o, first) in enumerate(zip(plan.data.of_experiment, plan.data.first, strict=False)):
        if row < first + o.value.size:
            return task, row - first
    raise IndexError(row)


def _lowest_state(plan: Plan, o: Observation, k: int, found: Trajectory) -> str:
    """Say which state of the observable is not positive, if one is small enough to be so by mistake."""
    observe, states = plan.compiled.observe(o.experiment), plan.compiled.model(o.experiment).states
    first, behind = observe.row_ptr[o.observable[k]], observe.row_ptr[o.observable[k] + 1]
    columns = observe.col[first:behind].astype(np.int64)
    y = found.y[o.at[k]]
    low = [i for i in columns[columns < y.size].tolist() if y[i] <= 0.0]
    if not low:
        return ""
    i = min(low, key=lambda one: float(y[one]))
    words = f"'{states[i]}' is {y[i]:.3g} there"
    atol = found.grid.atol[i]
    if -y[i] > 1e3 * atol:
        return words
    return f'{words}, within its absolute tolerance {atol:.3g}; set atol = "auto" or a smaller one in [integrator]'
