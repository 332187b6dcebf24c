"""Which measurements an experiment has, and the kernel that turns its trajectory into residuals."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from odefit.criteria.least_squares import _residual, root_weights
from odefit.integrate import segment_ends
from odefit.native.calls import call_observe
from odefit.native.kernel import kernel
from odefit.problem import Problem

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Observation:
    """The measurements of one experiment, ordered by time.

    Attributes
    ----------
    experiment
        Its number.
    times, ends
        Distinct times, and the ends of the segments of integration.
    at, observable
        Per measurement: index into `times`, index among the problem's observables.
    value, root_weight
        Per measurement: datum and square root of the weight.
    source
        Per measurement: its index in the problem's measurements.
    """

    experiment: int
    t0: float
    times: Array
    ends: Array
    at: Indices
    observable: Indices
    value: Array
    root_weight: Array
    source: Indices


_remembered: weakref.WeakKeyDictionary[Problem, tuple[Observation, ...]] = weakref.WeakKeyDictionary()


def observations(problem: Problem) -> tuple[Observation, ...]:
    """Return the measurements that a fit uses, one entry per experiment that has any.

    They are worked out once per problem: a problem never changes.
    """
    found = _remembered.get(problem)
    if found is None:
        found = _remembered[problem] = _observations(problem)
    return found


def _observations(problem: Problem) -> tuple[Observation, ...]:
    data = problem.measurements
    roots = root_weights(data)
    index = {name: i for i, name in enumerate(problem.observables)}
    codes = np.array([index[name] for name in data.observable.tolist()], dtype=np.int64)
    result = []
    for number, experiment in enumerate(problem.experiments):
        if experiment.use != "fit":
            continue
        chosen = np.flatnonzero((data.experiment == experiment.name) & (roots > 0))
        if not chosen.size:
            continue
        source = chosen[np.argsort(data.time[chosen], kind="stable")]
        times, at = np.unique(data.time[source], return_inverse=True)
        result.append(
            Observation(
                experiment=number,
                t0=experiment.start,
                times=times,
                ends=segment_ends(experiment.start, times),
                at=at.astype(np.int64),
                observable=codes[source],
                value=data.value[source].copy(),
                root_weight=roots[source].copy(),
                source=source.astype(np.int64),
            )
        )
    return tuple(result)


@kernel
def observe_residuals(
    functions, row_ptr, col, times, y, s1, p, u, dp, at, observable, value, root_weight, columns, first, order,
    residual, jacobian,
):  # fmt: skip
    """Fill the residuals of one experiment, and their derivatives by theta.

    Parameters
    ----------
    functions, row_ptr, col
        Addresses of the observables and of their Jacobian by (y, p); CSR pattern.
    times, y, s1
        The trajectory: (m,), (m, n), (m, n, q).
    at, observable, value, root_weight
        The measurements, ordered by time.
    columns, first
        Positions of the experiment's directions in theta; first row of its measurements.
    residual, jacobian
        Filled from row `first` on: (N,), (N, n_theta).
    """
    n, n_observables = y.shape[1], row_ptr.size - 1
    out = np.empty(n_observables)
    nonzeros = np.empty(col.size)
    nothing = np.empty(0)
    q = columns.size if order >= 1 else 0
    current = -1
    for k in range(at.size):
        if at[k] != current:
            current = at[k]
            call_observe(functions[0], times[current], y, current * n, p, u, nothing, out, 0)
            if q > 0:
                call_observe(functions[1], times[current], y, current * n, p, u, nothing, nonzeros, 0)
        g = observable[k]
        row = first + k
        residual[row] = _residual(out[g], value[k], root_weight[k])
        for c in range(q):
            total = 0.0
            for e in range(row_ptr[g], row_ptr[g + 1]):
                j = np.int64(col[e])
                total += nonzeros[e] * (s1[current, j, c] if j < n else dp[j - n, c])
            jacobian[row, columns[c]] = root_weight[k] * total


@kernel
def first_nonfinite(matrix):
    """Return the flat index of the first entry that is not finite, or -1."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            if not math.isfinite(matrix[i, j]):
                return i * matrix.shape[1] + j
    return -1


@kernel
def half_square(residual):
    """Return half the sum of squares."""
    total = 0.0
    for i in range(residual.size):
        total += residual[i] * residual[i]
    return 0.5 * total
