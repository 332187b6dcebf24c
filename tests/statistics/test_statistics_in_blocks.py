"""Statistics of very many unknowns: the same as those of the whole matrix, and nothing as large is formed."""

from __future__ import annotations

import json

import numpy as np
import pytest

import odefit as of
from odefit.solve.bordered import BorderedLinear
from odefit.statistics.blocks import directions_in_blocks, sparse_jacobian
from odefit.statistics.covariance import find_directions
from odefit.statistics.matrices import dense
from odefit.strategy import uncertainty
from odefit.strategy.uncertainty import KINDS, Uncertainty

TIMES = np.linspace(0.2, 3.0, 6)


def many(n, text="x' = -k*x\nx(0) = A", noise=0.01, own="A", **options):
    """Return n experiments with a parameter of their own each."""
    rng = np.random.default_rng(n)
    names = [f"e{i}" for i in range(n)]
    value = np.exp(0.3 * rng.normal(size=(n, 1))) * np.exp(-0.7 * TIMES) + noise * rng.normal(size=(n, TIMES.size))
    data = of.Measurements(
        experiment=np.repeat(names, TIMES.size), time=np.tile(TIMES, n), observable=["x"] * n * TIMES.size,
        value=value.ravel(),
    )  # fmt: skip
    parameters = [of.Parameter("k", 1.0), of.Parameter(own, 1.0, per="experiment", **options)]
    if "s*" in text:
        parameters.append(of.Parameter("s", 1.0))
    return of.Problem(of.Model.from_text(text), parameters, data, experiments=[of.Experiment(name) for name in names])


@pytest.fixture(scope="module")
def result():
    return of.fit(many(60, scale="log", prior="lognormal(1, 2)"))


def test_directions_are_those_of_the_whole_matrix(result):
    linear = result.solution.linear
    assert isinstance(linear, BorderedLinear)
    for held in ([], [0], [3, 7]):
        active = np.zeros(result.solution.x.size, dtype=bool)
        active[held] = True
        whole, blocks = find_directions(linear.factor(), active), directions_in_blocks(linear, active)
        assert whole.rank == blocks.rank
        root = dense(blocks.root)
        np.testing.assert_allclose(root @ root.T, whole.root @ whole.root.T, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(dense(sparse_jacobian(linear)), linear.jacobian)


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_are_those_of_the_whole_matrix(result, kind, monkeypatch):
    whole = Uncertainty(result.plan, result.solution)
    monkeypatch.setattr(uncertainty, "_MANY", 10)
    blocks = Uncertainty(result.plan, result.solution)
    a, b = whole.statistics(kind), blocks.statistics(kind)
    np.testing.assert_allclose(b.standard_error, a.standard_error, rtol=1e-9)
    np.testing.assert_allclose(b.covariance, a.covariance, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(blocks.lag_test, whole.lag_test, rtol=1e-8)
    assert b.quantile == pytest.approx(a.quantile, rel=1e-9)
    for level in (0.01, 0.3):
        i, j, value = b.correlated_pairs(level)
        expected = np.argwhere(np.triu(np.abs(a.correlation) >= level, k=1))
        np.testing.assert_array_equal(np.stack([i, j], axis=1), expected)
        np.testing.assert_allclose(value, a.correlation[i, j], rtol=1e-9)


def test_what_all_experiments_share_a_part_of_is_lost(monkeypatch):
    """Of s A only the product is known: neither s nor any of the many A is determined."""
    problem = many(130, "z' = -k*z\nz(0) = A\nx = s*z", scale="log")
    found = of.fit(problem.with_settings(max_iterations=30))
    for least in (10**6, 10):
        monkeypatch.setattr(uncertainty, "_MANY", least)
        directions = Uncertainty(found.plan, found.solution).directions
        lost = dict(zip(found.plan.names, directions.lost_parameters.tolist(), strict=True))
        assert not lost.pop("k")
        assert all(lost.values())
        assert directions.rank == 131


def test_nothing_as_large_as_a_covariance_is_formed(monkeypatch, tmp_path):
    """A report of n unknowns forms no dense matrix with n columns and n rows, nor the Jacobian."""
    found = of.fit(many(400))
    n = found.solution.x.size
    assert n == 401

    def refuse(self):
        raise AssertionError("a matrix of all unknowns was written out")

    monkeypatch.setattr(BorderedLinear, "jacobian", property(refuse))
    monkeypatch.setattr(BorderedLinear, "factor", refuse)
    monkeypatch.setattr("odefit.statistics.covariance.ParameterStatistics.covariance", property(refuse))
    monkeypatch.setattr("odefit.statistics.covariance.ParameterStatistics.correlation", property(refuse))
    rows = []
    spread = found.statistics.spread
    original = type(spread).rows
    monkeypatch.setattr(type(spread), "rows", lambda self, which: rows.append(which) or original(self, which))
    assert found.summary().count("\n") > n
    content = json.loads(of_json(found))
    assert max(which.stop - which.start for which in rows) <= 256
    assert content["parameters"]["A[e7]"]["verdict"] == "determined"


def of_json(result):
    from odefit.formats.result_file import result_json

    return result_json(result)


def test_small_correlations_are_left_out_of_the_file(result):
    correlation = json.loads(of_json(result))["correlation"]
    known = result.statistics.correlation
    names = result.plan.names
    for i, name in enumerate(names):
        expected = {names[j] for j in np.flatnonzero(np.abs(known[i]) >= 0.5)}
        assert set(correlation[name]) == expected
        assert correlation[name][name] == 1.0


def test_combinations_of_very_many_doubtful_parameters():
    """Eighty pairs of which the data fix the product only: each is named, and with its own partner."""
    n = 80
    t = np.linspace(0.1, 3.0, 4)
    text = "\n".join(f"y{i} = a{i}*b{i}*exp(-0.5*t)" for i in range(n))
    rng = np.random.default_rng(3)
    columns = {f"y{i}": np.exp(-0.5 * t) + 0.01 * rng.normal(size=t.size) for i in range(n)}
    parameters = [of.Parameter(f"{kind}{i}", 1.0, scale="log") for i in range(n) for kind in "ab"]
    found = of.fit(of.Problem(of.Model.from_text(text), parameters, of.Measurements.from_columns(t, columns)))
    for i in range(n):
        for kind in "ab":
            assert found.parameters[f"{kind}{i}"].verdict == f"only in the combination a{i}*b{i}"
