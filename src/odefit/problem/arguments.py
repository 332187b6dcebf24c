"""Arguments of rows: symbols that stand, in each measurement, for what a cell of its row says.

``[data] arguments = { s = "scale" }``: the symbol s of the model is in each row the number, or the parameter, in the
cell of the data column `scale`.  Cells of `sigma` say in the same way what the standard deviation of the value is.  A
cell comes to

* a number; or
* a slot, if the parameter has a value of its own there: the one of the row's experiment or group, if it has several; or
* an entry of p, if the parameter is computed by an expression or the row's experiment replaces it.

Arguments enter observables and standard deviations only, like parameters with one value per entry of a data column
that varies within an experiment: the states of an experiment are the same for all of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError, UnsupportedError, suggestion
from odefit.model.names import state_of_initial
from odefit.problem.cells import EMPTY, SIGMA, names_of_cells, numbers_in, words_for_argument
from odefit.problem.experiments import Experiment
from odefit.problem.measurements import Column, Measurements
from odefit.problem.noise import DEFAULT, lacking_sigma
from odefit.problem.parameters import Parameter
from odefit.problem.resolution import names_in, resolve_in_experiment, symbol_of, tables_in
from odefit.problem.slots import slots_of_parameter

if TYPE_CHECKING:
    from odefit.problem.problem import Problem

Indices = npt.NDArray[np.int64]
_HOLDS = "a cell holds a number or the name of a parameter"


class ResolvedCells(NamedTuple):
    """What the cells of some rows come to, (m,) each: a slot (-1: none), else an entry of p ("": none), else a number.

    The number is NaN where a cell is empty.
    """

    slot: Indices
    entry: Column
    number: npt.NDArray[np.float64]


def is_entry_of_p(parameter: Parameter, experiment: Experiment) -> bool:
    """Tell whether `parameter` has no slot in `experiment`, but a value that its map computes."""
    return parameter.expression is not None or parameter.name in experiment.overrides


def resolved_cells(problem: Problem, e: int, rows: Indices, cells: Column) -> ResolvedCells:
    """Return what cells of the measurements `rows`, all of experiment number `e`, come to; their names are known."""
    layout, parameters = problem.structure.slots, {p.name: p for p in problem.parameters}
    slot, entry = np.full(rows.size, -1, dtype=np.int64), np.full(rows.size, EMPTY, dtype=object)
    where: dict[str, list[int]] = {}
    for i, name in enumerate(names_of_cells(cells).tolist()):
        where.setdefault(name, []).append(i)
    for name, mine in where.items():
        if name == EMPTY:
            continue
        if is_entry_of_p(parameters[name], problem.experiments[e]):
            entry[mine] = name
        else:
            slot[mine] = slots_of_parameter(layout, problem.measurements, parameters[name], e, rows[mine])
    return ResolvedCells(slot, entry, numbers_in(cells))


def columns_of_cells(data: Measurements) -> list[tuple[str, Column]]:
    """Return the columns that may name parameters, each with what messages call it: the arguments, and sigma."""
    sigma = [(SIGMA, data.sigma)] if data.sigma.dtype == object else []
    return [*sigma, *((words_for_argument(symbol), cells) for symbol, cells in data.arguments.items())]


def computed_in_cells(problem: Problem) -> tuple[str, ...]:
    """Return the parameters that cells name and expressions compute."""
    named = problem.measurements.named
    return tuple(p.name for p in problem.parameters if p.expression is not None and p.name in named)


def slots_in_cells(problem: Problem) -> list[int]:
    """Return the slots that cells of the data name."""
    data, found = problem.measurements, set()
    for _, cells in columns_of_cells(data) if data.named else ():
        named = np.isfinite(data.value) & (names_of_cells(cells) != EMPTY)
        for e, experiment in enumerate(problem.experiments):
            rows = np.flatnonzero(named & (data.experiment == experiment.name))
            found.update(resolved_cells(problem, e, rows, cells[rows]).slot.tolist())
    return sorted(found - {-1})


def entries_in_cells(problem: Problem) -> tuple[frozenset[str], ...]:
    """Return, for each experiment, the entries of p that cells of its measurements name."""
    data = problem.measurements
    if not data.named:
        return (frozenset(),) * len(problem.experiments)
    named: dict[str, set[str]] = {}
    for _, cells in columns_of_cells(data):
        for experiment, name in {*zip(data.experiment.tolist(), names_of_cells(cells).tolist(), strict=True)}:
            named.setdefault(experiment, set()).add(name)
    parameters = [p for p in problem.parameters if p.name in data.named]
    return tuple(
        frozenset(p.name for p in parameters if p.name in named.get(e.name, ()) and is_entry_of_p(p, e))
        for e in problem.experiments
    )


def symbols_used(problem: Problem, observable: str, experiment: Experiment, *, sigma: bool = False) -> frozenset[str]:
    """Return what depends on the single measurement in an observable of `experiment`, or in its `sigma` in [noise]."""
    noise = problem.noise.get(observable, problem.noise.get(DEFAULT)) if sigma else None
    text = None if noise is None else noise.expression
    if sigma and text is None:
        return frozenset()
    replaced = {name: value for name, value in experiment.overrides.items() if state_of_initial(name) is None}
    changes = tuple((name, value if isinstance(value, str) else None) for name, value in sorted(replaced.items()))

    def look() -> frozenset[str]:
        expression = problem.model.symbols[observable] if text is None else problem.expression(text)
        resolved = resolve_in_experiment(problem, expression, experiment)
        return frozenset(names_in(resolved) & {*problem.structure.slots.by_row})

    found: dict[object, frozenset[str]] = problem.structure.kept.get("symbols used", dict)
    key = (observable, text, changes)
    if key not in found:
        found[key] = look()
    return found[key]


def check_arguments(problem: Problem, used: Iterable[str]) -> None:
    """Check the symbols that are arguments; `used` are the names in expressions of the problem."""
    model, used = problem.model, {*used}
    parameters = [p.name for p in problem.parameters]
    for symbol in problem.measurements.arguments:
        both = f"'{symbol}' is an argument of the data, and also "
        if symbol in parameters:
            raise ProblemError(f"{both}a parameter; its value is in the cells of the rows: remove one of the two.")
        if symbol in problem.tables or any(symbol in e.tables for e in problem.experiments):
            raise ProblemError(f"{both}a table; a name has one meaning: rename one of the two.")
        for experiment in problem.experiments:
            if symbol in experiment.overrides:
                raise ProblemError(
                    f"{both}set by experiment '{experiment.name}'; its value is in the cells of the rows: remove one."
                )
        if symbol in model.changed_by_events:
            raise ProblemError(f"{both}changed by an event; its value is in the cells of the rows: remove one.")
        if symbol in model.names and symbol not in model.parameters:
            what = "the independent variable" if symbol == model.time else "a name with an equation of its own"
            raise ProblemError(f"{both}{what} in the model; rename one of the two.")
        if symbol not in model.parameters and symbol not in used:
            free = [name for name in model.parameters if name not in parameters]
            raise ProblemError(
                f"the argument '{symbol}' of the data does not occur in the equations or in [noise]"
                f"{suggestion(symbol, free or model.parameters)}"
            )


def check_names(problem: Problem) -> None:
    """Check that the names in cells are those of parameters."""
    data = problem.measurements
    parameters = [p.name for p in problem.parameters]
    for what, cells in columns_of_cells(data) if not data.named <= {*parameters} else ():
        names = names_of_cells(cells)
        data.refuse(
            ~np.isin(names, [EMPTY, *parameters]),
            lambda i, what=what, names=names: f"its {what} is '{names[i]}', {_words_for_unknown(problem, names[i])}",
            cell=what,
        )


def check_cells(problem: Problem) -> None:
    """Check that cells hold numbers and names of parameters that stay the same, and none is empty that is needed."""
    check_names(problem)
    data = problem.measurements
    for symbol, cells in data.arguments.items():
        data.refuse(
            np.isinf(numbers_in(cells)),
            lambda i, symbol=symbol: f"its argument '{symbol}' is infinite; give a finite number.",
            cell=words_for_argument(symbol),
        )
    _check_empty(problem)
    _check_held(problem)
    _check_entries(problem)
    _check_deviations(problem)


def _words_for_unknown(problem: Problem, name: str) -> str:
    model = problem.model
    if name == model.time or name in model.shown or name in model.definitions:
        what = "the independent variable" if name == model.time else "a state or definition of the model"
        return f"{what}; {_HOLDS}."
    return f"which is no number and no parameter{suggestion(name, [p.name for p in problem.parameters])}"


def _check_held(problem: Problem) -> None:
    """Refuse parameters that events change: a cell would mean the value at the start."""
    for name in problem.model.changed_by_events:
        for experiment in problem.experiments if name in problem.measurements.named else ():
            _refuse_named(problem, experiment, name, f"'{name}', which an event changes; {_HOLDS} that stays the same.")


def _check_empty(problem: Problem) -> None:
    """Every measurement that is used says what its observable, or its sigma, depends on."""
    data = problem.measurements
    lacking = lacking_sigma(data) if problem.noise else np.zeros(len(data), bool)
    for symbol, cells in data.arguments.items():
        empty = (cells == EMPTY) & data.used
        for experiment in problem.experiments if empty.any() else ():
            of_experiment = empty & (data.experiment == experiment.name)
            for name in dict.fromkeys(data.observable[of_experiment].tolist()):
                rows = of_experiment & (data.observable == name)
                if symbol not in symbols_used(problem, name, experiment):
                    rows &= lacking
                    if symbol not in symbols_used(problem, name, experiment, sigma=True):
                        continue
                data.refuse(
                    rows,
                    lambda i, symbol=symbol: (
                        f"its argument '{symbol}' is missing, but '{data.observable[i]}' depends on it; {_HOLDS}."
                    ),
                    cell=words_for_argument(symbol),
                )


def _check_entries(problem: Problem) -> None:
    """Refuse names of parameters that an experiment replaces by something that changes in time."""
    model = problem.model
    for experiment, names in zip(problem.experiments, entries_in_cells(problem), strict=True):
        for name in sorted(names):
            value = resolve_in_experiment(problem, symbol_of(problem, name), experiment)
            if names_in(value) & {model.time, *model.states} or tables_in(value):
                _refuse_named(
                    problem, experiment, name,
                    f"'{name}', which changes along the trajectory of experiment '{experiment.name}'; {_HOLDS} that "
                    "stays the same.",
                )  # fmt: skip


def _refuse_named(problem: Problem, experiment: Experiment, name: str, fault: str) -> None:
    """Raise for the first cell of `experiment` that names the parameter `name`."""
    data = problem.measurements
    for what, cells in columns_of_cells(data):
        rows = (names_of_cells(cells) == name) & (data.experiment == experiment.name)
        data.refuse(rows, lambda i, what=what: f"its {what} is {fault}", cell=what)


def _check_deviations(problem: Problem) -> None:
    """Refuse standard deviations that are estimated parameters, or depend on them: they need a likelihood."""
    data, free = problem.measurements, {p.name for p in problem.free}
    for e, experiment in enumerate(problem.experiments):
        for name, row in _named_deviations(problem, e).items():
            value = resolve_in_experiment(problem, symbol_of(problem, name), experiment)
            for other in sorted(names_in(value) & free):
                through = "" if other == name else f" through '{name}'"
                raise UnsupportedError(
                    f"a sigma that depends on the estimated parameter '{other}'{through} (experiment "
                    f"'{experiment.name}', time {data.time[row]:g}, '{data.observable[row]}'); fix the parameter, or "
                    "give numbers"
                )


def _named_deviations(problem: Problem, e: int) -> dict[str, int]:
    """Return the parameters that cells name for standard deviations in experiment number `e`, each with a measurement.

    They are cells of `sigma`, and of the arguments that an expression in [noise] uses.
    """
    data, experiment = problem.measurements, problem.experiments[e]
    found: dict[str, int] = {}
    if not data.named:
        return found
    mine = data.used & (data.experiment == experiment.name)

    def collect(cells: Column, rows: npt.NDArray[np.bool_]) -> None:
        names = names_of_cells(cells)
        for row in np.flatnonzero(rows & (names != EMPTY)).tolist():
            found.setdefault(names[row], row)

    collect(data.sigma, mine)
    said = mine & lacking_sigma(data)
    for observable in dict.fromkeys(data.observable[said].tolist()) if data.arguments else ():
        for symbol in symbols_used(problem, observable, experiment, sigma=True) & data.arguments.keys():
            collect(data.arguments[symbol], said & (data.observable == observable))
    return found
