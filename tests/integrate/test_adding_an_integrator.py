"""The smallest real examples of integrators of one's own: docs/extending.md shows them."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from initial_value_problems import CASES, central_difference, exact, grid_of, make_run, run_of, solve

import odefit as of
from odefit.errors import OdefitError
from odefit.gallery import load
from odefit.integrate import CHOICES, METHODS, Status
from odefit.integrate.contract import Array
from odefit.integrate.directions import n_blocks, put_seeds, put_states
from odefit.integrate.elimination import dense_algebra
from odefit.integrate.explicit import ExplicitRungeKutta, explicit_kernel
from odefit.integrate.schemes import scheme_of
from odefit.integrate.single_method import SingleMethod
from odefit.integrate.stepping import JACOBIAN, RHS, continued_step, first_nonfinite, initial_step
from odefit.integrate.tableau import Tableau, hermite
from odefit.integrate.time_loop import NOT_FINITE, SOLVED, UNSOLVED, Method, time_loop
from odefit.native.calls import call_model
from odefit.native.kernel import kernel
from odefit.native.linear_systems import FACTORISED, add_product, factorise_matrix, solve_blocks, solve_for_vector
from odefit.native.pool import SLACK, cut
from odefit.native.records import Integers

OK, NONFINITE_START, NONFINITE_DERIVATIVE = (
    int(one) for one in (Status.OK, Status.NONFINITE_START, Status.NONFINITE_DERIVATIVE)
)
VERSION = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
by_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)

HEUN = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])

HEUN21 = Tableau(
    name="heun21",
    c=np.array([0.0, 1.0, 1.0]),
    A=HEUN,
    n_stages=3,
    error=np.array([0.5, -0.5, 0.0]),
    dense=hermite(HEUN[2], 2),
    order=2,
    dense_order=2,
    error_order=2,
)


class Heun(ExplicitRungeKutta):
    """Heun's method of order 2, Euler's within it for the error."""

    name = HEUN21.name
    kernel = staticmethod(explicit_kernel(f"heun21_{VERSION}", scheme_of(HEUN21)))


class Room(NamedTuple):
    """What the midpoint rule works with.

    `states` holds the state in the middle of a step and at its end, `k` the slopes at its beginning, in the middle and
    at its end; `s` are the directions at its beginning, `z` what they change by until its middle.
    """

    y: Array
    states: Array
    k: Array
    delta: Array
    jac: Array
    a: Array
    work: Array
    pivots: Integers
    s: Array
    z: Array
    seeds: Array
    y_out: Array
    s_out: Array
    s2_out: Array
    pool: Array


@kernel(inline=True, allocating=True)
def make_room(task, e, order):
    n, n_p, q = task.n, task.n_parameters, task.n_directions if order >= 1 else 0
    blocks = n_blocks(q)
    pool = np.empty(9 * n + e.col.size + e.n_values + e.n_work + blocks * 4 * (3 * n + n_p) + 13 * SLACK)
    at, y = cut(pool, 0, (1, n))
    at, states = cut(pool, at, (3, n))
    at, k = cut(pool, at, (3, n))
    at, delta = cut(pool, at, (n,))
    at, jac = cut(pool, at, (e.col.size,))
    at, a = cut(pool, at, (e.n_values,))
    at, work = cut(pool, at, (e.n_work,))
    at, s = cut(pool, at, (1, blocks * n * 4))
    at, z = cut(pool, at, (1, blocks * n * 4))
    at, seeds = cut(pool, at, (blocks, n_p, 4))
    at, y_out = cut(pool, at, (1, n))
    at, s_out = cut(pool, at, (1, blocks * n * 4))
    at, s2_out = cut(pool, at, (1, 0))
    for i in range(n):
        y[0, i] = y_out[0, i] = task.y0[i]
    put_states(task.dy0, task.n_columns, q, n, s)
    put_states(task.dy0, task.n_columns, q, n, s_out)
    put_seeds(task.dp, task.n_columns, q, n_p, seeds)
    pivots = np.empty(e.n_pivots, np.int64)
    return Room(y, states, k, delta, jac, a, work, pivots, s, z, seeds, y_out, s_out, s2_out, pool)


@kernel(inline=True)
def begin(task, e, room, t, t_end, h, replay):
    call_model(task.value, t, room.y, 0, task.p, task.u, room.k, 0)
    task.counts[RHS] += 1
    cause = max(first_nonfinite(room.k, 0, task.n), first_nonfinite(room.y, 0, task.n))
    if cause >= 0:
        return NONFINITE_START, cause, 0.0
    guess = initial_step(task, t, t_end, room.y, room.k, 0.5, room.states)
    return OK, -1, continued_step(guess, h)


@kernel(inline=True)
def factorise(task, e, room, t, h):
    """Factorise 2/h - f_y in the middle of a step; tell whether that was possible."""
    call_model(task.jacobian, t + 0.5 * h, room.states, 0, task.p, task.u, room.jac, 0)
    task.counts[JACOBIAN] += 1
    return factorise_matrix(e, room.jac, 2.0 / h, task.n, room.a, room.pivots, room.work, e.limit) == FACTORISED


@kernel(inline=True)
def solve_middle(task, e, room, t, h):
    """Solve 2/h (m - y) = f(t + h/2, m) by Newton's method, to rounding; tell whether it converged."""
    n, m, converged = task.n, room.states, False
    for i in range(n):
        m[0, i] = room.y[0, i] + 0.5 * h * room.k[0, i]
    for _ in range(12):
        call_model(task.value, t + 0.5 * h, m, 0, task.p, task.u, room.k, n)
        task.counts[RHS] += 1
        if not factorise(task, e, room, t, h):
            return False
        for i in range(n):
            room.delta[i] = room.k[1, i] - 2.0 / h * (m[0, i] - room.y[0, i])
        solve_for_vector(e, n, room.a, room.pivots, room.work, room.delta)
        squares = 0.0
        for i in range(n):
            m[0, i] += room.delta[i]
            squares += (room.delta[i] / (task.atol[i] + task.rtol * abs(m[0, i]))) ** 2
        if converged:  # one iteration more than needed: the error is squared, and only rounding is left
            return math.isfinite(squares)
        converged = squares <= 1e-6
    return False


@kernel(inline=True)
def attempt(task, e, room, t, h, t_new, t_out, step):
    n, y, states = task.n, room.y, room.states
    if not solve_middle(task, e, room, t, h):
        return UNSOLVED, np.inf, 0
    for i in range(n):
        states[1, i] = y[0, i] + 2.0 * (states[0, i] - y[0, i])
    call_model(task.value, t_new, states, n, task.p, task.u, room.k, 2 * n)
    task.counts[RHS] += 1
    for i in range(n):
        room.delta[i] = 2.0 * room.k[2, i] - 2.0 / h * (states[1, i] - y[0, i])
    solve_for_vector(e, n, room.a, room.pivots, room.work, room.delta)
    ratio, worst = 0.0, 0
    for i in range(n):  # the distance from Euler's implicit method, less what is stiff of it
        part = abs(room.delta[i]) / (task.atol[i] + task.rtol * max(abs(y[0, i]), abs(states[1, i])))
        if not math.isfinite(part):
            return NOT_FINITE, np.inf, i
        if part > ratio:
            ratio, worst = part, i
    return SOLVED, ratio, worst


@kernel(inline=True)
def differentiate(task, e, room, t, h, t_new):
    """Solve (2/h - f_y) z = f_y s + f_p dp, with the derivatives of f in the middle of the step."""
    for i in range(room.z.shape[1]):
        room.z[0, i] = 0.0
    if not factorise(task, e, room, t, h):
        return NONFINITE_DERIVATIVE, -1, 0.0
    add_product(e, room.jac, task.n, room.s, 0, room.seeds, room.z)
    if solve_blocks(e, task.n, room.a, room.pivots, room.work, room.z, 0):
        return OK, -1, 0.0
    return NONFINITE_DERIVATIVE, first_nonfinite(room.z, 0, room.z.shape[1]) // 4 % task.n, 0.0


@kernel(inline=True)
def retry(task, room, ratio, outcome):
    return max(0.2, 0.9 / math.sqrt(ratio)) if outcome == SOLVED else 0.25


@kernel(inline=True)
def seed(task, e, room):
    """Read the seeds of p again: start and length of a piece may be among its entries."""
    q = task.n_directions if room.seeds.size > 0 else 0
    put_seeds(task.dp, task.n_columns, q, task.n_parameters, room.seeds)


@kernel(inline=True)
def interpolate(task, room, t, h, t_new, t_out, derivative):
    """Go straight from the beginning of the step to its end: this is of order 2, as the method is."""
    x = 2.0 * (t_out - t) / h
    for i in range(task.n):
        half = room.states[0, i] - room.y[0, i]
        room.y_out[0, i] = room.y[0, i] + x * half if derivative == 0 else 2.0 / h * half
    for i in range(room.s.shape[1]):
        room.s_out[0, i] = room.s[0, i] + x * room.z[0, i]


peek = interpolate  # for states alone; it may do more


@kernel(inline=True)
def advance(task, room, t, h, t_new, ratio, replay):
    for i in range(task.n):
        room.y[0, i], room.k[0, i] = room.states[1, i], room.k[2, i]
    for i in range(room.s.shape[1]):
        room.s[0, i] += 2.0 * room.z[0, i]
    return OK, min(5.0, 0.9 / math.sqrt(max(ratio, 1e-3))), 0


@kernel(inline=True, allocating=True)
def current(room):
    return room.y, room.s, room.s2_out, 0


class Midpoint(SingleMethod):
    """The implicit midpoint rule, of order 2 and A-stable, with Euler's implicit method within it for the error.

    Its sensitivities are derivatives of what it computes.
    """

    name = "midpoint"
    kernel = staticmethod(
        time_loop(
            f"midpoint_{VERSION}",
            Method(1, make_room, seed, begin, attempt, differentiate, retry, interpolate, advance, current, peek),
        )
    )
    implicit = True
    highest_order = 1

    def algebra(self, model):
        return model.kept.get("algebra of the midpoint rule", lambda: dense_algebra(model))


OWN = {method.name: method for method in (Heun(), Midpoint())}
by_method = pytest.mark.parametrize("method", OWN.values(), ids=OWN)


def errors_on(method, case, n_steps: int, parts) -> np.ndarray:
    """Of states and sensitivities, with equal steps, at these parts of each step."""
    h = (case.end - case.t0) / n_steps
    times = case.t0 + h * (np.arange(n_steps)[:, None] + np.array(parts)).ravel()
    grid = grid_of(method, [np.full(n_steps, h)])
    times[-1] = case.end  # where the grid ends
    found = solve(method, case, make_run(case, times=times), grid=grid, order=1)
    assert found.status is Status.OK
    y, s, _ = exact(case, times)
    return np.array([np.abs(found.y - y[:, :, 0]).max(), np.abs(found.S - s).max()])


@by_method
@by_case
@pytest.mark.parametrize("parts", [[1.0], [0.2, 0.5, 0.7, 1.0]], ids=["ends", "between"])
def test_order(method, case, parts):
    coarse, fine = (errors_on(method, case, n_steps, parts) for n_steps in (400, 800))
    orders = np.log2(coarse / fine)
    assert (orders > 1.6).all()
    assert (orders < 2.6).all()


@by_method
@by_case
def test_tolerance(method, case):
    found = solve(method, case, make_run(case), rtol=1e-6, atol=1e-8, order=1)
    assert found.status is Status.OK
    y, s, _ = exact(case, case.times)
    assert np.abs(found.y - y[:, :, 0]).max() <= 1e-5 * np.abs(y).max()
    assert np.abs(found.S - s).max() <= 1e-4 * np.abs(s).max()


@by_method
@by_case
@pytest.mark.parametrize("rtol", [1e-2, 1e-5])
def test_sensitivities_are_derivatives_on_the_same_steps(method, case, rtol):
    stops = case.t0 + (case.end - case.t0) * np.array([0.3, 0.8])
    options = {"rtol": rtol, "atol": rtol}
    grid = solve(method, case, make_run(case, stops=stops), **options).grid
    found = solve(method, case, make_run(case, stops=stops), order=1, grid=grid, **options)
    numeric = central_difference(
        lambda theta: solve(method, case, make_run(case, theta, stops=stops), grid=grid, **options).y, case.theta
    )
    assert np.abs(found.S - numeric).max() <= 1e-8 * np.abs(found.S).max()


@by_method
@by_case
def test_a_replay_gives_the_same_bits(method, case):
    chosen = solve(method, case, make_run(case), rtol=1e-4, atol=1e-6, order=1)
    again = solve(method, case, make_run(case), rtol=1e-4, atol=1e-6, order=1, grid=chosen.grid)
    np.testing.assert_array_equal(again.y, chosen.y)
    np.testing.assert_array_equal(again.S, chosen.S)
    assert again.error_ratio == chosen.error_ratio


def test_the_midpoint_rule_takes_long_steps_on_a_stiff_model():
    model, run = run_of("x' = -k*(x - cos(t))\nx(0) = 1", [1e5], [1.0], [10.0])
    found = OWN["midpoint"].solve(model, run, rtol=1e-3, atol=1e-5, order=1)
    assert found.status is Status.OK
    assert found.counters.steps < 2000  # stability alone would make half a million explicit steps of it
    assert found.y[0, 0] == pytest.approx(math.cos(10.0), abs=1e-2)


def test_failures_are_statuses():
    model, run = run_of("x' = x^2\nx(0) = 1", [], [1.0], [2.0])
    for method in OWN.values():
        found = method.solve(model, run, rtol=1e-4, atol=1e-6, order=1)
        assert found.status in (Status.STEP_UNDERFLOW, Status.NONFINITE, Status.TOO_MANY_STEPS)
        assert found.t_end == pytest.approx(1.0, abs=1e-2)  # the solution has a pole there
        assert np.isnan(found.y).all()


def test_what_a_method_does_not_have_is_said():
    with pytest.raises(OdefitError, match="'midpoint' has no second-order sensitivities"):
        solve(OWN["midpoint"], CASES[0], make_run(CASES[0]), order=2)


@by_method
def test_a_fit_by_name(method, monkeypatch):
    monkeypatch.setitem(METHODS, method.name, method)
    monkeypatch.setitem(CHOICES, method.name, method)
    problem = load("barnes")
    mine = of.fit(problem.with_settings(integrator=method.name, rtol=1e-6))
    usual = of.fit(problem)
    assert mine.status == "converged"
    assert set(mine.integrators.values()) == {method.name}
    np.testing.assert_allclose(list(mine.estimates.values()), list(usual.estimates.values()), rtol=1e-3)


@by_method
def test_conditions_in_time_need_nothing_of_a_method(method):
    """x = 2 min(t, c) + 5 (t - c) behind c; on replay derivatives are those of the discrete solution."""
    model, run = run_of("x' = if(t < c, 2, 5) - k*x\nx(0) = 0", [1.3, 0.1], [0.0], [1.0, 2.0])
    found = method.solve(model, run, rtol=1e-3, atol=1e-4, order=1)
    assert found.status is Status.OK
    assert len(found.grid.pieces) == 2

    def replayed(x):
        return method.solve(model, run._replace(p=x), rtol=1e-3, atol=1e-4, grid=found.grid).y

    by_difference = central_difference(replayed, np.array(run.p), step=5e-5)
    np.testing.assert_allclose(found.S[:, :, :2], by_difference, rtol=1e-8, atol=1e-9)
