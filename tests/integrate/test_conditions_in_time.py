"""Conditions in time end pieces: no step crosses them, and where they move, so do solution and sensitivities."""

from __future__ import annotations

import numpy as np
import pytest
from initial_value_problems import by_method, central_difference, run_of
from scipy.linalg import expm

import odefit as of
from odefit.integrate import METHODS, Run, Status

PULSE = "x' = if(t >= 12 and t < 12.05, D, 0) - k*x\nx(0) = 0"
LAG = "x' = if(t >= lag and t < lag + w, D, 0) - k*x\nx(0) = 0"


def pulse(t, k, dose, lag, w):
    """Dose rate `dose` from `lag` on, for a time `w`."""
    t = np.asarray(t, float)
    last = np.clip(t, lag, lag + w)
    return np.where(t > lag, dose / k * (np.exp(-k * (t - last)) - np.exp(-k * (t - lag))), 0.0)


def moved(run: Run, values) -> Run:
    """Return the run at other parameters and initial values (p, y0)."""
    n_p = run.p.size
    return run._replace(p=np.array(values[:n_p]), y0=np.array(values[n_p:]))


def order_of(text: str, **values) -> list[float]:
    """Return values in the order in which the parameters of a model come."""
    return [values[name] for name in of.Model.from_text(text).parameters]


@by_method
@pytest.mark.parametrize("rtol", [1e-4, 1e-7, 1e-10])
def test_short_pulse_is_never_stepped_over(method, rtol):
    times = [1.0, 12.0, 12.02, 12.05, 13.0, 24.0, 100.0]
    model, run = run_of(PULSE, order_of(PULSE, k=0.1, D=60.0), [0.0], times)
    found = method.solve(model, run, rtol=rtol, atol=rtol, order=1)
    assert found.status is Status.OK
    right = pulse(times, 0.1, 60.0, 12.0, 0.05)
    loose = {"bdf3": 3e3, "ddm": 300.0, "rk32": 100.0}.get(method.name, 30.0)
    np.testing.assert_allclose(found.y[:, 0], right, atol=loose * rtol)
    assert len(found.grid.pieces) == 3
    assert found.grid.passed[0] == 3


@by_method
def test_moving_pulse_against_the_closed_form(method):
    times = [0.5, 2.0, 2.3, 2.6, 4.0]
    values = {"D": 3.0, "k": 0.5, "lag": 1.0, "w": 1.5}
    model, run = run_of(LAG, order_of(LAG, **values), [0.0], times)
    found = method.solve(model, run, rtol=1e-9, atol=1e-11, order=1)
    assert found.status is Status.OK

    def exact(x):
        return pulse(times, x[1], x[0], x[2], x[3])

    right = central_difference(exact, np.array([values[n] for n in ("D", "k", "lag", "w")]), step=2e-3)
    names = [n for n in model.parameters if not n.startswith("(")]
    tolerance = 1e-4 if method.name == "bdf3" else 1e-7
    for j, name in enumerate(("D", "k", "lag", "w")):
        np.testing.assert_allclose(found.S[:, 0, names.index(name)], right[:, j], atol=tolerance, err_msg=name)


@pytest.mark.parametrize("name", ["ddm", "bdf3"])
def test_the_other_side_is_not_seen_at_the_end(name):
    """Behind 60 the right-hand side explodes; an implicit step to 60 must not know."""
    text = "x' = if(t < 60, -k*x, 1e300*x^3)\nx(0) = 1"
    model, run = run_of(text, [0.05], [1.0], [30.0, 60.0])
    found = METHODS[name].solve(model, run, rtol=1e-7, atol=1e-9, order=1)
    assert found.status is Status.OK
    np.testing.assert_allclose(found.y[:, 0], np.exp(-0.05 * run.times), rtol=1e-5)


@pytest.mark.parametrize("order", [1, 2])
def test_times_that_change_places_ask_for_new_steps(order):
    text = "x' = if(t < a, 1, 0) + if(t < b, 2, 0)\nx(0) = 0"
    method = METHODS["dopri5"]
    model, run = run_of(text, [1.0, 2.0], [0.0], [3.0])
    found = method.solve(model, run, rtol=1e-6, atol=1e-8, order=order)
    for values in ([2.5, 2.0], [1.0, 5.0], [-1.0, 2.0]):
        other = method.solve(model, moved(run, [*values, 0.0]), rtol=1e-6, atol=1e-8, grid=found.grid)
        assert other.status is Status.SWITCHED
        assert np.isnan(other.y).all()
        assert "another order" in other.sentence(model)
    np.testing.assert_allclose(found.y[0], [5.0], rtol=1e-12)
    np.testing.assert_allclose(found.S[0, 0], [1.0, 2.0, 1.0], rtol=1e-12)


@by_method
def test_equal_times_have_both_derivatives(method):
    """Two lags of the same value, and one at the very start."""
    text = "x' = if(t >= a, 1, 0) + if(t >= b, 2, 0) + if(t >= c, 4, 0) - x\nx(0) = 0"
    model, run = run_of(text, [1.5, 1.5, 0.0], [0.0], [1.0, 3.0])
    found = method.solve(model, run, rtol=1e-9, atol=1e-11, order=1)
    assert found.status is Status.OK
    loose = 1e-4 if method.name == "bdf3" else 1e-6
    exact = [-1 * np.exp(-1.5), -2 * np.exp(-1.5), -4 * np.exp(-3.0)]
    np.testing.assert_allclose(found.S[1, 0, :3], exact, atol=loose)
    np.testing.assert_allclose(found.S[0, 0, :3], [0.0, 0.0, -4 * np.exp(-1.0)], atol=loose)


@by_method
def test_data_at_the_switch_itself(method):
    """The state is continuous; its derivative is that from the left."""
    model, run = run_of("x' = if(t < c, 2, 5)\nx(0) = 0", [1.3], [0.0], [1.3, 2.0])
    found = method.solve(model, run, rtol=1e-8, atol=1e-10, order=1)
    np.testing.assert_allclose(found.y[:, 0], [2.6, 6.1], rtol=1e-9)
    np.testing.assert_allclose(found.S[:, 0, 0], [0.0, -3.0], atol=1e-6)


def test_day_and_night():
    """A condition that is not affine in time, with a parameter; and the same as what is left of a day."""
    text = "x' = if(sin(2*pi*(t - shift)/24) > 0, 1, 0)\ny' = if(t - 24*floor(t/24) < 8, 1, 0)\nx(0) = 0\ny(0) = 0"
    model, run = run_of(text, [3.0], [0.0, 0.0], [100.0, 1000.0])
    found = METHODS["dopri5"].solve(model, run, rtol=1e-7, atol=1e-9, order=2)
    assert found.status is Status.OK
    hours = np.linspace(0.0, 1000.0, 1_000_001)[:-1] + 5e-4
    day, left = (np.sin(2 * np.pi * (hours - 3) / 24) > 0), hours % 24 < 8
    expected = [[np.sum(c[hours < t]) * 1e-3 for c in (day, left)] for t in (100.0, 1000.0)]
    np.testing.assert_allclose(found.y, expected, atol=2e-3)
    # at both ends of the run it is night or day: what moves in at one end moves out at the other
    at = [np.sin(2 * np.pi * (t - 3) / 24) > 0 for t in (0.0, 100.0, 1000.0)]
    np.testing.assert_allclose(found.S[:, 0, 0], [at[0] * 1.0 - at[1], at[0] * 1.0 - at[2]], atol=1e-9)
    np.testing.assert_allclose(found.S2[:, 0, 0], 0.0, atol=1e-9)


def test_second_derivative_of_a_time_that_is_no_parameter():
    """The switch is at t = a^2/b."""
    text = "x' = if(b*t < a^2, 1, 0)\nx(0) = 0"
    model, run = run_of(text, order_of(text, a=1.2, b=0.8), [0.0], [5.0])
    names = list(model.parameters)
    found = METHODS["dopri5"].solve(model, run, rtol=1e-7, atol=1e-9, order=2)
    a, b = names.index("a"), names.index("b")
    np.testing.assert_allclose(found.S[0, 0, [a, b]], [2 * 1.2 / 0.8, -(1.2**2) / 0.8**2], rtol=1e-12)
    pairs = {(i, j): k for k, (i, j) in enumerate((i, j) for i in range(3) for j in range(i, 3))}
    second = {(a, a): 2 / 0.8, (b, b): 2 * 1.2**2 / 0.8**3, (min(a, b), max(a, b)): -2 * 1.2 / 0.8**2}
    for key, value in second.items():
        assert found.S2[0, 0, pairs[key]] == pytest.approx(value, rel=1e-11)


def test_two_roots_close_to_each_other_are_found():
    """Far closer than the scan of the horizon: they stand on both sides of an extremum."""
    text = "x' = if((t - 333.3)^2 < 1e-8, 1e4, 0)\nx(0) = 0"
    model, run = run_of(text, [], [0.0], [1000.0])
    found = METHODS["dopri5"].solve(model, run, rtol=1e-7, atol=1e-9)
    assert found.y[0, 0] == pytest.approx(2.0, rel=1e-6)


def test_many_pieces():
    model, run = run_of("x' = floor(t)\nx(0) = 0", [], [0.0], [3000.0])
    found = METHODS["dopri5"].solve(model, run, rtol=1e-6, atol=1e-8)
    assert len(found.grid.pieces) == 3000
    assert found.y[0, 0] == pytest.approx(2999 * 3000 / 2, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("x' = floor(1e6*t)\nx(0) = 0", Status.TOO_MANY_PIECES, "more than 100 000 times"),
        ("x' = if(sqrt(t - 1) > 1, 1, 0)\nx(0) = 0", Status.UNDEFINED_CONDITION, "not a number"),
        ("x' = if(log(t - 1) > 1, 1, 0)\nx(0) = 0", Status.UNDEFINED_CONDITION, "not a number"),
    ],
)
def test_what_cannot_be_treated_is_said(text, status, words):
    model, run = run_of(text, [], [0.0], [5.0])
    found = METHODS["dopri5"].solve(model, run, rtol=1e-6, atol=1e-8)
    assert found.status is status
    assert words in found.sentence(model)
    assert np.isnan(found.y).all()


def test_given_stops_and_conditions_together():
    model, run = run_of("x' = if(t < c, 1, 3)\nx(0) = 0", [1.0], [0.0], [0.5, 4.0], stops=[0.25, 2.0])
    found = METHODS["dopri5"].solve(model, run, rtol=1e-6, atol=1e-8, order=1)
    assert len(found.grid.pieces) == 4
    np.testing.assert_allclose(found.y[:, 0], [0.5, 10.0], rtol=1e-12)
    np.testing.assert_allclose(found.S[:, 0, 0], [0.0, -2.0], atol=1e-12)


def test_runs_of_no_length():
    model, run = run_of("x' = if(t < c, 1, 3)\nx(0) = 0", [1.0], [2.5], [0.0])
    found = METHODS["dopri5"].solve(model, run, rtol=1e-6, atol=1e-8, order=1)
    assert (found.status, found.y[0, 0], found.t_end) == (Status.OK, 2.5, 0.0)


def test_failures_tell_the_time_of_the_task():
    """x = 1/(1 - (t - 2)) behind the switch: the pole is at t = 3, whatever the fraction of the piece."""
    model, run = run_of("x' = if(t < c, 0, x^2)\nx(0) = 1", [2.0], [1.0], [2.5, 10.0])
    found = METHODS["dopri5"].solve(model, run, rtol=1e-7, atol=1e-9)
    assert found.status is Status.STEP_UNDERFLOW
    assert found.t_end == pytest.approx(3.0, abs=1e-5)
    assert found.y[0, 0] == pytest.approx(2.0, rel=1e-6)


def test_given_arrays_are_not_written_to():
    model, run = run_of(LAG, order_of(LAG, D=1.0, k=0.5, lag=1.0, w=1.0), [0.0], [3.0])
    before = [np.array(part) for part in (run.p, run.dp, run.d2p)]
    METHODS["dopri5"].solve(model, run, rtol=1e-6, atol=1e-8, order=1)
    for old, new in zip(before, (run.p, run.dp, run.d2p), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("seed", range(12))
def test_random_piecewise_constant_inputs(seed):
    """x' = A x + b u(t) with u constant in pieces, against the exact solution, by a method taken in turn."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    knots, levels = np.sort(rng.uniform(0.1, 9.5, n)), rng.normal(size=n + 1)
    if seed % 3 == 0:
        knots[n // 2] = knots[0]  # two at one time
        knots.sort()
    places = [f"c{i}" if i % 2 == 0 else repr(float(knot)) for i, knot in enumerate(knots)]
    jumps = [float(jump) for jump in np.diff(levels)]
    terms = [f"if(t >= {place}, {jump!r}, 0)" for place, jump in zip(places, jumps, strict=True)]
    text = f"x' = -0.7*x + 2*y + {float(levels[0])!r} + {' + '.join(terms)}\ny' = -2*x - 0.3*y\nx(0) = 1\ny(0) = 0"
    moving = {f"c{i}": float(knots[i]) for i in range(0, n, 2)}
    times = np.sort(rng.uniform(0.0, 10.0, 6))

    def exact(x, full=knots):
        ends = np.array(full)
        ends[list(range(0, n, 2))] = x
        states = []
        for t in times:
            jumps = [(0.0, levels[0]), *((ends[i], levels[i + 1] - levels[i]) for i in range(n))]
            y = expm(A * t) @ [1.0, 0.0]
            for begin, jump in jumps:
                if t > begin:
                    y = y + np.linalg.solve(A, (expm(A * (t - begin)) - np.eye(2)) @ [jump, 0.0])
            states.append(y)
        return np.array(states)

    A = np.array([[-0.7, 2.0], [-2.0, -0.3]])
    method = list(METHODS.values())[seed % len(METHODS)]
    model, run = run_of(text, order_of(text, **moving), [1.0, 0.0], times)
    found = method.solve(model, run, rtol=1e-8, atol=1e-10, order=1)
    loose = 3e-4 if method.name == "bdf3" else 3e-6
    np.testing.assert_allclose(found.y, exact(list(moving.values())), atol=loose)
    names = [name for name in model.parameters if not name.startswith("(")]
    right = central_difference(exact, np.array(list(moving.values())), step=1e-4)
    inside = np.array([np.abs(knots - t).min() > 0.05 for t in times])
    for j, name in enumerate(moving):
        np.testing.assert_allclose(
            found.S[inside, :, names.index(name)], right[inside, :, j], atol=30 * loose, err_msg=name
        )
