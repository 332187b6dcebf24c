"""Tests of residuals against SciPy and against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import odefit as of
from odefit.statistics.residual_tests import durbin_watson, equal_variance, normality, runs
from odefit.statistics.residuals import Residuals, residual_series


def residuals_of(value, model=None, observable=None, first=None) -> Residuals:
    n = value.size
    code = np.zeros(n, np.int64) if observable is None else observable
    bounds = np.array([0, n] if first is None else first, dtype=np.int64)
    model = np.arange(n, dtype=float) if model is None else model
    return Residuals(value, model, model - value, np.ones(n), None, code, code, np.arange(n, dtype=float), bounds)


@pytest.mark.parametrize("n", [20, 57, 500])
@pytest.mark.parametrize("kind", ["normal", "lognormal", "uniform", "laplace"])
def test_normality(kind, n):
    value = getattr(np.random.default_rng(1), kind)(size=n)
    assert normality(value) == pytest.approx(stats.normaltest(value).pvalue, rel=1e-9)


def test_normality_needs_data():
    assert normality(np.arange(19.0)) is None
    assert normality(np.zeros(30)) is None
    assert normality(np.empty(0)) is None


@pytest.mark.parametrize("n", [10, 40])
def test_runs_have_their_mean_and_variance(n):
    """Moments of the number of runs of shuffled signs, by simulation."""
    rng = np.random.default_rng(2)
    signs = np.where(np.arange(n) < 0.4 * n, 1.0, -1.0)
    p = np.array([runs(residuals_of(rng.permutation(signs))) for _ in range(4000)])
    z = np.sign(np.random.default_rng(0).random(p.size) - 0.5) * stats.norm.isf(p / 2)
    assert np.mean(z**2) == pytest.approx(1.0, abs=0.1)
    assert runs(residuals_of(np.repeat([1.0, -1.0], n))) < 1e-3
    assert runs(residuals_of(np.tile([1.0, -1.0], n))) < 1e-3


def test_runs_of_one_sign_say_nothing():
    assert runs(residuals_of(np.ones(9))) is None


def test_durbin_watson():
    value = np.random.default_rng(3).normal(size=30)
    assert durbin_watson(residuals_of(value)) == pytest.approx(np.sum(np.diff(value) ** 2) / np.sum(value**2))
    many = residuals_of(np.random.default_rng(4).normal(size=9000), first=np.arange(0, 9001, 3))
    assert durbin_watson(many) == pytest.approx(2.0, abs=0.1)
    assert durbin_watson(residuals_of(np.zeros(5))) is None


def test_equal_variance_by_definition():
    """Koenker's form: N R^2 of the regression of the squares on the model value."""
    rng = np.random.default_rng(5)
    model = rng.normal(size=50)
    value = rng.normal(size=50) * np.exp(0.3 * model)
    r = stats.linregress(model, value**2).rvalue
    assert equal_variance(residuals_of(value, model)) == pytest.approx(stats.chi2.sf(50 * r**2, 1), rel=1e-9)


def test_observables_with_noise_of_their_own_are_found():
    rng = np.random.default_rng(6)
    code = np.repeat([0, 1], 40)
    model = rng.normal(size=80)
    value = rng.normal(size=80)
    assert equal_variance(residuals_of(value, model, code, [0, 40, 80])) > 0.01
    assert equal_variance(residuals_of(value * np.where(code == 0, 1.0, 4.0), model, code, [0, 40, 80])) < 1e-2


def test_size_of_the_test_for_equal_variance():
    rng = np.random.default_rng(7)
    code = np.repeat([0, 1, 2], 30)
    p = [equal_variance(residuals_of(rng.normal(size=90), rng.normal(size=90), code)) for _ in range(2000)]
    assert np.mean(np.array(p) < 0.05) == pytest.approx(0.05, abs=0.02)


def test_series_are_in_the_order_of_time():
    """Rows of a file may come in any order, and experiments and observables are series of their own."""
    rng = np.random.default_rng(8)
    experiment = np.repeat(["one", "two"], 10)
    time = np.tile(np.arange(1.0, 6.0), 4)
    name = np.tile(np.repeat(["x", "y"], 5), 2)
    order = rng.permutation(20)
    data = of.Measurements(
        experiment=experiment[order],
        time=time[order],
        observable=name[order],
        value=rng.normal(size=20),
        weight=np.where(np.arange(20) == 3, np.inf, 1.0),
    )
    problem = of.Problem(
        of.Model.from_text("x = a*t\ny = b*t"),
        [of.Parameter("a", 1.0), of.Parameter("b", 1.0)],
        data,
        [of.Experiment("one"), of.Experiment("two")],
    )
    result = of.fit(problem)
    found = residual_series(result.plan, result.solution.evaluation)
    assert found.first.size == 5
    assert found.value.size == 19  # the value that is met exactly is not random
    for start, end in zip(found.first[:-1], found.first[1:], strict=True):
        assert (np.diff(found.time[start:end]) > 0).all()
        assert len(set(zip(found.experiment[start:end], found.observable[start:end], strict=True))) == 1
    np.testing.assert_allclose(found.model - found.data, found.value, atol=1e-12)
    assert found.linked.sum() == 19 - 4
