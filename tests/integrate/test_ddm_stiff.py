"""Stiff standard problems to their published digits, and derivatives on their steps."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from initial_value_problems import central_difference, compiled_model, pairs

from odefit.compile import Seeds
from odefit.integrate import METHODS, Ddm, Run, Status

DDM = METHODS["ddm"]
PROBLEMS = json.loads((Path(__file__).parents[1] / "reference" / "stiff.json").read_text())["problems"]
by_problem = pytest.mark.parametrize("name", PROBLEMS)


def model_of(name):
    return compiled_model("\n".join(PROBLEMS[name]["text"]))


def parameters_of(name) -> np.ndarray:
    return np.array([PROBLEMS[name]["parameters"][p] for p in model_of(name).parameters])


def run_of(name, p=None, times=None) -> Run:
    """Directions are the logarithms of the parameters."""
    problem = PROBLEMS[name]
    p = parameters_of(name) if p is None else p
    times = np.array([problem["end"]]) if times is None else np.asarray(times, dtype=float)
    n, q = len(problem["y0"]), p.size
    n_pairs = q * (q + 1) // 2
    second = np.zeros((q, n_pairs))
    for column, (a, b) in enumerate(pairs(q)):
        second[a, column] = p[a] if a == b else 0.0
    seeds = Seeds(p, np.array(problem["y0"]), np.diag(p), np.zeros((n, q)), second, np.zeros((n, n_pairs)))
    return Run.of(seeds, 0.0, times)


@by_problem
def test_published_digits(name):
    """Errors grow with the length of the integration, hence a bound of 500 times the tolerance."""
    rtol = 1e-10
    expected = np.array(PROBLEMS[name]["y"])
    found = DDM.solve(model_of(name), run_of(name), rtol=rtol, atol=1e-19)
    assert found.status is Status.OK
    assert found.error_ratio <= 1.0
    np.testing.assert_allclose(found.y[0], expected, rtol=500 * rtol)


@by_problem
def test_error_follows_the_tolerance(name):
    expected = np.array(PROBLEMS[name]["y"])
    tolerances = np.array([1e-5, 1e-7, 1e-9])
    found = [DDM.solve(model_of(name), run_of(name), rtol=r, atol=1e-9 * r).y[0] for r in tolerances]
    errors = [np.abs(y / expected - 1.0).max() for y in found]
    assert 0.6 <= np.polyfit(np.log(tolerances), np.log(errors), 1)[0] <= 1.3


@by_problem
def test_cost_of_a_step_is_bounded(name):
    """Newton's method to rounding takes two or three iterations a step with a Jacobian from the prediction."""
    counters = DDM.solve(model_of(name), run_of(name), rtol=1e-7, atol=1e-13).counters
    attempts = counters.steps + counters.rejected
    assert counters.rhs <= 3.5 * attempts + 2
    assert counters.jacobian <= 1.3 * attempts
    assert counters.rejected <= 0.2 * counters.steps


TIMES = {
    "robertson": [0.4, 40.0, 4e4],
    "hires": [5.0, 50.0],
    "orego": [30.0],
    "pollu": [1.0, 60.0],
    "vdpol": [0.2, 0.7],
}


@by_problem
@pytest.mark.parametrize("rtol", [1e-2, 1e-4])
def test_derivatives_are_those_of_the_discrete_solution(name, rtol):
    """To many digits even where the solution has two; each state measured by its own sensitivities."""
    model, p = model_of(name), parameters_of(name)[:4]
    rest = parameters_of(name)[4:]
    options = {"rtol": rtol, "atol": 1e-6 * rtol}
    grid = DDM.solve(model, run_of(name, times=TIMES[name]), **options).grid
    found = DDM.solve(model, run_of(name, times=TIMES[name]), grid=grid, order=1, **options)
    assert found.status is Status.OK
    assert found.derivatives == "discrete"

    def states(logarithms):
        run = run_of(name, np.concatenate([p * np.exp(logarithms), rest]), TIMES[name])
        return DDM.solve(model, run, grid=grid, **options).y

    # a pulse of orego comes so suddenly that its solution is smooth over a short range of parameters only
    numeric = central_difference(states, np.zeros(p.size), step=2e-4 if name == "orego" else 0.02)
    largest = np.abs(found.S).max(axis=(0, 2), keepdims=True)
    noise = 1e-11 * np.abs(found.y)[:, :, None]  # of the difference quotients: vdpol hardly depends on eps
    assert (np.abs(found.S[:, :, : p.size] - numeric) <= 2e-8 * largest + noise).all()


def test_second_derivatives_are_those_of_the_discrete_solution():
    model, p = model_of("robertson"), parameters_of("robertson")
    options = {"rtol": 1e-3, "atol": 1e-9}
    times = TIMES["robertson"]
    grid = DDM.solve(model, run_of("robertson", times=times), **options).grid
    found = DDM.solve(model, run_of("robertson", times=times), grid=grid, order=2, **options)

    def sensitivities(logarithms):
        return DDM.solve(model, run_of("robertson", p * np.exp(logarithms), times), grid=grid, order=1, **options).S

    numeric = central_difference(sensitivities, np.zeros(3), step=0.02)
    chosen = np.stack([numeric[:, :, a, b] for a, b in pairs(3)], axis=-1)
    largest = np.abs(found.S2).max(axis=(0, 2), keepdims=True)
    assert (np.abs(found.S2 - chosen) <= 1e-7 * largest).all()


@by_problem
def test_replay_repeats_to_the_last_bit(name):
    model, run = model_of(name), run_of(name)
    options = {"rtol": 1e-6, "atol": 1e-12, "order": 1}
    chosen = DDM.solve(model, run, **options)
    again = DDM.solve(model, run, grid=chosen.grid, **options)
    np.testing.assert_array_equal(again.y, chosen.y)
    np.testing.assert_array_equal(again.S, chosen.S)
    assert again.error_ratio == chosen.error_ratio
    assert again.counters.rejected == 0


def test_conserved_quantities_stay():
    """Linear invariants of the equations are invariants of the formulas."""
    found = DDM.solve(model_of("robertson"), run_of("robertson"), rtol=1e-4, atol=1e-8, order=1)
    assert found.y[0].sum() == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(found.S[0].sum(axis=0), 0.0, atol=1e-12)


def test_tighter_control_by_sensitivities():
    model, run = model_of("robertson"), run_of("robertson", times=[40.0])
    reference = DDM.solve(model, run, rtol=1e-10, atol=1e-16, order=1).S
    errors = []
    for method in (DDM, Ddm(test_sensitivities=True)):
        found = method.solve(model, run, rtol=1e-4, atol=1e-8, order=1)
        assert found.status is Status.OK
        errors.append(np.abs(found.S - reference).max())
    assert errors[1] < errors[0]
