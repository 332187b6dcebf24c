"""Batch growth with inhibition by the substrate (Haldane): stiff where the substrate runs out, grids frozen or not."""

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

TEXT = """
mu = m*S/(Ks + S + S^2/Ki)
X' = mu*X
S' = -mu*X/Y
X(0) = X0
S(0) = S0
"""
NAMES = ("m", "Ks", "Ki", "Y")
FREEZE = ("omega", "growth", "readapt")
INTEGRATORS = ("auto", "ddm")


def make(data: int, start: int) -> Case:
    """Return a batch from poor starts; rules of freezing and integrators take turns."""
    random, begin = random_for("haldane", data), random_for("haldane", data, start)
    truth = np.array(
        [
            log_uniform(random, 0.3, 0.6),
            log_uniform(random, 0.01, 3.0),
            log_uniform(random, 2, 20),
            log_uniform(random, 0.4, 0.6),
        ]
    )
    x0, s0 = log_uniform(random, 0.05, 0.2), log_uniform(random, 5, 20)
    fixed = [of.Parameter("X0", x0, fixed=True), of.Parameter("S0", s0, fixed=True)]
    free = [of.Parameter(n, float(x), scale="log") for n, x in zip(NAMES, truth, strict=True)]
    stiff = {"integrator": "ddm"}
    rough = np.linspace(0.0, 400.0, 2001)
    substrate = solution(TEXT, [*free, *fixed], rough, ("S",), **stiff)["S"]
    t = np.linspace(0.03, 1.15, 40) * rough[int(np.argmax(substrate < 0.02 * s0))]
    curves = solution(TEXT, [*free, *fixed], t, ("X", "S"), **stiff)
    values = with_noise(random, curves, {"X": 0.005 * s0 * truth[3], "S": 0.005 * s0})
    settings = {"freeze": FREEZE[start % 3], "integrator": INTEGRATORS[start // 3 % 2]}
    problem = problem_of(TEXT, [*free, *fixed], t, values, **settings)
    poor = truth * np.exp(begin.uniform(-1, 1, truth.size) * np.log(4.0))
    started = problem.with_start(**dict(zip(NAMES, poor.tolist(), strict=True)))
    return Case(started, NAMES, truth, integrated(problem, NAMES, **stiff))


FAMILIES = (
    Family("haldane", "stiff batches, starts within a factor of 4, three rules of freezing", 120, make, starts=12),
)
