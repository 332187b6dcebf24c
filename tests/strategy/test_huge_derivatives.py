"""Fits that run away end with a status, not with a numerical warning."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of
from odefit.gallery import load

T = np.linspace(0.1, 1.0, 10)


@pytest.mark.parametrize("size", [1e100, 1e160, 1e212, 1e300])
@pytest.mark.parametrize("solver", ["trust", "diffpar", "gauss-newton"])
def test_squares_of_derivatives_that_are_too_large_for_a_number(size, solver):
    """The values are ordinary at the start, their derivatives by `k` are not."""
    problem = of.Problem(
        of.Model.from_text("y = a + sin(n*(k - 1))*t"),
        [of.Parameter("a", 1.0), of.Parameter("k", 1.0), of.Parameter("n", size, fixed=True)],
        of.Measurements.from_columns(T, {"y": 2.0 + np.cos(9 * T)}),
    )
    result = of.fit(problem.with_settings(solver=solver))
    assert result.status in ("too-sensitive", "iteration-limit")


@pytest.mark.parametrize("seed", range(4))
def test_a_fit_that_runs_away_ends_with_a_status(seed):
    """From here rate constants grow, on some ways until the squares of derivatives are too large for a number."""
    start = [0.68456, 1.2995880, 1.0793729, 0.5299851, 0.7538242, 1.8079238, 1.4836283, 0.5089734, 0.7543221, 0.5068430]
    factors = 1.0 + 1e-3 * np.random.default_rng(seed).standard_normal(11)
    starts = {f"k{i + 1}": k * f for i, (k, f) in enumerate(zip([*start, 1.5745438], factors, strict=True))}
    problem = load("pyridine/exact").with_start(**starts)
    result = of.fit(problem.with_settings(integrator="dopri5", rtol=1e-2, atol=1e-4, freeze="readapt"))
    assert result.status in ("flat-valley", "stalled")
