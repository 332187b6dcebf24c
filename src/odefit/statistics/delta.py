"""The delta method: uncertainty of what is computed from the estimates.

A quantity g(theta) with gradient G has, to first order, the variance G C G' for the covariance C of theta.
Parameters at a bound have no variance; a quantity that depends on an undetermined one has none that exists.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem, curves_of
from odefit.integrate import Status
from odefit.integrate.experiment import solve_experiment
from odefit.problem import Problem
from odefit.statistics.covariance import ParameterStatistics

Array = npt.NDArray[np.float64]


class Estimate(NamedTuple):
    """A number with its standard error and 95 % interval; None where they do not exist."""

    estimate: float
    standard_error: float | None
    interval: tuple[float, float] | None


def standard_errors(gradients: Array, covariance: Array) -> Array:
    """Return the standard errors of quantities with these gradients (..., n)."""
    # a NaN of the covariance matters only where the gradient does not vanish
    undetermined = np.isnan(np.diag(covariance))
    touched = np.any(gradients[..., undetermined] != 0.0, axis=-1)
    clean = np.where(np.isnan(covariance), 0.0, covariance)
    variance = np.einsum("...i,ij,...j->...", gradients, clean, gradients)
    return np.where(touched, np.nan, np.sqrt(np.maximum(variance, 0.0)))


def with_interval(value: float, error: float, quantile: float) -> Estimate:
    """Return a symmetric interval."""
    if not np.isfinite(value * error * quantile):
        return Estimate(value, None, None)
    return Estimate(value, error, (value - quantile * error, value + quantile * error))


class Band(NamedTuple):
    """Curves of one experiment: values and standard errors (m, k) of the names at the times."""

    experiment: str
    times: Array
    names: tuple[str, ...]
    values: Array
    errors: Array
    failure: str


def prediction_band(
    problem: Problem,
    compiled: CompiledProblem,
    theta: Array,
    statistics: ParameterStatistics | None,
    e: int,
    times: Array,
    row_slots: npt.NDArray[np.int64] | None = None,
) -> Band:
    """Return all states and definitions of experiment number `e`, with standard errors of the curves.

    Parameters
    ----------
    row_slots
        The slots of one measurement (see `Observation`): curves of what depends on the measurement are then those
        of measurements like it; without, they are left out.
    """
    order = 1 if statistics is not None else 0
    seeds, trajectory = solve_experiment(problem, compiled, theta, e, times, order)
    curves = curves_of(problem, compiled, e, by_row=row_slots is not None)
    indices = np.empty(0, dtype=np.int64) if row_slots is None else row_slots
    slots, slopes = compiled.slot_values(theta)
    a = slots[indices]
    values = curves.values(times, trajectory.y, seeds.p, a)
    errors = np.full(values.shape, np.nan)
    if statistics is not None:
        da = np.zeros((indices.size, compiled.n_theta))
        place = compiled.theta_of_q[indices]
        free = np.flatnonzero(place >= 0)
        da[free, place[free]] = slopes[indices[free]]
        dp = compiled.all_derivatives(theta, e)
        by_theta = curves.derivatives(times, trajectory.y, trajectory.S, compiled.columns[e], seeds.p, dp, a, da)
        errors = standard_errors(by_theta, statistics.covariance)
    failure = "" if trajectory.status is Status.OK else trajectory.sentence(compiled.model(e))
    return Band(problem.experiments[e].name, times, curves.names, values, errors, failure)
