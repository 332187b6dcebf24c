"""One experiment of a problem, solved as the problem's settings say."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem, CompiledStructure, Seeds
from odefit.compile.equilibria import last_change
from odefit.integrate import Run, Status, Trajectory, integrator, piece_ends
from odefit.integrate.equilibration import AT_ONCE, Rest, begun_at_rest, equilibrate, solution_at_rest
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


def ends_to_last_change(last: float, structure: CompiledStructure, e: int) -> Array:
    """Return the ends of the pieces to the last event of experiment `e`; none if nothing happens in it."""
    start = structure.experiment_starts[e]
    if last > start:
        return piece_ends(start, np.array([last]))
    return np.array([start]) if structure.occurrences[e].kind.size else np.empty(0)


def rest_of_experiment(
    problem: Problem, compiled: CompiledProblem, theta: Array, e: int, order: int, stop: StopFlag
) -> tuple[Seeds, Rest]:
    """Return what experiment number `e` runs with, and the steady state that it comes to behind its last event."""
    settings, structure, model = problem.settings, compiled.structure, compiled.model(e)
    last = last_change(problem, e, model)
    seeds, rest = seeds_of(compiled, settings, theta, e, order, stop)
    if rest.status is not Status.OK:
        return seeds, rest
    begin, tables, u = seeds, structure.tables[e], compiled.new_inputs(e)
    ends, aims = ends_to_last_change(last, structure, e), experiment_aims(compiled, settings, e)
    if ends.size:
        run = Run.of(seeds, structure.experiment_starts[e], ends[-1:], ends).with_tables(tables, u)
        run = run._replace(occurrences=structure.occurrences[e], after=np.ones(1, np.int64))
        way = integrator(settings.integrator).solve(
            model, run, rtol=settings.rtol, atol=aims, max_step=settings.max_step, max_steps=settings.max_steps,
            order=order, stop=stop,
        )  # fmt: skip
        end = way.y[0], way.S[0], way.S2[0]
        if way.status is not Status.OK:
            return seeds, Rest(way.status, way.t_end, way.cause, *end)
        begin = seeds._replace(y0=end[0], dy0=end[1], d2y0=end[2])
    rest = equilibrate(
        integrator(settings.integrator), model, begin, structure.laws(e, compiled.slot_start), u,
        n_slots=tables.n_slots, rtol=settings.rtol, aims=aims, order=order, max_steps=settings.max_steps, stop=stop,
    )  # fmt: skip
    return seeds, rest


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
    times
        Sorted; an infinite one is that of the steady state.
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
    finite = np.isfinite(times)
    if finite.all():
        return _solve_finite(problem, compiled, theta, e, times, order, begin, after=after)
    stop = StopFlag()
    with raise_on_interrupt(stop):
        seeds, rest = rest_of_experiment(problem, compiled, theta, e, order, stop)
    at_rest = solution_at_rest(rest, int(np.sum(~finite)), order)
    if not finite.any():
        return seeds, at_rest
    begin = None if begin is None else begin[finite]
    seeds, found = _solve_finite(problem, compiled, theta, e, times[finite], order, begin, after=after)
    both = {name: np.concatenate((getattr(found, name), getattr(at_rest, name))) for name in ("y", "S", "S2")}
    ending = found if found.status is not Status.OK else at_rest
    return seeds, found._replace(status=ending.status, t_end=ending.t_end, cause=ending.cause, **both)


def _solve_finite(
    problem: Problem,
    compiled: CompiledProblem,
    theta: Array,
    e: int,
    times: Array,
    order: int,
    begin: Array | None,
    *,
    after: bool,
) -> tuple[Seeds, Trajectory]:
    """Solve an experiment at finite times."""
    settings, stop = problem.settings, StopFlag()
    with raise_on_interrupt(stop):
        seeds, rest = seeds_of(compiled, settings, theta, e, order, stop)
    if rest.status is not Status.OK:
        return seeds, solution_at_rest(rest, times.size, order)
    t0, tables, u = problem.experiments[e].start, compiled.structure.tables[e], compiled.new_inputs(e)
    outputs = None
    if begin is not None and compiled.model(e).gathering.has_intervals:
        outputs = outputs_of(times, np.zeros(times.size, bool), begin, t0)
        times = outputs.times
    ends = piece_ends(t0, times, tables.jumps, entered=after or compiled.model(e).in_equations)
    run = Run.of(seeds, t0, times, ends).with_tables(tables, u)
    run = run._replace(occurrences=compiled.structure.occurrences[e])
    if outputs is not None:
        run = run._replace(since=outputs.since, remember=outputs.remember, n_slots=outputs.n_slots)
    if after:
        run = run._replace(after=np.ones(times.size, np.int64))
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
