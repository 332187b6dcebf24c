"""The compiled problem: native code shared by structure, numbers kept per problem.

`compile_problem` is cheap when called again: native code belongs to the *structure* of a problem
(model, names, what experiments replace, what is measured), while start values, bounds, data, fixed
parameters and tolerances are run-time arguments.
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.compile.conditions import (
    Variant,
    constants_of,
    formal_parameters,
    map_function,
    model_functions,
    parameters_of,
    pattern_of,
    variant_of,
)
from odefit.compile.functions import FunctionLibrary, NativeFunction
from odefit.compile.parameter_map import map_parameters
from odefit.compile.penalties import penalty_constants, penalty_function
from odefit.compile.scales import CODES, LINEAR, natural_values, scaled_array
from odefit.errors import UnsupportedError
from odefit.problem import Problem
from odefit.problem.noise import sigma_expressions
from odefit.problem.problem import Structure

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CompiledModel:
    """Native right-hand side of a model, with names for messages.

    ``rhs.value(t, y, p, u, out)``, its Jacobian with respect to (y, p) in CSR, and D2f[v, w].
    """

    states: tuple[str, ...]
    parameters: tuple[str, ...]
    rhs: NativeFunction

    @cached_property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.states)

    @cached_property
    def n_parameters(self) -> int:
        """Length of p."""
        return len(self.parameters)

    @cached_property
    def no_pairs(self) -> tuple[Matrix, Matrix]:
        """Second-order seeds of p and y0 where there are none."""
        return np.empty((self.n_parameters, 0)), np.empty((self.n_states, 0))


class Seeds(NamedTuple):
    """What an experiment runs with at one theta; columns are the experiment's own thetas.

    ``p`` (n_p,), ``y0`` (n,), ``dp`` (n_p, q), ``dy0`` (n, q), and for all pairs a <= b of columns
    ``d2p`` (n_p, m), ``d2y0`` (n, m) with m = q (q + 1)/2 (empty below the order asked for).
    """

    p: Vector
    y0: Vector
    dp: Matrix
    dy0: Matrix
    d2p: Matrix
    d2y0: Matrix


class ExperimentMap(NamedTuple):
    """How the parameters and initial state of an experiment come from q; see `odefit.compile.parameter_map`."""

    function: NativeFunction
    gather: npt.NDArray[np.int64]
    constants: Vector
    column: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _NativeVariant:
    """The code of one right-hand side and its observables."""

    model: CompiledModel
    observe: NativeFunction
    sigma: NativeFunction | None
    symbolic: Variant


@dataclass(frozen=True, eq=False)
class _NativeProblem:
    """The code of one structure, and which part of it each experiment uses."""

    fingerprint: tuple[Any, ...]
    variants: tuple[_NativeVariant, ...]
    variant_of: tuple[int, ...]
    maps: tuple[NativeFunction, ...]
    map_of: tuple[int, ...]
    penalty: NativeFunction | None


_native: weakref.WeakKeyDictionary[Structure, _NativeProblem] = weakref.WeakKeyDictionary()
_compiled: weakref.WeakKeyDictionary[Problem, CompiledProblem] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def _fingerprint(problem: Problem) -> tuple[Any, ...]:
    """Everything that decides which code a problem needs (compared when a structure is reused)."""
    names = tuple((p.name, p.expression, p.per, p.penalty and p.penalty.kind) for p in problem.parameters)
    patterns = tuple(pattern_of(e) for e in problem.experiments)
    rules = tuple((rule.expression, rule.prior.kind) for rule in problem.rules)
    slots = (tuple(slot.name for slot in problem.slots.slots), problem.slots.by_row, problem.slots.fitted)
    sigmas = tuple(sigma_expressions(problem).items())
    return (problem.model, patterns, names, problem.observables, sigmas, rules, slots)


def _build(problem: Problem) -> _NativeProblem:
    model = problem.model
    for what in ("algebraic", "inputs", "mass", "implicit", "events"):
        if getattr(model, what):
            raise UnsupportedError(f"models with '{what}'")
    patterns = [pattern_of(e) for e in problem.experiments]
    distinct = list(dict.fromkeys(patterns))
    symbolic = [variant_of(problem, pattern) for pattern in distinct]
    variants = list(dict.fromkeys(symbolic))
    maps = [
        FunctionLibrary("parameter map", [map_function(problem, variant, pattern)])["map"]
        for variant, pattern in zip(symbolic, distinct, strict=True)
    ]
    penalty = penalty_function(problem)
    return _NativeProblem(
        fingerprint=_fingerprint(problem),
        variants=tuple(_build_variant(problem, variant) for variant in variants),
        variant_of=tuple(variants.index(symbolic[distinct.index(pattern)]) for pattern in patterns),
        maps=tuple(maps),
        map_of=tuple(distinct.index(pattern) for pattern in patterns),
        penalty=None if penalty is None else FunctionLibrary("priors", [penalty])["penalty"],
    )


def _build_variant(problem: Problem, variant: Variant) -> _NativeVariant:
    names = parameters_of(problem, variant)
    n, k = len(problem.model.states), len(names)
    title = f"model with {n} state{'s' * (n != 1)} and {k} parameter{'s' * (k != 1)}"
    functions = model_functions(problem, variant, problem.observables)
    library = FunctionLibrary(title, list(functions.values()))
    sigma = library["sigma"] if "sigma" in functions else None
    return _NativeVariant(
        CompiledModel(problem.model.states, names, library["rhs"]), library["observe"], sigma, variant
    )


def compile_problem(problem: Problem) -> CompiledProblem:
    """Return the compiled form of `problem`; code is made only if no equal structure was compiled before."""
    compiled = _compiled.get(problem)
    if compiled is not None:
        return compiled
    with _lock:
        native = _native.get(problem.structure)
        if native is None or native.fingerprint != _fingerprint(problem):
            native = _build(problem)
            _native[problem.structure] = native
        compiled = CompiledProblem(problem, native)
        _compiled[problem] = compiled
    return compiled


class CompiledProblem:
    """Native functions of a problem together with its numbers.

    The numbers behind the parameters (see `odefit.problem.slots`) are the vector q, fixed ones included;
    the free ones, on their scales, are the solver's vector theta.

    Attributes
    ----------
    slot_names
        Names of q.
    theta_names, theta_scales, theta_start, theta_lower, theta_upper
        The solver's vector.
    scale_codes, lower, upper, free
        Of the solver's vector: scales, natural bounds, positions in q.
    slot_start
        q at the start.
    columns
        For each experiment the indices of the thetas it depends on: the columns of its seeds.
    penalty
        Residuals of the priors, a function of q; None without priors.
    """

    def __init__(self, problem: Problem, native: _NativeProblem) -> None:
        # no reference to `problem` is kept: this object is the value of a weak dictionary keyed by it
        self._native = native
        self.experiment_starts = tuple(e.start for e in problem.experiments)
        self._constants = tuple(np.array(constants_of(e), dtype=float) for e in problem.experiments)
        slots = problem.slots.slots
        self.slot_names = tuple(slot.name for slot in slots)
        self.slot_start = np.array([problem.starts.get(slot.name, slot.parameter.start) for slot in slots], dtype=float)
        free = [i for i, slot in enumerate(slots) if not slot.parameter.fixed and i in problem.slots.fitted]
        self.free = np.array(free, dtype=np.int64)
        chosen = [slots[i].parameter for i in free]
        self.theta_names = tuple(slots[i].name for i in free)
        self.theta_scales = tuple(p.scale for p in chosen)
        self.scale_codes = np.array([CODES[p.scale] for p in chosen], dtype=np.int64)
        self.lower = np.array([p.lower for p in chosen], dtype=float)
        self.upper = np.array([p.upper for p in chosen], dtype=float)
        self.theta_start = self.to_theta(self.slot_start[self.free])
        self.theta_lower = self.to_theta(self.lower)
        self.theta_upper = self.to_theta(self.upper)
        self.theta_of_q = np.full(len(slots), -1, dtype=np.int64)
        self.theta_of_q[self.free] = np.arange(len(free))
        formal = formal_parameters(problem)
        # an entry that an experiment overrides everywhere needs some slot to point to; its value is not used
        self._gather = tuple(
            np.array([chosen.get(name, 0) for name in formal], dtype=np.int64) for chosen in problem.slots.of_experiment
        )
        by_row = [slot for index in problem.slots.of_group.values() for slot in index.values()]
        self._shared_slots = [*by_row, *(i for i, slot in enumerate(slots) if slot.parameter.per is None)]
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

        They are differentiated by (y, p, a); `a` holds the parameters whose value depends on the measurement.
        """
        return self._native.variants[self._native.variant_of[e]].observe

    def sigma(self, e: int) -> NativeFunction | None:
        """Return the standard deviations ``sigma(t, y, p, u, a)`` of the observables where expressions say them.

        They have the form of `observe`, 0 for observables whose noise is no expression; None where all are numbers.
        """
        return self._native.variants[self._native.variant_of[e]].sigma

    def variant(self, e: int) -> Variant:
        """Return what experiment `e` changes in the model, symbolically."""
        return self._native.variants[self._native.variant_of[e]].symbolic

    def to_theta(self, natural: Vector) -> Vector:
        """Return the solver's values of natural values of the free parameters."""
        return scaled_array(self.scale_codes, natural, self.lower, self.upper)

    def to_natural(self, theta: Vector) -> tuple[Vector, Vector, Vector]:
        """Return natural values of the free parameters with first and second derivatives by theta."""
        q, dq, d2q = np.empty_like(theta), np.empty_like(theta), np.empty_like(theta)
        natural_values(self.scale_codes, theta, self.lower, self.upper, q, dq, d2q)
        return q, dq, d2q

    def slot_values(self, theta: Vector) -> tuple[Vector, Vector]:
        """Return q at `theta`, and dq/dtheta of its own theta (0 where fixed)."""
        q, slope = self.slot_start.copy(), np.zeros(self.slot_start.size)
        q[self.free], slope[self.free], _ = self.to_natural(theta)
        return q, slope

    def natural(self, theta: Vector) -> dict[str, float]:
        """Return q by name."""
        return dict(zip(self.slot_names, self.slot_values(theta)[0].tolist(), strict=True))

    @cached_property
    def logarithmic(self) -> npt.NDArray[np.bool_]:
        """Which entries of the solver's vector are not natural values."""
        return self.scale_codes != LINEAR

    @cached_property
    def columns(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Indices of the thetas that each experiment's states or observables depend on."""
        result = []
        for e, gather in enumerate(self._gather):
            thetas = self.theta_of_q[gather[self._inputs_that_matter(e)]]
            result.append(np.unique(thetas[thetas >= 0]))
        return tuple(result)

    def _inputs_that_matter(self, e: int) -> npt.NDArray[np.int64]:
        """Return the inputs of an experiment's map that reach its initial state, right-hand side or observables."""
        function, model = self._map(e), self.model(e)
        n, n_p = model.n_states, model.n_parameters
        used = np.zeros(n_p + n, dtype=bool)
        used[n_p:] = True
        for other in (model.rhs, self.observe(e)):
            col = other.col.astype(np.int64)
            used[col[(col >= n) & (col < n + n_p)] - n] = True
        entries = np.repeat(used, np.diff(function.row_ptr))
        return np.unique(function.col[entries]).astype(np.int64)

    @cached_property
    def used_slots(self) -> frozenset[str]:
        """Names of the slots that some experiment, measurement or prior depends on, or that are shared by all."""
        used = set(self._shared_slots)
        for e, gather in enumerate(self._gather):
            used.update(gather[self._inputs_that_matter(e)].tolist())
        return frozenset(self.slot_names[i] for i in used)

    @cached_property
    def _column_of_input(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Per experiment: for each input of its map the column among its thetas, -1 if it is fixed."""
        result = []
        for columns, gather in zip(self.columns, self._gather, strict=True):
            local = np.full(self.n_theta + 1, -1, dtype=np.int64)  # the last entry answers for "fixed"
            local[columns] = np.arange(len(columns))
            result.append(local[self.theta_of_q[gather]])
        return tuple(result)

    def _map(self, e: int) -> NativeFunction:
        return self._native.maps[self._native.map_of[e]]

    def map_of(self, e: int) -> ExperimentMap:
        """Return the map of experiment `e`, for kernels."""
        return ExperimentMap(self._map(e), self._gather[e], self._constants[e], self._column_of_input[e])

    def inputs(self, e: int) -> npt.NDArray[np.int64]:
        """Return the slots that are the parameters of experiment `e` (see `formal_parameters`)."""
        return self._gather[e]

    def all_derivatives(self, theta: Vector, e: int) -> Matrix:
        """Return dp/dtheta (n_p, n_theta), entries that no state or observable depends on included."""
        column = self.theta_of_q[self._gather[e]]
        return self._evaluate_map(theta, e, 1, column, self.n_theta).dp

    def parameters(self, theta: Vector, e: int, order: int = 0) -> Seeds:
        """Return what experiment number `e` runs with at `theta`, with derivatives up to `order`."""
        return self._evaluate_map(theta, e, order, self._column_of_input[e], self.columns[e].size)

    def _evaluate_map(self, theta: Vector, e: int, order: int, column: npt.NDArray[np.int64], n_columns: int) -> Seeds:
        function, model = self._map(e), self.model(e)
        n_p, n = model.n_parameters, model.n_states
        k = n_columns if order else 0
        p, y0 = np.empty(n_p), np.empty(n)
        dp, dy0 = np.empty((n_p, k)), np.empty((n, k))
        if order == 2:
            d2p, d2y0 = np.empty((n_p, k * (k + 1) // 2)), np.empty((n, k * (k + 1) // 2))
        else:
            d2p, d2y0 = model.no_pairs
        map_parameters(
            (function.value, function.jacobian, function.second if order == 2 else 0), function.row_ptr, function.col,
            self.experiment_starts[e], theta, self.scale_codes, self.lower, self.upper, self.free, self.slot_start,
            self._gather[e], self._constants[e], column, order, p, y0, dp, dy0, d2p, d2y0,
        )  # fmt: skip
        return Seeds(p, y0, dp, dy0, d2p, d2y0)
