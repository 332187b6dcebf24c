"""Tables whose knots move with a parameter or come again, tables in conditions, and sensitivities to their values."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of
from odefit.compile import compile_problem
from odefit.integrate import METHODS, Run, piece_ends
from odefit.native.stop import StopFlag
from odefit.report.check import central_difference, check
from odefit.transcribe import SingleShooting

TIGHT = ("dopri5", "dop853", "ddm")
STEPS = of.Table([0, 1, 2.5], [1, 2.0, 0.5], kind="hold", outside="hold")


def problem(text, tables, names, times=(0.5, 1, 2, 3.0, 4.5), derived=None, **settings):
    data = of.Measurements.from_columns(times, {"x": np.ones(len(times))})
    return of.Problem(
        of.Model.from_text(text), [of.Parameter(name, start) for name, start in names.items()], data, tables=tables,
        derived=derived or {}, settings=of.Settings(**settings),
    )  # fmt: skip


def solved(task):
    """Return the Jacobian of the residuals, and its largest difference from differences on frozen steps."""
    objective = SingleShooting(task, StopFlag())
    x = objective.compiled.theta_start
    objective.refresh(x)
    jacobian = objective.evaluate(x, 1).linear.jacobian
    columns = [central_difference(objective, x, i) for i in range(x.size)]
    return jacobian, float(np.abs(jacobian - np.stack(columns, axis=1)).max())


def moved(task, name, h):
    """Return differences of runs of the problem's tolerance."""
    start = {p.name: p.start for p in task.parameters}[name]
    ends = [of.simulate(task, {name: start + sign * h})["x"].to_numpy() for sign in (1, -1)]
    return (ends[0] - ends[1]) / (2 * h)


@pytest.mark.parametrize("method", METHODS)
def test_steps_move_with_a_lag(method):
    task = problem("x' = H(t - lag)\nx(0) = 0", {"H": STEPS}, {"lag": 0.7}, integrator=method)
    np.testing.assert_allclose(of.simulate(task)["x"], [0.5, 1, 2.3, 4.3, 5.35], rtol=1e-9)
    jacobian, difference = solved(task)
    np.testing.assert_allclose(jacobian[:, 0], [0, 0, -1, -1, 0.5], atol=1e-9)
    assert difference < 1e-9


@pytest.mark.parametrize("kind", ["hold", "linear"])
@pytest.mark.parametrize("method", TIGHT)
def test_derivatives_by_lags_and_values_against_tight_runs(method, kind):
    table = of.Table([-1, 0.2, 1, 2.5, 9], [0.3, 1, "b", 0.5, "b"], kind=kind)
    task = problem(
        "x' = -k*x^2 + U(t - lag)\nx(0) = 1", {"U": table}, {"k": 0.4, "lag": 0.7, "b": 2.0}, integrator=method,
        rtol=1e-11, atol=1e-12, max_steps=10_000,
    )  # fmt: skip
    jacobian, difference = solved(task)
    assert difference < 1e-9
    for column, name in enumerate(("k", "lag", "b")):
        np.testing.assert_allclose(jacobian[:, column], moved(task, name, 1e-4), atol=1e-6)


@pytest.mark.parametrize("kind", ["hold", "linear", "cubic"])
@pytest.mark.parametrize("method", METHODS)
def test_derivatives_by_values_are_those_of_the_formula(method, kind):
    # x' = -x + U(t): dx/db solves it with the function that is 1 where b stands and 0 at the other knots
    text, values = "x' = -x + U(t)\nx(0) = 1", np.eye(4)[1]
    exact = problem(
        text.replace("= 1", "= 0"), {"U": of.Table([0, 1, 2.5, 5], values, kind=kind)}, {}, integrator="dop853",
        rtol=1e-12, atol=1e-14,
    )  # fmt: skip
    expected = of.simulate(exact)["x"].to_numpy()
    tight = {"rtol": 1e-10, "atol": 1e-11, "max_steps": 100_000} if method in TIGHT else {}
    table = of.Table([0, 1, 2.5, 5], [1, "b", 3, 2.0], kind=kind)
    jacobian, _ = solved(problem(text, {"U": table}, {"b": 2.0}, integrator=method, **tight))
    np.testing.assert_allclose(jacobian[:, 0], expected, atol=1e-6 if tight else 1e-4)


@pytest.mark.parametrize("method", ["dopri5", "ddm"])
def test_second_order_by_a_lag(method):
    task = problem(
        "x' = -k*x^2 + H(t - lag)\nx(0) = 1", {"H": STEPS}, {"k": 0.4, "lag": 0.7}, integrator=method, rtol=1e-9,
        atol=1e-12,
    )  # fmt: skip
    compiled = compile_problem(task)
    theta, times, h, tables = compiled.theta_start, np.array([1.0, 3.0, 4.5]), 1e-4, compiled.structure.tables[0]

    def run(x, order, grid):
        seeds = compiled.parameters(x, 0, order)
        start = Run.of(seeds, 0.0, times, piece_ends(0.0, times, tables.jumps)).with_tables(
            tables, compiled.new_inputs(0)
        )
        return METHODS[method].solve(compiled.model(0), start, grid=grid, rtol=1e-9, atol=1e-12, order=order)

    grid = run(theta, 2, None).grid
    second = run(theta, 2, grid).S2[:, 0]  # pairs kk, k lag, lag lag
    for i, pairs in enumerate(([0, 1], [1, 2])):
        step = h * np.eye(2)[i]
        slopes = (run(theta + step, 1, grid).S[:, 0] - run(theta - step, 1, grid).S[:, 0]) / (2 * h)
        np.testing.assert_allclose(second[:, pairs], slopes, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_days_that_repeat_themselves(method):
    tables = {
        "H": of.Table([0, 1, 2], [0, 1, 0.0], kind="hold"),
        "L": of.Table([0, 1, 3], [0, 1, 0.0]),
    }
    text = "x' = k*H(t - 3*floor(t/3)) + L(t - 3*floor(t/3))\nx(0) = 0"
    task = problem(text, tables, {"k": 1.0}, [1, 2, 3, 4.5, 6, 7.25], integrator=method)
    expected = np.array([0, 1, 1, 1.5, 2, 2.25]) + [0.5, 1.25, 1.5, 2.4375, 3, 3.734375]
    np.testing.assert_allclose(of.simulate(task)["x"], expected, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_tables_with_steps_stand_in_conditions(method):
    text = "x' = if(H(t) > 1.5, k, 0) + if(H(t - lag) > 1.5, 1, 0)\nx(0) = 0"
    task = problem(text, {"H": STEPS}, {"k": 1.0, "lag": 0.25}, integrator=method)
    np.testing.assert_allclose(of.simulate(task)["x"], [0, 0, 1.75, 3, 3], atol=1e-9)
    assert solved(task)[1] < 1e-9


def test_a_lag_may_be_where_a_table_begins():
    table = of.Table([0, 1, 2.5], [1, 2.0, 0.5], kind="hold")
    task = problem("x' = H(t - lag)\nx(0) = 0", {"H": table}, {"lag": 0.0})
    np.testing.assert_allclose(of.simulate(task)["x"], [0.5, 1, 3, 4.25, 5], rtol=1e-9)
    with pytest.warns(of.SimulationWarning, match=r"a value before its first knot, 0 \(at -0.5\)"):
        of.simulate(task, {"lag": 0.5})


REFUSED = {
    "condition": ("x' = if(L(t) > k, 1, 0)", "a condition in time, or min and max, that depends on the table 'L'"),
    "extremum": ("x' = max(L(t), k)", "or min and max, that depends on the table 'L'"),
    "table of a table": ("x' = H(L(t) + k)", r"H\(.*\) of kind 'hold' .* with another table in it"),
    "many": ("x' = M(t - k)", r"the table M\(t-k\) of kind 'hold' .* more than 100 steps"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_built_is_refused(what):
    text, words = REFUSED[what]
    many = of.Table(np.arange(200.0), np.arange(200.0) % 2, kind="hold", outside="hold")
    tables = {"H": STEPS, "L": of.Table([0, 9], [0, 1.0]), "M": many}
    called = {name: table for name, table in tables.items() if f"{name}(" in text}
    with pytest.raises(of.UnsupportedError, match=words):
        of.simulate(problem(f"{text}\nx(0) = 0", called, {"k": 0.5}))


def test_steps_in_a_state_are_named_if_there_are_too_many_to_watch():
    few = check(problem("x' = -k*H(x)\nx(0) = 3", {"H": STEPS}, {"k": 0.5}, [0.5, 1.0]))
    assert "cross a border" not in few.text
    many = of.Table(np.arange(200.0), np.arange(200.0) % 3, kind="hold")
    report = check(problem("x' = -k*H(x)\nx(0) = 3", {"H": many}, {"k": 0.5}, [0.5, 1.0]))
    assert "cross a border (H(x) of kind 'hold')" in report.text.replace("\n  ", " ")


def test_derived_quantities_call_tables():
    task = problem(
        "x' = U(t) - k*x\nx(0) = 0", {"U": of.Table([0, 2, 5], ["a", 2, 1.0])}, {"k": 0.5, "a": 3.0},
        derived={"first": "U(1)", "scaled": "10*U(k)"},
    )  # fmt: skip
    result = of.fit(task.with_measurements(of.Measurements.from_columns([1, 2, 3, 4], {"x": [2.0, 3.0, 3.1, 3.0]})))
    k, a = result.estimates["k"], result.estimates["a"]
    derived = result.derived
    assert derived["first"].estimate == pytest.approx(0.5 * (a + 2))
    assert derived["first"].standard_error == pytest.approx(0.5 * result.parameters["a"].standard_error)
    assert derived["scaled"].estimate == pytest.approx(10 * (a + (2 - a) * k / 2))


def test_derived_quantities_follow_the_tables_of_experiments():
    experiments = [of.Experiment("a"), of.Experiment("b", tables={"U": of.Table([0, 9], [4.0, 4.0])})]
    data = of.Measurements(["a", "a", "b", "b"], [1.0, 2.0] * 2, ["x"] * 4, [1.0, 1.5, 3.0, 4.0])
    task = of.Problem(
        of.Model.from_text("x' = U(t) - k*x\nx(0) = 0"), [of.Parameter("k", 0.5)], data, experiments,
        tables={"U": of.Table([0, 9], [1.0, 1.9])}, derived={"u": "U(1) + 0*k"},
    )  # fmt: skip
    derived = of.fit(task).derived
    assert {name: row.estimate for name, row in derived.items()} == pytest.approx({"u[a]": 1.1, "u[b]": 4.0})
