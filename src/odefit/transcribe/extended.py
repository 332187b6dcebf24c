"""Problems whose unknowns have node states beside them, or must obey rules: how fits of these begin and end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.problem.constrained import Constrained, constrained
from odefit.solve import Evaluation, Failed, LeastSquares, Scaling, SolverResult
from odefit.transcribe.active_rules import ActiveSet, RuleReport, active_set
from odefit.transcribe.interval_plan import IntervalPlan
from odefit.transcribe.intervals import Nodes
from odefit.transcribe.multiple import MultipleShooting
from odefit.transcribe.observation import Observations
from odefit.transcribe.plan import Plan, plan_of
from odefit.transcribe.rule_rows import RuleRows
from odefit.transcribe.without_nodes import point_without_nodes, without_nodes

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

NO_NODES: Nodes = ()
"""Single shooting: experiments are not cut."""


def extended_objective(
    problem: Problem, nodes: Nodes = NO_NODES, stop: StopFlag | None = None, data: Observations | None = None
) -> MultipleShooting:
    """Return the objective of `problem` with nodes and rules; `data` are a part of those of `problem_with_rules`."""
    with_rules = constrained(problem)
    whole = problem if with_rules is None else with_rules.problem
    # what is read at a time that moves must stay in one interval
    uncut = {} if with_rules is None else with_rules.windows
    plan = IntervalPlan(whole, nodes, data, uncut, len(problem.measurements))
    return MultipleShooting(whole, plan, stop, RuleRows(with_rules, plan))


def problem_with_rules(problem: Problem) -> Problem:
    """Return the problem whose data have the rules among them; itself if it has none."""
    with_rules: Constrained | None = constrained(problem)
    return problem if with_rules is None else with_rules.problem


def level_of(objective: MultipleShooting) -> float:
    """Return the typical size of a datum in units of its noise, which gaps and rules are measured in."""
    return objective.plan.data.norm / math.sqrt(max(1, objective.n_data)) or 1.0


@dataclass(frozen=True, eq=False)
class Placed:
    """Where a fit with nodes or rules has ended: values, from which its linearisation is computed again.

    Attributes
    ----------
    nodes, states, sizes
        Where nodes stand, for each experiment by its number, their states, and typical sizes of these.
    way
        Theta with the states behind it, at the start, on the way and at the end.
    measurements
        Numbers of the measurements of the extended problem that are rules which hold as equations.
    tied
        Number of conditions by which growth ties parameters to each other more exactly than numbers hold.
    """

    nodes: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    states: Array = field(default_factory=lambda: np.empty(0))
    sizes: Array = field(default_factory=lambda: np.empty(0))
    measurements: tuple[int, ...] = ()
    tied: int = 0
    way: tuple[Array, ...] = ()

    def point(self, problem: Problem, x: Array, stop: StopFlag | None = None) -> Evaluation:
        """Return the point of `problem` at theta = `x`, with its linearisation, on steps of its own."""
        objective = extended_objective(problem, self.nodes if self.states.size else NO_NODES, stop)
        whole = np.concatenate([x, self.states])
        logarithmic = np.append(objective.compiled.logarithmic, np.zeros(self.states.size, dtype=bool))
        scaling = Scaling(whole, logarithmic, self.sizes)
        objective.settle(whole, scaling, level_of(objective))
        objective.refresh(whole)
        point = objective.evaluate(whole, 1)
        if not isinstance(point, LeastSquares):
            return point._replace(x=x) if isinstance(point, Failed) else point
        source = np.concatenate([o.source for o in objective.plan.data.of_experiment])
        active = np.flatnonzero(np.isin(source, self.measurements)).astype(np.int64)
        scaling.learn(point)
        return point_without_nodes(objective, point, plan_of(problem), scaling.of(whole), active)


@dataclass(frozen=True, eq=False)
class Ended:
    """What a fit with nodes or rules comes to in the problem that was asked for."""

    solution: SolverResult
    placed: Placed
    rules: tuple[RuleReport, ...]
    contradictory: tuple[str, ...]


def ended(
    objective: MultipleShooting, solution: SolverResult, plan: Plan, sizes: Array, bounds: tuple[Array, Array],
    way: tuple[Array, ...] = (),
) -> Ended:  # fmt: skip
    """Return the end of a fit in theta alone; `plan` is that of the problem that was asked for, or a part of it."""
    point, q = solution.evaluation, objective.intervals.n_theta
    found = ActiveSet((), np.empty(0, np.int64), ())
    if isinstance(point, LeastSquares):
        found = active_set(objective, point, sizes, bounds[0][:q], bounds[1][:q])
    final = without_nodes(objective, solution, plan, sizes, found.rows)
    source = np.concatenate([o.source for o in objective.plan.data.of_experiment])
    exact = 0 if final.linear is None else int(np.isinf(final.linear.heavy.root).sum())
    tied = max(0, exact - found.rows.size - plan.data.exact.size)
    placed = Placed(
        objective.intervals.nodes,
        solution.x[q:].copy(),
        sizes[q:].copy(),
        tuple(source[found.rows].tolist()),
        tied,
        way,
    )
    return Ended(final, placed, found.rules, found.contradictory)
