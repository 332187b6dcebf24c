"""95 % intervals cover the truth in 95 % of simulated data sets.

docs/statistics.md shows the table; run as a program, this file prints it.
"""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of
from odefit.gallery import load

N = 2000  # the standard error of a coverage of 95 % is then 0.5 %


def michaelis_menten():
    t = np.linspace(0.3, 8.0, 20)
    return of.Model.from_text("y = V*t/(K + t)"), {"V": 2.0, "K": 1.5}, t, 0.03


def michaelis_menten_equation():
    """The substrate's decay: an equation with the same constants."""
    t = np.linspace(0.5, 8.0, 20)
    return of.Model.from_text("y' = -V*y/(K + y)\ny(0) = 5"), {"V": 1.0, "K": 1.5}, t, 0.03


def first_order():
    t = np.linspace(0.5, 6.0, 15)
    return of.Model.from_text("A' = -k*A\ny' = k*A - m*y\nA(0) = 1\ny(0) = 0"), {"k": 0.8, "m": 0.3}, t, 0.01


def two_exponentials():
    t = np.linspace(0.1, 8.0, 30)
    return of.Model.from_text("y = a*exp(-k*t) + b*exp(-m*t)"), {"a": 1.0, "k": 2.0, "b": 0.8, "m": 0.3}, t, 0.01


def barnes():
    problem = load("barnes")
    return problem.model, {"k1": 0.86, "k2": 2.08, "k3": 1.81}, np.unique(problem.measurements.time), 0.02


CASES = (michaelis_menten, michaelis_menten_equation, first_order, two_exponentials, barnes)


def coverage(case, known: bool) -> dict[str, float]:
    model, truth, t, sigma = case()
    rng = np.random.default_rng(11)
    names = ["y1", "y2"] if case is barnes else ["y"]
    parameters = [of.Parameter(k, v * 1.3, scale="log") for k, v in truth.items()]
    problem = of.Problem(model, parameters, of.Measurements.from_columns(t, {name: 0 * t for name in names}))
    tight = problem.with_settings(rtol=1e-10, atol=1e-12)
    exact = of.simulate(tight, truth, times=t)
    hits = dict.fromkeys(truth, 0)
    for _ in range(N):
        data = of.Measurements.from_columns(
            t,
            {name: exact[name].to_numpy() + sigma * rng.standard_normal(t.size) for name in names},
            sigma=dict.fromkeys(names, sigma) if known else None,
        )
        result = of.fit(problem.with_measurements(data))
        assert result.converged
        for parameter, value in truth.items():
            low, high = result.parameters[parameter].interval
            hits[parameter] += low <= value <= high
    return {name: count / N for name, count in hits.items()}


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True], ids=["sigma estimated", "sigma known"])
@pytest.mark.parametrize("case", CASES)
def test_intervals_cover(case, known):
    for parameter, share in coverage(case, known).items():
        assert 0.93 <= share <= 0.97, f"{parameter}: {share}"


if __name__ == "__main__":
    for case in CASES:
        for known in (False, True):
            shares = ", ".join(f"{name} {100 * share:.1f}" for name, share in coverage(case, known).items())
            print(f"| {case.__name__} | {'known' if known else 'estimated'} | {shares} |")
