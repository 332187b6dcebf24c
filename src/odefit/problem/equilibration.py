"""Experiments that start from a steady state: what goes before them.

Before its start such an experiment has the conditions that hold all the time, and those of its period that begins at
-inf.  The model is at rest then: its initial state is where it came from, and conserved totals are those of that state.
What holds in the time before is an experiment of its own, an `Equilibration`.  Nothing happens in it, and time stands
still: an equation that depends on time has no steady state.

Experiments whose time before is the same share one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import casadi as ca

from odefit.errors import ProblemError, UnsupportedError, suggestion
from odefit.model import Model
from odefit.model.names import initial_name, state_of_initial
from odefit.problem.experiments import Experiment, Period

if TYPE_CHECKING:
    from odefit.problem.problem import Problem


@dataclass(frozen=True)
class Equilibration(Experiment):
    """The time before experiments; it has the name of the first of them."""


class Runs(NamedTuple):
    """What is solved of a problem: its experiments, and behind them the equilibrations that they need.

    Attributes
    ----------
    all
        Experiments and equilibrations.
    owner
        Of each the experiment whose parameters it has: itself, or the first with this equilibration.
    equilibration
        Of each experiment the number of its equilibration; -1: it has none.
    """

    all: tuple[Experiment, ...]
    owner: tuple[int, ...]
    equilibration: tuple[int, ...]


def runs_of(problem: Problem) -> Runs:
    """Return the runs of `problem`; they are worked out once."""
    return problem.structure.kept.get("runs", lambda: _runs(problem))


def _runs(problem: Problem) -> Runs:
    experiments = problem.experiments
    runs, owner = list(experiments), list(range(len(experiments)))
    number: dict[object, int] = {}
    equilibration = []
    for e, experiment in enumerate(experiments):
        if experiment.before is None:
            equilibration.append(-1)
            continue
        overrides = {**experiment.overrides, **experiment.before}
        tables = tuple(sorted(experiment.tables.items(), key=lambda entry: entry[0]))
        key = (tuple(sorted(overrides.items())), tables, _own_slots(problem, e, overrides))
        if key not in number:
            number[key] = len(runs)
            runs.append(Equilibration(experiment.name, (Period(experiment.start, overrides),), experiment.tables))
            owner.append(e)
        equilibration.append(number[key])
    return Runs(tuple(runs), tuple(owner), tuple(equilibration))


def _own_slots(problem: Problem, e: int, overrides: Mapping[str, float | str]) -> tuple[tuple[str, int], ...]:
    """Return the slots of parameters with several values that the equations of an experiment depend on."""
    several = [p.name for p in problem.parameters if p.per is not None]
    if not several:
        return ()
    model = problem.model
    texts = [problem.expression(value) for value in overrides.values() if isinstance(value, str)]
    everything = ca.vertcat(*model.rhs.values(), *model.coefficients, *model.initial.values(), *texts)
    slots = problem.structure.slots.of_experiment[e]
    return tuple((name, slots[name]) for name in several if name in slots and problem.depends_on(everything, {name}))


def check_before(model: Model, experiment: Experiment) -> None:
    """Refuse what the time before an experiment cannot replace."""
    where = f"'before' of experiment '{experiment.name}'"
    for name in experiment.before or ():
        state = state_of_initial(name)
        if state is not None:
            if state not in model.shown:
                raise ProblemError(
                    f"{where} sets '{name}', but '{state}' is not a state{suggestion(state, model.shown)}"
                )
            continue
        if name in model.shown:
            raise ProblemError(
                f"{where} sets the state '{name}'; write \"{initial_name(name)}\" for the value from which it comes to "
                "rest."
            )
        if name in model.tables or name in experiment.tables:
            raise UnsupportedError(
                f"{where}, which replaces the table '{name}'; write a definition, input = {name}({model.time}) say, "
                "and replace that"
            )
        if name not in model.parameters and name not in model.definitions:
            known = (*model.parameters, *model.definitions)
            raise ProblemError(f"{where} sets '{name}', which the model does not have{suggestion(name, known)}")
