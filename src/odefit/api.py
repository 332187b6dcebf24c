"""What users call: load, simulate, fit, evaluate.  Composes the stages and holds no mathematics."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.compile import compile_problem, curves_of
from odefit.errors import OdefitError
from odefit.formats import load_problem
from odefit.integrate import Status
from odefit.integrate.experiment import solve_experiment
from odefit.native.stop import StopFlag, stop_on_interrupt
from odefit.problem import Problem
from odefit.solve import Solver, TraceRow
from odefit.strategy import FitResult, fit_by
from odefit.strategy.times import data_times
from odefit.study import StartRun, fit_from_many
from odefit.transcribe import Evaluator, PointEvaluation

if TYPE_CHECKING:
    import pandas as pd


class SimulationWarning(UserWarning):
    """A simulation ended early; the rows behind that time hold NaN."""


def load(path: str | Path) -> Problem:
    """Read a problem file with its data; see the language reference for what it may hold."""
    return load_problem(path)


def fit(
    problem: Problem,
    *,
    method: str | None = None,
    solver: str | Solver | None = None,
    start: str | None = None,
    starts: int | None = None,
    seed: int | None = None,
    workers: int | None = None,
    callback: Callable[[TraceRow], None] | None = None,
    progress: Callable[[StartRun, int], None] | None = None,
) -> FitResult:
    """Estimate the free parameters of `problem`.

    Parameters
    ----------
    method
        Strategy; the problem's own setting if None.
    solver
        Name of a solver, or a composition of one's own; the problem's own setting if None.
    start
        "auto": start values from the data, where these can tell them; "given": those of the problem; the
        problem's own setting if None.
    starts, seed
        Fit from that many start values drawn with that seed, and return the best, with all of them as
        `multistart`; the problem's own settings if None.
    workers
        Processes or threads for several starts; as many as there are cores if None.
    callback
        Called after each iteration of a single fit.
    progress
        Called after each fit of several, with its record and how many are done.

    Returns
    -------
    FitResult
        Its `status` says whether the fit converged; a numerical failure is a status, not an exception.
        Ctrl-C ends the fit early with the best point so far and the status "interrupted".
    """
    method = problem.settings.method if method is None else method
    count = problem.settings.starts if starts is None else starts
    if count < 1:
        raise OdefitError(f"starts = {count}; there must be at least one.")
    if count > 1:
        seed = problem.settings.seed if seed is None else seed
        problem.with_settings(starts=count, seed=seed)  # which checks them
        stop = StopFlag.shared()
        with stop_on_interrupt(stop):
            return fit_from_many(
                method, problem, starts=count, seed=seed, workers=workers, solver=solver, start=start,
                stop=stop, progress=progress,
            )  # fmt: skip
    stop = StopFlag()
    with stop_on_interrupt(stop):
        return fit_by(method, problem, solver=solver, start=start, stop=stop, callback=callback)


def simulate(
    problem: Problem,
    parameters: Mapping[str, float] | None = None,
    times: Sequence[float] | npt.NDArray[np.float64] | None = None,
) -> pd.DataFrame:
    """Solve the model at given parameter values.

    Parameters
    ----------
    parameters
        Natural values; start values are used for those not named.
    times
        Where to evaluate every experiment; by default the times of its data, or an even grid to its
        end if it has none.

    Returns
    -------
    DataFrame
        Columns experiment, time, then all states and definitions; aggregates over the interval of a measurement are
        those since the row before, or the start.  Where the integration could not
        go on, values are NaN and a `SimulationWarning` says why.
    """
    if parameters:
        problem = problem.at(parameters)
    compiled = compile_problem(problem)
    parts: list[_Part] = []
    for number, experiment in enumerate(problem.experiments):
        experiment_times = data_times(problem, experiment, times)
        seeds, trajectory = solve_experiment(
            problem, compiled, compiled.theta_start, number, experiment_times,
            begin=np.concatenate([[experiment.start], experiment_times[:-1]]),
        )  # fmt: skip
        if trajectory.status is not Status.OK:
            message = f"experiment '{experiment.name}': {trajectory.sentence(compiled.model(number))}"
            warnings.warn(message, SimulationWarning, stacklevel=2)
        curves = curves_of(problem, compiled, number, in_intervals=True)
        u = compiled.new_inputs(number)
        curves.begin(experiment.start, seeds.y0, seeds.p, u)
        values = curves.values(experiment_times, trajectory.y, seeds.p, u)
        refusal = compiled.structure.tables[number].refusal(u)
        if refusal and not np.isfinite(values).all():  # what is not taken of two branches does not matter
            warnings.warn(f"experiment '{experiment.name}': {refusal}", SimulationWarning, stacklevel=2)
        parts.append(_Part(experiment.name, experiment_times, curves.names, values))
    return _frame_of(parts)


class _Part(NamedTuple):
    """Curves of one experiment: values (m, k) of the names at the times (m,)."""

    experiment: str
    times: npt.NDArray[np.float64]
    names: tuple[str, ...]
    values: npt.NDArray[np.float64]


def _frame_of(parts: list[_Part]) -> pd.DataFrame:
    """Return the experiments below each other; what one of them has no curve of is NaN there."""
    import pandas as pd

    names = list(dict.fromkeys(name for part in parts for name in part.names))
    place = {name: column for column, name in enumerate(names)}
    values = np.full((sum(part.times.size for part in parts), len(names)), np.nan)
    first = 0
    for part in parts:
        rows = values[first : first + part.times.size]
        if part.names == parts[0].names:  # they come first
            rows[:, : len(part.names)] = part.values
        else:
            rows[:, [place[name] for name in part.names]] = part.values
        first += part.times.size
    # one block of numbers: a hundred columns one by one cost pandas more than the integrations
    frame = pd.DataFrame(values, columns=names)
    labels = np.array([part.experiment for part in parts], dtype=object)
    leading = {
        "time": np.concatenate([part.times for part in parts]),
        "experiment": np.repeat(labels, [part.times.size for part in parts]),
    }
    for name, column in leading.items():
        if name not in place:  # a definition of the model may be called so
            frame.insert(0, name, column)
    return frame


def evaluate(problem: Problem, parameters: Mapping[str, float] | None = None, order: int = 1) -> PointEvaluation:
    """Return residuals, objective and log likelihood at natural values, and with `order` 1 the Jacobian.

    Start values are used for parameters that are not named; fixed ones may be named, too.  See `Evaluator` for many
    evaluations of one problem.
    """
    return Evaluator(problem.with_start(**parameters) if parameters else problem).evaluate(order=order)
