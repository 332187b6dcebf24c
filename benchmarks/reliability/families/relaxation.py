"""Relaxation oscillations (van der Pol, e from 1e-2 to 1e-6): states are easy to follow, sensitivities are not."""

from __future__ import annotations

import numpy as np

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

TEXT = "x' = v\nv' = (mu*(1 - x^2)*v - x)/e\nx(0) = 2\nv(0) = -0.66\n"
NAMES = ("e", "mu")
RESOLVED = 3e-6  # error of the states at default tolerances, relative to the largest


def make(data: int, start: int) -> Case:
    """Return an oscillation over one to four periods from a good start: standard errors are what is looked at.

    The period depends on e by 7 e^(2/3), so that noise of the size e^(2/3) leaves e determined.
    """
    random = random_for("relaxation", data)
    truth = np.array([log_uniform(random, 1e-6, 1e-2), log_uniform(random, 0.8, 1.25)])
    t = np.linspace(0.1, random.uniform(1.5, 6.0), 40)
    parameters = [of.Parameter(n, float(x), scale="log") for n, x in zip(NAMES, truth, strict=True)]
    stiff = {"integrator": "ddm", "rtol": 1e-11, "atol": 1e-11}
    curves = solution(TEXT, parameters, t, ("x",), **stiff)
    problem = problem_of(TEXT, parameters, t, with_noise(random, curves, truth[0] ** (2 / 3)))
    poor = truth * np.exp(random.uniform(-1, 1, 2) * np.array([0.1, 3e-4]))
    if data % 2:
        problem, names = problem.with_fixed("mu"), NAMES[:1]
    else:
        names = NAMES
    n = len(names)
    return Case(
        problem.with_start(**dict(zip(names, poor[:n].tolist(), strict=True))),
        names,
        truth[:n],
        integrated(problem, names, **stiff),
        step=1e-4,
        around=(1.0,),
        floor=0.5 * t.size * (2.0 * RESOLVED) ** 2,
    )


FAMILIES = (Family("relaxation", "van der Pol, e from 1e-6 to 1e-2: standard errors", 100, make),)
