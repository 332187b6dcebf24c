"""One experiment in a program of collocation: its unknowns, rows and predictions as CasADi expressions (MX).

Unknowns are the moving states X (n, 3 N) at the points of N elements, algebraic unknowns Z (n_z, 3 N) there, and those
of the columns in which observables are evaluated.  An element begins with the state at the end of the one before or,
behind events, with what these make of it: no unknowns are needed for that.  In equations in several derivatives the
state behind a jump is not consistent; where it is measured, a consistent one is a further unknown y+, from

    B (y+ - y-) = 0  (rows with derivatives),    f = 0  (algebraic rows).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.problem import Problem
from odefit.transcribe.collocation_experiment import CollocationExperiment
from odefit.transcribe.collocation_mesh import Mesh, Place
from odefit.transcribe.collocation_rule import N_POINTS, NODES, POINTS, SLOPES, lagrange
from odefit.transcribe.collocation_tables import table_values

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


class Unknowns(NamedTuple):
    """How many unknowns of each kind an experiment has, as shapes of matrices."""

    states: tuple[int, int]
    algebraic: tuple[int, int]
    observed: tuple[int, int]
    consistent: tuple[int, int]


class Columns(NamedTuple):
    """The columns in which observables are evaluated: output times with arguments of their own.

    Attributes
    ----------
    place, time
        Where each stands.
    source, number
        Its arguments, see `odefit.transcribe.arguments`.
    of_row
        The column of each measurement.
    """

    place: tuple[Place, ...]
    time: Array
    source: Indices
    number: Array
    of_row: Indices


def columns_of(one: CollocationExperiment, mesh: Mesh) -> Columns:
    """Return the columns of an experiment."""
    o = one.observation
    found: dict[tuple[int, bytes, bytes], int] = {}
    of_row = np.empty(o.at.size, dtype=np.int64)
    first: list[int] = []
    for row, at in enumerate(o.at.tolist()):
        key = (at, o.argument_source[row].tobytes(), o.argument_number[row].tobytes())
        if key not in found:
            found[key] = len(first)
            first.append(row)
        of_row[row] = found[key]
    at = o.at[first]
    return Columns(
        tuple(mesh.places[k] for k in at), o.times[at], o.argument_source[first], o.argument_number[first], of_row
    )


class Course:
    """The expressions of one experiment.

    Parameters
    ----------
    unknowns
        MX of all of its unknowns, in the order of `Unknowns`, each matrix column by column.
    slots
        MX of all slots.

    Attributes
    ----------
    rows
        What must be zero: equations, and what belongs to observed columns and consistent states.
    lengths
        Lengths of intervals with a moving end, which must not be negative.
    predictions
        For each measurement the value of its observable.
    """

    def __init__(self, problem: Problem, one: CollocationExperiment, mesh: Mesh, unknowns: Any, slots: Any) -> None:
        self._problem, self._one, self._mesh = problem, one, mesh
        self.shapes = shapes_of(one, mesh)
        self._model, self._n = one.model, sum(mesh.parts)
        parts, at = [], 0
        for shape in self.shapes:
            size = shape[0] * shape[1]
            parts.append(ca.reshape(unknowns[at : at + size], *shape))
            at += size
        self._x, self._z, self._observed, self._consistent = parts
        q = slots[one.gather.tolist()] if one.gather.size else ca.MX(0, 1)
        self._slots, self._q = slots, q
        self._p, self._y0 = one.values_function(q)
        self._times = [_time(one, b, q) for b in mesh.breaks]
        self._lay_states()
        self.lengths = self._moving_lengths()
        self.rows = [self._equations()]
        self.predictions = self._predicted()

    @property
    def known(self) -> list[Any]:
        """The entries of p, times of breaks, moving and constant states with which elements begin."""
        return [self._p, ca.vertcat(*self._times), self._starts, self._constants]

    def _lay_states(self) -> None:
        """Work out the states before and behind each break, and at the beginning of each element."""
        model, mesh = self._model, self._mesh
        y = self._y0
        self._before = [y]
        self._behind = [self._after_events(0, y)]
        starts, constants = [], []
        element = 0
        for k, m in enumerate(mesh.parts):
            y = self._behind[k]
            constant = y[model.constant.tolist()] if model.constant.size else ca.MX(0, 1)
            for i in range(m):
                starts.append(y[model.moving.tolist()] if i == 0 else self._x[:, N_POINTS * element - 1])
                constants.append(constant)
                element += 1
            y = self._joined(self._x[:, N_POINTS * element - 1], constant)
            self._before.append(y)
            self._behind.append(self._after_events(k + 1, y))
        self._starts = ca.horzcat(*starts) if starts else ca.MX(model.moving.size, 0)
        self._constants = ca.horzcat(*constants) if constants else ca.MX(model.constant.size, 0)

    def _joined(self, moving: Any, constant: Any) -> Any:
        order = np.argsort(np.concatenate([self._model.moving, self._model.constant]))
        return ca.vertcat(moving, constant)[order.tolist()]

    def _after_events(self, k: int, y: Any) -> Any:
        model, one = self._model, self._one
        for number in self._mesh.breaks[k].events:
            a = one.arguments.reshape(-1, 3)[number]
            every = model.changes(0, ca.vertcat(self._times[k], y), self._p, a)
            kind = int(one.kinds[number])
            entries = [y[i] for i in range(y.numel())]
            for place in range(int(model.first_change[kind]), int(model.first_change[kind + 1])):
                entries[int(model.target[place])] = every[place]
            y = ca.vertcat(*entries)
        return y

    def _moving_lengths(self) -> list[Any]:
        """Return the lengths of intervals that depend on what is estimated."""
        mesh, one = self._mesh, self._one
        result = []
        for k in range(len(mesh.parts)):
            ends = [mesh.breaks[k].expression, mesh.breaks[k + 1].expression]
            if any(end is not None and one.depends_on_estimates(end) for end in ends):
                result.append(self._times[k + 1] - self._times[k])
        return result

    def _equations(self) -> Any:
        """Return the equations at all points, (rows, 3 N), as a column."""
        model, mesh, n = self._model, self._mesh, self._n
        if not n:
            return ca.MX(0, 1)
        rates = self._starts @ np.kron(np.eye(n), SLOPES[:, :1].T) + self._x @ np.kron(np.eye(n), SLOPES[:, 1:].T)
        t, h = self._point_times()
        k = np.repeat(mesh.interval_of, N_POINTS)
        constants = ca.kron(self._constants, ca.DM.ones(1, N_POINTS))
        function = model.equations.function.map("equations", "serial", N_POINTS * n, [6, 7], [])
        a = ca.DM.zeros(model.equations.function.size1_in(7), 1)
        out = function(
            t, self._x, self._z, rates, h, constants, self._p, a, mesh.inputs[k].T, point_tables(
                self._problem, self._one, mesh
            ),
        )  # fmt: skip
        return ca.vec(out)

    def _point_times(self) -> tuple[Any, Any]:
        """Return times of the points and lengths of their elements, (1, 3 N) each."""
        mesh = self._mesh
        if all(one.expression is None for one in mesh.breaks):
            begin, end = mesh.element_times()
            return point_times(begin, end)[None, :], np.repeat(end - begin, N_POINTS)[None, :]
        times, k = ca.vertcat(*self._times), mesh.interval_of
        first, last = mesh.fractions
        width = (times[1:] - times[:-1])[k.tolist()]
        begin, length = times[k.tolist()] + first * width, (last - first) * width
        points = ca.kron(begin.T, ca.DM.ones(1, N_POINTS)) + ca.kron(length.T, ca.DM(POINTS).T)
        return points, ca.kron(length.T, ca.DM.ones(1, N_POINTS))

    def _state_at(self, place: Place, consistent: dict[tuple[int, bool], int]) -> tuple[Any, Any, Any]:
        """Return moving and constant states, and the time, at a place."""
        model = self._model
        if np.isfinite(place.fraction):
            element = place.at
            values = lagrange(NODES, place.fraction)
            inside = self._x[:, N_POINTS * element : N_POINTS * (element + 1)] @ values[1:]
            return values[0] * self._starts[:, element] + inside, self._constants[:, element], None
        y = (self._behind if place.after else self._before)[place.at]
        constant = y[model.constant.tolist()] if model.constant.size else ca.MX(0, 1)
        if _is_inconsistent(self._one, self._mesh, place):
            key = (place.at, place.after)
            column = consistent.setdefault(key, len(consistent))
            moving = self._consistent[:, column]
            if len(consistent) == column + 1 and key not in self._seen:
                self._seen.add(key)
                self._add_consistent(place, y, moving, constant)
            return moving, constant, self._times[place.at]
        return y[model.moving.tolist()], constant, self._times[place.at]

    def _add_consistent(self, place: Place, y: Any, moving: Any, constant: Any) -> None:
        """Add the rows of a consistent state behind a jump.

        Equations in several derivatives have their algebraic unknowns as states: there are no z.
        """
        function = self._model.equations.function
        k = min(place.at, len(self._mesh.parts) - 1)
        times = np.array([self._mesh.breaks[place.at].time])
        tables = table_values(self._problem, self._one.experiment, self._model.equations.tables, times)
        rates = moving - y[self._model.moving.tolist()]
        a, z = ca.DM.zeros(function.size1_in(7), 1), ca.DM.zeros(function.size1_in(2), 1)
        inputs = self._mesh.inputs[k] if self._mesh.parts else np.zeros(function.size1_in(8))
        self.rows.append(function(self._times[place.at], moving, z, rates, 0.0, constant, self._p, a, inputs, tables))

    def _predicted(self) -> Any:
        """Return the value of each measurement's observable, and add the rows of algebraic unknowns."""
        model, one = self._model, self._one
        columns = columns_of(one, self._mesh)
        consistent: dict[tuple[int, bool], int] = {}
        self._seen: set[tuple[int, bool]] = set()
        found = [self._state_at(place, consistent) for place in columns.place]
        moving, constant = (ca.horzcat(*(one[i] for one in found)) for i in (0, 1))
        times = ca.horzcat(*(t if s[2] is None else s[2] for t, s in zip(columns.time, found, strict=True)))
        function, m = model.observables.function, len(found)
        arguments = self._arguments(columns)
        nothing = ca.DM.zeros(moving.shape[0], 1), ca.DM.zeros(1, 1), ca.DM.zeros(function.size1_in(8), 1)
        tables = table_values(self._problem, one.experiment, model.observables.tables, columns.time)
        mapped = function.map("observables", "serial", m, [3, 4, 6, 8], [])
        out = mapped(
            times, moving, self._observed, nothing[0], nothing[1], constant, self._p, arguments, nothing[2], tables
        )
        n_out, n_z = function.size1_out(0), model.observables.n_z
        if n_z:
            self.rows.append(ca.vec(out[n_out - n_z :, :]))
        place = columns.of_row * n_out + one.observation.observable
        return ca.vec(out)[place.tolist()]

    def _arguments(self, columns: Columns) -> Any:
        """Return the arguments of each column, (n_a, m)."""
        n_slots, rows = self._slots.numel(), []
        for j in range(columns.source.shape[1]):
            entries = []
            for source, number in zip(columns.source[:, j].tolist(), columns.number[:, j].tolist(), strict=True):
                if source < 0:
                    entries.append(ca.MX(number))
                else:
                    entries.append(self._slots[source] if source < n_slots else self._p[source - n_slots])
            rows.append(ca.horzcat(*entries))
        return ca.vertcat(*rows) if rows else ca.MX(0, len(columns.place))


def _time(one: CollocationExperiment, at: Any, q: Any) -> Any:
    if at.expression is None:
        return ca.MX(at.time)
    return ca.Function("time", [one.q], [at.expression])(q)


def _is_inconsistent(one: CollocationExperiment, mesh: Mesh, place: Place) -> bool:
    """Tell whether the state at a place is one of equations in several derivatives behind a jump."""
    if not one.model.coupled or np.isfinite(place.fraction):
        return False
    return place.at == 0 or (place.after and bool(mesh.breaks[place.at].events))


def shapes_of(one: CollocationExperiment, mesh: Mesh) -> Unknowns:
    """Return the shapes of the unknowns of an experiment."""
    model, n_points = one.model, N_POINTS * sum(mesh.parts)
    columns = columns_of(one, mesh)
    jumps = {(p.at, p.after) for p in columns.place if _is_inconsistent(one, mesh, p)}
    return Unknowns(
        (model.moving.size, n_points),
        (model.equations.n_z, n_points),
        (model.observables.n_z, len(columns.place)),
        (model.moving.size, len(jumps)),
    )


def point_times(begin: Array, end: Array, fractions: Array = POINTS) -> Array:
    """Return the times of all points of elements, one element after the other."""
    return (begin[:, None] + (end - begin)[:, None] * fractions).reshape(-1)


def point_tables(problem: Problem, one: CollocationExperiment, mesh: Mesh, fractions: Array = POINTS) -> Array:
    """Return the values of tables at all points; those that are constant between knots are asked for in the middle."""
    values = one.model.equations.tables
    begin, end = mesh.element_times()
    times = point_times(begin, end, fractions)
    result = table_values(problem, one.experiment, values, times)
    middle = table_values(problem, one.experiment, values, np.repeat(0.5 * (begin + end), fractions.size))
    stepwise = np.array([value.stepwise for value in values], dtype=bool)
    result[stepwise] = middle[stepwise]
    return result
