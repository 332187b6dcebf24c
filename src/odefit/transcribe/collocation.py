"""Collocation: all states at the points of finite elements are unknowns, together with theta.

See `odefit.transcribe.collocation_rule` for the method, `odefit.transcribe.collocation_program` for the program that
IPOPT solves.  Around the solution stand two loops.  *Order*: where moments of events depend on parameters, the order of
events and data is that of the last solution; one that wants to change it has lengths of zero.  *Refinement*: elements
are divided where the equations do not hold between the points.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem, compile_problem
from odefit.errors import FitError, UnsupportedError
from odefit.model.kept import Kept
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.transcribe.collocation_course import columns_of, point_tables, point_times
from odefit.transcribe.collocation_experiment import CollocationExperiment, collocation_experiments
from odefit.transcribe.collocation_mesh import Key, Mesh, mesh_of
from odefit.transcribe.collocation_model import OTHERS
from odefit.transcribe.collocation_program import NO_LIMITS, Limits, Numbers, Program, Solution, program_of
from odefit.transcribe.collocation_rule import (
    BETWEEN_POINTS,
    N_POINTS,
    NODES,
    POINTS,
    SLOPES_OF_TESTS,
    TESTS,
    VALUES_OF_TESTS,
    lagrange,
)
from odefit.transcribe.collocation_start import first_curves, simulated_curves, solved_unknowns
from odefit.transcribe.collocation_tables import table_values
from odefit.transcribe.plan import plan_of

Array = npt.NDArray[np.float64]

DEFECT = 1e-2
"""Largest defect of an element that is let be: how much the change over it misses, in sizes of the states."""
_POOR = 10.0  # a datum: then the fit is so poor that other first states are tried
_MOST_REFINEMENTS = 4
_MOST_REORDERINGS = 12
_MOST_PARTS = 4  # into which an element is divided at once
_MOST_ELEMENTS = 3000
_MOST_PROGRAMS = 16  # that are kept, for different elements
_WIDEST_LOG = 20.0  # from the start value of a logarithm: exp(20) is more than any poor guess
_ZERO_LENGTH = 1e-3  # of an experiment: IPOPT keeps some distance from its limits
_PUSH = 1e-6


@dataclass(frozen=True)
class Collocated:
    """What collocation found.

    Attributes
    ----------
    theta
        The estimates, on the solver's scales; where IPOPT ended, if it did not converge.
    converged, interrupted
        Whether IPOPT met its tests; whether it was stopped.
    cause
        Why it did not converge, or what else is wrong, as a sentence without a stop; "" if nothing is.
    value, iterations
        Objective, and iterations of IPOPT.
    elements, refinements, defect
        Number of elements, how often they were refined, and the largest defect (see `DEFECT`).
    """

    theta: Array
    converged: bool
    interrupted: bool
    cause: str
    value: float
    iterations: int
    elements: int
    refinements: int
    defect: float


_CAUSES = {
    "Infeasible_Problem_Detected": "IPOPT found a point where the equations cannot be met any better",
    "Maximum_Iterations_Exceeded": "IPOPT reached its limit of iterations",
    "Restoration_Failed": "IPOPT could not get nearer to a point that meets the equations",
    "Invalid_Number_Detected": "the model is not a finite number where IPOPT needs it",
    "Diverging_Iterates": "the unknowns ran away",
    "User_Requested_Stop": "the limit of iterations was reached",
}


class Collocation:
    """The collocation of a problem; experiments and programs are kept with its structure.

    Parameters
    ----------
    limits
        Which measurements of infinite weight are rules that must not become negative.
    last_source
        Measurements from this one on are rules, no data; None: there are no rules.
    """

    def __init__(
        self, problem: Problem, stop: StopFlag | None = None, limits: Limits = NO_LIMITS, last_source: int | None = None
    ) -> None:
        plan = plan_of(problem)
        if plan.criterion.name != "least-squares":
            raise UnsupportedError(
                f'collocation with the criterion \'{plan.criterion.name}\'; use method = "single" or "incremental", '
                'or criterion = "least-squares"'
            )
        self.problem, self.stop, self.plan, self.limits = problem, stop, plan, limits
        self.compiled: CompiledProblem = compile_problem(problem)
        if not self.compiled.n_theta:
            raise FitError("there is nothing to fit: no parameter is free; set fixed = false for at least one.")
        self.last_source = problem.measurements.value.size if last_source is None else last_source
        structure = self.compiled.structure
        self.experiments, self._programs = problem.structure.kept.get(
            "collocation",
            lambda: (collocation_experiments(problem, structure, plan.data.of_experiment), Kept(_MOST_PROGRAMS)),
        )
        self.parts: list[dict[Key, int]] = [{} for _ in self.experiments]
        self.pushed: list[dict[Key, float]] = [{} for _ in self.experiments]

    def solve(self) -> Collocated:
        """Solve from the start values, with states near the data; where that fails, with states that are simulated."""
        found = self.solve_from("data")
        if found.interrupted or (found.converged and not self.is_poor(found.value)):
            return found
        other = self.solve_from("simulated")
        total = found.iterations + other.iterations
        better = min(
            (found, other), key=lambda one: (not one.converged, one.value if one.value == one.value else np.inf)
        )
        return dataclasses.replace(better, iterations=total, interrupted=other.interrupted)

    def is_poor(self, value: float) -> bool:
        """Tell whether an objective is far from what a fit should reach: the data are hardly explained.

        Without standard deviations this is more than half of the variation of the weighted data about their mean.
        """
        data, plan = self.plan.data, self.plan
        if plan.absolute:
            return value > _POOR * plan.n_fitted
        light = np.delete(np.concatenate([o.weighted for o in data.of_experiment]), data.heavy)
        return value > 0.25 * float(np.sum(np.square(light - np.mean(light)))) if light.size else False

    def solve_from(self, kind: str) -> Collocated:
        """Solve with first states of a kind: "data", or "simulated" at the start values."""
        compiled = self.compiled
        self.parts = [{} for _ in self.experiments]
        self.pushed = [{} for _ in self.experiments]
        theta, iterations, refinements, reorderings = compiled.theta_start, 0, 0, 0
        state: State | None = None
        while True:
            meshes = self.meshes(theta)
            if isinstance(meshes, str):
                return Collocated(theta, False, False, meshes, np.nan, iterations, 0, refinements, np.nan)
            state = self.begin(meshes, theta, kind) if state is None else self.transferred(state, meshes)
            solution = self._run(state, iterations)
            iterations += solution.iterations
            defects = self.defects(state)
            worst = max((float(np.max(one, initial=0.0)) for one in defects), default=0.0)
            elements = sum(sum(mesh.parts) for mesh in meshes)
            found = Collocated(
                solution.theta, solution.success, solution.interrupted and self._is_stopped, _cause(solution),
                solution.value, iterations, elements, refinements, worst,
            )  # fmt: skip
            if not solution.success or not np.isfinite(solution.theta).all():
                return found
            theta = solution.theta
            if reorderings < _MOST_REORDERINGS and self._reorder(state):
                reorderings += 1
                continue
            if worst <= DEFECT:
                return found
            if refinements == _MOST_REFINEMENTS or not self._refine(meshes, defects):
                words = f"the equations hold between the points of collocation to {worst:.1g} of the states only"
                return dataclasses.replace(found, cause=words)
            refinements += 1

    def meshes(self, theta: Array) -> tuple[Mesh, ...] | str:
        """Return the elements of all experiments, or why there are none."""
        q = self.compiled.slot_values(theta)[0]
        result = []
        for one, parts, pushed in zip(self.experiments, self.parts, self.pushed, strict=True):
            mesh = mesh_of(one, q[one.gather], parts, pushed)
            if isinstance(mesh, str):
                return f"in experiment '{one.experiment.name}': {mesh}"
            if one.model.equations.tables and any(b.expression is not None for b in mesh.breaks):
                raise UnsupportedError(
                    f"collocation with tables and times of events or conditions that depend on parameters; {OTHERS}"
                )
            result.append(mesh)
        return tuple(result)

    def program(self, meshes: tuple[Mesh, ...]) -> Program:
        """Return the program for these elements."""
        key = (tuple(mesh.signature for mesh in meshes), self.limits)
        return self._programs.get(
            key,
            lambda: program_of(self.problem, self.compiled, self.plan.data, self.experiments, meshes, self.limits),
        )

    def begin(self, meshes: tuple[Mesh, ...], theta: Array, kind: str = "data") -> State:
        """Return the first values of all unknowns; `kind` as in `solve_from`."""
        compiled, experiments = self.compiled, self.experiments
        curves = first_curves(self.problem, compiled, experiments, theta, self.last_source, self.stop)
        if kind == "simulated":
            curves = simulated_curves(self.problem, compiled, experiments, meshes, theta, curves)
        program = self.program(meshes)
        matrices = []
        for one, mesh, states, shape in zip(experiments, meshes, curves, program.shapes, strict=True):
            times = point_times(*mesh.element_times())
            x = np.array([states[k].at(times)[0] for k in one.model.moving]).reshape(shape.states)
            columns = np.zeros(shape.observed)
            begins = np.array([states[k].at(np.array([one.observation.t0]))[0, 0] for k in one.model.moving])
            consistent = np.repeat(begins[:, None], shape.consistent[1], axis=1)
            matrices.append((x, np.ones(shape.algebraic), columns, consistent))
        return self._completed(program, meshes, theta, matrices, solve=True)

    def transferred(self, state: State, meshes: tuple[Mesh, ...]) -> State:
        """Return the values of all unknowns on other elements."""
        program = self.program(meshes)
        matrices = []
        beginnings = state.program.beginnings(state.x, state.numbers)
        theta, old = state.x[: program.n_theta], state.program.split(state.x[program.n_theta :])
        parts = zip(meshes, state.meshes, beginnings, old, program.shapes, strict=True)
        for mesh, before, (_, times, starts, _), (x, z, _, consistent), shape in parts:
            wanted = point_times(*mesh.element_times())
            begin, end = _with_times(before, times).element_times()
            element = np.minimum(np.searchsorted(end, wanted, side="left"), max(0, end.size - 1))
            width = np.where(end[element] > begin[element], end[element] - begin[element], 1.0)
            s = np.clip((wanted - begin[element]) / width, 0.0, 1.0)
            new_x, new_z = np.empty(shape.states), np.empty(shape.algebraic)
            for k, (e, fraction) in enumerate(zip(element, s, strict=True)):
                block = slice(N_POINTS * e, N_POINTS * (e + 1))
                new_x[:, k] = np.column_stack([starts[:, e], x[:, block]]) @ lagrange(NODES, fraction)
                new_z[:, k] = z[:, block] @ lagrange(POINTS, fraction)
            matrices.append((new_x, new_z, np.zeros(shape.observed), np.resize(consistent, shape.consistent)))
        return self._completed(program, meshes, theta, matrices, solve=False)

    def _completed(
        self, program: Program, meshes: tuple[Mesh, ...], theta: Array,
        matrices: list[tuple[Array, Array, Array, Array]], *, solve: bool,
    ) -> State:  # fmt: skip
        """Return a state with algebraic unknowns and sizes worked out from theta and the moving states."""
        compiled = self.compiled
        slots = compiled.slot_start.copy()
        size = np.where(compiled.logarithmic | (theta == 0.0), 1.0, np.abs(theta))
        state_sizes = [_sizes(one[0]) for one in matrices]
        ones = np.ones(program.n_theta + sum(r * c for shape in program.shapes for r, c in shape))
        numbers = Numbers(slots, compiled.lower, compiled.upper, ones, np.ones(program.is_equality.size))
        x = np.concatenate([theta, program.join(matrices)])
        beginnings = program.beginnings(x, numbers)
        done, sizes = [], []
        for one, mesh, (p, _, _, constants), (y, z, w, c), scale in zip(
            self.experiments, meshes, beginnings, matrices, state_sizes, strict=True
        ):
            if one.model.equations.n_z:
                given = _point_arguments(self.problem, one, mesh, p, constants, POINTS)
                z = solved_unknowns(
                    one.model.equations, [given[0], y, np.zeros_like(y), *given[1:]], y.shape[1], None if solve else z
                )
            if one.model.observables.n_z:
                w = self._observed_unknowns(one, mesh, p, y, constants)
            done.append((y, z, w, c))
            sizes.append(
                [
                    np.repeat(a[:, None], b.shape[1], axis=1)
                    for a, b in ((scale, y), (_sizes(z), z), (_sizes(w), w), (scale, c))
                ]
            )
        x = np.concatenate([theta, program.join(done)])
        numbers = numbers._replace(sizes=np.concatenate([size, program.join(sizes)]))
        numbers = numbers._replace(row_sizes=self._row_sizes(program, numbers, x, meshes, state_sizes))
        return State(program, meshes, x, numbers, state_sizes)

    def _observed_unknowns(self, one: CollocationExperiment, mesh: Mesh, p: Array, y: Array, constants: Array) -> Array:
        """Return algebraic unknowns of the columns in which observables are evaluated."""
        columns, function = columns_of(one, mesh), one.model.observables
        n, times = len(columns.place), point_times(*mesh.element_times())
        states = np.array([np.interp(columns.time, times, row) for row in y]).reshape(y.shape[0], n)
        place = np.minimum(np.searchsorted(mesh.element_times()[1], columns.time), constants.shape[1] - 1)
        size_a, size_u = function.function.size1_in(7), function.function.size1_in(8)
        tables = table_values(self.problem, one.experiment, function.tables, columns.time)
        given = [
            columns.time[None, :], states, np.zeros_like(states), np.zeros((1, n)), constants[:, place],
            np.repeat(p[:, None], n, axis=1), np.zeros((size_a, n)), np.zeros((size_u, n)), tables,
        ]  # fmt: skip
        return solved_unknowns(function, given, n)

    def _row_sizes(
        self, program: Program, numbers: Numbers, x: Array, meshes: tuple[Mesh, ...], state_sizes: list[Array]
    ) -> Array:
        """Return the sizes of all rows: that of the state for a row with derivatives, else its largest derivative."""
        norms = program.row_norms(x, numbers)
        result = np.where(np.isfinite(norms) & (norms > 0.0), norms, 1.0)
        at = 0
        for one, mesh, scale in zip(self.experiments, meshes, state_sizes, strict=True):
            k, n_points = one.model.moving.size + one.model.equations.n_z, N_POINTS * sum(mesh.parts)
            rows = result[at : at + k * n_points].reshape(n_points, k)
            rows[:] = np.median(rows, axis=0)
            if not one.model.coupled:
                rows[:, : scale.size] = np.maximum(rows[:, : scale.size], scale)
            at += k * n_points + self._further_rows(one, program, mesh)
        return result

    def _further_rows(self, one: CollocationExperiment, program: Program, mesh: Mesh) -> int:
        """Return the number of rows of an experiment behind its equations at the points."""
        shape = program.shapes[self.experiments.index(one)]
        k = one.model.moving.size + one.model.equations.n_z
        return shape.observed[0] * shape.observed[1] + k * shape.consistent[1]

    @property
    def _is_stopped(self) -> bool:
        return self.stop is not None and self.stop.is_set()

    def _run(self, state: State, done: int) -> Solution:
        """Run IPOPT; `done` iterations were taken before."""
        compiled, most = self.compiled, self.problem.settings.max_iterations
        start, logarithmic = compiled.theta_start, compiled.logarithmic
        lower = np.where(logarithmic, np.maximum(compiled.theta_lower, start - _WIDEST_LOG), compiled.theta_lower)
        upper = np.where(logarithmic, np.minimum(compiled.theta_upper, start + _WIDEST_LOG), compiled.theta_upper)
        solution = state.program.solve(
            state.x, (lower, upper), state.numbers, ask=lambda k: self._is_stopped or done + k >= most
        )
        state.x = np.concatenate([solution.theta, solution.unknowns])
        return solution

    def defects(self, state: State) -> list[Array]:
        """Return the defect of each element: how much the equations miss between the points."""
        beginnings = state.program.beginnings(state.x, state.numbers)
        matrices = state.program.split(state.x[state.program.n_theta :])
        result, at = [], 0
        for one, mesh, (p, times, starts, constants), (x, z, _, _), scale in zip(
            self.experiments, state.meshes, beginnings, matrices, state.state_sizes, strict=True
        ):
            now, n = _with_times(mesh, times), sum(mesh.parts)
            k, m = one.model.moving.size + one.model.equations.n_z, TESTS.size
            sizes = state.numbers.row_sizes[at : at + k]
            at += k * N_POINTS * n + self._further_rows(one, state.program, mesh)
            if not n:
                result.append(np.empty(0))
                continue
            nodes = np.concatenate([starts[:, :, None], x.reshape(-1, n, N_POINTS)], axis=2)
            y = (nodes @ VALUES_OF_TESTS.T).reshape(-1, n * m)
            rates = (nodes @ SLOPES_OF_TESTS.T).reshape(-1, n * m)
            between = (z.reshape(z.shape[0], n, N_POINTS) @ BETWEEN_POINTS.T).reshape(z.shape[0], n * m)
            given = _point_arguments(self.problem, one, now, p, constants, TESTS)
            rows = np.asarray(one.model.equations.function(given[0], y, between, rates, *given[1:]))
            missed = np.abs(rows / np.append(np.maximum(sizes[: scale.size], 0.0), sizes[scale.size :])[:, None])
            result.append(np.where(np.isfinite(missed), missed, 1.0).max(axis=0).reshape(n, m).max(axis=1))
        return result

    def _refine(self, meshes: tuple[Mesh, ...], defects: list[Array]) -> bool:
        """Divide elements whose defect is too large; tell whether there are not too many then."""
        total = 0
        for mesh, parts, defect in zip(meshes, self.parts, defects, strict=True):
            of_interval = np.zeros(len(mesh.parts))
            np.maximum.at(of_interval, mesh.interval_of, defect)
            for k, m in enumerate(mesh.parts):
                factor = int(np.clip(np.ceil((of_interval[k] / DEFECT) ** 0.25), 1, _MOST_PARTS))
                if of_interval[k] > DEFECT:
                    parts[(mesh.breaks[k].key, mesh.breaks[k + 1].key)] = m * max(2, factor)
                total += m * factor
        return total <= _MOST_ELEMENTS

    def _reorder(self, state: State) -> bool:
        """Tell whether events and data should have another order; it is changed where a length came to zero."""
        if not state.program.n_lengths:
            return False
        beginnings = state.program.beginnings(state.x, state.numbers)
        theta = state.x[: state.program.n_theta]
        changed = False
        for one, mesh, pushed, (_, times, _, _) in zip(
            self.experiments, state.meshes, self.pushed, beginnings, strict=True
        ):
            small = _ZERO_LENGTH * max(times[-1] - times[0], 1e-300)
            q = self.compiled.slot_values(theta)[0][one.gather]
            for k in np.flatnonzero((np.diff(times) <= small) & mesh.is_moving):
                first, second = mesh.breaks[k], mesh.breaks[k + 1]
                later = times[k + 1] - times[k] + _PUSH * (times[-1] - times[0])
                for key, by in ((first.key, later), (second.key, -later)):
                    moves = (first if key == first.key else second).expression is not None
                    if moves and key not in pushed and k > 0:
                        pushed[key] = by
                        changed = True
                        break
            if not changed:
                new = mesh_of(one, q, self.parts[self.experiments.index(one)], pushed)
                changed = isinstance(new, Mesh) and new.order != mesh.order
        return changed


@dataclass
class State:
    """A program with values of its unknowns, natural sizes.

    Attributes
    ----------
    state_sizes
        Of the moving states of each experiment.
    """

    program: Program
    meshes: tuple[Mesh, ...]
    x: Array
    numbers: Numbers
    state_sizes: list[Array]


def _cause(solution: Solution) -> str:
    if solution.success:
        return ""
    return _CAUSES.get(solution.word, f"IPOPT ended with {solution.word}")


def _sizes(values: Array) -> Array:
    """Return the size of each row of values: its largest, 1 if all are zero."""
    if not values.size:
        return np.ones(values.shape[0])
    largest = np.abs(values).max(axis=1)
    return np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)


def _with_times(mesh: Mesh, times: Array) -> Mesh:
    """Return the mesh with the times that its breaks have now."""
    times = np.maximum.accumulate(times)
    breaks = tuple(b._replace(time=float(t)) for b, t in zip(mesh.breaks, times, strict=True))
    return dataclasses.replace(mesh, breaks=breaks)


def _point_arguments(
    problem: Problem, one: CollocationExperiment, mesh: Mesh, p: Array, constants: Array, fractions: Array
) -> list[Array]:
    """Return the arguments of the equations at some fractions of all elements, but states, z and rates."""
    begin, end = mesh.element_times()
    m, function = fractions.size, one.model.equations.function
    n = begin.size * m
    return [
        point_times(begin, end, fractions)[None, :], np.repeat(end - begin, m)[None, :],
        np.repeat(constants, m, axis=1), np.repeat(p[:, None], n, axis=1), np.zeros((function.size1_in(7), n)),
        mesh.inputs[np.repeat(mesh.interval_of, m)].T, point_tables(problem, one, mesh, fractions),
    ]  # fmt: skip
