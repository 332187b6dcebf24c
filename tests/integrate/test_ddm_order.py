"""Each order of the backward differentiation formulas, on prescribed grids, and what grids may be."""

from __future__ import annotations

import numpy as np
import pytest
from initial_value_problems import CASES, exact, make_run, run_of, solve

from odefit.errors import OdefitError
from odefit.integrate import METHODS, Ddm, StepGrid

DDM = METHODS["ddm"]
by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
by_order = pytest.mark.parametrize("k", range(1, 6))
SAFE_GROWTH = 1.1  # formulas of order 5 are stable while steps grow by less than 13 %


def graded_grid(case, k: int, n_steps: int) -> StepGrid:
    """Return a grid of order `k` whose start does not spoil it.

    The first step has order 1 and the error h^2, so that h is about H^(k/2) for the step H of the rest; from there the
    order rises with every step and steps grow slowly.
    """
    span = case.end - case.t0
    wanted = span / n_steps
    growth = [0.3 * min(wanted, wanted ** (k / 2))]
    while growth[-1] * SAFE_GROWTH < wanted:
        growth.append(growth[-1] * SAFE_GROWTH)
    rest = span - sum(growth)
    steps = np.array([*growth, *[rest / round(rest / wanted)] * round(rest / wanted)])
    return StepGrid.from_pieces("ddm", [steps], np.minimum(np.arange(1, steps.size + 1), k))


def observed(errors) -> np.ndarray:
    return np.log2(np.array(errors[0]) / np.array(errors[1]))


def errors_behind_the_start(case, k: int, n_steps: int, fraction: float) -> list[float]:
    """Return the largest errors of y, S and S2 in the second half, at a fraction of each step."""
    grid = graded_grid(case, k, n_steps)
    ends = case.t0 + np.cumsum(grid.steps)
    times = np.append((ends - (1.0 - fraction) * grid.steps)[grid.steps.size // 2 : -1], case.end)
    found = solve(DDM, case, make_run(case, times=times), grid=grid, order=2)
    y, s, s2 = exact(case, times)
    return [np.abs(found.y - y[:, :, 0]).max(), np.abs(found.S - s).max(), np.abs(found.S2 - s2).max()]


@by_case
@by_order
@pytest.mark.parametrize("fraction", [1.0, 0.6], ids=["at the steps", "between them"])
def test_observed_order(case, k, fraction):
    orders = observed([errors_behind_the_start(case, k, n_steps, fraction) for n_steps in (160, 320)])
    assert (orders > k - 0.25).all()
    assert (orders < k + 1.3).all()


@by_order
def test_polynomials_of_the_degree_of_the_order_are_exact(k):
    """x' = c t^(k-1) has a solution of degree k: steps of any size have no error but what the tiny start leaves."""
    steps = [1e-5]
    while steps[-1] < 0.5:
        steps.append(steps[-1] * SAFE_GROWTH)
    end = sum(steps)
    model, run = run_of(f"x' = c*t^{k - 1}\nx(0) = 0", (2.0,), (0.0,), [end])

    def error(order: int) -> float:
        orders = np.minimum(np.arange(1, len(steps) + 1), order)
        found = DDM.solve(model, run, grid=StepGrid.from_pieces("ddm", [steps], orders), rtol=1e-7, atol=1e-9, order=1)
        np.testing.assert_allclose(found.S[0, 0], [found.y[0, 0] / 2.0, 1.0], rtol=1e-12)
        return abs(found.y[0, 0] - 2.0 * end**k / k)

    assert error(k) < 1e-8
    if k > 1:
        assert error(k - 1) > 1e-4


@pytest.mark.parametrize("orders", [[2, 1, 1], [1, 3, 1], [1, 2, 4], [0, 1, 1], [1, 2, 7]])
def test_orders_that_do_not_fit_are_refused(orders):
    case = CASES[0]
    grid = StepGrid.from_pieces("ddm", [[1.0, 1.0, 2.0]], orders)
    with pytest.raises(OdefitError, match="the orders of a step grid of 'ddm' do not fit"):
        solve(DDM, case, make_run(case), grid=grid)


def test_grid_without_orders_is_refused():
    case = CASES[0]
    with pytest.raises(OdefitError, match="needs the order of each of its 3 steps"):
        solve(DDM, case, make_run(case), grid=StepGrid.from_pieces("ddm", [[1.0, 1.0, 2.0]]))


@by_case
def test_orders_are_used(case):
    found = solve(DDM, case, make_run(case), rtol=1e-8, atol=1e-10)
    orders = found.grid.orders & 7
    assert orders[0] == 1
    assert (np.diff(orders) <= 1).all()
    assert orders.max() == 5


@by_case
def test_tolerance_rule_makes_the_error_proportional(case):
    """With tol^((k + 1)/k), (37) of Guay and McLean, the slope of the error is 1, and the errors are small."""
    tolerances = 10.0 ** np.arange(-3, -10.5, -1)
    method = Ddm(scale_tolerance=True)
    y = exact(case, case.times)[0][:, :, 0]
    errors = [np.abs(solve(method, case, make_run(case), rtol=r, atol=1e-2 * r).y - y).max() for r in tolerances]
    assert 0.9 <= np.polyfit(np.log(tolerances), np.log(errors), 1)[0] <= 1.1
    assert (errors <= 10 * tolerances * np.abs(y).max()).all()


@by_case
@pytest.mark.parametrize("rtol", [1e-4, 1e-7])
def test_sensitivities_in_the_error_test(case, rtol):
    """They take more steps, never fewer, and the derivatives stay those of the discrete solution."""
    tested = Ddm(test_sensitivities=True)
    plain = solve(DDM, case, make_run(case), rtol=rtol, atol=rtol, order=1)
    found = solve(tested, case, make_run(case), rtol=rtol, atol=rtol, order=1)
    _, s, _ = exact(case, case.times)
    assert found.error_ratio <= 1.0
    assert np.abs(found.S - s).max() <= 200 * rtol * np.abs(s).max()
    assert found.counters.steps >= 0.9 * plain.counters.steps
    again = solve(tested, case, make_run(case), grid=found.grid, rtol=rtol, atol=rtol, order=1)
    np.testing.assert_array_equal(again.S, found.S)
    assert again.error_ratio == found.error_ratio
