"""The delta method: uncertainty of what is computed from the estimates.

A quantity g(theta) with gradient G has, to first order, the variance G C G' for the covariance C of theta.
Parameters at a bound have no variance; a quantity that depends on an undetermined one has none that exists.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem, curves_of
from odefit.integrate import Status
from odefit.integrate.experiment import solve_experiment
from odefit.native.kernel import kernel
from odefit.problem import Problem
from odefit.statistics.covariance import ParameterStatistics
from odefit.transcribe.arguments import RowArguments

Array = npt.NDArray[np.float64]

_NO_SOURCES, _NO_NUMBERS = np.empty(0, dtype=np.int64), np.empty(0)


class Estimate(NamedTuple):
    """A number with its standard error and 95 % interval; None where they do not exist."""

    estimate: float
    standard_error: float | None
    interval: tuple[float, float] | None


def standard_errors(gradients: Array, covariance: Array) -> Array:
    """Return the standard errors of quantities with these gradients (..., n); NaN for those that do not exist."""
    out = np.empty(gradients.shape[:-1])
    rows = np.ascontiguousarray(gradients).reshape(out.size, covariance.shape[0])
    clean = np.where(np.isnan(covariance), 0.0, covariance)
    fill_errors(rows, clean, np.isnan(np.diag(covariance)), out.reshape(-1))
    return out


@kernel
def fill_errors(gradients, covariance, undetermined, out):
    """Fill `out` (k,) with the roots of g'Cg for the rows g of `gradients` (k, n).

    A curve depends on few of many parameters: zeros are left out.  What depends on an `undetermined` one has no error.
    """
    n = covariance.shape[0]
    place, value = np.empty(n, np.int64), np.empty(n)
    for k in range(out.size):
        size, exists = 0, True
        for i in range(n):
            if gradients[k, i] != 0.0:
                place[size], value[size] = i, gradients[k, i]
                exists = exists and not undetermined[i]
                size += 1
        variance = 0.0
        for a in range(size):
            row = 0.0
            for b in range(size):
                row += covariance[place[a], place[b]] * value[b]
            variance += row * value[a]
        out[k] = np.nan if not exists else 0.0 if variance <= 0.0 else math.sqrt(variance)


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
    arguments: RowArguments | None = None,
    *,
    names: tuple[str, ...] = (),
    begin: Array | None = None,
    after: bool = False,
) -> Band:
    """Return all states and definitions of experiment number `e`, with standard errors of the curves.

    Parameters
    ----------
    arguments
        Those of one measurement: curves of what depends on the measurement are then those of measurements like it;
        without, they are left out.
    names
        Only these.
    begin, after
        See `solve_experiment`.
    """
    order = 1 if statistics is not None else 0
    seeds, trajectory = solve_experiment(problem, compiled, theta, e, times, order, begin=begin, after=after)
    curves = curves_of(problem, compiled, e, by_row=arguments is not None, in_intervals=begin is not None, names=names)
    source, number = (_NO_SOURCES, _NO_NUMBERS) if arguments is None else arguments
    slots, slopes = compiled.slot_values(theta)
    everything = np.concatenate((slots, seeds.p, [np.nan]))  # the last one answers for numbers
    a = np.where(source < 0, number, everything[source])
    u = compiled.new_inputs(e)
    start = problem.experiments[e].start
    curves.begin(start, seeds.y0, seeds.p, u, a)
    values = curves.values(times, trajectory.y, seeds.p, u, a)
    errors = np.full(values.shape, np.nan)
    if statistics is not None:
        dp = compiled.all_derivatives(theta, e)
        rest = compiled.structure.starts_from_rest[e]
        if rest is not None:  # initial values are those of a steady state, which depends on other unknowns
            dp[rest.entry] = 0.0
            dp[np.ix_(rest.entry, compiled.columns[e])] = seeds.dp[rest.entry]
        da = np.zeros((source.size, compiled.n_theta))
        for j, at in enumerate(source.tolist()):
            if at >= slots.size:
                da[j] = dp[at - slots.size]
            elif at >= 0 and compiled.theta_of_q[at] >= 0:
                da[j, compiled.theta_of_q[at]] = slopes[at]
        curves.begin(start, seeds.y0, seeds.p, u, a)
        by_theta = curves.derivatives(times, trajectory.y, trajectory.S, compiled.columns[e], seeds.p, dp, u, a, da)
        errors = standard_errors(by_theta, statistics.covariance)
    failure = "" if np.isfinite(values).all() else compiled.structure.tables[e].refusal(u)
    if trajectory.status is not Status.OK:
        failure = trajectory.sentence(compiled.model(e))
    return Band(problem.experiments[e].name, times, curves.names, values, errors, failure)
