"""What stays the same in all evaluations of a problem: its residuals, and the unknowns they depend on.

All of it but start values and bounds is arranged once for the problems that differ in these only, a thousand starts of
one fit say.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem, CompiledStructure, compile_problem
from odefit.criteria import Criterion, criterion_named
from odefit.criteria.least_squares import common_factor, has_absolute_sigma
from odefit.errors import FitError
from odefit.integrate import Counters
from odefit.native.records import Words
from odefit.problem import Problem
from odefit.solve.blocks import BlockLayout
from odefit.transcribe.blocks import find_blocks
from odefit.transcribe.observation import Observations, observations
from odefit.transcribe.record import (
    NO_CHANGES,
    PartFields,
    Penalty,
    Records,
    equilibration_records,
    part_of_records,
    penalty_record,
    shared_row,
    table_of,
    table_of_part,
    task_records,
    unknowns_of_penalties,
)

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The rows and columns of the Jacobian of problems that differ in numbers only.

    Attributes
    ----------
    compiled, data
        Functions and measurements.
    joint
        Whether the criterion needs the whole Jacobian.
    absolute
        Whether standard deviations are known, so that the covariance is not rescaled.
    experiment_names
        Of all experiments, measured or not.
    whole
        That of all data, if these are a part of them.
    """

    compiled: CompiledStructure
    data: Observations
    joint: bool
    experiment_names: tuple[str, ...]
    absolute: bool
    whole: Arrangement | None = None

    @cached_property
    def root_weights(self) -> npt.NDArray[np.float64]:
        """Root weights of the measurements of finite weight, in the order of the rows."""
        return np.delete(np.concatenate([o.root_weight for o in self.data.of_experiment]), self.data.exact)

    @cached_property
    def observed_names(self) -> tuple[str, ...]:
        """Names of the experiments that have data."""
        return tuple(self.experiment_names[o.experiment] for o in self.data.of_experiment)

    @cached_property
    def n_residuals(self) -> int:
        """Number of measurements and priors."""
        return self.data.n_data + (self.compiled.penalty.n_out if self.compiled.penalty else 0)

    @cached_property
    def layout(self) -> BlockLayout | None:
        """Blocks of unknowns that only single experiments depend on, if there are many unknowns."""
        observed, compiled = self.data.of_experiment, self.compiled
        if self.data.heavy_root.size or len(observed) < 4 or self.joint:
            return None
        parts, sizes = [], []
        for o in observed:
            sources = np.unique(o.argument_source)  # entries of p are among the columns of the experiment
            by_row = compiled.theta_of_q[sources[(sources >= 0) & (sources < compiled.theta_of_q.size)]]
            parts.append(np.union1d(compiled.columns[o.experiment], by_row[by_row >= 0]))
            sizes.append(o.value.size)
        priors = unknowns_of_penalties(compiled)
        return find_blocks([*parts, *priors], [*sizes, *([1] * len(priors))], compiled.n_theta)

    @cached_property
    def n_columns(self) -> int:
        """Columns of the Jacobian as it is stored."""
        return self.layout.width if self.layout else self.compiled.n_theta

    @cached_property
    def columns(self) -> tuple[Indices, ...]:
        """For each observed experiment the columns of its seeds."""
        columns = [self.compiled.columns[o.experiment] for o in self.data.of_experiment]
        return tuple(columns if self.layout is None else [self.layout.position[c] for c in columns])

    @cached_property
    def column_of_slot(self) -> Indices:
        """For each slot its column, -1 if it is fixed."""
        theta = self.compiled.theta_of_q
        return theta if self.layout is None else np.where(theta >= 0, self.layout.position[theta], -1)

    @cached_property
    def equilibrations(self) -> tuple[int, ...]:
        """Numbers of the equilibrations that observed experiments need: their tasks come before all others."""
        needed = (self.compiled.equilibration[o.experiment] for o in self.data.of_experiment)
        return tuple(dict.fromkeys(run for run in needed if run >= 0))

    @cached_property
    def tasks(self) -> tuple[tuple[int, bool], ...]:
        """For each task the number of what it is of, and whether it is that of a steady state with data."""
        observed = ((o.experiment, o.at_rest) for o in self.data.of_experiment)
        return (*((run, False) for run in self.equilibrations), *observed)

    @cached_property
    def runs(self) -> tuple[int, ...]:
        """For each task the number of its equilibration or experiment."""
        return tuple(run for run, _ in self.tasks)

    @cached_property
    def resting(self) -> frozenset[int]:
        """The tasks that come to rest: equilibrations, and those of steady states with data."""
        return frozenset(i for i, (_, at_rest) in enumerate(self.tasks) if at_rest or i < len(self.equilibrations))

    @cached_property
    def _records(self) -> list[Records]:
        experiments = zip(self.data.of_experiment, self.data.first, self.columns, strict=False)
        return [
            *(equilibration_records(self.compiled, run) for run in self.equilibrations),
            *(task_records(self.compiled, o, first, columns, self.column_of_slot) for o, first, columns in experiments),
        ]

    @cached_property
    def penalty(self) -> Penalty:
        """The record of the priors."""
        return penalty_record(self.compiled, self.data.n_data, self.column_of_slot)

    @cached_property
    def table(self) -> Words:
        """Tasks of the observed experiments, without methods and grids."""
        if self.whole is None or self.layout is not None or self.whole.layout is not None:
            return table_of(self._records)
        return table_of_part(self.whole.table, self._rows_of_whole, self._parts)

    @cached_property
    def _rows_of_whole(self) -> list[int]:
        """Where the observed experiments stand in the table of all data."""
        assert self.whole is not None
        row = {task: i for i, task in enumerate(self.whole.tasks)}
        return [row[task] for task in self.tasks]

    @cached_property
    def _parts(self) -> list[PartFields]:
        """What is different there."""
        experiments = zip(self.data.of_experiment, self.data.first, strict=False)
        return [NO_CHANGES] * len(self.equilibrations) + [part_of_records(o, first) for o, first in experiments]

    @cached_property
    def first_count(self) -> Indices:
        """Where, among the numbers that steps are counted with, those of each task begin, and where the last end."""
        sizes = [len(Counters._fields)] * len(self.equilibrations)
        sizes += [len(Counters._fields) + o.ends.size for o in self.data.of_experiment]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @cached_property
    def in_pieces(self) -> dict[int, int]:
        """The tasks whose pieces depend on conditions in time, each with a guess how many there are."""
        result = {}
        for i, o in enumerate(self.data.of_experiment, start=len(self.equilibrations)):
            switches = self.compiled.model(o.experiment).switches
            if switches is not None:
                events = self.compiled.occurrences[o.experiment].kind.size
                result[i] = o.ends.size + switches.level.size + events
        return result


class Plan:
    """The rows and columns of one problem's Jacobian; see `Arrangement` for what is not described here.

    Attributes
    ----------
    arrangement
        What it shares with problems that differ in numbers only.
    compiled
        Functions, and the numbers of the problem.
    criterion
        What is minimised.
    names
        Of the unknowns.
    table, first_count, in_pieces
        Tasks of the observed experiments, without methods and grids, where each counts its steps, and which of them
        have conditions in time.
    equilibrations, runs, tasks, resting
        Numbers of the equilibrations, whose tasks come first, of what each task is of, and which come to rest.
    n_data, n_fitted
        Number of measurements, those that must be met exactly included, and left out.
    factor
        Of all weighted residuals; see `odefit.criteria.least_squares.common_factor`.
    """

    def __init__(
        self, arrangement: Arrangement, compiled: CompiledProblem, criterion: Criterion, factor: float = 1.0
    ) -> None:
        self.arrangement = arrangement  # the table holds addresses of its arrays
        self.compiled = compiled
        self.criterion = criterion
        self.factor = factor
        self.names = compiled.theta_names
        self.data = arrangement.data
        self.n_data = arrangement.data.n_data
        self.n_fitted = self.n_data - arrangement.data.exact.size
        self.experiment_names = arrangement.experiment_names
        self.observed_names = arrangement.observed_names
        self.absolute = arrangement.absolute
        self.n_residuals = arrangement.n_residuals
        self.layout = arrangement.layout
        self.n_columns = arrangement.n_columns
        self.columns = arrangement.columns
        self.column_of_slot = arrangement.column_of_slot
        self.table = arrangement.table
        self.first_count = arrangement.first_count
        self.in_pieces = arrangement.in_pieces
        self.equilibrations, self.runs = arrangement.equilibrations, arrangement.runs
        self.tasks, self.resting = arrangement.tasks, arrangement.resting

    @property
    def is_integrated(self) -> bool:
        """Whether there is a differential equation in any observed experiment."""
        return any(self.compiled.model(o.experiment).n_states > 0 for o in self.data.of_experiment)

    @property
    def root_weights(self) -> npt.NDArray[np.float64]:
        """Root weights of the measurements of finite weight, in the order of the rows."""
        return self.arrangement.root_weights

    def in_units(self, value: float) -> float:
        """Return a sum of squares without the common factor; 0 or infinity where that is no number."""
        return value / self.factor / self.factor

    def finite(self, differences: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the differences of the measurements of finite weight, priors left out."""
        data = differences[: self.n_data]
        return np.delete(data, self.data.exact) if self.data.exact.size else data

    @cached_property
    def shared(self) -> Words:
        """What all tasks share; see `odefit.transcribe.record.SHARED`."""
        return shared_row(self.compiled, self.arrangement.penalty)


def plan_of(problem: Problem, use: str = "fit", data: Observations | None = None) -> Plan:
    """Return the plan for the measurements of experiments with this use, or for `data`, a part of them."""
    if data is not None:
        return _planned(problem, use, data)
    return problem.kept.get(("plan", use), lambda: _planned(problem, use, None))


def _planned(problem: Problem, use: str, data: Observations | None) -> Plan:
    criterion = criterion_named(problem.settings.criterion)
    measurements = observations(problem, use) if data is None else data
    _refuse(measurements, criterion)
    compiled = compile_problem(problem)

    def arrange() -> Arrangement:
        if data is not None:
            whole = plan_of(problem, use).arrangement
            arrangement = dataclasses.replace(whole, data=measurements, whole=whole)
        else:
            names, absolute = tuple(e.name for e in problem.experiments), has_absolute_sigma(problem)
            arrangement = Arrangement(compiled.structure, measurements, criterion.joint, names, absolute)
        # made now, by one thread: made by two, it could hold addresses of records that are gone
        _ = arrangement.table, arrangement.penalty
        return arrangement

    key = ("arrangement", use, criterion.joint)
    arrangement = arrange() if data is not None else problem.structure.kept.get(key, arrange)
    return Plan(arrangement, compiled, criterion, common_factor(problem))


def _refuse(data: Observations, criterion: Criterion) -> None:
    """Refuse data that cannot be fitted."""
    if not data.n_data:
        raise FitError("there is nothing to fit: no experiment has a measured value with a weight above zero.")
    if data.heavy.size and not criterion.takes_heavy:
        raise FitError(
            f"the criterion '{criterion.name}' cannot meet data of very large or infinite weight; give them smaller "
            'weights, or use criterion = "least-squares".'
        )
