"""Data whose squares are no numbers: 1e-170, 1e154."""

from __future__ import annotations

import math

import numpy as np
import pytest

import odefit as of
from odefit.criteria.least_squares import SumOfSquares, common_factor

T = np.linspace(0.5, 6.0, 12)
Y = 2.0 * np.exp(-0.6 * T) + 0.02 * np.cos(11 * T)


def decay(size: float, scale: str = "linear", **changes) -> of.Problem:
    text = "y = A*exp(-k*t)" if changes.pop("explicit", True) else "y' = -k*y\ny(0) = A"
    columns = {"y": size * Y}
    return of.Problem(
        of.Model.from_text(text),
        [of.Parameter("A", size, scale=scale), of.Parameter("k", 1.0, **changes)],
        of.Measurements.from_columns(T, columns),
        settings=of.Settings(atol=1e-9 * size),
    )


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("power", [-900, -565, -300, 300, 512, 900])
def test_a_fit_of_very_small_or_large_data(power, scale, explicit):
    size = 2.0**power
    one, two = of.fit(decay(1.0, scale, explicit=explicit)), of.fit(decay(size, scale, explicit=explicit))
    assert (two.status, two.iterations) == (one.status, one.iterations) == ("converged", one.iterations)
    assert two.estimates["k"] == pytest.approx(one.estimates["k"], rel=1e-8)
    assert two.estimates["A"] / size == pytest.approx(one.estimates["A"], rel=1e-8)
    if scale == "log":
        for name, factor in (("k", 1.0), ("A", size)):
            assert two.standard_errors()[name] / factor == pytest.approx(one.standard_errors()[name], rel=1e-6)
    assert two.loglik == pytest.approx(one.loglik - T.size * math.log(size), rel=1e-9)


@pytest.mark.parametrize("power", [-400, -300, 0, 300, 400])
def test_sums_of_squares_are_those_of_the_data(power):
    size = 2.0**power
    one, two = of.fit(decay(1.0)), of.fit(decay(size))
    assert two.objective == one.objective * size * size
    assert two.sum_of_squares == pytest.approx(one.sum_of_squares * size * size, rel=1e-12)
    assert two.attempts[-1].objective == two.objective


def test_what_is_no_number_is_not_reported_as_one():
    assert of.fit(decay(2.0**-600)).objective == 0.0
    assert of.fit(decay(2.0**600)).objective == math.inf


def test_an_evaluator_has_the_units_of_the_data():
    size = 2.0**-565
    one, two = of.Evaluator(decay(1.0)), of.Evaluator(decay(size))
    np.testing.assert_array_equal(two.residuals([size, 1.0]), size * one.residuals([1.0, 1.0]))
    expected = one.jacobian([1.0, 1.0]) * np.array([1.0, size])
    np.testing.assert_array_equal(two.jacobian([size, 1.0]), expected)
    np.testing.assert_allclose(two.gradient([size, 1.0]) * [size, 1.0], one.gradient([1.0, 1.0]), rtol=1e-12)


@pytest.mark.parametrize("size", [1e-70, 1e-30, 1.0, 1e30, 1e70])
def test_ordinary_data_are_left_alone(size):
    assert common_factor(decay(size)) == 1.0


def test_what_a_residual_of_one_means_is_left_alone():
    assert common_factor(decay(1e-170, prior="normal(1, 0.1)")) == 1.0
    given = of.Measurements.from_columns(T, {"y": 1e-170 * Y}, sigma={"y": 1e-172})
    problem = of.Problem(
        of.Model.from_text("y = A*exp(-k*t)"), [of.Parameter("A", 1e-170), of.Parameter("k", 1.0)], given
    )
    assert common_factor(problem) == 1.0
    result = of.fit(problem)
    assert result.converged
    assert result.chi2 == pytest.approx(2.0 * result.objective)


def test_a_change_that_is_no_number_is_infinite():
    assert SumOfSquares().change(1e200) == math.inf
