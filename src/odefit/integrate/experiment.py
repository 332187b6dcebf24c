"""One experiment of a problem, solved as the problem's settings say."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem, Seeds
from odefit.integrate import Run, Status, Trajectory, integrator, piece_ends
from odefit.native.stop import StopFlag, raise_on_interrupt
from odefit.problem import Problem

Array = npt.NDArray[np.float64]


def solve_experiment(
    problem: Problem, compiled: CompiledProblem, theta: Array, e: int, times: Array, order: int = 0
) -> tuple[Seeds, Trajectory]:
    """Solve experiment number `e` at `theta`.

    Ctrl-C raises `KeyboardInterrupt` while native code runs: half a solution is worth nothing.

    Returns
    -------
    seeds, trajectory
        What the experiment ran with, and the solution at the times, with derivatives up to `order`.
    """
    settings, stop = problem.settings, StopFlag()
    seeds = compiled.parameters(theta, e, order)
    t0, tables, u = problem.experiments[e].start, compiled.structure.tables[e], compiled.new_inputs(e)
    run = Run.of(seeds, t0, times, piece_ends(t0, times, tables.jumps)).with_tables(tables, u)
    with raise_on_interrupt(stop):
        trajectory = integrator(settings.integrator).solve(
            compiled.model(e), run, rtol=settings.rtol, atol=settings.atol, max_steps=settings.max_steps, order=order,
            stop=stop,
        )  # fmt: skip
    if trajectory.status is Status.OUTSIDE_TABLE:
        trajectory = trajectory._replace(refusal=tables.refusal(u))
    return seeds, trajectory
