"""The compiled structure: native code, and which numbers of a problem go where in it.

It belongs to all problems that differ in start values, bounds and settings only (`Problem.structure`): a start of a
fit among a thousand brings three arrays of numbers (`CompiledProblem`) and finds the rest here.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from odefit.compile.conditions import constants_of, formal_parameters
from odefit.compile.conserved import Laws
from odefit.compile.equilibria import (
    Behind,
    StartFromRest,
    behind_events,
    check_equilibration,
    check_start,
    laws_of,
    start_from_rest,
)
from odefit.compile.events import occurrences_of
from odefit.compile.experiment_tables import ExperimentTables, Packed
from odefit.compile.functions import NativeFunction
from odefit.compile.native_problem import CompiledModel, NativeProblem, NativeVariant, native_problem
from odefit.compile.parameter_map import Mapping
from odefit.compile.penalties import penalty_constants
from odefit.compile.scales import CODES, LINEAR
from odefit.problem import Problem
from odefit.problem.arguments import entries_in_cells, slots_in_cells
from odefit.problem.equilibration import runs_of

Vector = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_MOST_LAWS = 100  # sets of them that are kept, for different values of what is fixed


class CompiledStructure:
    """Native functions, the slots q behind the parameters, and the solver's vector theta; no values.

    Attributes
    ----------
    slot_names, parameter_of_slot
        Names of q; positions of their parameters among those of the problem.
    theta_names, theta_scales, scale_codes, free
        Of the solver's vector: names, scales, positions in q.
    theta_of_q
        Positions of q in the solver's vector, -1: fixed.
    n_experiments
        Everywhere, entries behind those of the experiments belong to their equilibrations: see
        `odefit.problem.equilibration`.
    experiment_starts
        Times.
    tables, occurrences
        Those of each experiment, and what happens in it.
    penalty, penalty_constants
        Residuals of the priors, a function of q and of the numbers of the priors; None without priors.
    """

    def __init__(self, problem: Problem, native: NativeProblem) -> None:
        self._native = native
        layout, parameters, runs = problem.structure.slots, problem.parameters, runs_of(problem)
        self._symbolic, self.n_experiments = problem.model, len(problem.experiments)
        self.equilibration = runs.equilibration
        self.experiment_starts = tuple(e.start for e in runs.all)
        self.constants = tuple(np.array(constants_of(e), dtype=float) for e in runs.all)
        self.slot_names = layout.names
        self.slot_index = layout.index
        self.parameter_of_slot = layout.parameter
        owners = [parameters[i] for i in layout.parameter]
        free = [i for i, owner in enumerate(owners) if not owner.fixed and i in layout.fitted]
        self.free = np.array(free, dtype=np.int64)
        self.theta_names = tuple(layout.names[i] for i in free)
        self.theta_scales = tuple(owners[i].scale for i in free)
        self.scale_codes = np.array([CODES[scale] for scale in self.theta_scales], dtype=np.int64)
        self.theta_of_q = np.full(len(owners), -1, dtype=np.int64)
        self.theta_of_q[self.free] = np.arange(len(free))
        formal = formal_parameters(problem)
        # an entry that an experiment overrides everywhere needs some slot to point to; its value is not used
        self.gather = tuple(
            np.array([layout.of_experiment[owner].get(name, 0) for name in formal], dtype=np.int64)
            for owner in runs.owner
        )
        by_row = [slot for index in layout.of_group.values() for slot in index.values()]
        self._shared_slots = [*by_row, *(i for i, owner in enumerate(owners) if owner.per is None)]
        self._shared_slots += slots_in_cells(problem)
        self._entries_in_cells = tuple(
            np.array([self.model(e).parameters.index(name) for name in names], dtype=np.int64)
            for e, names in enumerate(entries_in_cells(problem))
        )
        packed: Packed = {}
        self.tables = tuple(ExperimentTables(problem, one, self.model(e), packed) for e, one in enumerate(runs.all))
        self.occurrences = tuple(occurrences_of(problem, one) for one in runs.all)
        self._laws: dict[tuple[int, bytes], Laws] = {}
        self._behind = tuple(
            behind_events(problem, e, self.model(e), self.occurrences[e]) for e in range(self.n_experiments)
        )
        for e, one in enumerate(runs.all):
            if e >= self.n_experiments:
                check_equilibration(problem, one, self.model(e))
            elif runs.equilibration[e] >= 0:
                check_start(problem, one, self.variant(e).symbolic)
        self.penalty = native.penalty
        self.penalty_constants = np.array(penalty_constants(problem), dtype=float)

    @property
    def n_theta(self) -> int:
        """Number of free parameters."""
        return len(self.theta_names)

    def model(self, e: int) -> CompiledModel:
        """Return the right-hand side of experiment number `e`."""
        return self._native.variants[self._native.variant_of[e]].model

    def observe(self, e: int) -> NativeFunction:
        """Return the observables ``g(t, y, p, u, a)`` of experiment `e`, in the order of ``problem.observables``.

        They are differentiated by (y, p, a); `a` holds what depends on the measurement: parameters and arguments.
        """
        return self._native.variants[self._native.variant_of[e]].observe

    def sigma(self, e: int) -> NativeFunction | None:
        """Return the standard deviations ``sigma(t, y, p, u, a)`` of the observables where expressions say them.

        They have the form of `observe`, 0 for observables whose noise is no expression; None where all are numbers.
        """
        return self._native.variants[self._native.variant_of[e]].sigma

    def variant(self, e: int) -> NativeVariant:
        """Return the code of the model as experiment `e` changes it; experiments that change the same share it."""
        return self._native.variants[self._native.variant_of[e]]

    @cached_property
    def mappings(self) -> tuple[Mapping, ...]:
        """The map of each experiment, for kernels; without second derivatives."""
        result = []
        for e, (gather, constants, column) in enumerate(
            zip(self.gather, self.constants, self.column_of_input, strict=True)
        ):
            function = self.map_function(e)
            result.append(
                Mapping(
                    function.value,
                    function.jacobian,
                    0,
                    function.row_ptr,
                    function.col,
                    gather,
                    constants,
                    column,
                    self.tables[e].new_inputs(),
                )  # fmt: skip
            )
        return tuple(result)

    def map_function(self, e: int) -> NativeFunction:
        """Return the map of experiment `e` with its derivatives."""
        return self._native.maps[self._native.map_of[e]]

    @cached_property
    def logarithmic(self) -> npt.NDArray[np.bool_]:
        """Which entries of the solver's vector are not natural values."""
        return self.scale_codes != LINEAR

    @cached_property
    def is_curved(self) -> bool:
        """Whether an entry of the solver's vector is not a natural value."""
        return bool(self.logarithmic.any())

    @cached_property
    def columns(self) -> tuple[Indices, ...]:
        """Indices of the thetas that each experiment's states or observables depend on; those of the states first."""
        result = []
        for e in range(len(self.gather)):
            moving = self._moving(e)
            every = self._thetas(e, observables=True) if e < self.n_experiments else moving
            result.append(np.concatenate([moving, np.setdiff1d(every, moving)]))
        return tuple(result)

    def _moving(self, e: int) -> Indices:
        """Return the thetas that reach the states of an experiment, through its equilibration too."""
        own = self._thetas(e, observables=False)
        if e >= self.n_experiments or self.equilibration[e] < 0:
            return own
        return np.union1d(own, self._thetas(self.equilibration[e], observables=False))

    @cached_property
    def n_directions(self) -> tuple[int, ...]:
        """How many of these, the first ones, reach the states of each experiment."""
        return tuple(self._moving(e).size for e in range(len(self.gather)))

    @cached_property
    def starts_from_rest(self) -> tuple[StartFromRest | None, ...]:
        """What each experiment takes from its equilibration; None for those that have none."""
        return tuple(
            None if run < 0 else start_from_rest(self._symbolic, e, run, self.model(e), self.columns)
            for e, run in enumerate(self.equilibration)
        )

    def laws(self, run: int, slots: Vector) -> Laws:
        """Return what an equilibration conserves, where slots that are fixed have these values.

        Or what an experiment does on its way to rest, behind its last event.
        """
        known = np.where(self.theta_of_q >= 0, np.nan, slots)[self.gather[run]]
        key = (run, known.tobytes())
        if key not in self._laws:
            if len(self._laws) > _MOST_LAWS:
                self._laws.clear()
            model, start = self.model(run), self.map_function(run)
            behind = self._behind[run] if run < self.n_experiments else Behind()
            self._laws[key] = laws_of(self._symbolic, model, start, known, self.constants[run], behind)
        return self._laws[key]

    def _thetas(self, e: int, *, observables: bool) -> Indices:
        thetas = self.theta_of_q[self.gather[e][self._inputs_that_matter(e, observables=observables)]]
        return np.unique(thetas[thetas >= 0])

    def _inputs_that_matter(self, e: int, *, observables: bool = True) -> Indices:
        """Return the inputs of an experiment's map that reach its initial state, right-hand side or `observables`."""
        function, model = self.map_function(e), self.model(e)
        n, n_p = model.n_states, model.n_parameters
        used = np.zeros(n_p + n, dtype=bool)
        used[n_p:] = True
        before = [(model.rhs, model.n_before_p), *([(self.observe(e), n)] if observables else [])]
        for other, n_y in before:
            col = other.col.astype(np.int64)
            used[col[(col >= n_y) & (col < n_y + n_p)] - n_y] = True
        if observables and e < self.n_experiments:
            used[self._entries_in_cells[e]] = True
        if model.switches is not None:  # of (time, p)
            col = model.switches.function.col.astype(np.int64)
            used[col[col >= 1] - 1] = True
            if model.switches.events is not None:  # of p, and of (time, y, p)
                used[model.switches.events.moments.col.astype(np.int64)] = True
                col = model.switches.events.changes.col.astype(np.int64)
                used[col[col >= 1 + n] - 1 - n] = True
            if model.switches.borders is not None:  # of ((time, y, y'), p)
                col = model.switches.borders.function.col.astype(np.int64)
                used[col[col >= 1 + 2 * n] - 1 - 2 * n] = True
        if model.gathering.watch is not None:  # of ((t, y), p)
            col = model.gathering.watch.col.astype(np.int64)
            used[col[col >= 1 + n] - 1 - n] = True
        entries = np.repeat(used, np.diff(function.row_ptr))
        return np.unique(function.col[entries]).astype(np.int64)

    @cached_property
    def used_slots(self) -> frozenset[str]:
        """Names of the slots that are estimated, shared by all, or that an experiment, measurement or prior needs."""
        used = {*self._shared_slots, *self.free.tolist()}
        for e, gather in enumerate(self.gather):
            used.update(gather[self._inputs_that_matter(e)].tolist())
        return frozenset(self.slot_names[i] for i in used)

    @cached_property
    def column_of_input(self) -> tuple[Indices, ...]:
        """Per experiment: for each input of its map the column among its thetas, -1 if it is fixed."""
        result = []
        for columns, gather in zip(self.columns, self.gather, strict=True):
            local = np.full(self.n_theta + 1, -1, dtype=np.int64)  # the last entry answers for "fixed"
            local[columns] = np.arange(len(columns))
            result.append(local[self.theta_of_q[gather]])
        return tuple(result)


def compiled_structure(problem: Problem) -> CompiledStructure:
    """Return the compiled form of the structure of `problem`; it is made once."""
    return problem.structure.kept.get("compiled", lambda: CompiledStructure(problem, native_problem(problem)))
