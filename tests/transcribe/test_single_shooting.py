"""Single shooting: residuals and their derivatives on frozen grids, and the life of the grids."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import odefit as of
from odefit.errors import FitError, ProblemError
from odefit.gallery import path_of
from odefit.native.stop import StopFlag
from odefit.solve import Failed, LeastSquares
from odefit.solve.dense import DenseLinear
from odefit.transcribe import SingleShooting

STENCIL = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
TIMES = np.array([0.5, 1.0, 2.0, 3.5])


def problem_of(text, parameters, measurements, **rest) -> of.Problem:
    made = tuple(p if isinstance(p, of.Parameter) else of.Parameter(*p) for p in parameters)
    return of.Problem(of.Model.from_text(text), made, measurements, **rest)


def barnes(scale: str, bounds=(0.0, 50.0)) -> of.Problem:
    problem = of.load(path_of("barnes/b"))
    parameters = tuple(
        of.Parameter(p.name, p.start, *(bounds if scale == "logit" else (-math.inf, math.inf)), scale=scale)
        for p in problem.parameters
    )
    return of.Problem(problem.model, parameters, problem.measurements)


def chain() -> of.Problem:
    """Three experiments that replace a number, an initial value, a definition; two of them measure other things."""
    rng = np.random.default_rng(5)
    text = "a' = -r\nb' = r - k2*b\nr = f*k1*a\nf = 1\nboth = a + g*b\na(0) = a0\nb(0) = 0"
    measured = of.Measurements(
        experiment=np.array(["one"] * 4 + ["two"] * 6 + ["three"] * 3, dtype=object),
        time=np.array([0.5, 1.0, 2.0, 3.0, 0.0, 0.3, 0.3, 2.5, 2.5, 4.0, 1.0, 2.0, 2.0]),
        observable=np.array(["a"] * 4 + ["b", "both"] * 3 + ["r", "a", "both"], dtype=object),
        value=rng.uniform(0.2, 1.0, size=13),
        weight=rng.uniform(0.5, 4.0, size=13),
    )
    experiments = (
        of.Experiment("one", (of.Period(0.0, {"a0": 2.0}),)),
        of.Experiment("two", (of.Period(-1.0, {"b(0)": "b0 + 0.1*k1"}),)),
        of.Experiment("three", (of.Period(0.5, {"f": "2*k3", "a(0)": 0.7}),)),
    )
    parameters = [
        of.Parameter("k1", 0.8, scale="log"),
        of.Parameter("k2", 0.5),
        of.Parameter("g", 1.3, 0.1, 9.0, scale="logit"),
        of.Parameter("a0", 1.1, scale="log10"),
    ]
    return problem_of(
        text.replace("f = 1", "f = 1 + 0*k3 + 0*b0"), [*parameters, ("k3", 0.9), ("b0", 0.2)], measured,
        experiments=experiments,
    )  # fmt: skip


PROBLEMS = {
    "Barnes a": lambda: of.load(path_of("barnes")),
    "Barnes b": lambda: of.load(path_of("barnes/b")),
    "Barnes d": lambda: of.load(path_of("barnes/d_y2")),
    "Barnes log": lambda: barnes("log"),
    "Barnes log10": lambda: barnes("log10"),
    "Barnes logit": lambda: barnes("logit"),
    "chain of three experiments": chain,
    "chain with fixed parameters": lambda: chain().with_fixed("k1", "b0"),
    "explicit": lambda: problem_of(
        "y = a*exp(-b*t) + c",
        [("a", 2.0), of.Parameter("b", 0.7, scale="log"), ("c", 0.1)],
        of.Measurements.from_columns(TIMES, {"y": [1.5, 1.0, 0.6, 0.2]}),
    ),
}


def shooting(name: str) -> tuple[SingleShooting, np.ndarray]:
    objective = SingleShooting(PROBLEMS[name]())
    x = objective.compiled.theta_start
    objective.refresh(x)
    return objective, x


@pytest.mark.parametrize("name", PROBLEMS)
def test_jacobian_is_the_derivative_on_the_frozen_grid(name):
    objective, x = shooting(name)
    found = objective.evaluate(x, 1)
    assert isinstance(found, LeastSquares)
    numeric = np.empty((found.residual.size, x.size))
    for i in range(x.size):
        h = 3e-3 * max(abs(x[i]), 0.3)
        unit = np.eye(x.size)[i] * h
        numeric[:, i] = sum(
            w * (objective.evaluate(x + j * unit, 0).residual - objective.evaluate(x - j * unit, 0).residual)
            for j, w in STENCIL.items()
        ) / h  # fmt: skip
    jacobian = found.linear.jacobian
    assert np.abs(jacobian - numeric).max() <= 1e-8 * np.abs(jacobian).max()


@pytest.mark.parametrize("name", PROBLEMS)
def test_replay_repeats_the_adaptive_run(name):
    objective, x = shooting(name)
    fresh = objective.evaluate(x, 1)
    replayed = objective.evaluate(x.copy(), 1)
    assert replayed is not fresh
    np.testing.assert_array_equal(replayed.residual, fresh.residual)
    np.testing.assert_array_equal(replayed.linear.jacobian, fresh.linear.jacobian)
    assert (replayed.value, replayed.generation) == (fresh.value, fresh.generation)
    assert fresh.error_ratio <= 1.0
    values_only = objective.evaluate(x.copy(), 0)
    assert values_only.linear is None
    np.testing.assert_array_equal(values_only.residual, fresh.residual)


@pytest.mark.parametrize("name", PROBLEMS)
def test_value_is_half_the_sum_of_squares(name):
    objective, x = shooting(name)
    found = objective.evaluate(x, 0)
    assert found.value == pytest.approx(0.5 * found.residual @ found.residual, rel=1e-14)
    assert found.residual.size == objective.n_residuals


def test_residuals_of_barnes():
    """Against SciPy at a tight tolerance."""
    problem = of.load(path_of("barnes"))
    objective, x = shooting("Barnes a")
    k1, k2, k3 = x
    data = problem.measurements
    reference = solve_ivp(
        lambda t, y: [k1 * y[0] - k2 * y[0] * y[1], k2 * y[0] * y[1] - k3 * y[1]], (0, 5), [1.0, 0.3],
        t_eval=np.unique(data.time), rtol=1e-12, atol=1e-14, method="DOP853",
    )  # fmt: skip
    expected = reference.y.T.ravel() - data.value
    np.testing.assert_allclose(objective.evaluate(x, 0).residual, expected, atol=1e-6)


def test_experiments_run_with_their_own_conditions():
    """Each row of the chain from closed forms, with the overrides of its experiment."""
    problem = chain()
    objective, x = shooting("chain of three experiments")
    k1, k2, g, a0, k3, b0 = 0.8, 0.5, 1.3, 1.1, 0.9, 0.2
    start = {"one": (0.0, 1.0, 2.0, 0.0), "two": (-1.0, 1.0, a0, b0 + 0.1 * k1), "three": (0.5, 2 * k3, 0.7, 0.0)}
    found = objective.evaluate(x, 0).residual
    sources = np.concatenate([o.source for o in objective.observations])
    data = problem.measurements
    assert sorted(sources) == list(range(len(data)))
    for row, i in enumerate(sources):
        t0, f, a_start, b_start = start[data.experiment[i]]
        t, rate = data.time[i] - t0, f * k1
        a = a_start * np.exp(-rate * t)
        b = b_start * np.exp(-k2 * t) + a_start * rate / (k2 - rate) * (np.exp(-rate * t) - np.exp(-k2 * t))
        model = {"a": a, "b": b, "r": rate * a, "both": a + g * b}[data.observable[i]]
        expected = np.sqrt(data.weight[i]) * (model - data.value[i])
        assert found[row] == pytest.approx(expected, abs=1e-6)


def test_rows_are_zero_in_columns_of_other_experiments():
    objective, x = shooting("chain of three experiments")
    jacobian = objective.evaluate(x, 1).linear.jacobian
    column = {name: i for i, name in enumerate(objective.names)}
    one, two, three = np.split(jacobian, [4, 10])
    np.testing.assert_array_equal(one[:, [column["a0"], column["k3"], column["b0"]]], 0.0)
    np.testing.assert_array_equal(two[:, column["k3"]], 0.0)
    np.testing.assert_array_equal(three[:, [column["a0"], column["b0"]]], 0.0)
    assert (three[:, column["k3"]] != 0.0).all()
    assert (one[:, column["k1"]] != 0.0).all()


LINE = "y = a + b*t\nz = a - b*t"


def line_problem(**columns) -> of.Problem:
    n = len(columns["value"])
    columns.setdefault("experiment", np.full(n, "main", dtype=object))
    columns.setdefault("observable", np.full(n, "y", dtype=object))
    return problem_of(LINE, [("a", 1.0), ("b", 2.0)], of.Measurements(**columns))


def residuals(problem: of.Problem) -> tuple[np.ndarray, np.ndarray, SingleShooting]:
    objective = SingleShooting(problem)
    x = objective.compiled.theta_start
    objective.refresh(x)
    found = objective.evaluate(x, 1)
    return found.residual, found.linear.jacobian, objective


def test_missing_values_take_no_part():
    r, j, objective = residuals(line_problem(time=[0.0, 1.0, 2.0], value=[0.5, np.nan, 4.0]))
    np.testing.assert_allclose(r, [0.5, 1.0])
    np.testing.assert_allclose(j, [[1.0, 0.0], [1.0, 2.0]])
    assert objective.n_residuals == 2


def test_weight_zero_takes_no_part():
    r, _, _ = residuals(line_problem(time=[0.0, 1.0, 2.0], value=[0.5, 99.0, 4.0], weight=[1.0, 0.0, 4.0]))
    np.testing.assert_allclose(r, [0.5, 2.0])


def test_weight_zero_beside_sigma():
    r, _, _ = residuals(
        line_problem(
            time=[0.0, 1.0, 2.0], value=[0.5, 99.0, 4.0], sigma=[0.1, np.nan, 0.5], weight=[np.nan, 0.0, np.nan]
        )
    )
    np.testing.assert_allclose(r, [5.0, 2.0])


def test_missing_weight_is_one():
    r, _, _ = residuals(line_problem(time=[0.0, 1.0, 2.0], value=[0.5, 2.0, 4.0], weight=[4.0, np.nan, 9.0]))
    np.testing.assert_allclose(r, [1.0, 1.0, 3.0])


def test_sigma_divides():
    r, j, _ = residuals(line_problem(time=[0.0, 1.0], value=[0.5, 2.0], sigma=[0.1, 0.25]))
    np.testing.assert_allclose(r, [5.0, 4.0])
    np.testing.assert_allclose(j, [[10.0, 0.0], [4.0, 4.0]])


@pytest.mark.parametrize("sigma", [[0.1, np.nan], [np.nan, 2.0]])
def test_sigma_for_some_values_only(sigma):
    with pytest.raises(ProblemError, match="some measurements have a sigma and others have none"):
        SingleShooting(line_problem(time=[0.0, 1.0], value=[0.5, 2.0], sigma=sigma))


def test_sigma_may_be_missing_where_the_value_is():
    r, _, _ = residuals(line_problem(time=[0.0, 1.0], value=[0.5, np.nan], sigma=[0.1, np.nan]))
    np.testing.assert_allclose(r, [5.0])


def test_replicates_and_disorder():
    """Rows are ordered by time, replicates kept in the order of the data."""
    time = [2.0, 0.0, 2.0, 1.0, 2.0, 0.0]
    value = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    names = np.array(["y", "y", "z", "y", "y", "z"], dtype=object)
    r, j, objective = residuals(line_problem(time=time, value=value, observable=names))
    assert objective.observations[0].source.tolist() == [1, 5, 3, 0, 2, 4]
    np.testing.assert_allclose(r, [1 - 2, 1 - 6, 3 - 4, 5 - 1, -3 - 3, 5 - 5])
    np.testing.assert_allclose(j, [[1, 0], [1, 0], [1, 1], [1, 2], [1, -2], [1, 2]])
    np.testing.assert_array_equal(objective.observations[0].times, [0.0, 1.0, 2.0])


def test_order_of_data_does_not_matter():
    problem = of.load(path_of("barnes"))
    data = problem.measurements
    mixed = np.random.default_rng(3).permutation(len(data))
    shuffled = of.Problem(
        problem.model,
        problem.parameters,
        of.Measurements(data.experiment[mixed], data.time[mixed], data.observable[mixed], data.value[mixed]),
    )
    first, second = (residuals(p) for p in (problem, shuffled))
    assert np.sum(first[0] ** 2) == pytest.approx(np.sum(second[0] ** 2), rel=1e-13)
    np.testing.assert_allclose(first[1].T @ first[1], second[1].T @ second[1], rtol=1e-12)


def test_norm_of_the_data():
    _, _, objective = residuals(line_problem(time=[0.0, 1.0], value=[3.0, 4.0], sigma=[1.0, 0.5]))
    assert objective.plan.data.norm == pytest.approx(math.hypot(3.0, 8.0))


def test_experiments_that_are_not_fitted():
    data = of.Measurements(["one", "two"], [1.0, 1.0], ["y", "y"], [5.0, 6.0])
    experiments = (of.Experiment("one"), of.Experiment("two", use="validate"))
    r, _, objective = residuals(problem_of(LINE, [("a", 1.0), ("b", 2.0)], data, experiments=experiments))
    np.testing.assert_allclose(r, [-2.0])
    assert [o.experiment for o in objective.observations] == [0]


@pytest.mark.parametrize("columns", [{"weight": [0.0, 0.0]}, {"value": [np.nan, np.nan]}])
def test_nothing_to_fit(columns):
    with pytest.raises(
        FitError, match="there is nothing to fit: no experiment has a measured value with a weight above"
    ):
        SingleShooting(line_problem(**({"time": [0.0, 1.0], "value": [1.0, 2.0]} | columns)))


# --- grids ---


def test_generations_count_refreshes():
    objective, x = shooting("Barnes a")
    assert objective.evaluate(x, 1).generation == 1
    elsewhere = x * 1.1
    assert objective.evaluate(elsewhere, 1).generation == 1
    assert objective.refresh(elsewhere) == 2
    assert objective.evaluate(x, 0).generation == 2


def test_refresh_makes_the_next_evaluation_free():
    objective, x = shooting("Barnes a")
    assert objective.evaluate(x, 1) is objective.evaluate(x, 0)
    assert objective.evaluate(x, 1).linear is not None


def test_evaluation_does_not_move_the_grids():
    objective, x = shooting("Barnes b")
    elsewhere = x * np.linspace(0.9, 1.2, x.size)
    before = objective.evaluate(elsewhere.copy(), 1)
    for factor in (0.5, 2.0, 0.8):
        objective.evaluate(x * factor, 1)
    after = objective.evaluate(elsewhere.copy(), 1)
    np.testing.assert_array_equal(before.residual, after.residual)
    np.testing.assert_array_equal(before.linear.jacobian, after.linear.jacobian)


def test_error_ratio_grows_away_from_the_grid():
    objective, x = shooting("Barnes a")
    ratios = [objective.evaluate(x * f, 0).error_ratio for f in (1.01, 3.0, 6.0)]
    assert ratios[0] < 2.0
    assert ratios[-1] > 10.0
    objective.refresh(x * 6.0)
    assert objective.evaluate(x * 6.0, 0).error_ratio <= 1.0


def test_evaluation_before_any_refresh_is_a_failure():
    objective = SingleShooting(PROBLEMS["Barnes a"]())
    found = objective.evaluate(objective.compiled.theta_start, 1)
    assert isinstance(found, Failed)
    assert found.failure


SQUARE = "x' = k*x^2\nx(0) = 1"


def square_problem(k: float, **rest) -> of.Problem:
    return problem_of(SQUARE, [("k", k)], of.Measurements.from_columns([0.5, 1.0], {"x": [1.5, 2.0]}), **rest)


def test_failure_is_a_value():
    objective = SingleShooting(square_problem(2.0))
    x = objective.compiled.theta_start
    objective.refresh(x)
    found = objective.evaluate(x, 1)
    assert "the solution could not be continued beyond t = 0.5: 'x'" in found.failure
    assert isinstance(found, Failed)
    assert not found.interrupted


def test_after_a_failed_refresh_there_are_no_grids():
    objective = SingleShooting(square_problem(0.5))
    good, bad = np.array([0.5]), np.array([3.0])
    objective.refresh(good)
    kept = objective.evaluate(good.copy(), 1)
    objective.refresh(bad)
    assert objective.evaluate(bad, 0).failure
    assert objective.evaluate(good.copy(), 0).failure
    objective.refresh(good)
    np.testing.assert_array_equal(objective.evaluate(good.copy(), 1).residual, kept.residual)


def test_failed_evaluation_does_not_spoil_the_grids():
    objective = SingleShooting(square_problem(0.5))
    good = np.array([0.5])
    objective.refresh(good)
    kept = objective.evaluate(good.copy(), 1)
    assert objective.evaluate(np.array([1e30]), 1).failure
    again = objective.evaluate(good.copy(), 1)
    assert isinstance(again, LeastSquares)
    np.testing.assert_array_equal(again.residual, kept.residual)
    np.testing.assert_array_equal(again.linear.jacobian, kept.linear.jacobian)


def test_failure_names_the_experiment():
    data = of.Measurements(["one", "two"], [1.0, 1.0], ["x", "x"], [5.0, 6.0])
    experiments = (of.Experiment("one"), of.Experiment("two", (of.Period(0.0, {"k": 7.0}),)))
    objective = SingleShooting(problem_of(SQUARE, [("k", 0.5)], data, experiments=experiments))
    x = objective.compiled.theta_start
    objective.refresh(x)
    assert objective.evaluate(x, 0).failure.startswith("experiment 'two': the solution could not be continued")


def test_stop_is_an_interruption():
    stop = StopFlag()
    objective = SingleShooting(of.load(path_of("barnes")), stop)
    x = objective.compiled.theta_start
    objective.refresh(x)
    assert isinstance(objective.evaluate(x, 1), LeastSquares)
    stop.set()
    found = objective.evaluate(x * 1.1, 1)
    assert found.interrupted
    assert "was stopped" in found.failure


def failure_of(text, parameters, measurements) -> str:
    objective = SingleShooting(problem_of(text, parameters, measurements))
    x = objective.compiled.theta_start
    objective.refresh(x)
    return objective.evaluate(x, 1).failure


def test_observable_without_a_value():
    data = of.Measurements.from_columns([1.0, 3.0], {"y": [1.0, 2.0]})
    assert failure_of("y = log(a - t)", [("a", 2.0)], data) == "the observable 'y' has no finite value at t = 3"


def test_sum_of_squares_that_overflows():
    data = of.Measurements.from_columns([1.0, 3.0], {"y": [1.0, 2.0]})
    assert failure_of("y = a*t", [("a", 1e200)], data) == "the sum of squares is too large for a number"


# text, parameters, the values are finite but a derivative is not
SINGULAR = {
    "observable": ("x' = k\nx(0) = 0\ny = sqrt(x)", [("k", 1.0)], [0.0, 1.0]),
    "explicit": ("y = sqrt(k*t)", [("k", 1.0)], [0.0, 1.0]),
    "initial value": ("y' = -y\ny(0) = sqrt(k)", [("k", 0.0)], [0.0, 1.0]),
    "initial value, start only": ("y' = -y\ny(0) = sqrt(k)", [("k", 0.0)], [0.0]),
    "right-hand side": ("x' = k\ny' = sqrt(x)\nx(0) = 0\ny(0) = 0", [("k", 1.0)], [1.0]),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_derivatives_that_do_not_exist_are_a_failure(name):
    """A Jacobian with NaN must never reach a solver: it would look like no influence."""
    text, parameters, times = SINGULAR[name]
    data = of.Measurements.from_columns(times, {"y": np.ones(len(times))})
    assert "derivative" in failure_of(text, parameters, data)


# --- the linear model ---


@pytest.mark.parametrize(("m", "n"), [(5, 3), (3, 3), (2, 4), (1, 1)])
def test_dense_linear_model(m, n):
    generator = np.random.default_rng(m + 10 * n)
    jacobian, residual, other = generator.normal(size=(m, n)), generator.normal(size=m), generator.normal(size=m)
    kept = jacobian.copy()
    linear = DenseLinear(jacobian, residual)
    reduced = linear.triangle()
    assert linear.triangle() is reduced
    np.testing.assert_array_equal(np.tril(reduced.R, -1), 0.0)
    np.testing.assert_allclose(reduced.R.T @ reduced.R, jacobian.T @ jacobian, atol=1e-12)
    np.testing.assert_allclose(reduced.R.T @ reduced.b, -jacobian.T @ residual, atol=1e-12)
    np.testing.assert_allclose(reduced.R.T @ linear.reduce_residual(other), -jacobian.T @ other, atol=1e-12)
    np.testing.assert_array_equal(linear.jacobian, kept)
    assert not reduced.heavy.root.size
