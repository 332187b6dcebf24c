"""The formulas of rk32 as diffpar's paper prints them, one step at a time."""

from __future__ import annotations

import numpy as np
import pytest
from initial_value_problems import CASES, grid_of, make_run, run_of, solve

from odefit.integrate import METHODS, Status

RK32 = METHODS["rk32"]
CASE = {case.name: case for case in CASES}


def one_step(text, p, y0, h, times, *, t0=0.0, order=0, atol=1.0):
    """Take one step; with rtol = 0 and atol = 1 the error ratio is the estimate itself."""
    model, run = run_of(text, p, y0, times, t0=t0)
    return RK32.solve(model, run, rtol=0.0, atol=atol, order=order, grid=grid_of(RK32, [[h]]))


def test_step_computed_by_hand():
    """x' = x v, v' = t - x from (1, 2) at t = 1 with h = 1/2.

    q1 = (2, 0);  q2 = f(3/2, (2, 2)) = (4, -1/2);  q3 = f(5/4, (7/4, 31/16)) = (217/64, -1/2).
    """
    found = one_step("x' = x*v\nv' = t - x\nx(0) = 1\nv(0) = 2", [], [1.0, 2.0], 0.5, [1.125, 1.5], t0=1.0)
    x, v = 1 + (2 + 4 + 217 / 16) / 12, 2 + (0 - 1 / 2 - 2) / 12
    np.testing.assert_allclose(found.y[1], [x, v], rtol=1e-15)
    assert found.error_ratio == pytest.approx(abs((2 + 4) / 4 - (2 + 4 + 217 / 16) / 12), rel=1e-14)
    assert found.cause == 0
    y, y_new = np.array([1.0, 2.0]), np.array([x, v])
    f, f_new, d = np.array([2.0, 0.0]), np.array([x * v, 1.5 - x]), (y_new - y) / 0.5
    between = y + 0.25 * 0.5 * (f + 0.25 * (d - f) + 0.25 * (0.25 - 1) * (f_new - 2 * d + f))
    np.testing.assert_allclose(found.y[0], between, rtol=1e-15)


@pytest.mark.parametrize("z", [-0.1, -0.7, 0.9, -2.5])
def test_derivatives_of_one_step_are_those_of_its_polynomial(z):
    """For x' = -k x a step multiplies by R(z) = 1 + z + z^2/2 + z^3/6, z = -k h; the estimate is z^3/6."""
    h, x0 = 0.5, 3.0
    found = one_step("x' = -k*x\nx(0) = 1", [-z / h], [x0], h, [h], order=2)
    value, first, second = 1 + z + z**2 / 2 + z**3 / 6, 1 + z + z**2 / 2, 1 + z
    np.testing.assert_allclose(found.y[0, 0], x0 * value, rtol=1e-14)
    np.testing.assert_allclose(found.S[0, 0], [-h * x0 * first, value], rtol=1e-14)
    np.testing.assert_allclose(found.S2[0, 0], [h**2 * x0 * second, -h * first, 0.0], rtol=1e-14, atol=1e-15)
    assert found.error_ratio == pytest.approx(x0 * abs(z) ** 3 / 6, rel=1e-12)


def test_cubic_polynomials_are_exact_between_grid_points():
    """One step reproduces x = a t^3 + b t^2 + c t + x0 everywhere: quadrature of order 4, Hermite interpolation."""
    a, b, c, x0, h = 0.7, -1.1, 0.4, 2.0, 1.5
    t = h * np.array([0.1, 0.3, 0.5, 0.9, 1.0])
    found = one_step("x' = 3*a*t^2 + 2*b*t + c\nx(0) = 1", [a, b, c], [x0], h, t, order=1)
    np.testing.assert_allclose(found.y[:, 0], a * t**3 + b * t**2 + c * t + x0, rtol=1e-14)
    np.testing.assert_allclose(found.S[:, 0], np.stack([t**3, t**2, t, np.ones(5)], axis=1), rtol=1e-14, atol=1e-16)


def test_output_between_grid_points_has_the_slopes_of_the_solution_at_both_ends():
    h, e = 0.5, 1e-6
    found = one_step("x' = r*x*(1 - x)\nx(0) = 1", [2.0], [0.2], h, [0.0, e, h - e, h])
    x = found.y[:, 0]
    assert (x[1] - x[0]) / e == pytest.approx(2.0 * x[0] * (1 - x[0]), rel=1e-5)
    assert (x[3] - x[2]) / e == pytest.approx(2.0 * x[3] * (1 - x[3]), rel=1e-5)


@pytest.mark.parametrize("name", CASE)
def test_estimate_goes_with_the_third_power_of_the_step(name):
    case = CASE[name]
    ratios = [
        solve(
            RK32, case, make_run(case, times=[case.t0 + h]), rtol=0.0, atol=1.0, grid=grid_of(RK32, [[h]])
        ).error_ratio
        for h in (0.02, 0.01)
    ]
    assert np.log2(ratios[0] / ratios[1]) == pytest.approx(3.0, abs=0.15)


@pytest.mark.parametrize("name", ["decay", "bateman", "logistic"])
def test_step_rule(name):
    """(42): h_new = 0.9 h (tolerance/error)^(1/3), here with bounds that do not act, without rejections."""
    case, rtol, atol = CASE[name], 1e-6, 1e-6
    chosen = solve(RK32, case, make_run(case), rtol=rtol, atol=atol)
    assert chosen.counters.rejected == 0
    steps = chosen.grid.steps
    assert steps.size > 30
    t, x = case.t0, np.array(case.y0)
    for h, h_next in zip(steps[:-2], steps[1:-1], strict=True):  # the last one ends the piece
        run = make_run(case, times=[t + h])._replace(t0=t, y0=x)
        step = solve(RK32, case, run, rtol=rtol, atol=atol, grid=grid_of(RK32, [[h]]))
        factor = 0.9 * step.error_ratio ** (-1 / 3)
        assert h_next / h == pytest.approx(min(5.0, factor), rel=1e-9)
        t, x = t + h, step.y[0]


def test_growth_is_bounded():
    """A parabola has no error but rounding: five times as long, until the piece ends."""
    model, run = run_of("x' = a*t\nx(0) = 1", [1.0], [1.0], [1.0, 1e6])
    found = RK32.solve(model, run, rtol=1e-3, atol=1e-3)
    steps = found.grid.steps
    assert found.status is Status.OK
    np.testing.assert_allclose(steps[1:-1] / steps[:-2], 5.0, rtol=1e-12)
    assert steps.sum() == pytest.approx(1e6)


def test_slope_at_the_new_point_must_be_finite():
    """x = exp(t) with h = 1: the stages see x = 1, 2 and 7/4, the new value 8/3 alone lies behind the edge of sqrt."""
    model, run = run_of("x' = x\ny' = sqrt(c - x)\nx(0) = 1\ny(0) = 0", [2.55], [1.0, 0.0], [0.5, 1.0])
    replayed = RK32.solve(model, run, rtol=1e-3, atol=1e-3, grid=grid_of(RK32, [[1.0]]))
    assert replayed.status is Status.NONFINITE
    assert (replayed.t_end, model.states[replayed.cause]) == (0.0, "y")
    chosen = RK32.solve(model, run, rtol=0.1, atol=1e3)
    assert chosen.status is Status.NONFINITE
    assert chosen.t_end == pytest.approx(np.log(2.55), abs=0.1)
    assert model.states[chosen.cause] == "y"
    assert np.isfinite(chosen.y[0]).all()
