"""Curves along a trajectory: native values and derivatives against CasADi's own and against closed forms."""

from __future__ import annotations

import logging
import math

import casadi as ca
import numpy as np
import pytest

import odefit as of
from odefit.compile import compile_problem, curves_of
from odefit.compile.conditions import model_functions
from odefit.compile.curves import Curves
from odefit.gallery import load
from odefit.integrate.experiment import solve_experiment

TEXT = """
x' = -k*x*z + m
z' = -k*z
x(0) = a
z(0) = 1
flux = k*x*z
capped = min(x, 0.8)
root = sqrt(x + 0.5)
constant = 2*k + m
piece = if(x > 0.7, log(x - 0.7), 0)
late = t*flux + e*x
"""
NO_INPUTS = np.empty(0)
TIMES = np.linspace(0.0, 2.0, 9)


def problem(**changes) -> of.Problem:
    """`late` depends on the wavelength of the single measurement; experiments replace numbers and a definition."""
    wavelength = np.array(["red", "blue"] * 4)
    data = of.Measurements(
        ["one"] * 4 + ["two"] * 4, np.repeat([0.5, 1.0], 4), ["late"] * 8, np.linspace(1.0, 0.3, 8),
        groups={"wavelength": wavelength},
    )  # fmt: skip
    parameters = [
        of.Parameter("k", 0.7, scale="log"),
        of.Parameter("m", 0.1),
        of.Parameter("a", 1.3),
        of.Parameter("e", 1.2, per="wavelength", scale="log"),
    ]
    experiments = (
        of.Experiment("one"),
        of.Experiment("two", (of.Period(0.0, {"m": 0.2, "z(0)": "2*a"}),)),
        of.Experiment("three", (of.Period(0.0, {"m": 0.4}),), use="predict", until=1.0),
        of.Experiment("four", (of.Period(0.0, {"flux": "k*x*z*sin(t)"}),), use="predict", until=1.0),
    )
    return of.Problem(of.Model.from_text(TEXT), parameters, data, experiments=experiments, **changes)


def reference(problem: of.Problem, e: int, names: tuple[str, ...], times, y, p, a):
    """Values and dense derivatives by (y, p, a), one time after the other, by CasADi's virtual machine."""
    variant = compile_problem(problem).variant(e).symbolic
    observe = model_functions(problem, variant, names)["observe"]
    arrays = dict(observe.arrays)
    z = ca.vertcat(arrays["y"], arrays["p"], arrays["a"])
    inputs = [observe.time, arrays["y"], arrays["p"], arrays["a"]]
    options = {"helper_options": {"enable_reverse": False}}
    function = ca.Function("f", inputs, [observe.out, ca.densify(ca.jacobian(observe.out, z, options))])
    found = [function(t, row, p, a) for t, row in zip(times, y, strict=True)]
    return np.array([np.array(value).ravel() for value, _ in found]), np.array([np.array(j) for _, j in found])


def states(n: int = 2) -> np.ndarray:
    return np.random.default_rng(3).uniform(0.6, 1.4, (TIMES.size, n))


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("e", range(4))
def test_values_are_those_of_casadi(e, by_row):
    made = problem()
    compiled = compile_problem(made)
    curves = curves_of(made, compiled, e, by_row=by_row)
    p, a, y = compiled.parameters(compiled.theta_start, e).p, np.array([1.7]), states()
    expected, _ = reference(made, e, curves.names, TIMES, y, p, a)
    np.testing.assert_array_equal(curves.values(TIMES, y, p, NO_INPUTS, a if by_row else np.empty(0)), expected)


def test_what_depends_on_the_measurement_has_no_curve_of_its_own():
    made = problem()
    compiled = compile_problem(made)
    everything = (*made.model.states, *made.model.definitions)
    assert curves_of(made, compiled, 0).names == tuple(name for name in everything if name != "late")
    assert curves_of(made, compiled, 0, by_row=True).names == everything


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("e", range(4))
def test_derivatives_are_those_of_casadi(e, by_row):
    """The chain rule with dense matrices; random sensitivities, so that no term can hide."""
    made = problem()
    compiled = compile_problem(made)
    rng = np.random.default_rng(e)
    curves = curves_of(made, compiled, e, by_row=by_row)
    n_theta, columns = 5, np.array([0, 3, 4])
    y, p = states(), compiled.parameters(compiled.theta_start, e).p
    s, dp = rng.normal(size=(TIMES.size, 2, 3)), rng.normal(size=(p.size, n_theta))
    dp[rng.uniform(size=dp.shape) < 0.5] = 0.0
    a, da = (np.array([1.7]), rng.normal(size=(1, n_theta))) if by_row else (np.empty(0), np.empty((0, n_theta)))
    _, jacobian = reference(made, e, curves.names, TIMES, y, p, np.array([1.7]))
    used = jacobian if by_row else jacobian[:, :, :-1]
    expected = used[:, :, 2:] @ np.concatenate((dp, da))
    expected[:, :, columns] += used[:, :, :2] @ s
    found = curves.derivatives(TIMES, y, s, columns, p, dp, NO_INPUTS, a, da)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    assert np.isfinite(found[y[:, 0] > 0.7]).all()  # also `piece`, whose other branch has no value below 0.7


def test_nothing_is_computed_from_a_missing_state():
    made = problem()
    compiled = compile_problem(made)
    curves, y = curves_of(made, compiled, 0), states()
    y[4, 1], y[6, 0] = math.nan, math.inf
    seeds = compiled.parameters(compiled.theta_start, 0)
    values = curves.values(TIMES, y, seeds.p, NO_INPUTS)
    assert np.isnan(values[[4, 6]]).all()
    whole = np.delete(values, [4, 6], axis=0)[:, [curves.names.index(name) for name in ("x", "flux", "capped")]]
    assert np.isfinite(whole).all()
    dp = compiled.all_derivatives(compiled.theta_start, 0)
    s = np.ones((TIMES.size, 2, compiled.columns[0].size))
    slopes = curves.derivatives(TIMES, y, s, compiled.columns[0], seeds.p, dp, NO_INPUTS)
    assert np.isnan(slopes[[4, 6]]).all()
    assert np.isfinite(slopes[0, curves.names.index("constant")]).all()


def test_no_times_and_no_curves():
    made = load("barnes")
    compiled = compile_problem(made)
    curves = curves_of(made, compiled, 0)
    p, k, n = np.ones(3), len(curves.names), compiled.n_theta
    assert curves.values(np.empty(0), np.empty((0, 2)), p, NO_INPUTS).shape == (0, k)
    nothing = np.empty((0, 2, 3))
    slopes = curves.derivatives(np.empty(0), np.empty((0, 2)), nothing, np.arange(3), p, np.ones((3, n)), NO_INPUTS)
    assert slopes.shape == (0, k, n)


def test_experiments_and_copies_share_the_code():
    made = problem()
    compiled = compile_problem(made)
    first = curves_of(made, compiled, 0)
    assert curves_of(made, compiled, 1) is first
    assert curves_of(made, compiled, 3) is not first  # another right-hand side
    assert curves_of(made, compiled, 0, by_row=True) is not first
    for other in (made.with_start(k=2.0), made.with_settings(rtol=1e-9), made.with_bounds(m=(0.0, 9.0))):
        assert curves_of(other, compile_problem(other), 2) is first


def test_derivatives_are_compiled_when_they_are_asked_for(caplog, monkeypatch, tmp_path):
    """A simulation of a large model must not wait for what only bands need."""
    monkeypatch.setenv("ODEFIT_CACHE_DIR", str(tmp_path))
    made = problem()
    compiled = compile_problem(made)
    with caplog.at_level(logging.INFO, logger="odefit.compile"):
        curves = Curves(made, compiled.variant(0).symbolic)
        y, p = states(), compiled.parameters(compiled.theta_start, 0).p
        curves.values(TIMES, y, p, NO_INPUTS)
        assert [r.message for r in caplog.records if "curves" in r.message] == [
            "compiling 7 curves (first derivatives)"
        ]
        files = set(tmp_path.rglob("*.obj"))
        curves.derivatives(TIMES, y, np.zeros((9, 2, 0)), np.arange(0), p, np.ones((p.size, 1)), NO_INPUTS)
        assert len(set(tmp_path.rglob("*.obj")) - files) == 1
        caplog.clear()
        again = Curves(made, compiled.variant(0).symbolic)  # from the disk
        np.testing.assert_array_equal(again.values(TIMES, y, p, NO_INPUTS), curves.values(TIMES, y, p, NO_INPUTS))
        assert not caplog.records


@pytest.mark.parametrize("name", ["k", "m", "a", "e[blue]"])
def test_bands_are_differentiated_through_the_whole_simulation(name):
    """d curve/d theta of prediction_band's ingredients against differences of simulations."""
    made = problem(settings=of.Settings(rtol=1e-11, atol=1e-13))
    compiled = compile_problem(made)
    theta, column = compiled.theta_start, compiled.theta_names.index(name)

    def along(shift: float, order: int = 0):
        moved = theta.copy()
        moved[column] += shift
        seeds, trajectory = solve_experiment(made, compiled, moved, 1, TIMES, order)
        slots, slopes = compiled.slot_values(moved)
        place = compiled.slot_names.index("e[blue]")
        return seeds, trajectory, slots[[place]], slopes[[place]]

    curves = curves_of(made, compiled, 1, by_row=True)

    def values(shift: float):
        seeds, trajectory, a, _ = along(shift)
        return curves.values(TIMES, trajectory.y, seeds.p, NO_INPUTS, a)

    seeds, trajectory, a, slope = along(0.0, 1)
    da = np.zeros((1, compiled.n_theta))
    da[0, compiled.theta_names.index("e[blue]")] = slope[0]
    dp = compiled.all_derivatives(theta, 1)
    found = curves.derivatives(TIMES, trajectory.y, trajectory.S, compiled.columns[1], seeds.p, dp, NO_INPUTS, a, da)[
        :, :, column
    ]
    h = 1e-3
    numeric = (values(-2 * h) - 8 * values(-h) + 8 * values(h) - values(2 * h)) / (12 * h)
    smooth = [curves.names.index(other) for other in ("x", "z", "flux", "root", "constant", "late")]
    np.testing.assert_allclose(found[:, smooth], numeric[:, smooth], rtol=1e-6, atol=1e-8)
