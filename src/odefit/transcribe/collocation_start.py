"""First values of all unknowns of collocation: states near the data, whatever theta is.

A state that is measured itself is the straight line between its data.  If there are others, the experiment is
simulated from datum to datum as multiple shooting does (`odefit.transcribe.node_states`): what is measured is put right
at each of them, and hidden states go on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.compile import CompiledProblem
from odefit.errors import OdefitError
from odefit.integrate.experiment import solve_experiment
from odefit.native.stop import StopFlag
from odefit.problem import Problem
from odefit.transcribe.collocation_course import point_times
from odefit.transcribe.collocation_experiment import CollocationExperiment
from odefit.transcribe.collocation_mesh import Mesh
from odefit.transcribe.collocation_model import PointFunction
from odefit.transcribe.interval_plan import IntervalPlan
from odefit.transcribe.multiple import MultipleShooting
from odefit.transcribe.node_states import start_of_nodes

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_MOST_NEWTON = 40
_MOST_HALVINGS = 12
_SOLVED = 1e-10  # of the size of an unknown


class Curve(NamedTuple):
    """States (n, k) at times (k,), with straight lines in between."""

    times: Array
    states: Array

    def at(self, times: Array) -> Array:
        """Return the states at other times, (n, m)."""
        return np.array([np.interp(times, self.times, row) for row in self.states]).reshape(len(self.states), -1)


def first_curves(
    problem: Problem, compiled: CompiledProblem, experiments: Sequence[CollocationExperiment], theta: Array,
    last_source: int, stop: StopFlag | None,
) -> list[list[Curve]]:  # fmt: skip
    """Return a curve of each state in each experiment; measurements from `last_source` on are rules, no data."""
    simulated: list[Curve] | None = None
    result = []
    q = compiled.slot_values(theta)[0]
    for number, one in enumerate(experiments):
        y0 = one.values(q[one.gather])[1]
        curves = []
        for k in range(y0.size):
            series = _series(problem, one, k, last_source)
            if series is None and k in one.model.moving and simulated is None:
                simulated = _simulated(problem, experiments, theta, last_source, stop)
            if series is not None:
                curves.append(_with_start(one, series, k, float(y0[k])))
            elif simulated and k in one.model.moving:
                whole = simulated[number]
                curves.append(Curve(whole.times, whole.states[k : k + 1]))
            else:
                curves.append(Curve(np.array([one.observation.t0]), y0[k : k + 1, None]))
        result.append(curves)
    return result


def _series(problem: Problem, one: CollocationExperiment, k: int, last_source: int) -> Curve | None:
    """Return the data of a state that is measured itself, at two times at least."""
    o, name = one.observation, problem.model.states[k]
    if name not in problem.observables:
        return None
    rows = (o.observable == problem.observables.index(name)) & (o.source < last_source)
    times, at = np.unique(o.times[o.at[rows]], return_inverse=True)
    if times.size < 2:
        return None
    return Curve(times, (np.bincount(at, o.value[rows]) / np.bincount(at))[None, :])


def _with_start(one: CollocationExperiment, series: Curve, k: int, y0: float) -> Curve:
    """Return a series with the state at the start, if that is known and not measured."""
    t0 = one.observation.t0
    if series.times[0] <= t0 or one.depends_on_estimates(one.y0[k]) or one.has_events_at_start:
        return series
    return Curve(np.append(t0, series.times), np.append(y0, series.states[0])[None, :])


def _simulated(
    problem: Problem, experiments: Sequence[CollocationExperiment], theta: Array, last_source: int,
    stop: StopFlag | None,
) -> list[Curve]:  # fmt: skip
    """Return all states at the data, simulated and put right there; nothing if that is not possible."""
    try:
        plan = IntervalPlan(problem)
        objective = MultipleShooting(problem, plan, stop)
    except OdefitError:
        return []
    begin = start_of_nodes(objective, theta, "reset", last_source)
    curves: list[Curve] = []
    at = 0
    for number, one in enumerate(experiments):
        y0 = plan.compiled.parameters(theta, one.observation.experiment).y0
        times, states = [one.observation.t0], [y0]
        for interval in plan.intervals:
            if interval.whole == number and not interval.is_first:
                times.append(interval.observation.t0)
                states.append(begin.states[at : at + y0.size])
                at += y0.size
        table = np.array(states).T
        for row in table:  # where nothing could be computed, as before
            bad = ~np.isfinite(row)
            if bad.any() and not bad.all():
                row[bad] = np.interp(np.array(times)[bad], np.array(times)[~bad], row[~bad])
            row[~np.isfinite(row)] = 0.0
        curves.append(Curve(np.array(times), table))
    return curves


def simulated_curves(
    problem: Problem,
    compiled: CompiledProblem,
    experiments: Sequence[CollocationExperiment],
    meshes: Sequence[Mesh],
    theta: Array,
    instead: list[list[Curve]],
) -> list[list[Curve]]:
    """Return the solution at theta at all points as curves; `instead` where it could not be computed."""
    result = []
    for one, mesh, others in zip(experiments, meshes, instead, strict=True):
        times = np.unique(np.append(one.observation.t0, point_times(*mesh.element_times())))
        y = solve_experiment(problem, compiled, theta, one.observation.experiment, times)[1].y.T
        known = np.isfinite(y).all(axis=0)
        result.append(
            [Curve(times, np.where(known, y[k], curve.at(times)[0])[None, :]) for k, curve in enumerate(others)]
        )
    return result


def solved_unknowns(function: PointFunction, arguments: Sequence[Array], n: int, first: Array | None = None) -> Array:
    """Return algebraic unknowns z (n_z, n) at n points by Newton's method, with steps that are halved if need be.

    Parameters
    ----------
    arguments
        All but z, which is the third one.
    first
        Where to begin; None: at the guesses.
    """
    if not function.n_z:
        return np.empty((0, n))
    k = function.n_z
    time, moving, *rest = arguments

    def given(z: Array) -> list[Array]:
        return [time, moving, z, *rest]

    def evaluated(z: Array) -> tuple[Array, Array]:
        rows, slopes = function.unknowns(*given(z))
        return np.asarray(rows), np.asarray(slopes).reshape(k, n, k).transpose(1, 0, 2)

    z = np.asarray(function.guess(*given(np.zeros((k, n))))).reshape(k, n) if first is None else first.copy()
    rows, slopes = evaluated(z)
    with np.errstate(all="ignore"):
        for _ in range(_MOST_NEWTON):
            step = np.array([_newton(slopes[j], rows[:, j]) for j in range(n)]).T
            if np.all(np.abs(step) <= _SOLVED * np.abs(z)):
                break
            length, size = np.ones(n), np.linalg.norm(rows, axis=0)
            for _ in range(_MOST_HALVINGS):
                worse = ~(np.linalg.norm(evaluated(z + length * step)[0], axis=0) <= size)
                if not worse.any():
                    break
                length[worse] *= 0.5
            z = z + length * step
            rows, slopes = evaluated(z)
    return np.where(np.isfinite(z), z, 1.0)


def _newton(slope: Array, rows: Array) -> Array:
    try:
        return np.asarray(-np.linalg.solve(slope, rows), dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.zeros(rows.size)
