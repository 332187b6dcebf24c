"""The report of a fit that ran away: numbers overflow and underflow, words remain."""

from __future__ import annotations

import pytest

import odefit as of
from odefit.gallery import load

STARTS = {
    "pyridine": {},
    "shock_front": {"alpha1": 1.37579, "nu": 2.73274, "alpha2": 0.648933, "psi": 1.80574},
}


@pytest.mark.parametrize("name", STARTS)
def test_undamped_steps_run_away_and_are_reported(name):
    result = of.fit(load(name).with_start(**STARTS[name]), solver="gauss-newton")
    assert not result.converged
    assert result.status in result.summary()
    assert "not determined" in result.summary()
    assert result.to_dict()["warnings"][0]["code"].startswith("convergence.")
