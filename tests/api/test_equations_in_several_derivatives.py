"""Models of equations in several derivatives, from text to fit.

Each has a twin in explicit form, in which the algebraic unknown is a definition and derivatives are solved for by hand:
both must have the same residuals and derivatives, whatever happens in them.
"""

from __future__ import annotations

import dataclasses
import pickle
import re

import numpy as np
import pytest

import odefit as of
from odefit.errors import OdefitError, UnsupportedError

EQUATIONS = """
(a + w^2)*x' + 0.3*z' = -k*x*(a + w^2)
z' = x - c*w*z
algebraic w ~ 0.3
0 = exp(w) - 1 - x - S
S = 0.1*t
x(0) = 1
z(0) = 0.5
"""
TWIN = """
x' = -k*x - 0.3*(x - c*w*z)/(a + w^2)
z' = x - c*w*z
w = log(1 + x + S)
S = 0.1*t
x(0) = 1
z(0) = 0.5
"""
VALUES = {"a": 1.2, "k": 0.6, "c": 0.4}
TIMES = np.array([0.0, 0.4, 0.9, 1.6, 2.3, 3.1, 4.0])
MAIN = (of.Experiment("main"),)
TABLE = of.Table([0.0, 0.8, 2.0, 5.0], [0.1, 0.6, 0.3, 0.5])
HELD = of.Table([0.0, 1.1, 2.4], [0.1, 0.7, 0.2], kind="hold", outside="hold")


def problem(
    text=EQUATIONS,
    values=VALUES,
    experiments=MAIN,
    observed=("x", "z", "w"),
    times=TIMES,
    after=(),
    **rest,
):
    names = [experiment.name for experiment in experiments]
    rows = [(name, time, one) for name in names for one in observed for time in times]
    data = of.Measurements(
        experiment=[row[0] for row in rows], time=[row[1] for row in rows], observable=[row[2] for row in rows],
        value=np.zeros(len(rows)), side=[1 if row[1] in after else -1 for row in rows],
    )  # fmt: skip
    parameters = [of.Parameter(name, value) for name, value in values.items()]
    return of.Problem(of.Model.from_text(text), parameters, data, experiments, **rest)


def changed(old: str, new: str) -> tuple[str, str]:
    assert old in EQUATIONS
    return EQUATIONS.replace(old, new), TWIN.replace(old, new)


def added(lines: str) -> tuple[str, str]:
    return EQUATIONS + lines, TWIN + lines


TWINS = {
    "plain": ((EQUATIONS, TWIN), {}),
    "a start alone": ((EQUATIONS, TWIN), {"times": [0.0]}),
    "a start alone, with a condition": (changed("S = 0.1*t", "S = if(t < 1, 0.2, 0.5)"), {"times": [0.0]}),
    "a start alone, with a table": (changed("S = 0.1*t", "S = 0.1 + H(t)"), {"times": [0.0], "tables": {"H": HELD}}),
    "experiments that change a coefficient": (
        (EQUATIONS, TWIN),
        {
            "experiments": (
                of.Experiment("one", [of.Period(0.0, {"a": 2.0})]),
                of.Experiment("two", [of.Period(0.0, {"S": 0.4, "x(0)": 1.5})]),
            ),
        },
    ),
    "a later period": (
        (EQUATIONS, TWIN),
        {"experiments": (of.Experiment("main", [of.Period(0.0), of.Period(1.2, {"a": 3.0, "S": 0.3})]),)},
    ),
    "an event": (added("at t=1.3: x += 0.5*w, k = 2*k\n"), {}),
    "an event whose time is unknown": (added("at t=T: x += D\n"), {"values": {**VALUES, "T": 1.3, "D": 0.7}}),
    "an event at the start": (added("at t=0: x += D\n"), {"values": {**VALUES, "D": 0.7}}),
    "an event at the end": (added("at t=4: x += D\n"), {"values": {**VALUES, "D": 0.7}}),
    "states behind events": (
        added("at t=0: x += D\nat t=1.6: x += w, z += D\nat t=4: x += D\n"),
        {"values": {**VALUES, "D": 0.7}, "after": (0.0, 1.6, 4.0)},
    ),
    "an event on a condition": (added("when w < 0.45: x += D\n"), {"values": {**VALUES, "D": 0.7}}),
    "a condition that is true at first": (added("when w > 0.1: z += 1\n"), {}),
    "a condition that the guess would set off": (added("when w > 0.5: z += 1\n"), {}),
    "doses": (
        (EQUATIONS, TWIN),
        {
            "values": {**VALUES, "D": 0.7, "lag": 0.2},
            "experiments": (
                of.Experiment("main", events=(of.Dose(0.0, "z", "D", every=1.0, count=3), of.Dose(0.5, "x", 0.3))),
            ),
            "lag": {"z": "lag"},
        },
    ),
    "infusions": (
        (EQUATIONS, TWIN),
        {
            "values": {**VALUES, "D": 0.7, "T": 0.8},
            "experiments": (
                of.Experiment(
                    "main", events=(of.Dose(0.3, "z", "D", duration="T"), of.Dose(1.5, "x", 1.0, duration=1.0))
                ),
            ),
        },
    ),
    "a table in a coefficient": (changed("a + w^2", "a + L(t)*w^2"), {"tables": {"L": TABLE}}),
    "a table in a constraint": (changed("S = 0.1*t", "S = L(t) + H(t)"), {"tables": {"L": TABLE, "H": HELD}}),
    "a condition in time": (changed("S = 0.1*t", "S = if(t < 1.1, 0.1, 0.5)"), {}),
    "a condition in time that moves": (
        changed("S = 0.1*t", "S = if(t < lag, 0.1*t, 0.5)"), {"values": {**VALUES, "lag": 1.2}},
    ),
    "a condition on the unknown": (changed("-k*x", "-k*if(w > 0.6, 1, 0.9)*x"), {}),
    "aggregates": (
        added("area = integral(w, over=t)\ntop = max(w*t, over=t)\naverage = mean(x, over=t)\n"),
        {"observed": ("area", "top", "average", "x"), "times": TIMES[1:]},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("texts", "rest"), TWINS.values(), ids=TWINS)
def test_equations_and_their_explicit_twin_agree(texts, rest):
    settings = of.Settings(rtol=1e-9, atol=1e-11)
    found, right = (
        problem(text, settings=dataclasses.replace(settings, integrator=integrator), **rest).evaluate()
        for text, integrator in zip(texts, ("auto", "dopri5"), strict=True)
    )
    np.testing.assert_allclose(found.residuals, right.residuals, atol=3e-7)
    np.testing.assert_allclose(found.jacobian, right.jacobian, atol=3e-6 * max(1.0, np.abs(right.jacobian).max()))


def test_at_a_jump_the_unknown_is_that_before_it():
    """As all states are where something happens."""
    made = problem(
        EQUATIONS.replace("S = 0.1*t", "S = H(t)"), tables={"H": HELD}, times=[1.1, 1.2], observed=("x", "w")
    )
    (x, w), (later_x, later_w) = (made.evaluate(order=0).residuals).reshape(2, 2)
    assert w == pytest.approx(np.log(1 + x + 0.1), rel=1e-6)
    assert later_w == pytest.approx(np.log(1 + later_x + 0.7), rel=1e-6)


def measured(made: of.Problem, **start) -> of.Problem:
    """Return the problem with data that it simulates, with noise, and other values to start from."""
    return of.with_synthetic_data(made, noise=0.003, seed=1).with_start(**start)


INPUT = problem(
    EQUATIONS.replace("S = 0.1*t", "S = L(t)"), times=np.arange(0.0, 4.1, 0.25), tables={"L": TABLE},
    derived={"half": "log(2)/k", "mean_w": "mean(w, over=t)"},
    experiments=(of.Experiment("one"), of.Experiment("two", [of.Period(0.0, {"a": 2.0, "x(0)": 1.5})])),
)  # fmt: skip


@pytest.fixture(scope="module")
def data():
    return measured(INPUT, a=1.0, k=0.9, c=0.2)


@pytest.fixture(scope="module")
def fitted(data):
    return of.fit(data)


def assert_recovered(result):
    assert result.converged
    for name, value in VALUES.items():
        assert abs(result.estimates[name] - value) < 5 * result.parameters[name].standard_error


def test_a_fit_recovers_the_parameters(fitted):
    assert_recovered(fitted)
    assert fitted.integrators == {"one": "ddm", "two": "ddm"}
    assert fitted.derived["half"].estimate == pytest.approx(np.log(2) / fitted.estimates["k"])
    assert {f"mean_w[{name}]" for name in fitted.integrators} <= set(fitted.derived)
    assert "k" in str(fitted.summary())


@pytest.mark.parametrize("method", ["incremental", "incremental-dense"])
def test_other_strategies_come_to_the_same(data, fitted, method):
    result = of.fit(data, method=method)
    assert_recovered(result)
    assert result.objective == pytest.approx(fitted.objective, rel=1e-6)


def test_incremental_from_far_away():
    result = of.fit(measured(INPUT, a=4.0, k=3.0, c=3.0), method="incremental")
    assert_recovered(result)


def test_many_starts_in_processes(data, fitted):
    bounded = data.with_bounds(a=(0.2, 5.0), k=(0.05, 3.0), c=(0.01, 3.0))
    alone, shared = (of.fit(bounded, starts=4, seed=1, workers=workers) for workers in (1, 2))
    assert shared.objective == pytest.approx(fitted.objective, rel=1e-6)
    assert shared.estimates == alone.estimates


def test_an_unknown_lag_is_recovered():
    text = EQUATIONS.replace("S = 0.1*t", "S = if(t < lag, 0.1, 0.6)")
    made = problem(text, {**VALUES, "lag": 1.3}, times=np.arange(0.0, 4.1, 0.25) + 0.01)
    result = of.fit(measured(made, lag=1.15, k=0.7))
    assert_recovered(result)
    assert result.estimates["lag"] == pytest.approx(1.3, abs=0.1)


def test_models_and_problems_are_pickled(data):
    again = pickle.loads(pickle.dumps(data))
    np.testing.assert_array_equal(again.evaluate().jacobian, data.evaluate().jacobian)


@pytest.mark.parametrize("freeze", [False, True])
def test_evaluator(data, freeze):
    evaluator = of.Evaluator(data, freeze=freeze)
    x = evaluator.start * 1.02
    if freeze:
        evaluator.refresh(evaluator.start)
    found = evaluator.jacobian(x)
    for j in range(x.size):
        h = (1e-4 if freeze else 1e-3) * x[j]
        unit = np.eye(x.size)[j] * h
        difference = (evaluator.residuals(x + unit) - evaluator.residuals(x - unit)) / (2 * h)
        np.testing.assert_allclose(found[:, j], difference, atol=(1e-6 if freeze else 1e-3) * np.abs(found).max())


@pytest.mark.parametrize("times", [[0.0], [0.0, 0.5, 3.0]])
def test_simulation(times):
    frame = of.simulate(problem(), times=times)
    assert list(frame.columns) == ["experiment", "time", "x", "z", "w", "S"]
    np.testing.assert_allclose(frame["w"], np.log(1 + frame["x"] + frame["S"]), rtol=1e-6)
    assert frame["w"][0] == pytest.approx(np.log(2.0), rel=1e-14)  # no guess


PROJECT = """
[model]
equations = '''
C1*(x' - z') = -k*(x - z) + I(t)
C1*(z' - x') = k*(x - z) - I(t) + g*x^3 + z - 2
x(0) = 1
z(0) = 0.5
'''
[parameters]
C1 = { start = 0.5, lower = 0.01 }
k = { start = 1.0, scale = "log" }
g = 1.0
[data]
file = "data.csv"
[tables]
I = { file = "current.csv", kind = "linear" }
[experiments]
one = {}
two = { C1 = 1.5 }
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "current.csv").write_text("t,I\n0,0\n1,0.4\n2,-0.2\n4,0.3\n")
    rows = [f"{name},{0.25 * j},1,1" for name in ("one", "two") for j in range(1, 17)]
    (tmp_path / "data.csv").write_text("experiment,time,x,z\n" + "\n".join(rows) + "\n")
    path = tmp_path / "problem.toml"
    path.write_text(PROJECT)
    return path


def test_a_problem_file(file):
    made = of.load(file)
    truth = {"C1": 0.8, "k": 0.7, "g": 1.2}
    result = of.fit(of.with_synthetic_data(made.with_start(**truth), noise=0.002, seed=3).with_start(C1=0.5, k=1.0))
    assert result.converged
    for name, value in truth.items():
        assert abs(result.estimates[name] - value) < 5 * result.parameters[name].standard_error
    frame = of.simulate(made, truth)
    np.testing.assert_allclose(truth["g"] * frame["x"] ** 3 + frame["z"], 2.0, rtol=1e-5)
    text = str(result.summary())
    assert all(name in text for name in truth)


@pytest.mark.parametrize("name", ["dopri5", "dop853", "rk32", "bdf3"])
def test_integrators_that_cannot(name):
    words = f"the integrator '{name}' cannot solve equations in several derivatives; take "
    with pytest.raises(OdefitError, match=f"^{re.escape(words)}[^.]*$"):
        problem(settings=of.Settings(integrator=name)).evaluate()


def test_start_values_from_the_data_are_refused(data):
    with pytest.raises(UnsupportedError, match=r'start = "auto"\) for equations in several derivatives'):
        of.fit(data, start="auto")


def test_steady_states_are_refused():
    text = EQUATIONS.replace("S = 0.1*t", "S = 0.1")
    before = (of.Experiment("main", [of.Period(-np.inf), of.Period(0.0, {"S": 0.3})]),)
    with pytest.raises(UnsupportedError, match=r"before the start of experiment 'main' .*in several derivatives"):
        problem(text, experiments=before).evaluate()
    with pytest.raises(UnsupportedError, match="the model has equations in several derivatives"):
        problem(text, times=[1.0, np.inf]).evaluate()
