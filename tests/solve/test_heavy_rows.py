"""Steps with rows of very large and infinite weight, and the subspace filter, against dense references."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.linalg import null_space, qr

from odefit.solve import Heavy, HeavyMisfit, LeastSquares, Scaling, Triangle
from odefit.solve.continuation import reweighted
from odefit.solve.contract import NO_HEAVY
from odefit.solve.factor_step import FactorSteps
from odefit.solve.steps import DAMPED, SUBSPACE

INF = np.inf
SEEDS = range(10)


class Linear:
    """A reduced linear model; its light residual is -b."""

    def __init__(self, r, b, heavy=NO_HEAVY):
        self.reduced = Triangle(np.ascontiguousarray(r), b, heavy)

    def triangle(self):
        return self.reduced

    def residual_in_triangle(self, residual):
        return -residual


def problem_of(r, b, heavy=NO_HEAVY, x=None, lower=None, upper=None):
    """Return the step problem with scales one."""
    n = b.size
    x = np.zeros(n) if x is None else np.asarray(x, dtype=float)
    lower = np.full(n, -INF) if lower is None else np.asarray(lower, dtype=float)
    upper = np.full(n, INF) if upper is None else np.asarray(upper, dtype=float)
    made = FactorSteps(Scaling(x, np.ones(n, bool)), lower, upper, heavy.root)
    made.move(Linear(r, b, heavy), x)
    return made


def random_rows(seed, n, k, root):
    rng = np.random.default_rng(97 * seed + 10 * n + k)
    r = np.linalg.qr(rng.normal(size=(2 * n, n)))[1]
    return r, rng.normal(size=n), Heavy(rng.normal(size=(k, n)), rng.normal(size=k), np.full(k, float(root)))


def exact_solution(rows, right):
    """Solve the normal equations in rational arithmetic: no rounding at all."""
    a = [[Fraction(float(v)) for v in row] for row in rows]
    c = [Fraction(float(v)) for v in right]
    n = len(a[0])
    m = [[sum(row[i] * row[j] for row in a) for j in range(n)] for i in range(n)]
    g = [sum(row[i] * v for row, v in zip(a, c, strict=True)) for i in range(n)]
    for i in range(n):
        for j in range(i + 1, n):
            f = m[j][i] / m[i][i]
            m[j] = [p - f * q for p, q in zip(m[j], m[i], strict=True)]
            g[j] -= f * g[i]
    x = [Fraction(0)] * n
    for i in reversed(range(n)):
        x[i] = (g[i] - sum(m[i][j] * x[j] for j in range(i + 1, n))) / m[i][i]
    return np.array([float(v) for v in x])


def kkt(r, b, rows, right):
    """Solve min ||R v - b|| subject to E v = e."""
    n, k = b.size, right.size
    matrix = np.block([[r.T @ r, rows.T], [rows, np.zeros((k, k))]])
    return np.linalg.solve(matrix, np.concatenate([r.T @ b, right]))[:n]


def diagonal_form(r, b):
    q, du, _ = qr(r, pivoting=True)
    return np.diag(du), q.T @ b


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("radius", [1e-2, 0.3, 1.0, 3.0, INF])
def test_subspace_filter_promises_most(seed, n, radius):
    """(30) against all ranks and a fine grid of multiples; its promise lies between the best of these and (28)."""
    rng = np.random.default_rng(seed)
    r = np.linalg.qr(rng.normal(size=(2 * n, n)))[1] * 10.0 ** rng.uniform(-2, 0, size=n)
    b = rng.normal(size=n)
    problem = problem_of(r, b)
    step = problem.step(radius, SUBSPACE)
    d, c = diagonal_form(r, b)
    best = 0.0
    for rho in range(1, n + 1):
        x = c[:rho] / d[:rho]
        longest = min(1.0, radius / np.linalg.norm(x))
        for alpha in np.linspace(0.0, longest, 201):
            best = max(best, 0.5 * (c[:rho] @ c[:rho] - np.sum((d[:rho] * alpha * x - c[:rho]) ** 2)))
    assert step.promised == pytest.approx(best, rel=1e-9)
    assert step.length <= radius * (1 + 1e-12)
    assert step.promised <= problem.step(radius * 1.002, DAMPED).promised * (1 + 1e-9)
    full = problem.step(INF, DAMPED)
    assert (step.damping == 0.0) == (full.length <= radius)
    if step.damping == 0.0:
        np.testing.assert_allclose(step.v, full.v, rtol=1e-10)


@pytest.mark.parametrize("weight", [1e6, 1e12, 1e20, 1e24, 1e30])
@pytest.mark.parametrize(("n", "k"), [(3, 1), (3, 2), (4, 3)])
@pytest.mark.parametrize("seed", range(4))
def test_full_step_with_large_weights_is_exact_to_rounding(seed, n, k, weight):
    """Column "QR, rows sorted by weight": no digits are lost, whatever the weight."""
    r, b, heavy = random_rows(seed, n, k, np.sqrt(weight))
    step = problem_of(r, b, heavy).step(INF)
    exact = exact_solution(np.vstack([heavy.root[:, None] * heavy.rows, r]), np.append(heavy.root * heavy.right, b))
    condition = np.linalg.cond(np.vstack([heavy.rows, r])) * np.linalg.cond(heavy.rows) * np.linalg.cond(r)
    assert step.rank == n
    assert np.linalg.norm(step.v - exact) <= 1e-15 * condition * np.linalg.norm(exact)


@pytest.mark.parametrize("roots", [(1e15, 1e9, 1e4), (1e12, 1e12, 50.0), (1e15, 1e15, 1e15)])
@pytest.mark.parametrize("seed", range(4))
def test_weights_of_different_size(seed, roots):
    r, b, heavy = random_rows(seed, 4, 3, 1.0)
    heavy = Heavy(heavy.rows, heavy.right, np.array(roots))
    step = problem_of(r, b, heavy).step(INF)
    exact = exact_solution(np.vstack([heavy.root[:, None] * heavy.rows, r]), np.append(heavy.root * heavy.right, b))
    np.testing.assert_allclose(step.v, exact, rtol=1e-10, atol=1e-10)
    assert step.rank == 4


@pytest.mark.parametrize("root", [1e3, 1e8, 1e12, 1e15])
def test_repeated_heavy_rows_leave_the_light_ones_their_say(root):
    """Two heavy rows of the same direction: what elimination leaves of the second is rounding."""
    r, b, heavy = random_rows(1, 3, 1, root)
    twice = Heavy(
        np.vstack([heavy.rows, heavy.rows / 3.0]), np.append(heavy.right, heavy.right / 3.0), np.full(2, root)
    )
    once = Heavy(heavy.rows, heavy.right, heavy.root * np.sqrt(1 + 1 / 9))
    found, expected = problem_of(r, b, twice).step(INF), problem_of(r, b, once).step(INF)
    assert found.rank == 3
    np.testing.assert_allclose(found.v, expected.v, rtol=1e-7)


@pytest.mark.parametrize("root", [1e3, 1e12])
def test_rank_without_light_rows(root):
    """Heavy rows alone determine as many directions as they are."""
    _, _, heavy = random_rows(2, 4, 2, root)
    step = problem_of(np.zeros((4, 4)), np.zeros(4), heavy).step(INF)
    assert step.rank == 2
    np.testing.assert_allclose(heavy.rows @ step.v, heavy.right, rtol=1e-10)


@pytest.mark.parametrize(("n", "k"), [(2, 1), (4, 1), (4, 3), (3, 3)])
@pytest.mark.parametrize("seed", SEEDS)
def test_infinite_weights_against_kkt(seed, n, k):
    r, b, heavy = random_rows(seed, n, k, INF)
    step = problem_of(r, b, heavy).step(INF)
    np.testing.assert_allclose(step.v, kkt(r, b, heavy.rows, heavy.right), rtol=1e-8, atol=1e-10)
    assert step.rank == n


@pytest.mark.parametrize("seed", SEEDS)
def test_infinite_and_large_weights_together(seed):
    r, b, heavy = random_rows(seed, 4, 2, INF)
    mixed = Heavy(heavy.rows, heavy.right, np.array([INF, 1e7]))
    weighted = np.vstack([1e7 * heavy.rows[1:], r])
    step = problem_of(r, b, mixed).step(INF)
    exact = exact_solution(
        np.vstack([1e25 * heavy.rows[:1], weighted]),
        np.concatenate([1e25 * heavy.right[:1], 1e7 * heavy.right[1:], b]),
    )
    np.testing.assert_allclose(step.v, exact, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", [DAMPED, SUBSPACE])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("radius", [1e-2, 0.1, 1.0, 10.0, 1e3])
def test_trust_region_in_the_null_space(seed, radius, kind):
    """Rows hold where four fifths of the radius allow it; the rest of the step does not disturb them."""
    r, b, heavy = random_rows(seed, 4, 2, INF)
    step = problem_of(r, b, heavy).step(radius, kind)
    shortest = np.linalg.pinv(heavy.rows) @ heavy.right
    fraction = min(1.0, 0.8 * radius / np.linalg.norm(shortest))
    np.testing.assert_allclose(heavy.rows @ step.v, fraction * heavy.right, rtol=1e-8, atol=1e-12)
    tangential = step.v - fraction * shortest
    np.testing.assert_allclose(heavy.rows @ tangential, 0.0, atol=1e-12 * max(1.0, radius))
    assert step.length <= radius * 1.0011
    # within the null space the step is the one of the reduced problem
    z = null_space(heavy.rows)
    left = b - r @ (fraction * shortest)
    reduced = np.linalg.norm(left) ** 2 - np.linalg.norm(r @ tangential - left) ** 2
    assert reduced >= 0.0
    gauss_newton = np.linalg.lstsq(r @ z, left, rcond=None)[0]
    if step.damping == 0.0:
        np.testing.assert_allclose(tangential, z @ gauss_newton, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("radius", [0.3, INF])
def test_repeated_rows_of_infinite_weight(seed, radius):
    r, b, heavy = random_rows(seed, 4, 2, INF)
    combined = np.vstack([heavy.rows, heavy.rows.sum(axis=0), 1e-3 * heavy.rows[0]])
    right = np.append(heavy.right, [heavy.right.sum(), 1e-3 * heavy.right[0]])
    found = problem_of(r, b, Heavy(combined, right, np.full(4, INF))).step(radius)
    expected = problem_of(r, b, heavy).step(radius)
    assert found.rank == 4
    if radius == INF:
        np.testing.assert_allclose(found.v, expected.v, rtol=1e-7, atol=1e-9)
    assert found.length <= radius * 1.0011


@pytest.mark.parametrize("n", [1, 2, 3])
def test_more_rows_of_infinite_weight_than_unknowns(n):
    r, b, heavy = random_rows(0, n, n + 3, INF)
    wanted = np.arange(1.0, n + 1)
    step = problem_of(r, b, heavy._replace(right=heavy.rows @ wanted)).step(INF)
    np.testing.assert_allclose(step.v, wanted, rtol=1e-9)
    contradictory = problem_of(r, b, heavy).step(INF)
    assert np.isfinite(contradictory.v).all()


@pytest.mark.parametrize("root", [INF, 1e12, 1e3])
def test_row_that_depends_on_nothing(root):
    r, b, _ = random_rows(0, 3, 1, root)
    heavy = Heavy(np.zeros((1, 3)), np.ones(1), np.array([root]))
    step = problem_of(r, b, heavy).step(INF)
    assert step.rank == 3
    np.testing.assert_allclose(r @ step.v, b, rtol=1e-10)


@pytest.mark.parametrize("seed", range(30))
def test_rows_of_infinite_weight_in_a_box(seed):
    """A full step in the box: unknowns that would leave it stop on the bound, the rows hold with the others."""
    r, b, heavy = random_rows(seed, 5, 1, INF)
    lower, upper = np.full(5, -0.6), np.full(5, 0.7)
    heavy = heavy._replace(right=heavy.rows @ np.random.default_rng(seed).uniform(-0.1, 0.1, size=5))
    step = problem_of(r, b, heavy, lower=lower, upper=upper).step(INF)
    assert (step.x >= lower).all()
    assert (step.x <= upper).all()
    free = (step.x > lower) & (step.x < upper)
    if free.any():
        np.testing.assert_allclose(heavy.rows @ step.v, heavy.right, atol=1e-10)
        # among the free unknowns it is the solution of the problem that is left
        z = null_space(heavy.rows[:, free])
        gradient = r.T @ (r @ step.v - b)
        np.testing.assert_allclose(z.T @ gradient[free], 0.0, atol=1e-8)


def test_bound_is_left_where_an_exact_row_asks_for_it():
    """The light rows press x0 against its bound, but the row of infinite weight can be met no other way."""
    heavy = Heavy(np.array([[1.0]]), np.array([0.5]), np.array([INF]))
    problem = problem_of(np.array([[1.0]]), np.array([-3.0]), heavy, lower=[0.0])
    step = problem.step(INF)
    assert step.v[0] == pytest.approx(0.5)
    assert not problem.held[0]


def test_bounds_at_a_stationary_point_with_an_exact_row():
    """x0 + x1 + x2 = 0 with x0, x1 >= 0: the multiplier presses x0 only once x1 is held."""
    heavy = Heavy(np.ones((1, 3)), np.zeros(1), np.array([INF]))
    problem = problem_of(np.eye(3), np.array([-1.0, -10.0, 0.0]), heavy, lower=[0.0, 0.0, -INF])
    step = problem.step(INF)
    np.testing.assert_array_equal(problem.held, [True, True, False])
    np.testing.assert_allclose(step.v, 0.0, atol=1e-15)
    assert step.decrement == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("k", [1, 2])
def test_held_unknowns_have_multipliers_of_the_right_sign(seed, k):
    r, b, heavy = random_rows(seed, 5, k, INF)
    heavy = heavy._replace(right=np.zeros(k))
    problem = problem_of(r, b, heavy, lower=[0.0, 0.0, 0.0, -INF, -INF])
    problem.step(1.0)
    held = problem.held.copy()
    descent = r.T @ b
    mu = np.linalg.lstsq(heavy.rows[:, ~held].T, descent[~held], rcond=None)[0]
    reduced = descent - heavy.rows.T @ mu
    assert (reduced[held] <= 1e-12).all()
    assert (reduced[:3][~held[:3]] >= -1e-12).all()


@pytest.mark.parametrize("radius", [0.5, INF])
@pytest.mark.parametrize("root", [INF, 1e3, 1e8])
@pytest.mark.parametrize("seed", SEEDS)
def test_second_order_correction_with_heavy_rows(seed, root, radius):
    """With curvature w in all rows the full correction removes it: the rows of the corrected step hold for e - w."""
    r, b, heavy = random_rows(seed, 4, 2, root)
    problem = problem_of(r, b, heavy)
    step = problem.step(radius)
    rng = np.random.default_rng(seed)
    light, exact = 1e-3 * rng.normal(size=4), 1e-3 * rng.normal(size=2)
    missed = HeavyMisfit(-(heavy.right - heavy.rows @ step.v - exact), heavy.root, 0.0)
    trial = LeastSquares(step.x, 1, 1.0, -(b - r @ step.v - light), None, 1.0, 0.0, missed)
    corrected, length = problem.correction(step, trial)
    moved = corrected - step.v
    assert length > 0.0
    if np.isinf(root):
        np.testing.assert_allclose(heavy.rows @ moved, -exact, rtol=1e-8, atol=1e-12)
    if radius == INF and np.isinf(root):
        np.testing.assert_allclose(moved, kkt(r, -light, heavy.rows, -exact), rtol=1e-7, atol=1e-11)
    elif radius == INF:
        rows = np.vstack([root * heavy.rows, r])
        np.testing.assert_allclose(moved, exact_solution(rows, np.append(-root * exact, -light)), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("alpha", [0.5, 0.25, 2.0**-10])
@pytest.mark.parametrize("root", [0.0, 1e3, INF])
def test_fraction_of_a_step(alpha, root):
    r, b, heavy = random_rows(3, 4, 2, root) if root else (*random_rows(3, 4, 0, 1.0)[:2], NO_HEAVY)
    problem = problem_of(r, b, heavy)
    full = problem.step(INF)
    part = problem.shortened(full, alpha)
    np.testing.assert_allclose(part.v, alpha * full.v, rtol=1e-15)
    np.testing.assert_allclose(part.x, alpha * full.v, rtol=1e-15)
    assert part.length == alpha * full.length
    finite = np.isfinite(heavy.root)
    rows = np.vstack([heavy.root[finite, None] * heavy.rows[finite], r]) if root else r
    right = np.append(heavy.root[finite] * heavy.right[finite], b)
    expected = 0.5 * (right @ right - np.sum((rows @ part.v - right) ** 2))
    assert part.promised == pytest.approx(expected, rel=1e-8)
    assert (part.rank, part.condition, part.decrement) == (full.rank, full.condition, full.decrement)


@pytest.mark.parametrize("seed", range(30))
def test_full_step_in_a_box_promises_what_a_gradient_step_does(seed):
    """An infinite radius must not switch off the safeguard against too many bounds at once."""
    rng = np.random.default_rng(seed)
    r = np.linalg.qr(rng.normal(size=(8, 4)))[1] * 10.0 ** rng.uniform(-1.5, 0, size=4)
    b = 10 * rng.normal(size=4)
    lower, upper = -rng.uniform(0.01, 1.0, size=4), rng.uniform(0.01, 1.0, size=4)
    step = problem_of(r, b, lower=lower, upper=upper).step(INF)
    best = 0.0
    for t in np.geomspace(1e-6, 1e6, 400):
        v = np.clip(t * (r.T @ b), lower, upper)
        best = max(best, 0.5 * (b @ b - np.sum((r @ v - b) ** 2)))
    assert step.promised >= 0.09 * best


def test_a_weight_too_large_for_a_number_makes_the_value_infinite():
    nothing = np.zeros(0)
    heavy = HeavyMisfit(np.array([1e200]), np.array([1.0]), 2.0)
    point = LeastSquares(nothing, 0, 0.0, nothing, None, 0.0, 0.0, heavy)
    assert reweighted(point, np.array([1e10])).value == np.inf
    assert reweighted(point, np.array([np.inf])).value == 2.0
