"""What an event costs: a chain of compartments with many small doses beside the same one without any.

    python -m benchmarks.events

*An event in steps*: both runs take the same steps (none longer than a fourth of the time between two doses, which is
what limits them) and replay them with sensitivities; the difference, over the number of doses, in units of a step.
With a lag that is estimated, ends of pieces move, and output is more than interpolation; there are four directions
then, as many as the machine computes at once, so that a step costs what it does without.  *On a condition*: the same
doses when a clock, a state of its own, reaches a limit that is estimated; every step is searched for that.
*Steps of a restart*: how many more steps a run chooses that has the doses, for each of them.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import odefit as of
from benchmarks.tables import print_rows
from benchmarks.timing import best_cpu_seconds
from odefit.native.stop import StopFlag
from odefit.transcribe import SingleShooting

EQUATIONS = """
a' = -k1*a
b' = k1*a - k2*b + k3*c
c' = k2*b - k3*c - k4*c
a(0) = 5
b(0) = 1
c(0) = 0.5
"""
CLOCK = "w' = 1\nw(0) = 0\n"
ON_CONDITION = "when w > limit: a = a + 0.1, w = 0\n"
START = {"k1": 0.02, "k2": 0.05, "k3": 0.03, "k4": 0.02}
N_DOSES = 200


def chain(method: str, n_doses: int, *, lag: bool = False, further: str = "", **settings: float) -> SingleShooting:
    """Return the objective of a problem with so many doses, one each unit of time, and `further` equations."""
    times = np.linspace(0.5, N_DOSES + 0.5, 20)
    data = of.Measurements.from_columns(times, {"c": np.ones(times.size)})
    parameters = [of.Parameter(name, value, fixed=name == "k4") for name, value in START.items()]
    if lag:
        parameters.append(of.Parameter("lag", 0.3))
    if "limit" in further:
        parameters.append(of.Parameter("limit", 1.0))
    doses = [of.Dose(0.0, "a", 0.1, every=1.0, count=n_doses)] if n_doses else []
    problem = of.Problem(
        of.Model.from_text(EQUATIONS + further), parameters, data, (of.Experiment("main", events=doses),),
        lag={"a": "lag"} if lag and n_doses else {}, settings=of.Settings(integrator=method, **settings),
    )  # fmt: skip
    objective = SingleShooting(problem, StopFlag())
    objective.refresh(objective.compiled.theta_start)
    return objective


def replayed(objective: SingleShooting, points: list[np.ndarray]) -> None:
    """Evaluate at two points in turn: where it was last, everything is known."""
    for x in points:
        objective.evaluate(x, 1)


def measured(method: str) -> list[str]:
    """Return the row of one method."""
    even = {"rtol": 1e-3, "atol": 1e-3, "max_step": 0.25}
    kinds = {"none": chain(method, 0, **even), "fixed": chain(method, N_DOSES, **even)}
    kinds["lag"] = chain(method, N_DOSES, lag=True, **even)
    kinds["clock"] = chain(method, 0, further=CLOCK, **even)
    kinds["condition"] = chain(method, 0, further=CLOCK + ON_CONDITION, **even)
    points = {}
    for name, one in kinds.items():
        x = one.compiled.theta_start
        points[name] = [x * 1.0001, x * 0.9999]
    calls = {name: partial(replayed, one, points[name]) for name, one in kinds.items()}
    seconds = {name: value / 2 for name, value in best_cpu_seconds(calls, rounds=20).items()}
    step, more = {name: seconds[name] / kinds[name].n_steps for name in ("none", "clock")}, {}
    for name, beside in (("fixed", "none"), ("lag", "none"), ("condition", "clock")):
        more[name] = (seconds[name] / step[beside] - kinds[name].n_steps) / N_DOSES
    usual = [chain(method, n).n_steps for n in (0, N_DOSES)]
    return [
        method, f"{step['none'] * 1e6:.2f}", *(f"{more[name]:.1f}" for name in ("fixed", "lag", "condition")),
        f"{usual[0]}", f"{(usual[1] - usual[0]) / N_DOSES:.1f}",
    ]  # fmt: skip


def main() -> None:
    """Print the table."""
    head = ["method", "a step, us", "an event in steps", "with a lag", "on a condition", "steps without doses"]
    head += ["more steps per dose"]
    print_rows("What an event costs", head, [measured(method) for method in ("dopri5", "dop853", "ddm")])


if __name__ == "__main__":
    main()
