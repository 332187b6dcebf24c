"""Householder QR against numpy and scipy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from tests.uncached import uncached

from odefit.native.orthogonal import (
    apply_to_column,
    apply_to_columns,
    apply_transposed,
    factor_columns_pivoted,
    reduce_least_squares,
    reduce_right_side,
)

SHAPES = [(1, 1), (5, 1), (22, 3), (30, 12), (12, 12), (200, 20)]
WIDE = [(1, 4), (3, 7), (11, 12)]
EMPTY = [(0, 3), (4, 0), (0, 0)]


@uncached
def apply_one(a, k, beta, target, j):
    apply_to_column(a, k, beta, target, j)


@uncached
def apply_some(a, k, beta, target, first, last):
    apply_to_columns(a, k, beta, target, first, last)


@uncached
def apply_all(a, n, beta, target):
    apply_transposed(a, n, beta, target)


@uncached
def factor_in_place(a, n, beta, pivot):
    factor_columns_pivoted(a, n, beta, pivot)


def matrix(m: int, n: int) -> np.ndarray:
    return np.random.default_rng(1000 * m + n).normal(size=(m, n))


def residual_of(m: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=m)


def reduce(a: np.ndarray, residual: np.ndarray):
    """R and b, and the factors behind them; unwritten entries would show as NaN."""
    m, n = a.shape
    factors, beta = np.full((m, n + 1), np.nan), np.full(min(m, n), np.nan)
    r, b = np.full((n, n), np.nan), np.full(n, np.nan)
    given = a.copy(), residual.copy()
    reduce_least_squares(a, residual, factors, beta, r, b)
    np.testing.assert_array_equal(a, given[0])
    np.testing.assert_array_equal(residual, given[1])
    return r, b, factors, beta


def assert_factored(a: np.ndarray, residual: np.ndarray, tolerance: float = 1e-13) -> None:
    r, b, _, _ = reduce(a, residual)
    size = np.linalg.norm(a)
    np.testing.assert_array_equal(r, np.triu(r))
    np.testing.assert_allclose(r.T @ r, a.T @ a, atol=tolerance * size**2)
    np.testing.assert_allclose(r.T @ b, -a.T @ residual, atol=tolerance * size * (1 + np.linalg.norm(residual)))


@pytest.mark.parametrize(("m", "n"), SHAPES + WIDE + EMPTY)
def test_triangle_has_the_same_normal_equations(m, n):
    assert_factored(matrix(m, n), residual_of(m))


@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_solution_and_residual_of_least_squares(m, n):
    a, residual = matrix(m, n), residual_of(m)
    r, b, _, _ = reduce(a, residual)
    expected = np.linalg.lstsq(a, -residual, rcond=None)[0]
    np.testing.assert_allclose(np.linalg.solve(r, b), expected, rtol=1e-10, atol=1e-12)
    left_over = np.linalg.norm(residual + a @ expected) ** 2
    np.testing.assert_allclose(residual @ residual - b @ b, left_over, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("m", "n"), SHAPES + WIDE)
def test_triangle_is_that_of_numpy(m, n):
    a = matrix(m, n)
    r = reduce(a, residual_of(m))[0]
    rows = min(m, n)
    np.testing.assert_allclose(np.abs(r[:rows]), np.abs(np.linalg.qr(a, mode="r")), atol=1e-13 * np.linalg.norm(a))
    assert not r[rows:].any()


@pytest.mark.parametrize(("m", "n"), WIDE + EMPTY)
def test_missing_rows_are_zero(m, n):
    r, b, _, _ = reduce(matrix(m, n), residual_of(m))
    assert not r[m:].any()
    assert not b[m:].any()


@pytest.mark.parametrize(("m", "n"), SHAPES + WIDE + EMPTY)
def test_another_right_side(m, n):
    a, other = matrix(m, n), residual_of(m, seed=5)
    _, _, factors, beta = reduce(a, residual_of(m))
    b = np.full(n, np.nan)
    reduce_right_side(factors, beta, other, b)
    np.testing.assert_allclose(b, reduce(a, other)[1], rtol=0.0, atol=1e-14 * np.linalg.norm(other))


@pytest.mark.parametrize(("m", "n"), SHAPES + WIDE)
def test_reflections_are_orthogonal(m, n):
    _, _, factors, beta = reduce(matrix(m, n), residual_of(m))
    q_transposed = np.eye(m)
    apply_all(factors, n, beta, q_transposed)
    np.testing.assert_allclose(q_transposed @ q_transposed.T, np.eye(m), atol=1e-13)
    triangle = np.triu(factors[:, :n])
    np.testing.assert_allclose(q_transposed.T @ triangle, matrix(m, n), atol=1e-13 * np.sqrt(m * n))


@pytest.mark.parametrize("n_columns", [1, 3, 4, 5, 8, 11])
@pytest.mark.parametrize("m", [1, 2, 9])
def test_columns_together_are_columns_one_by_one(m, n_columns):
    reflection, beta = matrix(m, m), residual_of(m, seed=3)
    alone = matrix(m, n_columns)
    together = alone.copy()
    for k in range(m):
        for j in range(1, n_columns):
            apply_one(reflection, k, beta, alone, j)
        apply_some(reflection, k, beta, together, 1, n_columns)
    np.testing.assert_allclose(together, alone, rtol=0.0, atol=1e-13 * np.abs(alone).max())  # which products are fused?


SCALES = [1e200, 1e-200, 1e300, 1e-290, 1.0]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("m", "n"), [(22, 3), (12, 12), (3, 7)])
def test_huge_and_tiny_matrices(m, n, scale):
    a, residual = matrix(m, n), residual_of(m)
    r, b, _, _ = reduce(a, residual)
    scaled_r, scaled_b, _, _ = reduce(a * scale, residual)
    np.testing.assert_allclose(scaled_r / scale, r, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(scaled_b, b, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("residual_scale", [1e200, 1e-200])
@pytest.mark.parametrize(
    "columns", [(1e200, 1.0, 1e-200), (1e-200, 1e200, 1.0), (1.0, 1e-300, 1e300), (1e150, 1e-150, 1e-10)]
)
def test_columns_of_very_different_size(columns, residual_scale):
    a, residual = matrix(22, 3), residual_of(22)
    r, b, _, _ = reduce(a, residual)
    scaled_r, scaled_b, _, _ = reduce(a * np.array(columns), residual * residual_scale)
    np.testing.assert_allclose(scaled_r / np.array(columns), r, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(scaled_b / residual_scale, b, rtol=1e-11, atol=1e-13)


def deficient(kind: str, m: int, n: int) -> tuple[np.ndarray, int]:
    """A matrix and its rank."""
    a = matrix(m, n)
    if kind == "zero matrix":
        return np.zeros((m, n)), 0
    if kind == "zero column":
        a[:, n // 2] = 0.0
    elif kind == "first column zero":
        a[:, 0] = 0.0
    elif kind == "equal columns":
        a[:, n - 1] = a[:, 0]
    elif kind == "sum of columns":
        a[:, n - 1] = a[:, 0] - 2.0 * a[:, 1]
    elif kind == "rank one":
        return np.outer(a[:, 0], np.arange(1.0, n + 1)), 1
    return a, n - 1


DEFICIENT = ["zero matrix", "zero column", "first column zero", "equal columns", "sum of columns", "rank one"]


@pytest.mark.parametrize("kind", DEFICIENT)
@pytest.mark.parametrize(("m", "n"), [(22, 3), (5, 4), (6, 6)])
def test_rank_deficiency(kind, m, n):
    a, rank = deficient(kind, m, n)
    assert_factored(a, residual_of(m))
    r = reduce(a, residual_of(m))[0]
    assert np.isfinite(r).all()
    assert np.linalg.matrix_rank(r, tol=1e-12) == rank


def test_zero_column_leaves_the_others_alone():
    a, _ = deficient("zero column", 22, 3)
    r, b, _, beta = reduce(a, residual_of(22))
    alone, b_alone, _, _ = reduce(np.ascontiguousarray(a[:, [0]]), residual_of(22))
    assert r[0, 0] == alone[0, 0]
    assert b[0] == b_alone[0]
    assert beta[1] == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize("row", [0, 3, 4])
def test_missing_numbers_are_never_hidden(row, column, bad):
    a = np.zeros((5, 3)) if row == 4 else matrix(5, 3)
    a[row, column] = bad
    r, b, _, _ = reduce(a, residual_of(5))
    assert not (np.isfinite(r).all() and np.isfinite(b).all())


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_missing_residual_is_never_hidden(bad):
    residual = residual_of(5)
    residual[3] = bad
    assert not np.isfinite(reduce(matrix(5, 3), residual)[1]).any()


# ------------------------------------------------------------------------------------------------- with pivoting


def factor_pivoted(a: np.ndarray, n_columns: int | None = None):
    n = a.shape[1] if n_columns is None else n_columns
    factors, beta = a.copy(), np.zeros(min(a.shape[0], n))
    pivot = np.full(n, -1, dtype=np.int64)
    factor_in_place(factors, n, beta, pivot)
    return factors, beta, pivot


def triangle_of(factors: np.ndarray, n: int) -> np.ndarray:
    return np.triu(factors[: min(len(factors), n), :n])


def assert_pivoted(a: np.ndarray, tolerance: float = 1e-13) -> None:
    n = a.shape[1]
    factors, beta, pivot = factor_pivoted(a)
    r = triangle_of(factors, n)
    assert sorted(pivot) == list(range(n))
    chosen = a[:, pivot]
    np.testing.assert_allclose(r.T @ r, chosen.T @ chosen, atol=tolerance * np.linalg.norm(a) ** 2)
    # the pivot is at least as long as what is left of every later column
    for k in range(len(r)):
        rest = np.linalg.norm(r[k:, k:], axis=0)
        assert (rest <= abs(r[k, k]) * (1 + 1e-12) + tolerance * np.linalg.norm(a)).all()
    rotated = chosen.copy()
    apply_all(factors, n, beta, rotated)
    np.testing.assert_allclose(rotated[: len(r)], r, atol=tolerance * np.linalg.norm(a))
    np.testing.assert_allclose(rotated[len(r) :], 0.0, atol=tolerance * np.linalg.norm(a))


@pytest.mark.parametrize(("m", "n"), SHAPES + WIDE)
def test_pivoted(m, n):
    assert_pivoted(matrix(m, n))


@pytest.mark.parametrize(("m", "n"), SHAPES + WIDE)
def test_pivoted_is_that_of_scipy(m, n):
    a = matrix(m, n)
    factors, _, pivot = factor_pivoted(a)
    r, expected = scipy.linalg.qr(a, mode="r", pivoting=True)
    np.testing.assert_array_equal(pivot, expected)
    rows = min(m, n)
    np.testing.assert_allclose(np.abs(triangle_of(factors, n)), np.abs(r[:rows]), atol=1e-13 * np.linalg.norm(a))


@pytest.mark.parametrize("kind", DEFICIENT)
@pytest.mark.parametrize(("m", "n"), [(22, 3), (5, 4), (6, 6)])
def test_pivoting_reveals_the_rank(kind, m, n):
    a, rank = deficient(kind, m, n)
    assert_pivoted(a)
    factors, _, _ = factor_pivoted(a)
    diagonal = np.abs(np.diag(factors))
    assert (diagonal[:rank] > 1e-3).all()
    assert (diagonal[rank:] < 1e-13).all()


@pytest.mark.parametrize("scale", SCALES)
def test_pivoted_huge_and_tiny(scale):
    a = matrix(22, 3)
    factors, beta, pivot = factor_pivoted(a)
    scaled, scaled_beta, scaled_pivot = factor_pivoted(a * scale)
    np.testing.assert_array_equal(pivot, scaled_pivot)
    np.testing.assert_allclose(beta, scaled_beta, rtol=1e-12)
    np.testing.assert_allclose(triangle_of(scaled, 3) / scale, triangle_of(factors, 3), rtol=1e-11, atol=1e-13)


def test_pivots_go_by_size():
    a = matrix(22, 3) * np.array([1e-200, 1e200, 1.0])
    assert factor_pivoted(a)[2].tolist() == [1, 2, 0]


@pytest.mark.parametrize("n_columns", [1, 2, 4])
def test_only_the_first_columns_are_factored(n_columns):
    a = matrix(6, 5)
    factors, beta, pivot = factor_pivoted(a, n_columns)
    np.testing.assert_array_equal(factors[:, n_columns:], a[:, n_columns:])
    alone, beta_alone, pivot_alone = factor_pivoted(np.ascontiguousarray(a[:, :n_columns]))
    np.testing.assert_array_equal(factors[:, :n_columns], alone)
    np.testing.assert_array_equal(beta, beta_alone)
    np.testing.assert_array_equal(pivot, pivot_alone)
