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
    Layout,
    constants_of,
    layout_of,
    map_function,
    model_functions,
    pattern_of,
)
from odefit.compile.functions import FunctionLibrary, NativeFunction
from odefit.compile.parameter_map import map_parameters
from odefit.compile.scales import natural_values, scaled_array
from odefit.errors import UnsupportedError
from odefit.model import Model
from odefit.problem import SCALES, Problem
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

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.states)

    @property
    def n_parameters(self) -> int:
        """Length of p."""
        return len(self.parameters)


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


@dataclass(frozen=True, eq=False)
class _NativeProblem:
    """The code of one structure."""

    fingerprint: tuple[Any, ...]
    model: CompiledModel
    observe: NativeFunction
    maps: tuple[NativeFunction, ...]
    map_of: tuple[int, ...]
    constants: tuple[Vector, ...]
    outer: tuple[str, ...]
    symbolic: Model
    layout: Layout

    @cached_property
    def definitions(self) -> Any:
        """CasADi function of all definitions, for simulations (never inside an integration)."""
        names = tuple(self.symbolic.definitions)
        return model_functions(self.symbolic, self.layout, names)["observe"].value


_native: weakref.WeakKeyDictionary[Structure, _NativeProblem] = weakref.WeakKeyDictionary()
_compiled: weakref.WeakKeyDictionary[Problem, CompiledProblem] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def _fingerprint(problem: Problem) -> tuple[Any, ...]:
    """Everything that decides which code a problem needs (compared when a structure is reused)."""
    names = tuple((p.name, p.expression) for p in problem.parameters)
    return (problem.model, problem.experiments, names, problem.observables)


def _build(problem: Problem) -> _NativeProblem:
    model = problem.model
    for what in ("algebraic", "inputs", "mass", "implicit", "events"):
        if getattr(model, what):
            raise UnsupportedError(f"models with '{what}'")
    layout = layout_of(problem)
    patterns = [pattern_of(e) for e in problem.experiments]
    distinct = list(dict.fromkeys(patterns))
    n, k = len(model.states), len(layout.parameters)
    title = f"model with {n} state{'s' * (n != 1)} and {k} parameter{'s' * (k != 1)}"
    library = FunctionLibrary(title, list(model_functions(model, layout, problem.observables).values()))
    maps = [FunctionLibrary("parameter map", [map_function(problem, layout, p)])["map"] for p in distinct]
    return _NativeProblem(
        fingerprint=_fingerprint(problem),
        model=CompiledModel(model.states, layout.parameters, library["rhs"]),
        observe=library["observe"],
        maps=tuple(maps),
        map_of=tuple(distinct.index(p) for p in patterns),
        constants=tuple(np.array(constants_of(e), dtype=float) for e in problem.experiments),
        outer=layout.outer,
        symbolic=model,
        layout=layout,
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

    Attributes
    ----------
    model
        The right-hand side.
    observe
        Measured observables ``g(t, y, p, u, a)`` in the order of ``problem.observables``, with
        derivatives with respect to (y, p).
    theta_names, theta_start, theta_lower, theta_upper
        The solver's vector: free parameters on their scales.
    columns
        For each experiment the indices of the thetas it depends on: the columns of its seeds.
    """

    def __init__(self, problem: Problem, native: _NativeProblem) -> None:
        # no reference to `problem` is kept: this object is the value of a weak dictionary keyed by it
        self._native = native
        self.model = native.model
        self.observe = native.observe
        self.experiment_starts = tuple(e.start for e in problem.experiments)
        by_name = {p.name: p for p in problem.parameters}
        outer = [by_name[name] for name in native.outer]
        self._q = np.array([p.start for p in outer], dtype=float)
        free = [i for i, p in enumerate(outer) if not p.fixed]
        self._free = np.array(free, dtype=np.int64)
        self.theta_names = tuple(outer[i].name for i in free)
        self.theta_scales = tuple(outer[i].scale for i in free)
        self._codes = np.array([SCALES.index(outer[i].scale) for i in free], dtype=np.int64)
        self.lower = np.array([outer[i].lower for i in free], dtype=float)
        self.upper = np.array([outer[i].upper for i in free], dtype=float)
        self.theta_start = self.to_theta(self._q[self._free])
        self.theta_lower = self.to_theta(self.lower)
        self.theta_upper = self.to_theta(self.upper)
        self._theta_of_q = np.full(len(outer), -1, dtype=np.int64)
        self._theta_of_q[self._free] = np.arange(len(free))

    @property
    def n_theta(self) -> int:
        """Number of free parameters."""
        return len(self.theta_names)

    def to_theta(self, natural: Vector) -> Vector:
        """Return the solver's values of natural values of the free parameters."""
        return scaled_array(self._codes, natural, self.lower, self.upper)

    def to_natural(self, theta: Vector) -> tuple[Vector, Vector, Vector]:
        """Return natural values of the free parameters with first and second derivatives by theta."""
        q, dq, d2q = np.empty_like(theta), np.empty_like(theta), np.empty_like(theta)
        natural_values(self._codes, theta, self.lower, self.upper, q, dq, d2q)
        return q, dq, d2q

    def natural(self, theta: Vector) -> dict[str, float]:
        """Return all parameters that have a value of their own, fixed ones included, by name."""
        q = self._q.copy()
        q[self._free] = self.to_natural(theta)[0]
        return dict(zip(self._native.outer, q.tolist(), strict=True))

    @cached_property
    def columns(self) -> tuple[npt.NDArray[np.int64], ...]:
        """Indices of the thetas that each experiment's parameters and initial values depend on."""
        result = []
        for e in range(len(self._native.map_of)):
            used = np.unique(self._map(e).col)
            thetas = self._theta_of_q[used]
            result.append(np.sort(thetas[thetas >= 0]))
        return tuple(result)

    @cached_property
    def _column_of_q(self) -> tuple[npt.NDArray[np.int64], ...]:
        result = []
        for columns in self.columns:
            local = np.full(self.n_theta, -1, dtype=np.int64)
            local[columns] = np.arange(len(columns))
            result.append(
                np.where(self._theta_of_q >= 0, local[self._theta_of_q], -1) if local.size else self._theta_of_q
            )
        return tuple(np.ascontiguousarray(c) for c in result)

    def definitions(self, times: Vector, y: Matrix, p: Vector) -> dict[str, Vector]:
        """Return the values of all definitions along a trajectory: times (m,), states (m, n)."""
        names = tuple(self._native.symbolic.definitions)
        if not names or not times.size:
            return {name: np.empty(times.size) for name in names}
        function = self._native.definitions.map(times.size)
        nothing = np.empty((0, times.size))
        values = function(times[None, :], y.T, np.tile(p[:, None], times.size), nothing, nothing)
        return dict(zip(names, np.array(values), strict=True))

    def _map(self, e: int) -> NativeFunction:
        return self._native.maps[self._native.map_of[e]]

    def parameters(self, theta: Vector, e: int, order: int = 0) -> Seeds:
        """Return what experiment number `e` runs with at `theta`, with derivatives up to `order`."""
        function = self._map(e)
        n_p, n = self.model.n_parameters, self.model.n_states
        k = self.columns[e].size if order else 0
        pairs = k * (k + 1) // 2 if order == 2 else 0
        p, y0 = np.empty(n_p), np.empty(n)
        dp, dy0 = np.empty((n_p, k)), np.empty((n, k))
        d2p, d2y0 = np.empty((n_p, pairs)), np.empty((n, pairs))
        map_parameters(
            (function.value, function.jacobian, function.second if order == 2 else 0), function.row_ptr, function.col,
            self.experiment_starts[e], theta, self._codes, self.lower, self.upper, self._free, self._q,
            self._native.constants[e], self._column_of_q[e], order, p, y0, dp, dy0, d2p, d2y0,
        )  # fmt: skip
        return Seeds(p, y0, dp, dy0, d2p, d2y0)
