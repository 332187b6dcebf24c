"""Steps in theta and node states against dense linear algebra, and brute force over active sets."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tests.solve.node_chains import INF, chains, solve_dense

from odefit.errors import OdefitError
from odefit.solve import LeastSquares, Scaling
from odefit.solve.dense import DenseLinear
from odefit.solve.node_steps import NodeSteps
from odefit.solve.steps import SUBSPACE

SEEDS = range(10)


def small(seed, **rest):
    """Two chains that share three unknowns; rounding is the only reason why a direction would not be determined."""
    options = {"q": 3, "states": (2, 3), "nodes": (3, 2), "priors": 4} | rest
    return chains(np.random.default_rng(seed), 2, **options)


def prepare(linear, lower=-INF, upper=INF, seed=0):
    """Return the step problem at some point, and the scales there; bounds are relative to the point."""
    rng = np.random.default_rng(1000 + seed)
    n, q = linear.n, linear.q
    x = rng.normal(size=n)
    scaling = Scaling(x, np.zeros(n, bool), 10.0 ** rng.uniform(-1, 1, n - q))
    low, high = np.full(n, -INF), np.full(n, INF)
    low[:q], high[:q] = x[:q] + lower, x[:q] + upper
    problem = NodeSteps(scaling, low, high, np.empty(0))
    problem.move(linear, x)
    return problem, x, scaling.of(x)


def reference(linear, scale, damping=0.0, tau=1.0, more=(), more_right=()):
    """Return the dense step, with `more` exact rows in theta, and the sum of squares of its light rows."""
    matrix, right, weight = linear.jacobian * scale, -linear.residual, linear.weights()
    right = np.where(np.isinf(weight), tau * right, right)
    if len(more_right):
        matrix = np.vstack([matrix, more])
        right, weight = np.append(right, more_right), np.append(weight, np.full(len(more_right), INF))
    z, a, b = solve_dense(matrix, right, weight, damping)
    return scale * z, float(np.sum((a @ z - b) ** 2))


def exact_rows(linear):
    return np.isinf(linear.weights())


@pytest.mark.parametrize("handover", [INF, 1.0, 1e3])
@pytest.mark.parametrize("seed", SEEDS)
def test_full_step_is_the_least_squares_solution(handover, seed):
    problem = small(seed)
    if handover < INF:  # every state is measured
        problem = small(seed, states=(1, 1), nodes=(3, 4))
    linear = problem.linear(handover)
    steps, x, scale = prepare(linear, seed=seed)
    step = steps.step(INF)
    expected, _ = reference(linear, scale, 0.0 if handover == INF else 1e-20)
    np.testing.assert_allclose(step.v, expected, rtol=1e-7, atol=1e-8 * np.abs(expected).max())
    np.testing.assert_allclose(step.x, x + step.v)
    assert step.length == pytest.approx(np.linalg.norm(step.v / scale))
    assert (step.damping, step.rank) == (0.0, problem.n)
    assert not steps.held.any()
    change = linear.all_times(step.v)
    np.testing.assert_allclose((linear.residual + change)[exact_rows(linear)], 0.0, atol=1e-12 * np.abs(change).max())
    weight = np.where(exact_rows(linear), 0.0, linear.weights())
    before, after = np.sum((weight * linear.residual) ** 2), np.sum((weight * (linear.residual + change)) ** 2)
    assert step.promised == pytest.approx(0.5 * (before - after), rel=1e-6, abs=1e-9 * before)
    if handover < INF:
        assert step.decrement**2 == pytest.approx(before - after, rel=1e-6)


@pytest.mark.parametrize("radius", [1e-4, 1e-2, 0.3, 1.0])
@pytest.mark.parametrize("handover", [INF, 10.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_damped_step_has_the_length_of_the_radius(handover, radius, seed):
    linear = small(seed).linear(handover)
    steps, _, scale = prepare(linear, seed=seed)
    full = steps.step(INF)
    step = steps.step(radius)
    if full.length <= radius:
        np.testing.assert_array_equal(step.v, full.v)
        return
    assert 0.0 < step.damping
    assert step.length <= (1.1 + 1e-12) * radius
    if step.damping > 1e-10:
        assert step.length >= (0.9 - 1e-12) * radius
    exact = exact_rows(linear)
    tau = 1.0
    if exact.any():  # gaps are closed by one part, all of them
        left = (linear.residual + linear.all_times(step.v))[exact]
        tau = 1.0 - float(left @ linear.residual[exact]) / float(np.sum(linear.residual[exact] ** 2))
        assert 0.0 < tau <= 1.0 + 1e-12
        np.testing.assert_allclose(left, (1.0 - tau) * linear.residual[exact], atol=1e-11)
    expected, _ = reference(linear, scale, step.damping, tau)
    np.testing.assert_allclose(step.v, expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())
    assert step.decrement == full.decrement


@pytest.mark.parametrize("seed", SEEDS)
def test_gaps_take_most_of_a_small_radius_only(seed):
    linear = small(seed).linear()
    steps, _, scale = prepare(linear, seed=seed)
    weight, matrix = linear.weights(), linear.jacobian * scale
    exact = np.isinf(weight)
    shortest = np.linalg.lstsq(matrix[exact], -linear.residual[exact], rcond=None)[0]
    radius = 0.5 * np.linalg.norm(shortest)
    step = steps.step(radius)
    left = (linear.residual + linear.all_times(step.v))[exact]
    np.testing.assert_allclose(left, (1.0 - 0.8 * 0.5) * linear.residual[exact], atol=1e-10)
    if step.damping > 1e-10:
        assert step.length == pytest.approx(radius, rel=0.1)
    else:  # with so much of the gaps left open the step needs no damping
        assert 0.8 * radius <= step.length <= 1.1 * radius


def best_of_active_sets(linear, scale, lower, upper, limits=()):
    """Return the best step that respects all bounds and limits, of all active sets."""
    q, n, best, best_value = linear.q, linear.n, None, INF
    low, high = np.full(q, lower) / scale[:q], np.full(q, upper) / scale[:q]
    matrix, eye = linear.jacobian * scale, np.eye(q, n)
    for choice in product((None, "low", "high"), repeat=q):
        for active in product((False, True), repeat=len(limits)):
            held = [j for j in range(q) if choice[j]]
            rows = [eye[j] for j in held] + [matrix[r] for r, on in zip(limits, active, strict=True) if on]
            right = [low[j] if choice[j] == "low" else high[j] for j in held]
            right += [-linear.residual[r] for r, on in zip(limits, active, strict=True) if on]
            if len(right) > q or not np.isfinite(right).all():
                continue
            v, value = reference(linear, scale, 1e-20, more=np.reshape(rows, (-1, n)), more_right=right)
            z = v[:q] / scale[:q]
            room = 1e-9 * (1.0 + np.abs(z))
            slack = linear.residual[list(limits)] + (linear.jacobian @ v)[list(limits)]
            inside = (z >= low - room).all() and (z <= high + room).all() and (slack >= -1e-8).all()
            if inside and value < best_value:
                best, best_value = (v, choice), value
    return best


@pytest.mark.parametrize("handover", [INF, 10.0])
@pytest.mark.parametrize("box", [(-0.05, 0.1), (0.0, 0.2), (-INF, 0.05)])
@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_have_the_right_active_set(handover, box, seed):
    linear = small(seed).linear(handover)
    steps, x, scale = prepare(linear, *box, seed=seed)
    step = steps.step(INF)
    expected, choice = best_of_active_sets(linear, scale, *box)
    np.testing.assert_allclose(step.v, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())
    np.testing.assert_array_equal(steps.held[:3], [bool(one) for one in choice])
    assert not steps.held[3:].any()
    assert (step.x[:3] >= x[:3] + box[0]).all()
    assert (step.x[:3] <= x[:3] + box[1]).all()
    if handover == INF:  # bounds do not keep gaps from being closed
        left = (linear.residual + linear.all_times(step.v))[exact_rows(linear)]
        np.testing.assert_allclose(left, 0.0, atol=1e-10)


@pytest.mark.parametrize("where", ["data", "priors"])
@pytest.mark.parametrize("handover", [INF, 10.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_limits_are_respected(where, handover, seed):
    """Rows that must not become negative, in an interval or of theta alone, some of them violated at first."""
    problem = small(seed)
    limits = (problem.data[:2] if where == "data" else problem.priors[:2]).tolist()
    linear = problem.linear(handover, limits=limits)
    steps, _, scale = prepare(linear, seed=seed)
    step = steps.step(INF)
    slack = linear.residual[limits] + linear.all_times(step.v)[limits]
    assert (slack >= -1e-9).all()
    expected, _ = best_of_active_sets(linear, scale, -INF, INF, limits)
    np.testing.assert_allclose(step.v, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_limits_and_bounds_together(seed):
    problem = small(seed)
    limits = problem.data[:2].tolist()
    problem.residual[limits] = np.abs(problem.residual[limits])
    linear = problem.linear(limits=limits)
    steps, _, scale = prepare(linear, -0.2, 0.3, seed=seed)
    best = best_of_active_sets(linear, scale, -0.2, 0.3, limits)
    step = steps.step(INF)
    assert (step.v[:3] >= -0.2 - 1e-12).all()
    assert (step.v[:3] <= 0.3 + 1e-12).all()
    if best is not None:
        np.testing.assert_allclose(step.v, best[0], rtol=1e-4, atol=1e-5 * np.abs(best[0]).max())


@pytest.mark.parametrize("radius", [INF, 0.1])
@pytest.mark.parametrize("seed", SEEDS)
def test_rows_that_contradict_each_other_soften(radius, seed):
    """More exact rows of theta than it has entries: the step is finite and comes as near as it can."""
    problem = small(seed, priors=6)
    linear = problem.linear(exact=problem.priors[:5].tolist())
    steps, _, scale = prepare(linear, seed=seed)
    step = steps.step(radius)
    assert np.isfinite(step.v).all()
    assert step.length <= 1.1 * max(radius, 1e-300)
    matrix, right = (linear.jacobian * scale)[problem.priors[:5], :3], -linear.residual[problem.priors[:5]]
    if radius == INF:
        # each row counts by its own size
        size = np.linalg.norm(matrix, axis=1)
        best = np.linalg.lstsq(matrix / size[:, None], right / size, rcond=None)[0]
        np.testing.assert_allclose(step.v[:3] / scale[:3], best, rtol=1e-3, atol=1e-3 * np.abs(best).max())
        left = (linear.residual + linear.all_times(step.v))[problem.handovers]
        np.testing.assert_allclose(left, 0.0, atol=1e-9)


@pytest.mark.parametrize("where", ["data", "priors"])
@pytest.mark.parametrize("seed", SEEDS)
def test_exact_rows_that_say_the_same_twice(where, seed):
    """What rounding leaves of the second one is no row of its own."""
    problem = small(seed, priors=5)
    rows = problem.data if where == "data" else problem.priors
    first = rows[0]
    second = int(problem.chain[0, 1]) - 1 if where == "data" else rows[1]
    if second == first:
        return
    problem.rows[second], problem.residual[second] = 3.0 * problem.rows[first], 3.0 * problem.residual[first]
    once, twice = problem.linear(exact=[first]), problem.linear(exact=[first, second])
    expected, _ = reference(twice, prepare(twice, seed=seed)[2])
    for linear in (once, twice):
        step = prepare(linear, seed=seed)[0].step(INF)
        if linear is twice:
            np.testing.assert_allclose(step.v, expected, rtol=1e-7, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("size", [1e-14, 1e-8, 1e8, 1e14])
@pytest.mark.parametrize("seed", SEEDS)
def test_units_of_exact_rows_do_not_matter(size, seed):
    problem = small(seed, priors=5)
    chosen = [int(problem.data[0]), int(problem.priors[0])]
    plain = prepare(problem.linear(exact=chosen), seed=seed)[0].step(INF)
    problem.rows[chosen] *= size
    problem.residual[chosen] *= size
    step = prepare(problem.linear(exact=chosen), seed=seed)[0].step(INF)
    np.testing.assert_allclose(step.v, plain.v, rtol=1e-8, atol=1e-9 * np.abs(plain.v).max())


@pytest.mark.parametrize("n_nodes", [10, 40, 300])
@pytest.mark.parametrize("growth", [0.02, 1.0, 50.0])
def test_growing_solutions_that_theta_has_no_influence_on(growth, n_nodes):
    """Their beginning is known, but says nothing of later states; these follow the data, and no gap opens."""
    rng = np.random.default_rng(3)
    problem = chains(rng, 1, q=2, data=2, states=(2,), nodes=(n_nodes,), priors=3)
    for r in problem.handovers:
        problem.rows[r, 3:] = 0.0
    for first in problem.handovers[::2]:
        problem.rows[first : first + 2, :2] = growth * np.linalg.qr(rng.normal(size=(2, 2)))[0]
        problem.rows[first : first + 2, 2] = 1.0
    problem.rows[problem.handovers[:2], :2] = 0.0
    problem.residual[problem.handovers] *= 1e-16
    linear = problem.linear()
    step = prepare(linear)[0].step(INF)
    left = linear.residual[problem.handovers] + linear.all_times(step.v)[problem.handovers]
    np.testing.assert_allclose(left, 0.0, atol=1e-11 * (1 + np.abs(step.v).max()))
    assert np.abs(step.v).max() < 10.0
    if growth > 1.0:  # the last state meets its data, which nothing else says anything of
        last = slice(*problem.chain[-2, :2])
        assert np.abs((linear.residual + linear.all_times(step.v))[last]).max() < 0.1


def quadratic(linear, seed):
    """Return residuals as a function of the step: the linear ones and squares."""
    bend = np.random.default_rng(seed).normal(size=linear.residual.size)
    return lambda v: linear.residual + linear.all_times(v) + bend * (v @ v)


@pytest.mark.parametrize("seed", SEEDS)
def test_correction_is_of_second_order(seed):
    """Gaps that a step opens by curvature are closed to the next order, and so is what the data then miss."""
    missed, corrected = [], []
    for size in (1e-3, 1e-4):
        problem = small(seed)
        problem.residual[:] *= size
        linear = problem.linear()
        steps, x, scale = prepare(linear, seed=seed)
        step = steps.step(INF)
        of_step = quadratic(linear, seed)
        exact = exact_rows(linear)
        trial = LeastSquares(step.x, 1, 1.0, of_step(step.v), None, 1.0, 0.0)
        better, length = steps.correction(step, trial)
        missed.append(np.linalg.norm(of_step(step.v)[exact]))
        corrected.append(np.linalg.norm(of_step(better - x)[exact]))
        assert length == pytest.approx(2.0 * np.linalg.norm((better - step.x) / scale), rel=1e-5)
    assert np.log10(missed[0] / missed[1]) == pytest.approx(2.0, abs=0.1)
    assert np.log10(corrected[0] / corrected[1]) > 2.8
    assert corrected[1] < 0.1 * missed[1]


@pytest.mark.parametrize("seed", SEEDS)
def test_correction_solves_the_damped_problem(seed):
    """With weighted handovers it is the damped step for the negative curvature."""
    linear = small(seed).linear(5.0)
    steps, _, scale = prepare(linear, seed=seed)
    step = steps.step(0.2)
    curvature = 1e-3 * np.random.default_rng(seed).normal(size=linear.residual.size)
    trial = LeastSquares(
        step.x, 1, 1.0, linear.residual + linear.all_times(step.v) + curvature, None, 1.0, 0.0
    )  # fmt: skip
    better, _ = steps.correction(step, trial)
    z, _, _ = solve_dense(linear.jacobian * scale, -2.0 * curvature, linear.weights(), step.damping)
    np.testing.assert_allclose(better - step.x, 0.5 * scale * z, rtol=1e-6, atol=1e-12)


def test_correction_keeps_bounds():
    linear = small(1).linear()
    steps, _, _ = prepare(linear, -0.01, 0.01)
    step = steps.step(INF)
    assert steps.held.any()
    trial = LeastSquares(step.x, 1, 1.0, quadratic(linear, 1)(step.v), None, 1.0, 0.0)
    better, _ = steps.correction(step, trial)
    np.testing.assert_array_equal(better[steps.held], step.x[steps.held])


def test_fraction_of_a_step():
    linear = small(2).linear(4.0)
    steps, x, _ = prepare(linear)
    full = steps.step(INF)
    half = steps.shortened(full, 0.5)
    np.testing.assert_allclose(half.x, x + 0.5 * full.v)
    assert half.length == 0.5 * full.length
    assert half.promised == pytest.approx(0.75 * full.promised)


def test_unknown_that_nothing_determines():
    """It does not move, and does not count."""
    problem = small(4)
    problem.rows[:, -1] = 0.0
    linear = problem.linear()
    step = prepare(linear)[0].step(INF)
    assert step.v[2] == 0.0
    assert (step.rank, step.condition) == (problem.n - 1, pytest.approx(0.0, abs=1e-9))


def test_what_nodes_cannot_do_is_refused():
    linear = small(0).linear()
    steps, x, _ = prepare(linear)
    with pytest.raises(OdefitError, match="damped only"):
        steps.step(1.0, SUBSPACE)
    with pytest.raises(OdefitError, match="with nodes"):
        steps.move(DenseLinear(np.eye(x.size), np.ones(x.size)), x)
