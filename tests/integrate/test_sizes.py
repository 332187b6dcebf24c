"""Absolute tolerances that follow the size of each state, and the longest step."""

from __future__ import annotations

import numpy as np
import pytest
from initial_value_problems import CASES, IMPLICIT, by_method, make_run, run_of, solve

import odefit as of
from odefit.errors import ProblemError
from odefit.integrate import METHODS, Status
from odefit.integrate.sizes import aims_of
from odefit.transcribe import SingleShooting

STEPS_OF_RK32 = 1e-5  # it needs too many steps at tight tolerances

CYCLE = "a' = (-k*a + 4*c*{A}/{C})\nb' = (k*a*{B}/{A} - 2*b)\nc' = (2*b*{C}/{B} - 4*c)\nd' = 0*a\n"
CYCLE += "a(0) = 1\nb(0) = 1\nc(0) = 1\nd(0) = 1"  # runs bring their own
CHAIN = "\n".join(
    ["y0' = -y0", *(f"y{i}' = y{i - 1} - y{i}" for i in range(1, 9)), *(f"y{i}(0) = 0" for i in range(9))]
)


def tolerance(method):
    return STEPS_OF_RK32 if method.name in ("rk32", "bdf3") else 1e-7


def cycle_in_units(units):
    """Return a cycle of three states, two of them zero at first, and one that stays zero, in these units."""
    a, b, c = units
    text = CYCLE.format(A=repr(a), B=repr(b), C=repr(c))
    return run_of(text, [0.7], [3.0 * a, 0.0, 0.0, 0.0], [0.5, 2.0, 5.0])


@by_method
@pytest.mark.parametrize("seed", range(3))
def test_units_do_not_matter(method, seed):
    units = 2.0 ** np.random.default_rng(seed).integers(-100, 100, 3).astype(float)
    rtol = tolerance(method)
    model, run = cycle_in_units((1.0, 1.0, 1.0))
    here = method.solve(model, run, rtol=rtol)
    model, run = cycle_in_units(tuple(units.tolist()))
    there = method.solve(model, run, rtol=rtol)
    assert here.status == there.status == Status.OK
    assert here.grid.steps.size == there.grid.steps.size
    scale = np.append(units, 1.0)
    if method.name in IMPLICIT:  # where rows are exchanged depends on their units
        np.testing.assert_allclose(there.grid.steps, here.grid.steps, rtol=1e-6)
        np.testing.assert_allclose(there.y / scale, here.y, rtol=1e-9, atol=1e-12)
    else:
        np.testing.assert_array_equal(there.grid.steps, here.grid.steps)
        np.testing.assert_array_equal(there.y / scale, here.y)
        np.testing.assert_array_equal(there.grid.atol[:3] / scale[:3], here.grid.atol[:3])


@by_method
def test_tolerance_is_a_fraction_of_the_size_at_the_beginning(method):
    model, run = cycle_in_units((1.0, 1.0, 1.0))
    found = method.solve(model, run, rtol=tolerance(method))
    assert found.grid.atol[0] == pytest.approx(3e-9)
    assert np.all(found.grid.atol[1:3] > 1e-30)  # of states that begin at zero: of their first values
    assert np.all(found.grid.atol[1:3] < 1e-9)
    assert found.grid.atol[3] < 1e-200  # a state that stays zero has no size, and forces nothing


@by_method
def test_replay_measures_its_error_by_the_same_tolerances(method):
    model, run = cycle_in_units((1.0, 2.0**-40, 2.0**40))
    chosen = method.solve(model, run, rtol=tolerance(method), order=1)
    again = method.solve(model, run, rtol=tolerance(method), order=1, grid=chosen.grid)
    assert again.error_ratio == chosen.error_ratio
    np.testing.assert_array_equal(again.y, chosen.y)
    np.testing.assert_array_equal(again.grid.atol, chosen.grid.atol)


@pytest.mark.parametrize("name", ["dopri5", "dop853", "ddm"])
def test_products_that_appear_late(name):
    # y8 grows like t^8, beyond every order: its error is as large as itself in the first steps, however short
    model, run = run_of(CHAIN, [], [1.0] + [0.0] * 8, [1.0, 5.0, 20.0])
    found = METHODS[name].solve(model, run, rtol=1e-7, atol="auto")
    assert found.status == Status.OK
    exact = METHODS["dop853"].solve(model, run, rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(found.y, exact.y, rtol=1e-4)


@by_method
def test_growth_by_many_decades_keeps_its_accuracy(method):
    # an absolute tolerance made of the largest value would leave the beginning, and with it everything, uncontrolled
    model, run = run_of("x' = x\ny' = x - y\nx(0) = 1\ny(0) = 0", [], [2.0**-40, 0.0], [1.0, 30.0])
    found = method.solve(model, run, rtol=tolerance(method))
    t = np.array([1.0, 30.0])
    exact = 2.0**-40 * np.stack([np.exp(t), np.sinh(t)], axis=1)
    np.testing.assert_allclose(found.y, exact, rtol=1e3 * tolerance(method))


@by_method
def test_state_that_leaves_zero_on_the_way(method):
    # nothing before t = 2 tells its size; steps must not shrink to nothing there
    model, run = run_of(
        "x' = -x\ny' = if(x < 0.1353352832366127, 1e-12*x, 0)\nx(0) = 1\ny(0) = 0", [], [1.0, 0.0], [1.0, 4.0]
    )
    found = method.solve(model, run, rtol=tolerance(method), max_steps=20_000)
    assert found.status == Status.OK
    assert found.y[1, 1] == pytest.approx(1e-12 * (np.exp(-2.0) - np.exp(-4.0)), rel=1e-3)


def test_tolerances_by_state():
    states = ("a", "b", "c")
    assert aims_of(1e-6, states).tolist() == [1e-6] * 3
    assert aims_of("auto", states).tolist() == [-1e-9] * 3
    assert aims_of({"b": 1e-3, "c": "auto"}, states, [True, False, False]).tolist() == [-1e-30, 1e-3, -1e-9]
    with pytest.raises(ProblemError, match=r"'atol' names 'd', which is no state"):
        aims_of({"d": 1e-3}, states)


def decay_problem(observable, **settings):
    """Return a virus that decays by sixteen decades with the cells that make it."""
    text = f"cells' = -k*cells\nvirus' = cells - 3*virus\nz = {observable}\ncells(0) = 1\nvirus(0) = 1"
    times = np.linspace(1.0, 20.0, 20)
    data = of.Measurements.from_columns(times, {"z": np.zeros(20)})
    problem = of.Problem(of.Model.from_text(text), [of.Parameter("k", 2.0)], data)
    return problem.with_settings(**settings), times


@pytest.mark.parametrize("integrator", ["dopri5", "dop853", "ddm"])
@pytest.mark.parametrize("observable", ["log10(virus)", "sqrt(virus)", "log(2*virus + cells)", "virus^0.3"])
def test_logarithms_and_roots_keep_relative_accuracy(observable, integrator):
    problem, times = decay_problem(observable, integrator=integrator)
    found = of.simulate(problem, times=times)["virus"].to_numpy()
    exact = np.exp(-2.0 * times)
    np.testing.assert_allclose(found, exact, rtol=1e-5 if integrator != "ddm" else 1e-4)


def test_message_names_observable_state_and_tolerance():
    problem, _ = decay_problem("log10(virus)", atol=1e-3, rtol=1e-3, integrator="dopri5")
    objective = SingleShooting(problem)
    x = objective.compiled.theta_start
    objective.refresh(x)
    failure = objective.evaluate(x, 1).failure
    assert failure.startswith("the observable 'z' has no finite value at t = ")
    assert "'virus' is -" in failure
    assert 'within its absolute tolerance 0.001; set atol = "auto" or a smaller one in [integrator]' in failure


@by_method
@pytest.mark.parametrize("max_step", [0.013, 0.1, 1.0])
def test_no_step_is_longer_than_the_longest(method, max_step):
    case = CASES[0]
    found = solve(method, case, make_run(case), rtol=1e-4, atol=1e-6, max_step=max_step)
    assert found.status == Status.OK
    assert found.grid.steps.max() <= max_step * (1.0 + 1e-12)
    assert found.grid.steps.sum() == pytest.approx(case.end - case.t0)


@pytest.mark.parametrize("integrator", [*METHODS, "auto"])
def test_longest_step_is_a_setting(integrator, tmp_path):
    text = "y' = exp(-(500*(t - 7.003))^2)\ny(0) = k"
    data = of.Measurements.from_columns([1.0, 10.0], {"y": [0.0, 0.0]})
    problem = of.Problem(of.Model.from_text(text), [of.Parameter("k", 1e-6)], data)
    problem = problem.with_settings(max_step=2e-3, integrator=integrator, rtol=1e-4, atol={"y": 1e-8})
    problem.save(tmp_path / "pulse.toml")
    loaded = of.load(tmp_path / "pulse.toml")
    assert loaded.settings == problem.settings
    found = of.simulate(loaded, times=[10.0])["y"].iloc[-1]
    assert found - 1e-6 == pytest.approx(np.sqrt(np.pi) / 500, rel=1e-3)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_step": 0.0}, "'max_step' is 0; it must be above 0"),
        ({"atol": -1.0}, "'atol' is -1.0; it must be \"auto\" or a number above 0"),
        ({"atol": {"y": 0.0}}, "'atol' of 'y' is 0.0; it must be"),
        ({"atol": "tight"}, "'atol' is tight; it must be"),
    ],
)
def test_settings_that_make_no_sense(settings, words):
    with pytest.raises(ProblemError, match=words):
        of.Settings(**settings)


@by_method
@pytest.mark.parametrize("unit", [1e-25, 1e-12, 1.0, 1e12])
def test_usual_tolerances_hold_small_states_too(method, unit):
    # a begins small; b begins at zero and remains small: y = b/unit must not depend on the unit
    text = "a' = -k*a\nb' = k*a - 2*b\na(0) = 1\nb(0) = 0"
    model, run = run_of(text, [0.7], [3.0 * unit, 0.0], [0.5, 2.0, 5.0])
    found = method.solve(model, run, rtol=tolerance(method), atol=None)
    assert found.status == Status.OK
    t = run.times
    exact = np.column_stack([3.0 * np.exp(-0.7 * t), 3.0 * 0.7 / 1.3 * (np.exp(-0.7 * t) - np.exp(-2.0 * t))])
    n = 1 if method.name in IMPLICIT else 2  # in implicit methods b keeps the usual tolerance
    np.testing.assert_allclose(found.y[:, :n] / unit, exact[:, :n], rtol=300.0 * tolerance(method))
    assert np.all(found.grid.atol <= 1e-9)
    again = method.solve(model, run, rtol=tolerance(method), atol=None, grid=found.grid)
    np.testing.assert_array_equal(again.y, found.y)


@pytest.mark.parametrize("name", ["dopri5", "dop853"])
def test_a_small_state_among_large_ones_keeps_the_usual_tolerance(name):
    text = "a' = -k*a\nb' = 1e-5*k*a - 2*b\na(0) = 1\nb(0) = 0"
    model, run = run_of(text, [0.7], [3.0, 0.0], [0.5, 2.0, 5.0])
    found = METHODS[name].solve(model, run, rtol=1e-7, atol=None)
    assert found.grid.atol.tolist() == [1e-9, 1e-9]


@pytest.mark.parametrize("name", ["dopri5", "dop853"])
def test_a_state_that_is_all_rounding_is_not_followed(name):
    # d is the rounding error of what others do: to hold that to a relative tolerance takes steps without end
    unit = 1e-6
    text = f"a' = {unit}*sin(1000*t)\nb' = {unit}*sin(1000*t)\n"
    text += f"d' = (a*1.1 - b*1.1) + 1e-17*{unit}*sin(1e15*a)\n"
    model, run = run_of(text + "a(0) = 1\nb(0) = 1\nd(0) = 0", [], [unit, unit, 0.0], [1.0, 2.0])
    found = METHODS[name].solve(model, run, rtol=1e-6, atol=None)
    assert found.status == Status.OK
    assert found.grid.atol[0] == pytest.approx(1e-9 * unit)
    assert found.grid.atol[2] == 1e-9
