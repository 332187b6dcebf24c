"""Where rounding hides the way down: a minimum, or just any point."""

from __future__ import annotations

import numpy as np
import pytest
from dense_objectives import minimise_function

from odefit.solve import SolverStatus
from odefit.solve.surroundings import is_surrounded

T = np.linspace(0.1, 1.0, 10)
STEEP = 1e17


def unstable(x):
    """Return residuals that one unit in the last place of x changes by more than themselves."""
    return STEEP * (x[0] - np.pi) * T + np.cos(7 * T)


def chaotic(x):
    """Return residuals that depend on x as strongly, and stay as they are in size."""
    return 3.0 * np.sin(STEEP * (x[0] - 1.1) * T) + 2.0 + np.cos(7 * T)


@pytest.mark.parametrize("start", [3.0, 3.1, -20.0, 400.0])
def test_a_minimum_that_only_rounding_hides(start):
    result, _ = minimise_function(unstable, [start])
    assert result.status == SolverStatus.CONVERGED
    assert result.x[0] == pytest.approx(np.pi, rel=4e-16)
    if result.note:
        assert "rounding" in result.note


@pytest.mark.parametrize("start", [3.0, 3.1, -20.0, 400.0])
def test_nothing_was_minimised(start):
    result, _ = minimise_function(chaotic, [start])
    assert result.status == SolverStatus.SENSITIVE
    assert not result.converged
    assert "nothing tells whether this is a minimum" in result.message


@pytest.mark.parametrize("seed", range(20))
def test_no_false_success_where_rounding_decides(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))
    waves = rng.normal(size=(12, n)) * 10.0 ** rng.uniform(16, 25)
    phase = rng.uniform(0, 6, 12)
    result, _ = minimise_function(lambda x: np.sin(waves @ x + phase) + 1.5, rng.uniform(-3, 3, n))
    assert not result.converged


def quadratic(x):
    return np.array([1e3 * (x[0] - 1.0), 1e-3 * (x[1] - 2.0), 1.0])


def saturating(x):
    return np.array([1e3 * (x[0] - 1.0), np.tanh(1e-3 * (x[1] - 2.0)), 1.0])


@pytest.mark.parametrize(("function", "expected"), [(quadratic, True), (saturating, False)])
def test_all_directions_have_to_rise(function, expected):
    _, objective = minimise_function(function, [1.0, 2.0])
    point = objective.evaluate(np.array([1.0, 2.0]), 1)
    box = np.full(2, -np.inf), np.full(2, np.inf)
    free = np.ones(2, bool)
    assert is_surrounded(point, free, np.ones(2), box, objective.evaluate) == expected
    assert is_surrounded(point, np.array([True, False]), np.ones(2), box, objective.evaluate)


def test_bounds_are_no_way_down():
    _, objective = minimise_function(saturating, [1.0, 2.0])
    point = objective.evaluate(np.array([1.0, 2.0]), 1)
    box = np.array([-np.inf, 1.9]), np.array([np.inf, 2.1])
    assert is_surrounded(point, np.ones(2, bool), np.ones(2), box, objective.evaluate)
