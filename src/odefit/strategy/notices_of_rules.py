"""What the user should know about rules, and about solutions that cannot be followed from their start."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from odefit.compile import compile_problem
from odefit.problem.constrained import path_times
from odefit.problem.constraints import PATH, read_constraints
from odefit.solve import Failed
from odefit.statistics.delta import prediction_band
from odefit.transcribe.active_rules import REDUNDANT
from odefit.transcribe.extended import problem_with_rules

if TYPE_CHECKING:
    from odefit.strategy.result import FitResult

Finding = tuple[str, str]
"""Code and text of a notice."""
_FINER = 8  # parts of each interval of a grid, in which a path constraint is looked at afterwards
_BROKEN = 1e-4  # of the range of what a path constraint is about, by which it may be missed between its times
_UNCOMPUTED = 1e-2  # relative tolerances: standard errors below that are those of numbers nobody computes


def findings(result: FitResult) -> Iterator[Finding]:
    """Yield what there is to say."""
    if result.problem.structure.restrictions:
        yield from _of_times(result)
        yield from _of_dependent(result)
        if not isinstance(result.solution.evaluation, Failed):
            yield from _between_times(result)
    if result.strays:
        yield (
            "solution.unstable",
            f"The trajectory from the start alone does not follow the one through the nodes: {result.strays}. Errors "
            "grow too much on the way. Curves are drawn from node to node.",
        )
    yield from _of_growth(result)


def _of_times(result: FitResult) -> Iterator[Finding]:
    """Yield the rules that look beyond the data."""
    problem, data = result.problem, result.problem.measurements
    taken = data.used & np.isfinite(data.time)
    last = {
        one.name: float(np.max(data.time[(data.experiment == one.name) & taken], initial=-math.inf))
        for one in problem.experiments
    }
    everywhere = max(last.values())
    named: dict[str, float] = {}
    for rule in result.rules:
        end = last.get(rule.experiment, everywhere)
        if rule.time > end and math.isfinite(end) and f"={rule.time:g})" in rule.text:
            named[rule.text] = end
    for text, end in named.items():
        yield "rule.beyond", f'The rule "{text}" looks behind the last datum at t = {end:g}.'


def _of_dependent(result: FitResult) -> Iterator[Finding]:
    """Yield the rules that have no influence because others say the same."""
    texts = dict.fromkeys(rule.text for rule in result.rules if rule.state == REDUNDANT)
    for text in texts:
        yield "rule.redundant", f'The rule "{text}" says nothing that does not hold without it; it has no multiplier.'


def _between_times(result: FitResult) -> Iterator[Finding]:
    """Yield the path constraints that are missed between the times on which they are held."""
    problem, extended = result.problem, problem_with_rules(result.problem)
    read = [one for one in read_constraints(problem).constraints if one.kind == PATH]
    if not read or result.strays:
        return
    names = tuple(f'rule "{one.constraint.text}"' for one in read)
    compiled = compile_problem(extended)
    for e in sorted({o.experiment for o in result.plan.data.of_experiment if not o.at_rest}):
        held = np.array(sorted(path_times(problem, e)))
        if held.size < 2:
            continue
        fine = np.unique(np.concatenate([np.linspace(a, b, _FINER + 1) for a, b in zip(held, held[1:], strict=False)]))
        band = prediction_band(extended, compiled, result.solution.x, None, e, fine, names=names)
        for name, values in zip([one.constraint.text for one in read], band.values.T, strict=True):
            if not np.isfinite(values).any():
                continue
            k = int(np.nanargmin(values))
            if values[k] < -_BROKEN * (np.nanmax(values) - values[k]):
                several = len(problem.experiments) > 1
                where = f" in experiment '{problem.experiments[e].name}'" if several else ""
                yield (
                    "rule.between",
                    f'The rule "{name}" is held at {held.size} times from {held[0]:g} to {held[-1]:g} and missed '
                    f"between them: by {-values[k]:.3g} at t = {fine[k]:g}{where}. Set a larger path_times in [fit].",
                )


def _of_growth(result: FitResult) -> Iterator[Finding]:
    """Yield standard errors that are smaller than what the integration can tell."""
    if result.placed is None or not result.placed.states.size or result.statistics is None:
        return
    x, rtol = result.solution.x, result.problem.settings.rtol
    size = np.where(result.plan.compiled.logarithmic, 1.0, np.abs(x))
    errors = result.statistics.standard_error
    fine = np.isfinite(errors) & (errors < _UNCOMPUTED * rtol * size) & ~result.solution.active
    names = [name for name, one in zip(result.plan.names, fine, strict=True) if one]
    if names:
        yield (
            "statistics.growth",
            f"{', '.join(names)}: the solution is so sensitive that the data would tell more digits than integration "
            f"at rtol {rtol:g} computes; standard errors are those of exact integration.",
        )
