"""Tasks in one native call against the same stage by stage: trajectories of the integrator, observables one by one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tests.uncached import uncached

import odefit as of
from odefit.gallery import load
from odefit.integrate.selection import Selection
from odefit.native.calls import call_observe
from odefit.native.stop import StopFlag
from odefit.solve import Failed, LeastSquares
from odefit.transcribe import SingleShooting, shooting

NAMES = ("barnes", "barnes/b", "pyridine", "herbert", "lotka_volterra_iss", "ecoli_batches", "arrhenius", "robertson")


@uncached
def observed(addresses, t, y, p, a, values, nonzeros):
    nothing = np.empty(0)
    call_observe(addresses[0], t, y, 0, p, nothing, a, values, 0)
    call_observe(addresses[1], t, y, 0, p, nothing, a, nonzeros, 0)


def by_stages(objective, x):
    """Return residuals of measurements and their derivatives, put together from the stages of an evaluation."""
    compiled, n_theta = objective.compiled, objective.compiled.n_theta
    slots, slopes = compiled.slot_values(x)
    residuals, rows = [], []
    for i, (o, grid) in enumerate(zip(objective.observations, objective.grids, strict=True)):
        seeds, function = compiled.parameters(x, o.experiment, 1), compiled.observe(o.experiment)
        trajectory = objective.trajectory(x, o, 1, grid)
        columns, n, n_p = compiled.columns[o.experiment], seeds.y0.size, seeds.p.size
        values, nonzeros = np.empty(function.n_out), np.empty(function.col.size)
        for k, at in enumerate(o.at):
            a = slots[o.argument_source[k]]
            observed((function.value, function.jacobian), o.times[at], trajectory.y[at], seeds.p, a, values, nonzeros)
            g = o.observable[k]
            dense = np.zeros(n + n_p + a.size)
            entries = slice(function.row_ptr[g], function.row_ptr[g + 1])
            dense[function.col[entries]] = nonzeros[entries]
            row = np.zeros(n_theta)
            row[columns] = dense[:n] @ trajectory.S[at] + dense[n : n + n_p] @ seeds.dp
            for j, slot in enumerate(o.argument_source[k]):
                if compiled.theta_of_q[slot] >= 0:
                    row[compiled.theta_of_q[slot]] += dense[n + n_p + j] * slopes[slot]
            residuals.append(o.root_weight[k] * (values[g] - o.value[k]))
            rows.append(o.root_weight[k] * row)
        assert i < len(objective.grids)
    return np.array(residuals), np.array(rows)


def evaluated(problem):
    """Return a fresh evaluation and replays nearby, with and without derivatives."""
    objective = SingleShooting(problem)
    x = objective.compiled.theta_start.copy()
    objective.refresh(x)
    fresh = objective.evaluate(x, 1)
    near = x + 1e-4 * np.maximum(np.abs(x), 1e-2)
    return objective, fresh, objective.evaluate(near, 1), objective.evaluate(near, 0)


def agrees_with_stages(objective, *points):
    """Check points of an objective, of which the grids are the present ones."""
    n = objective.n_data
    for point in points:
        residual, jacobian = by_stages(objective, point.x)
        np.testing.assert_array_equal(point.differences[:n], residual)
        priors = point.differences[n:]
        if not objective.plan.data.heavy.size:
            assert point.value == pytest.approx(0.5 * float(residual @ residual + priors @ priors), rel=1e-13)
        if point.linear is not None:
            scale = np.abs(jacobian).max(axis=0) + 1e-300
            np.testing.assert_allclose(point.linear.jacobian[:n] / scale, jacobian / scale, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("name", NAMES)
def test_one_native_call_does_what_the_stages_do(name):
    objective, fresh, *replays = evaluated(load(name))
    agrees_with_stages(objective, fresh, *replays)
    np.testing.assert_array_equal(replays[0].residual, replays[1].residual)


@pytest.mark.parametrize("integrator", ["rk32", "dopri5", "dop853", "ddm", "bdf3", "auto"])
def test_every_method_goes_the_same_way(integrator):
    objective, fresh, *replays = evaluated(load("arrhenius").with_settings(integrator=integrator))
    agrees_with_stages(objective, fresh, *replays)
    again = objective.evaluate(fresh.x.copy(), 1)  # a replay where the steps were chosen
    np.testing.assert_array_equal(again.residual, fresh.residual)
    np.testing.assert_array_equal(again.linear.jacobian, fresh.linear.jacobian)
    assert again.error_ratio == fresh.error_ratio


def test_unknowns_of_observables_alone_are_not_integrated():
    text = "x' = -k*x\nx(0) = 1\nz = scale*x + offset"
    times = np.linspace(0.5, 3.0, 6)
    measured = of.Measurements(
        experiment=np.array(["only"] * 6, dtype=object),
        time=times,
        observable=np.array(["z"] * 6, dtype=object),
        value=2.0 * np.exp(-times) + 0.1,
    )
    free = (of.Parameter("scale", 1.5), of.Parameter("offset", 0.2), of.Parameter("k", 0.7))
    problem = of.Problem(of.Model.from_text(text), free, measured, experiments=(of.Experiment("only"),))
    objective, fresh, near, _ = evaluated(problem)
    assert objective.compiled.structure.n_directions == (1,)
    assert objective.compiled.columns[0].tolist() == [2, 0, 1]
    agrees_with_stages(objective, fresh, near)
    y = np.exp(-0.7 * times)
    expected = np.stack([y, np.ones(6), -1.5 * times * y], axis=1)
    np.testing.assert_allclose(fresh.linear.jacobian, expected, rtol=1e-6)


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


def test_explicit_and_stiff_experiments_side_by_side():
    text = "y' = rate*(cos(t) - y) + k\nrate = 1\ny(0) = y0"
    problem = two_experiments(text, {"k": 0.1, "y0": 0.5}, {"rate": 1e5})
    objective, *points = evaluated(problem)
    assert objective.methods == {"early": "dopri5", "late": "ddm"}
    agrees_with_stages(objective, *points)


def test_an_explicit_method_that_gave_up_gets_as_many_steps_as_the_stiff_one_took(monkeypatch):
    problem = two_experiments("y' = k*(cos(t) - y)*rate\nrate = 1\ny(0) = 0.5", {"k": 1e5}, {"rate": 2.0})
    allowed = []
    choose = Selection.choose

    def watched(self):
        choose(self)
        allowed.append(self.max_steps)

    monkeypatch.setattr(Selection, "choose", watched)
    objective = SingleShooting(problem)
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


def test_grids_live_as_long_as_the_table_points_to_them():
    """Steps of many tasks are one array; each adaptation makes a new one, and the old one goes."""
    objective = SingleShooting(exploding())
    for k in np.linspace(0.05, 0.12, 30):
        objective.refresh(np.array([k]))
        noise = [np.full(1000, np.nan) for _ in range(20)]  # takes the place of what was freed
        found = objective.evaluate(np.array([k * 1.001]), 1)
        assert isinstance(found, LeastSquares)
        agrees_with_stages(objective, found)
        assert len(noise) == 20


def exploding() -> of.Problem:
    """y' = k y^2 with y(0) = 1 has a pole at t = 1/k; the second experiment ends at t = 8."""
    return two_experiments("y' = k*y^2 + 0*rate\ny(0) = 1\nrate = 1", {"k": 0.1}, {"rate": 2.0})


def test_failure_on_frozen_grids_says_where_and_why():
    objective, *_ = evaluated(exploding())
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
    _, _, expected, _ = evaluated(load(name))
    counts, found = evaluated_in_threads(load(name), monkeypatch)
    n = len(SingleShooting(load(name)).observations)
    assert counts == [n, n]
    np.testing.assert_array_equal(found.residual, expected.residual)
    np.testing.assert_array_equal(found.linear.jacobian, expected.linear.jacobian)
    assert found.error_ratio == expected.error_ratio


@pytest.mark.parametrize("options", [{"cores": 1}, {"worth_a_thread": 1e9}])
def test_no_threads_where_they_would_not_pay(options, monkeypatch):
    assert evaluated_in_threads(load("arrhenius"), monkeypatch, **options)[0] == []
