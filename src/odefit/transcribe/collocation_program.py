"""The nonlinear program of collocation, for IPOPT.

    min  1/2 sum_k r_k(theta, X)^2      r: weighted differences of data of finite weight, and priors
    with rows of collocation = 0,  differences of data of infinite weight = 0,  limits >= 0,  lengths >= 0.

Unknowns are theta, on the solver's scales, and for each experiment those of `odefit.transcribe.collocation_course`.
Each is divided by its size, and each row by its own.  Values of all slots (of which fixed parameters keep theirs),
bounds of logit scales and all sizes are parameters of the program.  So one program serves all problems that differ in
numbers only, as long as the elements are the same.  First derivatives are exact and sparse; the Hessian is that
of Gauss and Newton, see `_hessian`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem, CompiledStructure
from odefit.compile.penalties import penalty_function
from odefit.compile.scales import LINEAR, LOG, LOG10
from odefit.problem import Problem
from odefit.transcribe.collocation_course import Course, Unknowns, shapes_of
from odefit.transcribe.collocation_experiment import CollocationExperiment
from odefit.transcribe.collocation_mesh import Mesh
from odefit.transcribe.observation import Observations

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_MOST_SCALAR = 300_000  # operations of all equations at all points up to which the program is made of scalars
_DAMPING = 0.03  # of the objective
_LN10 = float(np.log(10.0))


class Limits(NamedTuple):
    """Which measurements are rules: indices among those of the problem, of those that must not become negative."""

    at_least: frozenset[int] = frozenset()


NO_LIMITS = Limits()


class _Progress(ca.Callback):
    """Called by IPOPT after each iteration: `ask` tells from their number whether it should end."""

    def __init__(self, n: int, m: int, k: int) -> None:
        ca.Callback.__init__(self)
        self.ask: Callable[[int], bool] | None = None
        self.count = 0
        self._sizes = {"x": n, "f": 1, "g": m, "lam_x": n, "lam_g": m, "lam_p": k}
        self.construct("progress", {})

    def get_n_in(self) -> int:
        return ca.nlpsol_n_out()

    def get_n_out(self) -> int:
        return 1

    def get_name_in(self, i: int) -> str:
        return ca.nlpsol_out(i)

    def get_sparsity_in(self, i: int) -> Any:
        return ca.Sparsity.dense(self._sizes.get(ca.nlpsol_out(i), 0), 1)

    def eval(self, arg: Sequence[Any]) -> list[Any]:
        self.count += 1
        return [1 if self.ask is not None and self.ask(self.count - 1) else 0]


class Numbers(NamedTuple):
    """The parameters of a program.

    Attributes
    ----------
    slots, lower, upper
        Natural values of all slots, natural bounds of theta.
    sizes, row_sizes
        Of all unknowns, and of all rows.
    """

    slots: Array
    lower: Array
    upper: Array
    sizes: Array
    row_sizes: Array


class Solution(NamedTuple):
    """How IPOPT ended.

    Attributes
    ----------
    word, success, interrupted
        Its word; whether it met its tests of convergence; whether it was stopped.
    theta, unknowns
        Natural sizes, of the others one experiment after the other.
    multipliers
        Of all unknowns and of all rows, as IPOPT has them.
    value, violation, iterations
        Objective, largest violation of a row in its own size, steps.
    """

    word: str
    success: bool
    interrupted: bool
    theta: Array
    unknowns: Array
    multipliers: tuple[Array, Array]
    value: float
    violation: float
    iterations: int


@dataclass(frozen=True, eq=False)
class Program:
    """The program for certain elements.

    Attributes
    ----------
    solver, jacobian, known, progress
        IPOPT, the derivatives of the rows, what `beginnings` returns, and what IPOPT calls after each iteration (it
        holds no reference itself).
    n_theta, shapes
        Number of thetas; unknowns of each experiment.
    n_equations, n_lengths
        Rows of collocation, which come first, and lengths, which come last.
    is_equality
        Per row: whether it must be zero, and not only at least zero.
    """

    solver: Any
    jacobian: Any
    known: Any
    progress: _Progress
    n_theta: int
    shapes: tuple[Unknowns, ...]
    n_equations: int
    n_lengths: int
    is_equality: npt.NDArray[np.bool_]
    lock: threading.Lock = field(default_factory=threading.Lock)

    def split(self, unknowns: Array) -> list[tuple[Array, Array, Array, Array]]:
        """Return the matrices of each experiment."""
        result, at = [], 0
        for shape in self.shapes:
            parts = []
            for rows, columns in shape:
                parts.append(unknowns[at : at + rows * columns].reshape(columns, rows).T)
                at += rows * columns
            result.append((parts[0], parts[1], parts[2], parts[3]))
        return result

    def join(self, matrices: Sequence[Sequence[Array]]) -> Array:
        """Return all unknowns of matrices as one vector."""
        return np.concatenate([np.empty(0), *(m.T.reshape(-1) for one in matrices for m in one)])

    def beginnings(self, x: Array, numbers: Numbers) -> list[tuple[Array, Array, Array, Array]]:
        """Return for each experiment p, times of breaks, and moving and constant states with which elements begin."""
        found = [np.asarray(one) for one in self.known.call([x / numbers.sizes, np.concatenate(numbers)])]
        return [
            (a.reshape(-1), b.reshape(-1), c, d) for a, b, c, d in zip(*(found[i::4] for i in range(4)), strict=True)
        ]

    def row_norms(self, x: Array, numbers: Numbers) -> Array:
        """Return the largest derivative of each row by a scaled unknown, (m,)."""
        one = numbers._replace(row_sizes=np.ones_like(numbers.row_sizes))
        jacobian = ca.fabs(self.jacobian(x / numbers.sizes, np.concatenate(one)))
        found = np.zeros(self.is_equality.size)
        rows, values = np.asarray(jacobian.sparsity().row()), np.asarray(jacobian.nonzeros())
        np.maximum.at(found, rows.astype(np.int64), np.where(np.isfinite(values), values, 0.0))
        return found

    def solve(
        self, x: Array, bounds: tuple[Array, Array], numbers: Numbers, *,
        ask: Callable[[int], bool], multipliers: tuple[Array, Array] | None = None,
    ) -> Solution:  # fmt: skip
        """Solve from `x`, natural sizes, with bounds of theta."""
        n, k = x.size, self.n_theta
        lower, upper = np.full(n, -np.inf), np.full(n, np.inf)
        lower[:k], upper[:k] = bounds[0] / numbers.sizes[:k], bounds[1] / numbers.sizes[:k]
        given = {
            "x0": x / numbers.sizes, "p": np.concatenate(numbers), "lbx": lower, "ubx": upper,
            "lbg": np.zeros(self.is_equality.size), "ubg": np.where(self.is_equality, 0.0, np.inf),
        }  # fmt: skip
        if multipliers is not None:
            given |= {"lam_x0": multipliers[0], "lam_g0": multipliers[1]}
        with self.lock:  # the solver has one callback, and one place for its statistics
            self.progress.ask, self.progress.count = ask, 0
            found = self.solver(**given)
            stats = self.solver.stats()
            self.progress.ask = None
        every = np.asarray(found["x"]).reshape(-1) * numbers.sizes
        g = np.asarray(found["g"]).reshape(-1)
        violation = float(np.max(np.where(self.is_equality, np.abs(g), np.maximum(-g, 0.0)), initial=0.0))
        word = str(stats["return_status"])
        return Solution(
            word, bool(stats["success"]), word == "User_Requested_Stop", every[:k], every[k:],
            (np.asarray(found["lam_x"]).reshape(-1), np.asarray(found["lam_g"]).reshape(-1)),
            float(found["f"]), violation, int(stats["iter_count"]),
        )  # fmt: skip


def natural_slots(structure: CompiledStructure, theta: Any, slots: Any, lower: Any, upper: Any) -> Any:
    """Return the natural values of all slots as expressions of theta."""
    entries = [slots[i] for i in range(len(structure.slot_names))]
    for i, (slot, code) in enumerate(zip(structure.free.tolist(), structure.scale_codes.tolist(), strict=True)):
        if code == LINEAR:
            entries[slot] = theta[i]
        elif code == LOG:
            entries[slot] = ca.exp(theta[i])
        elif code == LOG10:
            entries[slot] = ca.exp(_LN10 * theta[i])
        else:
            entries[slot] = lower[i] + (upper[i] - lower[i]) / (1.0 + ca.exp(-theta[i]))
    return ca.vertcat(*entries)


def program_of(
    problem: Problem,
    compiled: CompiledProblem,
    data: Observations,
    experiments: Sequence[CollocationExperiment],
    meshes: Sequence[Mesh],
    limits: Limits,
) -> Program:
    """Make the program for certain elements."""
    structure = compiled.structure
    shapes = tuple(shapes_of(one, mesh) for one, mesh in zip(experiments, meshes, strict=True))
    sizes = [sum(rows * columns for rows, columns in shape) for shape in shapes]
    n_theta, n = structure.n_theta, structure.n_theta + sum(sizes)
    x: Any = ca.MX.sym("x", n)
    slots = ca.MX.sym("slots", len(structure.slot_names))
    lower, upper, size = ca.MX.sym("lower", n_theta), ca.MX.sym("upper", n_theta), ca.MX.sym("size", n)
    every = x * size
    q = natural_slots(structure, every[:n_theta], slots, lower, upper)
    courses, at = [], n_theta
    for one, mesh, count in zip(experiments, meshes, sizes, strict=True):
        courses.append(Course(problem, one, mesh, every[at : at + count], q))
        at += count
    light, exact, least = _measured(courses, experiments, data, limits)
    penalty = penalty_function(problem)
    if penalty is not None:
        light.append(penalty.value(0, q, structure.penalty_constants, ca.DM(0, 1)))
    residual: Any = ca.vertcat(*light) if light else ca.MX(0, 1)
    equations = ca.vertcat(*(row for course in courses for row in course.rows))
    lengths = [length for course in courses for length in course.lengths]
    g: Any = ca.vertcat(equations, *exact, *least, *lengths)
    row_size = ca.MX.sym("row_size", g.numel())
    parameters: Any = ca.vertcat(slots, lower, upper, size, row_size)
    n_least, n_lengths = sum(one.numel() for one in least), len(lengths)
    is_equality = np.ones(g.numel(), dtype=bool)
    is_equality[g.numel() - n_least - n_lengths :] = False
    g = g / row_size
    outputs = [part for course in courses for part in course.known]
    known = ca.Function("known", [x, parameters], outputs)
    if _operations(experiments, meshes) <= _MOST_SCALAR:
        whole = ca.Function("whole", [x, parameters], [residual, g]).expand()
        x, parameters = ca.SX.sym("x", n), ca.SX.sym("p", parameters.numel())
        residual, g = whole(x, parameters)
    progress = _Progress(n, g.numel(), parameters.numel())
    options = {
        "print_time": False, "error_on_fail": False,
        "iteration_callback": progress, "show_eval_warnings": False, "ipopt": IPOPT,
    }  # fmt: skip
    options["hess_lag"] = _hessian(x, parameters, residual, g.numel(), n_theta)
    solver = ca.nlpsol(
        "collocation", "ipopt", {"x": x, "p": parameters, "f": 0.5 * ca.sumsqr(residual), "g": g}, options
    )
    jacobian = ca.Function("jacobian", [x, parameters], [ca.jacobian(g, x)])
    return Program(solver, jacobian, known, progress, n_theta, shapes, equations.numel(), n_lengths, is_equality)


IPOPT: dict[str, Any] = {
    "print_level": 0, "sb": "yes", "tol": 1e-5, "constr_viol_tol": 1e-5, "dual_inf_tol": 1e3, "compl_inf_tol": 1e-4,
    "max_iter": 100_000, "mu_init": 1e-2, "acceptable_iter": 0, "mumps_pivtol": 1e-2,
}  # fmt: skip
"""Options: the answer is polished by the problem itself, so that a moderate tolerance will do.  Iterations are counted
by the callback.  With smaller pivots than that, signs of eigenvalues are miscounted where few unknowns are free."""


def _hessian(x: Any, parameters: Any, residual: Any, n_rows: int, n_theta: int) -> Any:
    """Return the function of the Hessian that IPOPT is given: that of Gauss and Newton, with damping of theta.

    It is never indefinite, so that no step has to be corrected for that, and does without the curvature of the rows.
    The damping is a small part of the objective, in sizes of theta: of little weight where the fit is good.
    """
    kind: Any = ca.SX if isinstance(x, ca.SX) else ca.MX
    weight, multipliers = kind.sym("lam_f"), kind.sym("lam_g", n_rows)
    slopes = ca.jacobian(residual, x)
    of_theta = ca.sparsify(ca.DM(np.arange(x.numel()) < n_theta))
    damping = ca.diag(_DAMPING * 0.5 * ca.sumsqr(residual) * of_theta)
    hessian = ca.triu(weight * (slopes.T @ slopes + damping))
    names = ["x", "p", "lam_f", "lam_g"]
    return ca.Function("hess_lag", [x, parameters, weight, multipliers], [hessian], names, ["triu_hess_gamma_x_x"])


def _operations(experiments: Sequence[CollocationExperiment], meshes: Sequence[Mesh]) -> int:
    return sum(
        3 * sum(mesh.parts) * one.model.equations.function.n_instructions()
        for one, mesh in zip(experiments, meshes, strict=True)
    )


def _measured(
    courses: Sequence[Course], experiments: Sequence[CollocationExperiment], data: Observations, limits: Limits
) -> tuple[list[Any], list[Any], list[Any]]:
    """Return weighted differences of finite weight, those that must be zero, and those that must not be negative."""
    light, exact, least = [], [], []
    is_exact = np.zeros(data.n_data, dtype=bool)
    is_exact[data.exact] = True
    for course, one, first in zip(courses, experiments, data.first, strict=False):
        o = one.observation
        difference = o.root_weight * (course.predictions - o.value)
        mine = is_exact[first : first + o.value.size]
        bounded = mine & np.isin(o.source, list(limits.at_least))
        for rows, found in ((~mine, light), (mine & ~bounded, exact), (bounded, least)):
            if rows.any():
                found.append(difference[np.flatnonzero(rows).tolist()])
    return light, exact, least
