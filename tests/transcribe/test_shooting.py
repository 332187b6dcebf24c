"""Experiments in one native call against the same through the integrator's own `solve`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import odefit as of
from odefit.gallery import load
from odefit.integrate.native import native_method
from odefit.native.stop import StopFlag
from odefit.solve import Failed, LeastSquares
from odefit.transcribe import SingleShooting, record, shooting
from odefit.transcribe.plan import plan_of
from odefit.transcribe.shooting_kernel import shoot_experiments

NAMES = ("barnes", "barnes/b", "pyridine", "herbert", "lotka_volterra_iss", "ecoli_batches", "arrhenius")


def test_constants_are_the_positions_of_the_fields():
    for i, name in enumerate(record.Record._fields):
        assert getattr(record, name.upper()) == i


def evaluated(problem, monkeypatch, *, native):
    """Return a fresh evaluation and a replay nearby."""
    if not native:
        monkeypatch.setattr("odefit.transcribe.shooting.native_method", lambda *_: None)
    objective = SingleShooting(problem)
    x = objective.compiled.theta_start.copy()
    objective.refresh(x)
    fresh = objective.evaluate(x, 1)
    near = x + 1e-4 * np.maximum(np.abs(x), 1e-2)
    return objective, fresh, objective.evaluate(near, 1), objective.evaluate(near, 0)


@pytest.mark.parametrize("name", NAMES)
def test_one_native_call_does_what_the_stages_do(name, monkeypatch):
    problem = load(name)
    one, *natively = evaluated(problem, monkeypatch, native=True)
    other, *by_stages = evaluated(problem, monkeypatch, native=False)
    for found, expected in zip(natively, by_stages, strict=True):
        np.testing.assert_array_equal(found.residual, expected.residual)
        assert found.value == pytest.approx(expected.value, rel=1e-14)
        assert found.error_ratio == expected.error_ratio
        if expected.linear is not None:
            np.testing.assert_array_equal(found.linear.jacobian, expected.linear.jacobian)
            for part, same in zip(found.linear.triangle()[:2], expected.linear.triangle()[:2], strict=True):
                np.testing.assert_allclose(part, same, rtol=1e-13, atol=1e-13 * np.abs(same).max())
            trial = expected.residual[::-1].copy()
            np.testing.assert_allclose(
                found.linear.reduce_residual(trial), expected.linear.reduce_residual(trial), rtol=1e-10, atol=1e-12
            )
    assert one.methods == other.methods
    for grid, same in zip(one.grids, other.grids, strict=True):
        np.testing.assert_array_equal(grid.steps, same.steps)
        np.testing.assert_array_equal(grid.counts, same.counts)


def two_experiments(text: str, parameters: dict[str, float], late: dict[str, float | str]) -> of.Problem:
    """Return a problem with the data of `y` in two experiments, of which the second overrides something."""
    measured = of.Measurements(
        experiment=np.array(["early"] * 2 + ["late"] * 2, dtype=object),
        time=np.array([0.5, 1.0, 0.5, 8.0]),
        observable=np.array(["y"] * 4, dtype=object),
        value=np.array([1.0, 1.1, 0.9, 0.2]),
    )
    experiments = (of.Experiment("early"), of.Experiment("late", (of.Period(0.0, late),)))
    free = tuple(of.Parameter(name, start) for name, start in parameters.items())
    return of.Problem(of.Model.from_text(text), free, measured, experiments=experiments)


def test_explicit_and_stiff_experiments_side_by_side(monkeypatch):
    text = "y' = rate*(cos(t) - y) + k\nrate = 1\ny(0) = y0"
    problem = two_experiments(text, {"k": 0.1, "y0": 0.5}, {"rate": 1e5})
    one, *natively = evaluated(problem, monkeypatch, native=True)
    assert one.methods == {"early": "dopri5", "late": "ddm"}
    _, *by_stages = evaluated(problem, monkeypatch, native=False)
    for found, expected in zip(natively, by_stages, strict=True):
        np.testing.assert_array_equal(found.residual, expected.residual)
        assert found.value == pytest.approx(expected.value, rel=1e-14)


def test_an_explicit_method_that_gave_up_gets_as_many_steps_as_the_stiff_one_took(monkeypatch):
    problem = two_experiments("y' = k*(cos(t) - y)*rate\nrate = 1\ny(0) = 0.5", {"k": 1e5}, {"rate": 2.0})
    objective = SingleShooting(problem)
    allowed = []

    def watched(table, x, first, last, adapt, detect, rtol, atol, max_steps, *rest):
        if adapt:
            allowed.append(max_steps)
        return shoot_experiments(table, x, first, last, adapt, detect, rtol, atol, max_steps, *rest)

    monkeypatch.setattr(shooting, "shoot_experiments", watched)
    objective.refresh(np.array([1e5]))
    assert allowed == [problem.settings.max_steps] * 2
    assert set(objective.methods.values()) == {"ddm"}
    taken = [grid.steps.size for grid in objective.grids]
    objective.refresh(np.array([1.1e5]))
    assert allowed[2:] == taken
    assert set(objective.methods.values()) == {"ddm"}
    objective.refresh(np.array([1.0]))  # no longer stiff, and solved in fewer steps
    assert set(objective.methods.values()) == {"dopri5"}
    objective.refresh(np.array([1e5]))
    assert allowed[-2:] == [problem.settings.max_steps] * 2


@pytest.mark.parametrize("last", [0, 2])
def test_steps_are_chosen_for_one_experiment_a_call(last):
    """Those of several could not be returned, and would be freed while the table still holds their addresses."""
    plan = plan_of(exploding())
    method = native_method("dopri5", 1e-7)
    table = plan.table.copy()
    table[:, 2 * record.INTEGRATOR] = method.address
    before = table.copy()
    residual, jacobian = np.empty(plan.n_residuals), np.empty((0, plan.n_columns))
    rest = (method.detect, 1e-7, 1e-9, 1000, 0, StopFlag().array, residual, jacobian)
    with pytest.raises(ValueError, match="steps are chosen for one experiment a call"):
        shoot_experiments(table, np.array([0.1]), 0, last, True, *rest)
    np.testing.assert_array_equal(table, before)
    *_, steps, counts = shoot_experiments(table, np.array([0.1]), 1, 2, True, *rest)
    assert table[1, 2 * record.STEPS] == steps.ctypes.data
    assert table[1, 2 * record.COUNTS] == counts.ctypes.data
    np.testing.assert_array_equal(table[0], before[0])


def exploding() -> of.Problem:
    """y' = k y^2 with y(0) = 1 has a pole at t = 1/k; the second experiment ends at t = 8."""
    return two_experiments("y' = k*y^2 + 0*rate\ny(0) = 1\nrate = 1", {"k": 0.1}, {"rate": 2.0})


@pytest.mark.parametrize("native", [True, False])
def test_failure_on_frozen_grids_says_where_and_why(native, monkeypatch):
    objective, *_ = evaluated(exploding(), monkeypatch, native=native)
    found = objective.evaluate(np.array([1e200]), 1)
    assert isinstance(found, Failed)
    assert not found.interrupted
    assert found.failure.startswith("experiment 'early': the solution could not be continued beyond t = 0: ")
    assert "'y'" in found.failure


def test_failed_adaptation_leaves_nothing_to_replay():
    objective = SingleShooting(exploding())
    x = np.array([0.5])  # a pole at t = 2
    objective.refresh(x)
    found = objective.evaluate(x, 1)
    assert found.failure.startswith("experiment 'late': ")
    assert objective.grids is None
    assert objective.evaluate(np.array([0.1]), 1).failure == "the last adaptation of the step grids failed"
    objective.refresh(np.array([0.1]))
    assert isinstance(objective.evaluate(np.array([0.11]), 1), LeastSquares)


def test_stop_flag_is_heard_in_a_replay():
    stop = StopFlag()
    objective = SingleShooting(exploding(), stop)
    objective.refresh(np.array([0.1]))
    stop.set()
    found = objective.evaluate(np.array([0.11]), 1)
    assert isinstance(found, Failed)
    assert found.interrupted
    assert "stopped at t = 0" in found.failure


class CountingPool(ThreadPoolExecutor):
    """Threads that count what they are given."""

    def __init__(self) -> None:
        super().__init__(2)
        self.counts: list[int] = []

    def map(self, function, items):
        listed = list(items)
        self.counts.append(len(listed))
        return super().map(function, listed)


def evaluated_in_threads(problem, monkeypatch, *, cores=2, worth_a_thread=0.0):
    """Return how many experiments were done by threads in each of two adaptations and a replay, and the replay."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(cores), raising=False)
    monkeypatch.setattr(shooting, "WORTH_A_THREAD", worth_a_thread)
    with CountingPool() as pool:
        monkeypatch.setattr(shooting, "thread_pool", lambda: pool)
        objective = SingleShooting(problem)
        x = objective.compiled.theta_start
        objective.refresh(x)  # tells how long the experiments take
        objective.refresh(x)
        return pool.counts, objective.evaluate(x + 1e-4 * np.maximum(np.abs(x), 1e-2), 1)


@pytest.mark.parametrize("name", ["ecoli_batches", "arrhenius"])
def test_threads_do_the_same_as_one_call(name, monkeypatch):
    _, _, expected, _ = evaluated(load(name), monkeypatch, native=True)
    counts, found = evaluated_in_threads(load(name), monkeypatch)
    n = len(SingleShooting(load(name)).observations)
    assert counts == [n, n]
    np.testing.assert_array_equal(found.residual, expected.residual)
    np.testing.assert_array_equal(found.linear.jacobian, expected.linear.jacobian)
    assert found.error_ratio == expected.error_ratio


@pytest.mark.parametrize("options", [{"cores": 1}, {"worth_a_thread": 1e9}])
def test_no_threads_where_they_would_not_pay(options, monkeypatch):
    assert evaluated_in_threads(load("arrhenius"), monkeypatch, **options)[0] == []
