"""Experiments in several periods, against solutions put together by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import odefit as of
from odefit.report.check import check

MODEL = """
x' = k*T*(u - x) + w
x(0) = 1
u = 2
flux = k*T
"""
TEXT = f'''
[model]
equations = """{MODEL}"""
[parameters]
k = 0.5
T = 1.0
w = 0.2
ts = 2.2
[data]
file = "data.csv"
[experiments.a]
T = 2
[[experiments.a.periods]]
from = 1.0
T = 3
u = "4*k"
[[experiments.a.periods]]
from = "ts"
u = 1
"x(0)" = 0.5
[[experiments.a.periods]]
from = 3
'''
TIMES = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5)
VALUES = {"k": 0.5, "T": 1.0, "w": 0.2, "ts": 2.2}


@pytest.fixture
def problem(tmp_path):
    (tmp_path / "problem.toml").write_text(TEXT)
    rows = "\n".join(f"a,{time},0" for time in TIMES)
    (tmp_path / "data.csv").write_text(f"experiment,time,x\n{rows}\n")
    return of.load(tmp_path / "problem.toml").with_settings(rtol=1e-10, atol=1e-12)


def by_hand(k, w, ts, **_):
    found, x = {0.0: 1.0}, 1.0
    for begin, end, T, u in ((0.0, 1.0, 2.0, 2.0), (1.0, ts, 3.0, 4 * k), (ts, 3.0, 2.0, 1.0), (3.0, 4.0, 2.0, 2.0)):
        x = 0.5 if begin == ts else x
        inside = [time for time in TIMES if begin < time <= end]
        run = solve_ivp(
            lambda t, x, T=T, u=u: k * T * (u - x) + w, (begin, end), [x], dense_output=True, rtol=1e-12, atol=1e-13
        )
        found |= {time: float(run.sol(time)[0]) for time in inside}
        x = run.y[0, -1]
    return np.array([found[time] for time in TIMES])


@pytest.mark.parametrize("method", ["rk32", "dopri5", "dop853", "bdf3", "ddm"])
def test_each_period_has_its_conditions(problem, method):
    found = problem.with_settings(integrator=method, rtol=1e-8).evaluate().residuals
    np.testing.assert_allclose(found, by_hand(**VALUES), atol=2e-6 if method == "bdf3" else 1e-7)


@pytest.mark.parametrize("name", VALUES)
def test_derivatives(problem, name):
    step = 1e-4
    ahead, behind = (by_hand(**{**VALUES, name: VALUES[name] + h}) for h in (step, -step))
    found = problem.evaluate()
    column = found.jacobian[:, list(VALUES).index(name)]
    np.testing.assert_allclose(column, (ahead - behind) / (2 * step), atol=1e-7)


def test_the_start_of_a_period_is_estimated(problem):
    data = dataclasses.replace(problem.measurements, value=by_hand(**VALUES))
    result = of.fit(problem.with_measurements(data).with_fixed("T").with_start(ts=2.4, k=0.4))
    assert result.status == "converged"
    assert {name: result.estimates[name] for name in ("k", "w", "ts")} == pytest.approx(
        {"k": 0.5, "w": 0.2, "ts": 2.2}, rel=1e-5
    )


def test_definitions_follow_the_periods(problem):
    found = of.simulate(problem, times=[0.5, 1.5, 2.5, 3.5])
    assert found["u"].tolist() == [2.0, 2.0, 1.0, 2.0]
    assert found["flux"].tolist() == [1.0, 1.5, 1.0, 1.0]


def test_they_are_saved_and_described(problem, tmp_path):
    problem.save(tmp_path / "again.toml")
    assert of.load(tmp_path / "again.toml").experiments == problem.experiments
    words = "a: 8 of x; with T = 2; from 1 on T = 3, u = 4*k; from ts on u = 1, x(0) = 0.5; from 3 on as at the start"
    assert words in " ".join(check(problem).text.split())


def test_times_for_plots(problem):
    assert problem.event_times({"ts": 2.5}, 0) == [1.0, 2.5, 3.0]


@pytest.mark.parametrize("ts", [0.5, 3.5])
def test_periods_in_another_order_are_a_failure(problem, ts):
    found = problem.evaluate({"ts": ts})
    assert found.status == "failed"
    assert "a period that begins before the one before it" in found.message


def test_two_subjects_with_numbers_of_their_own_share_code():
    model = of.Model.from_text("x' = -k*x\nx(0) = 1\nk = 1")
    subjects = [
        of.Experiment(f"s{i}", [of.Period(0.0), of.Period(1.0 + i, {"k": 2.0 + i, "x(0)": 3.0})]) for i in range(3)
    ]
    data = of.Measurements(
        experiment=[one.name for one in subjects], time=[4.0] * 3, observable=["x"] * 3, value=[0.0] * 3
    )
    made = of.Problem(model, [], data, experiments=subjects)
    expected = [3.0 * np.exp(-(2.0 + i) * (3.0 - i)) for i in range(3)]
    np.testing.assert_allclose(of.simulate(made, times=[4.0])["x"], expected, rtol=1e-6)


MISTAKES = {
    "order": ("from = 3\n", "from = 0.5\n", "period 4 begins at 0.5, not after the one before it, which begins at 1"),
    "name": ("T = 3\n", "TT = 3\n", "period 2 sets 'TT', which the model does not have; did you mean 'T'?"),
    "state": ('"x(0)" = 0.5', "x = 0.5", "period 3 sets the state 'x'; write \"x(0)\" for its value where the period"),
    "no state": ('"x(0)" = 0.5', '"y(0)" = 0.5', "period 3 sets 'y(0)', but 'y' is not a state"),
    "no time": ("from = 3\n", "", "period 4 of experiment 'a' lacks 'from', the time at which it begins"),
    "moves": ('u = "4*k"', 'u = "4*x"', "'u' in period 2 of experiment 'a' uses the state 'x'; only parameters"),
    "steady": ("from = 3\n", 'from = 3\nstart = "steady"\n', "'start' in period 4 of experiment 'a'"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(tmp_path, case):
    old, new, words = MISTAKES[case]
    assert old in TEXT
    (tmp_path / "problem.toml").write_text(TEXT.replace(old, new))
    (tmp_path / "data.csv").write_text("experiment,time,x\na,1,0\n")
    with pytest.raises(of.OdefitError) as caught:
        of.load(tmp_path / "problem.toml")
    assert words in str(caught.value)


def test_periods_that_are_no_list(tmp_path):
    (tmp_path / "problem.toml").write_text(TEXT.split("[[")[0] + "[experiments.b]\nperiods = 3\n")
    (tmp_path / "data.csv").write_text("experiment,time,x\na,1,0\n")
    with pytest.raises(of.OdefitError, match="'periods' of experiment 'b' must be a list of tables, not "):
        of.load(tmp_path / "problem.toml")
