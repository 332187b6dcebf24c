"""Frozen grids: values of different generations are never compared, and grids change a limited number of times."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.more_garbow_hillstrom_functions import FUNCTIONS, beale, rosenbrock
from dense_objectives import DenseObjective, minimise

from odefit.solve import SOLVERS, Decision, ErrorGrowth, OmegaTolerance, Readapt, Termination


class Value(float):
    """A number that knows its generation and refuses to meet one of another."""

    def __new__(cls, number: float, generation: int):
        made = super().__new__(cls, number)
        made.generation = generation
        return made

    def _check(self, other) -> None:
        if isinstance(other, Value):
            assert other.generation == self.generation, "values of different generations were compared"

    def __sub__(self, other):
        self._check(other)
        return float(self) - float(other)

    def __lt__(self, other):
        self._check(other)
        return float(self) < float(other)

    def __le__(self, other):
        self._check(other)
        return float(self) <= float(other)

    def __gt__(self, other):
        self._check(other)
        return float(self) > float(other)

    def __ge__(self, other):
        self._check(other)
        return float(self) >= float(other)

    __hash__ = float.__hash__

    def __eq__(self, other):
        self._check(other)
        return float(self) == float(other)


class GenerationObjective(DenseObjective):
    """An objective whose level jumps with every generation, and whose grids fit near their centre only.

    The level is an additional constant residual, so that the minimum stays where it is.
    """

    def __init__(self, function, n: int, *, levels, growth: float) -> None:
        super().__init__(function, tuple(f"x{i}" for i in range(n)))
        self.levels = levels
        self.growth = growth

    def refresh(self, x):
        self.centre = x.copy()
        return super().refresh(x)

    def evaluate(self, x, order):
        plain = self.function
        level = self.levels(self.generation)
        self.function = lambda z: np.append(plain(z), level)
        try:
            found = super().evaluate(x, order)
        finally:
            self.function = plain
        return found._replace(value=Value(found.value, self.generation))

    def error_ratio(self, x):
        return 0.5 + self.growth * float(np.linalg.norm(x - self.centre))


LEVELS = {
    "rising": lambda g: 0.5 * g,
    "falling": lambda g: 20.0 / g,
    "jumping": lambda g: 5.0 * (g % 3),
    "zero": lambda g: 0.0,
}
START = {rosenbrock: (-1.2, 1.0), beale: (1.0, 1.0)}


@pytest.mark.parametrize("function", [rosenbrock, beale], ids=["Rosenbrock", "Beale"])
@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS)
@pytest.mark.parametrize("growth", [0.0, 1.0, 20.0, 200.0])
def test_values_of_different_generations_are_never_compared(function, levels, growth):
    objective = GenerationObjective(function, 2, levels=levels, growth=growth)
    start = np.array(START[function])
    result = minimise(objective, start, freeze=OmegaTolerance(most=10_000))
    assert result.status == "converged"
    solution = next(f for f in FUNCTIONS if f.function is function).solutions[0]
    np.testing.assert_allclose(result.x, solution, rtol=2e-3)
    assert result.refreshes == objective.generation
    assert (result.refreshes > 1) == (growth > 0.0)
    assert result.evaluation.error_ratio <= 1.0
    # every accepted point was better than its predecessor, both on the grids of the later one
    known = {(tuple(x), g): v for x, _, g, v in objective.log}
    points = [start, *(x for x, row in accepted(objective, result))]
    for old, new, row in zip(points, points[1:], result.trace, strict=False):
        assert known[tuple(new), row.generation] < known[tuple(old), row.generation]


def accepted(objective, result):
    """Return the point of each row of the trace."""
    for row in result.trace:
        matches = [x for x, _, g, v in objective.log if g == row.generation and v == float(row.objective)]
        assert matches, "a row of the trace belongs to no evaluation"
        yield matches[-1], row


@pytest.mark.parametrize("most", [1, 2, 5, 20])
@pytest.mark.parametrize("growth", [20.0, 2000.0])
def test_grids_change_a_limited_number_of_times(most, growth):
    objective = GenerationObjective(rosenbrock, 2, levels=LEVELS["rising"], growth=growth)
    result = minimise(objective, START[rosenbrock], freeze=OmegaTolerance(most=most))
    # so many in vain between two steps; a trial that is not taken costs its own renewal and one to go back
    assert result.refreshes <= (result.iterations + 1) * (most + 5)
    assert result.status in ("converged", "stalled", "iteration-limit", "flat-valley", "slow-progress")
    if result.status == "converged":
        assert result.evaluation.error_ratio <= 1.0


def test_convergence_is_confirmed_on_fresh_grids():
    """Small enough an error to keep the grids all the way, too large for the result: one look on new ones."""
    objective = GenerationObjective(beale, 2, levels=LEVELS["falling"], growth=2.0)
    result = minimise(objective, START[beale], freeze=OmegaTolerance(omega=1e6))
    assert result.status == "converged"
    assert result.refreshes == 2
    assert result.evaluation.generation == objective.generation
    np.testing.assert_array_equal(result.x, objective.centre)


class ShiftedObjective(GenerationObjective):
    """The minimum itself moves a little with each generation, as integration errors do."""

    def refresh(self, x):
        generation = super().refresh(x)
        self.shift = 1e-4 * np.array([1.0, -1.0]) * (-1) ** generation
        self.base = getattr(self, "base", self.function)
        self.function = lambda z: self.base(z - self.shift)
        return generation


def test_minimum_that_moves_with_the_grids():
    objective = ShiftedObjective(beale, 2, levels=LEVELS["jumping"], growth=20.0)
    result = minimise(objective, START[beale])
    assert result.status == "converged"
    np.testing.assert_allclose(result.x - objective.shift, [3.0, 0.5], rtol=1e-5)


class NeverTrusted(GenerationObjective):
    def error_ratio(self, x):
        return 2.0


@pytest.mark.parametrize("start", [(1.0, 1.0), (3.0, 0.5)])
def test_error_that_no_grid_removes_ends_the_search(start):
    """A transcription whose fresh grids miss the tolerance must not be asked for ever."""
    objective = NeverTrusted(beale, 2, levels=LEVELS["zero"], growth=0.0)
    objective.limit = 500
    result = minimise(objective, start, termination=Termination(tol_abs=1e-6, max_iterations=50))
    assert result.refreshes <= OmegaTolerance().most + 5
    assert result.message


@pytest.mark.parametrize(
    ("ratio", "refreshes", "expected"),
    [
        (0.0, 0, Decision.KEEP),
        (10.0, 99, Decision.KEEP),
        (10.1, 0, Decision.REFRESH),
        (10.1, 59, Decision.REFRESH),
        (10.1, 60, Decision.SHORTEN),
        (np.inf, 0, Decision.REFRESH),
        (np.inf, 1000, Decision.SHORTEN),
    ],
)
def test_omega_tolerance(ratio, refreshes, expected):
    assert OmegaTolerance(omega=10.0, most=60).decide(ratio, 1.0, refreshes) is expected


@pytest.mark.parametrize(("ratio", "trusted"), [(0.0, True), (1.0, True), (1.01, False), (np.inf, False)])
def test_trustworthy(ratio, trusted):
    assert OmegaTolerance().is_trustworthy(ratio) is trusted


@pytest.mark.parametrize(
    ("new", "old", "refreshes", "expected"),
    [
        (0.9, 0.01, 0, Decision.KEEP),  # growth within the tolerance is none
        (1.0, 0.0, 0, Decision.KEEP),
        (4.9, 0.5, 0, Decision.KEEP),  # neither (13) nor (14)
        (5.1, 0.5, 0, Decision.SHORTEN),  # (14), though below sigma1
        (11.0, 0.5, 0, Decision.SHORTEN),  # (14) comes first: the step is too long
        (11.0, 1.2, 0, Decision.REFRESH),  # (13) alone
        (11.0, 1.2, 59, Decision.REFRESH),
        (11.0, 1.2, 60, Decision.SHORTEN),  # no grids are left
        (np.inf, 1.0, 0, Decision.SHORTEN),
        (np.nan, 1.0, 0, Decision.SHORTEN),
    ],
)
def test_error_growth(new, old, refreshes, expected):
    assert ErrorGrowth(sigma1=10.0, sigma2=10.0, most=60).decide(new, old, refreshes) is expected


@pytest.mark.parametrize(
    ("ratio", "expected"), [(0.5, Decision.KEEP), (1e9, Decision.KEEP), (np.inf, Decision.SHORTEN)]
)
def test_readapt(ratio, expected):
    assert Readapt().decide(ratio, 0.0, 10**6) is expected
    assert Readapt().is_trustworthy(1e9)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("policy", [OmegaTolerance(most=10_000), ErrorGrowth(most=10_000)], ids=["omega", "growth"])
@pytest.mark.parametrize("levels", LEVELS.values(), ids=LEVELS)
def test_no_solver_compares_values_of_different_generations(solver, policy, levels):
    objective = GenerationObjective(beale, 2, levels=levels, growth=10.0)
    parts = SOLVERS[solver]
    result = minimise(objective, START[beale], step=parts.step, globalisation=parts.globalisation, freeze=policy)
    assert result.status == "converged"
    np.testing.assert_allclose(result.x, (3.0, 0.5), rtol=2e-3)
    assert result.evaluation.error_ratio <= 1.0


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("growth", [20.0, 2000.0])
def test_no_solver_renews_grids_without_end(solver, growth):
    objective = GenerationObjective(rosenbrock, 2, levels=LEVELS["jumping"], growth=growth)
    parts = SOLVERS[solver]
    policy = ErrorGrowth(most=5)
    result = minimise(objective, START[rosenbrock], step=parts.step, globalisation=parts.globalisation, freeze=policy)
    assert result.refreshes <= (result.iterations + 1) * (5 + 5)
    assert result.message
