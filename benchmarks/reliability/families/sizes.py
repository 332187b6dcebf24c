"""Data between 1e-170 and 1e154, whose squares are no numbers any more, and data that are met exactly."""

from __future__ import annotations

import numpy as np

import odefit as of
from benchmarks.reliability.case import Case, Family, log_uniform, problem_of, random_for
from benchmarks.reliability.families.closed_forms import decay

_SMALLEST, _LARGEST = -170.0, 154.0
TEXTS = ("y = A*exp(-k*t)", "x' = -k*x\nx(0) = A\ny = x")


def size(data: int, start: int) -> Case:
    """Return a decay of any size, explicit or integrated, with and without standard deviations."""
    random = random_for("sizes", data)
    unit = float(10.0 ** random.uniform(_SMALLEST, _LARGEST))
    truth = np.array([log_uniform(random, 0.4, 1.2), log_uniform(random, 0.7, 1.4)])
    t = np.linspace(0.2, 4, 15)
    y = decay(t, *truth) + 0.01 * random.standard_normal(t.size)
    poor = truth * np.exp(random.uniform(-0.6, 0.6, 2))
    free = [of.Parameter("k", float(poor[0])), of.Parameter("A", float(poor[1]) * unit)]
    given = data // 2 % 2 == 1
    problem = problem_of(TEXTS[data % 2], free, t, {"y": y * unit}, sigma=0.01 * unit if given else None)
    weight = 100.0 if given else 1.0
    return Case(
        problem,
        ("k", "A"),
        truth,
        lambda x: (decay(t, x[0], x[1]) - y) * weight,
        to_nice={"A": 1.0 / unit},
        unit=1.0 if given else unit,
    )


def exact(data: int, start: int) -> Case:
    """Return a line through data without noise, or through zeros alone, explicit or integrated."""
    random = random_for("exact data", data)
    unit = float(10.0 ** random.integers(-150, 151)) if data // 4 % 2 else 1.0
    slope = 0.0 if data // 2 % 2 else float(random.integers(1, 9))
    t = np.arange(1.0, 9.0)
    text = ("y = A*t", "x' = A\nx(0) = 0\ny = x")[data % 2]
    free = [of.Parameter("A", (slope + log_uniform(random, 0.1, 10.0)) * unit)]
    return Case(
        problem_of(text, free, t, {"y": slope * t * unit}),
        ("A",),
        np.array([slope]),
        lambda x: (x[0] - slope) * t,
        to_nice={"A": 1.0 / unit},
        unit=unit,
        positive=False,
        floor=1e-12,  # 1e-7 of the data
        statistics=False,  # there is no noise
    )


FAMILIES = (
    Family("sizes", "data from 1e-170 to 1e154", 160, size),
    Family("exact data", "lines through exact data and through zeros", 40, exact),
)
