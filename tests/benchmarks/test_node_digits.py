"""Digits that the elimination of nodes keeps where solutions grow, against arithmetic of 100 digits."""

from __future__ import annotations

import pytest
from benchmarks.nodes import Step, digits


@pytest.mark.parametrize(("mu", "kept"), [(5.0, 13.0), (10.0, 11.5), (20.0, 7.0), (30.0, 9.5), (40.0, 12.0)])
def test_elimination_keeps_digits(mu, kept):
    """The worst is half of them, where the whole growth is about the inverse root of rounding."""
    step = Step(mu)
    assert min(digits(step.by_elimination(), step.exactly())) > kept


def test_condensing_loses_them():
    step = Step(40.0)
    assert digits(step.by_condensing(), step.exactly())[1] < 2.0
