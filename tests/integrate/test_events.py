"""Events at a time: states jump, and directions with them, wherever the event moves to."""

from __future__ import annotations

import numpy as np
import pytest
from initial_value_problems import HIGHEST_ORDER, by_method, central_difference, run_of

import odefit as of
from odefit.compile import Occurrences
from odefit.integrate import METHODS, Run, Status, Trajectory

DOSE = "x' = -k*x\nx(0) = A\nat t=tau: x += D"
# several kinds of events at once, not linear: moving and fixed ones, two at one time, one that uses the time
MIXED = """
x' = -k*x*z
z' = sin(t) - 0.2*z + 0.1*x
x(0) = 1
z(0) = 1
at t=tau: x += D*z, z *= 0.5
at t=tau + w: x = x + k*t^2, z += x
at t=5: x += 1
at t=5: x *= 2, z += k
"""
MIXED_P = {"tau": 3.1, "w": 0.7, "D": 2.0, "k": 0.3}
STIFF = "x' = -1e4*(x - cos(t)) + s\nz' = x - k*z\nx(0) = 0\nz(0) = 1\nat t=tau: x += D, z += x"


def with_events(text: str, values: dict[str, float], y0, times, after=()) -> tuple:
    """Return model and run with all events of a text; all of (p, y0) are directions."""
    source = of.Model.from_text(text)
    model, run = run_of(text, [values[name] for name in source.parameters], y0, times)
    n = len(source.events)
    occurrences = Occurrences(np.arange(n), np.zeros(3 * n))
    return model, run._replace(occurrences=occurrences, after=np.array(after, dtype=np.int64))


def moved(run: Run, values) -> Run:
    n_p = run.p.size
    return run._replace(p=np.array(values[:n_p]), y0=np.array(values[n_p:]))


def names_of(model) -> list[str]:
    return [name for name in model.parameters if not name.startswith("(")]


@by_method
def test_dose_against_the_closed_form(method):
    values, times = {"k": 0.5, "tau": 1.0, "D": 3.0}, [0.5, 1.0, 1.5, 4.0]
    text = DOSE.replace("A", "2")
    model, run = with_events(text, values, [2.0], times)
    found = method.solve(model, run, rtol=1e-9, atol=1e-11, order=1)
    assert found.status is Status.OK

    def exact(x):
        k, tau, dose = x
        t = np.array(times)
        return 2 * np.exp(-k * t) + np.where(t > tau, dose * np.exp(-k * (t - tau)), 0.0)

    order = [values[name] for name in names_of(model)]
    np.testing.assert_allclose(found.y[:, 0], exact([0.5, 1.0, 3.0]), rtol=1e-4 if method.name == "bdf3" else 1e-7)
    right = central_difference(exact, np.array([0.5, 1.0, 3.0]), step=1e-3)
    inside = [0, 2, 3]  # at the event itself the difference sees both sides
    assert len(order) == 3
    for j, name in enumerate(("k", "tau", "D")):
        mine = found.S[inside, 0, names_of(model).index(name)]
        np.testing.assert_allclose(mine, right[inside, j], atol=1e-4 if method.name == "bdf3" else 1e-7, err_msg=name)


@by_method
def test_derivatives_are_those_of_the_replayed_solution(method):
    times = [0.0, 1.0, 3.31, 3.55, 4.02, 5.0, 7.0, 9.0]
    model, run = with_events(MIXED, MIXED_P, [1.0, 1.1], times, [0, 0, 0, 0, 0, 1, 0, 0])
    order = HIGHEST_ORDER[method.name]
    first = method.solve(model, run, rtol=1e-6, atol=1e-8, order=order)
    assert first.status is Status.OK
    assert first.grid.passed[0] == 5  # two that move, two at one time with nothing between them, and the end
    again = method.solve(model, run, rtol=1e-6, atol=1e-8, order=order, grid=first.grid)
    np.testing.assert_array_equal(again.y, first.y)
    np.testing.assert_array_equal(again.S, first.S)

    def replayed(x, order=0) -> Trajectory:
        found = method.solve(model, moved(run, x), rtol=1e-6, atol=1e-8, order=order, grid=first.grid)
        assert found.status is Status.OK
        return found

    x = np.array([*run.p, 1.0, 1.1])
    size = np.abs(first.S).max(axis=(0, 1))
    by_difference = central_difference(lambda x: replayed(x).y, x, step=5e-5)
    tolerance = 3e-5 if method.name == "bdf3" else 1e-8
    assert (np.abs(by_difference - first.S).max(axis=(0, 1)) <= tolerance * size).all()
    if order == 2:
        second = central_difference(lambda x: replayed(x, 1).S, x, step=5e-5)
        pairs = [(a, b) for a in range(x.size) for b in range(a, x.size)]
        packed = np.stack([second[:, :, a, b] for a, b in pairs], axis=-1)
        assert np.abs(packed - first.S2).max() <= 1e-6 * np.abs(first.S2).max()


@by_method
def test_derivatives_are_those_of_the_true_solution(method):
    times = [1.0, 3.31, 3.55, 4.02, 7.0, 9.0]
    model, run = with_events(MIXED, MIXED_P, [1.0, 1.1], times)
    exact = METHODS["dop853"]
    found = method.solve(model, run, rtol=1e-8, atol=1e-10, order=1)
    right = central_difference(
        lambda x: exact.solve(model, moved(run, x), rtol=1e-12, atol=1e-13).y, np.array([*run.p, 1.0, 1.1]), step=2e-3
    )
    size = np.abs(right).max(axis=(0, 1))
    tolerance = {"bdf3": 3e-4, "rk32": 3e-5, "ddm": 3e-5}.get(method.name, 1e-6)
    assert (np.abs(found.S - right).max(axis=(0, 1)) <= tolerance * size).all()


@pytest.mark.parametrize("name", ["ddm", "bdf3"])
def test_an_event_inside_a_stiff_phase(name):
    values = {"k": 0.5, "s": 1.0, "tau": 1.3, "D": 2.0}
    model, run = with_events(STIFF, values, [0.0, 1.0], [1.0, 1.30005, 1.4, 3.0])
    method = METHODS[name]
    found = method.solve(model, run, rtol=1e-8, atol=1e-10, order=1)
    right = central_difference(
        lambda x: METHODS["ddm"].solve(model, moved(run, x), rtol=1e-11, atol=1e-13).y,
        np.array([*run.p, 0.0, 1.0]), step=1e-4,
    )  # fmt: skip
    assert found.status is Status.OK
    late = [0, 2, 3]  # within the jump the derivative by its time is 1e4 times as large
    np.testing.assert_allclose(found.S[late], right[late], atol=1e-4 if name == "bdf3" else 1e-5)


@by_method
def test_both_sides_of_an_event(method):
    times, after = [0.0, 0.0, 2.0, 2.0, 4.0, 4.0], [0, 1, 0, 1, 0, 1]
    text = (
        "x' = 0*x\nz' = 1\nx(0) = 1\nz(0) = 0\nat t=0: x += 1\nat t=2: x *= 10\nat t=2: x += 5\nat t=4: x = 0, z = -1"
    )
    model, run = with_events(text, {}, [1.0, 0.0], times, after)
    found = method.solve(model, run, rtol=1e-8, atol=1e-10)
    assert found.status is Status.OK
    np.testing.assert_allclose(found.y[:, 0], [1.0, 2.0, 2.0, 25.0, 25.0, 0.0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.y[:, 1], [0.0, 0.0, 2.0, 2.0, 4.0, -1.0], rtol=1e-6, atol=1e-9)


def test_events_that_cannot_be():
    model, run = with_events(DOSE.replace("A", "2"), {"k": 0.5, "tau": -1.0, "D": 3.0}, [2.0], [1.0])
    found = METHODS["dopri5"].solve(model, run, rtol=1e-6)
    assert found.status is Status.EVENT_TOO_EARLY
    assert "before the start" in found.sentence(model)
    text = "x' = -x\nx(0) = 1\nat t=sqrt(a): x += 1"
    model, run = with_events(text, {"a": -1.0}, [1.0], [1.0])
    assert METHODS["dopri5"].solve(model, run, rtol=1e-6).status is Status.UNDEFINED_EVENT
    text = "x' = -x\nx(0) = 1\nat t=0.5: x = log(a)"
    model, run = with_events(text, {"a": -1.0}, [1.0], [1.0])
    found = METHODS["dopri5"].solve(model, run, rtol=1e-6)
    assert found.status is Status.NONFINITE_EVENT
    assert "gives 'x' a value" in found.sentence(model)


def test_events_behind_the_end_do_not_happen():
    model, run = with_events(DOSE.replace("A", "2"), {"k": 0.5, "tau": 5.0, "D": 3.0}, [2.0], [1.0])
    found = METHODS["dopri5"].solve(model, run, rtol=1e-8, order=1)
    np.testing.assert_allclose(found.y[0], 2 * np.exp(-0.5), rtol=1e-7)
    assert found.S[0, 0, names_of(model).index("tau")] == 0.0


def test_what_an_event_sets_holds_until_the_next():
    text = "x' = -k*x + r\nr = 2*k\nx(0) = 1\nat t=1: k = 0\nat t=2: k = c, r = 7"
    source = of.Model.from_text(text)
    held = [0.5, 0.0, 0.0]  # k, and r with its flag, as the model begins
    model, run = with_events(text, {"k": 0.5, "c": 0.1}, [1.0] + [0.0] * len(source.held), [1.0, 2.0, 3.0])
    initial = [1.0, *(0.5 if name.startswith("k") else 0.0 for name in source.held)]
    assert len(held) == len(source.held)
    found = METHODS["dopri5"].solve(model, run._replace(y0=np.array(initial)), rtol=1e-9, atol=1e-11)
    first = 2 - np.exp(-0.5)
    np.testing.assert_allclose(found.y[:, 0], [first, first, 70 + (first - 70) * np.exp(-0.1)], rtol=1e-7)
