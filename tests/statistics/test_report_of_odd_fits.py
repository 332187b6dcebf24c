"""Bounds, priors, weights from zero to infinity, rank deficiency, one datum: every report can be made and is sane."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import odefit as of
from odefit.formats.result_file import result_json

TEXT = "x' = -k*x + c*z\nx(0) = A\nz = exp(-m*t)\ny = s*x + o"
NAMES = {"k": 0.7, "c": 0.3, "A": 2.0, "m": 1.5, "s": 1.2, "o": 0.1}


def random_problem(seed: int) -> of.Problem:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 14))
    t = np.sort(rng.uniform(0.1, 4.0, n))
    parameters = []
    for name, value in NAMES.items():
        kind = rng.integers(0, 6)
        rest: dict[str, object] = {"scale": rng.choice(["linear", "log", "log10"])}
        if kind == 0:
            rest |= {"fixed": True}
        elif kind == 1:
            rest |= {"upper": 0.9 * value, "lower": 0.1 * value}
        elif kind == 2:
            rest |= {"prior": f"normal({value}, {0.2 * value})"}
        start = value * (0.8 if kind == 1 else float(rng.uniform(0.7, 1.3)))
        parameters.append(of.Parameter(name, start, **rest))
    weight = rng.choice([0.1, 1.0, 3.0, 1e5, 1e12, np.inf], n, p=[0.3, 0.3, 0.25, 0.05, 0.05, 0.05])
    noise = rng.choice([0.0, 0.01, 0.3])
    x = 2.0 * np.exp(-0.7 * t)
    options = {} if rng.random() < 0.4 else {"weight": {"x": weight, "y": np.ones(n)}}
    if not options and rng.random() < 0.5:
        options = {"sigma": {"x": 0.05, "y": 0.1}}
    values = {"x": x + noise * rng.normal(size=n), "y": 1.2 * x + noise * rng.normal(size=n)}
    return of.Problem(of.Model.from_text(TEXT), parameters, of.Measurements.from_columns(t, values, **options))


@pytest.mark.parametrize("seed", range(40))
def test_random_problems(seed):
    problem = random_problem(seed)
    result = of.fit(problem)
    found = json.loads(result_json(result))
    lines = result.summary().splitlines()
    assert max(map(len, lines)) <= 100
    for name, row in result.parameters.items():
        assert row.verdict
        if row.standard_error is not None:
            assert math.isfinite(row.standard_error)
            assert row.standard_error >= 0
        if row.interval is not None:
            low, high = row.interval
            parameter = next(p for p in problem.parameters if p.name == name)
            assert parameter.lower <= low <= row.estimate <= high <= parameter.upper
        if row.verdict in ("at its bound", "fixed"):
            assert row.interval is None
    if result.statistics is not None:
        covariance = result.statistics.covariance
        known = np.isfinite(np.diag(covariance))
        block = covariance[np.ix_(known, known)]
        np.testing.assert_allclose(block, block.T)
        size = np.sqrt(np.maximum(np.outer(np.diag(block), np.diag(block)), 1e-300))
        assert np.linalg.eigvalsh(np.where(size > 1e-150, block / size, 0.0)).min(initial=0.0) > -1e-7
        for values in found["correlation"].values():
            assert all(value is None or -1 <= value <= 1 for value in values.values())


def test_one_datum():
    data = of.Measurements.from_columns([1.0], {"x": [1.0]})
    result = of.fit(of.Problem(of.Model.from_text("x' = -k*x\nx(0) = 2"), [of.Parameter("k", 1.0)], data))
    assert result.converged
    assert [n.code for n in result.warnings] == ["data.few"]
    assert result.parameters["k"].standard_error is None
    assert result.tests.durbin_watson is None


def test_only_values_that_must_be_met():
    data = of.Measurements.from_columns([1.0, 2.0], {"x": [1.0, 0.4]}, weight={"x": np.array([np.inf, np.inf])})
    problem = of.Problem(
        of.Model.from_text("x' = -k*x\nx(0) = A"), [of.Parameter("k", 1.0), of.Parameter("A", 2.0)], data
    )
    result = of.fit(problem)
    assert result.n_data == 0
    assert result.criteria == (None, None, None)
    assert result.summary()


def test_all_parameters_at_bounds():
    data = of.Measurements.from_columns([1.0, 2.0, 3.0, 4.0], {"y": [3.0, 5.0, 7.0, 9.5]})
    problem = of.Problem(
        of.Model.from_text("y = a + b*t"),
        [of.Parameter("a", 0.2, upper=0.5), of.Parameter("b", 1.0, upper=1.5)],
        data,
    )
    result = of.fit(problem)
    assert [row.verdict for row in result.parameters.values()] == ["at its bound"] * 2
    assert result.dof == 4
    assert result.n_estimated == 2
    assert result.summary()


def test_prior_that_alone_determines():
    """s has no data, its prior is all that is known: the standard error is the prior's width."""
    t = np.linspace(0.2, 4.0, 12)
    values = np.exp(-0.7 * t) + 0.02 * np.random.default_rng(1).normal(size=12)
    problem = of.Problem(
        of.Model.from_text("x' = -k*x + 0*s\nx(0) = 1"),
        [of.Parameter("k", 1.0), of.Parameter("s", 3.0, prior="normal(3, 0.25)")],
        of.Measurements.from_columns(t, {"x": values}),
    )
    result = of.fit(problem)
    for kind in ("independent", "autocorrelated", "robust"):
        assert result.standard_errors(kind)["s"] == pytest.approx(0.25)
