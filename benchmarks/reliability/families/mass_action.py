"""Mass-action kinetics of which up to five rates vanish: estimates at the lower bound 0, on a linear scale."""

from __future__ import annotations

import numpy as np

import odefit as of
from benchmarks.reliability.case import Case, Family, integrated, problem_of, random_for, solution, with_noise

TEXT = """
r1 = f1*a - b1*b
r2 = f2*b - b2*c
r3 = f3*c - b3*d
r4 = f4*d
r5 = s1*a
r6 = s2*b*b
a' = -r1 - r5
b' = r1 - r2 - 2*r6
c' = r2 - r3 + r5
d' = r3 - r4 + r6
a(0) = 1
b(0) = 0
c(0) = 0
d(0) = 0
"""
FORWARD, OTHERS = ("f1", "f2", "f3", "f4"), ("b1", "b2", "b3", "s1", "s2")
NAMES = FORWARD + OTHERS
OBSERVED = (("a", "b", "c", "d"), ("b", "c", "d"), ("a", "d"), ("b", "c"))


def make(data: int, start: int) -> Case:
    """Return a chain with back reactions and side ways, of which `data` modulo 6 vanish, from starts in 0.02 .. 20."""
    random, begin = random_for("mass action", data), random_for("mass action", data, start)
    n, m = len(FORWARD), len(OTHERS)
    truth = np.exp(random.uniform(np.log(0.3), np.log(3.0), n + m))
    truth[n + random.permutation(m)[: data % 6]] = 0.0
    t = np.linspace(0.4, 8, 20)
    free = [of.Parameter(name, float(value), 0.0) for name, value in zip(NAMES, truth, strict=True)]
    observed = OBSERVED[data // 6 % len(OBSERVED)]
    problem = problem_of(TEXT, free, t, with_noise(random, solution(TEXT, free, t, observed), 0.005))
    residuals = integrated(problem, NAMES)
    poor = np.exp(begin.uniform(np.log(0.02), np.log(20.0), n + m))
    started = problem.with_start(**dict(zip(NAMES, poor.tolist(), strict=True)))
    return Case(started, NAMES, truth, residuals, positive=False)


FAMILIES = (Family("mass action", "0 to 5 of 9 rates vanish, lower bound 0", 192, make, starts=8),)
