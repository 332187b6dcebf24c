"""A case: a fit whose right answer is known by other means than odefit's.

A family is a seeded generator of cases.  Each case brings, beside the problem that odefit is given, a function of its
own that computes the weighted residuals at given values of the parameters: a closed form where there is one, else the
model integrated at much tighter tolerances.  It works in *nice* units, in which true values and data are near 1, so
that nothing overflows or underflows there.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import odefit as of
from odefit.strategy import FitResult

Array = npt.NDArray[np.float64]
Residuals = Callable[[Array], Array]

TIGHT = {"rtol": 1e-11, "atol": 1e-13}


@dataclass(frozen=True, eq=False)
class Case:
    """A problem and what is known about it.

    Attributes
    ----------
    problem, settings, options
        What `of.fit` is given; settings are made part of the problem then, since they may be refused.
    names, truth
        The free parameters, and their true values in nice units.
    residuals
        Weighted residuals at parameters in nice units, NaN where the model has no value.
    to_nice
        What an estimate is multiplied by to have nice units, by name; 1 where it is not named.
    unit
        What residuals in nice units are multiplied by to be those of the problem.
    positive
        Whether all parameters are positive, so that logarithms may be tried as well.
    floor
        Difference of objectives (nice units) that is of no consequence: what rounding and integration make.
    claims
        Further tests of what is reported: each returns what is wrong, or "".
    statistics
        Whether standard errors and verdicts are to be compared with those of `residuals`.
    step
        Relative step of finite differences of `residuals`.
    around
        Factors of the true values from which the best objective is looked for.
    excused, unexcused
        Codes of notices that say, in this family more or less than in others, that the answer may be wrong.
    """

    problem: of.Problem
    names: tuple[str, ...]
    truth: Array
    residuals: Residuals
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    to_nice: Mapping[str, float] = field(default_factory=dict)
    unit: float = 1.0
    positive: bool = True
    floor: float = 1e-20
    claims: tuple[Callable[[FitResult, Case], str], ...] = ()
    statistics: bool = True
    step: float = 1e-5
    around: tuple[float, ...] = (1.0, 1.1, 0.8)
    excused: tuple[str, ...] = ()
    unexcused: tuple[str, ...] = ()

    def nice(self, estimates: Mapping[str, float]) -> Array:
        """Return estimates as a vector in nice units."""
        return np.array([estimates.get(name, math.nan) * self.to_nice.get(name, 1.0) for name in self.names])

    def objective(self, x: Array) -> float:
        """Return half the sum of squares at parameters in nice units; inf where there is none."""
        with np.errstate(all="ignore"):
            value = 0.5 * float(np.sum(np.square(self.residuals(x)))) if np.isfinite(x).all() else math.nan
        return value if math.isfinite(value) else math.inf

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Bounds in nice units."""
        free = {p.name: p for p in self.problem.free}
        lower = [free[name].natural_lower * self.to_nice.get(name, 1.0) for name in self.names]
        upper = [free[name].upper * self.to_nice.get(name, 1.0) for name in self.names]
        return np.array(lower), np.array(upper)


@dataclass(frozen=True)
class Family:
    """A generator of cases.

    Attributes
    ----------
    name, about
        The name, and in a line what is varied.
    count
        How many cases a full run takes.
    make
        Case of a number of data and a number of a start for them.
    starts
        How many cases share their data, and with them the best known objective.
    """

    name: str
    about: str
    count: int
    make: Callable[[int, int], Case]
    starts: int = 1

    def case(self, seed: int) -> Case:
        """Return one of the cases, always the same for the same seed."""
        return self.make(*divmod(seed, self.starts))

    def data_of(self, seed: int) -> int:
        """Return which data a case has."""
        return seed // self.starts


def random_for(family: str, *numbers: int) -> np.random.Generator:
    """Return a generator of random numbers for a family and some numbers."""
    return np.random.default_rng([zlib.crc32(family.encode()), *numbers])


def log_uniform(random: np.random.Generator, low: float, high: float) -> float:
    """Return a number whose logarithm is uniform."""
    return float(np.exp(random.uniform(math.log(low), math.log(high))))


def problem_of(
    text: str,
    parameters: Sequence[of.Parameter],
    times: Array,
    values: Mapping[str, Array],
    *,
    sigma: float | None = None,
    **settings: Any,
) -> of.Problem:
    """Return a problem with one experiment, each observable of which was measured at all times."""
    n = times.size
    measurements = of.Measurements(
        experiment=["main"] * (n * len(values)),
        time=np.tile(times, len(values)),
        observable=np.repeat(list(values), n).tolist(),
        value=np.concatenate(list(values.values())),
        sigma=None if sigma is None else np.full(n * len(values), sigma),
    )
    return of.Problem(of.Model.from_text(text), tuple(parameters), measurements, settings=of.Settings(**settings))


def solution(
    text: str, parameters: Sequence[of.Parameter], times: Array, observed: Sequence[str], **settings: Any
) -> dict[str, Array]:
    """Return the observables at the start values, integrated as tightly as `integrated` does."""
    zeros = {name: np.zeros(times.size) for name in observed}
    problem = problem_of(text, parameters, times, zeros, **{**TIGHT, **settings})
    frame = of.simulate(problem, times=times)
    return {name: frame[name].to_numpy() for name in observed}


def with_noise(
    random: np.random.Generator, curves: Mapping[str, Array], sigma: float | Mapping[str, float]
) -> dict[str, Array]:
    """Return curves with independent normal errors."""
    sizes = sigma if isinstance(sigma, Mapping) else dict.fromkeys(curves, sigma)
    return {name: curve + sizes[name] * random.standard_normal(curve.size) for name, curve in curves.items()}


def integrated(problem: of.Problem, names: Sequence[str], **settings: Any) -> Residuals:
    """Return the residuals of a problem in nice units, integrated much more tightly than a fit does."""
    tight = {**TIGHT, **settings}
    unbounded = problem.with_bounds(**{p.name: (-math.inf, math.inf) for p in problem.free if p.scale != "logit"})
    evaluator = of.Evaluator(unbounded.with_settings(**tight))
    assert evaluator.names == tuple(names)
    return evaluator.residuals
