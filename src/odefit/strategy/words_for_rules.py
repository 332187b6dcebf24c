"""What is said of fits with nodes or rules that did not meet all of them."""

from __future__ import annotations

import dataclasses

import numpy as np

from odefit.solve import SolverResult, SolverStatus, heavy_of
from odefit.transcribe.active_rules import INACTIVE, VIOLATED, RuleReport
from odefit.transcribe.extended import Ended
from odefit.transcribe.multiple import MultipleShooting

_MOST_NAMED = 4
_NEAR = 1e-2  # of a time: as good as there
_OPEN = 1e-3  # of the typical size of the data: a gap that is worth a word


def added(first: SolverResult, second: SolverResult) -> SolverResult:
    """Return the second of two minimisations with the work of both."""
    return dataclasses.replace(
        second,
        iterations=first.iterations + second.iterations,
        evaluations=first.evaluations + second.evaluations,
        refreshes=first.refreshes + second.refreshes,
        trace=(*first.trace, *(row._replace(iteration=row.iteration + first.iterations) for row in second.trace)),
    )


def with_words(end: Ended, objective: MultipleShooting) -> SolverResult:
    """Return the solution, with a message that names the rules, or gaps, that are not met."""
    solution = end.solution
    violated = [rule for rule in end.rules if rule.state == VIOLATED]
    if solution.status == SolverStatus.CONVERGED and not violated:
        return solution
    if violated and solution.status not in (SolverStatus.FAILED, SolverStatus.INTERRUPTED):
        words = _of_rules(end, violated) + _of_times(end, objective)
        return dataclasses.replace(solution, status=SolverStatus.INFEASIBLE, message=words)
    if solution.status in (SolverStatus.FLAT, SolverStatus.SLOW, SolverStatus.STALLED, SolverStatus.LIMIT):
        return dataclasses.replace(solution, message=solution.message + _of_times(end, objective))
    gap = _largest_gap(objective)
    if solution.status == SolverStatus.INFEASIBLE and gap:
        return dataclasses.replace(solution, message=gap)
    return solution


def _of_rules(end: Ended, violated: list[RuleReport]) -> str:
    """Say which rules are not met."""
    if len(end.contradictory) > 1:
        more = f" and {n - _MOST_NAMED} more" if (n := len(end.contradictory)) > _MOST_NAMED else ""
        named = ", ".join(end.contradictory[:_MOST_NAMED])
        return f"these rules cannot be met together, as far as can be told from here: {named}{more}"
    texts = [f'"{rule.text}"{place_of(rule)} by {abs(rule.value):.3g}' for rule in violated[:_MOST_NAMED]]
    more = f" and {len(violated) - _MOST_NAMED} more" if len(violated) > _MOST_NAMED else ""
    return f"rules could not be met: missed are {', '.join(texts)}{more}"


def _of_times(end: Ended, objective: MultipleShooting) -> str:
    """Say which rule that is not idle looks at the last time at which it can; "" if none does."""
    constrained = objective.rules.constrained
    if constrained is None:
        return ""
    for rule, number in zip(end.rules, objective.rules.number.tolist(), strict=True):
        if rule.state != INACTIVE and number in constrained.moving:
            last = constrained.windows[constrained.rows[number].experiment][1]
            if rule.time >= (1.0 - _NEAR) * last:
                return (
                    f'; "{rule.text}" looks at t = {rule.time:g}, as late as its time may become: give that time a '
                    "larger start value or upper bound"
                )
    return ""


def place_of(rule: RuleReport) -> str:
    """Return where a rule holds, as words behind its text."""
    when = "" if np.isnan(rule.time) or f"={rule.time:g})" in rule.text else f" at t = {rule.time:g}"
    return f"{when} in experiment '{rule.experiment}'" if rule.experiment else when


def _largest_gap(objective: MultipleShooting) -> str:
    """Say where the states of intervals do not meet, "" if they all do."""
    if not objective.intervals.n_handover or not objective.latest.size:
        return ""
    heavy = heavy_of(objective.evaluate(objective.latest, 0))
    if heavy is None:
        return ""
    hand = heavy.misfit[: objective.intervals.n_handover]
    k = int(np.argmax(np.abs(hand)))
    name = objective.names[objective.intervals.n_theta + k]
    return f"the intervals could not be joined: the largest gap is {hand[k] / objective.weights[k]:.3g}, of {name}"
