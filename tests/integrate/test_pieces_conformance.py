"""What happens in time, and its derivatives, by every integrator: method x (doses, events, .., algebraic unknowns).

Derivatives are held to two standards: differences of the true solution, and, where steps are replayed, differences of
the replayed solution, which a fit sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
from initial_value_problems import HIGHEST_ORDER, central_difference, pairs

import odefit as of
from odefit.compile import CompiledProblem, compile_problem
from odefit.integrate import CHOICES, METHODS, Integrator, Run, Status, StepGrid, Trajectory, piece_ends

CHAIN = "x' = -k*x\nz' = k*x - c*z^2\nx(0) = 1\nz(0) = 0.5\n"
RTOL = 1e-6
TIGHT = {"auto": 1e-10, "dopri5": 1e-11, "dop853": 1e-10, "rk32": 1e-11, "ddm": 1e-12, "bdf3": 1e-12, "limex": 1e-11}
"""Tolerances at which derivatives are right to 1e-6."""
DIFFERENCE = 5e-5
"""Relative step of differences of the replayed solution: short, since no output may move past the end of a step."""
ROUNDING = {"limex": 2e-8}
"""What differences of this step tell of a method, if not 1e-9: extrapolation amplifies rounding errors, as differences
with longer steps show (1e-4: half as much; 5e-4, where no output comes near the end of a step: 5e-10)."""


@dataclass(frozen=True, eq=False)
class Case:
    """A problem with one experiment, all of whose parameters are unknowns.

    Attributes
    ----------
    times
        None of them is when something happens, where the derivative by its time would be that of one side.
    methods
        Those that are asked.  Explicit ones, of which `auto` may choose one, keep the states of a stiff phase within
        the tolerance, but not their derivatives: where stability limits the steps, what an earlier error has left
        fades no more.
    reference
        The method of tightly solved runs.
    """

    name: str
    text: str
    values: Mapping[str, float]
    times: tuple[float, ...]
    doses: tuple[of.Dose, ...] = ()
    lag: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, of.Table] = field(default_factory=dict)
    methods: tuple[str, ...] = tuple(CHOICES)
    reference: str = "dop853"

    @property
    def x(self) -> np.ndarray:
        return np.array(list(self.values.values()))

    @property
    def compiled(self) -> CompiledProblem:
        return compiled(self)

    def solve(self, method: Integrator, x, order=0, *, rtol=RTOL, grid: StepGrid | None = None) -> Trajectory:
        """Integrate at `x`."""
        made, times = self.compiled, np.array(self.times)
        tables = made.structure.tables[0]
        run = Run.of(made.parameters(x, 0, order), 0.0, times, piece_ends(0.0, times, tables.jumps))
        run = run.with_tables(tables, made.new_inputs(0))._replace(occurrences=made.structure.occurrences[0])
        found = method.solve(
            made.model(0), run, grid=grid, rtol=rtol, atol=0.1 * rtol, order=order, max_steps=2_000_000
        )
        assert found.status is Status.OK
        return found


@cache
def compiled(case: Case) -> CompiledProblem:
    """Return the native code of a case."""
    model = of.Model.from_text(case.text)
    problem = of.Problem(
        model, [of.Parameter(name, value) for name, value in case.values.items()],
        of.Measurements.from_columns([1.0], {model.states[0]: [0.0]}),
        (of.Experiment("main", events=case.doses),), lag=dict(case.lag), tables=dict(case.tables),
    )  # fmt: skip
    return compile_problem(problem)


CASES = [
    Case("dose time", CHAIN + "at t=tau: x += D", {"k": 0.6, "c": 0.4, "tau": 1.3, "D": 2.0}, (0.7, 1.9, 3.5)),
    Case(
        "lag", CHAIN, {"k": 0.6, "c": 0.4, "lag": 0.3, "A": 1.5}, (0.5, 0.9, 1.7, 3.5),
        doses=(of.Dose(0.0, "x", "A", every=1.1, count=3),), lag={"x": "lag"},
    ),
    Case(
        "table values", CHAIN.replace("-k*x\n", "-k*x + L(t) + H(t)\n", 1), {"k": 0.6, "c": 0.4, "b": 2.0, "h": 0.7},
        (0.7, 1.9, 3.5),
        tables={
            "L": of.Table([0, 0.8, 2, 4], [1, "b", 0.5, 1]),
            "H": of.Table([0, 1.1, 2.3], [0, "h", 0.2], kind="hold", outside="hold"),
        },
    ),
    Case(
        "two events at one time", CHAIN + "at t=tau: x += D*z, z *= 0.5\nat t=tau: z += x, x *= k\nat t=3: x += 1\n"
        "at t=3: x *= 2, z += c*t\nat t=tau + w: x = x + k*t^2, z += x",
        {"k": 0.6, "c": 0.4, "tau": 1.3, "D": 2.0, "w": 0.9}, (0.7, 1.9, 2.5, 3.5),
    ),
    Case(
        "switch and event in a stiff phase",
        "x' = -1e4*(x - cos(t)) + if(t < tau, 0, s)\nz' = x - k*z^2\nx(0) = 0\nz(0) = 1\n"
        "at t=tau + 0.3: x += D, z += D*x",
        {"k": 0.5, "s": 5e3, "tau": 0.8, "D": 2.0}, (0.5, 1.0, 1.5),
        methods=("ddm", "bdf3", "limex"), reference="ddm",
    ),
    Case(
        "infusion of unknown duration", CHAIN, {"k": 0.6, "c": 0.4, "w": 0.9, "T": 0.5}, (0.3, 0.9, 2.0, 3.5),
        doses=(of.Dose("T", "x", 2.0, duration="w"), of.Dose(2.2, "z", 1.0, duration="w")),
    ),
    Case(
        "conditions that move",
        "x' = if(t >= lag and t < lag + w, D, 0) - k*x*z\n"
        "z' = if(t < lag, 0.01, sin(t)) - 0.02*z + 0.1*max(t, 2*lag) + 0.3*abs(t - 5*w)\nx(0) = 1\nz(0) = 1.1",
        {"lag": 3.1, "w": 0.7, "D": 2.0, "k": 0.3}, (1.0, 3.31, 3.55, 4.02, 5.0, 7.0, 9.0),
    ),
    Case(
        "pulse of ten seconds", "x' = -k*x + U(t)\nx(0) = 0", {"k": 1e-3, "h": 1.5}, (500.0, 705.0, 1000.0, 2000.0),
        tables={"U": of.Table([0, 700, 710], [0, "h", 0], kind="hold", outside="hold")},
    ),
    Case(
        "algebraic unknown",
        "algebraic H ~ 0.1\n0 = H^3 + K*H - x*z\nx' = -k*exp(3*H)\nz' = x - c*H*z\nx(0) = 1\nz(0) = 2",
        {"k": 0.05, "c": 0.4, "K": 0.3}, (0.5, 1.5, 4.0),
    ),
    Case(
        "algebraic unknowns with an event and a condition",
        "algebraic a ~ 0.5\nalgebraic b ~ 0.5\n0 = a + K*a*b - x\n0 = b + K*a*b - if(t < 2*tau, z, 2*z)\n"
        "x' = -k*a\nz' = k*b - z*a\nx(0) = 1\nz(0) = 2\nat t=tau: x += D, K = 3*K",
        {"k": 0.6, "K": 2.0, "tau": 0.7, "D": 1.5}, (0.4, 0.9, 1.9, 3.5),
    ),
]  # fmt: skip
MATRIX = [(CHOICES[name], case) for case in CASES for name in case.methods]
by_method_and_case = pytest.mark.parametrize(
    ("method", "case"), MATRIX, ids=[f"{method.name}-{case.name}" for method, case in MATRIX]
)
by_choice = pytest.mark.parametrize("method", CHOICES.values(), ids=CHOICES)


@cache
def true_derivatives(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return derivatives of first and second order, by differences of tightly solved runs."""

    def solved(x, order):
        return case.solve(METHODS[case.reference], x, order, rtol=1e-13)

    first = central_difference(lambda x: solved(x, 0).y, case.x, step=2e-3)
    second = central_difference(lambda x: solved(x, 1).S, case.x, step=2e-3)
    return first, packed(second)


def packed(second: np.ndarray) -> np.ndarray:
    """Return second derivatives (m, n, q, q) by pairs a <= b."""
    return np.stack([second[:, :, a, b] for a, b in pairs(second.shape[2])], axis=-1)


def differ(case: Case, found: np.ndarray, right: np.ndarray) -> float:
    """Return the largest difference, of a column relative to its size.

    Columns are those by logarithms of the parameters; one that is small beside the others, zero say, counts with a
    thousandth of the largest.
    """
    of_pair = [case.x[a] * case.x[b] for a, b in pairs(case.x.size)]
    scale = case.x if right.shape[2] == case.x.size else np.array(of_pair)
    size = np.abs(right * scale).max(axis=(0, 1))
    return float((np.abs((found - right) * scale).max(axis=(0, 1)) / np.maximum(size, 1e-3 * size.max())).max())


def check_true_derivatives(method: Integrator, case: Case, *, second_order: float = 1e-6) -> None:
    """Hold derivatives of a tight run to those of the true solution, to 1e-6, or `second_order` for second ones."""
    order = HIGHEST_ORDER.get(method.name, 2)
    found = case.solve(method, case.x, order, rtol=TIGHT[method.name])
    first, second = true_derivatives(case)
    assert differ(case, found.S, first) <= 1e-6
    if order == 2:
        assert differ(case, found.S2, second) <= second_order


def chosen_and_replayed(method: Integrator, case: Case) -> tuple[int, Trajectory]:
    """Return the highest order of a method, and a run of it, which a replay must repeat to the last bit."""
    order = HIGHEST_ORDER.get(method.name, 2)
    chosen = case.solve(method, case.x, order)
    again = case.solve(method, case.x, order, grid=chosen.grid)
    for name in ("y", "S", "S2"):
        np.testing.assert_array_equal(getattr(again, name), getattr(chosen, name))
    return order, chosen


@by_method_and_case
def test_derivatives_are_those_of_the_true_solution(method, case):
    check_true_derivatives(method, case)


@by_method_and_case
def test_derivatives_are_those_of_the_replayed_solution(method, case):
    order, chosen = chosen_and_replayed(method, case)

    def replayed(x, order):
        return case.solve(method, x, order, grid=chosen.grid)

    tolerance = ROUNDING.get(method.name, 1e-9) if chosen.derivatives == "discrete" else 10 * RTOL
    first = central_difference(lambda x: replayed(x, 0).y, case.x, step=DIFFERENCE)
    assert differ(case, first, chosen.S) <= tolerance
    if order == 2:
        second = packed(central_difference(lambda x: replayed(x, 1).S, case.x, step=DIFFERENCE))
        assert differ(case, second, chosen.S2) <= tolerance


@by_choice
def test_a_pulse_is_seen_exactly(method):
    case = next(one for one in CASES if one.name == "pulse of ten seconds")
    k, h = case.values.values()
    found = case.solve(method, case.x, rtol=1e-8)
    t = np.array(case.times)
    last = np.clip(t, 700.0, 710.0)
    exact = h / k * (np.exp(-k * (t - last)) - np.exp(-k * (t - 700.0)))
    np.testing.assert_allclose(found.y[1:, 0], exact[1:], rtol=1e-5)
    assert found.y[0, 0] == 0.0
    assert len(found.grid.pieces) == 3
