"""Identities of the Dormand-Prince coefficients, from rooted trees."""

from __future__ import annotations

import numpy as np
import pytest

from odefit.integrate.tableau import A, B, C, D, E

ONE = np.ones(7)


def weights(x: float) -> np.ndarray:
    """Stage weights of the continuous extension at the fraction `x` of a step, as the module states them."""
    first, last = np.eye(7)[0], np.eye(7)[6]
    return (
        x * B
        + x * (1 - x) * (first - B)
        + x**2 * (1 - x) * (2 * B - first - last)
        + x**2 * (1 - x) ** 2 * D
    )  # fmt: skip


# elementary weights Phi(tree) as vectors over the stages, with the order and density gamma of each tree
TREES = {
    "t": (1, 1, ONE),
    "[t]": (2, 2, C),
    "[t,t]": (3, 3, C**2),
    "[[t]]": (3, 6, A @ C),
    "[t,t,t]": (4, 4, C**3),
    "[t,[t]]": (4, 8, C * (A @ C)),
    "[[t,t]]": (4, 12, A @ C**2),
    "[[[t]]]": (4, 24, A @ A @ C),
    "[t,t,t,t]": (5, 5, C**4),
    "[t,t,[t]]": (5, 10, C**2 * (A @ C)),
    "[t,[t,t]]": (5, 15, C * (A @ C**2)),
    "[t,[[t]]]": (5, 30, C * (A @ A @ C)),
    "[[t],[t]]": (5, 20, (A @ C) ** 2),
    "[[t,t,t]]": (5, 20, A @ C**3),
    "[[t,[t]]]": (5, 40, A @ (C * (A @ C))),
    "[[[t,t]]]": (5, 60, A @ A @ C**2),
    "[[[[t]]]]": (5, 120, A @ A @ A @ C),
}


@pytest.mark.parametrize("tree", TREES)
def test_solution_has_order_five(tree):
    _, density, phi = TREES[tree]
    assert B @ phi == pytest.approx(1 / density, rel=1e-14)


@pytest.mark.parametrize("tree", [name for name, (order, _, _) in TREES.items() if order <= 4])
def test_embedded_solution_has_order_four(tree):
    _, density, phi = TREES[tree]
    assert (B - E) @ phi == pytest.approx(1 / density, rel=1e-14)


def test_embedded_solution_has_not_order_five():
    """Otherwise the difference would not estimate the error."""
    assert max(abs(E @ phi) for order, _, phi in TREES.values() if order == 5) > 1e-4


@pytest.mark.parametrize("x", [0.1, 0.25, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("tree", [name for name, (order, _, _) in TREES.items() if order <= 4])
def test_continuous_extension_has_order_four(tree, x):
    order, density, phi = TREES[tree]
    assert weights(x) @ phi == pytest.approx(x**order / density, rel=1e-13)


def test_continuous_extension_is_smooth_across_steps():
    """Values and slopes at both ends are those of the solution."""
    h = 1e-6
    np.testing.assert_allclose(weights(0.0), 0.0, atol=0)
    np.testing.assert_allclose(weights(1.0), B, rtol=0, atol=1e-16)
    np.testing.assert_allclose(weights(h) / h, np.eye(7)[0], atol=1e-4)
    np.testing.assert_allclose((weights(1.0) - weights(1.0 - h)) / h, np.eye(7)[6], atol=1e-4)


def test_row_sums_are_the_nodes():
    np.testing.assert_allclose(A.sum(axis=1), C, rtol=0, atol=2e-15)


def test_method_is_explicit():
    np.testing.assert_array_equal(np.triu(A), 0.0)


def test_last_stage_is_the_solution():
    np.testing.assert_array_equal(A[6], B)


@pytest.mark.parametrize("row", [B, E, D], ids="BED")
def test_second_stage_has_no_weight(row):
    """The kernels leave it out of their sums."""
    assert row[1] == 0.0
    assert A[6, 1] == 0.0


@pytest.mark.parametrize("row", [E, D], ids="ED")
def test_corrections_vanish_for_constant_slopes(row):
    assert row.sum() == pytest.approx(0.0, abs=5e-15)
