"""The solver on the collection of More, Garbow and Hillstrom: solver x problem."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.more_garbow_hillstrom_functions import FUNCTIONS, box_three_dimensional, rosenbrock
from dense_objectives import DenseObjective, gradient, minimise, minimise_function

from odefit.solve import Scaling, Termination

# At these minima the linearisation is singular or dominated by curvature: a Gauss-Newton method
# creeps, and whether its last steps count as convergence is a matter of words.
CURVED = {"Freudenstein-Roth", "Jennrich-Sampson", "Brown-Dennis"}
# The second residual has a plateau at infinity only 1e-8 above the minimum.
PLATEAU = {"Powell badly scaled"}
REGULAR = [f for f in FUNCTIONS if f.name not in CURVED | PLATEAU]


def overflow(function):
    """Tell where a function has no value that a solver could use."""

    def fails(x):
        with np.errstate(all="ignore"):
            values = function(x)
        return "" if np.isfinite(values).all() and np.abs(values).max() < 1e100 else "overflow"

    return fails


def run(function, start, **options):
    return minimise_function(function, start, fails=overflow(function), **options)


def is_known_minimum(value: float, minima, rel: float) -> bool:
    return any(value == pytest.approx(minimum, rel=rel, abs=1e-12) for minimum in minima)


@pytest.mark.parametrize("problem", REGULAR, ids=lambda f: f.name)
def test_known_minimum(problem):
    result, objective = run(problem.function, problem.start)
    assert result.status == "converged"
    assert is_known_minimum(2 * result.value, problem.minima, 3e-6)
    assert result.value == pytest.approx(0.5 * np.sum(problem.function(result.x) ** 2), rel=1e-12, abs=1e-300)
    assert result.evaluations == len(objective.log)
    assert result.iterations == len(result.trace) <= 60
    assert not result.active.any()
    if problem.solutions and min(problem.minima) == 0.0 and problem.name != "Powell singular":
        assert any(np.allclose(result.x, x, rtol=1e-4) for x in permuted(problem))


def permuted(problem):
    """Biggs' sum of exponentials does not care about the order of its positive terms."""
    for x in problem.solutions:
        yield x
        if problem.name == "Biggs EXP6":
            yield (x[4], x[1], x[5], x[3], x[0], x[2])


@pytest.mark.parametrize("problem", [f for f in FUNCTIONS if f.name in CURVED], ids=lambda f: f.name)
def test_minimum_where_curvature_rules(problem):
    result, _ = run(problem.function, problem.start)
    assert result.status in ("converged", "slow-progress")
    if result.status == "slow-progress":
        assert "strongly curved" in result.message
    assert is_known_minimum(2 * result.value, problem.minima, 1e-5)


@pytest.mark.parametrize("problem", FUNCTIONS, ids=lambda f: f.name)
def test_converged_means_stationary(problem):
    """Whatever is found from a far start: a converged point has no descent left in its linearisation."""
    result, _ = run(problem.function, 10.0 * np.array(problem.start))
    r = problem.function(result.x)
    assert result.value == pytest.approx(0.5 * r @ r, rel=1e-12, abs=1e-300)
    if result.status == "converged":
        reduced = result.evaluation.linear.triangle()
        kept = np.abs(np.linalg.svd(reduced.R, compute_uv=False)) > 0
        assert kept.any()
        assert np.linalg.norm(gradient(problem.function, result.x)) <= 1e-5 * np.linalg.norm(reduced.R, 2) * (
            np.linalg.norm(r) + 1e-3
        )
    else:
        assert result.message


@pytest.mark.parametrize("problem", [f for f in FUNCTIONS if f.name in PLATEAU], ids=lambda f: f.name)
def test_plateau_is_never_called_converged(problem):
    result, _ = run(problem.function, problem.start)
    assert result.status != "converged" or 2 * result.value < 1e-10


@pytest.mark.parametrize("problem", FUNCTIONS, ids=lambda f: f.name)
def test_accepted_values_decrease(problem):
    result, _ = run(problem.function, problem.start)
    values = [row.objective for row in result.trace]
    assert all(new < old for old, new in zip(values, values[1:], strict=False))
    assert [row.iteration for row in result.trace] == list(range(1, len(values) + 1))
    assert result.value == values[-1]


@pytest.mark.parametrize("factor", [2.0**-20, 2.0**-3, 2.0**7, 2.0**30])
@pytest.mark.parametrize("name", ["Rosenbrock", "Beale", "Bard", "Kowalik-Osborne", "Osborne 2"])
def test_units_of_the_unknowns_do_not_matter(name, factor):
    """Powers of two change nothing but exponents: every iterate is the same."""
    problem = next(f for f in FUNCTIONS if f.name == name)
    plain = Termination(tol=1e-6)
    reference, _ = run(problem.function, problem.start, termination=plain)
    scaled, _ = run(lambda x: problem.function(x / factor), np.array(problem.start) * factor, termination=plain)
    assert scaled.iterations == reference.iterations
    np.testing.assert_allclose(scaled.x, reference.x * factor, rtol=1e-9)


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**-5, 2.0**20])
@pytest.mark.parametrize("name", ["Rosenbrock", "Bard", "Kowalik-Osborne", "Meyer"])
def test_units_of_the_residual_do_not_matter(name, factor):
    problem = next(f for f in FUNCTIONS if f.name == name)
    plain = Termination(tol=1e-6)
    reference, _ = run(problem.function, problem.start, termination=plain)
    scaled, _ = run(lambda x: factor * problem.function(x), problem.start, termination=plain)
    assert scaled.iterations == reference.iterations
    np.testing.assert_allclose(scaled.x, reference.x, rtol=1e-9)


@pytest.mark.parametrize("logarithmic", [False, True])
def test_scales_of_unknowns(logarithmic):
    """The flag only changes the metric of the steps, not the minimum."""
    result, _ = run(rosenbrock, (-1.2, 1.0), scaling=Scaling(np.array([-1.2, 1.0]), np.full(2, logarithmic)))
    assert result.status == "converged"
    np.testing.assert_allclose(result.x, 1.0, rtol=1e-9)


def test_runs_are_repeatable():
    first, second = (run(FUNCTIONS[-1].function, FUNCTIONS[-1].start)[0] for _ in range(2))
    np.testing.assert_array_equal(first.x, second.x)
    assert first.trace == second.trace


def line(t):
    return lambda x: x[0] + x[1] * t - (1 + 2 * t + 0.1 * np.sin(7 * t))


@pytest.mark.parametrize("start", [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1e-12, -1e-12)])
def test_start_at_zero(start):
    """Zero is a start value like any other: here the problem is even linear."""
    t = np.linspace(0, 5, 11)
    result, _ = minimise_function(line(t), start)
    best = np.linalg.lstsq(np.stack([np.ones(11), t], axis=1), 1 + 2 * t + 0.1 * np.sin(7 * t), rcond=None)[0]
    assert result.status == "converged"
    np.testing.assert_allclose(result.x, best, rtol=1e-6)


@pytest.mark.parametrize("start", [(0.0, 100.0, 200.0), (0.0, 5.0, 5.0)])
def test_some_unknowns_start_at_zero(start):
    result, _ = run(box_three_dimensional, start)
    assert result.status == "converged"
    assert result.value < 1e-15


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 3), (3, 3), (20, 1), (40, 12)])
@pytest.mark.parametrize("seed", range(3))
def test_linear_problems(m, n, seed):
    """A consistent or overdetermined linear problem is solved to rounding, whatever its shape."""
    rng = np.random.default_rng(100 * m + 10 * n + seed)
    a, b = rng.normal(size=(m, n)), rng.normal(size=m)
    result, _ = minimise_function(lambda x: a @ x - b, rng.normal(size=n))
    best = np.linalg.lstsq(a, b, rcond=None)[0]
    assert result.status == "converged"
    assert result.value == pytest.approx(0.5 * np.sum((a @ best - b) ** 2), rel=1e-9, abs=1e-17)
    assert result.rank == min(m, n)


@pytest.mark.parametrize("seed", range(5))
def test_dependent_columns(seed):
    """Only x0 + x1 matters: any split is a solution, and the rank says so."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, 8)
    y = 3 * np.exp(-t)
    result, _ = minimise_function(lambda x: (x[0] + x[1]) * np.exp(-x[2] * t) - y, rng.uniform(0.5, 2.0, size=3))
    assert result.status == "converged"
    assert result.rank == 2
    assert result.x[0] + result.x[1] == pytest.approx(3.0, rel=1e-6)
    assert result.x[2] == pytest.approx(1.0, rel=1e-6)


def test_unknown_without_influence_stays():
    result, _ = minimise_function(lambda x: np.array([x[0] ** 2 - 4, 1.0 + 0 * x[1]]), (1.0, 7.0))
    assert result.status == "converged"
    assert (result.rank, result.x[1]) == (1, 7.0)
    assert result.x[0] == pytest.approx(2.0, rel=1e-6)


def test_objective_needs_nothing_but_the_protocol():
    objective = DenseObjective(rosenbrock, ("a", "b"))
    seen = []
    result = minimise(objective, (-1.2, 1.0), callback=seen.append)
    assert tuple(seen) == result.trace
    assert result.refreshes == objective.generation == 1
    assert result.converged
