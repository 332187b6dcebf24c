"""Verdicts in words: what the data fix, alone or in combination."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of
from odefit.gallery import load

T = np.linspace(0.1, 5.0, 30)
NOISE = 0.01 * np.random.default_rng(3).standard_normal(30)


def log(name, start=1.0, **rest):
    return of.Parameter(name, start, scale="log", **rest)


def fitted(text, parameters, values, **rest):
    data = of.Measurements.from_columns(T, {"y": values}, **rest)
    return of.fit(of.Problem(of.Model.from_text(text), parameters, data))


DECAY = np.exp(-0.5 * T) + NOISE
CASES = {
    "product": ("y = exp(-k1*k2*t)", [log("k1", 2.0), log("k2", 0.3)], DECAY, {"k1": "k1*k2", "k2": "k1*k2"}),
    "product, log10": (
        "y = exp(-k1*k2*t)", [of.Parameter("k1", 2.0, scale="log10"), log("k2", 0.3)], DECAY, {"k1": "k1*k2"},
    ),
    "product on linear scales": (
        "y = exp(-k1*k2*t)", [of.Parameter("k1", 2.0), of.Parameter("k2", 0.3)], DECAY, {"k1": "k1*k2", "k2": "k1*k2"},
    ),
    "product of negative numbers": (
        "y = exp(-k1*k2*t)", [of.Parameter("k1", -2.0), of.Parameter("k2", -0.3)], DECAY, {"k1": "k1*k2"},
    ),
    "sum": ("y = exp(-(a + b)*t)", [of.Parameter("a", 0.2), of.Parameter("b", 0.5)], DECAY, {"a": "a + b"}),
    "sum from zero": ("y = exp(-(a + b)*t)", [of.Parameter("a", 0.0), of.Parameter("b", 0.5)], DECAY, {"b": "a + b"}),
    "difference": ("y = exp((a - 2*b)*t)", [of.Parameter("a", 0.2), of.Parameter("b", 0.5)], DECAY, {"a": "a - 2*b"}),
    "power": ("y = exp(-k3/k2^2*t)", [log("k2", 2.0), log("k3", 0.3)], DECAY, {"k2": "k3/k2^2", "k3": "k3/k2^2"}),
    "root": ("y = exp(-sqrt(a)*b*t)", [log("a", 2.0), log("b", 0.3)], DECAY, {"a": "b^2*a", "b": "b^2*a"}),
    "three": (
        "y = k1*k2*k3*t", [log("k1", 2.0), log("k2", 2.0), log("k3", 0.3)], T + NOISE,
        {"k1": "k1*k2*k3", "k2": "k1*k2*k3", "k3": "k1*k2*k3"},
    ),
    "inverse of three": (
        "y = exp(-t/(a*b*c))", [log("a", 2.0), log("b", 1.5), log("c", 0.8)], DECAY,
        {"a": "a*b*c", "b": "a*b*c", "c": "a*b*c"},
    ),
    "brackets": (
        "y = exp(-a*b/(c*d^3)*t)", [log("a", 2.0), log("b", 0.7), log("c", 1.2), log("d", 0.9)], DECAY,
        {"a": "a*b/(c*d^3)", "d": "a*b/(c*d^3)"},
    ),
    "two pairs": (
        "y = a*b*exp(-c/d*t)", [log("a", 2.0), log("b", 0.7), log("c", 0.4), log("d", 0.9)], DECAY,
        {"a": "a*b", "b": "a*b", "c": "c/d", "d": "c/d"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_structural_combinations(name):
    text, parameters, values, expected = CASES[name]
    result = fitted(text, parameters, values)
    assert result.converged
    for parameter, formula in expected.items():
        verdict = result.parameters[parameter].verdict.removeprefix("only in the combination ")
        assert sorted(verdict) == sorted(formula), verdict  # the order of factors is free
    assert [n.code for n in result.warnings] == ["parameter.combination"] * len({*expected.values()})


def test_what_is_determined_beside_a_combination():
    result = fitted("y = k1*k2*t + k3", [log("k1", 2.0), log("k2", 2.0), log("k3", 0.3)], T + 1 + NOISE)
    assert [row.verdict for row in result.parameters.values()] == [*["only in the combination k1*k2"] * 2, "determined"]
    assert result.warnings[0].text == "k1 and k2 move together: the data fix only k1*k2."


def test_sum_and_product_look_alike_where_the_values_are_equal():
    result = fitted("y = (a + b)*t", [of.Parameter("a", 0.5), of.Parameter("b", 0.5)], T + 1e-3 * NOISE)
    assert result.estimates["a"] == pytest.approx(result.estimates["b"], rel=1e-4)
    assert result.parameters["a"].verdict == "only in combination with b"
    assert result.parameters["b"].verdict == "only in combination with a"


def test_combination_that_is_not_simple():
    result = fitted("y = exp(-k1*k2^0.7310585*t)", [log("k1", 2.0), log("k2", 0.3)], DECAY)
    assert result.parameters["k1"].verdict == "only in combination with k2"
    assert result.warnings[-1].text == "k1 and k2 move together: the data fix only a combination of them."


ROBERTSON = """
y1' = -k1*y1 + k2*y2*y3
y2' = k1*y1 - k2*y2*y3 - k3*y2^2
y3' = k3*y2^2
y1(0) = 1
y2(0) = 0
y3(0) = 0
"""


def test_fast_intermediate_leaves_a_ratio():
    """y2 -> c y2, k2 -> k2/c, k3 -> k3/c^2 changes nothing while y2 is small: only k3/k2^2 is seen."""
    rng = np.random.default_rng(1)
    times = np.linspace(0.3, 12.0, 25)
    truth = {"k1": 0.5, "k2": 1000.0, "k3": 5e5}
    parameters = [log(name, value) for name, value in truth.items()]
    empty = of.Measurements.from_columns(times, {"y1": 0 * times, "y3": 0 * times})
    problem = of.Problem(of.Model.from_text(ROBERTSON), parameters, empty)
    curves = of.simulate(problem, truth, times)
    noisy = {name: curves[name].to_numpy() + 0.02 * rng.normal(size=times.size) for name in ("y1", "y3")}
    result = of.fit(problem.with_measurements(of.Measurements.from_columns(times, noisy)))
    assert result.converged
    assert result.parameters["k1"].verdict == "determined"
    assert result.parameters["k2"].verdict == "only in the combination k3/k2^2"
    assert result.parameters["k3"].verdict == "only in the combination k3/k2^2"
    [notice] = [n for n in result.warnings if n.code == "parameter.combination"]
    assert notice.text.startswith("k2 and k3 move together (correlation 0.99")
    assert notice.text.endswith("): the data fix only k3/k2^2.")
    assert notice.text in " ".join(result.summary().split())
    assert max(map(len, result.summary().splitlines())) <= 100


def test_no_influence():
    result = fitted("y = k1*exp(-k2*t) + 0*s", [log("k1"), log("k2"), log("s")], DECAY)
    assert [row.verdict for row in result.parameters.values()] == [
        "determined", "determined", "not determined by these data",
    ]  # fmt: skip
    assert [n.text for n in result.warnings] == ["'s' is not determined by these data: it has no influence on them."]


def test_bound():
    result = fitted("y = k1*exp(-k2*t)", [log("k1"), log("k2", 0.2, lower=0.1, upper=0.49)], DECAY)
    assert result.parameters["k2"].verdict == "at its bound"
    assert result.parameters["k1"].verdict == "determined"


def test_interval_ends_at_a_bound():
    result = fitted("y = k1*exp(-k2*t) + b", [log("k1"), log("k2"), of.Parameter("b", 0.02, lower=0.0)], DECAY + 0.003)
    assert result.parameters["b"].verdict == "not distinguishable from zero"
    assert result.parameters["b"].interval[0] == 0.0


@pytest.mark.parametrize(
    ("sigma", "verdict"),
    [
        (0.02, "determined"),
        (2.0, "weakly determined (only its order of magnitude)"),
        (8.0, "not determined by these data"),
    ],
)
def test_thresholds(sigma, verdict):
    """Known noise: the interval of k lies within one decade, three decades, or more."""
    result = fitted("y = exp(-k*t)", [log("k", 0.5)], np.exp(-0.5 * T), sigma={"y": sigma})
    low, high = result.parameters["k"].interval
    decades = np.log10(high / low)
    assert {"d": decades <= 1, "w": 1 < decades <= 3, "n": decades > 3}[verdict[0]]
    assert result.parameters["k"].verdict == verdict


def test_pyridine():
    """Intervals over eight and fourteen decades are no estimates."""
    result = of.fit(load("pyridine"))
    words = {name: row.verdict for name, row in result.parameters.items()}
    undetermined = {name for name, word in words.items() if word == "not determined by these data"}
    assert undetermined == {"k4", "k7", "k8", "k11"}
    assert words["k9"].startswith("weakly determined")
    assert {name for name, word in words.items() if word == "determined"} == {"k1", "k2", "k3", "k5", "k6", "k10"}


def test_correlated_but_determined():
    result = fitted("y = a*(t + 1000) + b", [of.Parameter("a", 0.9), of.Parameter("b", 20.0)], T + 1030 + NOISE)
    [notice] = [n for n in result.warnings if n.code == "parameter.correlation"]
    assert notice.text.startswith("a and b move together (correlation -0.9999")
    assert notice.text.endswith("though both are determined.")
