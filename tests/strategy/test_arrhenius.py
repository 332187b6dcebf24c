"""Arrhenius kinetics at four temperatures, against a fit written by hand with SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import odefit as of

TEXT = """
k1 = k1ref*exp(-E1/8.314*(1/T - 1/350))
k2 = k2ref*exp(-E2/8.314*(1/T - 1/350))
A' = -k1*A
B' = k1*A - k2*B
C' = k2*B
A(0) = A0
B(0) = 0
C(0) = 0
T = 350
"""
TEMPERATURES = (330.0, 345.0, 360.0, 370.0)
TRUTH = {"k1ref": 0.05, "k2ref": 0.02, "E1": 6.0e4, "E2": 8.0e4}
A0 = (1.0, 0.9, 1.1, 1.05)
TIMES = np.linspace(2.0, 60.0, 12)
SIGMA = 0.01


def solution(theta, temperature, a0):
    k1ref, k2ref, e1, e2 = theta
    factor = 1 / temperature - 1 / 350
    k1, k2 = k1ref * np.exp(-e1 / 8.314 * factor), k2ref * np.exp(-e2 / 8.314 * factor)
    run = solve_ivp(
        lambda t, y: [-k1 * y[0], k1 * y[0] - k2 * y[1], k2 * y[1]],
        (0, TIMES[-1]), [a0, 0, 0], t_eval=TIMES, rtol=1e-10, atol=1e-12, method="DOP853",
    )  # fmt: skip
    return run.y.T


@pytest.fixture(scope="module")
def data():
    """Simulated values (experiment, time, state); 30 % of them are missing."""
    rng = np.random.default_rng(7)
    values = np.stack([solution(list(TRUTH.values()), t, a0) for t, a0 in zip(TEMPERATURES, A0, strict=True)])
    values += SIGMA * rng.standard_normal(values.shape)
    values[rng.random(values.shape) < 0.3] = np.nan
    return values


@pytest.fixture(scope="module")
def result(data):
    names = [f"b{t:.0f}" for t in TEMPERATURES]
    rows = [(n, t) for n in names for t in TIMES]
    measurements = of.Measurements.from_columns(
        [t for _, t in rows],
        {s: data[:, :, i].ravel() for i, s in enumerate("ABC")},
        experiment=[n for n, _ in rows],
        sigma=dict.fromkeys("ABC", SIGMA),
    )
    problem = of.Problem(
        model=of.Model.from_text(TEXT),
        parameters=[
            of.Parameter("k1ref", 0.03, scale="log"),
            of.Parameter("k2ref", 0.03, scale="log"),
            of.Parameter("E1", 5e4, lower=1e4, upper=2e5),
            of.Parameter("E2", 5e4, lower=1e4, upper=2e5),
            of.Parameter("A0", 1.0, per="experiment"),
        ],
        measurements=measurements,
        experiments=[of.Experiment(n, (of.Period(0.0, {"T": t}),)) for n, t in zip(names, TEMPERATURES, strict=True)],
        settings=of.Settings(rtol=1e-10, atol=1e-12, tol=1e-9),
    )
    return of.fit(problem)


def test_truth_is_recovered(result):
    assert result.converged
    for name, truth in TRUTH.items():
        row = result.parameters[name]
        assert abs(row.estimate - truth) < 4 * row.standard_error
    for name, truth in zip(("b330", "b345", "b360", "b370"), A0, strict=True):
        assert abs(result.estimates[f"A0[{name}]"] - truth) < 0.02


def test_estimates_equal_those_of_a_fit_by_hand(result, data):
    def residual(z):
        theta = [np.exp(z[0]), np.exp(z[1]), z[2] * 1e4, z[3] * 1e4]
        model = np.stack([solution(theta, t, a0) for t, a0 in zip(TEMPERATURES, z[4:], strict=True)])
        difference = (model - data) / SIGMA
        return difference[np.isfinite(difference)]

    start = [np.log(0.03), np.log(0.03), 5.0, 5.0, 1, 1, 1, 1]
    by_hand = least_squares(residual, start, xtol=1e-14, ftol=1e-14, gtol=1e-14, jac="3-point")
    z = by_hand.x
    expected = [np.exp(z[0]), np.exp(z[1]), z[2] * 1e4, z[3] * 1e4, *z[4:]]
    np.testing.assert_allclose(list(result.estimates.values()), expected, rtol=1e-6)
    assert result.objective == pytest.approx(by_hand.cost, rel=1e-8)
    assert result.n_data == by_hand.fun.size


def test_only_needed_directions_are_integrated(result):
    compiled = result.plan.compiled
    for e, columns in enumerate(compiled.columns):
        assert [compiled.theta_names[i] for i in columns] == [*TRUTH, f"A0[b{TEMPERATURES[e]:.0f}]"]
