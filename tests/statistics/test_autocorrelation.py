"""Autocorrelated errors: traces against dense matrices, the test under independence, coverage."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of
from odefit.errors import ProblemError
from odefit.statistics.autocorrelation import (
    _products_by_fourier,
    _sums_of_diagonals,
    correlated,
    first_order_errors,
    lag_test,
)
from odefit.statistics.covariance import find_directions, statistics_of
from odefit.statistics.residuals import Residuals
from odefit.statistics.sandwich import unequal_variances


def series_of(residual, jacobian, lengths):
    first = np.concatenate([[0], np.cumsum(lengths)])
    n = residual.size
    code = np.repeat(np.arange(len(lengths)), lengths)
    one = np.ones(n)
    return Residuals(
        residual, residual, 0 * one, one, jacobian, code, 0 * code, np.arange(n, dtype=float), first.astype(np.int64)
    )


def correlation_matrix(lengths, rho):
    out = np.zeros((sum(lengths), sum(lengths)))
    start = 0
    for m in lengths:
        place = np.arange(m)
        out[start : start + m, start : start + m] = rho ** np.abs(place[:, None] - place)
        start += m
    return out


def lag_matrix(lengths):
    out = 0.5 * (np.abs(np.subtract.outer(np.arange(sum(lengths)), np.arange(sum(lengths)))) == 1)
    for end in np.cumsum(lengths)[:-1]:
        out[end - 1, end] = out[end, end - 1] = 0.0
    return out


def directions_of(*rows):
    stacked = np.vstack(rows)
    return find_directions(np.linalg.qr(stacked)[1], np.zeros(stacked.shape[1], bool))


def image_of(jacobian, *rows):
    """Q = S W."""
    return jacobian @ directions_of(jacobian, *rows).root


LENGTHS = [1, 7, 12, 5]


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.95])
def test_multiplication_by_the_correlation_matrix(rho):
    residuals = series_of(np.ones(25), np.ones((25, 1)), LENGTHS)
    x = np.random.default_rng(1).normal(size=(25, 3))
    np.testing.assert_allclose(correlated(x, residuals.linked, rho), correlation_matrix(LENGTHS, rho) @ x, rtol=1e-10)


@pytest.mark.parametrize("m", [1, 2, 7, 64])
def test_products_by_fourier_transforms(m):
    x, y = np.random.default_rng(m).normal(size=(2, m, 3))
    np.testing.assert_allclose(_products_by_fourier(x, y), _sums_of_diagonals(x @ y.T), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("prior", [False, True])
def test_estimates_against_dense_matrices(prior):
    """rho, s^2 and the covariance satisfy their defining equations."""
    rng = np.random.default_rng(2)
    jacobian = np.stack([np.ones(25), np.arange(25) / 25, rng.normal(size=25)], axis=1)
    rows = np.diag([0.5, 2.0, 0.0])[:2] if prior else np.empty((0, 3))
    directions = directions_of(jacobian, rows)
    inverse = np.linalg.inv(jacobian.T @ jacobian + rows.T @ rows)
    m = np.eye(25) - jacobian @ inverse @ jacobian.T
    r = m @ np.linalg.cholesky(correlation_matrix(LENGTHS, 0.8)) @ rng.normal(size=25)
    residuals = series_of(r, jacobian, LENGTHS)
    q, lag = image_of(jacobian, rows), lag_matrix(LENGTHS)
    plain = lag_test(residuals, q).lag1
    found = first_order_errors(residuals, q, plain, absolute=False, prior_image=rows @ directions.root)
    c = correlation_matrix(LENGTHS, found.rho)
    assert 0.1 < found.rho < 0.95
    assert np.trace(m @ c @ m @ lag) / np.trace(m @ c @ m) == pytest.approx(r @ lag @ r / (r @ r), abs=1e-5)
    assert found.variance == pytest.approx(r @ r / np.trace(m @ c @ m), rel=1e-5)
    expected = inverse @ (found.variance * jacobian.T @ c @ jacobian + rows.T @ rows) @ inverse
    covariance = statistics_of(directions, found.middle, found.variance, 2.0).covariance
    np.testing.assert_allclose(covariance, expected, rtol=1e-7)


def test_moments_of_the_test_against_dense_matrices():
    rng = np.random.default_rng(3)
    jacobian = rng.normal(size=(25, 4))
    m = np.eye(25) - jacobian @ np.linalg.pinv(jacobian)
    r = m @ rng.normal(size=25)
    found = lag_test(series_of(r, jacobian, LENGTHS), image_of(jacobian))
    lag = lag_matrix(LENGTHS)
    expected = np.trace(m @ lag) / np.trace(m)
    k = lag - expected * np.eye(25)
    deviation = r @ k @ r / (r @ r / 21)
    assert found.lag1 == pytest.approx(r @ lag @ r / (r @ r))
    assert found.expected == pytest.approx(expected)
    assert found.z == pytest.approx(deviation / np.sqrt(2 * np.trace(m @ k @ m @ k)))


@pytest.mark.parametrize(("n", "columns"), [(12, 3), (40, 5), (200, 2)])
def test_size_of_the_test(n, columns):
    """Independent errors are called autocorrelated in 2.5 % of cases, however few the data."""
    rng = np.random.default_rng(4)
    jacobian = np.linspace(-1, 1, n)[:, None] ** np.arange(columns)
    q = image_of(jacobian)
    scores = []
    for _ in range(2000):
        u = rng.normal(size=n)
        scores.append(lag_test(series_of(u - q @ (q.T @ u), jacobian, [n]), q).z)
    assert abs(np.mean(scores)) < 0.1
    assert np.std(scores) == pytest.approx(1.0, abs=0.1)
    assert 0.01 < np.mean(np.array(scores) > 1.96) < 0.04


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_rho_is_hardly_biased(rho):
    """The plain quotient of 30 residuals from a quadratic is far too small."""
    rng = np.random.default_rng(5)
    jacobian = np.linspace(-1, 1, 30)[:, None] ** np.arange(3)
    q = image_of(jacobian)
    root = np.linalg.cholesky(correlation_matrix([30], rho))
    plain, found = [], []
    for _ in range(400):
        u = root @ rng.normal(size=30)
        residuals = series_of(u - q @ (q.T @ u), jacobian, [30])
        plain.append(lag_test(residuals, q).lag1)
        found.append(first_order_errors(residuals, q, plain[-1], absolute=False).rho)
    assert abs(np.median(found) - rho) < 0.1
    assert np.median(plain) < rho - 0.08


def test_sandwich_against_its_definition():
    rng = np.random.default_rng(6)
    jacobian = rng.normal(size=(20, 3))
    inverse = np.linalg.inv(jacobian.T @ jacobian)
    r = (np.eye(20) - jacobian @ inverse @ jacobian.T) @ rng.normal(size=20)
    directions = directions_of(jacobian)
    middle = unequal_variances(series_of(r, jacobian, [20]), image_of(jacobian))
    leverage = np.diag(jacobian @ inverse @ jacobian.T)
    expected = inverse @ (jacobian.T * (r / (1 - leverage)) ** 2) @ jacobian @ inverse
    np.testing.assert_allclose(statistics_of(directions, middle, 1.0, 2.0).covariance, expected, rtol=1e-9)


# --- on fits ---


def decay(n):
    t = np.linspace(5.0 / n, 5.0, n)
    exact = 2.0 * np.exp(-0.5 * t)
    problem = of.Problem(
        of.Model.from_text("x' = -k*x\nx(0) = A"),
        [of.Parameter("k", 0.6, scale="log"), of.Parameter("A", 1.8, scale="log")],
        of.Measurements.from_columns(t, {"x": exact}),
    )
    return problem, t, exact


def first_order_noise(rng, n, rho):
    from scipy.signal import lfilter

    start = rng.normal()
    noise = np.sqrt(1 - rho**2) * rng.normal(size=n - 1)
    return np.append(start, lfilter([1.0], [1.0, -rho], noise, zi=[rho * start])[0])


def coverage(n, rho, sets, seed):
    """Return the coverage of the intervals, of those for independent errors, and the last result."""
    problem, t, exact = decay(n)
    rng = np.random.default_rng(seed)
    hits = np.zeros((2, 2))
    result = None
    for _ in range(sets):
        data = of.Measurements.from_columns(t, {"x": exact + 0.02 * first_order_noise(rng, n, rho)})
        result = of.fit(problem.with_measurements(data))
        assert result.converged
        deviation = np.abs(result.solution.x - np.log([0.5, 2.0]))
        for i, found in enumerate((result.statistics, result.uncertainty.independent)):
            hits[i] += deviation <= found.quantile * found.standard_error
    return hits / sets, result


@pytest.mark.slow
def test_intervals_cover_with_strong_autocorrelation():
    """10 000 samples, 0.95 from one to the next: worth 256 independent ones."""
    (used, naive), result = coverage(10_000, 0.95, 100, 7)
    assert used.min() >= 0.90
    assert naive.max() < 0.5
    assert result.uncertainty.autocorrelation.rho == pytest.approx(0.95, abs=0.02)
    assert [notice.code for notice in result.warnings] == ["residuals.autocorrelated"]
    text = " ".join(result.summary().split())
    assert "The residuals are autocorrelated (correlation 0.9" in text
    assert "standard errors and intervals allow for it; they are" in text


@pytest.mark.slow
@pytest.mark.parametrize(("n", "rho"), [(50, 0.8), (200, 0.5), (200, 0.95)])
def test_intervals_cover_with_fewer_data(n, rho):
    (used, naive), _ = coverage(n, rho, 300, 8)
    assert used.min() >= 0.90
    assert naive.max() < 0.85


def test_kinds_of_errors():
    problem, t, exact = decay(60)
    noise = 0.01 * np.random.default_rng(9).normal(size=60)
    result = of.fit(problem.with_measurements(of.Measurements.from_columns(t, {"x": exact + noise * (1 + 3 * t)})))
    assert result.uncertainty.kind == "independent"
    assert result.standard_errors() == result.standard_errors("independent")
    assert result.standard_errors()["k"] == pytest.approx(result.parameters["k"].standard_error)
    robust = result.covariance("robust")
    assert list(robust.columns) == ["k", "A"]
    assert np.sqrt(robust.loc["A", "A"]) == pytest.approx(result.standard_errors("robust")["A"])
    assert result.standard_errors("robust")["A"] != pytest.approx(result.standard_errors()["A"], rel=0.01)
    with pytest.raises(ProblemError, match="there is no covariance for 'robst' errors; did you mean 'robust'"):
        result.covariance("robst")


def test_too_few_data_for_other_kinds():
    problem, t, exact = decay(2)
    result = of.fit(problem.with_measurements(of.Measurements.from_columns(t, {"x": exact + [0.1, 0.2]})))
    with pytest.raises(ProblemError, match="too few data in a row"):
        result.standard_errors("autocorrelated")
    with pytest.raises(ProblemError, match="need more data than parameters"):
        result.standard_errors("robust")
