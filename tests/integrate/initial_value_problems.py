"""Initial value problems with closed-form solutions, and helpers that solve them.

The unknowns of a problem are theta = (p, y0), so that the identity as seeds gives all sensitivities.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import casadi as ca
import numpy as np
import pytest

import odefit as of
from odefit.compile import CompiledModel, Seeds, compile_problem
from odefit.integrate import METHODS, Integrator, Run, StepGrid, Trajectory, piece_ends

IMPLICIT = {"bdf3", "ddm", "limex"}
"""Methods that need Jacobians for the states themselves."""
LOOSER = {"dopri5": 1.0, "dop853": 1.0, "rk32": 1.0, "bdf3": 10.0, "ddm": 20.0, "limex": 5.0}
"""How much larger than that of dopri5 the error at a tolerance may be: of multistep formulas local errors add up."""
AT_ONCE = {"dopri5": 1, "dop853": 1, "rk32": 1, "bdf3": 3, "ddm": 1, "limex": 1}
"""How many steps are attempted together."""
HIGHEST_ORDER = {"dopri5": 2, "dop853": 2, "rk32": 2, "bdf3": 1, "ddm": 2, "limex": 1}
"""Of sensitivities."""

by_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def by_method_and_order(*orders: int):
    """Parametrise over methods and those of the `orders` of sensitivities that they offer."""
    offered = [(method, order) for method in METHODS.values() for order in orders if order <= highest_order(method)]
    return pytest.mark.parametrize(("method", "order"), offered, ids=[f"{m.name}-{order}" for m, order in offered])


def highest_order(method: Integrator) -> int:
    return HIGHEST_ORDER[method.name]


@cache
def compiled_model(text: str) -> CompiledModel:
    model = of.Model.from_text(text)
    parameters = tuple(of.Parameter(name, 1.0) for name in model.parameters)
    observable = (*model.states, *model.definitions)[0]
    data = of.Measurements.from_columns([0.0], {observable: [0.0]})
    return compile_problem(of.Problem(model, parameters, data)).model(0)


@dataclass(frozen=True)
class Case:
    """`closed(t, p, y0)` returns the states as CasADi expressions."""

    name: str
    text: str
    p: tuple[float, ...]
    y0: tuple[float, ...]
    t0: float
    end: float
    closed: Callable[..., list]

    @property
    def model(self) -> CompiledModel:
        return compiled_model(self.text)

    @property
    def theta(self) -> np.ndarray:
        return np.array([*self.p, *self.y0])

    @property
    def times(self) -> np.ndarray:
        return np.linspace(self.t0, self.end, 14)[1:]


def _decay(t, p, y0):
    return [y0[0] * ca.exp(-p[0] * t)]


def _bateman(t, p, y0):
    k1, k2 = p
    a, b = y0
    return [a * ca.exp(-k1 * t), b * ca.exp(-k2 * t) + a * k1 / (k2 - k1) * (ca.exp(-k1 * t) - ca.exp(-k2 * t))]


def _logistic(t, p, y0):
    r, k = p
    return [k / (1 + (k / y0[0] - 1) * ca.exp(-r * t))]


def _oscillator(t, p, y0):
    w = p[0]
    x, v = y0
    return [x * ca.cos(w * t) + v / w * ca.sin(w * t), v * ca.cos(w * t) - w * x * ca.sin(w * t)]


def _forced(t, p, y0):
    k, w = p
    size = k * k + w * w
    return [(y0[0] + w / size) * ca.exp(-k * t) + (k * ca.sin(w * t) - w * ca.cos(w * t)) / size]


def _bell(t, p, y0):
    return [y0[0] * ca.exp(p[0] * (t * t - 1.0))]


CASES = [
    Case("decay", "x' = -k*x\nx(0) = 1", (0.8,), (2.0,), 0.0, 4.0, _decay),
    Case("bateman", "a' = -k1*a\nb' = k1*a - k2*b\na(0) = 1\nb(0) = 0", (1.3, 0.4), (2.0, 0.5), 0.0, 5.0, _bateman),
    Case("logistic", "x' = r*x*(1 - x/K)\nx(0) = 1", (1.1, 3.0), (0.2,), 0.0, 6.0, _logistic),
    Case("oscillator", "x' = v\nv' = -w^2*x\nx(0) = 1\nv(0) = 0", (2.0,), (1.0, 0.5), 0.0, 5.0, _oscillator),
    Case("forced", "x' = -k*x + sin(w*t)\nx(0) = 1", (0.7, 2.5), (1.0,), 0.0, 6.0, _forced),
    Case("bell", "x' = 2*a*t*x\nx(0) = 1", (-0.6,), (0.5,), -1.0, 2.0, _bell),
]


@cache
def _exact_function(case: Case):
    t = ca.SX.sym("t")
    theta = ca.SX.sym("theta", case.theta.size)
    parts = ca.vertsplit(theta)
    y = ca.vertcat(*case.closed(t, parts[: len(case.p)], parts[len(case.p) :]))
    first = ca.jacobian(y, theta)
    second = ca.horzcat(*(ca.jacobian(first[:, a], theta[b]) for a, b in pairs(case.theta.size)))
    return ca.Function("exact", [t, theta], [ca.densify(y), ca.densify(first), ca.densify(second)])


def pairs(q: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(q) for b in range(a, q)]


def exact(case: Case, times) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States (m, n), first (m, n, q) and second (m, n, pairs) derivatives by theta."""
    found = [_exact_function(case)(t, case.theta) for t in times]
    return tuple(np.array([np.array(row[k]) for row in found]).reshape(len(found), len(case.y0), -1) for k in range(3))


def exact_states(case: Case, times) -> np.ndarray:
    return exact(case, times)[0][:, :, 0]


def make_run(case: Case, theta=None, *, times=None, stops=None, seeds=None, second=None) -> Run:
    """Make the run at `theta`; `seeds` (n_theta, q) are directions, `second` (n_theta, pairs) their derivatives."""
    theta = case.theta if theta is None else np.asarray(theta, dtype=float)
    times = case.times if times is None else np.asarray(times, dtype=float)
    seeds = np.eye(theta.size) if seeds is None else np.asarray(seeds, dtype=float)
    q = seeds.shape[1]
    second = np.zeros((theta.size, q * (q + 1) // 2)) if second is None else second
    n_p = len(case.p)

    def part(array, chosen):
        return np.ascontiguousarray(array[chosen])

    p, y = slice(0, n_p), slice(n_p, None)
    ends = piece_ends(case.t0, times, None if stops is None else np.asarray(stops, dtype=float))
    arrays = [part(array, chosen) for array in (theta, seeds, second) for chosen in (p, y)]
    return Run.of(Seeds(*arrays), case.t0, times, ends)


def run_of(text: str, p, y0, times, *, t0: float = 0.0, stops=None) -> tuple[CompiledModel, Run]:
    """Make a run of any model, with all of (p, y0) as directions."""
    case = Case("", text, tuple(p), tuple(y0), t0, 0.0, _decay)
    return case.model, make_run(case, times=times, stops=stops)


def solve(method: Integrator, case: Case, run: Run, **options) -> Trajectory:
    return method.solve(case.model, run, **({"rtol": 1e-7, "atol": 1e-9} | options))


def grid_of(method: Integrator, pieces) -> StepGrid:
    """Make a grid with these step sizes, piece by piece, laid out as `method` lays out its own."""
    own = solve(method, CASES[0], make_run(CASES[0], times=[])).grid
    counts = np.concatenate([own.counts, [len(piece) for piece in pieces]]).astype(np.int64)
    return StepGrid(method.name, np.concatenate(pieces), counts)


def counts_of(grid: StepGrid) -> list[int]:
    return [piece.size for piece in grid.pieces]


STENCIL = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
"""Central differences of order 8."""


def central_difference(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray, step: float = 0.006) -> np.ndarray:
    """Return derivatives of an array-valued function, the direction last."""
    columns = []
    for i in range(x.size):
        h = step * max(abs(x[i]), 0.1)
        unit = np.eye(x.size)[i] * h
        columns.append(sum(w * (function(x + j * unit) - function(x - j * unit)) for j, w in STENCIL.items()) / h)
    return np.stack(columns, axis=-1)
