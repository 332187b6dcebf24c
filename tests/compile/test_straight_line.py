"""Straight-line code of an elimination against the looped kernels, and its cache."""

from __future__ import annotations

import logging
import subprocess
import sys

import numpy as np
import pytest
from tests.uncached import uncached

from odefit.compile import elimination_code as code_module
from odefit.compile import store
from odefit.compile.elimination_code import elimination_code
from odefit.compile.elimination_order import order_of_pattern
from odefit.compile.machine import LoadedObject, build_object
from odefit.compile.straight_line import elimination_assembly, has_diagonal_pivots
from odefit.integrate.multistep import bdf_formula
from odefit.native.cache_folder import read_cached
from odefit.native.linear_systems import (
    FACTORISED,
    GROWN,
    GROWTH_LIMIT,
    SINGULAR,
    Elimination,
    factorise_matrix,
    seed_products,
    solve_blocks,
    solve_for_vector,
    step_directions,
)

N_P = 3
EMPTY = np.empty(0, dtype=np.int64)


@uncached
def factorise(e, jac, shift, n, a, pivots, work, limit):
    return factorise_matrix(e, jac, shift, n, a, pivots, work, limit)


@uncached
def solve(e, n, a, pivots, work, x):
    solve_for_vector(e, n, a, pivots, work, x)


@uncached
def solve_many(e, n, a, pivots, work, x):
    return solve_blocks(e, n, a, pivots, work, x, 0)


@uncached
def step(e, jac, n, slot, c, a, pivots, work, s, seeds, d, with_d):
    return step_directions(e, jac, n, slot, c, a, pivots, work, s, seed_products(e, n, seeds), d, with_d)


@uncached
def formula(psi, k, w, c):
    bdf_formula(psi, k, w, c)


def jacobian(n: int, seed: int, density: float = 0.25) -> np.ndarray:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(n, n + N_P)) * (rng.uniform(size=(n, n + N_P)) < density)
    matrix[rng.integers(n), n + rng.integers(N_P)] = 1.5
    return matrix


def csr(matrix):
    rows, col = np.nonzero(matrix)
    return np.searchsorted(rows, np.arange(matrix.shape[0] + 1)), col, matrix[rows, col]


class Both:
    """Loops and code for one matrix."""

    def __init__(self, matrix, chunk=None, monkeypatch=None):
        self.n = n = matrix.shape[0]
        row_ptr, col, self.jac = csr(matrix)
        self.loops = order_of_pattern(n, row_ptr, col)
        if chunk is not None:
            monkeypatch.setattr("odefit.compile.straight_line.CHUNK", chunk)
        text = elimination_assembly(self.loops)
        self.library = LoadedObject(build_object(text, text.count("\n"), passes=False))
        names = ("factorise", "solve", "solve_blocks")
        self.code = self.loops._replace(**{name: self.library.address(name) for name in names})
        self.n_values = self.loops.l_col.size + self.loops.u_col.size + n

    def factors(self, e, shift, limit=GROWTH_LIMIT):
        a = np.full(self.n_values, np.nan)
        return factorise(e, self.jac, shift, self.n, a, EMPTY, np.empty(4 * self.n), limit), a


by_size = pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 10, 14, 20, 27, 40])


@by_size
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_factors_and_solutions_are_those_of_the_loops(n, seed):
    both = Both(jacobian(n, 100 * n + seed))
    rng = np.random.default_rng(seed)
    shift = 10.0 ** rng.uniform(0.5, 3)
    expected, a = both.factors(both.loops, shift, np.inf)
    outcome, found = both.factors(both.code, shift, np.inf)
    assert outcome == expected == FACTORISED
    np.testing.assert_array_equal(found, a)
    work = np.empty(4 * n)
    x = rng.normal(size=n)
    z = x.copy()
    solve(both.loops, n, a, EMPTY, work, x)
    solve(both.code, n, a, EMPTY, work, z)
    np.testing.assert_allclose(z, x, rtol=1e-13, atol=1e-15 * np.abs(x).max())  # loops fuse fewer products
    for blocks in range(10):
        b = rng.normal(size=(1, blocks * n * 4))
        x, z = b.copy(), b.copy()
        assert solve_many(both.loops, n, a, EMPTY, work, x)
        assert solve_many(both.code, n, a, EMPTY, work, z)
        np.testing.assert_allclose(z, x, rtol=1e-13, atol=1e-15 * np.abs(x).max(initial=0.0))


@pytest.mark.parametrize("chunk", [1, 30, 200, 10**9])
def test_pieces_of_any_length_compute_the_same(chunk, monkeypatch):
    both = Both(jacobian(13, 5), chunk, monkeypatch)
    outcome, found = both.factors(both.code, 20.0)
    expected, a = both.factors(both.loops, 20.0)
    assert outcome == expected == FACTORISED
    np.testing.assert_array_equal(found, a)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1, 7 * 13 * 4))
    z = x.copy()
    work = np.empty(4 * 13)
    solve_many(both.loops, 13, a, EMPTY, work, x)
    assert solve_many(both.code, 13, a, EMPTY, work, z)
    np.testing.assert_allclose(z, x, rtol=1e-13, atol=1e-15 * np.abs(x).max())
    x, z = x[0, :13].copy(), x[0, :13].copy()
    solve(both.loops, 13, a, EMPTY, work, x)
    solve(both.code, 13, a, EMPTY, work, z)
    np.testing.assert_allclose(z, x, rtol=1e-13, atol=1e-15 * np.abs(x).max())


def test_singular_and_growing_matrices_are_told_apart_as_in_the_loops(monkeypatch):
    """Small integers beside huge numbers: pivots vanish exactly, and entries grow, in all orders of events."""
    seen = []
    rng = np.random.default_rng(0)
    for n, chunk in ((2, None), (3, None), (4, 30), (6, 60)):
        filled = (rng.uniform(size=(n, n + N_P)) < (1.0 if n < 4 else 0.7)) | np.eye(n, n + N_P, dtype=bool)
        both = Both(np.where(filled, 1.0, 0.0), chunk, monkeypatch)
        for _ in range(600):
            both.jac[:] = rng.choice([0.0, 1.0, -1.0, 2.0, 1.0 - 1e-9, 1e6, -1e9], size=both.jac.size)
            expected, _ = both.factors(both.loops, 1.0)
            outcome, _ = both.factors(both.code, 1.0)
            assert outcome == expected
            seen.append((n, outcome))
    assert {(n, outcome) for n in (2, 3, 4, 6) for outcome in (FACTORISED, SINGULAR, GROWN)} <= set(seen)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_value_that_is_not_finite_on_the_diagonal_is_reported(value):
    both = Both(np.array([[1.0, 2.0, 0.0], [3.0, 1.0, 1.0], [0.0, 1.0, 1.0]]))
    for place in (0, 3, 6):
        both.jac[:] = 0.5
        both.jac[place] = value
        assert both.factors(both.code, 10.0)[0] != FACTORISED


@pytest.mark.parametrize("blocks", [1, 3, 7])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_solutions_that_are_not_finite_are_told(blocks, value):
    n = 5
    both = Both(jacobian(n, 3))
    _, a = both.factors(both.code, 50.0)
    for place in range(blocks * n * 4):
        x = np.ones((1, blocks * n * 4))
        x[0, place] = value
        assert not solve_many(both.code, n, a, EMPTY, np.empty(4 * n), x)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 5, 6, 7, 8, 9])
@pytest.mark.parametrize("with_d", [False, True])
def test_step_of_sensitivities(order, blocks, with_d):
    """Every backend, against NumPy's solution of the equation; rows beyond the order hold numbers of no meaning."""
    n, depth = 6, 7
    matrix = jacobian(n, 11)
    both = Both(matrix)
    rng = np.random.default_rng(order)
    psi, w, c = np.empty(depth + 1), np.empty(depth + 1), np.zeros(depth + 1)
    psi[1:] = np.cumsum(rng.uniform(0.05, 0.2, size=depth))
    formula(psi, order, w, c)
    slot = rng.permutation(depth)
    s = rng.normal(size=(depth, blocks, n, 4))
    seeds = rng.normal(size=(blocks, N_P, 4)) * (rng.uniform(size=(blocks, N_P, 4)) < 0.5)
    d = rng.normal(size=(blocks, n, 4))
    right = c[0] * s[slot[1]] - sum(c[j] * (s[slot[j]] - s[slot[1]]) for j in range(2, order + 1))
    right += np.einsum("ij,bjl->bil", matrix[:, n:], seeds) + (d if with_d else 0.0)
    expected = np.linalg.solve(c[0] * np.eye(n) - matrix[:, :n], right)
    dense = Elimination(both.loops.row_ptr, both.loops.mid, both.loops.col, *[EMPTY] * 7)
    for e, n_values, n_pivots in ((dense, n * n, n), (both.loops, both.n_values, 0), (both.code, both.n_values, 0)):
        a, pivots, work = np.empty(n_values), np.empty(n_pivots, np.int64), np.empty(4 * n)
        assert factorise(e, both.jac, c[0], n, a, pivots, work, np.inf) == FACTORISED
        flat = s.reshape(depth, -1).copy()
        assert step(e, both.jac, n, slot, c, a, pivots, work, flat, seeds, d.reshape(1, -1), with_d)
        np.testing.assert_allclose(flat[slot[0]].reshape(blocks, n, 4), expected, rtol=1e-12, atol=1e-13)
        rest = np.delete(np.arange(depth), slot[0])
        np.testing.assert_array_equal(flat[rest], s.reshape(depth, -1)[rest])  # the past is left alone


@by_size
def test_pivots_for_a_pattern_are_on_the_diagonal(n):
    for seed in range(20):
        order = order_of_pattern(n, *csr(jacobian(n, seed))[:2])
        assert has_diagonal_pivots(order)
        assert n == 1 or not has_diagonal_pivots(order._replace(column_of=np.roll(order.column_of, 1)))


# ------------------------------------------------------------------------------------------------------ cache


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("ODEFIT_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def builds(monkeypatch):
    """The orders that are really looked for."""
    made = []
    original = code_module.order_of_pattern
    monkeypatch.setattr(code_module, "order_of_pattern", lambda *a: made.append(a) or original(*a))
    return made


def check(code, matrix):
    """The code solves."""
    n = matrix.shape[0]
    e, jac = code.elimination, csr(matrix)[2]
    a, work, x = np.empty(e.l_col.size + e.u_col.size + n), np.empty(4 * n), np.arange(1.0, n + 1)
    assert e.factorise != 0
    assert factorise(e, jac, 30.0, n, a, EMPTY, work, GROWTH_LIMIT) == FACTORISED
    solve(e, n, a, EMPTY, work, x)
    np.testing.assert_allclose(
        x, np.linalg.solve(30.0 * np.eye(n) - matrix[:, :n], np.arange(1.0, n + 1)), rtol=1e-13
    )  # fmt: skip


def test_second_time_the_order_and_the_code_come_from_the_cache(cache, builds):
    matrix = jacobian(8, 1)
    row_ptr, col, _ = csr(matrix)
    first, second = elimination_code(8, row_ptr, col), elimination_code(8, row_ptr, col)
    assert len(builds) == 1
    for one, other in zip(first.elimination[:10], second.elimination[:10], strict=True):
        np.testing.assert_array_equal(one, other)
        assert other.dtype == np.int64
    check(first, matrix)
    check(second, matrix)
    other = jacobian(8, 2)
    check(elimination_code(8, *csr(other)[:2]), other)
    assert len(builds) == 2


def test_damaged_file_is_made_again(cache, builds, caplog):
    matrix = jacobian(8, 1)
    row_ptr, col, _ = csr(matrix)
    check(elimination_code(8, row_ptr, col), matrix)
    (path,) = (cache / "models").iterdir()
    content = path.read_bytes()
    for damaged in (content[:-1], content[:100], b"", content[:60] + b"?" + content[61:]):
        path.write_bytes(damaged)
        builds.clear()
        caplog.clear()
        check(elimination_code(8, row_ptr, col), matrix)
        assert len(builds) == 1
        assert any("was damaged" in r.getMessage() for r in caplog.records if r.levelno == logging.WARNING)
        assert read_cached(path, store._MARK) is not None


def test_pattern_that_is_too_large_keeps_its_order_only(cache, builds, monkeypatch):
    monkeypatch.setattr(code_module, "LONGEST", 100)
    row_ptr, col, _ = csr(jacobian(8, 1))
    for _ in range(2):
        code = elimination_code(8, row_ptr, col)
        assert code.library is None
        assert code.elimination[10:13] == (0, 0, 0)
        assert sorted(code.elimination.row_of) == list(range(8))
    assert len(builds) == 1


SCRIPT = """
import sys
import numpy as np
from odefit.compile.elimination_code import elimination_code

row_ptr, col = (np.array(text.split(","), dtype=np.int64) for text in sys.argv[1:])
code = elimination_code(8, row_ptr, col)
assert code.elimination.factorise != 0
print(*code.elimination.row_of, "scipy.sparse.linalg" in sys.modules)
"""


def test_another_process_reads_the_file_without_superlu(cache):
    row_ptr, col, _ = csr(jacobian(8, 1))
    code = elimination_code(8, row_ptr, col)
    arguments = [",".join(map(str, array)) for array in (row_ptr, col)]
    answer = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=True, timeout=120
    )
    assert answer.stdout.split() == [*map(str, code.elimination.row_of), "False"]
    assert answer.stderr == ""
