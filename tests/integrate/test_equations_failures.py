"""Failures of equations in several derivatives are statuses that name the equation; work is bounded."""

from __future__ import annotations

import re

import numpy as np
import pytest
from equation_cases import by_solver
from initial_value_problems import run_of

from odefit.integrate import Status

ROW = "(1 + w^2)*x' = -k*(1 + w^2)\nalgebraic w ~ 1\n"
START = "\nx(0) = 1"
BRANCH = ROW + "0 = w^2 - x" + START
"""w = sqrt(x) or -sqrt(x), x = x(0) - k t: both branches end at t = 1."""

# text, p, y0, status, time of the end, words
FAILURES = {
    "no consistent state": (
        ROW + "0 = x^2 + w^2 + 1" + START, [1.0], [1.0, 1.0], Status.INCONSISTENT, 0.0,
        "the one that could not be met is '0 = x^2 + w^2 + 1' (line 3)",
    ),
    "one of two that cannot be met": (
        ROW + "algebraic v ~ 1\n0 = v - x\n0 = exp(w) + v^2" + START, [1.0], [1.0, 1.0, 1.0], Status.INCONSISTENT, 0.0,
        "the one that could not be met is '0 = exp(w) + v^2' (line 5)",
    ),
    "singular at the start": (
        BRANCH, [1.0], [0.0, 0.0], Status.UNDETERMINED, 0.0, "look at '0 = w^2 - x' (line 3)",
    ),
    "a guess at which a derivative vanishes": (
        BRANCH, [1.0], [1.0, 0.0], Status.UNDETERMINED, 0.0,
        "or a guess at which a derivative vanishes?); look at '0 = ",
    ),
    "a coefficient that vanishes at the start": (
        "(x - 1)*x' + z' = -k\nz' = 1\nx(0) = 1\nz(0) = 0", [1.0], [1.0, 0.0], Status.UNDETERMINED, 0.0,
        "look at '(x - 1)*x' + z' = -k' (line 1)",
    ),
    "a coefficient that is zero": (
        "C*(x' - z') = z - x\nz' = 1 - x\nx(0) = 1\nz(0) = 0", [0.0], [1.0, 0.0], Status.UNDETERMINED, 0.0,
        "look at 'C*(x' - z') = z - x' (line 1)",
    ),
    "the end of a branch": (
        BRANCH, [1.0], [1.0, 0.5], Status.STEP_UNDERFLOW, 1.0,
        "'w' changes so fast that the step size fell below rounding (a pole or a jump, or the end of a branch of "
        "solutions of '0 = w^2 - x' (line 3)?)",
    ),
    "a pole": (
        "(1 + w^2)*x' = k*x^2*(1 + w^2)\nalgebraic w ~ 1\n0 = w - 2*x" + START, [1.0], [1.0, 1.0],
        Status.STEP_UNDERFLOW, 1.0, "changes so fast",
    ),
    "an unknown with a pole": (
        ROW + "0 = w*x - 1" + START, [1.0], [1.0, 1.0], Status.STEP_UNDERFLOW, 1.0,
        "solutions of '0 = w*x - 1' (line 3)",
    ),
    "out of the domain on the way": (
        ROW + "0 = w - sqrt(x)" + START, [1.0], [1.0, 1.0], Status.NONFINITE, 1.0, "the equation of 'w' gave a value",
    ),
    "out of the domain at the start": (
        ROW + "0 = log(w) - x" + START, [1.0], [1.0, -1.0], Status.NONFINITE_START, 0.0, "'0 = log(w) - x' (line 3)",
    ),
    "NaN in a differential row": (
        "(1 + w^2)*x' = -k*sqrt(x)\nalgebraic w ~ 1\n0 = w - x" + START, [1.0], [-1.0, 1.0],
        Status.NONFINITE_START, 0.0,
        "'(1 + w^2)*x' = -k*sqrt(x)' (line 1)",
    ),
    "a guess that is NaN": (
        ROW + "0 = w - x" + START, [1.0], [1.0, np.nan], Status.NONFINITE_START, 0.0, "'0 = w - x' (line 3)",
    ),
}  # fmt: skip
ANOTHER_STATUS = {
    ("limex", "out of the domain on the way"): (Status.STEP_UNDERFLOW, "solutions of '0 = w - sqrt(x)' (line 3)"),
}
"""Of methods that see the end of a branch in its slope, before they meet what does not exist."""


@by_solver
@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("name", FAILURES)
def test_failure_is_a_status(method, order, name):
    text, p, y0, status, t_end, words = FAILURES[name]
    status, words = ANOTHER_STATUS.get((method.name, name), (status, words))
    model, run = run_of(text, p, y0, [0.5, 2.0])
    found = method.solve(model, run, rtol=1e-7, atol=1e-9, order=min(order, method.highest_order), max_steps=10_000)
    assert found.status is status
    assert found.t_end == pytest.approx(t_end, abs=2e-5)
    assert words in found.sentence(model)
    assert np.isnan(found.y[1]).all()
    assert np.isfinite(found.y[0]).all() == (t_end > 0.5)
    assert found.counters.steps + found.counters.rejected <= 10_000


@by_solver
@pytest.mark.parametrize(("guess", "sign"), [(0.3, 1.0), (5.0, 1.0), (-0.3, -1.0), (-5.0, -1.0)])
def test_the_branch_of_the_guess_is_taken(method, guess, sign):
    t = np.array([0.0, 0.3, 0.9])
    model, run = run_of(BRANCH, [1.0], [1.0, guess], t)
    found = method.solve(model, run, rtol=1e-8, atol=1e-10, order=1)
    np.testing.assert_allclose(found.y[:, 1], sign * np.sqrt(1.0 - t), rtol=1e-6)
    np.testing.assert_array_equal(found.S[:, :, 2], 0.0)  # a guess among those of one branch


@by_solver
def test_a_far_guess_is_led_to_a_solution(method):
    model, run = run_of(ROW + "0 = exp(w) - 1 - x" + START, [1.0], [1.0, 30.0], [0.0])
    found = method.solve(model, run, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.y[0], [1.0, np.log(2.0)], rtol=1e-14)


@by_solver
def test_the_limit_on_steps(method):
    text = "(1 + w^2)*x' - v' = (1 + w^2)*v + k^2*x\nv' = -k^2*x\nalgebraic w ~ 1\n0 = w - x\nx(0) = 1\nv(0) = 0"
    model, run = run_of(text, [1e3], [1.0, 0.0, 1.0], [1e-4, 100.0])
    found = method.solve(model, run, rtol=1e-7, atol=1e-9, order=1, max_steps=1000)
    assert found.status is Status.TOO_MANY_STEPS
    assert found.counters.steps + found.counters.rejected <= 1000
    assert re.search(r"raise max_steps", found.sentence(model))


@by_solver
def test_a_tolerance_below_rounding_ends(method):
    model, run = run_of(ROW.replace("-k*", "-k*x*") + "0 = w - x" + START, [1.0], [1.0, 1.0], [1.0])
    found = method.solve(model, run, rtol=1e-16, atol=1e-18, order=1, max_steps=20_000)
    assert found.status in (Status.OK, Status.TOO_MANY_STEPS, Status.STEP_UNDERFLOW)
    assert found.counters.steps + found.counters.rejected <= 20_000
    if found.status is Status.OK:
        np.testing.assert_allclose(found.y, np.exp(-1.0), rtol=1e-10)
