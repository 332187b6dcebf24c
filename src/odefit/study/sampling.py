"""Where many fits start: Latin hypercube samples on the scales of the parameters.

The box is that of the bounds.  Where a bound is infinite it reaches from the start value

* on a logarithmic scale: a factor 100 up and down;
* on a linear scale: from zero to ten times the start value, which keeps its sign; if that is zero, ten times as far to
  both sides as would change the residual at the start by its own size (-10 to 10 if nothing would).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from odefit.compile import compile_problem
from odefit.errors import ProblemError
from odefit.problem import Problem
from odefit.solve import Failed, Scaling
from odefit.transcribe import SingleShooting

Array = npt.NDArray[np.float64]

_FACTOR = 100.0
_TIMES = 10.0
_MOST_VALUES = 10_000_000


def start_box(problem: Problem) -> tuple[Array, Array]:
    """Return the box of start values on the solver's scale, finite."""
    compiled = compile_problem(problem)
    lower, upper = compiled.theta_lower.copy(), compiled.theta_upper.copy()
    start = compiled.theta_start
    sizes = _sizes(problem, start, compiled.logarithmic).tolist()
    for i, (x, size, scale) in enumerate(zip(start.tolist(), sizes, compiled.theta_scales, strict=True)):
        low, high = _reach(x, size, scale)
        lower[i] = lower[i] if math.isfinite(lower[i]) else min(low, upper[i])
        upper[i] = upper[i] if math.isfinite(upper[i]) else max(high, lower[i])
    return lower, upper


def _sizes(problem: Problem, start: Array, logarithmic: npt.NDArray[np.bool_]) -> Array:
    """Return the sizes of the unknowns; that of one that starts at zero is told by its influence on the data there."""
    scaling = Scaling(start, logarithmic)
    if not np.all(start[~logarithmic]):
        objective = SingleShooting(problem)
        objective.refresh(start)
        point = objective.evaluate(start, 1)
        if not isinstance(point, Failed):
            scaling.learn(point)
    return scaling.of(start)


def _reach(x: float, size: float, scale: str) -> tuple[float, float]:
    if scale == "log":
        return x - math.log(_FACTOR), x + math.log(_FACTOR)
    if scale == "log10":
        return x - math.log10(_FACTOR), x + math.log10(_FACTOR)
    if scale == "logit":  # from 1 % to 99 % of the width of the bounds
        return -math.log(99.0), math.log(99.0)
    return (min(0.0, _TIMES * x), max(0.0, _TIMES * x)) if x else (-_TIMES * size, _TIMES * size)


def latin_hypercube(n: int, dimension: int, seed: int) -> Array:
    """Return `n` points of the unit cube, (n, dimension): in each direction one in every n-th part.

    They are those of `scipy.stats.qmc.LatinHypercube`, whose import takes longer than many a study.
    """
    rng = np.random.default_rng(seed)
    within = rng.uniform(size=(n, dimension))
    parts = np.tile(np.arange(1, n + 1), (dimension, 1))
    for part in parts:
        rng.shuffle(part)
    return (parts.T - within) / max(n, 1)


def sample_starts(problem: Problem, n: int, seed: int) -> list[dict[str, float]]:
    """Return `n` starts by slot, natural values; the first is the problem's own."""
    compiled = compile_problem(problem)
    if n * len(compiled.theta_names) > _MOST_VALUES:
        most = _MOST_VALUES // len(compiled.theta_names)
        raise ProblemError(
            f"{n} starts of {len(compiled.theta_names)} parameters are more than fit into memory; {most} do."
        )
    lower, upper = start_box(problem)
    points = [compiled.theta_start, *(lower + latin_hypercube(n - 1, len(lower), seed) * (upper - lower))]
    starts = []
    for point in points:
        natural = np.clip(compiled.to_natural(point)[0], compiled.lower, compiled.upper)
        starts.append(dict(zip(compiled.theta_names, natural.tolist(), strict=True)))
    return starts
