"""One experiment of a problem, solved as the problem's settings say."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem, Seeds
from odefit.integrate import Run, Status, Trajectory, integrator, piece_ends
from odefit.integrate.equilibration import AT_ONCE, Rest, begun_at_rest, equilibrate, not_begun
from odefit.integrate.interval_outputs import outputs_of
from odefit.integrate.sizes import aims_of
from odefit.native.stop import StopFlag, raise_on_interrupt
from odefit.problem import Problem, Settings

Array = npt.NDArray[np.float64]
_DEFAULT_RTOL = Settings().rtol


def experiment_aims(compiled: CompiledProblem, settings: Settings, e: int) -> Array:
    """Return the absolute tolerances that are asked for in experiment number `e`; see `odefit.integrate.sizes`.

    Below the default of rtol, those that are not given are tightened along with it.
    """
    variant, tighter = compiled.variant(e), min(1.0, settings.rtol / _DEFAULT_RTOL)
    aims = aims_of(settings.atol, variant.model.states, variant.relative, variant.model.gathering.gained)
    return np.where(aims < 0.0, aims * tighter, aims)


def seeds_of(
    compiled: CompiledProblem, settings: Settings, theta: Array, e: int, order: int, stop: StopFlag
) -> tuple[Seeds, Rest]:
    """Return what experiment number `e` runs with, from where its equilibration came to rest if it has one.

    Seeds are those of its own initial state where the status of that rest is not OK.
    """
    seeds, start = compiled.parameters(theta, e, order), compiled.structure.starts_from_rest[e]
    if start is None:
        return seeds, AT_ONCE
    run, structure = start.run, compiled.structure
    tables = structure.tables[run]
    rest = equilibrate(
        integrator(settings.integrator), compiled.model(run), compiled.parameters(theta, run, order),
        structure.laws(run, compiled.slot_start), tables.new_inputs(), n_slots=tables.n_slots, rtol=settings.rtol,
        aims=experiment_aims(compiled, settings, run), order=order, max_steps=settings.max_steps, stop=stop,
    )  # fmt: skip
    return (begun_at_rest(seeds, start, rest) if rest.status is Status.OK else seeds), rest


def solve_experiment(
    problem: Problem,
    compiled: CompiledProblem,
    theta: Array,
    e: int,
    times: Array,
    order: int = 0,
    *,
    begin: Array | None = None,
    after: bool = False,
) -> tuple[Seeds, Trajectory]:
    """Solve experiment number `e` at `theta`.

    Ctrl-C raises `KeyboardInterrupt` while native code runs: half a solution is worth nothing.

    Parameters
    ----------
    begin
        Where the interval that ends at each of the times begins, for aggregates of the model; equal times are sorted
        by it.
    after
        States are those after the events at a time.

    Returns
    -------
    seeds, trajectory
        What the experiment ran with, and the solution at the times, with derivatives up to `order`.
    """
    settings, stop = problem.settings, StopFlag()
    with raise_on_interrupt(stop):
        seeds, rest = seeds_of(compiled, settings, theta, e, order, stop)
    if rest.status is not Status.OK:
        return seeds, not_begun(rest, times.size, order)
    t0, tables, u = problem.experiments[e].start, compiled.structure.tables[e], compiled.new_inputs(e)
    outputs = None
    if begin is not None and compiled.model(e).gathering.has_intervals:
        outputs = outputs_of(times, np.zeros(times.size, bool), begin, t0)
        times = outputs.times
    run = Run.of(seeds, t0, times, piece_ends(t0, times, tables.jumps)).with_tables(tables, u)
    run = run._replace(occurrences=compiled.structure.occurrences[e])
    if outputs is not None:
        run = run._replace(since=outputs.since, remember=outputs.remember, n_slots=outputs.n_slots)
    if after:
        ends = run.ends if times[-1] > t0 else np.array([t0])
        run = run._replace(after=np.ones(times.size, np.int64), ends=ends)
    with raise_on_interrupt(stop):
        trajectory = integrator(settings.integrator).solve(
            compiled.model(e), run, rtol=settings.rtol, atol=experiment_aims(compiled, settings, e),
            max_step=settings.max_step, max_steps=settings.max_steps, order=order, stop=stop,
        )  # fmt: skip
    if outputs is not None:
        kept = {name: getattr(trajectory, name)[outputs.at] for name in ("y", "S", "S2")}
        trajectory = trajectory._replace(**kept)
    if trajectory.status is Status.OUTSIDE_TABLE:
        trajectory = trajectory._replace(refusal=tables.refusal(u))
    return seeds, trajectory
