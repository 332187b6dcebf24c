"""Elimination block by block against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from odefit.solve import Scaling
from odefit.solve.bordered_step import BorderedStepProblem
from odefit.solve.contract import Blocks, Bordered

INF = np.inf


class Linear:
    def __init__(self, system):
        self.system = system

    def reduce(self):
        return self.system

    def reduce_residual(self, residual):
        return -residual


def random_system(seed, n_blocks=5, most=3, n_shared=2, singular=False):
    """Blocks of different size in shuffled unknowns; with `singular` one block does not see its first unknown."""
    rng = np.random.default_rng(seed)
    n_local = rng.integers(0 if n_blocks > 4 else 1, most + 1, size=n_blocks)
    n_local[0] = most
    n = int(n_local.sum()) + n_shared
    order = rng.permutation(n)
    local = np.full((n_blocks, most), -1, dtype=np.int64)
    used = 0
    for b, m in enumerate(n_local):
        local[b, :m] = order[used : used + m]
        used += m
    width = most + n_shared
    r = np.triu(rng.normal(size=(n_blocks, width, width)))
    for b, m in enumerate(n_local):
        r[b][:, m:most] = 0.0
    if singular:
        r[0][:, 0] = 0.0
    blocks = Blocks(local, n_local.astype(np.int64), order[used:].astype(np.int64))
    return Bordered(r, rng.normal(size=(n_blocks, width)), blocks)


def prepare(system, x=None, lower=None, upper=None):
    n = system.blocks.shared.size + int(system.blocks.n_local.sum())
    x = np.ones(n) if x is None else x
    lower = np.full(n, -INF) if lower is None else lower
    upper = np.full(n, INF) if upper is None else upper
    problem = BorderedStepProblem(Scaling(x, np.ones(n, dtype=bool)), lower, upper)
    problem.move(Linear(system), x)
    return problem, x


@pytest.mark.parametrize("seed", range(10))
def test_full_step_is_the_least_squares_solution(seed):
    system = random_system(seed)
    matrix, right = system.rows()
    problem, x = prepare(system)
    step = problem.step(INF)
    expected = np.linalg.lstsq(matrix, right)[0]
    np.testing.assert_allclose(step.v, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(step.x, x + expected, rtol=1e-8)
    assert step.damping == 0.0
    assert step.rank == x.size
    assert step.decrement == pytest.approx(np.linalg.norm(matrix @ expected), rel=1e-9)
    assert step.promised == pytest.approx(0.5 * step.decrement**2, rel=1e-8)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("radius", [1e-3, 0.1, 0.5])
def test_damped_step_is_that_of_levenberg_and_marquardt(seed, radius):
    system = random_system(seed)
    matrix, right = system.rows()
    problem, _ = prepare(system)
    step = problem.step(radius)
    assert step.length == pytest.approx(radius, rel=0.11)
    normal = matrix.T @ matrix + step.damping * np.eye(matrix.shape[1])
    np.testing.assert_allclose(step.v, np.linalg.solve(normal, matrix.T @ right), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_an_undetermined_block_is_harmless(seed):
    system = random_system(seed, singular=True)
    matrix, right = system.rows()
    problem, x = prepare(system)
    step = problem.step(INF)
    assert step.rank == x.size - 1
    assert step.v[system.blocks.local[0, 0]] == 0.0
    np.testing.assert_allclose(matrix @ step.v, matrix @ np.linalg.lstsq(matrix, right)[0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("seed", range(10))
def test_bounds_hold_and_the_step_is_no_worse_than_a_projected_one(seed):
    system = random_system(seed)
    matrix, right = system.rows()
    n = matrix.shape[1]
    x = np.zeros(n)
    lower, upper = np.full(n, -0.05), np.full(n, 0.1)
    problem, _ = prepare(system, x, lower, upper)
    step = problem.step(INF)
    assert (step.x >= lower).all()
    assert (step.x <= upper).all()
    best = lsq_linear(matrix, right, (lower, upper)).x

    def promised(v):
        return 0.5 * (right @ right - np.sum((right - matrix @ v) ** 2))

    assert step.promised == pytest.approx(promised(step.v), rel=1e-9)
    assert promised(step.v) >= 0.05 * promised(best) > 0


def test_unknowns_at_a_bound_that_the_gradient_presses_stay():
    system = random_system(3)
    n = system.rows()[0].shape[1]
    descent = system.descent()
    lower = np.where(descent < 0, 0.0, -INF)
    problem, _ = prepare(system, np.zeros(n), lower)
    np.testing.assert_array_equal(problem.held, descent < 0)
    assert (problem.step(INF).v[descent < 0] == 0.0).all()


@pytest.mark.parametrize("radius", [0.1, INF])
def test_correction_removes_the_curvature_through_the_same_filter(radius):
    system = random_system(4)
    matrix, _ = system.rows()
    problem, x = prepare(system)
    step = problem.step(radius)
    curvature = 1e-3 * np.random.default_rng(0).normal(size=system.b.shape)
    trial = system.b - system.times(step.v) - curvature
    corrected, length = problem.correction(step, -trial, np.empty(0))
    normal = matrix.T @ matrix + step.damping * np.eye(matrix.shape[1])
    expected = np.linalg.solve(normal, matrix.T @ (-2.0 * curvature.ravel()))
    assert length == pytest.approx(np.linalg.norm(expected), rel=1e-6)
    np.testing.assert_allclose(corrected, x + step.v + 0.5 * expected, rtol=1e-6)


def test_fraction_of_a_step():
    system = random_system(5)
    problem, x = prepare(system)
    full = problem.step(INF)
    half = problem.shortened(full, 0.5)
    np.testing.assert_allclose(half.x, x + 0.5 * full.v)
    assert half.promised == pytest.approx(0.75 * full.promised)


def test_products():
    system = random_system(6)
    matrix, right = system.rows()
    v = np.random.default_rng(1).normal(size=matrix.shape[1])
    np.testing.assert_allclose(system.times(v).ravel(), matrix @ v)
    np.testing.assert_allclose(system.descent(), matrix.T @ right)
    np.testing.assert_allclose(system.column_norms(), np.linalg.norm(matrix, axis=0))
