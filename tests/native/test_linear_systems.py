"""Dense and sparse LU of ``shift I - J`` against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from odefit.compile.elimination_order import eliminate, ends_of_states, sparse_pattern
from odefit.native.kernel import kernel
from odefit.native.linear_systems import (
    FACTORISED,
    GROWN,
    SINGULAR,
    Elimination,
    add_product,
    factorise_matrix,
    solve_blocks,
    solve_for_vector,
)

EMPTY = np.empty(0, dtype=np.int64)
by_size = pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 17, 40, 90])
by_backend = pytest.mark.parametrize("backend", ["dense", "sparse"])


@kernel
def factorise(pattern, jac, shift, n, a, pivots, work, limit):
    return factorise_matrix(pattern, jac, shift, n, a, pivots, work, limit)


@kernel
def solve_vector(pattern, n, a, pivots, work, x):
    solve_for_vector(pattern, n, a, pivots, work, x)


@kernel
def solve_rows(pattern, n, a, pivots, work, x, row):
    return solve_blocks(pattern, n, a, pivots, work, x, row)


@kernel
def product(pattern, jac, n, z, row, seeds, out):
    add_product(pattern, jac, n, z, row, seeds, out)


def csr(matrix, n):
    """Return row pointers, columns, and values of a matrix (n, n + n_p)."""
    rows, col = np.nonzero(matrix)
    return np.searchsorted(rows, np.arange(n + 1)), np.ascontiguousarray(col), matrix[rows, col]


def random_jacobian(n, seed, density=0.2, n_p=3):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(n, n + n_p)) * (rng.uniform(size=(n, n + n_p)) < density)
    matrix[:, n:] += 0.1
    return matrix


class System:
    """A factorised matrix of either backend."""

    def __init__(self, matrix, shift, backend, values=None, limit=1e4):
        n = self.n = matrix.shape[0]
        row_ptr, col, self.jac = csr(matrix, n)
        if backend == "dense":
            self.pattern = Elimination(row_ptr, ends_of_states(n, row_ptr, col), col, *[EMPTY] * 7)
            n_values, n_pivots = n * n, n
        else:
            chosen_for = (np.ones(col.size), 2.0 * n) if values is None else (values, shift)
            self.pattern = sparse_pattern(n, row_ptr, col, *chosen_for)
            n_values, n_pivots = self.pattern[7].size + self.pattern[9].size + n, 0
        self.a, self.pivots, self.work = np.empty(n_values), np.empty(n_pivots, np.int64), np.full(4 * n, np.nan)
        arguments = (self.pattern, self.jac, shift, n, self.a, self.pivots, self.work, limit)
        self.outcome = factorise(*arguments)

    def solve(self, b):
        x = b.copy()
        solve_vector(self.pattern, self.n, self.a, self.pivots, self.work, x)
        return x

    def solve_blocks(self, b):
        x = np.stack([np.full(b.size, 7.0), b.ravel()])
        assert solve_rows(self.pattern, self.n, self.a, self.pivots, self.work, x, 1)
        np.testing.assert_array_equal(x[0], 7.0)
        return x[1].reshape(b.shape)


@by_size
@by_backend
@pytest.mark.parametrize("shift", [0.7, 30.0, 1e6])
def test_solutions(n, backend, shift):
    matrix = random_jacobian(n, n)
    full = shift * np.eye(n) - matrix[:, :n]
    # the order of elimination for these values, as after growth
    system = System(matrix, shift, backend, values=csr(matrix, n)[2], limit=np.inf)
    assert system.outcome == FACTORISED
    rng = np.random.default_rng(1)
    b, blocks = rng.normal(size=n), rng.normal(size=(3, n, 4))
    size = np.linalg.cond(full)
    np.testing.assert_allclose(system.solve(b), np.linalg.solve(full, b), rtol=0, atol=1e-13 * size)
    expected = np.stack([np.linalg.solve(full, block) for block in blocks])
    np.testing.assert_allclose(system.solve_blocks(blocks), expected, rtol=0, atol=1e-13 * size)


@by_size
def test_backends_agree_to_rounding_on_diagonally_dominant_matrices(n):
    matrix = random_jacobian(n, 100 + n)
    shift = 3.0 + 2.0 * np.abs(matrix).sum(axis=1).max()
    b = np.random.default_rng(2).normal(size=n)
    dense, sparse = (System(matrix, shift, backend) for backend in ("dense", "sparse"))
    assert dense.outcome == sparse.outcome == FACTORISED
    np.testing.assert_allclose(dense.solve(b), sparse.solve(b), rtol=1e-13, atol=1e-16)


@by_size
def test_product(n):
    matrix = random_jacobian(n, 7)
    pattern = System(matrix, 100.0, "dense").pattern
    rng = np.random.default_rng(3)
    z, seeds, out = rng.normal(size=(2, 3, n, 4)), rng.normal(size=(3, 3, 4)), rng.normal(size=(3, n, 4))
    expected = out + np.einsum("ij,bjl->bil", matrix[:, :n], z[1]) + np.einsum("ij,bjl->bil", matrix[:, n:], seeds)
    found = out.reshape(1, -1)
    product(pattern, csr(matrix, n)[2], n, z.reshape(2, -1), 1, seeds, found)
    np.testing.assert_allclose(found.reshape(out.shape), expected, rtol=1e-13, atol=1e-13)


@by_size
def test_pattern_of_elimination_is_that_of_the_factors(n):
    """Against elimination of the pattern as a dense Boolean matrix."""
    rng = np.random.default_rng(n)
    filled = (rng.uniform(size=(n, n)) < 0.15) | np.eye(n, dtype=bool)
    rows, col = np.nonzero(filled)
    l_ptr, l_col, u_ptr, u_col = eliminate(n, np.searchsorted(rows, np.arange(n + 1)), col)
    for k in range(n):
        for i in range(k + 1, n):
            if filled[i, k]:
                filled[i, k + 1 :] |= filled[k, k + 1 :]
    for i in range(n):
        np.testing.assert_array_equal(l_col[l_ptr[i] : l_ptr[i + 1]], np.flatnonzero(filled[i, :i]))
        np.testing.assert_array_equal(u_col[u_ptr[i] : u_ptr[i + 1]], i + np.flatnonzero(filled[i, i:]))


@by_backend
def test_singular_matrix_is_reported(backend):
    matrix = np.diag([1.0, 2.0, 3.0])
    assert System(matrix, 2.0, backend).outcome == SINGULAR


@by_backend
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_value_that_is_not_finite_is_reported(backend, value):
    matrix = np.array([[1.0, 2.0], [3.0, value]])
    assert System(matrix, 10.0, backend).outcome != FACTORISED


def test_growth_is_reported_and_a_new_order_removes_it():
    """A tiny pivot beside large entries: without exchanges all digits would be lost."""
    matrix = np.kron(np.eye(10), np.array([[0.0, 1e9], [-1e9, 0.0]]))
    system = System(matrix, 1e-3, "sparse")
    assert system.outcome == GROWN
    better = System(matrix, 1e-3, "sparse", values=csr(matrix, 20)[2])
    assert better.outcome == FACTORISED
    b = np.random.default_rng(5).normal(size=20)
    np.testing.assert_allclose(better.solve(b), np.linalg.solve(1e-3 * np.eye(20) - matrix, b), rtol=1e-12)


@by_backend
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_solution_that_is_not_finite_is_told(backend, value):
    system = System(random_jacobian(5, 3), 100.0, backend)
    x = np.ones((1, 40))
    x[0, 33] = value
    assert not solve_rows(system.pattern, 5, system.a, system.pivots, system.work, x, 0)


def test_order_for_a_singular_matrix_is_that_of_the_pattern():
    matrix = np.diag([1.0, 2.0, 3.0])
    row_ptr, col, values = csr(matrix, 3)
    pattern = sparse_pattern(3, row_ptr, col, values, 2.0)
    plain = sparse_pattern(3, row_ptr, col, np.ones(3), 6.0)
    for found, expected in zip(pattern, plain, strict=True):
        np.testing.assert_array_equal(found, expected)
