"""Standard deviations that are a percentage of the measured value pull the model down; the report says so."""

import numpy as np
import pytest

import odefit as of
from benchmarks import percent


def warnings_of(sigma, n=12):
    times = np.linspace(0.5, 24.0, n)
    values = 2.5 * np.exp(-0.1 * times)
    problem = percent.problem("C", sigma).with_measurements(of.Measurements.from_columns(times, {"C": values}))
    return {notice.code: notice.text for notice in of.fit(problem).warnings}


@pytest.mark.parametrize(
    ("sigma", "n", "expected"),
    [("12 %", 12, True), ("12 %", 3, False), ("2 %", 12, False), ("2 %", 200, True), (0.05, 200, False)],
)
def test_a_pull_of_consequence_is_named(sigma, n, expected):
    assert ("noise.percent" in warnings_of(sigma, n)) is expected


def test_words_say_how_much_and_what_helps():
    text = warnings_of("12 %")["noise.percent"]
    assert "'C' is 12 % of the measured value" in text
    assert "by about 2.9 %" in text
    assert "sigma = 0.12" in text


@pytest.mark.parametrize("sigma", ["100 %", "1e160 %"])
def test_the_model_is_pulled_no_further_than_to_zero(sigma):
    assert "by about 1e+02 %" in warnings_of(sigma)["noise.percent"]


def test_the_model_is_pulled_down_by_twice_the_square():
    """The clearance comes out high by several of its errors, that of the logarithm by less than half as much."""
    plain, _ = percent.estimates(percent.problem("C", "12 %"), "C", 200)
    logarithm, _ = percent.estimates(percent.problem("logC", percent.FRACTION), "logC", 200)
    error = plain.std(ddof=1) / np.sqrt(plain.size)
    assert plain.mean() - percent.CLEARANCE > 4 * error
    assert plain.mean() - logarithm.mean() == pytest.approx(0.075, abs=0.02)
