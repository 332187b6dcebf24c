"""Fits that run away end with a status, not with a numerical warning."""

from __future__ import annotations

import odefit as of
from odefit.gallery import load


def test_huge_derivatives_do_not_overflow():
    """From here rate constants grow until the squares of derivatives are too large for a number."""
    start = [0.68456, 1.2995880, 1.0793729, 0.5299851, 0.7538242, 1.8079238, 1.4836283, 0.5089734, 0.7543221, 0.5068430]
    problem = load("pyridine/exact").with_start(**{f"k{i + 1}": k for i, k in enumerate([*start, 1.5745438])})
    result = of.fit(problem.with_settings(integrator="dopri5", rtol=1e-2, atol=1e-4, freeze="readapt"))
    assert result.status == "flat-valley"
    assert "keeps moving" in result.message
