"""Logarithms of states that fall below the absolute tolerance."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

import odefit as of
from benchmarks.reliability.case import Case, Family, log_uniform, problem_of, random_for

Array = npt.NDArray[np.float64]

TEXT = "x' = -k*x\nz' = k*x - m*z\nx(0) = A\nz(0) = 0\nlx = log10(x)\nlz = log10(z)"
NAMES = ("k", "m", "A")


def make(data: int, start: int) -> Case:
    """Return two decays that end between 1e-6 and 1e-20, measured as logarithms."""
    random, begin = random_for("logarithms", data), random_for("logarithms", data, start)
    end = 10.0
    decades = random.uniform(6, 20)
    k = decades * math.log(10.0) / end
    truth = np.array([k, k * random.uniform(0.3, 0.8), log_uniform(random, 0.5, 2.0)])
    t = np.linspace(0.5, end, 15)
    y = curves(t, truth) + 0.05 * random.standard_normal(2 * t.size)
    poor = truth * np.exp(begin.uniform(-1, 1, 3) * math.log(3.0))
    free = [of.Parameter(n, float(b), scale="log") for n, b in zip(NAMES, poor, strict=True)]
    values = dict(zip(("lx", "lz"), np.split(y, 2), strict=True))
    return Case(problem_of(TEXT, free, t, values), NAMES, truth, lambda x: curves(t, x) - y)


def curves(t: Array, x: Array) -> Array:
    """Return log10 of both states; the second is k A exp(-k t) expm1((k - m) t)/(k - m)."""
    k, m, a = x
    first = (math.log(a) - k * t) / math.log(10.0)
    slower, gap = min(k, m), abs(k - m) or 1e-9 * k
    rest = np.log(-np.expm1(-gap * t) / gap)
    return np.concatenate([first, (math.log(k * a) - slower * t + rest) / math.log(10.0)])


FAMILIES = (Family("logarithms", "log10 of states that fall to 1e-6 .. 1e-20", 120, make, starts=4),)
