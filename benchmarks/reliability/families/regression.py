"""Explicit models: offsets up to 1e9 times the signal, data of many digits.  Nothing is integrated, so nothing is lost.

References are minimised in extended precision: residuals in 80 bits, steps in 64, repeated until they vanish.  The end
is where J'r = 0, which is as far from the minimum as the columns of J are wrong, in standard errors: differences beside
an offset of 1e9 would lose two digits of a standard error.  Columns come from complex steps, Im f(p + ih)/h, in which
nothing cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

import odefit as of
from benchmarks.reliability.case import Case, Family, log_uniform, problem_of, random_for
from odefit.strategy import FitResult

Array = npt.NDArray[Any]

_DIGITS = 1e-6
_OF_ERRORS = 1e-4  # or that part of a standard error
_STEPS = 60
_COMPLEX_STEP = np.longdouble(1e-30)


def offset(t: Array, p: Array) -> Array:
    return p[0] + p[1] * np.exp(-p[2] * t)


def saturation(t: Array, p: Array) -> Array:
    return p[0] + p[1] * (1 - np.exp(-p[2] * t))


def peak(t: Array, p: Array) -> Array:
    return p[0] + p[1] * np.exp(-((t - p[2]) ** 2))


def rational(t: Array, p: Array) -> Array:
    return p[0] + p[1] * t / (p[2] + t)


MODELS: tuple[tuple[str, Callable[[Array, Array], Array], tuple[float, float]], ...] = (
    ("y = a + b*exp(-k*t)", offset, (0.4, 1.2)),
    ("y = a + b*(1 - exp(-k*t))", saturation, (0.4, 1.2)),
    ("y = a + b*exp(-(t - k)^2)", peak, (2.0, 3.0)),
    ("y = a + b*t/(k + t)", rational, (0.7, 2.0)),
)


def make(data: int, start: int) -> Case:
    """Return a curve of size b on an offset a, with noise from 1e-13 of everything to 1 % of the curve."""
    random = random_for("regression", data)
    text, curve, (low, high) = MODELS[data % len(MODELS)]
    a, b = log_uniform(random, 1e-2, 1e9), log_uniform(random, 0.5, 2.0)
    truth = np.array([a, b, log_uniform(random, low, high)])
    noise = b * log_uniform(random, 1e-8, 1e-2) if data // 4 % 2 else 1e-13 * (a + b)
    noise = max(noise, 1e-13 * (a + b))
    t = np.linspace(0.1, 6, 24)
    y = curve(t, truth) + noise * random.standard_normal(t.size)
    begin = np.array([a, *(truth[1:] * np.exp(random.uniform(-0.3, 0.3, 2)))])
    begin[0] = a + b * random.uniform(-1, 1)
    names = ("a", "b", "k")
    free = [of.Parameter(n, float(x)) for n, x in zip(names, begin, strict=True)]

    def residuals(x: Array) -> Array:
        long = np.asarray(x, np.longdouble)
        return np.asarray((curve(t.astype(np.longdouble), long) - y) / noise, float)

    return Case(
        problem_of(text, free, t, {"y": y}),
        names,
        truth,
        residuals,
        unit=noise,
        positive=False,
        floor=0.5 * t.size * (4.0 * np.finfo(float).eps * (a + b) / noise) ** 2,
        unexcused=("residuals.exact",),
        claims=(_digits(curve, t, y, tuple(truth)),),
    )


@cache
def minimum(curve: Callable[[Array, Array], Array], t: bytes, y: bytes, truth: tuple[float, ...]) -> Array:
    """Return the minimum in extended precision by Gauss-Newton steps from the true values."""
    times, values = (np.frombuffer(x).astype(np.longdouble) for x in (t, y))
    p = np.array(truth, np.longdouble)
    for _ in range(_STEPS):
        columns = [np.imag(curve(times, p + e)) / _COMPLEX_STEP for e in 1j * _COMPLEX_STEP * np.eye(p.size)]
        matrix = np.array(columns, float).T
        norms = np.linalg.norm(matrix, axis=0)
        right = np.asarray(curve(times, p) - values, float)
        p = p - (np.linalg.lstsq(matrix / norms, right, rcond=None)[0] / norms).astype(np.longdouble)
    return p


def _digits(
    curve: Callable[[Array, Array], Array], t: Array, y: Array, truth: tuple
) -> Callable[[FitResult, Case], str]:
    def missed(result: FitResult, case: Case) -> str:
        right = minimum(curve, t.tobytes(), y.tobytes(), truth).astype(float)
        found = np.array([result.estimates[name] for name in case.names])
        errors = result.standard_errors("independent")
        for name, a, b in zip(case.names, found, right, strict=True):
            if abs(a - b) > max(_DIGITS * abs(b), _OF_ERRORS * min(errors[name], abs(b))):
                return f"{name} is {b:.10g}, not {a:.10g}"
        return ""

    return missed


FAMILIES = (Family("regression", "explicit curves on offsets up to 1e9, data of up to 13 digits", 200, make),)
