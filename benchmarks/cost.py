"""What `ddm` costs: time against the number of sensitivities, and against the number of states of a sparse chain.

    python -m benchmarks.cost [most states]

The model is a chain of reactions, x_i' = k_i (x_{i-1} - x_i) - c x_i^2, with rates that differ by powers of ten.  The
slope is that of the logarithms between a row and the one above: 0 is for free, 1 is proportional.
"""

from __future__ import annotations

import math
import sys
import time
from functools import partial

import numpy as np

import odefit as of
from benchmarks.tables import print_rows
from benchmarks.timing import best_cpu_seconds
from odefit.compile import CompiledModel, Seeds, compile_problem
from odefit.integrate import METHODS, Run, Status

COLUMNS = (1, 2, 4, 8, 16, 32, 64)
STATES = (10, 30, 100, 300, 1000, 3000, 10_000)
_PARAMETERS = {"a": 1.0, "b": 1e2, "c": 1e4, "d": 10.0}


def chain(n: int) -> CompiledModel:
    """Compile a chain of `n` states."""
    names = list(_PARAMETERS)
    lines = []
    for i in range(n):
        k = names[i % len(names)]
        inflow = f"x{i - 1}" if i else "1"
        lines += [f"x{i}' = {k}*({inflow} - x{i}) - 0.1*x{i}^2", f"x{i}(0) = 0"]
    unknowns = tuple(of.Parameter(name, value) for name, value in _PARAMETERS.items())
    data = of.Measurements.from_columns([0.0], {"x0": [0.0]})
    return compile_problem(of.Problem(of.Model.from_text("\n".join(lines)), unknowns, data)).model(0)


def run_of(model: CompiledModel, q: int) -> Run:
    """Make a run with `q` directions: the parameters first, then initial values."""
    n, n_p = model.n_states, len(model.parameters)
    seeds = np.eye(n_p + n, q) if q else np.zeros((n_p + n, 0))
    p = np.array([_PARAMETERS[name] for name in model.parameters])
    times = np.array([0.1, 1.0, 10.0])
    dp, dy0 = np.ascontiguousarray(seeds[:n_p] * p[:, None]), np.ascontiguousarray(seeds[n_p:])
    return Run.of(Seeds(p, np.zeros(n), dp, dy0, *model.no_pairs), 0.0, times)


def solve(model: CompiledModel, run: Run, order: int) -> int:
    """Solve, and return the number of steps."""
    trajectory = METHODS["ddm"].solve(model, run, rtol=1e-5, atol=1e-8, order=order)
    if trajectory.status is not Status.OK:
        raise RuntimeError(trajectory.sentence(model))
    return trajectory.counters.steps


def slope(x: float, y: float, before: tuple[float, float] | None) -> str:
    return "" if before is None else f"{math.log(y / before[1]) / math.log(x / before[0]):.2f}"


def against_columns(n: int = 50) -> None:
    model = chain(n)
    calls = {str(q): partial(solve, model, run_of(model, q), 1) for q in COLUMNS}
    best = best_cpu_seconds({"0": lambda: solve(model, run_of(model, 0), 0)} | calls, rounds=8)
    rows, before = [], None
    for q, seconds in best.items():
        extra = f"{(seconds - best['0']) / best['0']:.2f}"
        rows.append([q, f"{seconds * 1e6:.0f}", extra, slope(float(q), seconds, before)])
        before = (float(q), seconds) if q != "0" else None
    print_rows(f"A chain of {n} states", ["columns", "CPU us", "beyond states alone", "slope"], rows, text=0)


def against_states(most: int) -> None:
    rows, before = [], None
    for n in STATES:
        if n > most:
            break
        started = time.process_time()
        model = chain(n)
        compiled = time.process_time() - started
        run = run_of(model, 4)
        steps = solve(model, run, 1)
        best = best_cpu_seconds(
            {"states": lambda m=model, r=run: solve(m, r, 0), "both": lambda m=model, r=run: solve(m, r, 1)},
            rounds=5 if n < 3000 else 2,
        )
        both = best["both"]
        each = both / steps / n * 1e9
        row = [str(n), str(steps), f"{best['states'] * 1e6:.0f}", f"{both * 1e6:.0f}", f"{each:.0f}"]
        rows.append([*row, slope(n, both, before), f"{compiled:.1f}"])
        before = (n, both)
    header = ["states", "steps", "states alone us", "with 4 columns us", "ns a step and state", "slope", "compile s"]
    print_rows("Chains", header, rows, text=0)


def main() -> None:
    against_columns()
    against_states(int(sys.argv[1]) if len(sys.argv) > 1 else STATES[-1])


if __name__ == "__main__":
    main()
