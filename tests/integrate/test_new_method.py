"""A new method is a file with coefficients: Tsitouras 5(4), of which the package knows nothing."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.candidates import method_of
from benchmarks.tableaux.tsitouras54 import TABLEAU
from initial_value_problems import CASES, exact, grid_of, make_run, solve

from odefit.integrate import Status

METHOD, STEPS = method_of(TABLEAU), (50, 100)
by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def uniform(case, n_steps: int):
    return grid_of(METHOD, [np.full(n_steps, (case.end - case.t0) / n_steps)])


def observed_orders(case, times_of, order: int) -> np.ndarray:
    """Of states and sensitivities, from two uniform grids; `times_of` takes the step."""
    errors = []
    for n_steps in STEPS:
        times = times_of((case.end - case.t0) / n_steps, n_steps)
        found = solve(METHOD, case, make_run(case, times=times), grid=uniform(case, n_steps), order=order)
        y, *derivatives = exact(case, times)
        pairs = zip((found.y, found.S, found.S2)[: order + 1], (y[:, :, 0], *derivatives), strict=False)
        errors.append([np.abs(a - b)[:-1].max() if times.size > 1 else np.abs(a - b).max() for a, b in pairs])
    return np.log2(np.array(errors[0]) / np.array(errors[1]))


@by_case
def test_order_at_grid_points_with_sensitivities(case):
    orders = observed_orders(case, lambda h, n: np.array([case.end]), 2)
    assert (orders > TABLEAU.order - 0.4).all()
    assert (orders < TABLEAU.order + 1.6).all()


@by_case
def test_order_between_grid_points(case):
    def between(h, n):
        return np.append(case.t0 + h * (np.arange(n)[:, None] + np.array([0.2, 0.5, 0.7])).ravel(), case.end)

    orders = observed_orders(case, between, 1)
    assert (orders > TABLEAU.dense_order - 0.4).all()
    assert (orders < TABLEAU.dense_order + 1.6).all()


@by_case
def test_tolerance_is_kept_between_grid_points(case):
    times = np.linspace(case.t0, case.end, 40)
    y, s, _ = exact(case, times)
    found = solve(METHOD, case, make_run(case, times=times), rtol=1e-7, atol=1e-9, order=1)
    assert found.status is Status.OK
    assert found.grid.method == "tsit54"
    np.testing.assert_allclose(found.y, y[:, :, 0], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.S, s, rtol=1e-4, atol=1e-5 * np.abs(s).max())
