"""The formulas of dop853, one step at a time, and what its output costs."""

from __future__ import annotations

import numpy as np
import pytest
from initial_value_problems import CASES, compiled_model, counts_of, grid_of, make_run, run_of, solve
from scipy.integrate import DOP853

from odefit.compile import Seeds
from odefit.integrate import METHODS, Run, Status
from odefit.integrate.dop853 import TABLEAU

METHOD = METHODS["dop853"]
A, C, E5, E3 = TABLEAU.A, TABLEAU.c, TABLEAU.error, TABLEAU.error_low
CASE = {case.name: case for case in CASES}
PENDULUM = "x' = v\nv' = -g*sin(x) + t\nx(0) = 1\nv(0) = 0"


def pendulum(t, y):
    return np.array([y[1], -2.0 * np.sin(y[0]) + t])


def one_step(h, times, *, rtol=0.0, atol=1.0):
    """Take one step of the pendulum; with rtol = 0 and atol = 1 the error ratio is the estimate itself."""
    model, run = run_of(PENDULUM, [2.0], [1.0, 0.5], times)
    return METHOD.solve(model, run, rtol=rtol, atol=atol, grid=grid_of(METHOD, [[h]]))


def stages(h) -> np.ndarray:
    y, k = np.array([1.0, 0.5]), np.zeros((16, 2))
    for s in range(16):
        k[s] = pendulum(C[s] * h, y + h * A[s] @ k)
    return k


def test_step_and_dense_output_are_those_of_scipy():
    h = 0.7
    theirs = DOP853(pendulum, 0.0, [1.0, 0.5], 10.0, first_step=h, rtol=1.0, atol=1.0)
    theirs.step()
    assert theirs.t == h
    times = h * np.array([0.05, 0.3, 0.5, 0.77, 0.99, 1.0])
    found = one_step(h, times)
    np.testing.assert_allclose(found.y[-1], theirs.y, rtol=1e-14)
    np.testing.assert_allclose(found.y, theirs.dense_output()(times).T, rtol=1e-12)


@pytest.mark.parametrize("h", [0.4, 0.9, 1.5])
def test_estimate_of_each_state(h):
    """e5^2/sqrt(e5^2 + 0.01 e3^2), state by state, and the largest one counts."""
    e5, e3 = h * E5 @ stages(h), h * E3 @ stages(h)
    expected = e5**2 / np.sqrt(e5**2 + 0.01 * e3**2)
    found = one_step(h, [h])
    assert found.error_ratio == pytest.approx(expected.max(), rel=1e-8)
    assert found.cause == expected.argmax()


@pytest.mark.parametrize("name", CASE)
def test_estimate_goes_with_the_eighth_power_of_the_step(name):
    case = CASE[name]
    ratios = [
        solve(
            METHOD, case, make_run(case, times=[case.t0 + h]), rtol=0.0, atol=1.0, grid=grid_of(METHOD, [[h]])
        ).error_ratio
        for h in (0.32, 0.04)
    ]
    assert np.log2(ratios[0] / ratios[1]) / 3 == pytest.approx(8.0, abs=0.7)


def test_estimates_that_overflow_when_squared():
    """A step of x' = k x with x = 1e200: the same estimate as with x = 1, times 1e200."""
    ratios = []
    for x in (1.0, 1e200):
        model, run = run_of("x' = k*x\nx(0) = 1", [1.0], [x], [1.0])
        ratios.append(METHOD.solve(model, run, rtol=0.0, atol=x, grid=grid_of(METHOD, [[1.0]])).error_ratio)
    assert ratios[1] == pytest.approx(ratios[0], rel=1e-6)


@pytest.mark.parametrize("z", [-0.1, -0.7, 0.9, -2.5])
def test_derivatives_of_one_step_are_those_of_its_polynomial(z):
    """For x' = -k x a step multiplies by R(z) = sum_j (b A^(j-1) 1) z^j, z = -k h."""
    h, x0 = 0.5, 3.0
    powers = [np.ones(16)]
    for _ in range(12):
        powers.append(A @ powers[-1])
    R = np.polynomial.Polynomial([p[12] for p in powers])  # row 12 of A holds the weights of the solution
    np.testing.assert_allclose(R.coef[:9], 1 / np.cumprod([1.0, *range(1, 9)]), rtol=1e-11)
    model, run = run_of("x' = -k*x\nx(0) = 1", [-z / h], [x0], [h])
    found = METHOD.solve(model, run, rtol=0.0, atol=1.0, order=2, grid=grid_of(METHOD, [[h]]))
    first, second = R.deriv()(z), R.deriv(2)(z)
    np.testing.assert_allclose(found.y[0, 0], x0 * R(z), rtol=1e-13)
    np.testing.assert_allclose(found.S[0, 0], [-h * x0 * first, R(z)], rtol=1e-13)
    np.testing.assert_allclose(found.S2[0, 0], [h**2 * x0 * second, -h * first, 0.0], rtol=1e-13, atol=1e-14)


def test_polynomials_of_degree_seven_are_exact_between_grid_points():
    h, x0 = 1.5, 2.0
    t = h * np.array([0.1, 0.3, 0.5, 0.9, 1.0])
    model, run = run_of("x' = 7*a*t^6 + 3*b*t^2\nx(0) = 1", [0.7, -1.1], [x0], t)
    found = METHOD.solve(model, run, rtol=0.0, atol=1.0, order=1, grid=grid_of(METHOD, [[h]]))
    np.testing.assert_allclose(found.y[:, 0], 0.7 * t**7 - 1.1 * t**3 + x0, rtol=1e-13)
    np.testing.assert_allclose(found.S[:, 0], np.stack([t**7, t**3, np.ones(5)], axis=1), rtol=1e-12, atol=1e-14)


# --- what output costs ---


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize(
    ("times", "extended"), [([4.0], 0), ([1.0, 2.0, 4.0], 0), ([0.5, 4.0], 1), ([0.1, 0.2, 0.9, 1.5, 2.0, 4.0], 2)]
)
def test_extension_is_computed_only_in_steps_with_output_inside(times, extended, order):
    """Four steps of length one: twelve evaluations each, three more with output between their ends."""
    model, run = run_of(PENDULUM, [2.0], [1.0, 0.5], times)
    counters = METHOD.solve(model, run, rtol=1e-6, atol=1e-6, order=order, grid=grid_of(METHOD, [[1.0] * 4])).counters
    expected = 1 + 4 * 12 + 3 * extended
    assert counters.rhs == expected
    assert counters.jacobian == (expected if order else 0)
    assert counters.second == (6 * expected if order == 2 else 0)


def test_extension_is_not_computed_in_rejected_steps():
    """The same steps, with output everywhere and with none: the difference is three evaluations a step taken."""
    text = "clock' = 1\nx' = -(2 + 3*erf(1e8*(clock - 1.3)))*x\nclock(0) = 0\nx(0) = 1"
    model, sparse = run_of(text, [], [0.0, 1.0], [4.0])
    _, dense = run_of(text, [], [0.0, 1.0], np.linspace(0.0, 4.0, 5000))
    few, many = (METHOD.solve(model, run, rtol=1e-8, atol=1e-8) for run in (sparse, dense))
    assert many.counters.rejected == few.counters.rejected > 0
    np.testing.assert_array_equal(few.grid.steps, many.grid.steps)
    with_output = len(set(np.searchsorted(np.cumsum(many.grid.steps), dense.times[1:-1])))
    assert many.counters.rhs - few.counters.rhs == 3 * with_output


def test_output_at_grid_points_is_the_solution_itself():
    case = CASE["oscillator"]
    grid = grid_of(METHOD, [np.full(4, (case.end - case.t0) / 4)])
    places = case.t0 + np.cumsum(grid.steps)
    alone = [solve(METHOD, case, make_run(case, times=places[[i, -1]]), grid=grid, order=2) for i in range(3)]
    every = np.sort(np.concatenate([places, np.linspace(case.t0, case.end, 23)[1:-1]]))
    dense = solve(METHOD, case, make_run(case, times=every), grid=grid, order=2)
    for i, found in enumerate(alone):
        row = np.searchsorted(every, places[i])
        for name in ("y", "S", "S2"):
            np.testing.assert_array_equal(getattr(found, name)[0], getattr(dense, name)[row])


# --- stages that are not finite ---


def test_slope_at_the_new_point_must_be_finite():
    """x = exp(t) over one step: the new value alone lies behind the edge of sqrt."""
    h = 1.0
    _, run = run_of("x' = x\nx(0) = 1", [], [1.0], [h])
    k = np.zeros(13)
    for s in range(13):
        k[s] = 1.0 + h * A[s, :13] @ k
    before, new = k[:12].max(), k[12]
    edge = np.nextafter(max(before, new), 0.0)
    model, run = run_of("x' = x\ny' = sqrt(c - x)\nx(0) = 1\ny(0) = 0", [edge], [1.0, 0.0], [h])
    found = METHOD.solve(model, run, rtol=1e-3, atol=1e-3, grid=grid_of(METHOD, [[h]]))
    assert found.status is Status.NONFINITE
    assert (found.t_end, model.states[found.cause]) == (0.0, "y")


# x is the time, as a state; a condition would end a step there
EDGE = "x' = 1\ny' = 1 + 1e-30*sqrt((x - 0.7777777777777778)^2 - 1e-18)\nx(0) = 0\ny(0) = 0"


def test_stages_of_the_extension_must_be_finite_where_it_is_used():
    """A hole at 7/9 of the step, where only a stage of the extension stands."""
    model, run = run_of(EDGE, [], [0.0, 0.0], [1.0])
    grid = grid_of(METHOD, [[1.0]])
    assert METHOD.solve(model, run, rtol=1e-3, atol=1e-3, grid=grid).status is Status.OK
    inside = run._replace(times=np.array([0.5, 1.0]))
    found = METHOD.solve(model, inside, rtol=1e-3, atol=1e-3, grid=grid)
    assert found.status is Status.NONFINITE
    assert (found.t_end, model.states[found.cause]) == (0.0, "y")
    assert np.isnan(found.y).all()


@pytest.mark.parametrize("order", [1, 2])
def test_derivatives_at_stages_of_the_extension_must_be_finite_where_it_is_used(order):
    """The solution is y = t; its derivative by x(0) = 0 is infinite at 7/9 of the step."""
    hole = "if(exp(-(1e10*(clock - 0.7777777777777778))^2) == 0, 0, sqrt(x))"  # equality ends no step
    text = f"clock' = 1\nx' = 0\ny' = 1 + {hole}\nclock(0) = 0\nx(0) = 0\ny(0) = 0"
    model, run = run_of(text, [], [0.0, 0.0, 0.0], [1.0])
    grid = grid_of(METHOD, [[1.0]])
    assert METHOD.solve(model, run, rtol=1e-3, atol=1e-3, grid=grid, order=order).status is Status.OK
    inside = run._replace(times=np.array([0.5, 1.0]))
    assert METHOD.solve(model, inside, rtol=1e-3, atol=1e-3, grid=grid).status is Status.OK
    found = METHOD.solve(model, inside, rtol=1e-3, atol=1e-3, grid=grid, order=order)
    assert found.status is Status.NONFINITE_DERIVATIVE
    assert model.states[found.cause] == "y"
    assert np.isnan(found.S).all()


def test_step_is_shortened_where_a_stage_of_the_extension_is_not_finite():
    """Chosen steps: another one, whose stages miss the hole, carries the solution over it."""
    model, run = run_of(EDGE, [], [0.0, 0.0], [0.5, 1.0])
    found = METHOD.solve(model, run, rtol=1e-3, atol=1e-3)
    assert found.status is Status.OK
    np.testing.assert_allclose(found.y, [[0.5, 0.5], [1.0, 1.0]], rtol=1e-12)


# --- step control ---


def test_step_rule():
    """h_new = 0.9 h (tolerance/error)^(1/8), at most six times as long."""
    case, rtol, atol = CASE["bateman"], 1e-9, 1e-9
    chosen = solve(METHOD, case, make_run(case), rtol=rtol, atol=atol)
    assert chosen.counters.rejected == 0
    steps = chosen.grid.steps
    assert steps.size > 5
    t, x = case.t0, np.array(case.y0)
    for h, h_next in zip(steps[:-2], steps[1:-1], strict=True):  # the last one ends the piece
        run = make_run(case, times=[t + h])._replace(t0=t, y0=x)
        step = solve(METHOD, case, run, rtol=rtol, atol=atol, grid=grid_of(METHOD, [[h]]))
        assert h_next / h == pytest.approx(min(6.0, 0.9 * step.error_ratio ** (-1 / 8)), rel=1e-6)
        t, x = t + h, step.y[0]


ARENSTORF = """
u = 1 - m
r1 = ((x + m)^2 + y^2)^1.5
r2 = ((x - u)^2 + y^2)^1.5
x' = v
y' = w
v' = x + 2*w - u*(x + m)/r1 - m*(x - u)/r2
w' = y - 2*v - u*y/r1 - m*y/r2
x(0) = 1
y(0) = 0
v(0) = 0
w(0) = 0
"""


def test_arenstorf_orbit_closes():
    """Hairer, Norsett and Wanner I, II.0: the initial values are those of a periodic orbit."""
    model = compiled_model(ARENSTORF)
    y0, period = np.array([0.994, 0.0, 0.0, -2.00158510637908252240537862224]), 17.0652165601579625588917206249
    seeds = Seeds(np.array([0.012277471]), y0, *model.no_pairs, *model.no_pairs)
    run = Run.of(seeds, 0.0, np.array([period]))
    runs = {name: METHODS[name].solve(model, run, rtol=1e-11, atol=1e-11) for name in ("dop853", "dopri5")}
    for found in runs.values():
        assert found.status is Status.OK
        np.testing.assert_allclose(found.y[0], y0, atol=1e-5)
    assert 3 * runs["dop853"].counters.steps < runs["dopri5"].counters.steps
    assert sum(counts_of(runs["dop853"].grid)) == runs["dop853"].counters.steps
