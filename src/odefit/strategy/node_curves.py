"""Curves through node states: where a trajectory from the start alone would soon be another one.

Each interval is integrated from the state of its node.  In a fit that has closed all gaps this is the solution, also
where errors grow so fast that it cannot be followed over the whole time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from odefit.native.stop import StopFlag, raise_on_interrupt
from odefit.problem import Problem
from odefit.solve import Failed, SolverResult
from odefit.transcribe import SingleShooting
from odefit.transcribe.extended import Placed, problem_with_rules
from odefit.transcribe.interval_plan import IntervalPlan
from odefit.transcribe.multiple import MultipleShooting

Array = npt.NDArray[np.float64]

_STRAYS = 0.01  # of the objective, by which that of the trajectory from the start alone may differ
_HOPELESS = 1e-6  # of the size of the data


def strays(problem: Problem, solution: SolverResult, placed: Placed, share: float = _STRAYS) -> str:
    """Say what becomes of the trajectory from the start alone at the end of a fit with nodes; "" if it is the same.

    It is the same if the objective differs by no more than its part `share`.
    """
    if not placed.states.size or isinstance(solution.evaluation, Failed):
        return ""
    stop = StopFlag()
    objective = SingleShooting(problem, stop)
    with raise_on_interrupt(stop):
        objective.refresh(solution.x)
        point = objective.evaluate(solution.x, 0)
    if isinstance(point, Failed):
        return f"it cannot be computed ({point.failure})"
    tolerance = share * abs(solution.value) + (_HOPELESS * objective.plan.data.norm) ** 2
    if abs(point.value - solution.value) <= tolerance:
        return ""
    in_units = objective.plan.in_units
    return f"its objective is {in_units(point.value):.4g} instead of {in_units(solution.value):.4g}"


def curves_at_nodes(
    problem: Problem, placed: Placed, x: Array, e: int, times: Array, names: Sequence[str]
) -> Array | None:
    """Return the values of states and definitions in experiment number `e`, (m, k); None if they cannot be computed.

    Parameters
    ----------
    x
        Theta, with the states of `placed` or, if it is longer, with other ones behind it.
    times
        Increasing; at a node the state of the node itself is shown.
    """
    whole = problem_with_rules(problem)
    shown = _with_shown(whole, problem.experiments[e].name, times, names)
    objective = MultipleShooting(shown, IntervalPlan(shown, placed.nodes))
    point = x if x.size > objective.intervals.n_theta else np.concatenate([x, placed.states])
    if point.size != objective.intervals.n_theta + objective.intervals.n_node_states:
        return None
    objective.refresh(point)
    found = objective.evaluate(point, 0)
    if isinstance(found, Failed):
        return None
    source = np.concatenate([o.source for o in objective.plan.data.of_experiment])
    values = np.full(len(shown.measurements), np.nan)
    values[source] = found.differences[: source.size]
    return values[: times.size * len(names)].reshape(times.size, len(names))


def _with_shown(problem: Problem, experiment: str, times: Array, names: Sequence[str]) -> Problem:
    """Return the problem whose data in an experiment are zeros of all names at all times.

    Data of other experiments stay, since their nodes have states, too, and so does the last of this one.
    """
    data, m, k = problem.measurements, times.size, len(names)
    mine = np.flatnonzero((data.experiment == experiment) & data.used & np.isfinite(data.time))
    others = np.flatnonzero(data.experiment != experiment)
    last = mine[np.argmax(data.time[mine])]
    chosen = data.selected(np.concatenate([np.full(m * k, mine[0]), [last], others]))

    def column(name: str, values: Any) -> Array:
        found = getattr(chosen, name).copy()
        found[: m * k] = values
        return found

    shown = dataclasses.replace(
        chosen,
        time=column("time", np.repeat(times, k)),
        observable=column("observable", np.tile(np.array(list(names), dtype=object), m)),
        value=column("value", 0.0),
        sigma=np.ones(len(chosen)),
        weight=np.full(len(chosen), np.nan),
        side=column("side", -1),
        since=column("since", np.nan),
    )
    return problem.with_measurements(shown)
