"""Extrapolation in the step size: closed forms, orders, exact derivatives, output between the ends, linear algebra."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from initial_value_problems import CASES, central_difference, exact, make_run, run_of, solve
from test_ddm_sparse import MODELS, make

import odefit as of
from odefit.errors import OdefitError
from odefit.integrate import METHODS, Counters, Status, StepGrid
from odefit.integrate.elimination import compiled_algebra, dense_algebra, sparse_algebra
from odefit.integrate.extrapolation import (
    MOST_ROWS,
    dense_coefficients,
    end_weights,
    error_weights,
    n_increments,
)

LIMEX, DDM = METHODS["limex"], METHODS["ddm"]
CASE = {case.name: case for case in CASES}
ROBERTSON = "a' = -k1*a + k2*b*c\nb' = k1*a - k2*b*c - k3*b^2\nc' = k3*b^2\na(0) = 1\nb(0) = 0\nc(0) = 0"
OF_ROBERTSON = (0.04, 1e4, 3e7), (1.0, 0.0, 0.0)


def grid_of_orders(steps, orders) -> StepGrid:
    steps = np.asarray(steps, dtype=float)
    counts = np.zeros(len(Counters._fields) + 1, np.int64)
    counts[-1] = steps.size
    return StepGrid("limex", steps, counts, np.broadcast_to(np.asarray(orders, np.int64), steps.shape).copy())


# coefficients


@pytest.mark.parametrize("k", range(1, MOST_ROWS + 1))
def test_weights_eliminate_powers_of_the_step_size(k):
    """On 1 + sum_m c_m/n^m they leave 1; the estimate is what the lower order does not eliminate."""
    for m in range(k):
        values = [Fraction(1, j**m) for j in range(1, k + 1)]
        assert sum(w * v for w, v in zip(end_weights(k), values, strict=True)) == (m == 0)
        estimate = sum(w * v for w, v in zip(error_weights(k), values, strict=True))
        assert (estimate == 0) == (0 < m < k - 1 or (m == 0 and k > 1))


@pytest.mark.parametrize("k", range(1, MOST_ROWS + 1))
def test_continuous_output_is_exact_for_powers_of_time(k):
    """Increments of theta^m are sampled without error: the polynomial is theta^m, for m up to its degree less one."""
    table = dense_coefficients(k)
    for m in range(1, max(2, k)):
        increments = [Fraction(i + 1, j) ** m - Fraction(i, j) ** m for j in range(1, k + 1) for i in range(j)]
        for theta in (Fraction(0), Fraction(1, 3), Fraction(4, 5), Fraction(1)):
            value = sum(
                c * d * (theta - 1) ** power
                for power, row in enumerate(table)
                for c, d in zip(row, increments, strict=True)
            )
            assert value == theta**m
    assert all(sum((-1) ** power * row[a] for power, row in enumerate(table)) == 0 for a in range(n_increments(k)))


# closed forms


def test_derivative_of_one_small_step():
    """y1 = y0/(1 + p): with the matrix kept constant (the block-diagonal shortcut) it would be -0.25."""
    model, run = run_of("x' = -p*x\nx(0) = 1", (1.0,), (0.5,), [1.0])
    found = LIMEX.solve(model, run, rtol=1e-7, atol=1e-9, order=1, grid=grid_of_orders([1.0], 1))
    np.testing.assert_allclose(found.y, 0.25, rtol=1e-15)
    np.testing.assert_allclose(found.S[0, 0], [-0.125, 0.5], rtol=1e-15)


@pytest.mark.parametrize("k", range(1, MOST_ROWS + 1))
def test_a_step_of_a_decay_computed_by_hand(k):
    """Row j of x' = -p x is x0 (1 + H p/j)^-j; its derivative by p is -H x0 (1 + H p/j)^(-j - 1)."""
    p, x0, h = 0.7, 1.3, 0.9
    model, run = run_of("x' = -p*x\nx(0) = 1", (p,), (x0,), [h])
    found = LIMEX.solve(model, run, rtol=0.0, atol=1.0, order=1, grid=grid_of_orders([h], k))
    j = np.arange(1, k + 1)
    weights, errors = (np.array([float(w) for w in made(k)]) for made in (end_weights, error_weights))
    rows = (1 + h * p / j) ** -j
    np.testing.assert_allclose(found.y[0, 0], x0 * weights @ rows, rtol=1e-12)
    np.testing.assert_allclose(found.S[0, 0, 0], -h * x0 * weights @ (1 + h * p / j) ** (-j - 1), rtol=1e-11)
    np.testing.assert_allclose(found.S[0, 0, 1], weights @ rows, rtol=1e-12)
    assert found.error_ratio >= abs(x0 * errors @ (rows - 1.0)) * (1 - 1e-9)


def test_a_small_step_is_implicit_in_time():
    """x' = -1e8 (x - sin t): every row ends on the slow solution."""
    model, run = run_of("x' = -L*(x - sin(t))\nx(0) = 0", (1e8,), (0.0,), [0.5])
    found = LIMEX.solve(model, run, rtol=1e-7, atol=1e-9, grid=grid_of_orders([0.5], 4))
    np.testing.assert_allclose(found.y, np.sin(0.5), atol=1e-6)


# orders


@pytest.mark.parametrize("name", ["logistic", "oscillator", "forced", "bell"])
@pytest.mark.parametrize("k", range(1, 7))
def test_observed_orders(name, k):
    """Order k at the ends of steps and at least k - 1 between them, of states and sensitivities."""
    case = CASE[name]
    errors = []
    for n in (int(case.end * f) for f in ((60, 120) if k < 3 else (20, 40) if k < 5 or name == "bell" else (10, 20))):
        h = (case.end - case.t0) / n
        between = case.t0 + h * (np.arange(n)[:, None] + np.array([0.2, 0.5, 0.7])).ravel()
        ends = np.append(case.t0 + h * np.arange(1, n), case.end)
        times = np.sort(np.concatenate([between, ends]))
        found = solve(LIMEX, case, make_run(case, times=times), grid=grid_of_orders(np.full(n, h), k), order=1)
        y, s, _ = exact(case, times)
        off = np.abs(found.y - y[:, :, 0]).max(axis=1), np.abs(found.S - s).max(axis=(1, 2))
        at_end = np.isin(times, ends)
        errors.append([one[chosen].max() for chosen in (at_end, ~at_end) for one in off])
    orders = np.log2(np.array(errors[0]) / errors[1])
    assert (orders[:2] > k - 0.6).all()
    assert (orders[2:] > max(1, k - 1) - 0.6).all()
    assert (orders < k + 2.6).all()


# derivatives of what is computed


@pytest.mark.parametrize("rtol", [1e-2, 1e-4, 1e-6])
def test_sensitivities_are_derivatives_of_the_replayed_solution(rtol):
    text = "x' = -a*x*z + exp(-z)*t\nz' = b*x^2 - 30*z^3/(1 + x)\nx(0) = 1\nz(0) = 1"
    times = [0.1, 0.35, 0.8, 1.1, 2.0]
    theta = np.array([1.3, 0.7, 1.0, 0.8])

    def at(x):
        return run_of(text, x[:2], x[2:], times)

    model, run = at(theta)
    chosen = LIMEX.solve(model, run, rtol=rtol, atol=rtol, order=1)
    numeric = central_difference(
        lambda x: LIMEX.solve(model, at(x)[1], rtol=rtol, atol=rtol, grid=chosen.grid).y, theta, step=0.002
    )
    assert np.abs(chosen.S - numeric).max() <= 1e-9 * np.abs(chosen.S).max()


def test_there_is_no_second_order():
    model, run = run_of("x' = -p*x\nx(0) = 1", (1.0,), (0.5,), [1.0])
    with pytest.raises(OdefitError, match="the integrator 'limex' has no second-order sensitivities"):
        LIMEX.solve(model, run, rtol=1e-7, order=2)


@pytest.mark.parametrize(
    ("orders", "words"),
    [
        ([], "needs the order of each of its 2 steps"),
        ([2, 0], f"are 1 to {MOST_ROWS}"),
        ([2, MOST_ROWS + 1], f"are 1 to {MOST_ROWS}"),
    ],
)
def test_grids_that_do_not_fit_are_refused(orders, words):
    model, run = run_of("x' = -p*x\nx(0) = 1", (1.0,), (0.5,), [1.0])
    grid = grid_of_orders([0.5, 0.5], 1)._replace(orders=np.array(orders, np.int64))
    with pytest.raises(OdefitError, match=words):
        LIMEX.solve(model, run, rtol=1e-7, grid=grid)


# what control makes of it


def test_orders_follow_the_tolerance():
    case = CASE["oscillator"]
    means = [solve(LIMEX, case, make_run(case), rtol=r, atol=r).grid.orders.mean() for r in (1e-3, 1e-6, 1e-9)]
    assert means[0] + 0.5 < means[1] < means[2] - 0.3
    assert means[2] < MOST_ROWS


@pytest.mark.parametrize("rtol", [1e-4, 1e-6, 1e-8])
def test_output_between_the_ends_of_steps_is_as_accurate_as_at_them(rtol):
    """On Robertson's reactions, whose fast one is far shorter than the steps."""
    model, run = run_of(ROBERTSON, *OF_ROBERTSON, [900.0])
    grid = LIMEX.solve(model, run, rtol=rtol, atol=1e-4 * rtol).grid
    ends = np.append(np.cumsum(grid.steps)[:-1], 900.0)
    begins = np.concatenate([[0.0], ends[:-1]])
    times = np.sort(np.concatenate([ends, *(begins + x * (ends - begins) for x in (0.1, 0.3, 0.5, 0.7, 0.9))]))
    _, run = run_of(ROBERTSON, *OF_ROBERTSON, times)
    found = LIMEX.solve(model, run, rtol=rtol, atol=1e-4 * rtol, grid=grid)
    true = DDM.solve(model, run, rtol=1e-11, atol=1e-15)
    error = (np.abs(found.y - true.y) / np.abs(true.y).max(axis=0)).max(axis=1)
    at_end = np.isin(times, ends)
    assert error[at_end].max() <= 10.0 * rtol
    assert error[~at_end].max() <= 10.0 * rtol


# linear algebra


@pytest.fixture
def algebra(monkeypatch):
    """Let a test prescribe the linear algebra."""

    def prescribe(chosen):
        monkeypatch.setattr("odefit.integrate.single_method.linear_algebra", lambda model: chosen)

    return prescribe


@pytest.mark.parametrize("name", ["chain", "network"])
def test_dense_sparse_and_compiled_algebra_agree_to_rounding(name, algebra):
    model, run = make(MODELS[name])
    looped = sparse_algebra(model, np.ones(model.rhs.col.size), 2.0 * model.n_states)
    found = []
    for chosen in (dense_algebra(model), looped, compiled_algebra(model)):
        algebra(chosen)
        grid = found[0].grid._replace(algebra=None) if found else None
        found.append(LIMEX.solve(model, run, rtol=1e-6, atol=1e-8, order=1, grid=grid))
        assert found[-1].status is Status.OK
    for other in found[1:]:
        for field in ("y", "S"):
            expected = getattr(found[0], field)
            np.testing.assert_allclose(getattr(other, field), expected, rtol=2e-9, atol=2e-11 * np.abs(expected).max())


def test_growing_entries_are_answered(algebra):
    """An elimination that tells of growth at once is replaced, and the run succeeds."""
    model, run = make(MODELS["network"])
    looped = sparse_algebra(model, np.ones(model.rhs.col.size), 2.0 * model.n_states)
    algebra(looped._replace(limit=0.5))
    found = LIMEX.solve(model, run, rtol=1e-6, atol=1e-8, order=1)
    assert found.status is Status.OK
    assert found.grid.algebra is not None
    assert found.grid.algebra.limit != 0.5


# fits


def test_a_fit_by_limex():
    data = of.Measurements.from_columns([0.5, 1.0, 2.0, 4.0], {"x": [1.56, 1.22, 0.76, 0.33]})
    model = of.Model.from_text("x' = -k*x - c*x^2\nx(0) = 2")
    free = (of.Parameter("k", 0.3), of.Parameter("c", 0.1))
    one, other = (
        of.fit(of.Problem(model, free, data).with_settings(integrator=name, rtol=1e-9)) for name in ("limex", "dopri5")
    )
    assert one.status == other.status == "converged"
    assert one.integrators == {"main": "limex"}
    for name in ("k", "c"):
        assert one.estimates[name] == pytest.approx(other.estimates[name], rel=1e-5)
