"""What users call: load, simulate, fit, evaluate.  Composes the stages and holds no mathematics."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from odefit.compile import compile_problem
from odefit.errors import OdefitError, ProblemError
from odefit.formats import load_problem
from odefit.integrate import Run, Status, integrator, segment_ends
from odefit.native.stop import StopFlag, stop_on_interrupt
from odefit.problem import Experiment, Problem
from odefit.solve import TraceRow
from odefit.strategy import FitResult, fit_by
from odefit.transcribe import SingleShooting
from odefit.transcribe.dense import DenseLinear

if TYPE_CHECKING:
    import pandas as pd

_POINTS = 101  # of a simulation that has neither times nor data


class SimulationWarning(UserWarning):
    """A simulation ended early; the rows behind that time hold NaN."""


def load(path: str | Path) -> Problem:
    """Read a problem file with its data; see the language reference for what it may hold."""
    return load_problem(path)


def fit(
    problem: Problem, *, method: str | None = None, callback: Callable[[TraceRow], None] | None = None
) -> FitResult:
    """Estimate the free parameters of `problem`.

    Parameters
    ----------
    method
        Strategy; the problem's own setting if None.
    callback
        Called after each iteration.

    Returns
    -------
    FitResult
        Its `status` says whether the fit converged; a numerical failure is a status, not an exception.
        Ctrl-C ends the fit early with the best point so far and the status "interrupted".
    """
    stop = StopFlag()
    chosen = problem.settings.method if method is None else method
    with stop_on_interrupt(stop):
        return fit_by(chosen, problem, stop=stop, callback=callback)


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
        Columns experiment, time, then all states and definitions.  Where the integration could not
        go on, values are NaN and a `SimulationWarning` says why.
    """
    import pandas as pd

    if parameters:
        problem = problem._with_parameters(
            {name: {"start": float(value), "fixed": True} for name, value in parameters.items()}
        )
    compiled = compile_problem(problem)
    settings = problem.settings
    parts = []
    for number, experiment in enumerate(problem.experiments):
        wanted = _times(problem, experiment, times)
        seeds = compiled.parameters(compiled.theta_start, number)
        run = Run(
            experiment.start, seeds.y0, seeds.p, np.empty(0), wanted, segment_ends(experiment.start, wanted),
            seeds.dy0, seeds.dp, seeds.d2y0, seeds.d2p,
        )  # fmt: skip
        trajectory = integrator(settings.integrator).solve(
            compiled.model, run, rtol=settings.rtol, atol=settings.atol, max_steps=settings.max_steps
        )
        if trajectory.status is not Status.OK:
            message = f"experiment '{experiment.name}': {trajectory.sentence(compiled.model)}"
            warnings.warn(message, SimulationWarning, stacklevel=2)
        columns: dict[str, Any] = {"experiment": experiment.name, "time": wanted}
        columns |= dict(zip(compiled.model.states, trajectory.y.T, strict=True))
        reached = np.isfinite(trajectory.y).all(axis=1)
        for name, values in compiled.definitions(wanted, trajectory.y, seeds.p).items():
            columns[name] = np.where(reached, values, np.nan)  # max(x, 0) of a missing x is missing as well
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def _times(problem: Problem, experiment: Experiment, times: Any) -> npt.NDArray[np.float64]:
    if times is not None:
        wanted = np.unique(np.asarray(times, dtype=float))
        if not np.isfinite(wanted).all():
            raise ProblemError("simulate was asked for a time that is not a finite number.")
        if wanted.size and wanted[0] < experiment.start:
            raise ProblemError(
                f"simulate was asked for the time {wanted[0]:g}, before experiment '{experiment.name}' starts "
                f"at {experiment.start:g}."
            )
        return wanted
    data = problem.measurements
    measured = np.unique(data.time[data.experiment == experiment.name])
    if measured.size:
        return measured
    end = experiment.until
    if math.isnan(end):
        end = float(data.time.max()) if len(data) else math.nan
    if not end > experiment.start:
        raise ProblemError(f"experiment '{experiment.name}' has no data and no end; give times or until = ...")
    return np.linspace(experiment.start, end, _POINTS)


@dataclass(frozen=True, eq=False)
class PointEvaluation:
    """An objective at one point, for other optimisers and samplers.

    Attributes
    ----------
    status, message
        "ok", or "failed" with the reason; then all numbers are NaN.
    residuals, jacobian
        Weighted residuals (N,), and their derivatives by the natural values of the free parameters (N, n).
    objective
        Half the sum of squares.
    """

    status: str
    message: str
    residuals: npt.NDArray[np.float64]
    jacobian: npt.NDArray[np.float64] | None
    objective: float


def evaluate(problem: Problem, parameters: Mapping[str, float] | None = None, order: int = 1) -> PointEvaluation:
    """Return residuals, and with `order` 1 their Jacobian, at the given natural values."""
    if order not in (0, 1):
        raise OdefitError(f"evaluate was asked for order {order}; residuals have orders 0 and 1.")
    if parameters:
        problem = problem.with_start(**parameters)
    objective = SingleShooting(problem)
    x = objective.compiled.theta_start
    objective.refresh(x)
    found = objective.evaluate(x, order)
    jacobian = None
    if order and isinstance(found.linear, DenseLinear):
        jacobian = found.linear.jacobian / objective.compiled.to_natural(x)[1]
    return PointEvaluation("failed" if found.failure else "ok", found.failure, found.residual, jacobian, found.value)
