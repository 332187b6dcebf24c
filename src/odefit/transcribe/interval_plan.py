"""What stays the same in all evaluations of a problem that is cut at nodes: its tasks, rows and unknowns.

Rows are those of single shooting, in the same order; then come those that hand states over to nodes, and priors.  A row
of the Jacobian has entries for the node that its interval begins with, one for the weight of a row that hands over, and
then those of theta; see `odefit.solve.node_elimination`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from odefit.errors import FitError, UnsupportedError
from odefit.integrate import Counters
from odefit.integrate.task import Task
from odefit.native.records import Words
from odefit.problem import Problem
from odefit.solve.node_elimination import FIRST_ROW, HANDOVER, LAST_ROW, N_STATES, NODE
from odefit.transcribe.intervals import Nodes, check_nodes, cut, node_times
from odefit.transcribe.observation import Observation, Observations
from odefit.transcribe.plan import plan_of
from odefit.transcribe.record import (
    FITTING,
    Begin,
    Handover,
    Records,
    equilibration_records,
    penalty_record,
    shared_row,
    table_of,
    task_records,
)

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_NOWHERE: Mapping[int, tuple[float, float]] = MappingProxyType({})
MOST_STATES = 300
"""Of a model, up to which its states may be unknowns at nodes."""


class IntervalPlan:
    """Tasks of intervals; what is not described here is as in `Plan`, whose part it takes in a `Shooter`.

    Parameters
    ----------
    nodes
        How many an experiment has at most, or where they stand; None: at the data; (): there are none.
    data
        A part of the problem's measurements, in the place of all.
    uncut, n_measured
        For experiments stretches of time in which no node may stand; number of the measurements that are no rules.

    Attributes
    ----------
    whole
        The plan of single shooting.
    intervals, node_times
        All of them, one observation after the other; where the nodes of each observation stand.
    first_task
        Number of the first interval among the tasks, behind the equilibrations.
    n_nodes, n_node_states
        Nodes in all, and their states together.
    n_rows, n_handover, width
        Rows in all, those that hand over, and columns of the Jacobian as it is stored.
    chain
        Rows and nodes of the intervals, see `odefit.solve.node_elimination`.
    """

    def __init__(
        self,
        problem: Problem,
        nodes: Nodes = None,
        data: Observations | None = None,
        uncut: Mapping[int, tuple[float, float]] = _NOWHERE,
        n_measured: int | None = None,
    ) -> None:
        whole = self.whole = plan_of(problem, data=data)
        self.compiled = whole.compiled
        structure, observed = self.compiled.structure, whole.data.of_experiment
        if nodes == ():
            self._refuse_rules()
        else:
            self._refuse(problem, observed)
        self.node_times = [node_times(o, nodes, uncut.get(o.experiment), n_measured) for o in observed]
        check_nodes(nodes, self.node_times, list(observed))
        self.intervals = [
            interval
            for k, (o, times) in enumerate(zip(observed, self.node_times, strict=True))
            for interval in cut(o, times, k, apart=self._hands_over_apart(o))
        ]
        self.equilibrations = whole.equilibrations
        self.first_task = len(self.equilibrations)
        tasks = ((one.observation.experiment, one.observation.at_rest) for one in self.intervals)
        self.tasks = (*((run, False) for run in self.equilibrations), *tasks)
        self.runs = tuple(run for run, _ in self.tasks)
        self.resting = frozenset(i for i, (_, at_rest) in enumerate(self.tasks) if at_rest or i < self.first_task)
        self.n_most = max(self.compiled.model(one.observation.experiment).n_states for one in self.intervals)
        self.n_theta = self.compiled.n_theta
        self.width = self.n_most + 1 + self.n_theta
        self._lay_chain()
        self._kept: list[object] = []
        self._begins: dict[int, Begin] = {}
        column_of_theta = self.n_most + 1 + np.arange(self.n_theta, dtype=np.int64)
        theta = self.compiled.theta_of_q
        self._column_of_slot = np.where(theta >= 0, self.n_most + 1 + theta, -1).astype(np.int64)
        self._column_of_theta = column_of_theta
        records = [equilibration_records(structure, run) for run in self.equilibrations]
        records += [self._records(k) for k in range(len(self.intervals))]
        self._kept += records
        self.table: Words = table_of(records)
        self._penalty = penalty_record(structure, whole.n_data + self.n_handover, self._column_of_slot)

    def _refuse(self, problem: Problem, observed: tuple[Observation, ...]) -> None:
        """Refuse what cannot be cut at nodes, in words."""
        for o in observed:
            model, name = self.compiled.model(o.experiment), problem.experiments[o.experiment].name
            if model.n_states > MOST_STATES:
                raise UnsupportedError(
                    f'nodes of a model with {model.n_states} states (at most {MOST_STATES}); use method = "single" or '
                    '"incremental"'
                )
            if model.gathering.extremes.size:
                raise UnsupportedError(
                    f"nodes in experiment '{name}', where max or min over time is used: nobody knows beforehand in "
                    'which interval the extreme lies; use method = "single" or "incremental"'
                )
        if not any(self.compiled.model(o.experiment).n_states for o in observed):
            raise FitError(
                'the model has no differential equations, so there is nothing to cut; use method = "single".'
            )
        if self.whole.criterion.joint:
            raise UnsupportedError(
                f"nodes with the criterion '{self.whole.criterion.name}' of all data together; use method = \"single\""
            )

    def _refuse_rules(self) -> None:
        """Refuse what cannot have rules, in words."""
        if self.whole.criterion.joint:
            raise UnsupportedError(f"rules with the criterion '{self.whole.criterion.name}' of all data together")

    def _hands_over_apart(self, o: Observation) -> bool:
        """Tell whether what is handed over may differ from what is measured at that time."""
        structure = self.compiled.structure
        return bool(structure.occurrences[o.experiment].kind.size or o.n_slots)

    def _lay_chain(self) -> None:
        """Lay out rows and node states of the intervals."""
        n_data, rows = self.whole.n_data, 0
        chain = np.full((len(self.intervals) + 1, 5), -1, np.int64)
        hand, node, nodes = n_data, 0, 0
        for row, one in zip(chain, self.intervals, strict=False):
            n, m = self.compiled.model(one.observation.experiment).n_states, one.observation.value.size
            row[FIRST_ROW], row[LAST_ROW], row[N_STATES] = rows, rows + m, n
            rows += m
            if not one.is_first:
                row[NODE] = node
                node, nodes = node + n, nodes + 1
            if not one.is_last:
                row[HANDOVER] = hand
                hand += n
        self.n_nodes, self.n_node_states, self.n_handover = nodes, node, hand - n_data
        n_priors = self.whole.n_residuals - n_data
        chain[-1] = hand, hand + n_priors, -1, -1, 0
        self.n_rows, self.chain = hand + n_priors, chain

    def _records(self, k: int) -> Records:
        """Return the records of interval `k`."""
        one, structure = self.intervals[k], self.compiled.structure
        o, first_row = one.observation, int(self.chain[k, FIRST_ROW])
        columns = self._column_of_theta[structure.columns[o.experiment]]
        records = task_records(structure, o, first_row, columns, self._column_of_slot)
        if one.is_first:
            return records
        task, switching, gathering, bordering, equilibrium, _, mapping, measured = records
        n = task.n
        own = np.arange(n, dtype=np.int64)
        task = task._replace(start=o.t0, n_columns=task.n_columns + n, n_directions=task.n_directions + n)
        begin = Begin(
            first=np.eye(n).ravel(), column=np.append(own, np.full(columns.size, -1)), n_states=n, at_node=1,
            since=float(structure.experiment_starts[o.experiment]),
        )  # fmt: skip
        self._begins[k] = begin
        mapping = mapping._replace(column=np.where(mapping.column >= 0, mapping.column + n, -1).astype(np.int64))
        measured = measured._replace(columns=np.append(own, columns))
        bordering = bordering._replace(from_false=np.zeros_like(bordering.from_false))
        return task, switching._replace(over=1), gathering, bordering, equilibrium, begin, mapping, measured

    def connect(self, table: Words, states: Array, weights: Array, sink: int) -> None:
        """Write into a table where node states and weights of handovers are found, and who hands over."""
        for k, one in enumerate(self.intervals):
            row, n = table[self.first_task + k], int(self.chain[k, N_STATES])
            if not one.is_first:
                at = int(self.chain[k, NODE])
                FITTING.put(row, self._begins[k]._replace(state=states[at : at + n]))
            if not one.is_last:
                at = int(self.chain[k + 1, NODE])
                FITTING.put(
                    row,
                    Handover(int(self.chain[k, HANDOVER]), self.n_most, states[at : at + n], weights[at : at + n]),
                )
                FITTING.set(row, Task, "sink", sink)

    @property
    def nodes(self) -> dict[int, tuple[float, ...]]:
        """Where nodes stand, for each experiment that has any by its number."""
        observed = zip(self.whole.data.of_experiment, self.node_times, strict=True)
        return {o.experiment: tuple(times.tolist()) for o, times in observed if times.size}

    @property
    def first_count(self) -> Indices:
        """Where, among the numbers that steps are counted with, those of each task begin, and where the last end."""
        sizes = [len(Counters._fields)] * self.first_task
        sizes += [len(Counters._fields) + one.observation.ends.size for one in self.intervals]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @property
    def in_pieces(self) -> dict[int, int]:
        """The tasks whose pieces depend on conditions in time, each with a guess how many there are."""
        result = {}
        for i, one in enumerate(self.intervals, start=self.first_task):
            o = one.observation
            switches = self.compiled.model(o.experiment).switches
            if switches is not None:
                events = self.compiled.structure.occurrences[o.experiment].kind.size
                result[i] = o.ends.size + switches.level.size + events
        return result

    @cached_property
    def shared(self) -> Words:
        """What all tasks share; see `odefit.transcribe.record.SHARED`."""
        return shared_row(self.compiled, self._penalty)
