"""95 % intervals cover the truth in 95 % of simulated data sets."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of

N = 2000  # the standard error of a coverage of 95 % is then 0.5 %


def michaelis_menten():
    t = np.linspace(0.3, 8.0, 20)
    return (
        of.Model.from_text("y = V*t/(K + t)"), {"V": 2.0, "K": 1.5}, t, "y", 2.0 * t / (1.5 + t), 0.03,
    )  # fmt: skip


def first_order():
    t = np.linspace(0.5, 6.0, 15)
    return (
        of.Model.from_text("A' = -k*A\nB' = k*A - m*B\nA(0) = 1\nB(0) = 0"),
        {"k": 0.8, "m": 0.3}, t, "B", 0.8 / (0.3 - 0.8) * (np.exp(-0.8 * t) - np.exp(-0.3 * t)), 0.01,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True], ids=["sigma estimated", "sigma known"])
@pytest.mark.parametrize("case", [michaelis_menten, first_order])
def test_intervals_cover(case, known):
    model, truth, t, name, exact, sigma = case()
    rng = np.random.default_rng(11)
    hits = dict.fromkeys(truth, 0)
    parameters = [of.Parameter(k, v * 1.3, scale="log") for k, v in truth.items()]
    problem = of.Problem(model, parameters, of.Measurements.from_columns(t, {name: exact}))
    for _ in range(N):
        data = of.Measurements.from_columns(
            t, {name: exact + sigma * rng.standard_normal(t.size)}, sigma={name: sigma} if known else None
        )
        result = of.fit(problem.with_measurements(data))
        assert result.converged
        for parameter, value in truth.items():
            low, high = result.parameters[parameter].interval
            hits[parameter] += low <= value <= high
    for parameter, count in hits.items():
        assert 0.93 <= count / N <= 0.97, f"{parameter}: {count / N}"
