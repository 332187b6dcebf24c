"""Slots: the single numbers behind the parameters of a problem.

A parameter without `per` is one slot of the same name.  With ``per = "experiment"`` it has one slot
``A0[b1]`` for each experiment, with ``per = "gel"`` one for each value of the data column `gel`.  A
column that is constant within every experiment selects a slot per experiment.  One that varies within
an experiment (a wavelength) selects a slot per measurement; such a parameter can enter observables only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from odefit.errors import ProblemError, suggestion
from odefit.problem.parameters import Parameter

if TYPE_CHECKING:
    from odefit.problem.problem import Problem


@dataclass(frozen=True)
class Slot:
    """One number: the parameter it belongs to, and for which experiment or group ("" for all)."""

    name: str
    parameter: Parameter
    key: str = ""


@dataclass(frozen=True)
class Slots:
    """All slots of a problem, in file order.

    Attributes
    ----------
    slots
        The numbers.
    by_row
        Parameters whose slot depends on the single measurement.
    of_experiment
        Per experiment: parameter name to slot index, for the parameters that are not `by_row`.
    of_group
        For each parameter `by_row`: value of its column to slot index.
    fitted
        Slots that data of fitted experiments can tell something about.  The value of a parameter for an
        experiment without such data stays at its start, and its prior is left out.
    """

    slots: tuple[Slot, ...]
    by_row: tuple[str, ...]
    of_experiment: tuple[dict[str, int], ...]
    of_group: dict[str, dict[str, int]]
    fitted: frozenset[int]


def slots_of(problem: Problem) -> Slots:
    """Work out the slots of a problem."""
    slots: list[Slot] = []
    by_row: list[str] = []
    of_group: dict[str, dict[str, int]] = {}
    of_experiment: tuple[dict[str, int], ...] = tuple({} for _ in problem.experiments)
    for parameter in problem.parameters:
        if parameter.expression is not None:
            continue
        name = parameter.name
        if parameter.per is None:
            for chosen in of_experiment:
                chosen[name] = len(slots)
            slots.append(Slot(name, parameter))
        elif parameter.per == "experiment":
            for experiment, chosen in zip(problem.experiments, of_experiment, strict=True):
                if name not in experiment.periods[0].overrides:
                    chosen[name] = len(slots)
                    slots.append(Slot(f"{name}[{experiment.name}]", parameter, experiment.name))
        else:
            keys, found = _groups(problem, parameter)
            index = {key: len(slots) + i for i, key in enumerate(keys)}
            slots.extend(Slot(f"{name}[{key}]", parameter, key) for key in keys)
            if any(len(values) > 1 for values in found):
                by_row.append(name)
                of_group[name] = index
            else:
                for experiment, chosen, values in zip(problem.experiments, of_experiment, found, strict=True):
                    if name not in experiment.periods[0].overrides:
                        chosen[name] = index[_only(values, experiment.name, parameter)]
    fitted = _fitted(problem, slots, of_experiment) | {i for index in of_group.values() for i in index.values()}
    return Slots(tuple(slots), tuple(by_row), of_experiment, of_group, frozenset(fitted))


def _fitted(problem: Problem, slots: list[Slot], of_experiment: tuple[dict[str, int], ...]) -> set[int]:
    """Return the slots that are shared by all experiments, or belong to one with fitted data."""
    data = problem.measurements
    measured = set(data.experiment[data.used].tolist())
    result: set[int] = set()
    for experiment, chosen in zip(problem.experiments, of_experiment, strict=True):
        has_data = experiment.use == "fit" and experiment.name in measured
        result.update(slot for slot in chosen.values() if has_data or slots[slot].parameter.per is None)
    return result


def _groups(problem: Problem, parameter: Parameter) -> tuple[list[str], list[list[str]]]:
    """Return the values of the parameter's column: all, and per experiment, in order of appearance."""
    data = problem.measurements
    column = data.groups.get(parameter.per or "")
    if column is None:
        raise ProblemError(
            f"'{parameter.name}' has per = \"{parameter.per}\", but the data have no such column"
            f'{suggestion(parameter.per or "", data.groups)} (per = "experiment" means one value per experiment)'
        )
    used = np.isfinite(data.value)
    if np.any(column[used] == ""):
        raise ProblemError(
            f"the data column '{parameter.per}' has empty cells, but '{parameter.name}' has one value per entry of it."
        )
    names = data.experiment[used]
    values = column[used]
    found: list[list[str]] = []
    for experiment in problem.experiments:
        found.append(list(dict.fromkeys(values[names == experiment.name].tolist())))
    return list(dict.fromkeys(values.tolist())), found


def _only(values: list[str], experiment: str, parameter: Parameter) -> str:
    if not values:
        raise ProblemError(
            f"experiment '{experiment}' has no data, so its '{parameter.per}' is not known; give '{parameter.name}' "
            "a value there."
        )
    return values[0]
