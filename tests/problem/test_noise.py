"""Noise of a problem: the standard deviations of values that have none of their own."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import odefit as of
from odefit.errors import MeasurementError, OdefitError, ProblemError, UnsupportedError

NAN, INF = math.nan, math.inf
MODEL = of.Model.from_text("y = a + b*t\nz = 2*y\nw = y + 1")
PARAMETERS = (of.Parameter("a", 1.0), of.Parameter("b", 1.0))
TIMES = np.linspace(0, 2, 9)
VALUES = 1 + 2 * TIMES + 0.1 * np.random.default_rng(1).normal(size=9)


def columns(**changes) -> of.Measurements:
    base = {"experiment": ["main"] * 3, "time": [0.0, 1.0, 2.0], "observable": ["y", "z", "y"], "value": [1, -4, 3]}
    return of.Measurements(**(base | changes))


def problem(noise, data=None) -> of.Problem:
    return of.Problem(MODEL, PARAMETERS, columns() if data is None else data, noise=noise)


SIGMAS = {
    "none": ({}, {}, [NAN] * 3),
    "default": ({"default": of.Noise(0.1)}, {}, [0.1, 0.1, 0.1]),
    "observable": ({"y": of.Noise(0.1)}, {}, [0.1, NAN, 0.1]),
    "both": ({"y": of.Noise(0.1), "default": of.Noise(0.5)}, {}, [0.1, 0.5, 0.1]),
    "percent": ({"default": of.Noise("25 %")}, {}, [0.25, 1, 0.75]),
    "short": ({"y": 0.1, "default": " 25% "}, {}, [0.1, 1, 0.1]),
    "of numpy": ({"default": np.float64(0.1)}, {}, [0.1] * 3),
    "own first": ({"default": 0.1}, {"sigma": [NAN, 7, NAN]}, [0.1, 7, 0.1]),
    "own weight": ({"default": 0.1}, {"weight": [2, NAN, NAN]}, [NAN, 0.1, 0.1]),
    "weights that say nothing": ({"default": 0.1}, {"weight": [0, INF, NAN]}, [0.1, 0.1, 0.1]),
    "percent of nothing": ({"default": "25 %"}, {"value": [1, NAN, 3]}, [0.25, NAN, 0.75]),
    "percent of an ignored zero": (
        {"default": "25 %"},
        {"value": [1, 0, 3], "weight": [NAN, 0, NAN]},
        [0.25, NAN, 0.75],
    ),
}


@pytest.mark.parametrize(("noise", "changes", "expected"), SIGMAS.values(), ids=SIGMAS)
def test_sigma_of_each_measurement(noise, changes, expected):
    made = problem(noise, columns(**changes))
    np.testing.assert_array_equal(made.sigma, expected)
    own = changes.get("sigma", [NAN] * 3)
    np.testing.assert_array_equal(made.measurements.sigma, own)


def test_sigma_is_read_only():
    with pytest.raises(ValueError, match="read-only"):
        problem({"default": 0.1}).sigma[0] = 1.0


MISTAKES = {
    "zero": ({"y": 0.0}, ProblemError, r"\[noise\] y is 0; a standard deviation is positive and finite"),
    "one over it overflows": ({"y": 5e-324}, ProblemError, r"\[noise\] y is 4.94066e-324; .* too small to divide by"),
    "infinite": ({"default": INF}, ProblemError, r"\[noise\] default is inf"),
    "no sigma": ({"y": of.Noise()}, ProblemError, r"\[noise\] y has no sigma; write"),
    "no number": ({"y": None}, ProblemError, r"\[noise\] y must be a number, a percentage or an expression, not None"),
    "flag": ({"y": True}, ProblemError, r"\[noise\] y must be a number"),
    "no percentage": ({"y": "x %"}, ProblemError, "is not a percentage"),
    "zero percent": ({"y": "0 %"}, ProblemError, "positive and finite"),
    "estimate": ({"y": "estimate"}, UnsupportedError, r"not supported yet: an estimated sigma in \[noise\] y"),
    "word": ({"y": "poisson"}, UnsupportedError, r'not supported yet: the distribution "poisson" in \[noise\] y'),
    "distribution": ({"y": of.Noise(0.1, "lognormal")}, UnsupportedError, 'the distribution "lognormal"'),
    "below": ({"y": of.Noise(0.1, below=0.0)}, UnsupportedError, r"not supported yet: 'below' in \[noise\] y"),
    "above": ({"y": of.Noise(0.1, above=9.0)}, UnsupportedError, "'above' in"),
    "correlated": ({"y": of.Noise(0.1, correlated=True)}, UnsupportedError, "'correlated' in"),
    "not measured": ({"w": 0.1}, ProblemError, r"\[noise\] has an entry 'w', but no such values are measured"),
    "misspelt": ({"defualt": 0.1}, ProblemError, "an entry 'defualt', but no such"),
}


@pytest.mark.parametrize(("noise", "kind", "words"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(noise, kind, words):
    with pytest.raises(kind, match=words):
        problem(noise)


@pytest.mark.parametrize(
    ("value", "noise", "words"),
    [
        (0.0, "5 %", "'main', time 1, 'z': the value is 0, so its sigma cannot be 5 % of it"),
        (1e308, "1000 %", "'main', time 1, 'z': its sigma is inf"),
        (5e-324, "1 %", "its sigma is 0; a standard"),
        (1e-307, "1 %", "its sigma is 1e-309; a standard .* not too small to divide by"),
    ],
)
def test_values_without_a_percentage(value, noise, words):
    with pytest.raises(MeasurementError, match=words):
        problem({"default": noise}, columns(value=[1, value, 3]))


def test_noise_without_data():
    nothing = np.empty(0)
    with pytest.raises(ProblemError, match=r"\[noise\] says how exact data are, but there are none"):
        problem({"default": 0.1}, of.Measurements(nothing, nothing, nothing, nothing))


def test_noise_of_a_condition():
    runs = (of.Experiment("main", (of.Period(0.0, {"z": -4.0}),)),)
    with pytest.raises(ProblemError, match="an entry 'z', but no such values"):
        of.Problem(MODEL, PARAMETERS, columns(), runs, noise={"z": 0.1})
    zero = (of.Experiment("main", (of.Period(0.0, {"z": 0.0}),)),)
    made = of.Problem(MODEL, PARAMETERS, columns(value=[1, 0, 3]), zero, noise={"default": "5 %"})
    np.testing.assert_allclose(made.sigma, [0.05, 0.15])


def test_the_error_counts_measurements_with_those_of_conditions():
    runs = (of.Experiment("main", (of.Period(0.0, {"z": -4.0}),)),)
    with pytest.raises(MeasurementError, match="time 2, 'y': the value is 0") as caught:
        of.Problem(MODEL, PARAMETERS, columns(value=[1, -4, 0]), runs, noise={"default": "5 %"})
    assert caught.value.index == 2


@pytest.mark.parametrize("sigma", [0.1, "5 %"])
def test_fits_are_those_of_values_with_the_same_sigma_each(sigma):
    data = of.Measurements.from_columns(TIMES, {"y": VALUES})
    size = 0.05 * VALUES if sigma == "5 %" else np.full(9, sigma)
    by_value = problem({}, dataclasses.replace(data, sigma=size))
    one, other = of.fit(problem({"y": sigma}, data)), of.fit(by_value)
    assert one.standard_errors() == other.standard_errors()
    assert (one.chi2, one.dof, one.loglik) == (other.chi2, other.dof, other.loglik)
    assert one.chi2 is not None
    assert len(of.compare(one, other).rows) == 2


def test_other_data_have_the_same_noise():
    made = problem({"default": "25 %"}).with_measurements(columns(value=[2, 4, 8]))
    np.testing.assert_array_equal(made.sigma, [0.5, 1, 2])
    with pytest.raises(OdefitError, match="the value is 0"):
        made.with_measurements(columns(value=[2, 0, 8]))


def test_synthetic_data_have_the_same_noise():
    made = of.with_synthetic_data(problem({"y": 0.1, "z": "50 %"}))
    np.testing.assert_allclose(made.measurements.value, [1, 4, 3])
    np.testing.assert_allclose(made.sigma, [0.1, 2, 0.1])
