"""Bounds: first-order conditions at the solution, and no point outside on the way."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.more_garbow_hillstrom_functions import FUNCTIONS, beale, kowalik_osborne, rosenbrock
from dense_objectives import gradient, minimise_function
from scipy.optimize import least_squares, lsq_linear

from odefit.solve.bounds import arrival


def assert_first_order_conditions(function, result, lower, upper, tol=1e-5):
    """Zero gradient where free, pointing outwards at bounds; `active` marks exactly the pressed bounds."""
    g = gradient(function, result.x)
    size = np.linalg.norm(result.evaluation.linear.triangle().R, axis=0) * max(np.sqrt(2 * result.value), 1e-8)
    at_lower, at_upper = result.x == lower, result.x == upper
    free = ~(at_lower | at_upper)
    assert (np.abs(g[free]) <= tol * size[free]).all()
    assert (g[at_lower] >= -tol * size[at_lower]).all()
    assert (g[at_upper] <= tol * size[at_upper]).all()
    assert not result.active[free].any()
    pressed = (at_lower & (g > tol * size)) | (at_upper & (g < -tol * size))
    assert result.active[pressed].all()


def assert_inside(objective, lower, upper):
    for x, *_ in objective.log:
        assert (x >= lower).all()
        assert (x <= upper).all()


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize(("m", "n"), [(6, 3), (15, 8)])
def test_linear_problems_in_a_box(seed, m, n):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(m, n)), 3 * rng.normal(size=m)
    lower, upper = -rng.uniform(0.05, 1.0, size=n), rng.uniform(0.05, 1.0, size=n)
    start = rng.uniform(lower, upper)

    def function(x):
        return a @ x - b

    result, objective = minimise_function(function, start, lower=lower, upper=upper)
    reference = lsq_linear(a, b, (lower, upper), method="bvls", tol=1e-14)
    assert result.status == "converged"
    assert result.value == pytest.approx(reference.cost, rel=1e-9)
    np.testing.assert_allclose(result.x, reference.x, atol=1e-6)
    assert_first_order_conditions(function, result, lower, upper)
    assert_inside(objective, lower, upper)


INF = np.inf
# function, start, lower, upper, solution
BOXES = {
    "Rosenbrock, x0 <= 0.5": (rosenbrock, (-1.2, 1.0), (-INF, -INF), (0.5, INF), (0.5, 0.25)),
    "Rosenbrock, x1 <= 0": (rosenbrock, (-1.2, -1.0), (-INF, -INF), (INF, 0.0), None),
    "Rosenbrock, start on an upper bound": (rosenbrock, (-1.2, 1.0), (-2.0, -2.0), (3.0, 1.0), (1.0, 1.0)),
    "Rosenbrock, start on a lower bound to be left": (rosenbrock, (-2.0, 1.0), (-2.0, -5.0), (5.0, 5.0), (1.0, 1.0)),
    "Rosenbrock, start in a corner to be left": (rosenbrock, (-2.0, -2.0), (-2.0, -2.0), (5.0, 5.0), (1.0, 1.0)),
    "Rosenbrock, corner is the solution": (rosenbrock, (0.1, 0.01), (0.0, 0.0), (0.25, 0.0625), (0.25, 0.0625)),
    "Beale, x0 <= 2": (beale, (1.0, 1.0), (-INF, -INF), (2.0, INF), None),
    "Beale, x1 >= 0.7": (beale, (1.0, 0.8), (-INF, 0.7), (INF, INF), None),
    "Beale, minimum on the bound itself": (beale, (1.0, 0.8), (0.0, 0.5), (3.0, 2.0), (3.0, 0.5)),
    "Kowalik-Osborne, x3 >= 0.2": (kowalik_osborne, (0.25, 0.39, 0.415, 0.39), (0, 0, 0, 0.2), (1, 1, 1, 1), None),
    "Kowalik-Osborne, loose": (kowalik_osborne, (0.25, 0.39, 0.415, 0.39), (0, 0, 0, 0), (9, 9, 9, 9), None),
}


@pytest.mark.parametrize("name", BOXES)
def test_nonlinear_problems_in_a_box(name):
    function, start, lower, upper, solution = BOXES[name]
    lower, upper = np.array(lower, dtype=float), np.array(upper, dtype=float)
    result, objective = minimise_function(function, start, lower=lower, upper=upper)
    assert result.status == "converged"
    assert_first_order_conditions(function, result, lower, upper)
    assert_inside(objective, lower, upper)
    if solution is None:
        tight = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
        inside = np.clip(start, lower + 1e-3, upper - 1e-3)
        reference = least_squares(function, inside, bounds=(lower, upper), **tight)
        assert result.value <= reference.cost * (1 + 1e-6)
    else:
        np.testing.assert_allclose(result.x, solution, rtol=1e-5, atol=1e-6)


def test_all_unknowns_at_bounds_at_once():
    """The start is the solution: pressed into a corner, nothing is left to do."""
    result, objective = minimise_function(
        lambda x: x - np.array([5.0, -5.0]), (1.0, -1.0), lower=[-1, -1], upper=[1, 1]
    )
    assert result.status == "converged"
    assert result.iterations == 0
    assert result.active.all()
    assert result.rank == 0
    np.testing.assert_array_equal(result.x, [1.0, -1.0])
    assert len(objective.log) == 1


def test_start_in_a_corner_that_is_left():
    result, _ = minimise_function(lambda x: x - np.array([0.5, -0.5]), (1.0, -1.0), lower=[-1, -1], upper=[1, 1])
    assert result.status == "converged"
    assert not result.active.any()
    np.testing.assert_allclose(result.x, [0.5, -0.5], rtol=1e-6)


@pytest.mark.parametrize("problem", FUNCTIONS, ids=lambda f: f.name)
def test_bounds_that_are_never_met_change_nothing(problem):
    start = np.array(problem.start)

    def fails(x):
        with np.errstate(all="ignore"):
            values = problem.function(x)
        return "" if np.isfinite(values).all() and np.abs(values).max() < 1e100 else "overflow"

    free, _ = minimise_function(problem.function, start, fails=fails)
    boxed, _ = minimise_function(
        problem.function, start, fails=fails, lower=np.full(start.size, -1e12), upper=np.full(start.size, 1e12)
    )
    np.testing.assert_array_equal(free.x, boxed.x)


@pytest.mark.parametrize("width", [1e-3, 1e-8, 1e-14])
def test_narrow_box(width):
    start = np.array([-1.2, 1.0])
    lower, upper = start - width, start + width
    result, objective = minimise_function(rosenbrock, start, lower=lower, upper=upper)
    assert result.status == "converged"
    assert_first_order_conditions(rosenbrock, result, lower, upper)
    assert_inside(objective, lower, upper)


@pytest.mark.parametrize("start", [(1.0, 1.0), (0.0, 1.0), (1.0, 0.3), (9.0, -1.0)])
def test_bound_released_after_it_was_met(start):
    """The first steps press x0 against its bound; the curved valley leads away from it again."""

    def function(x):
        return np.array([10 * (x[0] - x[1] ** 2), x[1] - 2.0])

    result, _ = minimise_function(function, start, lower=[0.0, -5.0], upper=[50.0, 5.0])
    assert result.status == "converged"
    np.testing.assert_allclose(result.x, [4.0, 2.0], rtol=1e-6)
    assert not result.active.any()


def test_unknown_without_influence_at_its_bound():
    """A zero gradient presses nothing: the unknown is undetermined, whether or not it touches a bound."""
    result, _ = minimise_function(
        lambda x: np.array([x[0] - 1.0, 2.0 + 0 * x[1]]), (3.0, 0.0), lower=[0, 0], upper=[9, 9]
    )
    assert result.status == "converged"
    assert result.x[0] == pytest.approx(1.0, rel=1e-6)


def test_a_rejected_step_to_a_bound_is_shortened():
    # the full step leads out of the box, and the way to the bound crosses a hill: half of it is to be tried next
    def function(x):
        return np.array([100.0 + np.sin(40.0 * x[0])])

    lower, upper = np.array([-0.5]), np.array([0.5])
    result, objective = minimise_function(function, np.array([0.0]), lower=lower, upper=upper)
    assert result.value < 0.5 * 99.5**2
    assert len({float(x[0]) for x, *_ in objective.log}) > 2
    assert_inside(objective, lower, upper)


def test_a_step_that_ends_at_a_bound_but_for_rounding_meets_it():
    x = np.array([-6.154e-6, 3.0, -6.154e-6])
    v = np.array([6.154e-6 * (1 - 2e-16), -1.0, 6.0e-6])
    upper, lower = np.zeros(3), np.array([-1.0, 2.0 - 1e-16, -1.0])
    upper[1] = 5.0
    assert x[0] + v[0] < 0
    assert arrival(x, v, lower, upper).tolist() == [0.0, 2.0, x[2] + v[2]]
