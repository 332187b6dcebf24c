"""First values of node states: interval after interval is integrated, and corrected at each node by what is measured.

At a node the state y that the interval before hands over is moved to one with h(y) = d, where h are the observables
that are measured there (or interpolated between measurements), by the shortest way in units of the sizes of the states:

    dy = W^2 H' (H W^2 H')^-1 (d - h(y)),      H = dh/dy,

in a few damped Gauss-Newton steps.  A state that is measured itself becomes its datum; of a sum, a logarithm or a
product the states follow as far as that says; hidden states go on as they are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.native.calls import call_observe
from odefit.native.kernel import kernel
from odefit.solve.node_elimination import N_STATES, NODE
from odefit.transcribe.argument_value import argument_value
from odefit.transcribe.multiple import MultipleShooting
from odefit.transcribe.observation import Observation
from odefit.transcribe.shot import Shot

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_MOST_CORRECTIONS = 8
_HALVINGS = 6
_SHARES = (0.5, 0.2, 0.05, 0.0)  # of a correction that is too much
_CLOSE = 1e-6  # of a datum's size: near enough


class StartOfNodes(NamedTuple):
    """First states of all nodes.

    Attributes
    ----------
    states
        Of all nodes, one behind the other.
    sizes
        Typical size of each of them.
    failed
        Intervals that could not be integrated, with how they failed.
    """

    states: Array
    sizes: Array
    failed: dict[int, Shot]


@kernel
def observe_some(function, t, y, inputs, wanted, room, nonzeros, values, slopes):
    """Fill values (m,) and derivatives by the states (m, n) of the observables `wanted` at one time."""
    address, jacobian, row_ptr, col = function
    p, u, a = inputs
    call_observe(address, t, y, 0, p, u, a, room, 0)
    call_observe(jacobian, t, y, 0, p, u, a, nonzeros, 0)
    for k in range(wanted.size):
        g = wanted[k]
        values[k] = room[g]
        for j in range(y.size):
            slopes[k, j] = 0.0
        for e in range(row_ptr[g], row_ptr[g + 1]):
            j = np.int64(col[e])
            if j < y.size:
                slopes[k, j] = nonzeros[e]


@kernel
def fill_arguments(source, number, slots, p, a):
    """Fill the arguments of one measurement."""
    for j in range(a.size):
        a[j] = argument_value(source[j], number[j], slots, p)


class _Data:
    """What is measured in one experiment, as a function of time."""

    def __init__(self, objective: MultipleShooting, o: Observation, theta: Array, last_source: int) -> None:
        compiled = objective.compiled
        self._function = compiled.observe(o.experiment)
        self._p = compiled.parameters(theta, o.experiment).p
        self._slots = compiled.slot_values(theta)[0]
        self._u = compiled.new_inputs(o.experiment)
        time, taken = o.times[o.at], o.source < last_source
        if o.since.size:
            taken &= o.since[o.at] < 0
        self._series = []
        for g in np.unique(o.observable[taken]):
            mine = np.flatnonzero(taken & (o.observable == g))
            distinct, at = np.unique(time[mine], return_inverse=True)
            value = np.bincount(at, o.value[mine]) / np.bincount(at)
            self._series.append((int(g), distinct, value, mine))
        self._o, self._time = o, time
        self._room = np.empty(self._function.n_out)
        self._nonzeros = np.empty(self._function.col.size)

    def at(self, t: float) -> tuple[Indices, Array, int]:
        """Return which observables are known at a time, their values, and a measurement with the like arguments."""
        known = [
            (g, np.interp(t, when, value), mine) for g, when, value, mine in self._series if when[0] <= t <= when[-1]
        ]
        row = -1
        if known and self._o.argument_source.shape[1]:
            mine = known[0][2]
            row = int(mine[np.argmin(np.abs(self._time[mine] - t))])
        return np.array([k[0] for k in known], np.int64), np.array([k[1] for k in known]), row

    def observe(self, t: float, y: Array, wanted: Indices, row: int) -> tuple[Array, Array]:
        """Return the observables at a state, and their derivatives by it."""
        f, o = self._function, self._o
        a = np.empty(o.argument_source.shape[1])
        if row >= 0:
            fill_arguments(o.argument_source[row], o.argument_number[row], self._slots, self._p, a)
        values, slopes = np.empty(wanted.size), np.empty((wanted.size, y.size))
        observe_some(
            (f.value, f.jacobian, f.row_ptr, f.col), t, y, (self._p, self._u, a), wanted, self._room, self._nonzeros,
            values, slopes,
        )  # fmt: skip
        return values, slopes

    def corrected(self, t: float, y: Array, sizes: Array) -> Array:
        """Return the nearest state at which the observables are what is measured at this time."""
        wanted, data, row = self.at(t)
        if not wanted.size:
            return y
        value, slope = self.observe(t, y, wanted, row)
        for _ in range(_MOST_CORRECTIONS):
            missed = data - value
            if not np.isfinite(value).all() or np.all(
                np.abs(missed) <= _CLOSE * np.maximum(np.abs(data), np.abs(value))
            ):
                return y
            step = _shortest(slope, missed, sizes)
            for _ in range(_HALVINGS):
                other, other_slope = self.observe(t, y + step, wanted, row)
                if np.isfinite(other).all() and np.sum(np.square(data - other)) < np.sum(np.square(missed)):
                    break
                step = 0.5 * step
            else:
                return y
            y, value, slope = y + step, other, other_slope
        return y


def _shortest(slope: Array, missed: Array, sizes: Array) -> Array:
    """Return the shortest step, in units of the sizes, that removes what is missed."""
    known = np.abs(slope) * sizes
    needed = np.where(slope != 0.0, np.abs(missed)[:, None] / np.where(slope != 0.0, np.abs(slope), 1.0), 0.0)
    sizes = np.where((sizes > 0.0) & (known.max(axis=0) > 0.0), sizes, needed.max(axis=0))
    scaled = slope * sizes
    return sizes * np.linalg.lstsq(scaled, missed, rcond=1e-8)[0]


def start_of_nodes(objective: MultipleShooting, theta: Array, kind: str, last_source: int) -> StartOfNodes:
    """Return first states of all nodes.

    Parameters
    ----------
    kind
        See `odefit.problem.problem.NODE_STATES`.
    last_source
        Measurements of the problem from this one on are rules, no data.
    """
    with np.errstate(all="ignore"):  # what is too large for a number leads nowhere, and is noticed there
        return _Walk(objective, theta, kind, last_source).run()


class _Walk:
    """The way from node to node.

    From a state as measured an interval may lead nowhere: noise makes a small concentration negative, say.  Then its
    node moves back towards the state that was handed over.
    """

    def __init__(self, objective: MultipleShooting, theta: Array, kind: str, last_source: int) -> None:
        self._objective, self._theta, self._kind, self._last_source = objective, theta, kind, last_source
        self._plan, self._shooter = objective.intervals, objective.shooter
        n = self._plan.n_node_states
        self._states, self._sizes = np.zeros(n), np.zeros(n)
        self._failed: dict[int, Shot] = {}
        self._handed = np.empty(0)  # the state at the present node before it was corrected

    def run(self) -> StartOfNodes:
        """Walk through all experiments."""
        self._shooter.states[:] = 0.0
        begun = self._shooter.begin(self._theta)
        data, y, typical, first_node = None, np.empty(0), np.empty(0), 0
        for k, one in enumerate(self._plan.intervals):
            if one.is_first:
                experiment = self._plan.whole.data.of_experiment[one.whole]
                data = _Data(self._objective, experiment, self._theta, self._last_source)
                y = self._objective.compiled.parameters(self._theta, one.observation.experiment).y0
                typical, self._handed = np.abs(y), y
                first_node = int(self._plan.chain[k + 1, NODE]) if not one.is_last else 0
            end = begun if begun.failed >= 0 else self._end_of(k, y)
            if one.is_last:
                continue
            assert data is not None
            end = y if isinstance(end, Shot) else end
            typical = np.maximum(typical, np.abs(end))
            self._handed = y if self._kind == "data" else end
            time = self._plan.intervals[k + 1].observation.t0
            y = self._handed if self._kind == "simulated" else data.corrected(time, self._handed, typical)
            typical = np.maximum(typical, np.abs(y))
            at, n = self._put(k + 1, y)
            if self._plan.intervals[k + 1].is_last:
                size = np.where(typical > 0.0, typical, 1.0)
                self._sizes[first_node : at + n] = np.tile(size, (at + n - first_node) // n)
        return StartOfNodes(self._states, self._sizes, self._failed)

    def _put(self, k: int, y: Array) -> tuple[int, int]:
        """Let interval `k` begin with `y`; return where that stands, and how many states there are."""
        at, n = int(self._plan.chain[k, NODE]), int(self._plan.chain[k, N_STATES])
        self._states[at : at + n] = self._shooter.states[at : at + n] = y
        return at, n

    def _end_of(self, k: int, y: Array) -> Array | Shot:
        """Return the state that interval `k` hands over, its node moved if need be, or how it failed."""
        end = self._shooter.end_of(self._theta, k)
        if isinstance(end, Shot) and self._plan.chain[k, NODE] >= 0 and not np.array_equal(y, self._handed):
            first = end
            for share in _SHARES:
                self._put(k, self._handed + share * (y - self._handed))
                end = self._shooter.end_of(self._theta, k)
                if not isinstance(end, Shot):
                    return end
            self._put(k, y)
            end = first
        if isinstance(end, Shot):
            self._failed[k] = end
        return end
