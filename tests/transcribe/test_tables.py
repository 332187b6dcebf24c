"""Tables in equations: solutions, derivatives and failures, by every integrator."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline, PchipInterpolator

import odefit as of
from odefit.compile import compile_problem
from odefit.integrate import METHODS, Run, piece_ends
from odefit.native.stop import StopFlag
from odefit.report.check import central_difference, check
from odefit.transcribe import SingleShooting

KNOTS, VALUES = [0.0, 1.0, 2.5, 5.0], [1.0, 2.0, 0.5, 3.0]
TIMES = [0.0, 1.0, 2.0, 2.5, 3.0, 4.5]
REFERENCE = {
    "linear": lambda t: np.interp(t, KNOTS, VALUES),
    "cubic": CubicSpline(KNOTS, VALUES),
    "pchip": PchipInterpolator(KNOTS, VALUES),
    "hold": lambda t: VALUES[int(np.searchsorted(KNOTS, t, side="right")) - 1],
}


def data(times, observable="x", values=None):
    values = np.ones(len(times)) if values is None else values
    return of.Measurements(["main"] * len(times), times, [observable] * len(times), values)


def problem(text, tables, names, times=(0.5, 1, 2, 3.0, 4.5), observable="x", **settings):
    parameters = [of.Parameter(name, start) for name, start in names.items()]
    return of.Problem(
        of.Model.from_text(text), parameters, data(times, observable), tables=tables, settings=of.Settings(**settings)
    )


def frozen_difference(task):
    """Return the largest difference of the Jacobian from differences on frozen steps."""
    objective = SingleShooting(task, StopFlag())
    x = objective.compiled.theta_start
    objective.refresh(x)
    jacobian = objective.evaluate(x, 1).linear.jacobian
    columns = [central_difference(objective, x, i) for i in range(x.size)]
    return float(np.abs(jacobian - np.stack(columns, axis=1)).max())


@pytest.mark.parametrize("kind", REFERENCE)
@pytest.mark.parametrize("method", METHODS)
def test_solutions_agree_with_scipy(method, kind):
    # limex, whose steps are long, sees little of a jump in a second derivative: at rtol 1e-9 it is off by 1e-6
    exact = method not in ("rk32", "bdf3", "limex")
    task = problem(
        "x' = -k*x + U(t)\nx(0) = 1\nz = 2*U(t) + k", {"U": of.Table(KNOTS, VALUES, kind=kind)}, {"k": 1.0},
        integrator=method, rtol=1e-9 if exact else 1e-7, atol=1e-10,
    )  # fmt: skip
    found, table, expected = of.simulate(task, times=TIMES), REFERENCE[kind], [1.0]
    for a, b in zip(TIMES, TIMES[1:], strict=False):

        def rate(t, y, middle=0.5 * (a + b)):
            return -y + table(middle if kind == "hold" else t)

        expected.append(solve_ivp(rate, (a, b), [expected[-1]], rtol=1e-11, atol=1e-13).y[0, -1])
    np.testing.assert_allclose(found["x"], expected, atol=2e-7 if exact else 5e-6)
    np.testing.assert_allclose(found["z"], [2 * table(t) + 1 for t in TIMES], rtol=1e-14)


WITH_PARAMETERS = [kind for kind in REFERENCE if kind != "pchip"]  # which is refused, see below


@pytest.mark.parametrize(
    ("kind", "values"),
    [*((kind, VALUES) for kind in REFERENCE), *((kind, ["a", "b", 0.5, "a"]) for kind in WITH_PARAMETERS)],
)
@pytest.mark.parametrize("method", METHODS)
def test_derivatives_are_those_of_the_discrete_solution(method, kind, values):
    text = "x' = -k*x + U(t) + 0.1*W(x)\nx(0) = 1 + 0.1*W(k)\nz = 2*U(t)*k + W(x*k)"
    tables = {
        "U": of.Table(KNOTS, values, kind=kind),
        "W": of.Table([0, 1, 3, 10], [1, 0.5, 0.3, 0.2], kind="cubic", outside="extend"),
    }
    names = {"k": 1.0, **({"a": 1.0, "b": 2.0} if "a" in values else {})}
    for observable in ("x", "z"):
        assert frozen_difference(problem(text, tables, names, observable=observable, integrator=method)) < 1e-9


@pytest.mark.parametrize("method", METHODS)
def test_tables_beside_conditions_that_move(method):
    text = "x' = -k*x + if(t > lag, H(t), 0) + L(t)\nx(0) = 1"
    tables = {"H": of.Table([0, 1, 2.5], [1, 2.0, 0.5], kind="hold"), "L": of.Table([0, 1.5, 3, 10], [1, "a", 1, 0])}
    task = problem(text, tables, {"k": 1.0, "lag": 0.7, "a": 2.0}, integrator=method)
    assert frozen_difference(task) < 1e-9
    h = 1e-4
    tight = task.with_settings(rtol=1e-9, atol=1e-11) if method != "bdf3" else task
    ends = [of.simulate(tight, {"lag": 0.7 + s * h}, times=[1.0, 3.0])["x"].to_numpy() for s in (1, -1)]
    expected = [-np.exp(-0.3), -np.exp(-2.3)]  # a pulse that begins later by h misses H(lag) h
    np.testing.assert_allclose((ends[0] - ends[1]) / (2 * h), expected, atol=2e-2 if method == "bdf3" else 1e-3)


def test_knots_may_be_times_of_another_unit():
    tables = {"U": of.Table([0, 0.5, 1.0], [1.0, 3.0, 0.0], kind="hold")}
    text = "x' = k*U(t/3600 + 0.25)\nx(0) = 0"
    task = problem(text, tables, {"k": 1.0}, [1800.0, 3600.0])
    np.testing.assert_allclose(of.simulate(task)["x"], [900 + 3 * 900, 900 + 3 * 1800], rtol=1e-9)


def test_values_that_are_parameters_are_fitted():
    table = of.Table([0, 2, 4, 6], ["b1", "b2", 0.3, "b3"], kind="linear")
    task = problem(
        "x' = U(t) - 0.5*x\nx(0) = 1", {"U": table}, {"b1": 1.0, "b2": 1.0, "b3": 1.0}, np.linspace(0.5, 6, 12)
    )
    truth = {"b1": 0.7, "b2": 2.0, "b3": -1.0}
    values = of.simulate(task, truth)["x"].to_numpy()
    result = of.fit(task.with_measurements(data(task.measurements.time, values=values)))
    assert result.estimates == pytest.approx(truth, rel=1e-5)


def test_experiments_have_tables_of_their_own():
    model = of.Model.from_text("x' = U(t)\nx(0) = 0\ny = k*x")
    experiments = [
        of.Experiment("a"), of.Experiment("b", tables={"U": 3.0}),
        of.Experiment("c", tables={"U": of.Table([0, 1], ["k", 2.0])}),
    ]  # fmt: skip
    measured = of.Measurements(["a", "b", "c"], [1.0] * 3, ["y"] * 3, [1.0] * 3)
    task = of.Problem(
        model, [of.Parameter("k", 1.0)], measured, experiments, tables={"U": of.Table([0, 1], [0.0, 1.0])}
    )
    assert of.simulate(task)["x"].tolist() == pytest.approx([0.5, 3.0, 1.5])
    assert frozen_difference(task) < 1e-9
    again = pickle.loads(pickle.dumps(task))
    assert again.experiments == task.experiments
    assert of.simulate(again).equals(of.simulate(task))


def test_two_arguments():
    table = of.Table(([0.0, 2.0], [0.0, 1.0, 3.0]), [[0.0, 1.0, 2.0], [2.0, 3.0, 4.0]])
    task = problem("x' = k\nx(0) = 0\ny = W(t, x)", {"W": table}, {"k": 1.0}, [0.5, 1.0, 1.75], "y")
    # W = t + x up to x = 1, and half as steep behind
    assert of.simulate(task)["y"].tolist() == pytest.approx([1.0, 2.0, 1.75 + 1.375])
    assert frozen_difference(task.with_start(k=0.9)) < 1e-9


def test_a_long_table_takes_a_step_a_row():
    n = 20_000
    current = np.cumsum(np.random.default_rng(0).normal(size=n + 1)) * 0.1
    tables = {"current": of.Table(np.arange(n + 1.0), current)}
    task = problem("x' = (r*current(t) - h*x)/50\nx(0) = 0", tables, {"r": 1.0, "h": 0.1}, np.linspace(100, n, 50))
    objective = SingleShooting(task, StopFlag())
    objective.refresh(objective.compiled.theta_start)
    assert n <= objective.n_steps < 1.02 * n


OUTSIDE = {
    "right-hand side": ("x' = -k*x + U(t)\nx(0) = 1", "x", "behind its last knot, 2.2"),
    "of a state": ("x' = k*U(x)\nx(0) = 1", "x", "behind its last knot, 2.2"),
    "observable": ("x' = k\nx(0) = 1\nz = U(x)", "z", "the observable 'z' has no finite value at t = 2: the table 'U'"),
    "before": ("x' = -k*x + U(t - 1)\nx(0) = 1", "x", "before its first knot, 0"),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("where", OUTSIDE)
def test_outside_a_table_is_said(where, method):
    text, observable, words = OUTSIDE[where]
    task = problem(text, {"U": of.Table([0, 2.2], [1, 2.0])}, {"k": 1.0}, observable=observable, integrator=method)
    assert words in of.fit(task).message
    with pytest.warns(of.SimulationWarning, match="the table 'U' was asked for a value"):
        of.simulate(task)


def test_a_branch_that_is_not_taken_may_leave_a_table():
    text = "x' = k*if(t < 2, U(t), 0.0)\nx(0) = 0\ny = if(x > 1e9, U(x*1e6), x)"
    task = problem(text, {"U": of.Table([0, 2.2], [1, 1.0], kind="cubic")}, {"k": 1.0}, observable="y")
    assert of.simulate(task)["y"].to_numpy()[-1] == pytest.approx(2.0)
    assert frozen_difference(task) < 1e-9


def test_python_models_call_tables():
    heat = of.table("heat")
    model = of.Model.from_function(
        lambda t, y, p: {"x": heat(t) - p.k * y.x},
        ["x"],
        ["k"],
        {"x": 0.0},
        observables=lambda t, y, p: {"z": heat(2 * t)},
    )
    tables = {"heat": of.Table([0, 4], [0, 8.0])}
    task = of.Problem(model, [of.Parameter("k", 0.0)], data([1.0, 2.0]), tables=tables)
    found = of.simulate(task)
    assert found["x"].tolist() == pytest.approx([1.0, 4.0])
    assert found["z"].tolist() == pytest.approx([4.0, 8.0])


def test_check_names_tables_and_corners_that_no_step_ends_at():
    text = "x' = -k*x + U(t) + W(x)\nx(0) = 1"
    tables = {"U": of.Table(KNOTS, ["k", 1, 2, 3]), "W": of.Table([0, 9], [1, 0.0], outside="hold")}
    report = check(problem(text, tables, {"k": 1.0}))
    assert report.ok
    assert "  U: linear, 4 values from 0 to 5, outside: error, with k\n" in report.text
    assert "Warning: W(x) is of kind 'linear': where it has corners no step ends" in report.text


@pytest.mark.parametrize("kind", ["linear", "hold", "cubic"])
def test_start_values_from_the_data(kind):
    table = of.Table([0, 1, 2.5, 9], [1.0, "b", 0.5, 3.0], kind=kind)
    task = problem(
        "x' = -k*x + U(t)\nx(0) = 1", {"U": table}, {"k": 1.0, "b": 1.0}, np.linspace(0.2, 5, 25), start="auto"
    )
    values = of.simulate(task, {"k": 0.3, "b": 20.0})["x"].to_numpy()
    result = of.fit(task.with_measurements(data(task.measurements.time, values=values)))
    assert result.estimates == pytest.approx({"k": 0.3, "b": 20.0}, rel=1e-5)
    assert result.start_values.values == pytest.approx({"k": 0.3, "b": 20.0}, rel=0.2)


def test_start_values_from_the_data_with_a_long_table_are_refused():
    table = of.Table(np.arange(300.0), np.ones(300))
    task = problem("x' = -k*x + U(t)\nx(0) = 1", {"U": table}, {"k": 1.0}, start="auto")
    with pytest.raises(of.UnsupportedError, match="with the table 'U', which has two arguments or more than 200 rows"):
        of.fit(task)


@pytest.mark.parametrize("kind", REFERENCE)
@pytest.mark.parametrize("method", ["dopri5", "ddm"])
def test_second_order_against_differences_of_first(method, kind):
    tables = {
        "U": of.Table(KNOTS, VALUES, kind=kind),
        "W": of.Table([0, 1, 3, 10], [1, 0.5, 0.3, 0.2], kind="cubic", outside="extend"),
    }
    text = "x' = -k*x*W(x) + c*U(t)\nx(0) = W(k)"
    task = problem(text, tables, {"k": 1.0, "c": 0.7}, integrator=method, rtol=1e-9, atol=1e-12)
    compiled = compile_problem(task)
    theta, times, h = compiled.theta_start, np.array([1.0, 3.0, 4.5]), 1e-4

    tables_of_it = compiled.structure.tables[0]

    def solved(x, order, grid):
        run = Run.of(compiled.parameters(x, 0, order), 0.0, times, piece_ends(0.0, times, tables_of_it.jumps))
        run = run.with_tables(tables_of_it, compiled.new_inputs(0))
        return METHODS[method].solve(compiled.model(0), run, grid=grid, rtol=1e-9, atol=1e-12, order=order)

    grid = solved(theta, 2, None).grid
    second = solved(theta, 2, grid).S2[:, 0]  # pairs kk, kc, cc
    for i, pairs in enumerate(([0, 1], [1, 2])):
        step = h * np.eye(2)[i]
        slopes = (solved(theta + step, 1, grid).S[:, 0] - solved(theta - step, 1, grid).S[:, 0]) / (2 * h)
        np.testing.assert_allclose(second[:, pairs], slopes, atol=1e-6)
