"""Covariance with priors and with rows that hold exactly, against closed forms; the delta method."""

from __future__ import annotations

import numpy as np
import pytest
from independent_errors_of_rows import statistics_of_rows
from scipy.linalg import null_space

import odefit as of
from odefit.statistics import derived
from odefit.statistics.delta import standard_errors


def factor(rows):
    return np.linalg.qr(rows)[1]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("absolute", [True, False])
def test_priors_keep_their_own_variance(seed, absolute):
    """Monte Carlo is not needed: the estimate is linear in data and priors, H^-1 (J'y + P'z)."""
    rng = np.random.default_rng(seed)
    jacobian, prior = rng.normal(size=(12, 3)), np.array([[2.0, 0, 0], [0, 0.5, 0]])
    squares = 3.7
    found = statistics_of_rows(
        factor(np.vstack([jacobian, prior])), np.zeros(3, bool), squares, 12, absolute=absolute, prior_rows=prior
    )
    variance = 1.0 if absolute else squares / 9
    inverse = np.linalg.inv(jacobian.T @ jacobian + prior.T @ prior)
    expected = inverse @ (variance * jacobian.T @ jacobian + prior.T @ prior) @ inverse
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [1, 2, 3])
def test_rows_that_hold_exactly_confine_the_estimates(seed, k):
    rng = np.random.default_rng(seed)
    jacobian, exact = rng.normal(size=(15, 4)), rng.normal(size=(k, 4))
    found = statistics_of_rows(factor(jacobian), np.zeros(4, bool), 1.0, 15, absolute=True, equality_rows=exact)
    z = null_space(exact)
    expected = z @ np.linalg.inv(z.T @ jacobian.T @ jacobian @ z) @ z.T
    np.testing.assert_allclose(found.covariance, expected, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(exact @ found.covariance, 0.0, atol=1e-10)
    assert found.rank == 4 - k


def test_large_weights_tend_to_rows_that_hold_exactly():
    rng = np.random.default_rng(3)
    jacobian, exact = rng.normal(size=(15, 3)), rng.normal(size=(1, 3))
    limit = statistics_of_rows(factor(jacobian), np.zeros(3, bool), 1.0, 15, absolute=True, equality_rows=exact)
    heavy = statistics_of_rows(factor(np.vstack([1e6 * exact, jacobian])), np.zeros(3, bool), 1.0, 16, absolute=True)
    np.testing.assert_allclose(heavy.covariance, limit.covariance, rtol=1e-5, atol=1e-9)


def test_parameter_fixed_by_an_exact_row_has_no_error():
    jacobian = np.random.default_rng(1).normal(size=(10, 2))
    found = statistics_of_rows(
        factor(jacobian), np.zeros(2, bool), 1.0, 10, absolute=True, equality_rows=np.array([[1.0, 0.0]])
    )
    assert found.verdict == ("determined", "determined")
    assert found.standard_error[0] == pytest.approx(0.0, abs=1e-12)


def test_undetermined_directions_spoil_only_what_depends_on_them():
    covariance = np.array([[4.0, 0.0, np.nan], [0.0, 9.0, np.nan], [np.nan, np.nan, np.nan]])
    found = standard_errors(np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1e-9]]), covariance)
    np.testing.assert_allclose(found, [2.0, np.sqrt(13.0), np.nan])


def test_standard_errors_are_those_of_the_formula():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(6, 6))
    gradients = rng.normal(size=(4, 3, 6)) * (rng.uniform(size=(4, 3, 6)) < 0.5)
    gradients[1, 2], gradients[2, 0, 3] = 0.0, np.nan
    expected = np.sqrt(np.einsum("abi,ij,abj->ab", gradients, root @ root.T, gradients))
    np.testing.assert_allclose(standard_errors(gradients, root @ root.T), expected, rtol=1e-12)
    assert expected[1, 2] == 0.0
    assert np.isnan(expected[2, 0])
    strided = np.moveaxis(gradients, 0, 1)
    np.testing.assert_allclose(standard_errors(strided, root @ root.T), expected.T, rtol=1e-12)
    assert standard_errors(np.empty((0, 3, 6)), root @ root.T).shape == (0, 3)


@pytest.fixture(scope="module")
def decay():
    t = np.linspace(0.2, 4.0, 12)
    y = 2.0 * np.exp(-0.7 * t) + 0.01 * np.random.default_rng(4).standard_normal(12)
    problem = of.Problem(
        of.Model.from_text("x' = -k*x\nx(0) = A\nlogx = log(x)\nthird = x + s"),
        [of.Parameter("k", 1.0, scale="log"), of.Parameter("A", 1.0), of.Parameter("s", 1.0)],
        of.Measurements.from_columns(t, {"x": y}),
        derived={"half": "log(2)/k", "slope": "k*A", "other": "s"},
    )
    return of.fit(problem)


def test_derived_quantities(decay):
    k, a = decay.estimates["k"], decay.estimates["A"]
    covariance = decay.statistics.covariance[:2, :2]  # of log k and A
    for name, value, gradient in (
        ("half", np.log(2) / k, [-np.log(2) / k, 0.0]),
        ("slope", k * a, [k * a, k]),
    ):
        row = decay.derived[name]
        error = np.sqrt(np.array(gradient) @ covariance @ gradient)
        assert row.estimate == pytest.approx(value)
        assert row.standard_error == pytest.approx(error, rel=1e-9)
        assert row.interval == pytest.approx(
            (value - decay.statistics.quantile * error, value + decay.statistics.quantile * error)
        )


def test_what_the_data_do_not_tell_has_no_error(decay):
    assert decay.parameters["s"].verdict == "not determined by these data"
    assert decay.derived["other"] == (1.0, None, None)
    bands = decay.predict(times=[0.5, 1.0])
    assert bands["third.se"].isna().all()
    assert bands["x.se"].notna().all()


def test_prediction_bands(decay):
    t = np.array([0.0, 1.0, 3.0])
    bands = decay.predict(times=t)
    k, a = decay.estimates["k"], decay.estimates["A"]
    x = a * np.exp(-k * t)
    gradient = np.stack([-k * t * x, x / a], axis=1)  # by log k and A
    error = np.sqrt(np.einsum("ti,ij,tj->t", gradient, decay.statistics.covariance[:2, :2], gradient))
    np.testing.assert_allclose(bands["x"], x, rtol=1e-6)
    np.testing.assert_allclose(bands["x.se"], error, rtol=1e-5)
    np.testing.assert_allclose(bands["logx.se"], error / x, rtol=1e-5)
    np.testing.assert_allclose(bands["x.upper"] - bands["x.lower"], 2 * decay.statistics.quantile * error, rtol=1e-5)


def test_derived_quantities_are_compiled_once(decay, monkeypatch):
    expected = {name: row.estimate for name, row in of.fit(decay.problem).derived.items()}
    monkeypatch.setattr(derived, "FunctionLibrary", None)  # nothing can be compiled from now on
    again = of.fit(decay.problem.with_start(k=0.9))
    assert {name: row.estimate for name, row in again.derived.items()} == pytest.approx(expected, rel=1e-4)


def test_derived_quantities_per_experiment():
    """Pharmacokinetics: the clearance depends on the subject's weight and on a factor of its own."""
    t = np.array([1.0, 2.0, 4.0, 8.0])
    text = "c' = -CL/V*c\nc(0) = 10/V\nCL = CLpop*(WT/70)^0.75*eCL\nWT = 70"
    weights = {"s1": 60.0, "s2": 90.0}
    values = [
        10 / 5 * np.exp(-2.0 * (w / 70) ** 0.75 * f / 5 * t) for w, f in zip(weights.values(), (1.1, 0.9), strict=True)
    ]
    problem = of.Problem(
        of.Model.from_text(text),
        [
            of.Parameter("CLpop", 1.0, scale="log"),
            of.Parameter("V", 4.0, scale="log"),
            of.Parameter("eCL", 1.0, scale="log", per="experiment", prior="lognormal(1, 0.3)"),
        ],
        of.Measurements.from_columns(
            np.tile(t, 2),
            {"c": np.concatenate(values)},
            experiment=np.repeat(["s1", "s2"], 4).tolist(),
            sigma={"c": 0.01},
        ),
        [of.Experiment(name, (of.Period(0.0, {"WT": w}),)) for name, w in weights.items()],
        derived={"t_half": "log(2)*V/CL", "volume": "V"},
    )
    result = of.fit(problem)
    assert list(result.derived) == ["t_half[s1]", "t_half[s2]", "volume"]
    found = result.estimates
    for name, w in weights.items():
        clearance = found["CLpop"] * (w / 70) ** 0.75 * found[f"eCL[{name}]"]
        row = result.derived[f"t_half[{name}]"]
        assert row.estimate == pytest.approx(np.log(2) * found["V"] / clearance)
        place = [result.plan.names.index(n) for n in ("CLpop", "V", f"eCL[{name}]")]
        gradient = row.estimate * np.array([-1.0, 1.0, -1.0])  # by the logarithms
        covariance = result.statistics.covariance[np.ix_(place, place)]
        assert row.standard_error == pytest.approx(np.sqrt(gradient @ covariance @ gradient), rel=1e-9)
