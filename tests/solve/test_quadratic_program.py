"""Programs against brute force over all active sets, and what contradictory rows are told."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from odefit.solve.quadratic_program import CONTRADICTORY, SOLVED, solve_program


def solved(r, b, equality=None, e=None, inequality=None, d=None, guess=None):
    """Return status, row, x, multipliers and active set."""
    n = b.size
    equality = np.empty((0, n)) if equality is None else np.ascontiguousarray(equality, dtype=float)
    inequality = np.empty((0, n)) if inequality is None else np.ascontiguousarray(inequality, dtype=float)
    e = np.empty(0) if e is None else np.asarray(e, dtype=float)
    d = np.empty(0) if d is None else np.asarray(d, dtype=float)
    x, lam, nu = np.full(n, np.nan), np.full(e.size, np.nan), np.full(d.size, np.nan)
    active = np.zeros(d.size, bool) if guess is None else np.array(guess, bool)
    status, row = solve_program(np.ascontiguousarray(r), b, equality, e, inequality, d, x, lam, nu, active)
    return status, row, x, lam, nu, active


def brute_force(r, b, equality, e, inequality, d):
    """Return the best point that meets all rows, of all active sets; None if there is none."""
    n, best, best_value = b.size, None, np.inf
    for k in range(min(n, d.size) + 1):
        for chosen in combinations(range(d.size), k):
            rows = np.vstack([equality, inequality[list(chosen)]])
            right = np.append(e, d[list(chosen)])
            start = np.linalg.lstsq(rows, right, rcond=None)[0] if right.size else np.zeros(n)
            if right.size and np.abs(rows @ start - right).max() > 1e-9 * (1 + np.abs(right).max()):
                continue
            free = np.eye(n)
            if right.size:
                u, s, vt = np.linalg.svd(rows)
                free = vt[int(np.sum(s > 1e-11 * s[0])) :].T
            x = start + free @ np.linalg.lstsq(r @ free, b - r @ start, rcond=None)[0]
            value = np.sum((r @ x - b) ** 2)
            if (inequality @ x - d >= -1e-9 * (1 + np.abs(d))).all() and value < best_value:
                best, best_value = x, value
    return best


def check_kkt(r, b, equality, e, inequality, d, found, tol=1e-10):
    status, row, x, lam, nu, active = found
    assert (status, row) == (SOLVED, -1)
    gradient = r.T @ (r @ x - b)
    size = np.linalg.norm(r.T @ r) * np.linalg.norm(x) + np.linalg.norm(r.T @ b)
    np.testing.assert_allclose(gradient, equality.T @ lam + inequality.T @ nu, atol=tol * size)
    np.testing.assert_allclose(equality @ x, e, atol=tol * (1 + np.linalg.norm(equality) * np.linalg.norm(x)))
    slack = inequality @ x - d
    room = tol * (1 + np.linalg.norm(inequality, axis=1) * np.linalg.norm(x) + np.abs(d))
    assert (slack >= -room).all()
    assert (np.abs(slack[active]) <= room[active]).all()
    assert (nu >= 0.0).all()
    assert (nu[~active] == 0.0).all()


def triangle(rng, n, spread=0.0):
    r = np.linalg.qr(rng.normal(size=(2 * n, n)) * 10.0 ** rng.uniform(-spread, spread, n))[1]
    return np.triu(r)


@pytest.mark.parametrize("seed", range(150))
def test_random_programs_against_brute_force(seed):
    rng = np.random.default_rng(seed)
    n, k, m = int(rng.integers(1, 6)), int(rng.integers(0, 3)), int(rng.integers(0, 8))
    k = min(k, n - 1)
    r, b = triangle(rng, n), 3 * rng.normal(size=n)
    equality, inequality = rng.normal(size=(k, n)), rng.normal(size=(m, n))
    inside = rng.normal(size=n)
    e, d = equality @ inside, inequality @ inside - rng.exponential(size=m) * (rng.random(m) < 0.6)
    found = solved(r, b, equality, e, inequality, d)
    check_kkt(r, b, equality, e, inequality, d, found)
    np.testing.assert_allclose(found[2], brute_force(r, b, equality, e, inequality, d), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("seed", range(80))
def test_degenerate_vertices(seed):
    """Many rows through one point, integers, repeated and dependent ones: ties everywhere."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 5))
    inequality = rng.integers(-2, 3, size=(7, n)).astype(float)
    inequality = np.vstack([inequality, inequality[:2], 2.0 * inequality[2:3]])
    vertex = rng.integers(-2, 3, size=n).astype(float)
    d = inequality @ vertex
    r, b = triangle(rng, n), rng.integers(-5, 6, size=n).astype(float)
    nothing = np.empty((0, n)), np.empty(0)
    found = solved(r, b, *nothing, inequality, d)
    check_kkt(r, b, *nothing, inequality, d, found)
    np.testing.assert_allclose(found[2], brute_force(r, b, *nothing, inequality, d), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("seed", range(60))
def test_bad_scales(seed):
    """Columns of R over twelve orders of magnitude, rows over twelve: unknowns in units of their own."""
    rng = np.random.default_rng(seed)
    n, m = 4, 6
    units, lengths = 10.0 ** rng.uniform(-6, 6, n), 10.0 ** rng.uniform(-6, 6, m)
    r, b = triangle(rng, n), 3 * rng.normal(size=n)
    inequality, inside = rng.normal(size=(m, n)), rng.normal(size=n)
    d = inequality @ inside - rng.exponential(size=m) * (rng.random(m) < 0.6)
    nothing = np.empty((0, n)), np.empty(0)
    plain = solved(r, b, *nothing, inequality, d)
    scaled = solved(r, b, *nothing, lengths[:, None] * inequality, lengths * d)
    np.testing.assert_array_equal(scaled[5], plain[5])
    np.testing.assert_allclose(scaled[2], plain[2], rtol=1e-10, atol=1e-10 * np.linalg.norm(plain[2]))
    np.testing.assert_allclose(scaled[4] * lengths, plain[4], rtol=1e-9, atol=1e-9 * plain[4].max())
    in_units = solved(r / units, b, *nothing, inequality / units, d)
    assert in_units[0] == SOLVED
    np.testing.assert_array_equal(in_units[5], plain[5])
    # a unit of an unknown may make its neighbours look small: what is lost is rounding of the largest
    np.testing.assert_allclose(r @ (in_units[2] / units), r @ plain[2], atol=1e-3 * np.linalg.norm(b))


@pytest.mark.parametrize("weak", [1e-4, 1e-6])
@pytest.mark.parametrize("seed", range(40))
def test_directions_that_are_hardly_determined(seed, weak):
    """Half of the directions have next to no weight: rows that share them look parallel in the metric of R."""
    rng = np.random.default_rng(seed)
    n, m = 5, 7
    u = np.linalg.qr(rng.normal(size=(n, n)))[0]
    r = np.triu(np.linalg.qr(np.array([1.0, 1.0, 1.0, weak, weak])[:, None] * u)[1])
    b, inside = rng.normal(size=n), rng.normal(size=n)
    b[3:] *= weak
    inequality, equality = rng.normal(size=(m, n)), rng.normal(size=(1, n))
    e, d = equality @ inside, inequality @ inside - rng.exponential(size=m) * (rng.random(m) < 0.3)
    found = solved(r, b, equality, e, inequality, d)
    check_kkt(r, b, equality, e, inequality, d, found)


@pytest.mark.parametrize("seed", range(40))
def test_a_guess_changes_nothing_but_the_work(seed):
    rng = np.random.default_rng(seed)
    n, m = 6, 12
    r, b = triangle(rng, n), 3 * rng.normal(size=n)
    equality, inequality, inside = rng.normal(size=(1, n)), rng.normal(size=(m, n)), rng.normal(size=n)
    e, d = equality @ inside, inequality @ inside - rng.exponential(size=m) * (rng.random(m) < 0.6)
    cold = solved(r, b, equality, e, inequality, d)
    for guess in (cold[5], rng.random(m) < 0.5, np.ones(m, bool)):
        warm = solved(r, b, equality, e, inequality, d, guess=guess)
        check_kkt(r, b, equality, e, inequality, d, warm)
        np.testing.assert_allclose(warm[2], cold[2], rtol=1e-10, atol=1e-11)


def check_proof(equality, e, inequality, d, found):
    """The multipliers prove that there is no solution."""
    status, row, _, lam, nu, _ = found
    assert status == CONTRADICTORY
    assert (nu >= 0.0).all()
    used = np.append(lam, nu)
    assert used[row] != 0.0
    total = equality.T @ lam + inequality.T @ nu
    np.testing.assert_allclose(total, 0.0, atol=1e-9 * np.abs(used).max() * max(1.0, np.abs(inequality).max(initial=0)))
    assert e @ lam + d @ nu > 0.0


@pytest.mark.parametrize("seed", range(60))
def test_contradictory_rows_are_proven(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 5)), int(rng.integers(0, 2))
    m = n + 3
    inequality, equality = rng.normal(size=(m, n)), rng.normal(size=(k, n))
    weights = rng.exponential(size=m)
    share = rng.normal(size=k)
    last = -(weights @ inequality + share @ equality)  # a positive combination of all rows vanishes
    inequality = np.vstack([inequality, last])
    inside = rng.normal(size=n)
    e, d = equality @ inside, inequality @ inside
    d[-1] += 0.5
    r, b = triangle(rng, n), rng.normal(size=n)
    check_proof(equality, e, inequality, d, solved(r, b, equality, e, inequality, d))
    d[-1] -= 0.5 + 1e-6  # as good as touching: one point is left
    check_kkt(r, b, equality, e, inequality, d, solved(r, b, equality, e, inequality, d), tol=1e-8)


def test_contradictory_and_dependent_equalities():
    r, b = np.eye(3), np.array([1.0, 2.0, 3.0])
    rows = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0], [2.0, 2.0, 0.0]])
    nothing = np.empty((0, 3)), np.empty(0)
    good = solved(r, b, rows, [1.0, 4.0, 2.0])
    check_kkt(r, b, rows, np.array([1.0, 4.0, 2.0]), *nothing, good)
    assert np.count_nonzero(good[3]) == 2
    bad = solved(r, b, rows, [1.0, 4.0, 3.0])
    assert bad[1] in (0, 2)
    check_proof(rows, np.array([1.0, 4.0, 3.0]), *nothing, bad)
    assert bad[3][1] == 0.0


@pytest.mark.parametrize(("d", "feasible"), [(-1.0, True), (0.0, True), (1.0, False)])
def test_row_that_depends_on_nothing(d, feasible):
    nothing = np.empty((0, 2)), np.empty(0)
    found = solved(np.eye(2), np.ones(2), *nothing, np.zeros((1, 2)), [d])
    if feasible:
        check_kkt(np.eye(2), np.ones(2), *nothing, np.zeros((1, 2)), np.array([d]), found)
    else:
        assert found[:2] == (CONTRADICTORY, 0)


@pytest.mark.parametrize(("d", "feasible"), [(0.5, True), (1.0, True), (1.5, False)])
def test_inequality_along_an_equality(d, feasible):
    rows, e = np.array([[1.0, 1.0]]), np.array([1.0])
    found = solved(np.eye(2), np.zeros(2), rows, e, rows, [d])
    if feasible:
        np.testing.assert_allclose(found[2], 0.5)
        assert found[4][0] == 0.0
    else:
        check_proof(rows, e, rows, np.array([d]), found)


@pytest.mark.parametrize("d", [(0.0, 0.0), (1.0, -1.0)])
def test_two_inequalities_that_make_an_equality(d):
    nothing = np.empty((0, 2)), np.empty(0)
    rows = np.array([[1.0, -1.0], [-1.0, 1.0]])
    for b in ([3.0, 0.0], [0.0, 3.0]):
        found = solved(np.eye(2), np.array(b), *nothing, rows, d)
        check_kkt(np.eye(2), np.array(b), *nothing, rows, np.array(d), found)
        assert found[2][0] - found[2][1] == pytest.approx(d[0], abs=1e-14)


def test_bounds_that_do_not_exist():
    rows = np.vstack([np.eye(2), -np.eye(2)])
    found = solved(np.eye(2), np.array([-3.0, 4.0]), None, None, rows, [-np.inf, 0.0, -np.inf, -1.0])
    np.testing.assert_allclose(found[2], [-3.0, 1.0])
    np.testing.assert_allclose(found[4], [0.0, 0.0, 0.0, 3.0])


@pytest.mark.parametrize("n", [40])
def test_many_bounds(n):
    """A larger one: a box and some rows; only the conditions of optimality can be checked."""
    rng = np.random.default_rng(n)
    r, b = triangle(rng, n, 1.0), 10 * rng.normal(size=n)
    rows = np.vstack([np.eye(n), -np.eye(n), rng.normal(size=(20, n))])
    d = np.concatenate([np.full(2 * n, -0.3), rows[2 * n :] @ rng.uniform(-0.2, 0.2, n)])
    equality, e = np.ones((1, n)), np.zeros(1)
    check_kkt(r, b, equality, e, rows, d, solved(r, b, equality, e, rows, d))
