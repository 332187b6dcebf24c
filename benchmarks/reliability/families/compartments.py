"""Simulated two-compartment data sets, each with a regular minimum: it should be called one, with intervals."""

from __future__ import annotations

import numpy as np

import odefit as of
from benchmarks.reliability.case import Case, Family, log_uniform, problem_of, random_for
from benchmarks.reliability.families.closed_forms import two_compartments

INJECTED = """
c' = -(CL + Q)/V1*c + Q/V1*p
p' = Q/V2*c - Q/V2*p
c(0) = 1/V1
p(0) = 0
y = c
"""
ABSORBED = """
g' = -ka*g
c' = ka*g/V1 - (CL + Q)/V1*c + Q/V1*p
p' = Q/V2*c - Q/V2*p
g(0) = 1
c(0) = 0
p(0) = 0
y = c
"""
TRUTH = {"CL": 0.5, "V1": 2.0, "Q": 0.8, "V2": 4.0, "ka": 1.5}


def make(data: int, start: int) -> Case:
    """Return concentrations after a dose with noise of 2 to 30 % of their mean, injected or absorbed."""
    random = random_for("compartments", data)
    names = tuple(TRUTH) if data % 2 else tuple(TRUTH)[:4]
    truth = np.array([TRUTH[name] for name in names]) * np.exp(random.uniform(-0.4, 0.4, len(names)))
    t = np.array([0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 24])
    clean = two_compartments(t, *truth)
    y = clean + log_uniform(random, 0.02, 0.3) * float(clean.mean()) * random.standard_normal(t.size)
    poor = truth * np.exp(random.uniform(-0.7, 0.7, truth.size))
    free = [of.Parameter(n, float(b), scale="log") for n, b in zip(names, poor, strict=True)]
    problem = problem_of(ABSORBED if data % 2 else INJECTED, free, t, {"y": y})
    return Case(problem, names, truth, lambda x: two_compartments(t, *x) - y)


FAMILIES = (Family("compartments", "two compartments, noise of 2 to 30 %", 160, make),)
