"""When events and doses act: numbers for plots and reports, and what doses need of a model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import casadi as ca

from odefit.model import Model
from odefit.problem.experiments import Experiment
from odefit.problem.resolution import names_in, resolve_in_experiment, symbol_of

if TYPE_CHECKING:
    from odefit.problem.problem import Problem


def with_rates_of_doses(model: Model, experiments: Iterable[Experiment]) -> Model:
    """Return `model` with a rate for each state that some dose is given to over some time."""
    doses = [dose for one in experiments for dose in one.events if dose.is_infusion]
    targets = {dose.target for dose in doses}
    return model.with_rates(tuple(name for name in model.shown if name in targets))


def event_times(problem: Problem, estimates: Mapping[str, float], e: int) -> list[float]:
    """Return the times of events, doses and later periods of experiment number `e`; see `Problem.event_times`."""
    experiment = problem.experiments[e]
    if not problem.model.events and not experiment.events and not experiment.later:
        return []
    values = ParameterValues(problem, estimates, e)
    times = [values.of(event.time) for event in problem.model.events]
    times += [values.of(period.start) for period in experiment.later]
    for dose in experiment.events:
        first = values.of(dose.time) + values.of(problem.lag.get(dose.target, 0.0))
        for i in range(dose.count):
            begin = first + (i * dose.every if i else 0.0)
            times += [begin, begin + values.of(dose.duration)] if dose.is_infusion else [begin]
    return sorted({time for time in times if math.isfinite(time)})


class ParameterValues:
    """Numbers that expressions of parameters have in one experiment."""

    def __init__(self, problem: Problem, estimates: Mapping[str, float], e: int) -> None:
        self._problem = problem
        self._experiment = problem.experiments[e]
        slots = problem.slots
        self._numbers: dict[str, float] = {}
        for name, index in slots.of_experiment[e].items():
            slot = slots.slots[index]
            start = problem.starts.get(slot.name, slot.parameter.start)
            self._numbers[name] = float(estimates.get(slot.name, start))

    def of(self, value: Any) -> float:
        """Return the number that a number, a text or an expression comes to; NaN if it depends on anything else."""
        if isinstance(value, float | int):
            return float(value)
        expression = self._problem.expression(value) if isinstance(value, str) else value
        resolved = resolve_in_experiment(self._problem, expression, self._experiment, at_start=True)
        names = sorted(names_in(resolved))
        if any(name not in self._numbers for name in names):
            return math.nan
        symbols = ca.vertcat(*(symbol_of(self._problem, name) for name in names)) if names else ca.SX(0, 1)
        function = ca.Function("time", [symbols], [ca.SX(resolved)])
        return float(function([self._numbers[name] for name in names]))
