"""Conditions in time: pulses, lags and switching days, at tolerances from 1e-4 to 1e-10 and by every integrator.

Each model is linear between its times, so that its solution is known in closed form.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import odefit as of
from benchmarks.reliability.case import Case, Family, log_uniform, problem_of, random_for
from benchmarks.reliability.families.closed_forms import absorbed, infused

Array = npt.NDArray[np.float64]

INTEGRATORS = ("auto", "dopri5", "ddm", "auto", "rk32", "dop853", "bdf3")


def _settings(random: np.random.Generator, data: int) -> dict:
    name = INTEGRATORS[data % len(INTEGRATORS)]
    tightest = {"rk32": -6.0, "bdf3": -6.0}.get(name, -10.0)  # of low order
    rtol = 10.0 ** random.uniform(tightest, -4.0)
    return {"integrator": name, "rtol": rtol, "atol": 1e-2 * rtol}


def _resolved(problem: of.Problem) -> float:
    """Return the objective of what an integration at the tolerance of the problem may miss."""
    return 0.5 * (100.0 * problem.settings.rtol * float(np.linalg.norm(problem.measurements.value))) ** 2


def pulse(data: int, start: int) -> Case:
    """Return an infusion at a known time, 0.01 to 1 long: dose and elimination are free."""
    random = random_for("pulses", data)
    width, begin = log_uniform(random, 0.01, 1.0), random.uniform(2, 12)
    truth = np.array([log_uniform(random, 0.1, 0.5), log_uniform(random, 1.0, 5.0)])
    t = np.linspace(0.7, 24, 30)
    clean = infused(t, truth[0], truth[1], begin, width)
    y = clean + 0.02 * float(clean.max()) * random.standard_normal(t.size)
    poor = truth * np.exp(random.uniform(-0.7, 0.7, 2))
    text = "x' = if(t >= begin and t < begin + width, dose/width, 0) - k*x\nx(0) = 0\ny = x"
    parameters = [
        of.Parameter("k", float(poor[0])),
        of.Parameter("dose", float(poor[1])),
        of.Parameter("begin", begin, fixed=True),
        of.Parameter("width", width, fixed=True),
    ]
    problem = problem_of(text, parameters, t, {"y": y}, **_settings(random, data))
    return Case(
        problem, ("k", "dose"), truth, lambda x: infused(t, x[0], x[1], begin, width) - y, floor=_resolved(problem)
    )


def lag(data: int, start: int) -> Case:
    """Return absorption that begins at an unknown time."""
    random = random_for("lags", data)
    truth = np.array([log_uniform(random, 0.8, 2.0), log_uniform(random, 0.1, 0.4), random.uniform(1.0, 3.0)])
    t = np.sort(random.uniform(0.3, 16, 30))
    clean = absorbed(t, truth[0], truth[1], 5.0, truth[2], 0.5)
    y = clean + 0.02 * float(clean.max()) * random.standard_normal(t.size)
    poor = truth * np.exp(random.uniform(-0.4, 0.4, 3))
    text = "g' = if(t >= lag and t < lag + 0.5, 10, 0) - ka*g\nc' = ka*g - k*c\ng(0) = 0\nc(0) = 0\ny = c"
    names = ("ka", "k", "lag")
    parameters = [of.Parameter(n, float(b), 1e-3, 20.0) for n, b in zip(names, poor, strict=True)]
    problem = problem_of(text, parameters, t, {"y": y}, **_settings(random, data))
    return Case(problem, names, truth, lambda x: absorbed(t, x[0], x[1], 5.0, x[2], 0.5) - y, floor=_resolved(problem))


def day(data: int, start: int) -> Case:
    """Return growth whose rate changes on an unknown day."""
    random = random_for("switching days", data)
    truth = np.array([random.uniform(0.15, 0.3), random.uniform(-0.2, 0.0), random.uniform(8.0, 20.0)])
    t = np.arange(1.0, 31.0)

    def curve(x: Array) -> Array:
        return np.exp(x[0] * np.minimum(t, x[2]) + x[1] * np.maximum(t - x[2], 0.0))

    clean = curve(truth)
    y = clean + 0.02 * float(clean.max()) * random.standard_normal(t.size)
    poor = truth * np.exp(random.uniform(-0.3, 0.3, 3))
    names = ("r1", "r2", "day")
    parameters = [
        of.Parameter("r1", float(poor[0])),
        of.Parameter("r2", float(poor[1])),
        of.Parameter("day", float(poor[2]), 0.0, 30.0),
    ]
    problem = problem_of(
        "x' = if(t < day, r1, r2)*x\nx(0) = 1\ny = x", parameters, t, {"y": y}, **_settings(random, data)
    )
    return Case(problem, names, truth, lambda x: curve(x) - y, positive=False, floor=_resolved(problem))


def last(data: int, start: int) -> Case:
    """Return a stiff model whose condition changes where the run ends, or at one of the data."""
    random = random_for("ends", data)
    truth = np.array([log_uniform(random, 0.05, 0.2), log_uniform(random, 0.5, 2.0)])
    fast, end = log_uniform(random, 1e1, 1e5), 60.0
    t = np.linspace(3.0, end, 20)
    switch = end if data % 2 else float(t[int(random.integers(8, 16))])
    after = log_uniform(random, 1e2, 1e8) if data % 2 else 0.0  # what lies behind the end must not be seen

    def curve(x: Array) -> Array:
        return infused(t, x[0], x[1] * switch, 0.0, switch)

    clean = curve(truth)
    y = clean + 0.01 * float(clean.max()) * random.standard_normal(t.size)
    poor = truth * np.exp(random.uniform(-0.7, 0.7, 2))
    text = "x' = if(t < end, v, after) - k*x\nz' = -fast*(z - x)\nx(0) = 0\nz(0) = 0\ny = x"
    parameters = [
        of.Parameter("k", float(poor[0])),
        of.Parameter("v", float(poor[1])),
        of.Parameter("end", switch, fixed=True),
        of.Parameter("fast", fast, fixed=True),
        of.Parameter("after", after, fixed=True),
    ]
    problem = problem_of(text, parameters, t, {"y": y}, integrator=("auto", "ddm")[data // 2 % 2])
    return Case(problem, ("k", "v"), truth, lambda x: curve(x) - y)


FAMILIES = (
    Family("pulses", "an infusion 0.01 to 1 long in 24, rtol 1e-10 to 1e-4, every integrator", 98, pulse),
    Family("lags", "absorption that begins at a free time", 98, lag),
    Family("switching days", "growth whose rate changes on a free day", 98, day),
    Family("ends", "a stiff model that changes where the run or a measurement ends", 40, last),
)
