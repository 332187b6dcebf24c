"""Identities of the coefficients of the pair 8(5,3), from all rooted trees up to order nine."""

from __future__ import annotations

from functools import cache
from math import prod

import numpy as np
import pytest
import scipy.integrate._ivp.dop853_coefficients as published

from odefit.integrate.dop853_tableau import E3, E5, A, B, C, D

Tree = tuple  # of its subtrees, in descending order


@cache
def trees(order: int) -> tuple[Tree, ...]:
    """Return the rooted trees with `order` vertices: a root above a collection of smaller trees."""

    def forests(total: int, largest: Tree | None):
        if total == 0:
            yield ()
        for size in range(1, total + 1):
            for tree in trees(size):
                if largest is None or (size, tree) <= (vertices(largest), largest):
                    yield from ((tree, *rest) for rest in forests(total - size, tree))

    return tuple(forests(order - 1, None))


@cache
def vertices(tree: Tree) -> int:
    return 1 + sum(map(vertices, tree))


def density(tree: Tree) -> int:
    return vertices(tree) * prod(map(density, tree))


def weights_of_stages(tree: Tree) -> np.ndarray:
    """Return the elementary weight of a tree as a vector over the stages."""
    return np.prod([np.ones(C.size), *(A @ weights_of_stages(branch) for branch in tree)], axis=0)


def largest_defect(weights: np.ndarray, order: int, x: float = 1.0) -> float:
    """Return by how much `weights` miss the conditions for trees of `order`, at the fraction `x` of a step."""
    return max(abs(weights @ weights_of_stages(tree) - x**order / density(tree)) for tree in trees(order))


def weights(x: float) -> np.ndarray:
    """Stage weights of the continuous extension at the fraction `x` of a step, as the module states them."""
    first, last = np.eye(16)[0], np.eye(16)[12]
    r = 1 - x
    return (
        x * B
        + x * r * (first - B)
        + x**2 * r * (2 * B - first - last)
        + x**2 * r**2 * (D[0] + x * D[1] + x * r * D[2] + x**2 * r * D[3])
    )


def test_numbers_of_trees():
    """As in Hairer, Norsett and Wanner I, table II.2.1."""
    assert [len(trees(order)) for order in range(1, 10)] == [1, 1, 2, 4, 9, 20, 48, 115, 286]


@pytest.mark.parametrize("order", range(1, 9))
def test_solution_has_order_eight(order):
    assert largest_defect(B, order) < 1e-14


def test_solution_has_not_order_nine():
    assert largest_defect(B, 9) > 1e-7


@pytest.mark.parametrize(("estimate", "highest"), [(E5, 5), (E3, 3)], ids=["E5", "E3"])
def test_orders_of_the_embedded_solutions(estimate, highest):
    """They differ by the estimates, which then go with the power `highest` + 1 of h."""
    for order in range(1, highest + 1):
        assert largest_defect(B - estimate, order) < 1e-14
    assert largest_defect(B - estimate, highest + 1) > 1e-4


@pytest.mark.parametrize("x", [0.1, 0.25, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("order", range(1, 8))
def test_continuous_extension_has_order_seven(order, x):
    assert largest_defect(weights(x), order, x) < 1e-13


def test_continuous_extension_has_not_order_eight():
    assert largest_defect(weights(0.5), 8, 0.5) > 1e-8


def test_continuous_extension_is_smooth_across_steps():
    """Values and slopes at both ends are those of the solution."""
    h = 1e-7
    np.testing.assert_allclose(weights(0.0), 0.0, atol=0)
    np.testing.assert_allclose(weights(1.0), B, rtol=0, atol=1e-15)
    np.testing.assert_allclose(weights(h) / h, np.eye(16)[0], atol=1e-4)
    np.testing.assert_allclose((weights(1.0) - weights(1.0 - h)) / h, np.eye(16)[12], atol=1e-4)


def test_row_sums_are_the_nodes():
    np.testing.assert_allclose(A.sum(axis=1), C, rtol=0, atol=2e-14)


def test_method_is_explicit():
    np.testing.assert_array_equal(np.triu(A), 0.0)


def test_last_two_stages_stand_at_the_end_of_the_step():
    """From them stiffness is recognised."""
    assert C[11] == C[12] == 1.0


@pytest.mark.parametrize("row", [B, E5, E3, *D], ids=["B", "E5", "E3", "D0", "D1", "D2", "D3"])
def test_stages_without_weight(row):
    """The kernels leave them out of their sums."""
    np.testing.assert_array_equal(row[1:5], 0.0)


def test_estimates_do_not_use_the_next_step():
    np.testing.assert_array_equal(E5[12:], 0.0)
    np.testing.assert_array_equal(E3[12:], 0.0)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(A, published.A), (C, published.C), (D, published.D), (E5[:13], published.E5), (E3[:13], published.E3)],
    ids=["A", "C", "D", "E5", "E3"],
)
def test_coefficients_are_those_of_scipy(ours, theirs):
    np.testing.assert_array_equal(ours, theirs)
