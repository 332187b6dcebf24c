"""Chaos, minima as narrow as a needle, small signals on a large background: where a fit may have nothing to go by."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

import odefit as of
from benchmarks.reliability.case import (
    Case,
    Family,
    integrated,
    log_uniform,
    problem_of,
    random_for,
    solution,
    with_noise,
)
from benchmarks.reliability.families.closed_forms import decay

Array = npt.NDArray[np.float64]

TIGHTEST = {"rtol": 1e-12, "atol": 1e-12, "integrator": "dop853"}
LORENZ = """
x' = s*(y - x)
y' = x*(r - z) - y
z' = x*y - b*z
x(0) = 1
y(0) = 1
z(0) = 20
"""
LOTKA_VOLTERRA = """
x' = a*x - b*x*y
y' = b*x*y - d*y
x(0) = 1
y(0) = 0.6
"""
BACKGROUND = "x' = -k*x\nx(0) = c\ny = back + x"


def _from_own_curves(
    random: np.random.Generator, text: str, truth: dict[str, float], t: Array, observed: tuple[str, ...], noise: float
) -> Case:
    """Return a case that starts at the truth, and whose data are its own tight solution with noise."""
    free = [of.Parameter(name, value) for name, value in truth.items()]
    curves = solution(text, free, t, observed, **TIGHTEST)
    sigma = noise * max(float(np.abs(curve).max()) for curve in curves.values())
    problem = problem_of(text, free, t, with_noise(random, curves, sigma))
    names, values = tuple(truth), np.array(list(truth.values()))
    return Case(problem, names, values, integrated(problem, names, **TIGHTEST))


def _from_poor_start(case: Case, random: np.random.Generator, factor: float) -> Case:
    poor = case.truth * np.exp(random.uniform(-1, 1, case.truth.size) * math.log(factor))
    return replace(case, problem=case.problem.with_start(**dict(zip(case.names, poor.tolist(), strict=True))))


def lorenz(data: int, start: int) -> Case:
    """Return the Lorenz equations to t = 10, 20 or 50."""
    random = random_for("chaos", data)
    truth = {"s": 10 * log_uniform(random, 0.9, 1.1), "r": 28 * log_uniform(random, 0.9, 1.1), "b": 8 / 3}
    end = (10.0, 20.0, 50.0)[data % 3]
    case = _from_own_curves(random, LORENZ, truth, np.linspace(end / 60, end, 60), ("x", "z"), 0.005)
    return _from_poor_start(case, random_for("chaos", data, start), 2.0)


def oscillation(data: int, start: int) -> Case:
    """Return Lotka-Volterra over ten to thirty periods: the minimum is as narrow as a phase allows."""
    random = random_for("needle", data)
    truth = {"a": log_uniform(random, 0.7, 1.4), "b": log_uniform(random, 0.7, 1.4), "d": log_uniform(random, 0.7, 1.4)}
    t = np.linspace(1, random.uniform(60, 200), 60)
    case = _from_own_curves(random, LOTKA_VOLTERRA, truth, t, ("x", "y"), 0.02)
    return _from_poor_start(case, random_for("needle", data, start), 1.5)


def background(data: int, start: int) -> Case:
    """Return a decay of size c on a background up to 1e12 times as large, with 1 % of c as noise."""
    random = random_for("background", data)
    size = log_uniform(random, 1e-6, 1.0)
    ratio = log_uniform(random, 1.0, 1e12 if data % 2 else 1e4)
    names, truth = ("k", "c", "back"), np.array([log_uniform(random, 0.4, 1.2), 1.0, ratio])
    t = np.linspace(0.2, 6, 20)
    signal = decay(t, truth[0], 1.0) + 0.01 * random.standard_normal(t.size)
    y = (ratio + signal) * size
    begin = truth * np.exp(random.uniform(-0.5, 0.5, 3))
    free = [of.Parameter(n, float(b) * u) for n, b, u in zip(names, begin, (1.0, size, size), strict=True)]
    return Case(
        problem_of(BACKGROUND, free, t, {"y": y}),
        names,
        truth,
        # the digits that the data lost to the background are lost here as well
        lambda x: decay(t, x[0], x[1]) - (y / size - x[2]),
        to_nice={"c": 1.0 / size, "back": 1.0 / size},
        unit=size,
        floor=0.5 * t.size * (4e-16 * ratio) ** 2,
        excused=("residuals.exact",),
    )


def tiny(data: int, start: int) -> Case:
    """Return a decay on which k acts through e k, e from 1e-18 to 1e-4: the minimum lies at k near 0.01/e.

    In nice units k is e k.
    """
    random = random_for("tiny influence", data)
    e, rate = log_uniform(random, 1e-18, 1e-4), log_uniform(random, 0.3, 1.0)
    names = ("k", "A") if data % 2 else ("k",)
    truth = np.array([0.0, 1.0])[: len(names)]
    t = np.linspace(0.2, 6, 20)
    y = decay(t, rate, 1.0) + 0.01 * random.standard_normal(t.size)
    parameters = [
        of.Parameter("k", log_uniform(random, 0.1, 10.0), scale=("linear", "log")[data // 2 % 2]),
        of.Parameter("A", log_uniform(random, 0.7, 1.4) if data % 2 else 1.0, fixed=not data % 2),
        of.Parameter("e", e, fixed=True),
        of.Parameter("a", rate, fixed=True),
    ]
    return Case(
        problem_of("x' = -(a + e*k)*x\nx(0) = A\ny = x", parameters, t, {"y": y}),
        names,
        truth,
        lambda x: decay(t, rate + x[0], x[1] if x.size > 1 else 1.0) - y,
        to_nice={"k": e},
        positive=False,
        excused=("parameter.undetermined",),  # which k is
    )


FAMILIES = (
    Family("chaos", "Lorenz to t = 10, 20, 50, starts within a factor of 2", 60, lorenz, starts=4),
    Family(
        "needle", "Lotka-Volterra over 60 to 200 time units, starts within a factor of 1.5", 60, oscillation, starts=4
    ),
    Family("tiny influence", "a parameter that acts through a factor of 1e-18 to 1e-4", 80, tiny),
    Family("background", "a decay on a background 1 to 1e12 times as large", 100, background),
)
