"""Minima at infinity: not convergence, and the unknown that runs away is named."""

from __future__ import annotations

import numpy as np
import pytest
from dense_objectives import DenseObjective, gradient, minimise
from hypothesis import given, settings
from hypothesis import strategies as st

from odefit.solve import SOLVERS, LinearStep, SubspaceStep, Switching, TrustRegion, TrustStep

T = np.linspace(0.0, 5.0, 12)
NOISE = 0.01 * np.cos(17 * T)
KINDS = {
    "trust": (TrustStep(), TrustRegion()),
    "trust-linear": (LinearStep(), TrustRegion()),
    "subspace": (SubspaceStep(), TrustRegion()),
    "diffpar": (SubspaceStep(), Switching()),
}
DECAY = np.where(T > 0, -np.abs(NOISE), 1.0)  # below zero from the second point on: no finite rate is fast enough
SATURATED = np.where(T > 0, 3.0 - 0.01 * T, 0.0)  # it falls, if anything: no finite constant is small enough
# function of (a, b, ...), start, unknown without a finite best value, on a log scale
PLATEAUS = {
    "rate to infinity": (lambda x: np.exp(-x[0] * T) - DECAY, (1.0,), 0, False),
    "rate to infinity, log": (lambda x: np.exp(-np.exp(x[0]) * T) - DECAY, (0.0,), 0, True),
    "rate to zero, log": (lambda x: np.exp(-np.exp(x[0]) * T) - 1.001 - 0.001 * T, (0.0,), 0, True),
    "amplitude and rate": (lambda x: x[0] * np.exp(-x[1] * T) - 2 * DECAY, (1.0, 1.0), 1, False),
    "saturation": (lambda x: x[0] * T / (1 / x[1] + T) - SATURATED, (1.0, 1.0), 1, False),
    "saturation, log": (
        lambda x: x[0] * T / (np.exp(-x[1]) + T) - SATURATED, (1.0, 0.0), 1, True,
    ),
}  # fmt: skip


def run(function, start, kind="trust", logarithmic=False):
    step, globalisation = KINDS[kind]
    objective = DenseObjective(function, tuple(f"x{i}" for i in range(len(start))), overflow(function))
    return minimise(objective, start, step=step, globalisation=globalisation, logarithmic=logarithmic)


def overflow(function):
    def fails(x):
        with np.errstate(all="ignore"):
            return "" if np.abs(function(x)).max() < 1e100 else "overflow"

    return fails


def assert_stationary(function, result):
    """What a column of the Jacobian could remove of the residual is within one of the tolerances."""
    size = np.linalg.norm(result.evaluation.linear.triangle().R, axis=0)
    left = max(1.01e-6 * np.linalg.norm(function(result.x)), 1.01e-9)
    assert (np.abs(gradient(function, result.x)) <= left * size).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("function", "start", "runaway", "logarithmic"), PLATEAUS.values(), ids=PLATEAUS)
def test_best_value_at_infinity(function, start, runaway, logarithmic, kind):
    result = run(function, start, kind, logarithmic)
    assert result.status == "flat-valley"
    assert f"'x{runaway}' keeps moving" in result.message


def superfluous(x):
    """Two exponentials for data of one: their rates meet, or one amplitude vanishes."""
    return x[0] * np.exp(-x[1] * T) + x[2] * np.exp(-x[3] * T) - 2 * np.exp(-0.7 * T) - NOISE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [(1.0, 1.0, 1.0, 0.3), (2.0, 0.7, 0.1, 3.0), (1.0, 0.5, 1.0, 0.51)], ids=str)
def test_superfluous_exponential(start, kind):
    result = run(superfluous, start, kind)
    assert result.message
    if result.converged:
        assert_stationary(superfluous, result)


def loses_influence(x):
    """x1 matters through exp(-x0^2), which is gone at the solution x0 = 7."""
    return np.array([x[0] - 7.0, 0.5 * (x[0] - 7.0) + 0.1, np.exp(-(x[0] ** 2)) * (x[1] - 3.0)])


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_that_loses_its_influence_at_the_end(kind):
    result = run(loses_influence, (1.0, 1.0), kind)
    assert result.status == "flat-valley"
    assert "'x1' keeps moving" in result.message
    assert result.x[0] == pytest.approx(6.96, abs=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_unknown_without_any_influence_stays(place, kind):
    def function(x):
        a, k = np.delete(x, place)
        return a * np.exp(-k * T) - 2 * np.exp(-0.7 * T) - NOISE

    result = run(function, (1.0, 1.0, 1.0), kind)
    assert result.status == "converged"
    assert result.rank == 2
    assert result.x[place] == 1.0


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    amplitude=st.floats(0.1, 10.0), rate=st.floats(0.05, 5.0), noise=st.floats(0.0, 0.3), seed=st.integers(0, 99),
    start=st.tuples(st.floats(-20.0, 20.0), st.floats(-2.0, 20.0)),
)  # fmt: skip
def test_converged_means_stationary(kind, amplitude, rate, noise, seed, start):
    data = amplitude * np.exp(-rate * T) + noise * np.random.default_rng(seed).normal(size=T.size)

    def function(x):
        return x[0] * np.exp(-x[1] * T) - data

    result = run(function, start, kind)
    if not result.converged:
        return
    assert_stationary(function, result)
    reduced = result.evaluation.linear.triangle()
    if result.rank == 2 and np.linalg.norm(function(result.x)) > 1e-6:
        full = np.linalg.lstsq(reduced.R, reduced.b, rcond=None)[0]
        scale = np.maximum(np.abs(result.x), 0.1 * np.abs(start))
        assert (np.abs(full) <= 0.101 * scale + 1e-8).all()


def test_the_kinds_are_those_of_the_solvers():
    for name, (step, globalisation) in KINDS.items():
        assert (SOLVERS[name].step, SOLVERS[name].globalisation) == (step, globalisation)
