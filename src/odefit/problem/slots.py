"""Slots: the single numbers behind the parameters of a problem.

A parameter without `per` is one slot of the same name.  With ``per = "experiment"`` it has one slot
``A0[b1]`` for each experiment, with ``per = "gel"`` one for each value of the data column `gel`.  A
column that is constant within every experiment selects a slot per experiment.  One that varies within
an experiment (a wavelength) selects a slot per measurement; such a parameter can enter observables only.

Cells of the data may name parameters (see `odefit.problem.arguments`).  One with `per` that occurs nowhere else has a
value to be estimated only where a cell names it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError, suggestion
from odefit.problem.cells import names_of_cells
from odefit.problem.experiments import Experiment
from odefit.problem.measurements import Measurements
from odefit.problem.parameters import Parameter
from odefit.problem.values import FrozenMapping


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
        Names whose value depends on the single measurement: parameters, whose slot does, and behind them the arguments
        of rows.
    of_experiment
        Per experiment: parameter name to slot index, for parameters that are not `by_row`.
    of_group
        For each parameter `by_row`: value of its column to slot index.
    fitted
        Slots that data of fitted experiments can tell something about.  The value of a parameter for an
        experiment without such data stays at its start, and its prior is left out.
    """

    slots: tuple[Slot, ...]
    by_row: tuple[str, ...]
    of_experiment: tuple[Mapping[str, int], ...]
    of_group: Mapping[str, Mapping[str, int]]
    fitted: frozenset[int]


@dataclass(frozen=True, eq=False)
class SlotLayout:
    """The slots of problems that differ in numbers only; see `Slots` for what is not described here.

    Attributes
    ----------
    names, keys
        Of each slot.
    parameter
        Position of each slot's parameter among those of the problem, (n_slots,).
    """

    names: tuple[str, ...]
    keys: tuple[str, ...]
    parameter: npt.NDArray[np.int64]
    by_row: tuple[str, ...]
    of_experiment: tuple[Mapping[str, int], ...]
    of_group: Mapping[str, Mapping[str, int]]
    fitted: frozenset[int]

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Position of each slot by its name."""
        return FrozenMapping((name, i) for i, name in enumerate(self.names))

    def holding(self, parameters: Sequence[Parameter]) -> Slots:
        """Return the slots of a problem with these parameters."""
        entries = zip(self.names, self.parameter.tolist(), self.keys, strict=True)
        slots = tuple(Slot(name, parameters[i], key) for name, i, key in entries)
        return Slots(slots, self.by_row, self.of_experiment, self.of_group, self.fitted)


def slot_layout(
    parameters: Sequence[Parameter], experiments: Sequence[Experiment], data: Measurements, in_cells: Collection[str]
) -> SlotLayout:
    """Work out the slots of a problem; `in_cells` are the parameters that occur in cells of the data only."""
    slots: list[tuple[str, str, int]] = []
    by_row: list[str] = []
    of_group: dict[str, Mapping[str, int]] = {}
    of_experiment: tuple[dict[str, int], ...] = tuple({} for _ in experiments)
    for place, parameter in enumerate(parameters):
        if parameter.expression is not None:
            continue
        name = parameter.name
        if parameter.per is None:
            for slot_of in of_experiment:
                slot_of[name] = len(slots)
            slots.append((name, "", place))
        elif parameter.per == "experiment":
            for experiment, slot_of in zip(experiments, of_experiment, strict=True):
                if name not in experiment.overrides:
                    slot_of[name] = len(slots)
                    slots.append((f"{name}[{experiment.name}]", experiment.name, place))
        else:
            keys, by_experiment = _groups(experiments, data, parameter)
            index = {key: len(slots) + i for i, key in enumerate(keys)}
            slots.extend((f"{name}[{key}]", key, place) for key in keys)
            if any(len(values) > 1 for values in by_experiment):
                by_row.append(name)
                of_group[name] = FrozenMapping(index)
            else:
                for experiment, slot_of, values in zip(experiments, of_experiment, by_experiment, strict=True):
                    if name not in experiment.overrides:
                        slot_of[name] = index[_only(values, experiment.name, parameter)]
    shared = {i for i, (_, _, place) in enumerate(slots) if parameters[place].per is None}
    fitted = _fitted(experiments, data, of_experiment, shared)
    fitted |= {i for index in of_group.values() for i in index.values()}
    layout = SlotLayout(
        tuple(name for name, _, _ in slots),
        tuple(key for _, key, _ in slots),
        np.array([place for _, _, place in slots], dtype=np.int64),
        (*by_row, *data.arguments),
        tuple(map(FrozenMapping, of_experiment)),
        FrozenMapping(of_group),
        frozenset(fitted),
    )
    several = [p for p in parameters if p.name in in_cells and p.per is not None]
    return dataclasses.replace(layout, fitted=layout.fitted - _unnamed(layout, several, experiments, data))


def _unnamed(
    layout: SlotLayout, several: Sequence[Parameter], experiments: Sequence[Experiment], data: Measurements
) -> set[int]:
    """Return the slots of these parameters that no cell of a fitted measurement names."""
    unnamed: set[int] = set()
    fits = np.isin(data.experiment, [e.name for e in experiments if e.use == "fit"]) & data.used
    for parameter in several:
        slots = {i for i, name in enumerate(layout.names) if name.partition("[")[0] == parameter.name}
        for cells in (data.sigma, *data.arguments.values()):
            rows = np.flatnonzero(fits & (names_of_cells(cells) == parameter.name))
            for e, experiment in enumerate(experiments):
                if parameter.name not in experiment.overrides:
                    mine = rows[data.experiment[rows] == experiment.name]
                    slots.difference_update(slots_of_parameter(layout, data, parameter, e, mine).tolist())
        unnamed |= slots
    return unnamed


def slots_of_parameter(
    layout: SlotLayout, data: Measurements, parameter: Parameter, e: int, rows: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the slot of `parameter` in each of the measurements `rows` of experiment number `e`."""
    if parameter.name in layout.of_group:
        index, groups = layout.of_group[parameter.name], data.groups[parameter.per or ""][rows]
        return np.array([index[key] for key in groups.tolist()], dtype=np.int64)
    return np.full(rows.size, layout.of_experiment[e][parameter.name], dtype=np.int64)


def _fitted(
    experiments: Sequence[Experiment], data: Measurements, of_experiment: Sequence[Mapping[str, int]], shared: set[int]
) -> set[int]:
    """Return the slots that are `shared` by all experiments, or belong to one with fitted data."""
    measured = set(data.experiment[data.used].tolist())
    result: set[int] = set()
    for experiment, slot_of in zip(experiments, of_experiment, strict=True):
        has_data = experiment.use == "fit" and experiment.name in measured
        result.update(slot for slot in slot_of.values() if has_data or slot in shared)
    return result


def _groups(
    experiments: Sequence[Experiment], data: Measurements, parameter: Parameter
) -> tuple[list[str], list[list[str]]]:
    """Return the values of the parameter's column: all, and per experiment, in order of appearance."""
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
    by_experiment: list[list[str]] = []
    for experiment in experiments:
        by_experiment.append(list(dict.fromkeys(values[names == experiment.name].tolist())))
    return list(dict.fromkeys(values.tolist())), by_experiment


def _only(values: list[str], experiment: str, parameter: Parameter) -> str:
    if not values:
        raise ProblemError(
            f"experiment '{experiment}' has no data, so its '{parameter.per}' is not known; give '{parameter.name}' "
            "a value there."
        )
    return values[0]
