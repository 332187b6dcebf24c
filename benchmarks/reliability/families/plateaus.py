"""Starts on plateaus: one parameter on a log or logit scale begins up to 14 decades from the truth."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.special import expit

import odefit as of
from benchmarks.reliability.case import Case, Family, log_uniform, problem_of, random_for
from benchmarks.reliability.families.closed_forms import decay, logistic, saturated, second

Array = npt.NDArray[np.float64]

_DECADES = 14.0
_WIDTH = 3.0  # upper bound of a logit parameter, in true values

Curve = Callable[..., Array]
MODELS: tuple[tuple[str, Curve, dict[str, float]], ...] = (
    ("x' = -k*x\nx(0) = A\ny = x", decay, {"k": 0.7, "A": 1.5}),
    ("x' = r*x*(1 - x/K)\nx(0) = A\ny = x", logistic, {"r": 1.2, "K": 2.0, "A": 0.1}),
    ("x' = -V*x/(K + x)\nx(0) = A\ny = x", saturated, {"V": 0.8, "K": 0.6, "A": 2.0}),
    ("a' = -p*a\nb' = p*a - q*b\na(0) = A\nb(0) = 0\ny = b", second, {"p": 0.9, "q": 0.3, "A": 1.5}),
)


def make(data: int, start: int) -> Case:
    """Return a case in which one parameter begins far away, and the others within a factor of 2."""
    random = random_for("plateaus", data)
    text, curve, typical = MODELS[data % len(MODELS)]
    names = tuple(typical)
    truth = np.array([value * log_uniform(random, 0.6, 1.6) for value in typical.values()])
    t = np.linspace(0.3, 6, 20)
    clean = curve(t, *truth)
    y = clean + log_uniform(random, 1e-3, 3e-2) * float(clean.max()) * random.standard_normal(t.size)
    far = int(random.integers(len(names)))
    begin = truth * np.exp(random.uniform(-0.7, 0.7, truth.size))
    logit = data // 4 % 2 == 1
    if logit:
        begin[far] = _WIDTH * truth[far] * expit(random.uniform(-1, 1) * _DECADES * np.log(10.0))
    else:
        begin[far] = truth[far] * 10.0 ** random.uniform(-_DECADES, _DECADES)
    free = [
        of.Parameter(name, float(b), 0.0, float(_WIDTH * true), scale="logit")
        if logit and i == far
        else of.Parameter(name, float(b), scale="log")
        for i, (name, b, true) in enumerate(zip(names, begin, truth, strict=True))
    ]
    method = "incremental" if data // 8 % 2 else "single"
    return Case(
        problem_of(text, free, t, {"y": y}), names, truth, lambda x: curve(t, *x) - y, options={"method": method}
    )


FAMILIES = (Family("plateaus", "one log or logit parameter from 1e-14 to 1e14 times the truth", 320, make),)
