"""Twenty starts each, of problems on which they end with different statuses."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import odefit as of
from benchmarks.reliability.case import Case, Family, log_uniform, problem_of, random_for
from benchmarks.reliability.families.closed_forms import decay, second
from odefit.strategy import FitResult

Array = npt.NDArray[np.float64]

_SAME = 1e-3


def _cosine(t: Array, w: float, a: float) -> Array:
    return a * np.cos(w * t)


def _two_decays(t: Array, k: float, a: float, m: float, b: float) -> Array:
    return decay(t, k, a) + decay(t, m, b)


MODELS = (
    ("x' = v\nv' = -w^2*x\nx(0) = a\nv(0) = 0\ny = x", _cosine, {"w": 2.0, "a": 1.0}),
    ("u' = -k*u\nv' = -m*v\nu(0) = a\nv(0) = b\ny = u + v", _two_decays, {"k": 0.2, "a": 1.0, "m": 3.0, "b": 2.0}),
    ("u' = -p*u\nv' = p*u - q*v\nu(0) = a\nv(0) = 0\ny = v", second, {"p": 2.0, "q": 0.2, "a": 1.0}),
)


def make(data: int, start: int) -> Case:
    """Return a problem whose parameters may lie eight decades around the truth."""
    random = random_for("many starts", data)
    text, curve, typical = MODELS[data % len(MODELS)]
    names = tuple(typical)
    truth = np.array([value * log_uniform(random, 0.7, 1.4) for value in typical.values()])
    t = np.linspace(0.3, 9, 30)
    clean = curve(t, *truth)
    y = clean + 0.02 * float(np.abs(clean).max()) * random.standard_normal(t.size)
    poor = truth * 10.0 ** random.uniform(-2, 2, truth.size)
    free = [
        of.Parameter(n, float(b), float(x * 1e-4), float(x * 1e4), scale="log")
        for n, b, x in zip(names, poor, truth, strict=True)
    ]
    problem = problem_of(text, free, t, {"y": y}, max_steps=5000)
    options = {"starts": 20, "seed": data, "workers": 1}
    return Case(
        problem, names, truth, lambda x: curve(t, *x) - y, options=options, claims=(_not_the_lowest,),
        excused=("multistart.lower",),
    )  # fmt: skip


def _not_the_lowest(result: FitResult, case: Case) -> str:
    assert result.multistart is not None
    lowest = min((run for run in result.multistart.runs if np.isfinite(run.objective)), key=lambda run: run.objective)
    if result.objective <= lowest.objective * (1.0 + _SAME):
        return ""
    return f"start {lowest.number} ended at {lowest.objective:.6g} ({lowest.status}), not {result.objective:.6g}"


FAMILIES = (Family("many starts", "20 starts in boxes of eight decades", 48, make),)
