"""Elimination of node states against dense equality-constrained least squares."""

from __future__ import annotations

import numpy as np
import pytest
from tests.solve.node_chains import INF, chains, solve_dense

from odefit.solve.node_elimination import node_gradient, node_products, node_squares
from odefit.solve.nodes import Elimination

SEEDS = range(12)


def eliminated(linear, scale, right, damping, fixed=None, light=True):
    """Return all scaled unknowns, and the border."""
    nodes = Elimination(linear, scale)
    fixed = np.zeros(linear.q, bool) if fixed is None else fixed
    border = nodes.border(right, damping, fixed, light=light)
    assert border.R.shape == (linear.q, linear.q)
    theta = np.zeros(linear.q)
    if linear.q:
        weight = np.append(np.ones(linear.q), np.full(border.exact_right.size, INF))
        matrix = np.vstack([border.R, border.exact])
        theta = solve_dense(matrix, np.append(border.b, border.exact_right), weight, 0.0)[0]
    return nodes.expand(theta), border


def dense_solution(linear, scale, right, damping, fixed=None):
    """Return all scaled unknowns by dense linear algebra, with the weighted rows."""
    n, q = linear.n, linear.q
    stays = np.append(np.zeros(q, bool) if fixed is None else fixed, np.zeros(n - q, bool))
    matrix = (linear.jacobian * scale)[:, ~stays]
    z = np.zeros(n)
    z[~stays], a, b = solve_dense(matrix, right, linear.weights(), damping)
    return z, (a, b, matrix, ~stays)


def check(linear, scale, right, damping, fixed=None, tol=1e-9):
    found, border = eliminated(linear, scale, right, damping, fixed)
    expected, rest = dense_solution(linear, scale, right, damping, fixed)
    np.testing.assert_allclose(found, expected, rtol=tol, atol=tol * (1.0 + np.abs(expected).max()))
    return found, border, rest


@pytest.mark.parametrize("n_chains", [1, 2, 3])
@pytest.mark.parametrize("q", [0, 1, 3])
@pytest.mark.parametrize("handover", [INF, 1.0, 1e3])
@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_chains_against_dense(n_chains, q, handover, damping, seed):
    """Handovers exact or weighted; next to no damping where the solution would not be unique without."""
    rng = np.random.default_rng(seed)
    nodes = rng.integers(0 if q else 1, 7, n_chains)
    problem = chains(rng, n_chains, q=q, nodes=nodes, growth=1.0, data=None if seed % 3 else 0)
    if np.linalg.matrix_rank(problem.dense()) < problem.n:
        damping = max(damping, 1e-3)
    check(problem.linear(handover), 10.0 ** rng.uniform(-1, 1, problem.n), -problem.residual, damping)


@pytest.mark.parametrize("damping", [0.0, 0.3])
@pytest.mark.parametrize("handover", [INF, 2.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_fixed_unknowns_stay(damping, handover, seed):
    rng = np.random.default_rng(seed)
    problem = chains(rng, 2, q=3, states=(2, 3), nodes=(3, 5), priors=4)
    fixed = np.array([True, False, True])
    scale = 10.0 ** rng.uniform(-1, 1, problem.n)
    damping = damping if handover == INF else max(damping, 1e-3)
    found, _, _ = check(problem.linear(handover), scale, -problem.residual, damping, fixed)
    assert (found[:3][fixed] == 0.0).all()


@pytest.mark.parametrize("q", [1, 3])
@pytest.mark.parametrize("handover", [INF, 5.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_exact_data_rows(q, handover, seed):
    """As many exact data as theta can meet, anywhere; others are of great finite weight, or left out."""
    rng = np.random.default_rng(100 + seed)
    problem = chains(rng, 2, q=q, states=(2, 3), nodes=(4, 3), priors=3)
    chosen = rng.permutation(problem.data)[: min(problem.data.size, q + 2)].tolist()
    linear = problem.linear(handover, chosen[:q], heavy=[(row, 50.0) for row in chosen[q:]])
    scale = 10.0 ** rng.uniform(-1, 1, problem.n)
    found, _, (_, _, matrix, _) = check(linear, scale, -problem.residual, 0.1)
    exact = np.isinf(linear.weights())
    np.testing.assert_allclose((matrix @ found + problem.residual)[exact], 0.0, atol=1e-11 * (1 + np.abs(found).max()))


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_without_weight_do_not_count(seed):
    """Limits are no rows of least squares; numbers in them are of no importance."""
    rng = np.random.default_rng(seed)
    problem = chains(rng, 2, q=2, states=(1, 3), nodes=(2, 4))
    linear = problem.linear()
    weight = linear.weights()
    weight[problem.data[::2]] = 0.0
    scale = np.ones(problem.n)
    nodes = Elimination(linear, scale)
    nodes.weight = weight
    border = nodes.border(-problem.residual, 0.2, np.zeros(2, bool))
    found = nodes.expand(np.linalg.solve(border.R, border.b))
    expected = solve_dense(linear.jacobian, -problem.residual, weight, 0.2)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("handover", [INF, 3.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_removed(handover, seed):
    """Where theta stays, states follow the gaps (or stay as well); from there on squares are counted."""
    rng = np.random.default_rng(seed)
    problem = chains(rng, 2, q=3, states=(2, 3), nodes=(4, 2))
    linear, scale = problem.linear(handover), 10.0 ** rng.uniform(-1, 1, problem.n)
    found, border, (a, b, matrix, _) = check(linear, scale, -problem.residual, 0.2)
    begin = np.zeros(problem.n)
    if handover == INF:
        rows = problem.handovers
        begin[3:] = np.linalg.solve(matrix[rows][:, 3:], -problem.residual[rows])
        assert border.removed == 0.0
    removed = np.sum((a @ begin - b) ** 2) - np.sum((a @ found - b) ** 2)
    assert border.removed + border.b @ border.b == pytest.approx(removed, rel=1e-9)
    assert border.exact_right.size == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_shortest_step_that_closes_all_gaps(seed):
    """Without light rows damping decides: the solution of minimal length."""
    rng = np.random.default_rng(seed)
    problem = chains(rng, 2, q=3, states=(2, 3), nodes=(4, 2), growth=0.5)
    linear, scale = problem.linear(), 10.0 ** rng.uniform(-1, 1, problem.n)
    found, _ = eliminated(linear, scale, -problem.residual, 1.0, light=False)
    rows = problem.handovers
    expected = np.linalg.lstsq((problem.dense() * scale)[rows], -problem.residual[rows], rcond=None)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("damping", [1e-20, 1e-6])
@pytest.mark.parametrize("seed", SEEDS)
def test_states_that_nothing_determines_stay_small(damping, seed):
    """A hidden state that neither data nor weighted handovers see: its column is zero."""
    rng = np.random.default_rng(seed)
    problem = chains(rng, 2, q=2, states=(3, 2), nodes=(3, 3), priors=3)
    rows = problem.rows
    rows[:, 1] = 0.0
    second = [one[2] + 1 for one in problem.chain if one[2] >= 0]
    rows[second] = 0.0  # and nobody hands it over
    linear, n = problem.linear(2.0), problem.n
    found, _ = eliminated(linear, np.ones(n), -problem.residual, damping)
    empty = np.abs(problem.dense()).max(axis=0) == 0.0
    assert empty.sum() == 6
    assert np.isfinite(found).all()
    assert (found[empty] == 0.0).all()
    # of other directions that are hardly determined the shortest solution is the limit
    matrix, weight = problem.dense(), linear.weights()
    expected = np.linalg.lstsq(weight[:, None] * matrix, -weight * problem.residual, rcond=1e-9)[0]
    np.testing.assert_allclose(matrix @ found, matrix @ expected, atol=1e-5 * (1 + np.abs(expected).max()))
    assert np.linalg.norm(found) <= (1.0 + 1e-6) * np.linalg.norm(expected) + 1e-3


@pytest.mark.parametrize("seed", SEEDS)
def test_exact_row_that_says_the_same_twice(seed):
    """A repeated exact datum changes nothing, nor does one of a state that is known already."""
    rng = np.random.default_rng(seed)
    problem = chains(rng, 1, q=3, states=(2,), nodes=(5,), priors=4)
    chain, rows, residual = problem.chain, problem.rows, problem.residual
    one = next((one for one in chain if one[1] - one[0] >= 2), None)
    if one is None:
        pytest.fail("a seed without data says nothing")
    a, b = int(one[0]), int(one[0]) + 1
    rows[b], residual[b] = 2.0 * rows[a], 2.0 * residual[a]
    scale = 10.0 ** rng.uniform(-1, 1, problem.n)
    once = check(problem.linear(exact=[a]), scale, -residual, 0.1)[0]
    twice = check(problem.linear(exact=[a, b]), scale, -residual, 0.1)[0]
    np.testing.assert_allclose(twice, once, rtol=1e-9, atol=1e-10 * np.abs(once).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_products_with_the_matrix(seed):
    rng = np.random.default_rng(seed)
    problem = chains(rng, 3, q=int(rng.integers(0, 4)), growth=1.0)
    matrix, (rows, chain, q, n) = problem.dense(), (problem.rows, problem.chain, problem.q, problem.n)
    v, values, weight = rng.normal(size=n), rng.normal(size=rows.shape[0]), rng.uniform(0, 3, rows.shape[0])
    product, gradient, squares = np.empty(rows.shape[0]), np.empty(n), np.empty(n)
    node_products(rows, chain, q, v, product)
    node_gradient(rows, chain, q, values, gradient)
    node_squares(rows, chain, q, weight, squares)
    np.testing.assert_allclose(product, matrix @ v, atol=1e-11)
    np.testing.assert_allclose(gradient, matrix.T @ values, atol=1e-11)
    np.testing.assert_allclose(squares, np.sum((weight[:, None] * matrix) ** 2, axis=0), rtol=1e-12)


@pytest.mark.parametrize("handover", [INF, 7.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_model_is_that_of_its_matrix(handover, seed):
    rng = np.random.default_rng(seed)
    problem = chains(rng, 3, q=2, states=(1, 4, 2), nodes=(3, 2, 5), priors=3)
    chosen = rng.permutation(problem.data)[:3].tolist()
    linear = problem.linear(handover, chosen[:1], heavy=[(row, 20.0) for row in chosen[1:]])
    matrix, residual, weight = problem.dense(), problem.residual, linear.weights()
    heavy = np.concatenate([problem.handovers, chosen])
    light = np.setdiff1d(np.arange(residual.size), heavy)
    v = rng.normal(size=problem.n)
    np.testing.assert_allclose(linear.jacobian, matrix, atol=1e-14)
    np.testing.assert_array_equal(linear.factor(), linear.jacobian[light])
    np.testing.assert_array_equal(linear.right, -residual[light])
    np.testing.assert_allclose(linear.times(np.stack([v, 2 * v])), [matrix[light] @ v, 2 * matrix[light] @ v])
    root, order = linear.heavy.root, np.argsort(-np.where(np.isinf(weight), 1e300, weight)[heavy], kind="stable")
    np.testing.assert_array_equal(root, weight[heavy][order])
    for found, values in ((linear.heavy_times(v), matrix @ v), (linear.heavy.right, -residual)):
        np.testing.assert_allclose(np.sort(found), np.sort(values[heavy]), atol=1e-13)
        np.testing.assert_allclose(np.sum(found * (root == 20.0)), values[chosen[1:]].sum(), atol=1e-12)
    finite = np.where(np.isinf(weight), 0.0, weight)
    np.testing.assert_allclose(linear.descent(), -matrix.T @ (finite**2 * residual), atol=1e-9)
    right = rng.normal(size=light.size)
    other = -residual
    other[light] = right
    np.testing.assert_allclose(linear.descent(right), matrix.T @ (finite**2 * other), atol=1e-9)
    np.testing.assert_allclose(linear.column_norms(), np.linalg.norm(finite[:, None] * matrix, axis=0))
    ordinary = np.where(np.isinf(weight), 1.0, weight)
    np.testing.assert_allclose(linear.all_column_norms(), np.linalg.norm(ordinary[:, None] * matrix, axis=0))
    scale = 10.0 ** rng.uniform(-1, 1, problem.n)
    asked = np.array([problem.priors[0], *chosen])
    np.testing.assert_allclose(linear.row_sizes(asked, scale), np.linalg.norm((matrix * scale)[asked], axis=1))
    lighter = linear.reweighted(np.minimum(root, 3.0))
    np.testing.assert_allclose(
        lighter.weights(), np.minimum(weight, np.where(np.isin(range(weight.size), heavy), 3, 1))
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_limits_count_by_what_they_miss(seed):
    rng = np.random.default_rng(seed)
    problem = chains(rng, 2, q=2, states=(2, 2), nodes=(2, 3), priors=4)
    limits = problem.priors.tolist()
    linear, v = problem.linear(limits=limits), rng.normal(size=problem.n)
    after = problem.residual + problem.dense() @ v
    missed = [np.minimum(values[limits], 0.0).sum() for values in (problem.residual, after)]
    is_limit = np.isin(linear._heavy.rows, limits)
    assert -linear.heavy.right[is_limit].sum() == pytest.approx(missed[0])
    assert linear.heavy_times(v)[is_limit].sum() == pytest.approx(missed[1] - missed[0])
    assert (linear.weights()[limits] == 0.0).all()


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_in_the_shared_unknowns(seed):
    """States follow theta exactly, in whatever sizes they are measured."""
    rng = np.random.default_rng(seed)
    problem = chains(rng, 3, q=3, states=(1, 4, 2), nodes=(0, 4, 6), growth=0.5)
    matrix, rows = problem.dense(), problem.handovers
    follow = np.linalg.solve(matrix[rows][:, 3:], -matrix[rows][:, :3])
    expected = matrix[:, :3] + matrix[:, 3:] @ follow
    for handover in (INF, 1e4):
        found = problem.linear(handover).in_shared()
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())


def test_a_chain_without_nodes_is_dense():
    rng = np.random.default_rng(0)
    problem = chains(rng, 3, q=4, nodes=(0, 0, 0), priors=6)
    assert problem.n == 4
    check(problem.linear(), np.ones(4), -problem.residual, 0.0)
