"""Extrapolation for equations in several derivatives, B(t, y, p) y' = f(t, y, p), with B regular or singular."""

from __future__ import annotations

import numpy as np
import pytest
from initial_value_problems import central_difference, compiled_model, run_of
from test_limex import grid_of_orders

from odefit.compile import Seeds
from odefit.integrate import METHODS, Run, Status

LIMEX, DDM = METHODS["limex"], METHODS["ddm"]

SOLVED = "x' = r*x*(1 - x) + t\nz' = x - c*z^2\nx(0) = 1\nz(0) = 1"
COUPLED = (
    "(1 + x^2)*x' + a*(1 + t)*z' = (1 + x^2)*(r*x*(1 - x) + t) + a*(1 + t)*(x - c*z^2)\n"
    "z' - 0.3*z*x' = x - c*z^2 - 0.3*z*(r*x*(1 - x) + t)\nx(0) = 1\nz(0) = 1"
)
"""The same solution, with factors that depend on time, states and a parameter."""
TIMES = np.array([0.3, 1.0, 2.0])
VALUES = {"a": 0.8, "r": 1.1, "c": 0.7}
INDEX_1 = "a*x' + z' = -H\nx' - z' = H*x - x\nalgebraic H ~ 1\n0 = H*(1 + x^2) - x*z - sin(t)\nx(0) = 1\nz(0) = 2"
INDEX_1_SOLVED = (
    "x' = (H*x - x - H)/(1 + a)\nz' = (H*x - x - H)/(1 + a) - H*x + x\nH = (x*z + sin(t))/(1 + x^2)\nx(0) = 1\nz(0) = 2"
)
"""The same, solved for the derivatives."""
STIFF = (
    "C*(u' - w') = (sin(t) - u)*g\nC*(w' - u') = -w*g - d\nalgebraic d ~ 0\n0 = d - e*(exp(w) - 1)\nu(0) = 0\nw(0) = 0"
)
"""A capacitor between two nodes with a diode behind: the sum of its equations has no derivative."""


def coupled():
    model = compiled_model(COUPLED)
    assert model.in_equations
    return run_of(COUPLED, [VALUES[name] for name in model.parameters], (0.3, 1.0), TIMES)


def index_1(theta=(1.3, 1.0, 2.0)) -> tuple:
    """Directions are a and the initial values of x and z; that of H is found."""
    dp, dy0 = np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    seeds = Seeds(np.array(theta[:1]), np.array([*theta[1:], 1.0]), dp, dy0, np.zeros((1, 6)), np.zeros((3, 6)))
    return compiled_model(INDEX_1), Run.of(seeds, 0.0, np.array([0.2, 0.7, 1.0]))


def moved(run: Run, theta, n_p: int, n_y: int) -> Run:
    return run._replace(p=theta[:n_p].copy(), y0=np.concatenate([theta[n_p:], run.y0[n_y:]]))


CASES = {"coupled": (coupled, 3, 2), "index 1": (index_1, 1, 2)}
by_case = pytest.mark.parametrize("name", CASES)


def truth(name: str, model, run):
    """Return states and sensitivities of x and z."""
    if name == "index 1":
        solved, other = run_of(INDEX_1_SOLVED, run.p, run.y0[:2], run.times)
        found = METHODS["dop853"].solve(solved, other, rtol=1e-13, atol=1e-15, order=1)
        return found.y, found.S
    names = compiled_model(SOLVED).parameters
    solved, other = run_of(SOLVED, [VALUES[one] for one in names], (0.3, 1.0), TIMES)
    found = METHODS["dop853"].solve(solved, other, rtol=1e-13, atol=1e-15, order=1)
    s = np.zeros((TIMES.size, 2, 5))
    s[:, :, [*(model.parameters.index(one) for one in names), 3, 4]] = found.S
    return found.y, s


@by_case
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_observed_orders(name, k):
    """Also where B depends on time: of order k, and not 3 at most."""
    make, *_ = CASES[name]
    model, run = make()
    y, s = truth(name, model, run)
    errors, end = [], run.times[-1]
    for n in (80, 160) if k < 3 else (20, 40):
        found = LIMEX.solve(model, run, rtol=1e-7, atol=1e-9, order=1, grid=grid_of_orders(np.full(n, end / n), k))
        assert found.status is Status.OK
        errors.append([np.abs(found.y[:, :2] - y).max(), np.abs(found.S[:, :2] - s).max()])
    orders = np.log2(np.array(errors[0]) / errors[1])
    assert (orders > k - 0.5).all()


@by_case
@pytest.mark.parametrize("rtol", [1e-3, 1e-5, 1e-7])
def test_accuracy_replay_and_derivatives(name, rtol):
    make, n_p, n_y = CASES[name]
    model, run = make()
    y, _ = truth(name, model, run)
    chosen = LIMEX.solve(model, run, rtol=rtol, atol=rtol, order=1)
    assert chosen.status is Status.OK
    assert np.abs(chosen.y[:, :2] - y).max() <= 30.0 * rtol  # between the ends of steps, where errors are not tested
    again = LIMEX.solve(model, run, rtol=rtol, atol=rtol, order=1, grid=chosen.grid)
    np.testing.assert_array_equal(again.y, chosen.y)
    np.testing.assert_array_equal(again.S, chosen.S)
    theta = np.concatenate([run.p, run.y0[:n_y]])
    numeric = central_difference(
        lambda x: LIMEX.solve(model, moved(run, x, n_p, n_y), rtol=rtol, atol=rtol, grid=chosen.grid).y,
        theta,
        step=0.002,
    )
    assert np.abs(chosen.S - numeric).max() <= 1e-8 * np.abs(chosen.S).max()


def test_algebraic_equations_hold_within_the_tolerance():
    model, run = index_1()
    found = LIMEX.solve(model, run, rtol=1e-6, atol=1e-8)
    x, z, h = found.y.T
    np.testing.assert_allclose(h * (1 + x**2), x * z + np.sin(run.times), rtol=1e-5)


def test_a_hidden_algebraic_equation():
    """States and sensitivities are those of ddm."""
    model = compiled_model(STIFF)
    values = {"C": 1e-3, "g": 2.0, "e": 0.1}
    n = len(model.states)
    seeds = Seeds(
        np.array([values[name] for name in model.parameters]), np.zeros(n), np.eye(3), np.zeros((n, 3)),
        np.zeros((3, 6)), np.zeros((n, 6)),
    )  # fmt: skip
    run = Run.of(seeds, 0.0, np.array([0.1, 1.0, 3.0]))
    one, other = (method.solve(model, run, rtol=1e-8, atol=1e-10, order=1) for method in (LIMEX, DDM))
    assert one.status is other.status is Status.OK
    np.testing.assert_allclose(one.y, other.y, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(one.S, other.S, rtol=1e-3, atol=1e-5 * np.abs(other.S).max())
