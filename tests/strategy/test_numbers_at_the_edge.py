"""Values near the largest and the smallest numbers, as mistaken files have them: an answer, and no warning of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of
from odefit.gallery import load
from odefit.strategy.influence import values_with_influence

T = np.linspace(0.0, 3.0, 7)
Y = np.exp(-T)


def decay(text: str, starts: dict[str, float], values=Y) -> of.Problem:
    parameters = [of.Parameter(name, start) for name, start in starts.items()]
    return of.Problem(of.Model.from_text(text), parameters, of.Measurements.from_columns(T, {"y": values}))


def test_a_parameter_of_a_group_that_nothing_measured_needs_is_reported():
    data = of.Measurements.from_columns(T, {"y": np.exp(-T)})
    data = of.Measurements(data.experiment, data.time, data.observable, data.value, groups={"lab": ["x"] * T.size})
    model = of.Model.from_text("y' = -k*y\ny(0) = 1\nseen = scale*y")
    problem = of.Problem(model, [of.Parameter("k", 0.5), of.Parameter("scale", 1.0, per="lab")], data)
    result = of.fit(problem)
    assert list(result.parameters) == ["k", "scale[x]"]
    assert result.parameters["scale[x]"].verdict == "not determined by these data"
    assert any("'scale[x]'" in notice.text for notice in result.warnings)


@pytest.mark.parametrize("size", [1e308, -1e308, 5e-324])
def test_other_values_of_a_parameter_without_influence(size):
    problem = decay("y' = -k*y + 0*a\ny(0) = 1", {"k": 0.9, "a": size})
    assert values_with_influence(problem, np.array([0.9, size]), [1]) == {}


def test_columns_so_small_that_the_size_of_an_unknown_is_no_number():
    result = of.fit(decay("y' = -k*y\ny(0) = 1 + 1e-300*a", {"k": 0.5, "a": 0.0}, 1e10 * np.exp(-T)))
    assert np.isfinite(list(result.estimates.values())).all()


def test_derivatives_too_large_to_look_around():
    """The way to the minimum is hidden by rounding, and scaled derivatives are no numbers."""
    result = of.fit(load("barnes/d_y2").with_start(k3=1e14))
    assert not result.converged


def test_a_way_so_far_that_it_is_no_number():
    """Rate constants are as small as numbers can be: what would change the residual is infinitely far away."""
    pyridine = load("pyridine")
    result = of.fit(pyridine.with_start(**{p.name: 5e-324 for p in pyridine.parameters}))
    assert not result.converged
