"""The compiled problem: the code of its structure with its own numbers.

`compile_problem` is cheap: native code and what goes where in it belong to the *structure* of a problem (model, names,
what experiments replace, what is measured, what is fixed), while start values and bounds are run-time arguments.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.compile.functions import NativeFunction
from odefit.compile.native_problem import CompiledModel, NativeVariant
from odefit.compile.parameter_map import Unknowns, map_parameters
from odefit.compile.scales import natural_values, scaled_array
from odefit.compile.structure import CompiledStructure, compiled_structure
from odefit.problem import Problem

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


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


def compile_problem(problem: Problem) -> CompiledProblem:
    """Return the compiled form of `problem`; code is made only if no problem with this model needed the same before."""
    return problem.kept.get("compiled", lambda: CompiledProblem(problem, compiled_structure(problem)))


class CompiledProblem:
    """Native functions of a problem together with its numbers.

    The numbers behind the parameters (see `odefit.problem.slots`) are the vector q, fixed ones included;
    the free ones, on their scales, are the solver's vector theta.

    Attributes
    ----------
    structure
        What it shares with problems that differ in these numbers only.
    slot_names
        Names of q.
    theta_names, theta_scales, theta_start, theta_lower, theta_upper
        The solver's vector.
    scale_codes, lower, upper, free
        Of the solver's vector: scales, natural bounds, positions in q.
    slot_start
        q at the start.
    theta_of_q
        Positions of q in the solver's vector, -1: fixed.
    penalty, penalty_constants
        Residuals of the priors, a function of q and of the numbers of the priors; None without priors.
    """

    def __init__(self, problem: Problem, structure: CompiledStructure) -> None:
        self.structure = structure
        self.slot_names = structure.slot_names
        self.theta_names = structure.theta_names
        self.theta_scales = structure.theta_scales
        self.scale_codes = structure.scale_codes
        self.free = structure.free
        self.theta_of_q = structure.theta_of_q
        self.penalty = structure.penalty
        self.penalty_constants = structure.penalty_constants
        parameters = problem.parameters
        self.slot_start = np.array([p.start for p in parameters], dtype=float)[structure.parameter_of_slot]
        for name, start in problem.starts.items():
            self.slot_start[structure.slot_index[name]] = start
        owner = structure.parameter_of_slot[self.free]
        self.lower = np.array([p.lower for p in parameters], dtype=float)[owner]
        self.upper = np.array([p.upper for p in parameters], dtype=float)[owner]
        self.theta_start = self.to_theta(self.slot_start[self.free])

    @cached_property
    def theta_lower(self) -> Vector:
        """Lower bounds of the solver's vector."""
        return self.to_theta(self.lower)

    @cached_property
    def theta_upper(self) -> Vector:
        """Upper bounds of the solver's vector."""
        return self.to_theta(self.upper)

    @property
    def n_theta(self) -> int:
        """Number of free parameters."""
        return self.structure.n_theta

    def model(self, e: int) -> CompiledModel:
        """Return the right-hand side of experiment number `e`."""
        return self.structure.model(e)

    def observe(self, e: int) -> NativeFunction:
        """Return the observables of experiment `e`; see `CompiledStructure.observe`."""
        return self.structure.observe(e)

    def sigma(self, e: int) -> NativeFunction | None:
        """Return the standard deviations of the observables of experiment `e`; see `CompiledStructure.sigma`."""
        return self.structure.sigma(e)

    def variant(self, e: int) -> NativeVariant:
        """Return the code of the model as experiment `e` changes it."""
        return self.structure.variant(e)

    def new_inputs(self, e: int) -> Vector:
        """Return inputs u for a task of experiment `e`."""
        return self.structure.tables[e].new_inputs()

    @property
    def columns(self) -> tuple[Indices, ...]:
        """For each experiment the indices of the thetas it depends on: the columns of its seeds."""
        return self.structure.columns

    @property
    def used_slots(self) -> frozenset[str]:
        """Names of the slots that are estimated, shared by all, or that an experiment, measurement or prior needs."""
        return self.structure.used_slots

    @property
    def logarithmic(self) -> npt.NDArray[np.bool_]:
        """Which entries of the solver's vector are not natural values."""
        return self.structure.logarithmic

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

    def inputs(self, e: int) -> Indices:
        """Return the slots that are the parameters of experiment `e` (see `formal_parameters`)."""
        return self.structure.gather[e]

    def all_derivatives(self, theta: Vector, e: int) -> Matrix:
        """Return dp/dtheta (n_p, n_theta), entries that no state or observable depends on included."""
        column = self.theta_of_q[self.structure.gather[e]]
        return self._evaluate_map(theta, e, 1, column, self.n_theta).dp

    def parameters(self, theta: Vector, e: int, order: int = 0) -> Seeds:
        """Return what experiment number `e` runs with at `theta`, with derivatives up to `order`."""
        return self._evaluate_map(theta, e, order, None, self.columns[e].size)

    @cached_property
    def unknowns(self) -> Unknowns:
        """How the slots come from theta, for kernels."""
        return Unknowns(self.scale_codes, self.lower, self.upper, self.free, self.slot_start)

    def _evaluate_map(self, theta: Vector, e: int, order: int, column: Indices | None, n_columns: int) -> Seeds:
        model, mapping = self.model(e), self.structure.mappings[e]
        if column is not None:
            mapping = mapping._replace(column=column)
        if order == 2:
            mapping = mapping._replace(second=self.structure.map_function(e).second)
        n_p, n = model.n_parameters, model.n_states
        k = n_columns if order else 0
        p, y0 = np.empty(n_p), np.empty(n)
        dp, dy0 = np.empty((n_p, k)), np.empty((n, k))
        if order == 2:
            d2p, d2y0 = np.empty((n_p, k * (k + 1) // 2)), np.empty((n, k * (k + 1) // 2))
        else:
            d2p, d2y0 = model.no_pairs
        seeds = Seeds(p, y0, dp, dy0, d2p, d2y0)
        map_parameters(mapping, self.unknowns, self.structure.experiment_starts[e], theta, order, seeds)
        return seeds
