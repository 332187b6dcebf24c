"""The same problems in other units of parameters, data and time, by powers of ten between 1e-30 and 1e30.

A fit must not depend on units.  Every second case gives the absolute tolerance in the units of the state; the others
leave it to the default.  The same data are fitted from the same start in nice units, and the results compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import odefit as of
from benchmarks.reliability.case import Case, Family, log_uniform, problem_of, random_for
from benchmarks.reliability.families.closed_forms import decay, saturated, second
from odefit.strategy import FitResult

Array = npt.NDArray[np.float64]

NAME = "units"
_APART = 0.01  # difference of estimates, in standard errors, that units may not make


class Kinetics(NamedTuple):
    """A model with the factor `c` on its rates; `dimensions` are powers of (state, time, rate unit) by parameter."""

    text: str
    curve: Callable[..., Array]
    truth: dict[str, float]
    dimensions: dict[str, tuple[int, int, int]]


MODELS = (
    Kinetics("x' = -k*c*x\nx(0) = A\ny = x", decay, {"k": 0.7, "A": 1.3}, {"k": (0, -1, 1), "A": (1, 0, 0)}),
    Kinetics(
        "x' = -V*c*x/(K + x)\nx(0) = A\ny = x",
        saturated,
        {"V": 0.8, "K": 0.6, "A": 2.0},
        {"V": (1, -1, 1), "K": (1, 0, 0), "A": (1, 0, 0)},
    ),
    Kinetics(
        "a' = -k1*c*a\nb' = k1*c*a - k2*c*b\na(0) = A\nb(0) = 0\ny = b",
        second,
        {"k1": 0.9, "k2": 0.3, "A": 1.5},
        {"k1": (0, -1, 1), "k2": (0, -1, 1), "A": (1, 0, 0)},
    ),
)


def make(data: int, start: int) -> Case:
    """Return one of the models in units of its own."""
    random = random_for(NAME, data)
    model = MODELS[data % len(MODELS)]
    names = tuple(model.truth)
    truth = np.array([value * log_uniform(random, 0.7, 1.4) for value in model.truth.values()])
    t = np.linspace(0.3, 6.0, 16)
    y = model.curve(t, *truth)
    sigma = log_uniform(random, 1e-4, 3e-2) * float(np.abs(y).max())
    y = y + sigma * random.standard_normal(t.size)
    begin = truth * np.exp(random.uniform(-0.7, 0.7, truth.size))
    scale, given = ("linear", "log")[data // 3 % 2], sigma if data // 6 % 2 else None
    exponents = random.integers(-30, 31, 3)
    if data // 12 % 2:  # one unit alone
        exponents[np.arange(3) != random.integers(3)] = 0
    unit_of = {name: float(10.0 ** np.dot(model.dimensions[name], exponents)) for name in names}
    state, time, rate = (float(10.0**e) for e in exponents)
    explicit = {"atol": 1e-9 * state} if data % 2 else {}

    def problem(units: dict[str, float], state: float, time: float, rate: float) -> of.Problem:
        free = [of.Parameter(n, float(x) * units[n], scale=scale) for n, x in zip(names, begin, strict=True)]
        fixed = of.Parameter("c", 1.0 / rate, fixed=True)
        noise = None if given is None else given * state
        return problem_of(model.text, [*free, fixed], t * time, {"y": y * state}, sigma=noise)

    return Case(
        problem(unit_of, state, time, rate),
        names,
        truth,
        lambda x: (model.curve(t, *x) - y) / (1.0 if given is None else given),
        settings=explicit,
        to_nice={name: 1.0 / unit for name, unit in unit_of.items()},
        unit=state if given is None else 1.0,
        claims=(_agrees_with(problem(dict.fromkeys(names, 1.0), 1.0, 1.0, 1.0)),),
    )


def _agrees_with(nice: of.Problem) -> Callable[[FitResult, Case], str]:
    def differs(result: FitResult, case: Case) -> str:
        plain = of.fit(nice)
        if not plain.converged:
            return ""
        there, here = case.nice(result.estimates), np.array([plain.estimates[name] for name in case.names])
        errors = plain.standard_errors("independent")
        for name, a, b in zip(case.names, there, here, strict=True):
            if abs(a - b) > _APART * errors[name]:
                return f"{name} depends on units: {a:.6g} and {b:.6g}, standard error {errors[name]:.2g}"
        return ""

    return differs


FAMILIES = (Family(NAME, "powers of ten from 1e-30 to 1e30 on parameters, data and time", 420, make),)
