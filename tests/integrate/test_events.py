"""Events at a time: states jump, and directions with them; derivatives in general: test_pieces_conformance.py."""

from __future__ import annotations

import numpy as np
import pytest
from initial_value_problems import by_method, central_difference, run_of

import odefit as of
from odefit.compile import Occurrences
from odefit.integrate import METHODS, Status

DOSE = "x' = -k*x\nx(0) = A\nat t=tau: x += D"


def with_events(text: str, values: dict[str, float], y0, times, after=()) -> tuple:
    """Return model and run with all events of a text; all of (p, y0) are directions."""
    source = of.Model.from_text(text)
    model, run = run_of(text, [values[name] for name in source.parameters], y0, times)
    n = len(source.events)
    occurrences = Occurrences(np.arange(n), np.zeros(3 * n))
    return model, run._replace(occurrences=occurrences, after=np.array(after, dtype=np.int64))


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


def sawtooth(every: float, count: int) -> tuple:
    """Return a slow decay with a dose every so often, the first one at the unknown time tau."""
    doses = "".join(f"at t=tau + {every * k}: x += 0.05\n" for k in range(count))
    text = "x' = -k*x + 0.01*z\nz' = 0.05*x - 0.02*z\nx(0) = 1\nz(0) = 0.5\n" + doses
    return with_events(text, {"k": 0.03, "tau": 0.5 * every}, [1.0, 0.5], [every * count])


@pytest.mark.parametrize(("name", "every"), [("dopri5", 1.0), ("dop853", 4.0), ("rk32", 0.1)])
def test_a_dose_does_not_make_steps_short(name, every):
    """Without doses a step is longer than the time between two: one for each piece is enough."""
    model, run = sawtooth(every, 40)
    found = METHODS[name].solve(model, run, rtol=1e-6, atol=1e-8)
    assert found.status is Status.OK
    assert found.counters.steps <= 41 + 2
    assert found.counters.rejected <= 1


@by_method
def test_a_change_of_the_time_scale_is_noticed(method):
    """Steps of a slow piece are no guide to the fast one behind."""
    text = "x' = if(t < tau, -0.01*x, -500*(x - cos(t)))\nx(0) = 1"
    times = np.array([50.0, 100.0, 100.002, 100.01, 100.1])
    model, run = run_of(text, [100.0], [1.0], times)
    found = method.solve(model, run, rtol=1e-8, atol=1e-10, order=1)
    assert found.status is Status.OK
    since, after = times[2:] - 100.0, times[2:]
    forced = (500.0**2 * np.cos(after) + 500.0 * np.sin(after)) / (500.0**2 + 1)
    began = (500.0**2 * np.cos(100.0) + 500.0 * np.sin(100.0)) / (500.0**2 + 1)
    exact = np.concatenate([np.exp(-0.01 * times[:2]), forced + (np.exp(-1.0) - began) * np.exp(-500.0 * since)])
    np.testing.assert_allclose(found.y[:, 0], exact, atol=2e-5 if method.name == "bdf3" else 2e-6)
    assert found.counters.rejected <= 8


@pytest.mark.parametrize("seed", range(8))
def test_doses_in_any_order_and_at_one_time_are_superposed(seed):
    """Times that are not sorted, some equal, some at jumps of a table: all of them act, once."""
    random = np.random.default_rng(seed)
    times = random.permutation(np.concatenate([random.uniform(0, 9, 6), random.choice([1.0, 2.5, 4.0], 5)]))
    amounts = random.uniform(0.5, 2.0, times.size)
    doses = [of.Dose(float(t), "x", float(a)) for t, a in zip(times, amounts, strict=True)]
    zero = of.Table([0, 1, 2.5, 4.0], [0.0, 1.0, 2.0, 0.0], kind="hold")
    at = np.array([0.5, 2.0, 3.0, 5.0, 8.0, 10.0])
    problem = of.Problem(
        of.Model.from_text("x' = -k*x + 0*U(t)\nx(0) = 0"), [of.Parameter("k", 0.4)],
        of.Measurements.from_columns(at, {"x": np.zeros(at.size)}), (of.Experiment("main", events=doses),),
        tables={"U": zero}, settings=of.Settings(rtol=1e-10),
    )  # fmt: skip
    since = at[:, None] - times
    exact = (amounts * np.exp(-0.4 * np.maximum(since, 0.0)) * (since > 0.0)).sum(axis=1)
    np.testing.assert_allclose(of.simulate(problem)["x"], exact, rtol=1e-7, atol=1e-9)
