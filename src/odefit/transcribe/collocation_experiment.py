"""One experiment as collocation sees it: parameters and initial state as expressions, moments of events, switches."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledStructure
from odefit.compile.conditions import (
    constants_of,
    formal_parameters,
    map_expressions,
    parameters_of,
    pattern_of,
    stack,
)
from odefit.compile.events import N_ARGUMENTS
from odefit.errors import UnsupportedError
from odefit.model.table_calls import has_table
from odefit.problem import Experiment, Problem
from odefit.problem.resolution import symbol_of
from odefit.transcribe.collocation_model import OTHERS, CollocationModel, collocation_model
from odefit.transcribe.observation import Observation

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

MOST_STATES = 300


@dataclass(frozen=True, eq=False)
class CollocationExperiment:
    """One experiment with its measurements.

    Attributes
    ----------
    observation, experiment
        Its measurements; what it replaces, its tables.
    model
        Equations and observables.
    gather
        Slots that are its parameters q.
    q, p, y0
        Symbols of q; the entries of p and the initial state as expressions of q, SX columns.
    kinds
        Of what happens, in order.
    moment_expressions
        For each of these its moment, an expression of q; None where it is a number.
    same_moment
        For each of these the first one that has the same moment.
    free
        Names of the entries of q that are estimated.
    """

    observation: Observation
    experiment: Experiment
    model: CollocationModel
    gather: Indices
    q: Any
    p: Any
    y0: Any
    kinds: Indices
    arguments: Array
    free: frozenset[str]
    moment_expressions: tuple[Any, ...] = field(init=False)
    same_moment: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        every = self._all_moments
        expressions = [None if every[k].is_constant() else every[k] for k in range(self.kinds.size)]
        first: dict[str, int] = {}
        same = [first.setdefault(str(one) if one is not None else str(k), k) for k, one in enumerate(expressions)]
        object.__setattr__(self, "moment_expressions", tuple(expressions))
        object.__setattr__(self, "same_moment", tuple(same))

    @cached_property
    def _all_moments(self) -> Any:
        """The moments of all occurrences as expressions of q, a column."""
        if not self.kinds.size:
            return ca.SX(0, 1)
        arguments = self.arguments.reshape(-1, N_ARGUMENTS)
        moments = [
            self.model.moments(0, ca.SX(0, 1), self.p, ca.SX(ca.DM(a)))[int(k)]
            for k, a in zip(self.kinds, arguments, strict=True)
        ]
        return ca.simplify(ca.vertcat(*moments))

    @cached_property
    def values_function(self) -> Any:
        """CasADi function of q: p and y0."""
        return ca.Function("values", [self.q], [ca.densify(self.p), ca.densify(self.y0)])

    def values(self, q: Array) -> tuple[Array, Array]:
        """Return p and y0."""
        p, y0 = self.values_function(q)
        return np.asarray(p).reshape(-1), np.asarray(y0).reshape(-1)

    @cached_property
    def _moments_function(self) -> Any:
        return ca.Function("moments", [self.q], [ca.densify(self._all_moments)])

    def moments(self, q: Array) -> Array:
        """Return the moments of all occurrences."""
        return np.asarray(self._moments_function(q)).reshape(-1)

    @cached_property
    def has_moving_times(self) -> bool:
        """Whether a moment or a switch depends on q."""
        if any(one is not None for one in self.moment_expressions):
            return True
        split = self.model.split
        if split is None or not split.kind:
            return False
        t, u = ca.SX.sym("t"), ca.SX.sym("u", len(split.kind))
        names = {s.element_hash() for s in ca.symvar(self.model.switches(t, self.p, u))}
        return bool(names & {s.element_hash() for s in ca.symvar(self.q)})

    @cached_property
    def has_events_at_start(self) -> bool:
        """Whether something may happen as it begins: at that time, or at one that parameters decide."""
        at = zip(self.moment_expressions, self._all_moments.elements(), strict=True)
        return any(one is not None or float(value) <= self.observation.t0 for one, value in at)

    def depends_on_estimates(self, expression: Any) -> bool:
        """Tell whether an expression of q uses what is estimated."""
        return any(symbol.name() in self.free for symbol in ca.symvar(expression))

    def switch(self, times: Array, p: Array, u: Array, j: int) -> Array:
        """Return switch number `j` at these times."""
        n = times.size
        repeated = np.repeat(p[:, None], n, axis=1), np.repeat(u[:, None], n, axis=1)
        return np.asarray(self.model.switches(times[None, :], *repeated))[j]

    def zero_of_switch(self, j: int, u: Array, whole: float) -> Any:
        """Return when a switch has a value, as an expression of q; None if that is a number."""
        split = self.model.split
        assert split is not None
        at = [self.model.switches(t, self.p, ca.SX(ca.DM(u)))[j] for t in (0.0, 1.0)]
        every = ca.symvar(self.model.switches(ca.SX.sym("t"), self.p, ca.SX(ca.DM(u)))[j])
        if not {s.element_hash() for s in every} & {s.element_hash() for s in ca.symvar(self.q)}:
            return None
        if not split.affine[j]:
            raise UnsupportedError(
                "collocation with a condition in time that is no straight line in time and depends on parameters; "
                f"{OTHERS}"
            )
        return (whole - at[0]) / (at[1] - at[0])


def collocation_experiments(
    problem: Problem, structure: CompiledStructure, observed: tuple[Observation, ...]
) -> tuple[CollocationExperiment, ...]:
    """Return the experiments that have data, or refuse one of them in words."""
    models: dict[int, CollocationModel] = {}
    result = []
    for o in observed:
        _refuse(problem, structure, o)
        variant = structure.variant(o.experiment)
        if id(variant) not in models:
            models[id(variant)] = collocation_model(problem, variant.symbolic)
        result.append(_experiment(problem, structure, o, models[id(variant)]))
    return tuple(result)


def _refuse(problem: Problem, structure: CompiledStructure, o: Observation) -> None:
    name, model = problem.experiments[o.experiment].name, structure.model(o.experiment)
    if model.n_states > MOST_STATES:
        raise UnsupportedError(f"collocation of a model with {model.n_states} states (at most {MOST_STATES}); {OTHERS}")
    if not model.n_states:
        raise UnsupportedError('collocation of a model without differential equations; use method = "single"')
    if o.at_rest or structure.equilibration[o.experiment] >= 0:
        raise UnsupportedError(f"collocation with a steady state (experiment '{name}'); {OTHERS}")
    if model.gathering.extremes.size or o.n_slots:
        what = "max or min over time" if model.gathering.extremes.size else "an aggregate since the row before"
        raise UnsupportedError(f"collocation with {what} (experiment '{name}'); {OTHERS}")


def _experiment(
    problem: Problem, structure: CompiledStructure, o: Observation, model: CollocationModel
) -> CollocationExperiment:
    e, experiment = o.experiment, problem.experiments[o.experiment]
    variant = structure.variant(e).symbolic
    constants = [ca.SX(value) for value in constants_of(experiment)]
    _, outputs = map_expressions(problem, variant, pattern_of(experiment), constants)
    if has_table(stack(outputs)):
        raise UnsupportedError(
            "collocation with a parameter or initial value that needs a table or an algebraic unknown (experiment "
            f"'{experiment.name}'); {OTHERS}"
        )
    formal = formal_parameters(problem)
    n_entries = len(parameters_of(problem, variant))
    free = {name for name, slot in zip(formal, structure.gather[e], strict=True) if structure.theta_of_q[slot] >= 0}
    return CollocationExperiment(
        observation=o,
        experiment=experiment,
        model=model,
        gather=structure.gather[e],
        q=stack(symbol_of(problem, name) for name in formal),
        p=stack(outputs[: len(model.names)]),
        y0=stack(outputs[n_entries:]),
        kinds=structure.occurrences[e].kind,
        arguments=structure.occurrences[e].arguments,
        free=frozenset(free),
    )
