"""Right-hand sides that cannot be traced, from the problem to the fit: beside the same equations as text."""

from __future__ import annotations

import math
from dataclasses import replace

import numba
import numpy as np
import pytest

import odefit as of
from odefit.compile import compile_problem
from odefit.errors import ProblemError, UnsupportedError
from odefit.gallery import load
from odefit.integrate import METHODS, Run, Status, piece_ends
from odefit.model import Model
from odefit.report.check import check
from odefit.transcribe import SingleShooting

SERVING = {name: method for name, method in METHODS.items() if not method.needs_second}
"""Methods that do without second derivatives, which there are none of."""
INTEGRATORS = (*SERVING, "auto")
INF = math.inf


def barnes(t, y, p):
    return [p[0] * y[0] - p[1] * y[0] * y[1], p[1] * y[0] * y[1] - p[2] * y[1]]


@numba.njit
def native_barnes(t, y, p, out):
    out[0] = p[0] * y[0] - p[1] * y[0] * y[1]
    out[1] = p[1] * y[0] * y[1] - p[2] * y[1]


@numba.njit
def robertson(t, y, p, out):
    forth, back, on = p[0] * y[0], p[1] * y[1] * y[2], p[2] * y[1] ** 2
    out[0], out[1], out[2] = back - forth, forth - back - on, on


def of_barnes(function) -> Model:
    return Model.from_callable(function, ["y1", "y2"], ["k1", "k2", "k3"], {"y1": 1, "y2": 0.3})


@pytest.mark.parametrize("integrator", ["dopri5", "ddm"])
@pytest.mark.parametrize("function", [barnes, native_barnes], ids=["python", "numba"])
def test_barnes_has_the_estimates_of_the_text(function, integrator):
    text = load("barnes").with_settings(integrator=integrator)
    expected, found = of.fit(text), of.fit(replace(text, model=of_barnes(function)))
    assert found.status == expected.status == "converged"
    assert (found.iterations, found.evaluations) == (expected.iterations, expected.evaluations)
    for name, value in expected.estimates.items():
        assert found.estimates[name] == pytest.approx(value, rel=1e-9)
        assert found.parameters[name].standard_error == pytest.approx(
            expected.parameters[name].standard_error, rel=1e-7
        )


def test_robertson_with_ddm():
    """Stiff, with a state that begins at zero and stays at 1e-5 beside others of size 1."""
    text = load("robertson").with_settings(integrator="ddm")
    states = ["y1", "y2", "y3"]
    model = Model.from_callable(robertson, states, ["k1", "k2", "k3"], {"y1": 1, "y2": 0, "y3": 0})
    assert text.model.states == tuple(states)
    expected, found = of.fit(text), of.fit(replace(text, model=model))
    assert found.status == expected.status == "converged"
    for name, value in expected.estimates.items():
        assert found.estimates[name] == pytest.approx(value, rel=1e-6)


# two reservoirs: linear, with an inflow that depends on time
TEXT = "A' = a*(1 + w*sin(t)) - b*A\nB' = b*A - c*B\nA(0) = 1\nB(0) = B0\ns = f*(A + B)\nw = {w}\n"
VALUES = {"a": 1.3, "b": 0.7, "c": 0.4, "B0": 0.2, "f": 1.1}
DATA = of.Measurements.from_columns([0.5, 1.0, 2.0, 4.0], {"s": [1.0, 2.0, 2.5, 3.0], "B": [0.1, 0.3, 0.4, 0.5]})
ARGUMENTS = {"initial": {"A": 1, "B": "B0"}, "observables": {"s": "f*(A + B)"}, "further_parameters": ["B0", "f"]}


def reservoirs(t, y, p):
    return [p[0] * (1 + 0.5 * math.sin(t)) - p[1] * y[0], p[1] * y[0] - p[2] * y[1]]


def steady_reservoirs(t, y, p):
    return [p[0] - p[1] * y[0], p[1] * y[0] - p[2] * y[1]]


def foreign(function=reservoirs, **options) -> Model:
    return Model.from_callable(function, ["A", "B"], ["a", "b", "c"], **{**ARGUMENTS, **options})


def problem(model: Model, *periods: of.Period, events=(), data=DATA, **settings) -> of.Problem:
    experiment = of.Experiment("main", periods or (of.Period(0.0),), events=events)
    parameters = [of.Parameter(name, value) for name, value in VALUES.items()]
    return of.Problem(model, parameters, data, (experiment,)).with_settings(**settings)


def assert_same(made: of.Problem, w: float = 0.5) -> None:
    """Residuals and Jacobian are those of the equations as text."""
    text = replace(made, model=Model.from_text(TEXT.format(w=w)))
    found, expected = made.evaluate({}, order=1), text.evaluate({}, order=1)
    assert found.status == expected.status == "ok"
    np.testing.assert_allclose(found.residuals, expected.residuals, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.jacobian, expected.jacobian, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_every_integrator(integrator):
    assert_same(problem(foreign(), integrator=integrator))


def test_a_method_that_needs_second_derivatives_says_that_there_are_none():
    with pytest.raises(UnsupportedError, match="second derivatives of a right-hand side that cannot be traced"):
        of.fit(problem(foreign(), integrator="limex"))


@pytest.mark.parametrize("integrator", ["dopri5", "ddm"])
def test_events_in_time_some_of_which_move(integrator):
    """Times that depend on parameters need derivatives by the time."""
    doses = (of.Dose(1.0, "A", 2.0), of.Dose("1 + c", "B", "a", duration="b"))
    assert_same(problem(foreign(), events=doses, integrator=integrator))


def test_periods_and_replacements():
    assert_same(problem(foreign(), of.Period(0.0, {"a": "2*c", "A(0)": 3.0}), of.Period(1.5, {"b": 0.1})))


@pytest.mark.parametrize("integrator", ["dopri5", "ddm"])
def test_a_steady_start_and_data_at_rest(integrator):
    data = of.Measurements.from_columns([0.5, 1.0, INF], {"s": [1.0, 2.0, 2.5], "B": [0.1, 0.3, 0.4]})
    model = foreign(steady_reservoirs, autonomous=True)
    made = problem(model, of.Period(-INF, {"a": 0.5}), of.Period(0.0), data=data, integrator=integrator)
    assert_same(made, w=0.0)


def exchange(t, y, p):
    """A and B bind to C; B and C turn into each other."""
    bound, turned = p[0] * y[0] * y[1] - p[1] * y[2], p[2] * (y[1] - 2 * y[2])
    return [-bound, -bound - turned, bound + turned]


CONSERVED = [{"B": 1, "C": 1}]
EXCHANGE = "A' = -bound\nB' = -bound - turned\nC' = bound + turned\nbound = a*A*B - b*C\nturned = c*(B - 2*C)"


def of_exchange(**options) -> Model:
    initial = {"A": 2, "B": 1, "C": 0.3}
    return Model.from_callable(exchange, ["A", "B", "C"], ["a", "b", "c"], initial, autonomous=True, **options)


def exchange_problem(model: Model) -> of.Problem:
    data = of.Measurements.from_columns([0.5, 1.0, INF], {"A": [1.0, 2.0, 2.5], "C": [0.1, 0.3, 0.4]})
    parameters = [of.Parameter(name, VALUES[name]) for name in "abc"]
    return of.Problem(model, parameters, data, (of.Experiment("main", (of.Period(-INF, {"c": 0.1}), of.Period(0.0))),))


def test_a_steady_start_with_a_conserved_total():
    text = Model.from_text(EXCHANGE + "\nA(0) = 2\nB(0) = 1\nC(0) = 0.3")
    expected = exchange_problem(text).evaluate({}, order=1)
    found = exchange_problem(of_exchange(conserved=CONSERVED)).evaluate({}, order=1)
    assert found.status == expected.status == "ok"
    np.testing.assert_allclose(found.residuals, expected.residuals, rtol=1e-9)
    np.testing.assert_allclose(found.jacobian, expected.jacobian, rtol=1e-7, atol=1e-8)
    without = exchange_problem(of_exchange()).evaluate({}, order=1)
    assert without.status == "failed"
    assert "degenerate" in without.message


def test_totals_that_are_not_conserved_are_refused():
    made = exchange_problem(of_exchange(conserved=[{"A": 1, "C": 1}]))
    with pytest.raises(ProblemError, match=r"'exchange' does not conserve 1\*A \+ 1\*C, which is said to be conserved"):
        made.evaluate({}, order=0)


def test_a_steady_start_needs_to_know_that_the_time_is_not_used():
    made = problem(foreign(steady_reservoirs), of.Period(-INF), of.Period(0.0))
    with pytest.raises(UnsupportedError, match=r"may depend on t; say autonomous=True in Model\.from_callable"):
        made.evaluate({}, order=0)
    lying = problem(foreign(reservoirs, autonomous=True))
    words = r"the right-hand side 'reservoirs' has no finite value for the derivative of 'A' at .*it is given NaN"
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(lying.evaluate({}, order=0).message)


@pytest.mark.parametrize("method", SERVING.values(), ids=SERVING)
def test_replay_gives_the_same_bits(method):
    made = problem(foreign())
    compiled, times = compile_problem(made), np.array([0.5, 1.0, 2.0, 4.0])
    seeds, tables = compiled.parameters(compiled.theta_start, 0, 1), compiled.structure.tables[0]

    def solve(**grid):
        run = Run.of(seeds, 0.0, times, piece_ends(0.0, times)).with_tables(tables, compiled.new_inputs(0))
        return method.solve(compiled.model(0), run, rtol=1e-7, order=1, **grid)

    chosen = solve()
    replayed = solve(grid=chosen.grid)
    assert chosen.status is replayed.status is Status.OK
    np.testing.assert_array_equal(replayed.y, chosen.y)
    np.testing.assert_array_equal(replayed.S, chosen.S)


@pytest.mark.parametrize("integrator", ["dopri5", "ddm"])
def test_sensitivities_are_derivatives_of_what_is_computed(integrator):
    """At a rough tolerance, on frozen steps: against differences of residuals."""
    objective = SingleShooting(problem(foreign(), integrator=integrator, rtol=1e-2))
    x = np.array(list(VALUES.values()))
    objective.refresh(x)
    jacobian = objective.evaluate(x, 1).linear.jacobian
    for j in range(x.size):
        step = 1e-4 * np.eye(x.size)[j]
        near, far = (objective.evaluate(x + k * step, 0).residual - objective.evaluate(x - k * step, 0).residual
                     for k in (1, 2))  # fmt: skip
        np.testing.assert_allclose(jacobian[:, j], (8 * near - far) / 12e-4, rtol=1e-7, atol=1e-8)


def test_functions_are_not_differentiated_by_fixed_parameters():
    """A switch among the parameters, say, may have no value beside it; and each column costs two calls."""
    seen = set()

    def switched(t, y, p):
        seen.add(float(p[0]))
        return reservoirs(t, y, p) if p[0] == 1.3 else [math.nan, math.nan]

    made = problem(foreign(switched), integrator="ddm").with_fixed("a")
    expected = replace(made, model=Model.from_text(TEXT.format(w=0.5))).evaluate({}, order=1)
    found = made.evaluate({}, order=1)
    assert found.status == "ok"
    np.testing.assert_allclose(found.jacobian, expected.jacobian, rtol=1e-8, atol=1e-8)
    assert seen == {1.3}


def test_a_fixed_parameter_that_an_experiment_computes_is_differentiated_by():
    for periods in ([of.Period(0.0, {"a": "3*c"})], [of.Period(0.0), of.Period(1.0, {"a": "3*c"})]):
        assert_same(problem(foreign(), *periods, integrator="ddm").with_fixed("a"))


def raising(t, y, p):
    if t > 0.7:
        raise ValueError("the pump is off")
    return steady_reservoirs(t, y, p)


@numba.njit
def native_raising(t, y, p, out):
    if t > 0.7:
        raise ValueError("the pump is off")
    out[0], out[1] = p[0], y[0]


MISTAKES = {
    "raising": (raising, "beyond t = 0.7: the right-hand side 'raising' raised ValueError: the pump is off"),
    "native": (native_raising, "the right-hand side 'native_raising' raised ValueError: the pump is off"),
    "short": (lambda t, y, p: y[:1], "beyond t = 0: the right-hand side '<lambda>' returned 1 number for 2 states"),
    "nan": (
        lambda t, y, p: [y[0], math.nan],
        r"has no finite value for the derivative of 'B' at t = 0, A = 1, B = 0\.2",
    ),
    "unset": (lambda t, y, p, out: None, "has no finite value for the derivative of 'A'"),
    "edge": (lambda t, y, p: y if p[0] == 1.3 else [math.nan] * 2, "has no finite values around .*a = 1.3"),
}


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("integrator", ["dopri5", "ddm"])
def test_mistakes_are_statuses_with_words(name, integrator):
    function, words = MISTAKES[name]
    made = problem(foreign(function), integrator=integrator)
    found = made.evaluate({}, order=1)
    assert found.status == "failed"
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(found.message)
    result = of.fit(made)
    assert result.status != "converged"
    assert found.message in result.message


def test_second_derivatives_are_refused():
    compiled = compile_problem(problem(foreign()))
    with pytest.raises(UnsupportedError, match=r"second derivatives of a right-hand side that cannot be traced"):
        _ = compiled.model(0).rhs.second


def test_what_needs_equations_is_refused(tmp_path):
    made = problem(foreign())
    with pytest.raises(ProblemError, match="comes from a Python function and has no text"):
        made.save(tmp_path / "p.toml")
    with pytest.raises(UnsupportedError, match="start values from the data.*cannot be traced"):
        of.fit(made, start="auto")


def test_check_says_what_the_right_hand_side_is():
    report = check(problem(foreign()))
    assert report.ok
    assert (
        "Right-hand side: the function 'reservoirs' of t, A, B, a, b, c; its derivatives are differences" in report.text
    )
    assert "Right-hand side" not in check(load("barnes")).text


def test_many_starts_in_several_processes():
    """Workers are forked: a function needs no module there."""
    made = replace(load("barnes"), model=of_barnes(lambda t, y, p: barnes(t, y, p)))
    found = of.fit(made, starts=4, seed=1, workers=2)
    expected = of.fit(load("barnes"), starts=4, seed=1)
    assert found.objective == pytest.approx(expected.objective, rel=1e-9)
    assert len(found.multistart.runs) == 4


def test_several_experiments_in_threads():
    """Each task has its own memory, and callbacks take turns."""
    one = load("barnes")
    experiments = tuple(of.Experiment(f"e{i}", (of.Period(0.0, {"y1(0)": 1.0 + 0.1 * i}),)) for i in range(6))
    columns = {"experiment": [], "time": [], "observable": [], "value": []}
    for experiment in experiments:
        for time in (1.0, 2.0, 3.0):
            for name, value in zip(columns, (experiment.name, time, "y1", 0.7), strict=True):
                columns[name].append(value)
    made = replace(one, experiments=experiments, measurements=of.Measurements(**columns))
    found = replace(made, model=of_barnes(barnes)).evaluate({}, order=1)
    expected = made.evaluate({}, order=1)
    np.testing.assert_allclose(found.residuals, expected.residuals, rtol=1e-12)
    np.testing.assert_allclose(found.jacobian, expected.jacobian, rtol=1e-7, atol=1e-8)
