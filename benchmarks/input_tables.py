"""What a long table costs: a thermal model driven by a current that was recorded once a second.

    python -m benchmarks.input_tables [rows]

The table is linear, so that a step ends at every row.  One evaluation with sensitivities, in which steps are chosen,
and one that replays them, are compared with the least that the method must compute: steps x stages x one call of the
model with its directions, measured in a loop over the same times.  Memory is the peak of the process above what it had
after the imports.
"""

from __future__ import annotations

import resource
import sys

import numpy as np
from numba import njit

import odefit as of
from benchmarks.tables import print_rows
from benchmarks.timing import best_cpu_seconds
from odefit.compile import CompiledModel
from odefit.native.calls import call_directions, call_model
from odefit.native.stop import StopFlag
from odefit.transcribe import SingleShooting

EQUATIONS = """
core' = (r*current(t)^2 - g*(core - skin))/300
skin' = (g*(core - skin) - h*(skin - 20))/40
core(0) = 20
skin(0) = 20
"""
START = {"r": 0.02, "g": 2.0, "h": 0.5}
STAGES = {"dopri5": 6, "dop853": 12}
"""Calls of the model in a step, whose first stage is the last one of the step before."""


def peak() -> float:
    """Return the most memory that the process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def drive(rows: int, method: str) -> of.Problem:
    """Make a problem whose current is a random walk of `rows` seconds."""
    rng = np.random.default_rng(1)
    current = 20 + 5 * np.sin(np.arange(rows + 1.0) / 40) + rng.normal(size=rows + 1)
    times = np.linspace(rows / 200, rows, 200)
    data = of.Measurements.from_columns(times, {"core": np.full(200, 30.0), "skin": np.full(200, 25.0)})
    return of.Problem(
        of.Model.from_text(EQUATIONS), tuple(of.Parameter(*pair) for pair in START.items()), data,
        tables={"current": of.Table(np.arange(rows + 1.0), current)}, settings=of.Settings(integrator=method),
    )  # fmt: skip


@njit
def _call_often(value, directions, times, y, p, u, seeds, f, s):
    """Call the right-hand side and its derivative in a block of four directions at many times."""
    for i in range(times.size):
        call_model(value, times[i], y, 0, p, u, f, 0)
        call_directions(directions, times[i], y, 0, p, u, s, 0, seeds, 0, s, 4 * y.size)
    return s[0]


def seconds_of_calls(model: CompiledModel, p: np.ndarray, u: np.ndarray, times: np.ndarray) -> float:
    """Return what one call of the model with its directions takes, mostly in order of time."""
    n = model.n_states
    y, f, s, seeds = np.full(n, 25.0), np.empty(n), np.zeros(8 * n), np.ones(4 * model.n_parameters)
    arguments = (model.rhs.value, model.rhs.directions, times, y, p, u, seeds, f, s)
    return best_cpu_seconds({"calls": lambda: _call_often(*arguments)}, rounds=20)["calls"] / times.size


def measured(rows: int, method: str) -> list[str]:
    """Return the row of one method."""
    objective = SingleShooting(drive(rows, method), StopFlag())
    compiled, x = objective.compiled, objective.compiled.theta_start
    objective.refresh(x)
    stages = (np.arange(rows)[:, None] + np.linspace(0.1, 0.9, STAGES[method])).reshape(-1)
    once = seconds_of_calls(compiled.model(0), compiled.parameters(x, 0).p, compiled.new_inputs(0), stages)
    least = objective.n_steps * STAGES[method] * once
    near = 1.0001 * x  # at the point itself the evaluation is known
    best = best_cpu_seconds(
        {"chosen": lambda: objective.refresh(x), "replayed": lambda: objective.evaluate(near, 1)}, rounds=10
    )
    row = [method, str(objective.n_steps), f"{1e9 * once:.0f}", f"{1e3 * least:.2f}"]
    return row + [text for t in best.values() for text in (f"{1e3 * t:.2f}", f"{t / least:.2f}")]


def main() -> None:
    rows, before = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000, peak()
    for method in STAGES:  # kernels are loaded, and code of the model is made
        SingleShooting(drive(20, method), StopFlag()).refresh(np.array(list(START.values())))
    found = [measured(rows, method) for method in STAGES]
    header = ["method", "steps", "a call ns", "all calls ms", "steps chosen ms", "ratio", "replayed ms", "ratio"]
    print_rows(f"A linear table of {rows} rows, a step a row", header, found)
    print(f"\nMemory: {peak() - before:.0f} MB above the imports")


if __name__ == "__main__":
    main()
