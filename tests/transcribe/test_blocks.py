"""Many experiments: which unknowns are local, and that elimination by blocks fits like a dense one."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of
from odefit.transcribe import SingleShooting, blocks

DECAY = "C' = -k*C - q*C^2\nC(0) = A"
TIMES = np.array([0.0, 0.3, 0.7, 1.5, 3.0])


def problem(n=20, prior=None):
    """Decays with A and k of their own and a common q."""
    rng = np.random.default_rng(2)
    model = of.Model.from_text(DECAY)
    names = [f"e{i}" for i in range(n)]
    columns = {"experiment": [], "time": [], "value": []}
    for name in names:
        a, k = np.exp(0.2 * rng.normal(size=2))
        fading = np.exp(-k * TIMES)
        exact = k * a * fading / (k + 0.3 * a * (1.0 - fading))
        columns["experiment"] += [name] * TIMES.size
        columns["time"] += TIMES.tolist()
        columns["value"] += (exact + 0.01 * rng.normal(size=TIMES.size)).tolist()
    data = of.Measurements(
        observable=np.full(len(columns["time"]), "C"), **{k: np.array(v) for k, v in columns.items()}
    )
    parameters = [
        of.Parameter("A", start=0.8, per="experiment", prior=prior),
        of.Parameter("k", start=0.7, scale="log", per="experiment"),
        of.Parameter("q", start=0.1, lower=0.0),
    ]
    return of.Problem(
        model=model, parameters=parameters, experiments=[of.Experiment(name) for name in names], measurements=data
    )


@pytest.mark.parametrize("prior", [None, "normal(1, 0.5)"])
def test_same_fit_as_without_blocks(prior, monkeypatch):
    given = problem(prior=prior)
    by_blocks = of.fit(given)
    monkeypatch.setattr(blocks, "WORTH_IT", 10**9)
    whole = of.fit(problem(prior=prior))  # another problem: what was planned for the first is remembered
    assert by_blocks.solution.linear.metric == "scaled"
    assert whole.solution.linear.metric == "factors"
    assert by_blocks.status == whole.status == "converged"
    assert by_blocks.objective == pytest.approx(whole.objective, rel=1e-8)
    for name, row in whole.parameters.items():
        assert by_blocks.parameters[name].estimate == pytest.approx(row.estimate, rel=1e-4)
        if row.verdict == "at its bound":
            assert by_blocks.parameters[name].verdict == row.verdict
        else:
            assert by_blocks.parameters[name].standard_error == pytest.approx(row.standard_error, rel=1e-3)


def test_jacobian_written_out(monkeypatch):
    given = problem(prior="normal(1, 0.5)")
    found = of.evaluate(given)
    monkeypatch.setattr(blocks, "WORTH_IT", 10**9)
    expected = of.evaluate(problem(prior="normal(1, 0.5)"))
    np.testing.assert_array_equal(found.jacobian, expected.jacobian)
    np.testing.assert_array_equal(found.residuals, expected.residuals)


def test_reduction_of_a_residual():
    objective = SingleShooting(problem())
    x = objective.compiled.theta_start
    objective.refresh(x)
    linear = objective.evaluate(x, 1).linear
    matrix, right = linear.factor(), linear.right.ravel()
    jacobian, residual = linear.jacobian, linear.residual
    np.testing.assert_allclose(matrix.T @ matrix, jacobian.T @ jacobian, atol=1e-10)
    np.testing.assert_allclose(matrix.T @ right, -jacobian.T @ residual, atol=1e-10)
    other = np.random.default_rng(0).normal(size=residual.size)
    np.testing.assert_allclose(matrix.T @ linear.reduce_residual(other).ravel(), -jacobian.T @ other, atol=1e-10)


def as_parts(*rows):
    return [np.array(row, dtype=np.int64) for row in rows]


def test_small_problems_stay_whole():
    assert blocks.find_blocks(as_parts(*[[i, 9] for i in range(9)]), [3] * 9, 10) is None


def test_one_block_for_each_experiment():
    parts = as_parts(*[[2 * i, 2 * i + 1, 40] for i in range(20)])
    found = blocks.find_blocks(parts, [3] * 20, 41)
    assert found is not None
    assert found.blocks.shared.tolist() == [40]
    assert found.blocks.local.tolist() == [[2 * i, 2 * i + 1] for i in range(20)]
    assert found.width == 3
    assert found.position[[0, 1, 40]].tolist() == [0, 1, 2]


def test_experiments_with_a_common_local_unknown_share_a_block():
    """Pairs of experiments of one batch."""
    parts = as_parts(*[[2 * (i // 2), 2 * (i // 2) + 1, 40] for i in range(40)])
    found = blocks.find_blocks(parts, [3] * 40, 41)
    assert found is not None
    assert len(found.blocks.n_local) == 20
    assert found.first.tolist() == list(range(0, 121, 6))


def test_a_chain_of_common_unknowns_is_no_block_structure():
    parts = as_parts(*[[i, i + 1] for i in range(40)])
    found = blocks.find_blocks(parts, [3] * 40, 41)
    assert found is None


def test_priors_join_the_block_of_their_unknown():
    parts = as_parts(*[[2 * i, 2 * i + 1, 40] for i in range(20)], [4], [40])
    found = blocks.find_blocks(parts, [3] * 20 + [1, 1], 41)
    assert found is not None
    sizes = np.diff(found.first)
    block = found.blocks.local.tolist().index([4, 5])
    assert sizes[block] == 4
    assert 60 in found.row_order[found.first[block] : found.first[block + 1]]


@pytest.mark.parametrize("solver", ["subspace", "diffpar"])
@pytest.mark.parametrize("prior", [None, "normal(1, 0.5)"])
def test_steps_in_subspaces_do_not_depend_on_the_structure(solver, prior, monkeypatch):
    """40 experiments with unknowns of their own take the steps of one dense problem, to rounding."""
    by_blocks = of.fit(problem(40, prior=prior), solver=solver)
    monkeypatch.setattr(blocks, "WORTH_IT", 10**9)
    whole = of.fit(problem(40, prior=prior), solver=solver)
    assert by_blocks.plan.layout is not None
    assert whole.plan.layout is None
    assert by_blocks.status == whole.status
    assert len(by_blocks.solution.trace) == len(whole.solution.trace) > 2
    for one, other in zip(by_blocks.solution.trace, whole.solution.trace, strict=True):
        assert one.rank == other.rank
        for name in ("objective", "decrement", "step", "damping", "radius"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-8, abs=1e-10), name
    np.testing.assert_allclose(by_blocks.solution.x, whole.solution.x, rtol=1e-9)


def test_the_unknown_to_blame_for_a_derivative_is_named(monkeypatch):
    """The Jacobian in blocks has few columns, which stand for other unknowns in every block."""
    given = problem(20)
    model = of.Model.from_text("y = sqrt(s)*t + k*t + q")
    parameters = [of.Parameter("s", 1.0, lower=0.0, per="experiment"), of.Parameter("k", 1.0, per="experiment")]
    data = of.Measurements(
        given.measurements.experiment, given.measurements.time, np.full(100, "y"), given.measurements.value
    )
    bad = of.Problem(model, [*parameters, of.Parameter("q", 0.1)], data, given.experiments)
    bad = bad.with_start(**{"s[e7]": 0.0})
    for worth_it in (blocks.WORTH_IT, 10**9):
        monkeypatch.setattr(blocks, "WORTH_IT", worth_it)
        found = of.evaluate(bad.with_measurements(data))
        assert found.status == "failed"
        assert "derivative of an observable with respect to 's[e7]' is not a finite number" in found.message
