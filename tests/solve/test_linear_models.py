"""Linear models of both structures against dense linear algebra, and the steps that either metric takes with them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from odefit.errors import OdefitError
from odefit.solve import LeastSquares, Scaling
from odefit.solve.blocks import BlockLayout, Blocks
from odefit.solve.bordered import BorderedLinear
from odefit.solve.dense import DenseLinear
from odefit.solve.factor_step import FactorSteps
from odefit.solve.scaled_step import ScaledSteps
from odefit.solve.steps import DAMPED, SUBSPACE

INF = np.inf
SEEDS = range(10)


def bordered(seed, n_blocks=5, most=3, n_shared=2, singular=False, spread=0.0):
    """Blocks of different size in shuffled unknowns and rows; with `singular` one block does not see an unknown."""
    rng = np.random.default_rng(seed)
    n_local = rng.integers(0 if n_blocks > 4 else 1, most + 1, size=n_blocks)
    n_local[0] = most
    n, width = int(n_local.sum()) + n_shared, most + n_shared
    order = rng.permutation(n)
    local = np.full((n_blocks, most), -1, dtype=np.int64)
    position = np.empty(n, dtype=np.int64)
    used = 0
    for b, m in enumerate(n_local):
        local[b, :m] = order[used : used + m]
        position[local[b, :m]] = np.arange(m)
        used += m
    position[order[used:]] = most + np.arange(n_shared)
    sizes = rng.integers(width + 1, width + 4, size=n_blocks)
    row_order = rng.permutation(int(sizes.sum()))
    first = np.concatenate([[0], np.cumsum(sizes)])
    compact = rng.normal(size=(row_order.size, width)) * 10.0 ** rng.uniform(-spread, spread, size=width)
    for b, m in enumerate(n_local):
        compact[row_order[first[b] : first[b + 1]], m:most] = 0.0
    if singular:
        compact[row_order[: first[1]], 0] = 0.0
    blocks = Blocks(local, n_local.astype(np.int64), order[used:].astype(np.int64))
    layout = BlockLayout(blocks, position, row_order.astype(np.int64), first.astype(np.int64), width)
    return BorderedLinear(compact, rng.normal(size=row_order.size), layout)


def dense_like(linear):
    """The same problem without its structure."""
    return DenseLinear(linear.jacobian, linear.residual)


STRUCTURES = {"bordered": lambda linear: linear, "dense": dense_like}
by_structure = pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)


def prepare(linear, kind=ScaledSteps, x=None, lower=None, upper=None, scaling=None):
    n = linear.jacobian.shape[1]
    x = np.ones(n) if x is None else x
    lower = np.full(n, -INF) if lower is None else lower
    upper = np.full(n, INF) if upper is None else upper
    problem = kind(scaling or Scaling(x, np.ones(n, dtype=bool)), lower, upper, np.empty(0))
    problem.move(linear, x)
    return problem, x


def matrix_of(linear):
    return linear.jacobian, -linear.residual


@by_structure
@pytest.mark.parametrize("seed", SEEDS)
def test_the_model_is_that_of_its_jacobian(structure, seed):
    linear = structure(bordered(seed))
    matrix, right = matrix_of(linear)
    n = matrix.shape[1]
    rng = np.random.default_rng(seed)
    normal, descent = matrix.T @ matrix, matrix.T @ right
    np.testing.assert_allclose(linear.descent(), descent, atol=1e-11)
    np.testing.assert_allclose(linear.column_norms(), np.linalg.norm(matrix, axis=0))
    np.testing.assert_allclose(linear.factor().T @ linear.factor(), normal, atol=1e-11)
    triangle = linear.triangle()
    np.testing.assert_array_equal(np.tril(triangle.R, -1), 0.0)
    np.testing.assert_allclose(triangle.R.T @ triangle.R, normal, atol=1e-11)
    np.testing.assert_allclose(triangle.R.T @ triangle.b, descent, atol=1e-11)
    other = rng.normal(size=right.size)
    np.testing.assert_allclose(triangle.R.T @ linear.residual_in_triangle(other), -matrix.T @ other, atol=1e-11)
    steps = rng.normal(size=(4, n))
    moved = linear.times(steps).reshape(4, -1)
    np.testing.assert_allclose(moved @ moved.T, steps @ normal @ steps.T, atol=1e-10)
    np.testing.assert_allclose(moved @ linear.right.ravel(), steps @ descent, atol=1e-10)
    np.testing.assert_allclose(moved @ linear.reduce_residual(other).ravel(), -steps @ (matrix.T @ other), atol=1e-10)


@by_structure
@pytest.mark.parametrize("seed", SEEDS)
def test_reduction_and_expansion_solve_the_damped_problem(structure, seed):
    linear = structure(bordered(seed, spread=2.0))
    matrix, right = matrix_of(linear)
    n = matrix.shape[1]
    rng = np.random.default_rng(seed)
    scale, fixed, mu = 10.0 ** rng.uniform(-1, 1, n), rng.uniform(size=n) < 0.2, 0.37
    reduced = linear.reduce(mu, scale, fixed, linear.right, 1e-10)
    z = linear.expand(reduced, np.linalg.solve(reduced.R, reduced.b))
    scaled = (matrix * scale)[:, ~fixed]
    expected = np.zeros(n)
    expected[~fixed] = np.linalg.solve(scaled.T @ scaled + mu * np.eye(scaled.shape[1]), scaled.T @ right)
    np.testing.assert_allclose(z, expected, rtol=1e-8, atol=1e-12)
    removed = reduced.removed + float(reduced.b @ reduced.b)
    assert removed == pytest.approx(float(right @ scaled @ expected[~fixed]), rel=1e-9)


@by_structure
@pytest.mark.parametrize("kind", [ScaledSteps, FactorSteps])
@pytest.mark.parametrize("seed", SEEDS)
def test_full_step_is_the_least_squares_solution(structure, kind, seed):
    linear = structure(bordered(seed))
    matrix, right = matrix_of(linear)
    problem, x = prepare(linear, kind)
    step = problem.step(INF)
    expected = np.linalg.lstsq(matrix, right)[0]
    np.testing.assert_allclose(step.v, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(step.x, x + expected, rtol=1e-8)
    assert step.damping == 0.0
    assert step.rank == x.size
    assert step.decrement == pytest.approx(np.linalg.norm(matrix @ expected), rel=1e-9)
    assert step.promised == pytest.approx(0.5 * step.decrement**2, rel=1e-8)


@pytest.mark.parametrize("kind", [ScaledSteps, FactorSteps])
@pytest.mark.parametrize("filter", [DAMPED, SUBSPACE])
@pytest.mark.parametrize("radius", [1e-3, 0.1, 0.5, INF])
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_structure_does_not_change_the_step(kind, filter, radius, bounded, seed):
    if kind is ScaledSteps and filter == SUBSPACE:
        problem, _ = prepare(bordered(seed))
        with pytest.raises(OdefitError, match="can be damped only"):
            problem.step(radius, filter)
        return
    linear = bordered(seed, spread=1.0)
    n = linear.jacobian.shape[1]
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.5, 2.0, n)
    box = {"lower": x - 0.05, "upper": x + 0.1} if bounded else {}
    scaling = Scaling(x, np.zeros(n, bool))
    one, two = (prepare(model, kind, x, scaling=scaling, **box)[0] for model in (linear, dense_like(linear)))
    by_blocks, whole = one.step(radius, filter), two.step(radius, filter)
    np.testing.assert_allclose(by_blocks.v, whole.v, rtol=1e-7, atol=1e-10)
    for name in ("damping", "length", "decrement", "promised"):
        assert getattr(by_blocks, name) == pytest.approx(getattr(whole, name), rel=1e-6, abs=1e-12), name
    assert by_blocks.rank == whole.rank
    trial = LeastSquares(x, 1, 1.0, rng.normal(size=linear.residual.size), None, 1.0, 0.0)
    for mine, other in zip(one.correction(by_blocks, trial), two.correction(whole, trial), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-9)


@by_structure
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("radius", [1e-3, 0.1, 0.5])
def test_damped_step_is_that_of_levenberg_and_marquardt(structure, seed, radius):
    linear = structure(bordered(seed))
    matrix, right = matrix_of(linear)
    problem, _ = prepare(linear)
    step = problem.step(radius)
    assert step.length == pytest.approx(radius, rel=0.11)
    normal = matrix.T @ matrix + step.damping * np.eye(matrix.shape[1])
    np.testing.assert_allclose(step.v, np.linalg.solve(normal, matrix.T @ right), rtol=1e-7, atol=1e-12)


@by_structure
@pytest.mark.parametrize("seed", SEEDS)
def test_an_unknown_that_nothing_determines_is_harmless(structure, seed):
    blocks = bordered(seed, singular=True)
    linear = structure(blocks)
    matrix, right = matrix_of(linear)
    problem, x = prepare(linear)
    step = problem.step(INF)
    assert step.rank == x.size - 1
    assert step.v[blocks.layout.blocks.local[0, 0]] == 0.0
    np.testing.assert_allclose(matrix @ step.v, matrix @ np.linalg.lstsq(matrix, right)[0], rtol=1e-6, atol=1e-8)


@by_structure
@pytest.mark.parametrize("kind", [ScaledSteps, FactorSteps])
@pytest.mark.parametrize("seed", SEEDS)
def test_bounds_hold_and_the_step_is_no_worse_than_a_projected_one(structure, kind, seed):
    linear = structure(bordered(seed))
    matrix, right = matrix_of(linear)
    n = matrix.shape[1]
    x = np.zeros(n)
    lower, upper = np.full(n, -0.05), np.full(n, 0.1)
    problem, _ = prepare(linear, kind, x, lower, upper)
    step = problem.step(INF)
    assert (step.x >= lower).all()
    assert (step.x <= upper).all()
    best = lsq_linear(matrix, right, (lower, upper)).x

    def promised(v):
        return 0.5 * (right @ right - np.sum((right - matrix @ v) ** 2))

    assert step.promised == pytest.approx(promised(step.v), rel=1e-9)
    assert promised(step.v) >= 0.05 * promised(best) > 0


@pytest.mark.parametrize("kind", [ScaledSteps, FactorSteps])
def test_unknowns_at_a_bound_that_the_gradient_presses_stay(kind):
    linear = bordered(3)
    descent = linear.descent()
    lower = np.where(descent < 0, 0.0, -INF)
    problem, _ = prepare(linear, kind, np.zeros(descent.size), lower)
    assert (problem.step(INF).v[descent < 0] == 0.0).all()
    np.testing.assert_array_equal(problem.held, descent < 0)


@by_structure
@pytest.mark.parametrize("radius", [0.1, INF])
def test_correction_removes_the_curvature_through_the_same_filter(structure, radius):
    linear = structure(bordered(4))
    matrix, right = matrix_of(linear)
    problem, x = prepare(linear)
    step = problem.step(radius)
    curvature = 1e-3 * np.random.default_rng(0).normal(size=right.size)
    trial = LeastSquares(x, 1, 1.0, matrix @ step.v - right + curvature, None, 1.0, 0.0)
    corrected, length = problem.correction(step, trial)
    normal = matrix.T @ matrix + step.damping * np.eye(matrix.shape[1])
    expected = np.linalg.solve(normal, matrix.T @ (-2.0 * curvature))
    assert length == pytest.approx(np.linalg.norm(expected), rel=1e-6)
    np.testing.assert_allclose(corrected, x + step.v + 0.5 * expected, rtol=1e-6)


@pytest.mark.parametrize("kind", [ScaledSteps, FactorSteps])
def test_fraction_of_a_step(kind):
    problem, x = prepare(bordered(5), kind)
    full = problem.step(INF)
    half = problem.shortened(full, 0.5)
    np.testing.assert_allclose(half.x, x + 0.5 * full.v)
    assert half.promised == pytest.approx(0.75 * full.promised)


def test_heavy_rows_need_the_metric_of_the_factors():
    scaling = Scaling(np.ones(2), np.ones(2, bool))
    with pytest.raises(OdefitError, match="very large weight"):
        ScaledSteps(scaling, np.full(2, -INF), np.full(2, INF), np.array([INF]))


def test_names_behind_compact_columns():
    linear = bordered(1)
    layout = linear.layout
    for row in range(linear.residual.size):
        for column in np.flatnonzero(linear.compact[row]):
            unknown = layout.unknown(row, int(column))
            assert linear.jacobian[row, unknown] == linear.compact[row, column]
