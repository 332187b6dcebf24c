"""Coefficients of the explicit methods: order conditions of all rooted trees, and the kernels made of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.integrate._ivp.dop853_coefficients as scipy_dop853
from benchmarks.tableaux import tsitouras54, verner65
from rooted_trees import dense_weights, largest_defect, trees

from odefit.integrate import METHODS, dop853, dopri5, rk32
from odefit.integrate.explicit import ExplicitRungeKutta
from odefit.integrate.schemes import source_of
from odefit.integrate.tableau import from_powers, hermite

TABLEAUX = {module.TABLEAU.name: module.TABLEAU for module in (rk32, dopri5, dop853, tsitouras54, verner65)}
ROUNDED = {"rk32": 1e-15, "dopri5": 1e-15, "dop853": 5e-15, "tsit54": 1e-14, "verner65": 2e-12}
"""What rounding of the published coefficients, up to 10^5 in the extension of verner65, leaves of identities."""
EMBEDDED = {"dop853": (5, 3)}
"""Orders of the embedded solutions, where they do not follow from the power of h that the estimate goes with."""

by_tableau = pytest.mark.parametrize("tableau", TABLEAUX.values(), ids=TABLEAUX)


def solution(tableau) -> np.ndarray:
    return tableau.A[tableau.n_stages - 1]


def embedded(tableau) -> list[tuple[np.ndarray, int]]:
    """Return the error estimates, and the order of the solution that each belongs to."""
    estimates = [one for one in (tableau.error, tableau.error_low) if one is not None]
    return list(zip(estimates, EMBEDDED.get(tableau.name, (tableau.error_order - 1,)), strict=True))


def test_every_explicit_method_is_here():
    assert {name for name, method in METHODS.items() if isinstance(method, ExplicitRungeKutta)} <= set(TABLEAUX)


def test_numbers_of_trees():
    """As in Hairer, Norsett and Wanner I, table II.2.1: 17 up to order five, 200 up to order eight."""
    numbers = [len(trees(order)) for order in range(1, 10)]
    assert numbers == [1, 1, 2, 4, 9, 20, 48, 115, 286]
    assert (sum(numbers[:5]), sum(numbers[:8])) == (17, 200)


@by_tableau
class TestCoefficients:
    def test_shapes(self, tableau):
        n_all = tableau.c.size
        assert tableau.A.shape == (n_all, n_all)
        assert tableau.error.shape == (n_all,)
        assert tableau.dense.shape[1:] == (n_all,)
        assert 1 < tableau.n_stages <= n_all

    def test_method_is_explicit(self, tableau):
        np.testing.assert_array_equal(np.triu(tableau.A), 0.0)

    def test_row_sums_are_the_nodes(self, tableau):
        sizes = np.maximum(1.0, np.abs(tableau.A).sum(axis=1))
        assert (np.abs(tableau.A.sum(axis=1) - tableau.c) / sizes).max() < ROUNDED[tableau.name]

    def test_last_stage_of_a_step_is_the_first_of_the_next(self, tableau):
        """It stands at the end of the step, at the new value, and not among its own weights."""
        last = tableau.n_stages - 1
        assert (tableau.c[0], tableau.c[last]) == (0.0, 1.0)
        np.testing.assert_array_equal(solution(tableau)[last:], 0.0)

    def test_order_of_the_solution(self, tableau):
        for order in range(1, tableau.order + 1):
            assert largest_defect(tableau, solution(tableau), order) < ROUNDED[tableau.name], order
        assert largest_defect(tableau, solution(tableau), tableau.order + 1) > 1e-6

    def test_orders_of_the_embedded_solutions(self, tableau):
        """Otherwise the difference would not go with the power of h that step-size control supposes."""
        for estimate, highest in embedded(tableau):
            for order in range(1, highest + 1):
                assert largest_defect(tableau, solution(tableau) - estimate, order) < ROUNDED[tableau.name], order
            assert largest_defect(tableau, solution(tableau) - estimate, highest + 1) > 1e-5

    def test_estimates_need_no_stage_of_the_extension(self, tableau):
        for estimate, _ in embedded(tableau):
            np.testing.assert_array_equal(estimate[tableau.n_stages :], 0.0)

    @pytest.mark.parametrize("x", [0.1, 0.25, 0.5, 0.8, 0.95])
    def test_order_of_the_continuous_extension(self, tableau, x):
        for order in range(1, tableau.dense_order + 1):
            assert largest_defect(tableau, dense_weights(tableau, x), order, x) < ROUNDED[tableau.name], order

    def test_order_of_the_continuous_extension_is_not_higher(self, tableau):
        beyond = tableau.dense_order + 1
        assert largest_defect(tableau, dense_weights(tableau, 0.5), beyond, 0.5) > 1e-6

    def test_continuous_extension_is_smooth_across_steps(self, tableau):
        """Values and slopes at both ends are those of the solution: x(d_0 + r(d_1 + x(d_2 + ...))) by hand."""
        first, last = np.eye(tableau.c.size)[[0, tableau.n_stages - 1]]
        d = tableau.dense
        tolerance = {"rtol": 0, "atol": 10 * ROUNDED[tableau.name]}
        np.testing.assert_array_equal(dense_weights(tableau, 0.0), 0.0)
        np.testing.assert_allclose(d[0], solution(tableau), **tolerance)
        np.testing.assert_allclose(d[0] + d[1], first, **tolerance)
        np.testing.assert_allclose(d[0] - d[1] - d[2], last, **tolerance)

    def test_stiffness_is_seen_from_two_stages_at_one_time(self, tableau):
        if math.isfinite(tableau.stiff_from):
            last = tableau.n_stages - 1
            assert tableau.c[last - 1] == tableau.c[last]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (dop853.TABLEAU.A, scipy_dop853.A),
        (dop853.TABLEAU.c, scipy_dop853.C),
        (dop853.TABLEAU.error[:13], scipy_dop853.E5),
        (dop853.TABLEAU.error_low[:13], scipy_dop853.E3),
        (dop853.TABLEAU.dense[3:], scipy_dop853.D),
    ],
    ids=["A", "c", "E5", "E3", "D"],
)
def test_coefficients_of_dop853_are_those_of_scipy(ours, theirs):
    np.testing.assert_array_equal(ours, theirs)


# --- polynomials ---


@pytest.mark.parametrize("degree", range(1, 8))
def test_polynomials_from_powers(degree):
    powers = np.random.default_rng(degree).normal(size=(degree, 3))
    tableau = dopri5.TABLEAU._replace(c=np.zeros(3), dense=from_powers(powers))
    for x in (0.0, 0.2, 0.5, 0.9, 1.0):
        expected = sum(powers[i] * x ** (i + 1) for i in range(degree))
        np.testing.assert_allclose(dense_weights(tableau, x), expected, rtol=1e-13, atol=1e-14)


def test_hermite_is_the_cubic_of_values_and_slopes():
    """For slopes k of a solution with weights b: x^2(3-2x) b k + x(1-x)^2 k_first - x^2(1-x) k_last."""
    b = np.array([0.2, 0.5, 0.3, 0.0])
    tableau = rk32.TABLEAU._replace(dense=hermite(b, 3))
    for x in (0.1, 0.5, 0.7):
        expected = x**2 * (3 - 2 * x) * b
        expected[0] += x * (1 - x) ** 2
        expected[3] -= x**2 * (1 - x)
        np.testing.assert_allclose(dense_weights(tableau, x), expected, rtol=1e-14, atol=1e-16)


# --- the kernels that are made of the coefficients, as Python ---

N, BLOCKS, N_P = 3, 2, 2
WIDTH = BLOCKS * N * 4


class System:
    """Stands for the model y' = cos(y + t); of the directions it only matters what they are called with."""

    value, p, u, n = "f", None, None, N


def call_model(address, t, y, at, p, u, out, out_at):
    assert address == "f"
    out.reshape(-1)[out_at : out_at + N] = np.cos(y.reshape(-1)[at : at + N] + t)


def slopes_of(system, t, states, at, z, seeds, out, s):
    out[s] = np.sin(z[0]) * t + states.reshape(-1)[at] + seeds.sum()


def tolerance(atol, rtol, old, new) -> float:
    return atol + rtol * max(abs(old), abs(new))


def kernels(tableau) -> dict:
    made = {
        "kernel": lambda inline: lambda function: function, "call_model": call_model, "slopes_of": slopes_of,
        "math": math, "np": np, "tolerance": tolerance, "dense": tableau.dense,
    }  # fmt: skip
    exec(source_of(tableau), made)
    return made


def random(*shape) -> np.ndarray:
    return np.random.default_rng(7).normal(size=shape)


@by_tableau
class TestKernels:
    def test_stages(self, tableau):
        y, k, h = random(1, N), random(tableau.c.size, N), 0.3
        for s in range(1, tableau.c.size):
            out = np.zeros((5, N))
            kernels(tableau)["stage"](s, y, h, k, N, out, 3)
            np.testing.assert_allclose(out[3], y[0] + h * tableau.A[s] @ k, rtol=1e-13, atol=1e-13)
            assert not out[[0, 1, 2, 4]].any()

    def test_stages_of_states_and_directions(self, tableau):
        """Row by row, first those of a step, then those of the extension."""
        made, (t, h), n_all, last = kernels(tableau), (0.7, 0.4), tableau.c.size, tableau.n_stages - 1
        y, c, z, seeds = random(1, N), random(1, WIDTH), np.zeros((1, WIDTH)), random(BLOCKS, N_P, 4)
        k, states, k1 = np.full((n_all, N), np.nan), np.full((n_all, N), np.nan), np.full((n_all, WIDTH), np.nan)
        k[0], k1[0] = np.cos(y[0] + t), random(WIDTH)
        made["state_stages"](System, t, h, y, k, states)
        made["direction_stages"](System, t, h, states, c, z, seeds, k1)
        assert np.isnan(k[last + 1 :]).all()
        assert np.isnan(k1[last + 1 :]).all()
        new = z.copy()
        if n_all > tableau.n_stages:
            made["extension_stages"](System, t, h, y, k, states)
            made["extension_direction_stages"](System, t, h, states, c, z, seeds, k1)
        else:
            assert "extension_stages" not in made
        for s in range(1, n_all):
            time = t + tableau.c[s] * h
            np.testing.assert_allclose(states[s], y[0] + h * tableau.A[s, :s] @ k[:s], rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(k[s], np.cos(states[s] + time), rtol=1e-12, atol=1e-12)
            at_stage = c[0] + h * tableau.A[s, :s] @ k1[:s]
            np.testing.assert_allclose(
                k1[s], np.sin(at_stage) * time + states[s, 0] + seeds.sum(), rtol=1e-10, atol=1e-10
            )
        np.testing.assert_allclose(new[0], c[0] + h * solution(tableau) @ k1, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(z, new)

    def test_error(self, tableau):
        made, h, rtol, atol = kernels(tableau), 0.3, 1e-3, 1e-4
        y, k, states = random(1, N), random(tableau.c.size, N), random(tableau.c.size, N) ** 2
        e = tableau.error @ k
        if tableau.error_low is not None:
            e = e**2 / np.sqrt(e**2 + 0.01 * (tableau.error_low @ k) ** 2)
        scale = atol + rtol * np.maximum(np.abs(y[0]), np.abs(states[tableau.n_stages - 1]))
        expected = np.abs(h * e / scale)
        ratio, cause = made["error"](y, states, h, k, N, rtol, np.full(N, atol))
        assert ratio == pytest.approx(expected.max(), rel=1e-12)
        assert cause == expected.argmax()

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("place", ["slope", "value"])
    def test_error_where_the_new_point_is_not_finite(self, tableau, place, bad):
        y, k, states = random(1, N), random(tableau.c.size, N), random(tableau.c.size, N)
        (k if place == "slope" else states)[tableau.n_stages - 1, 1] = bad
        assert kernels(tableau)["error"](y, states, 0.1, k, N, 1e-3, np.full(N, 1e-4)) == (np.inf, 1)

    @pytest.mark.parametrize("x", [0.0, 0.3, 0.8, 1.0])
    def test_continuous_extension(self, tableau, x):
        made, n_all, h = kernels(tableau), tableau.c.size, 0.3
        w, y, k, out = np.full(n_all, np.nan), random(1, N), random(n_all, N), np.zeros((4, N))
        made["weights"](x, w)
        np.testing.assert_allclose(w, dense_weights(tableau, x), rtol=1e-12, atol=1e-14)
        made["interpolate"](y, h, k, N, w, out, 2)
        np.testing.assert_allclose(out[2], y[0] + h * w @ k, rtol=1e-12, atol=1e-12)
        assert not out[[0, 1, 3]].any()
