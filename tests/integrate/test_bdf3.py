"""The formulas of bdf3 as diffpar's paper prints them, arc by arc, and what the method is for: stiff problems."""

from __future__ import annotations

import numpy as np
import pytest
from initial_value_problems import CASES, central_difference, exact, grid_of, make_run, run_of, solve
from scipy.integrate import solve_ivp

import odefit as of
from odefit.errors import OdefitError
from odefit.integrate import METHODS, Status
from odefit.integrate.arcs import change_step

BDF3, RK32 = METHODS["bdf3"], METHODS["rk32"]
CASE = {case.name: case for case in CASES}
DIFFERENCES = np.array([[-1, 3, -3, 1], [0, 1, -2, 1], [0, 0, -1, 1], [0, 0, 0, 1]], dtype=float)  # (55), transposed


def replay(text, p, y0, steps, times, *, t0=0.0, order=0):
    """Take these steps; with rtol = 0 and atol = 1 the error ratio is the estimate itself."""
    model, run = run_of(text, p, y0, times, t0=t0)
    return BDF3.solve(model, run, rtol=0.0, atol=1.0, order=order, grid=grid_of(BDF3, [steps]))


def at_steps(h, n, t0=0.0):
    return t0 + h * np.arange(1, n + 1)


# formulas


def test_arc_of_a_decay_computed_by_hand():
    """x' = -x, h = 1/10: an arc of R(-h) = 1 - h + h^2/2 - h^3/6, then y_n = (18 y_1 - 9 y_2 + 2 y_3)/(11 + 6 h)."""
    h = 0.1
    x = [1.0]
    for _ in range(3):
        x.append(x[-1] * (1 - h + h**2 / 2 - h**3 / 6))
    for _ in range(6):
        x.append((18 * x[-1] - 9 * x[-2] + 2 * x[-3]) / (11 + 6 * h))
    found = replay("x' = -x\nx(0) = 1", [], [1.0], [h] * 9, at_steps(h, 9), order=1)
    np.testing.assert_allclose(found.y[:, 0], x[1:], rtol=1e-14)
    np.testing.assert_allclose(found.S[:, 0, 0], x[1:], rtol=1e-14)
    fourth = [abs(np.diff(x, 4)[i - 4]) / 4 for i in (6, 9)]
    first = max(x[:3]) * h**3 / 6  # the estimate of rk32
    assert found.error_ratio == pytest.approx(max(*fourth, first), rel=1e-9)
    alone = replay("x' = -x\nx(0) = 1", [], [1.0], [h] * 3, at_steps(h, 3))
    assert alone.error_ratio == pytest.approx(first, rel=1e-12)


def test_newton_iterations_of_an_arc():
    """x' = -x^2: one iteration, one, two, from the cubic through the past, with the slope of the first arc point."""
    h = 0.2
    x = [1.0, *replay("x' = -x^2\nx(0) = 1", [], [1.0], [h] * 3, at_steps(h, 3)).y[:, 0]]
    for _ in range(2):
        matrix = 11 / 6 - h * (-2 * x[-1])
        for iterations in (1, 1, 2):
            new = 4 * x[-1] - 6 * x[-2] + 4 * x[-3] - x[-4]
            for _ in range(iterations):
                residual = (11 * new - 18 * x[-1] + 9 * x[-2] - 2 * x[-3]) / 6 + h * new**2
                correction = -residual / matrix
                new += correction
            x.append(new)
    found = replay("x' = -x^2\nx(0) = 1", [], [1.0], [h] * 9, at_steps(h, 9))
    np.testing.assert_allclose(found.y[:, 0], x[1:], rtol=1e-13)
    assert found.counters.rhs == 1 + 10 + 2 * 4
    assert found.counters.jacobian == 2


def test_sensitivities_of_an_arc():
    """S solves the linear equations of the formula at the computed states: x' = -k x^2."""
    h, k = 0.2, 1.3
    found = replay("x' = -k*x^2\nx(0) = 1", [k], [1.0], [h] * 6, at_steps(h, 6), order=1)
    x, s = found.y[:, 0], found.S[:, 0]
    for i in (3, 4, 5):
        slope = -2 * k * x[i] * s[i] + [-(x[i] ** 2), 0.0]
        np.testing.assert_allclose((11 * s[i] - 18 * s[i - 1] + 9 * s[i - 2] - 2 * s[i - 3]) / 6, h * slope, atol=1e-14)


@pytest.mark.parametrize("r", [1.0, 0.5, 0.25, 0.125, 0.37, 1.01, 2.0, 1.5])
@pytest.mark.parametrize("r_before", [1.0, 0.5, 0.25])
def test_step_changes_are_exact_for_cubics(r, r_before):
    """Differences for h r, h = 1, from those for h and those of the arc before, whose steps are h/r_before."""
    rng = np.random.default_rng(5)
    cubics = rng.normal(size=(4, 3))

    def differences(end, h):
        t = end - h * np.arange(3, -1, -1)
        return DIFFERENCES @ (t[:, None] ** np.arange(4)) @ cubics

    found = np.empty((4, 3))
    change_step(differences(0.3, 1.0), differences(-2.7, 1.0 / r_before), r, r_before, np.empty((4, 3)), found)
    np.testing.assert_allclose(found, differences(0.3, r), rtol=0, atol=1e-11)


def test_halving_is_that_of_the_paper():
    """(56), then (55)."""
    printed = np.array(
        [[1 / 16, 0, -1 / 16, 0], [3 / 8, 0, -1 / 8, 0], [-3 / 2, -1, -1 / 2, 0], [1, 1, 1, 1]]
    )  # fmt: skip
    found = np.empty((4, 4))
    change_step(np.eye(4), np.zeros((4, 4)), 0.5, 0.0, np.empty((4, 4)), found)
    np.testing.assert_allclose(found, DIFFERENCES @ printed.T, rtol=0, atol=1e-16)


def test_doubling_takes_grid_points_of_the_arc_before():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(7, 2))
    found = np.empty((4, 2))
    change_step(DIFFERENCES @ x[3:], DIFFERENCES @ x[:4], 2.0, 1.0, np.empty((4, 2)), found)
    np.testing.assert_allclose(found, DIFFERENCES @ x[::2], rtol=0, atol=1e-14)


def test_cubics_are_solved_exactly_through_all_step_changes():
    a, b, c, x0 = 0.7, -1.1, 0.4, 2.0
    arcs = np.array([0.1, 0.1, 0.2, 0.2, 0.4, 0.05, 0.05, 0.1, 0.0125, 0.3, 0.011])
    end = 3 * arcs.sum()
    t = np.append(np.linspace(0.0, end, 57)[1:-1], end)
    found = replay("x' = 3*a*t^2 + 2*b*t + c\nx(0) = 1", [a, b, c], [x0], np.repeat(arcs, 3), t, order=1)
    np.testing.assert_allclose(found.y[:, 0], a * t**3 + b * t**2 + c * t + x0, rtol=1e-12)
    np.testing.assert_allclose(found.S[:, 0], np.stack([t**3, t**2, t, np.ones(t.size)], axis=1), rtol=1e-11)


@pytest.mark.parametrize("name", CASE)
def test_estimate_goes_with_the_fourth_power_of_the_step(name):
    """Of the second arc, that begins where the first one of rk32, whose estimate is larger, ends."""
    case = CASE[name]
    fourths = []
    for h in (0.02, 0.01):
        t = case.t0 + h * np.arange(7)
        run = make_run(case, times=t[1:])
        found = solve(BDF3, case, run, rtol=0.0, atol=1.0, grid=grid_of(BDF3, [[h] * 6]))
        fourths.append(np.abs(np.diff(np.vstack([case.y0, found.y]), 4, axis=0)[-1]).max() / 4)
    assert np.log2(fourths[0] / fourths[1]) == pytest.approx(4.0, abs=0.25)


# choice of steps


@pytest.mark.parametrize("name", CASE)
@pytest.mark.parametrize("rtol", [1e-3, 1e-7])
def test_arcs_have_three_equal_steps_that_double_or_halve(name, rtol):
    case = CASE[name]
    found = solve(BDF3, case, make_run(case), rtol=rtol, atol=rtol)
    arcs = found.grid.steps.reshape(-1, 3)
    np.testing.assert_array_equal(arcs, arcs[:, :1].repeat(3, axis=1))
    ratios = arcs[1:, 0] / arcs[:-1, 0]
    assert set(ratios[:-1]) <= {2.0, 1.0, 0.5, 0.25, 0.125}  # the last arc ends the piece
    doubled = ratios == 2.0
    assert doubled.any()
    assert not (doubled[1:] & doubled[:-1]).any()


def test_step_rule():
    """The longest of 2h, h, h/2, .. below 0.9 h (tolerance/error)^(1/4), where the error can be seen in the output."""
    case, tol = CASE["decay"], 1e-6
    chosen = solve(BDF3, case, make_run(case), rtol=0.0, atol=tol)
    assert chosen.counters.rejected == 0
    steps = chosen.grid.steps
    points = np.append(case.t0 + np.cumsum(steps)[:-1], case.end)
    x = np.append(case.y0, solve(BDF3, case, make_run(case, times=points), grid=chosen.grid).y[:, 0])
    seen = 0
    for arc in range(2, steps.size // 3 - 2):
        end = 3 * arc + 3
        if steps[end - 4] != steps[end - 1]:
            continue
        ratio = abs(np.diff(x[end - 4 : end + 1], 4)[0]) / 4 / tol
        wanted = 0.9 * ratio**-0.25
        assert steps[end] / steps[end - 1] == max(f for f in (2.0, 1.0, 0.5, 0.25, 0.125) if f <= wanted)
        seen += 1
    assert seen > 10


def test_steps_double_at_every_second_arc_until_the_end():
    """A parabola has no error but rounding."""
    model, run = run_of("x' = a*t\nx(0) = 1", [1.0], [1.0], [1.0, 1e6])
    found = BDF3.solve(model, run, rtol=1e-3, atol=1e-3)
    assert found.status is Status.OK
    arcs = found.grid.steps[::3]
    np.testing.assert_array_equal(arcs[1:-1] / arcs[:-2], [1.0 + i % 2 for i in range(arcs.size - 2)])
    np.testing.assert_allclose(found.y[:, 0], [1.5, 1 + 5e11], rtol=1e-12)


def test_steps_shrink_where_the_solution_turns_sharply():
    """A bump of width 0.01 behind a long calm: arcs are rejected, steps are divided, and grow again."""
    model, run = run_of("x' = -k*(t - 5)*1e4*x\nx(0) = 1", [1.0], [np.exp(-12.5e0)], [5.0], t0=4.95)
    found = BDF3.solve(model, run, rtol=1e-6, atol=1e-12)
    assert found.status is Status.OK
    assert found.y[0, 0] == pytest.approx(np.exp(-12.5 + 0.5e4 * 0.05**2), rel=1e-3)
    jump, run = run_of("clock' = 1\nx' = if(clock < 5, 0, 1)\nclock(0) = 0\nx(0) = 1", [], [0.0, 0.0], [10.0])
    found = BDF3.solve(jump, run, rtol=1e-6, atol=1e-6)
    assert found.counters.rejected > 0
    assert (np.diff(found.grid.steps) < 0).any()
    assert found.y[0, 1] == pytest.approx(5.0, abs=1e-4)


@pytest.mark.parametrize("pieces", [[[0.1, 0.1]], [[0.1, 0.1, 0.2]], [[0.1] * 4], [[0.1, 0.1, 0.1, 0.2, 0.2, 0.1]]])
def test_grid_without_arcs_is_refused(pieces):
    case = CASE["decay"]
    with pytest.raises(OdefitError, match="a step grid of 'bdf3' needs three equal steps in each arc"):
        solve(BDF3, case, make_run(case), grid=grid_of(BDF3, pieces))


def test_grid_of_pieces_that_are_no_arcs_is_refused():
    """Six equal steps, but four and two of them: no arc may cross a stop."""
    case = CASE["decay"]
    with pytest.raises(OdefitError, match="needs three equal steps in each arc"):
        solve(BDF3, case, make_run(case, stops=[2.0]), grid=grid_of(BDF3, [[0.5] * 4, [0.5] * 2]))


# derivatives


def test_second_order_is_refused():
    case = CASE["decay"]
    with pytest.raises(
        OdefitError, match="'bdf3' has no second-order sensitivities, order = 2 was asked for; take 'dopri5'"
    ):
        solve(BDF3, case, make_run(case), order=2)


def deviation(case, rtol):
    """Return the difference of S to the derivative of the solution on the same steps, over the largest S."""
    grid = solve(BDF3, case, make_run(case), rtol=rtol, atol=rtol).grid
    found = solve(BDF3, case, make_run(case), order=1, grid=grid)
    numeric = central_difference(lambda theta: solve(BDF3, case, make_run(case, theta), grid=grid).y, case.theta)
    assert found.derivatives == "variational"
    return np.abs(found.S - numeric).max() / np.abs(found.S).max()


@pytest.mark.parametrize("name", ["decay", "bateman", "oscillator", "forced"])
def test_derivatives_are_discrete_where_one_newton_iteration_is_exact(name):
    assert deviation(CASE[name], 1e-2) < 1e-10


@pytest.mark.parametrize("name", ["logistic", "bell"])
def test_derivatives_are_variational_elsewhere(name):
    """They miss the derivative of the computed solution by about the tolerance: no method for exact derivatives."""
    rtols = 10.0 ** np.array([-2, -4, -6])
    found = [deviation(CASE[name], rtol) for rtol in rtols]
    assert (found > 1e-2 * rtols).all()
    assert (found < 3 * rtols).all()


# stiff problems


@pytest.mark.parametrize("rtol", [1e-4, 1e-7])
def test_stiff_linear_problem(rtol):
    """x' = -k (x - cos t) - sin t with k = 1e6: x = cos t + (x0 - 1) exp(-k t)."""
    t = np.array([1e-7, 1e-6, 1e-5, 0.1, 1.0, 10.0])
    model, run = run_of("x' = -k*(x - cos(t)) - sin(t)\nx(0) = 1", [1e6], [3.0], t)
    found = BDF3.solve(model, run, rtol=rtol, atol=rtol, order=1)
    assert found.status is Status.OK
    assert found.counters.steps < 30 * rtol**-0.25 + 250
    fast = np.exp(-1e6 * t)
    np.testing.assert_allclose(found.y[:, 0], np.cos(t) + 2 * fast, rtol=0, atol=30 * rtol)
    np.testing.assert_allclose(found.S[:, 0, 1], fast, rtol=0, atol=30 * rtol)
    # derivatives take no part in the choice of steps
    np.testing.assert_allclose(1e6 * found.S[:, 0, 0], -2e6 * t * fast, rtol=0, atol=75 * rtol)
    explicit = RK32.solve(model, run, rtol=rtol, atol=rtol, max_steps=20_000)
    assert explicit.status is Status.TOO_MANY_STEPS


ROBERTSON = "a' = -k1*a + k2*b*c\nb' = k1*a - k2*b*c - k3*b^2\nc' = k3*b^2\na(0) = 1\nb(0) = 0\nc(0) = 0"
RATES = (0.04, 1e4, 3e7)


def robertson_reference(times):
    """States and derivatives by the logarithms of the rates, from the variational equations with SciPy's Radau."""
    k1, k2, k3 = RATES

    def slopes(_, z):
        a, b, c = z[:3]
        v1, v2, v3 = k1 * a, k2 * b * c, k3 * b * b
        f_y = np.array([[-k1, k2 * c, k2 * b], [k1, -k2 * c - 2 * k3 * b, -k2 * b], [0.0, 2 * k3 * b, 0.0]])
        f_p = np.array([[-v1, v2, 0.0], [v1, -v2, -v3], [0.0, 0.0, v3]])
        return np.concatenate([[v2 - v1, v1 - v2 - v3, v3], (f_y @ z[3:].reshape(3, 3) + f_p).ravel()])

    start = np.concatenate([[1.0, 0.0, 0.0], np.zeros(9)])
    found = solve_ivp(slopes, (0.0, times[-1]), start, "Radau", times, rtol=1e-11, atol=1e-16)
    return found.y[:3].T, found.y[3:].T.reshape(-1, 3, 3)


def test_robertson():
    times = np.array([0.01, 1.0, 100.0, 1000.0])
    y, s = robertson_reference(times)
    model, run = run_of(ROBERTSON, RATES, [1.0, 0.0, 0.0], times)
    found = BDF3.solve(model, run, rtol=1e-6, atol=1e-12, order=1)
    assert found.status is Status.OK
    np.testing.assert_allclose(found.y, y, rtol=3e-5)
    np.testing.assert_allclose(found.S[:, :, :3] * RATES, s, rtol=1e-3, atol=1e-9)
    np.testing.assert_allclose(found.y.sum(axis=1), 1.0, rtol=1e-12)  # linear invariants are kept
    assert found.counters.steps < 2000
    dopri5 = METHODS["dopri5"].solve(model, run, rtol=1e-6, atol=1e-12, max_steps=20 * found.counters.steps)
    assert dopri5.status is Status.TOO_MANY_STEPS


def test_van_der_pol():
    """Two jumps of a relaxation oscillation with mu = 1000, in units where the period is about 1.6."""
    text = "x' = v\nv' = ((1 - x^2)*v - x)*mu\nx(0) = 2\nv(0) = 0"
    times = np.array([0.5, 0.9, 1.5, 2.0])
    model, run = run_of(text, [1e3], [2.0, -2 / 3], times)
    found = BDF3.solve(model, run, rtol=1e-7, atol=1e-7)

    def slopes(_, z):
        return [z[1], ((1 - z[0] ** 2) * z[1] - z[0]) * 1e3]

    reference = solve_ivp(slopes, (0.0, 2.0), [2.0, -2 / 3], "Radau", times, rtol=1e-9, atol=1e-9).y
    assert found.status is Status.OK
    np.testing.assert_allclose(found.y, reference.T, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("rtol", [1e-3, 1e-6])
def test_dense_output_in_stiff_arcs(rtol):
    """Output between the points of long arcs is as good as at them."""
    t = np.linspace(0.5, 10.0, 400)
    model, run = run_of("x' = -k*(x - cos(t)) - sin(t)\nx(0) = 1", [1e4], [1.0], t)
    found = BDF3.solve(model, run, rtol=rtol, atol=rtol)
    assert found.counters.steps < t.size
    np.testing.assert_allclose(found.y[:, 0], np.cos(t), rtol=0, atol=10 * rtol)


# fits

FILE = """\
[model]
equations = '''
A' = -kf*A + kb*B
B' = kf*A - kb*B - k*B
C' = k*B
A(0) = 1
B(0) = 0
C(0) = 0
'''
[parameters]
kf = 500
kb = 800
k = 1
[data]
file = "data.csv"
[integrator]
method = "bdf3"
rtol = 1e-6
atol = 1e-9
"""


def test_fit_of_a_stiff_problem_from_a_file(tmp_path):
    """A fast equilibrium before a slow reaction, seen during both: eigenvalues -3000 and -0.7."""
    kf, kb, k = 1000.0, 2000.0, 2.0
    matrix = np.array([[-kf, kb, 0.0], [kf, -kb - k, 0.0], [0.0, k, 0.0]])
    rates, vectors = np.linalg.eig(matrix)
    weights = np.linalg.solve(vectors, [1.0, 0.0, 0.0])
    times = np.concatenate([np.linspace(1e-4, 1e-3, 10), np.linspace(0.2, 4.0, 20)])
    y = (vectors * weights) @ np.exp(np.outer(rates, times))
    rows = [f"{t!r},{a!r},{c!r}" for t, a, c in zip(times.tolist(), y[0].tolist(), y[2].tolist(), strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(["t,A,C", *rows]))
    (tmp_path / "stiff.toml").write_text(FILE)
    problem = of.load(tmp_path / "stiff.toml")
    assert problem.settings.integrator == "bdf3"
    found = of.fit(problem)
    assert found.converged
    for name, value in (("kf", kf), ("kb", kb), ("k", k)):
        assert found.estimates[name] == pytest.approx(value, rel=1e-4)


def test_closed_forms_through_the_stiff_phase():
    """Bateman's chain with rates 1e5 and 1, and its derivatives."""
    from dataclasses import replace

    case = replace(CASE["bateman"], p=(1e5, 1.0), y0=(1.0, 0.0))
    found = solve(BDF3, case, make_run(case), order=1, rtol=1e-7, atol=1e-9)
    y, s, _ = exact(case, case.times)
    np.testing.assert_allclose(found.y, y[:, :, 0], rtol=0, atol=3e-6)
    np.testing.assert_allclose(found.S, s, rtol=0, atol=1e-5)
