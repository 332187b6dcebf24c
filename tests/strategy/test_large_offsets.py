"""Curves on offsets of any size: the rank of the linearised problem is judged column by column."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.reliability.families.regression import MODELS, minimum

import odefit as of
from odefit.solve.dense import DenseLinear
from odefit.solve.factor_step import FactorSteps
from odefit.solve.scaling import Scaling

T = np.linspace(0.1, 6.0, 24)
NO_ROWS, NONE = np.empty(0, np.int64), np.empty(0)


@pytest.mark.parametrize("number", range(len(MODELS)))
@pytest.mark.parametrize("offset", [1e3, 1e6, 3e8, 9e8])
@pytest.mark.parametrize("seed", range(3))
def test_the_minimum_is_found_beside_any_offset(number, offset, seed):
    random = np.random.default_rng([number, seed])
    text, curve, (low, high) = MODELS[number]
    truth = np.array([offset, random.uniform(0.5, 2.0), random.uniform(low, high)])
    y = curve(T, truth) + 1e-13 * offset * random.standard_normal(T.size)
    start = truth * np.exp([0.0, *random.uniform(-0.3, 0.3, 2)]) + np.array([random.uniform(-1, 1), 0.0, 0.0])
    parameters = [of.Parameter(n, float(v)) for n, v in zip("abk", start, strict=True)]
    result = of.fit(of.Problem(of.Model.from_text(text), parameters, of.Measurements.from_columns(T, {"y": y})))
    right = minimum(curve, T.tobytes(), y.tobytes(), tuple(truth)).astype(float)
    errors = result.standard_errors("independent")
    assert result.converged
    for name, value in zip("abk", right, strict=True):
        assert abs(result.estimates[name] - value) <= max(1e-6 * abs(value), 0.02 * errors[name])


@pytest.mark.parametrize("seed", range(20))
def test_steps_and_rank_do_not_depend_on_the_size_of_columns(seed):
    """Unknowns in other units have other columns; a full step moves them all the same."""
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 6))
    matrix, right = random.standard_normal((12, n)), random.standard_normal(12)
    sizes = 10.0 ** random.uniform(-7, 7, n)
    steps = []
    for factor in (np.ones(n), sizes):
        x = np.ones(n)
        problem = FactorSteps(Scaling(x, np.zeros(n, bool)), np.full(n, -np.inf), np.full(n, np.inf), NONE)
        problem.move(DenseLinear(matrix * factor, right, NO_ROWS, NONE, NONE), x)
        step = problem.step(np.inf)
        assert step.rank == n
        steps.append(step.v * factor)
    np.testing.assert_allclose(steps[1], steps[0], rtol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_columns_that_depend_on_each_other_are_seen_beside_smaller_ones(seed):
    """A large column that is a multiple of another one counts once; a small independent one counts."""
    random = np.random.default_rng(seed)
    large, small = random.standard_normal(12), random.standard_normal(12)
    matrix = np.column_stack([1e9 * large, 3e8 * large, 1e-2 * small])[:, random.permutation(3)]
    x = np.ones(3)
    problem = FactorSteps(Scaling(x, np.zeros(3, bool)), np.full(3, -np.inf), np.full(3, np.inf), NONE)
    problem.move(DenseLinear(matrix, small + 1e-3 * large, NO_ROWS, NONE, NONE), x)
    step = problem.step(np.inf)
    assert step.rank == 2
    np.testing.assert_allclose(matrix @ step.v, -(small + 1e-3 * large), rtol=1e-4)
