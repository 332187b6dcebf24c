"""Models without any differential equation, against closed forms and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import curve_fit

import odefit as of

T = np.linspace(0.5, 10.0, 25)
NOISE = np.random.default_rng(3).standard_normal(T.size)

CASES = {
    "line": ("y = a + b*t", {"a": 0.0, "b": 0.0}, 1.5 - 0.3 * T + 0.05 * NOISE, lambda t, a, b: a + b * t),
    "parabola": (
        "y = a + b*t + c*t^2",
        {"a": 0.0, "b": 0.0, "c": 0.0},
        2 - 0.5 * T + 0.1 * T**2 + 0.1 * NOISE,
        lambda t, a, b, c: a + b * t + c * t**2,
    ),
    "decay": (
        "y = a*exp(-b*t)", {"a": 1.0, "b": 1.0}, 3 * np.exp(-0.4 * T) + 0.02 * NOISE,
        lambda t, a, b: a * np.exp(-b * t),
    ),
    "saturation": (
        "y = V*t/(K + t)", {"V": 1.0, "K": 1.0}, 2.5 * T / (1.7 + T) + 0.02 * NOISE,
        lambda t, V, K: V * t / (K + t),
    ),
    "two decays": (
        "y = a*exp(-b*t) + c*exp(-d*t)",
        {"a": 1.0, "b": 2.0, "c": 1.0, "d": 0.1},
        2 * np.exp(-1.5 * T) + np.exp(-0.2 * T) + 0.002 * NOISE,
        lambda t, a, b, c, d: a * np.exp(-b * t) + c * np.exp(-d * t),
    ),
    "peak": (
        "y = h*exp(-((t - m)/w)^2/2)", {"h": 1.0, "m": 4.0, "w": 1.0},
        2 * np.exp(-(((T - 5) / 1.5) ** 2) / 2) + 0.01 * NOISE,
        lambda t, h, m, w: h * np.exp(-(((t - m) / w) ** 2) / 2),
    ),
}  # fmt: skip


def problem_of(name, **settings):
    text, start, y, _ = CASES[name]
    return of.Problem(
        model=of.Model.from_text(text),
        parameters=[of.Parameter(k, v) for k, v in start.items()],
        measurements=of.Measurements.from_columns(T, {"y": y}),
        settings=of.Settings(tol=1e-9, **settings),
    )


@pytest.mark.parametrize("name", CASES)
def test_estimates_and_errors_to_six_digits(name):
    _, start, y, function = CASES[name]
    result = of.fit(problem_of(name))
    expected, covariance = curve_fit(function, T, y, p0=list(start.values()), xtol=1e-14, ftol=1e-14, gtol=1e-14)
    assert result.converged
    np.testing.assert_allclose(list(result.estimates.values()), expected, rtol=1e-6)
    errors = [row.standard_error for row in result.parameters.values()]
    np.testing.assert_allclose(errors, np.sqrt(np.diag(covariance)), rtol=2e-5)


def test_line_has_its_closed_form():
    y = CASES["line"][2]
    design = np.stack([np.ones_like(T), T], axis=1)
    expected = np.linalg.solve(design.T @ design, design.T @ y)
    np.testing.assert_allclose(list(of.fit(problem_of("line")).estimates.values()), expected, rtol=1e-9)


def test_exact_data_are_recovered_exactly():
    text, start, _, function = CASES["two decays"]
    truth = [2.0, 1.5, 1.0, 0.2]
    problem = of.Problem(
        model=of.Model.from_text(text),
        parameters=[of.Parameter(k, v) for k, v in start.items()],
        measurements=of.Measurements.from_columns(T, {"y": function(T, *truth)}),
    )
    result = of.fit(problem)
    assert result.converged
    np.testing.assert_allclose(list(result.estimates.values()), truth, rtol=1e-6)
