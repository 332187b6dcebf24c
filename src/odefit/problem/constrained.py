"""Rules as measurements: the problem that has a row of data of infinite weight for each rule, experiment and time.

What must be zero, or not negative, is a definition of the extended model, observed with the value 0:

    a rule of parameters        once, at the start of the first experiment that is fitted, so that every horizon has it;
                                in each of them, if experiments differ in what it uses
    values at times             in each experiment that is fitted, when the last of them has been reached
    a path constraint           in each of them, at all times of a grid

Values at earlier times are hidden states, which an event sets (see `odefit.model.aggregates`).  Where a time depends on
parameters the rule is observed at a later time that does not, behind the data and all that its bounds allow.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError, UnsupportedError
from odefit.problem.constraints import PARAMETERS, PATH, ReadConstraint, is_prior, read_constraints
from odefit.problem.event_times import ParameterValues
from odefit.problem.measurements import Measurements
from odefit.problem.resolution import names_in

if TYPE_CHECKING:
    from odefit.problem.constraints import Constraint
    from odefit.problem.problem import Problem

Array = npt.NDArray[np.float64]

_LATER = 2.0  # times the start value of a time that has no upper bound: so far a fit may move it


class RuleRow(NamedTuple):
    """A measurement that is a rule: number of the rule and of the measurement, experiment, time (NaN: it has none)."""

    constraint: int
    measurement: int
    experiment: int
    time: float


@dataclass(frozen=True, eq=False)
class Constrained:
    """A problem with its rules as measurements.

    Attributes
    ----------
    problem
        The extended problem: measurements of rules stand behind all others.
    constraints, rows
        Rules, and measurements that are rules.
    moving
        Of rows whose time depends on parameters, the expressions of these times.
    windows
        For each experiment where these times may lie, from the start values and bounds of the parameters.
    """

    problem: Problem
    constraints: tuple[Constraint, ...]
    rows: tuple[RuleRow, ...]
    moving: Mapping[int, tuple[Any, ...]]
    windows: Mapping[int, tuple[float, float]]

    def is_everywhere(self, number: int) -> bool:
        """Tell whether row `number` is a rule about parameters that all experiments share."""
        mine = [row for row in self.rows if row.constraint == self.rows[number].constraint]
        return len(mine) == 1 and math.isnan(mine[0].time)

    def looks_at(self, number: int, estimates: Mapping[str, float]) -> float:
        """Return when row `number` is looked at, the last of several times, at these values of slots; NaN: none."""
        row = self.rows[number]
        if number not in self.moving:
            return row.time
        values = ParameterValues(self.problem, estimates, row.experiment)
        return max(values.of(one) for one in self.moving[number])

    def too_late(self, estimates: Mapping[str, float]) -> str:
        """Say which rule looks at a time that is not reached at these values of slots; "" if none does."""
        for k, times in self.moving.items():
            row = self.rows[k]
            experiment = self.problem.experiments[row.experiment]
            values = ParameterValues(self.problem, estimates, row.experiment)
            for one in times:
                time = values.of(one)
                if not experiment.start <= time <= row.time:
                    where = "before the start" if time < experiment.start else f"behind t = {row.time:g}, the last time"
                    return f'the rule "{self.constraints[row.constraint].text}" looks at t = {time:g}, {where}'
        return ""


def constrained(problem: Problem) -> Constrained | None:
    """Return `problem` with its rules as measurements; None if it has none but priors."""
    if not problem.structure.restrictions:
        return None
    return problem.kept.get("constrained", lambda: _extended(problem))


def observable_of(constraint: Constraint) -> str:
    """Return the name that a rule has as an observable."""
    return f'rule "{constraint.text}"'


def _extended(problem: Problem) -> Constrained:
    read = read_constraints(problem)
    base: Problem = problem.structure.kept.get(
        ("with rules", problem.settings.path_times), lambda: _with_definitions(problem)
    )
    rows, moving = _rows(problem, read.constraints)
    data = _with_rows(problem, rows, moving, [observable_of(one.constraint) for one in read.constraints])
    numbers = base._changed(
        parameters=problem.parameters, settings=problem.settings, starts=problem.starts, title=problem.title
    )
    if data != base.measurements:
        numbers = numbers.with_measurements(data)
    windows = {e: _window(problem, [t for k, of in moving.items() if rows[k].experiment == e for t in of], e)
               for e in {rows[k].experiment for k in moving}}  # fmt: skip
    return Constrained(numbers, tuple(one.constraint for one in read.constraints), rows, moving, windows)


def _with_definitions(problem: Problem) -> Problem:
    """Return the problem whose model has the rules as definitions, observed once each."""
    read = read_constraints(problem)
    expressions = {observable_of(one.constraint): one.expression for one in read.constraints}
    inner = [part for one in read.aggregates.gathered.values() for part in (one.expression, one.counts)]
    inner += [part for one in read.aggregates.readings.values() for part in (one.expression, one.time)]
    used = {symbol.name() for part in (*expressions.values(), *inner) for symbol in ca.symvar(ca.SX(part))}
    own = {name: symbol for name, symbol in problem.own_symbols.items() if symbol.name() in used}
    model = problem.model.with_quantities(expressions, read.aggregates, own)
    rows, moving = _rows(problem, read.constraints)
    return dataclasses.replace(
        problem,
        model=model,
        measurements=_with_rows(problem, rows, moving, [observable_of(one.constraint) for one in read.constraints]),
        constraints=tuple(text for text in problem.constraints if is_prior(text)),
        derived={},
    )


def _with_rows(problem: Problem, rows: tuple[RuleRow, ...], moving: Collection[int], names: list[str]) -> Measurements:
    """Return the measurements with those of rules behind them.

    A row whose time depends on parameters sees what an event at that very time sets.
    """
    data, experiments = problem.measurements, problem.experiments
    n, first_row = len(rows), int(np.max(data.row, initial=-1)) + 1
    of = np.array([experiments[row.experiment].name for row in rows], dtype=object)
    start = np.array([experiments[row.experiment].start for row in rows])
    time = np.array([row.time for row in rows])
    time = np.where(np.isnan(time), start, time)
    only_at_rest = np.array([not _is_run(problem, row.experiment) for row in rows], dtype=bool)
    like = [int(np.flatnonzero(data.experiment == name)[0]) for name in of]  # groups are the same in an experiment
    sigma = 1.0 if np.isfinite(problem.sigma).any() else math.nan
    return dataclasses.replace(
        data,
        experiment=np.concatenate([data.experiment, of]),
        time=np.concatenate([data.time, np.where(only_at_rest, np.inf, time)]),
        observable=np.concatenate([data.observable, np.array([names[row.constraint] for row in rows], dtype=object)]),
        value=np.concatenate([data.value, np.zeros(n)]),
        row=np.concatenate([data.row, first_row + np.arange(n)]),
        sigma=np.concatenate([data.sigma, np.full(n, sigma)]),
        weight=np.concatenate([data.weight, np.full(n, np.inf)]),
        side=np.concatenate([data.side, np.where(np.isin(np.arange(n), list(moving)), 1, -1)]),
        since=np.concatenate([data.since, np.full(n, np.nan)]),
        censoring=np.concatenate([data.censoring, np.zeros(n, np.int64)]),
        groups={name: np.concatenate([column, column[like]]) for name, column in data.groups.items()},
        arguments={
            name: np.concatenate([column, np.full(n, "", dtype=object)]) for name, column in data.arguments.items()
        },
    )


def _is_run(problem: Problem, e: int) -> bool:
    """Tell whether an experiment has data at finite times."""
    data = problem.measurements
    return bool(np.any((data.experiment == problem.experiments[e].name) & data.used & np.isfinite(data.time)))


def _fitted(problem: Problem) -> list[int]:
    """Return the numbers of the experiments that are fitted."""
    measured = set(problem.measurements.experiment[problem.measurements.used].tolist())
    return [e for e, one in enumerate(problem.experiments) if one.use == "fit" and one.name in measured]


def _rows(
    problem: Problem, constraints: tuple[ReadConstraint, ...]
) -> tuple[tuple[RuleRow, ...], dict[int, tuple[Any, ...]]]:
    """Return all measurements that are rules, and the times of those whose times depend on parameters."""
    rows: list[RuleRow] = []
    moving: dict[int, tuple[Any, ...]] = {}
    first, fitted = len(problem.measurements), _fitted(problem)
    for number, one in enumerate(constraints):
        experiments = fitted if one.kind != PARAMETERS or _differs(problem, one) else fitted[:1]
        for e in experiments:
            if one.kind != PARAMETERS and not _is_run(problem, e):
                raise ProblemError(
                    f'the rule "{one.constraint.text}" is about values at times, but experiment '
                    f"'{problem.experiments[e].name}' has data of its steady state only."
                )
            times, ends = _times(problem, one, e)
            for time in times:
                if ends:
                    moving[len(rows)] = ends
                rows.append(RuleRow(number, first + len(rows), e, time))
    return tuple(rows), moving


def _times(problem: Problem, one: ReadConstraint, e: int) -> tuple[list[float], tuple[Any, ...]]:
    """Return when a rule is observed in an experiment, and the times that depend on parameters."""
    experiment = problem.experiments[e]
    if one.kind == PARAMETERS:
        return [math.nan], ()
    if one.kind == PATH:
        return path_times(problem, e), ()
    ends = [read_constraints(problem).aggregates.ends[name] for name in one.reached]
    numbers = [float(time) for time in ends if time is not None and time.is_constant()]
    numbers += [] if one.at is None else [one.at]
    if min(numbers, default=math.inf) < experiment.start:
        raise ProblemError(
            f'the rule "{one.constraint.text}" looks at t = {min(numbers):g}, before the start of experiment '
            f"'{experiment.name}' at {experiment.start:g}."
        )
    if one.at is not None:
        return [one.at], ()
    end = problem.end_of(experiment)
    moved = tuple(time for time in ends if time is not None and not time.is_constant())
    if None in ends and max(numbers, default=end) > end:
        raise ProblemError(
            f'the rule "{one.constraint.text}" looks at t = {max(numbers):g}, behind the end of experiment '
            f"'{experiment.name}' at {end:g}, while an aggregate in it has no end; give it to=..."
        )
    latest = max([end, *numbers, *(_latest(problem, time, e) for time in moved)])
    return [latest], moved


def _latest(problem: Problem, time: Any, e: int) -> float:
    """Return the latest value that the bounds allow for a time, or twice that of the start values."""
    return _window(problem, [time], e)[1]


def _window(problem: Problem, times: Sequence[Any], e: int) -> tuple[float, float]:
    """Return where these times may lie: as far as bounds of parameters allow, or from half to twice their start."""
    at_start, start = ParameterValues(problem, {}, e), problem.experiments[e].start
    free = [slot for slot in problem.slots.slots if not slot.parameter.fixed]
    low, high = math.inf, -math.inf
    for time in times:
        first = at_start.of(time)
        if not math.isfinite(first):
            raise UnsupportedError("a rule at a time that is no expression of parameters")
        reached = {first}
        for side, factor in (("lower", 1.0 / _LATER), ("upper", _LATER)):
            bounds = {slot.name: getattr(slot.parameter, side) for slot in free}
            bounds = {name: bound for name, bound in bounds.items() if math.isfinite(bound)}
            there = ParameterValues(problem, bounds, e).of(time)
            bounded = math.isfinite(there) and there != first
            reached.add(there if bounded else start + factor * (first - start))
        low, high = min(low, *reached), max(high, *reached)
    return max(low, start), high


def path_times(problem: Problem, e: int) -> list[float]:
    """Return the grid of times on which path constraints are held in experiment number `e`."""
    experiment, wanted = problem.experiments[e], problem.settings.path_times
    end, start = problem.end_of(experiment), experiment.start
    if isinstance(wanted, tuple):
        inside = [time for time in wanted if start <= time]
        if not inside:
            raise ProblemError(
                f"path_times = {list(wanted)}: none of them lies behind the start of experiment '{experiment.name}' at "
                f"{start:g}."
            )
        return inside
    data = problem.measurements
    mine = data.time[(data.experiment == experiment.name) & data.used & np.isfinite(data.time)]
    return np.unique(np.concatenate([np.linspace(start, end, wanted + 1), mine])).tolist()


def _differs(problem: Problem, one: ReadConstraint) -> bool:
    """Tell whether experiments differ in what a rule of parameters uses."""
    names = {name for experiment in problem.experiments for name in experiment.overrides}
    names |= {p.name for p in problem.parameters if p.per is not None}
    used = names_in(one.expression)
    return bool(names) and (bool(used & names) or problem.depends_on(one.expression, names))


def check_constraints(problem: Problem) -> None:
    """Refuse rules that cannot be read, or that use what has no value of its own in an experiment."""
    model = problem.model
    by_row = {*problem.structure.slots.by_row, *problem.measurements.arguments}
    for one in read_constraints(problem).constraints:
        if by_row and problem.depends_on(one.expression, by_row):
            raise UnsupportedError(
                f'the rule "{one.constraint.text}" with a value per measurement; use what is the same in an experiment'
            )
        names = names_in(model.resolve([one.expression])[0])
        if one.kind == PARAMETERS and not names and not _differs(problem, one):
            raise ProblemError(f'the rule "{one.constraint.text}" has no parameter and no state; remove it.')


def names_in_constraints(problem: Problem) -> set[str]:
    """Return the names of parameters that only the problem has, and rules use."""
    if not problem.structure.restrictions:
        return set()
    read = read_constraints(problem)
    parts = [one.expression for one in read.constraints]
    parts += [part for one in read.aggregates.gathered.values() for part in (one.expression, one.counts)]
    parts += [part for one in read.aggregates.readings.values() for part in (one.expression, one.time)]
    used: set[str] = set()
    for part in parts:
        used |= names_in(problem.model.resolve([part])[0])
    return used
