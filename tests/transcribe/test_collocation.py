"""Transcription by collocation: rows, derivatives, elements, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import odefit as of
from odefit.errors import UnsupportedError
from odefit.gallery import load
from odefit.transcribe.collocation import DEFECT, Collocation
from odefit.transcribe.collocation_program import Limits

DECAY = "y' = -k*y\ny(0) = A"


def made(text: str, times, values, starts=None, **options) -> of.Problem:
    starts = starts or {}
    further = {name: options.pop(name) for name in ("sigma", "weight") if name in options}
    parameters = options.pop("parameters", None) or [of.Parameter(name, start=v) for name, v in starts.items()]
    data = of.Measurements.from_columns(np.asarray(times, dtype=float), values, **further)
    return of.Problem(model=of.Model.from_text(text), parameters=parameters, measurements=data, **options)


def begun(problem: of.Problem):
    one = Collocation(problem)
    theta = one.compiled.theta_start
    meshes = one.meshes(theta)
    assert not isinstance(meshes, str)
    return one, one.begin(meshes, theta)


def rows_of(state, x):
    numbers = np.concatenate(state.numbers)
    return np.asarray(state.program.solver.get_function("nlp_g")(x / state.numbers.sizes, numbers)).reshape(-1)


T = np.linspace(0.5, 4.0, 8)


def test_rows_vanish_on_the_solution_and_defects_are_those_of_a_cubic():
    problem = made(DECAY, T, {"y": 2.0 * np.exp(-0.7 * T)}, {"k": 0.7, "A": 2.0})
    one, state = begun(problem)
    times = np.concatenate(
        [a + (b - a) * np.array([0.155051, 0.644949, 1.0]) for a, b in zip([0, *T], T, strict=False)]
    )
    state.x[2:] = 2.0 * np.exp(-0.7 * times)
    assert np.abs(rows_of(state, state.x)).max() < 1e-4  # (k h)^4/4! and less
    assert max(np.max(d) for d in one.defects(state)) < 1e-3
    state.x[5] *= 1.2
    assert max(np.max(d) for d in one.defects(state)) > 0.01


def test_derivatives_of_rows_are_exact():
    text = "y' = -k*y*z\nz' = a*y - z + U(t)\ny(0) = 1\nz(0) = b\nat t=lag: z += 2*a"
    starts = {"k": 0.7, "a": 0.4, "b": 0.3, "lag": 1.3}
    table = {"U": of.Table([0.0, 5.0], [1.0, 2.0])}
    values = {"y": 1 / T, "z": T}
    problem = made(text.replace(" + U(t)", ""), T, values, starts)
    fixed = made(text.replace("lag", "1.3"), T, values, {k: v for k, v in starts.items() if k != "lag"}, tables=table)
    for which in (problem, fixed):
        _, state = begun(which)
        x = state.x * (1.0 + 0.05 * np.sin(np.arange(state.x.size)))
        numbers, sizes = np.concatenate(state.numbers), state.numbers.sizes
        exact = np.asarray(state.program.jacobian(x / sizes, numbers))
        h = 1e-6
        for j in range(x.size):
            step = np.zeros(x.size)
            step[j] = h * sizes[j]
            difference = (rows_of(state, x + step) - rows_of(state, x - step)) / (2 * h)
            assert exact[:, j] == pytest.approx(difference, abs=1e-7)


def test_programs_are_shared_by_start_values_bounds_and_settings():
    problem = made(DECAY, T, {"y": 2.0 * np.exp(-0.7 * T)}, {"k": 1.0, "A": 1.0})
    _, first = begun(problem)
    _, second = begun(problem.with_start(k=5.0).with_bounds(A=(0.0, 10.0)).with_settings(rtol=1e-9))
    assert first.program is second.program


def test_refinement_ends_with_small_defects():
    t = np.linspace(0.0, 10.0, 5)
    problem = made(
        "y' = v\nv' = -w^2*y\ny(0) = 1\nv(0) = 0", t, {"y": np.cos(1.5 * t), "v": -1.5 * np.sin(1.5 * t)}, {"w": 1.5}
    )
    found = Collocation(problem).solve()
    assert found.converged
    assert found.refinements > 0
    assert found.defect <= DEFECT
    assert found.theta[0] == pytest.approx(1.5, rel=1e-3)


CASES = {
    "a condition in time": ("y' = -k*y + if(t < 2, a, 0)\ny(0) = 1", {"k": 0.7, "a": 1.2}),
    "one whose time is estimated": ("y' = -k*y + if(t < a, 1, 0)\ny(0) = 1", {"k": 0.7, "a": 1.3}),
    "periodic conditions": ("y' = -k*y + if(t - floor(t) < 0.5, a, 0)\ny(0) = 1", {"k": 0.7, "a": 1.2}),
    "an event": ("y' = -k*y\ny(0) = 1\nat t=2: y += a", {"k": 0.7, "a": 1.2}),
    "an event at an estimated time": ("y' = -k*y\ny(0) = 1\nat t=a: y += 2", {"k": 0.7, "a": 1.2}),
    "an event that holds": ("y' = -k*y\ny(0) = a\nat t=2: k = 2*k", {"k": 0.7, "a": 1.2}),
    "an algebraic unknown": ("y' = -k*z\ny(0) = 1\nalgebraic z ~ 1\n0 = z + a*z^3 - y", {"k": 0.7, "a": 1.2}),
    "coupled derivatives": ("y' + a*z' = -k*y\nz' - y' = y - z\ny(0) = 1\nz(0) = 2", {"k": 0.7, "a": 1.2}),
    "an algebraic row": ("y' + z' = -k*y\n0 = z - a*y^2\ny(0) = 1\nz(0) = 1", {"k": 0.7, "a": 1.2}),
    "an integral": ("y' = -k*y\ny(0) = a\nm = integral(y, over=t, from=0)\nz = y + m", {"k": 0.7, "a": 1.2}),
    "a value at a time": ("y' = -k*y\ny(0) = a\nw = 0\nat t=1: w = y\nz = y + w", {"k": 0.7, "a": 1.2}),
}  # fmt: skip


@pytest.mark.parametrize("name", list(CASES))
def test_estimates_are_those_of_the_data(name):
    text, truth = CASES[name]
    observed = ["z"] if "\nz = " in text else ["y"]
    blank = made(text, T, {one: np.zeros(T.size) for one in observed}, truth)
    table = of.simulate(blank, times=T)
    problem = made(text, T, {one: table[one].to_numpy() for one in observed}, {n: 1.2 * v for n, v in truth.items()})
    found = Collocation(problem).solve()
    assert found.converged, found.cause
    assert found.theta == pytest.approx(list(truth.values()), rel=5e-3)


def test_the_order_of_data_and_events_is_found():
    text, truth = CASES["an event at an estimated time"]
    data = of.simulate(made(text, T, {"y": T}, truth), times=T)["y"].to_numpy()
    found = Collocation(made(text, T, {"y": data}, {"k": 0.7, "a": 1.9})).solve()
    assert found.converged, found.cause
    assert found.theta == pytest.approx(list(truth.values()), rel=1e-2)


def test_tables_of_the_time():
    tables = {
        "U": of.Table([0.0, 1.0, 2.5, 4.0], [0.0, "h", 1.0, 0.5]),
        "H": of.Table([0.0, 2.0], [1.0, 2.0], kind="hold"),
    }
    text, truth = "y' = -k*y + U(t)*H(t)\ny(0) = 1", {"k": 0.7, "h": 2.0}
    data = of.simulate(made(text, T, {"y": T}, truth, tables=tables), times=T)["y"].to_numpy()
    found = Collocation(made(text, T, {"y": data}, {"k": 1.0, "h": 1.0}, tables=tables)).solve()
    assert found.theta == pytest.approx([0.7, 2.0], rel=5e-3)


def test_scales_bounds_and_priors():
    data = {"y": 2.0 * np.exp(-0.7 * T)}
    parameters = [
        of.Parameter("k", start=2.0, scale="log"),
        of.Parameter("A", start=5.0, lower=0, upper=9, scale="logit"),
    ]
    one = Collocation(made(DECAY, T, data, parameters=parameters))
    assert one.compiled.to_natural(one.solve().theta)[0] == pytest.approx([0.7, 2.0], rel=1e-3)
    bounded = [of.Parameter("k", start=1.0, lower=0.8, upper=3.0), of.Parameter("A", start=1.0)]
    assert Collocation(made(DECAY, T, data, parameters=bounded)).solve().theta[0] == pytest.approx(0.8, rel=1e-4)
    prior = [of.Parameter("k", start=1.0, prior="normal(1.0, 1e-4)"), of.Parameter("A", start=1.0)]
    found = Collocation(made(DECAY, T, data, parameters=prior, sigma={"y": 1.0})).solve()
    assert found.theta[0] == pytest.approx(1.0, rel=1e-3)


def test_data_of_infinite_weight_are_met_or_limits():
    noisy = 2.0 * np.exp(-0.7 * T) + 0.1 * np.cos(7 * T)
    weight = np.where(np.arange(T.size) == 3, np.inf, 1.0)
    problem = made(DECAY, T, {"y": noisy}, {"k": 1.0, "A": 1.0}, weight={"y": weight})
    k, a = Collocation(problem).solve().theta
    assert a * np.exp(-k * T[3]) == pytest.approx(noisy[3], rel=1e-4)
    free = Collocation(made(DECAY, T, {"y": noisy}, {"k": 1.0, "A": 1.0})).solve().theta
    limited = Collocation(problem, limits=Limits(frozenset([3]))).solve().theta
    value = free[1] * np.exp(-free[0] * T[3])
    expected = max(value, noisy[3])
    assert limited[1] * np.exp(-limited[0] * T[3]) == pytest.approx(expected, rel=1e-2)


REFUSED = {
    "an aggregate since the row before": ("y' = -k*y\ny(0) = A\nm = integral(y, over=t)\nw = y + m", {}),
    "conditions on states": ("y' = -k*max(y, 0.1)\ny(0) = A", {}),
    "state events": ("y' = -k*y\ny(0) = A\nwhen y < 0.5: y = 1", {}),
    "max or min over time": ("y' = -k*y\ny(0) = A\nm = max(y, over=t)\nw = y + m", {}),
    "anything but the time": ("y' = -k*U(y)\ny(0) = A", {"tables": {"U": of.Table([0.0, 9.0], [0.0, 1.0])}}),
}
WORDS = {"state events": "conditions on states"}


@pytest.mark.parametrize("what", list(REFUSED))
def test_what_cannot_be_done_is_refused_in_words(what):
    text, options = REFUSED[what]
    observed = "w" if "\nw = " in text else "y"
    problem = made(text, T, {observed: np.exp(-T)}, {"k": 1.0, "A": 1.0}, **options)
    with pytest.raises(UnsupportedError, match=WORDS.get(what, what) + ".*use method"):
        Collocation(problem).solve()


def test_steady_states_are_refused():
    with pytest.raises(UnsupportedError, match="a steady state .*use method"):
        Collocation(load("cascade"))
