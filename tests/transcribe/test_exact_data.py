"""Data of very large and infinite weight through the API: estimates, statistics, words."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import odefit as of
from odefit.solve import SOLVERS, Solver

INF = math.inf
VALUES = (1.0, 3.1, 4.9, 7.2, 8.8)
LINE = "x' = b\nx(0) = a"


def line(weight, value=VALUES, time=None, parameters=None, model=LINE, **columns):
    """Return y = a + b t, where everything is known in closed form."""
    n = len(value)
    return of.Problem(
        model=of.Model.from_text(model),
        parameters=parameters or [of.Parameter("a", 0.5), of.Parameter("b", 0.5)],
        measurements=of.Measurements(
            experiment=["main"] * n, time=np.arange(n) if time is None else time, observable=["x"] * n, value=value,
            weight=weight, **columns,
        ),
    )  # fmt: skip


def with_weight_at(index, weight, n=5):
    return [weight if i == index else 1.0 for i in range(n)]


def closed_form(weight, value=VALUES):
    """Return estimates, standard errors and degrees of freedom of the weighted line, in extended precision."""
    t, w, y = (np.array(v, dtype=np.longdouble) for v in (range(len(value)), weight, value))
    s0, s1, s2, r0, r1 = w.sum(), (w * t).sum(), (w * t * t).sum(), (w * y).sum(), (w * t * y).sum()
    det = s0 * s2 - s1 * s1
    a, b = (s2 * r0 - s1 * r1) / det, (s0 * r1 - s1 * r0) / det
    variance = (w * (y - a - b * t) ** 2).sum() / (len(value) - 2)
    return np.array([a, b], dtype=float), np.array([np.sqrt(variance * s2 / det), np.sqrt(variance * s0 / det)], float)


def errors(result):
    return [row.standard_error for row in result.parameters.values()]


def parses(result):
    """The content of result.json is JSON, without NaN or infinity."""
    return json.loads(json.dumps(result.to_dict(), allow_nan=False))


@pytest.mark.parametrize("weight", [1e2, 1e4, 1e6, 1e7, 1e8, 1e9, 1e10, 1e16, 1e20, 1e24, 1e30])
@pytest.mark.parametrize("index", [0, 2, 4])
def test_large_weights_against_the_closed_form(weight, index):
    weights = with_weight_at(index, weight)
    result = of.fit(line(weights))
    # beyond 1e10 the closed form itself loses digits; the limit is reached there
    estimates, expected = closed_form(weights if weight <= 1e10 else with_weight_at(index, 1e10))
    assert result.converged
    assert (result.n_data, result.dof) == (5, 3)
    np.testing.assert_allclose(list(result.estimates.values()), estimates, rtol=1e-8)
    for found, error in zip(errors(result), expected, strict=True):
        # an error that tends to zero is zero where the row is as good as exact
        assert found == pytest.approx(error, rel=1e-6, abs=1e-4 if weight >= 1e8 else 0.0)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("index", [0, 2, 4])
def test_one_exact_point_is_the_limit_of_large_weights(solver, index):
    result = of.fit(line(with_weight_at(index, INF)), solver=solver)
    estimates, expected = closed_form(with_weight_at(index, 1e10))
    assert result.converged
    assert (result.n_data, result.dof) == (4, 3)
    np.testing.assert_allclose(list(result.estimates.values()), estimates, rtol=1e-8)
    np.testing.assert_allclose(errors(result), expected, rtol=1e-6, atol=1e-5)
    assert result.estimates["a"] + index * result.estimates["b"] == pytest.approx(VALUES[index], rel=1e-8)
    assert parses(result)["status"] == "converged"


@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_units_do_not_change_what_is_determined(size):
    """Columns of very different size, and an exact row: what the data tell does not depend on the unit of time."""
    t = np.arange(5.0) * size
    parameters = [of.Parameter("a", 0.5), of.Parameter("b", 0.5 / size)]
    result = of.fit(line(with_weight_at(2, INF), time=t, parameters=parameters))
    _, expected = closed_form(with_weight_at(2, 1e10))
    assert [row.verdict for row in result.parameters.values()] == ["determined", "determined"]
    np.testing.assert_allclose(errors(result), expected * [1.0, 1 / size], rtol=1e-6)


@pytest.mark.parametrize("value", [(1.0, 3.0), (1.0, 3.0, 5.0, 7.0, 9.0)], ids=["as many as unknowns", "more"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_all_points_exact(value, solver):
    result = of.fit(line([INF] * len(value), value), solver=solver)
    assert result.converged
    assert list(result.estimates.values()) == pytest.approx([1.0, 2.0], rel=1e-9)
    assert result.n_data == 0
    assert not [notice for notice in result.warnings if notice.code == "data.few"]
    assert parses(result)["loglik"] is None
    result.summary()


NO_WAY = {
    "contradictory values": line([INF, INF, 1, 1], [1, 2, 3, 4], time=[1, 1, 2, 3]),
    "fixed initial value": line(
        [INF, 1, 1, 1], [2, 3, 4, 5.1], parameters=[of.Parameter("a", 1.0, fixed=True), of.Parameter("b", 0.5)]
    ),
    "fixed initial value, rate known": line(
        [INF, 1, 1, 1], [2, 3, 4, 5.1], parameters=[of.Parameter("a", 1.0, fixed=True), of.Parameter("b", 1.45)]
    ),
    "more points than parameters": line([INF, INF, INF, 1, 1]),
    "all points": line([INF] * 5),
    "behind a bound": line(
        with_weight_at(4, INF), parameters=[of.Parameter("a", 0.5, upper=1.0), of.Parameter("b", 0.5, upper=1.0)]
    ),
}


@pytest.mark.parametrize("problem", NO_WAY.values(), ids=NO_WAY)
@pytest.mark.parametrize("solver", SOLVERS)
def test_what_cannot_be_met_is_infeasible(problem, solver):
    result = of.fit(problem, solver=solver)
    assert result.status == "infeasible"
    assert "could not be made to pass through the data of infinite weight; they are missed by " in result.message
    assert parses(result)["status"] == "infeasible"


def test_exact_points_that_agree():
    result = of.fit(line([INF, INF, INF, 1, 1], [1, 3, 5, 7.1, 9.2]))
    assert result.converged
    assert list(result.estimates.values()) == pytest.approx([1.0, 2.0], rel=1e-9)
    assert errors(result) == pytest.approx([0.0, 0.0], abs=1e-9)
    assert result.dof == 2


def test_exact_point_with_sigma():
    sigma = [0.1, 0.2, 0.1, 0.1, 0.3]
    weight = [math.nan, math.nan, INF, math.nan, math.nan]
    result = of.fit(line(weight, sigma=sigma))
    # y = y2 + b (t - 2): one unknown left
    t, y, s = np.arange(5.0) - 2.0, np.array(VALUES) - VALUES[2], np.array(sigma)
    b = np.sum(t * y / s**2) / np.sum(t**2 / s**2)
    assert result.converged
    assert result.estimates["b"] == pytest.approx(b, rel=1e-8)
    assert result.parameters["b"].standard_error == pytest.approx(1 / np.sqrt(np.sum(t**2 / s**2)), rel=1e-8)
    assert result.chi2 == pytest.approx(np.sum(((y - b * t) / s) ** 2), rel=1e-8)  # its own residual is zero


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize(("bound", "estimates"), [(0.5, (0.5, 2.2)), (2.0, (0.96, 1.97))])
def test_exact_point_with_a_bound(solver, bound, estimates):
    """With a <= 0.5 the exact point (2, 4.9) fixes b; with a <= 2 the bound is not felt."""
    parameters = [of.Parameter("a", 0.4, upper=bound), of.Parameter("b", 0.5)]
    result = of.fit(line(with_weight_at(2, INF), parameters=parameters), solver=solver)
    assert result.converged
    assert list(result.estimates.values()) == pytest.approx(estimates, rel=1e-8)
    assert (result.parameters["a"].verdict == "at its bound") == (bound == 0.5)


def test_start_on_a_bound_that_must_be_left():
    """Without continuation: the light data press a against its bound, the exact point pulls it off."""
    parameters = [of.Parameter("a", 0.0, lower=0.0), of.Parameter("b", -5.0, fixed=True)]
    problem = line([INF, 1, 1, 1, 1], [2.0, -50.0, -50.0, -50.0, -50.0], parameters=parameters)
    for weights in ((), SOLVERS["trust"].weights):
        result = of.fit(problem, solver=Solver(weights=weights))
        assert result.converged
        assert result.estimates["a"] == pytest.approx(2.0, rel=1e-9)


@pytest.mark.parametrize("spread", [0.01, 1.0])
def test_exact_point_with_a_prior(spread):
    """On the line through (2, 4.9): data and prior for a, weighted."""
    parameters = [of.Parameter("a", 0.5, prior=f"normal(2, {spread})"), of.Parameter("b", 0.5)]
    result = of.fit(line(with_weight_at(2, INF), parameters=parameters))
    t, y = np.arange(5.0) - 2.0, np.array(VALUES) - VALUES[2]
    # a = y2 - 2 b
    b = (np.sum(t * y) + 2 * (VALUES[2] - 2.0) / spread**2) / (np.sum(t**2) + 4 / spread**2)
    assert result.converged
    assert result.estimates["b"] == pytest.approx(b, rel=1e-7)


def test_exact_points_in_several_experiments():
    n = 4
    problem = of.Problem(
        model=of.Model.from_text(LINE),
        parameters=[of.Parameter("a", 0.5, per="experiment"), of.Parameter("b", 0.5)],
        measurements=of.Measurements(
            experiment=["one"] * n + ["two"] * n, time=[0, 1, 2, 3] * 2, observable=["x"] * 2 * n,
            value=[1, 3.1, 4.9, 7.2, 2, 4.2, 5.9, 8.1], weight=[INF, 1, 1, 1, 1, INF, 1, 1],
        ),
        experiments=[of.Experiment("one"), of.Experiment("two")],
    )  # fmt: skip
    result = of.fit(problem)
    assert result.converged
    first, second, b = result.estimates.values()
    assert (first, second + b) == pytest.approx((1.0, 4.2), rel=1e-9)
    t = np.array([1, 2, 3, -1, 1, 2.0])
    y = np.array([2.1, 3.9, 6.2, -2.2, 1.7, 3.9])
    assert b == pytest.approx(np.sum(t * y) / np.sum(t * t), rel=1e-8)
    assert result.dof == 5


@pytest.mark.parametrize("solver", SOLVERS)
def test_exact_point_of_a_curve(solver):
    """x = a exp(-k t) through (1, 0.5) exactly."""
    t = np.linspace(0, 3, 7)
    value = 1.1 * np.exp(-0.6 * t) + 0.02 * np.cos(9 * t)
    value[2] = 0.62
    problem = line(
        with_weight_at(2, INF, 7), value, t, model="x' = -k*x\nx(0) = a",
        parameters=[of.Parameter("a", 0.8), of.Parameter("k", 1.0, scale="log")],
    )  # fmt: skip
    result = of.fit(problem, solver=solver)
    a, k = result.estimates.values()
    assert result.converged
    assert a * math.exp(-k) == pytest.approx(0.62, rel=1e-7)
    # stationary along the curves through the point: da/dk = a
    r, jacobian = a * np.exp(-k * t) - value, np.stack([np.exp(-k * t), -a * t * np.exp(-k * t)])
    tangent = np.delete(a * jacobian[0] + jacobian[1], 2)
    cosine = tangent @ np.delete(r, 2) / np.linalg.norm(tangent) / np.linalg.norm(np.delete(r, 2))
    assert abs(cosine) < 1e-5


@pytest.mark.parametrize("weight", [1e10, 1e20, 1e30])
def test_heavy_data_that_contradict_each_other_do_not_pass_for_converged_at_a_wrong_place(weight):
    """Their residual dwarfs the others', which must still be minimised."""
    result = of.fit(line([weight, weight, 1, 1, 1], time=[1, 1, 2, 3, 4]))
    assert result.status != "converged" or result.estimates["a"] == pytest.approx(-0.3357143, rel=1e-4)
    assert result.estimates["a"] + result.estimates["b"] == pytest.approx(2.05, rel=1e-8)
