"""Sensitivities: closed forms, derivatives of the discrete solution, seeds."""

from __future__ import annotations

import numpy as np
import pytest
from initial_value_problems import (
    CASES,
    LOOSER,
    by_method,
    central_difference,
    exact,
    highest_order,
    make_run,
    pairs,
    solve,
)

from odefit.integrate import METHODS, Status

by_method_of_order_two = pytest.mark.parametrize(
    "method", [method for method in METHODS.values() if highest_order(method) == 2], ids=lambda method: method.name
)
by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@by_method
@by_case
@pytest.mark.parametrize("rtol", [1e-6, 1e-9])
def test_closed_form(method, case, rtol):
    found = solve(method, case, make_run(case), order=highest_order(method), rtol=rtol, atol=1e-2 * rtol)
    _, s, s2 = exact(case, case.times)
    assert found.status is Status.OK
    assert np.abs(found.S - s).max() <= 300 * LOOSER[method.name] * rtol * np.abs(s).max()
    if highest_order(method) == 2:
        assert np.abs(found.S2 - s2).max() <= 3000 * rtol * np.abs(s2).max()


def promised_agreement(found, rtol: float) -> float:
    """How well S agrees with differences of solutions on the same steps, by what the method says of its derivatives."""
    return {"discrete": 1e-8, "variational": 5 * rtol}[found.derivatives]


@by_method
@by_case
@pytest.mark.parametrize("rtol", [1e-2, 1e-5])
def test_first_derivatives_of_the_discrete_solution(method, case, rtol):
    """Discrete ones to eight digits even where the solution itself has two: the steps are frozen."""
    grid = solve(method, case, make_run(case), rtol=rtol, atol=rtol).grid
    found = solve(method, case, make_run(case), order=1, grid=grid, rtol=rtol, atol=rtol)
    numeric = central_difference(
        lambda theta: solve(method, case, make_run(case, theta), grid=grid, rtol=rtol, atol=rtol).y, case.theta
    )
    assert np.abs(found.S - numeric).max() <= promised_agreement(found, rtol) * np.abs(found.S).max()


@by_method_of_order_two
@by_case
@pytest.mark.parametrize("rtol", [1e-2, 1e-5])
def test_second_derivatives_of_the_discrete_solution(method, case, rtol):
    grid = solve(method, case, make_run(case), rtol=rtol, atol=rtol).grid
    found = solve(method, case, make_run(case), order=2, grid=grid, rtol=rtol, atol=rtol)
    numeric = central_difference(
        lambda theta: solve(method, case, make_run(case, theta), order=1, grid=grid, rtol=rtol, atol=rtol).S, case.theta
    )
    chosen = np.stack([numeric[:, :, a, b] for a, b in pairs(case.theta.size)], axis=-1)
    assert np.abs(found.S2 - chosen).max() <= 1e-8 * np.abs(found.S2).max()


@by_method
@by_case
def test_discrete_derivatives_over_several_pieces(method, case):
    stops = case.t0 + (case.end - case.t0) * np.array([0.3, 0.31, 0.8])
    grid = solve(method, case, make_run(case, stops=stops), rtol=1e-3, atol=1e-3).grid
    found = solve(method, case, make_run(case, stops=stops), order=1, grid=grid)
    numeric = central_difference(
        lambda theta: solve(method, case, make_run(case, theta, stops=stops), grid=grid).y, case.theta
    )
    assert np.abs(found.S - numeric).max() <= promised_agreement(found, 1e-3) * np.abs(found.S).max()


def quadratic(second: np.ndarray, v: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Return the second derivative in directions v, w from its entries for pairs of unknowns."""
    total = np.zeros(second.shape[:2])
    for column, (a, b) in enumerate(pairs(v.size)):
        total += second[:, :, column] * (v[a] * w[b] + (v[b] * w[a] if a != b else 0.0))
    return total


@by_method
@by_case
@pytest.mark.parametrize("q", range(10))
def test_any_number_of_mixed_directions(method, case, q):
    """Directions mix parameters and initial states; their number need not fill blocks of four."""
    rng = np.random.default_rng(1000 + q)
    n = case.theta.size
    seeds = rng.normal(size=(n, q))
    curvature = rng.normal(size=(n, q * (q + 1) // 2))
    order = highest_order(method)
    unit = solve(method, case, make_run(case), order=order)
    found = solve(method, case, make_run(case, seeds=seeds, second=curvature), order=order)
    np.testing.assert_array_equal(found.y, unit.y)
    np.testing.assert_allclose(found.S, unit.S @ seeds, rtol=1e-11, atol=1e-12)
    if order == 2:
        columns = [quadratic(unit.S2, seeds[:, a], seeds[:, b]) for a, b in pairs(q)]
        expected = (np.stack(columns, axis=-1) if columns else np.zeros((*unit.y.shape, 0))) + unit.S @ curvature
        np.testing.assert_allclose(found.S2, expected, rtol=1e-10, atol=1e-10)


@by_method
@by_case
def test_directions_of_the_initial_state_alone(method, case):
    n = case.theta.size
    chosen = np.eye(n)[:, len(case.p) :]
    found = solve(method, case, make_run(case, seeds=chosen), order=1)
    np.testing.assert_allclose(found.S, exact(case, case.times)[1][:, :, len(case.p) :], rtol=1e-4, atol=1e-5)


@by_method
@by_case
def test_directions_do_not_influence_each_other(method, case):
    n = case.theta.size
    whole = solve(method, case, make_run(case), order=1)
    for j in range(n):
        alone = solve(method, case, make_run(case, seeds=np.eye(n)[:, [j]]), order=1)
        np.testing.assert_allclose(alone.S[:, :, 0], whole.S[:, :, j], rtol=1e-13, atol=1e-15)


@by_method
@by_case
def test_zero_directions_stay_zero(method, case):
    found = solve(method, case, make_run(case, seeds=np.zeros((case.theta.size, 3))), order=highest_order(method))
    np.testing.assert_array_equal(found.S, 0.0)
    np.testing.assert_array_equal(found.S2, 0.0)


@by_method_of_order_two
def test_order_of_pairs(method):
    """For x = x0 exp(-k t): pairs (k, k), (k, x0), (x0, x0)."""
    case = CASES[0]
    found = solve(method, case, make_run(case, times=[1.0]), order=2, rtol=1e-11, atol=1e-13)
    k, x0 = case.theta
    decay = np.exp(-k)
    np.testing.assert_allclose(found.S2[0, 0], [x0 * decay, -decay, 0.0], rtol=1e-9 * LOOSER[method.name], atol=1e-12)
