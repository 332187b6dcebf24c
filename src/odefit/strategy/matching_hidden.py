"""Integral matching where some states are neither measured nor known from conservation.

They are integrated from their initial values by Runge-Kutta 4, with the measured states inserted, and so are the
integrals of all rates: one pass for each set of parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from odefit.strategy.matching_data import Array, MatchingRun, evaluated

_SUBSTEPS = 100  # over an experiment, at least
_HUGE = 1e8  # in place of a residual that is none: the trajectory has run away


class HiddenStates:
    """The residuals of runs with hidden states."""

    def __init__(self, runs: Sequence[MatchingRun]) -> None:
        self._runs = [_Fine(run) for run in runs]

    def residuals(self, q: Sequence[Array]) -> Array:
        """Return weighted residuals (N, k) for columns of formal parameters (n_q, k) of each run."""
        with np.errstate(all="ignore"):
            residuals = np.concatenate([run.residuals(one) for run, one in zip(self._runs, q, strict=True)])
        return np.where(np.isfinite(residuals) & (np.abs(residuals) < _HUGE), residuals, _HUGE)


class _Fine:
    """One run with the steps of its integration and what is inserted there."""

    def __init__(self, run: MatchingRun) -> None:
        self._run = run
        intervals = run.grid.size - 1
        self._parts = parts = max(1, math.ceil(_SUBSTEPS / intervals))
        h = np.repeat(np.diff(run.grid) / parts, parts)
        fine = np.repeat(run.grid[:-1], parts) + h * np.tile(np.arange(parts), intervals)
        self._inserted = np.vstack([fine, h, *(run.states_at(fine + part * h).T for part in (0.0, 0.5, 1.0))])
        self._march = run.model.integrated(run.hidden, fine.size)

    def residuals(self, q: Array) -> Array:
        run, n, k = self._run, self._run.n_states, q.shape[1]
        n_fine = self._inserted.shape[1]
        integrals = np.empty((run.grid.size - 1, n, k))
        for j in range(k):
            hidden = evaluated(run.model.initial(q[:, j]))[0][run.hidden, 0]
            begin = np.append(hidden, np.zeros(n))
            path = self._march(begin, self._inserted, np.repeat(q[:, j : j + 1], n_fine, axis=1))
            ends = np.array(path)[run.hidden.size :, self._parts - 1 :: self._parts].T
            integrals[:, :, j] = np.diff(ends, axis=0, prepend=0.0)
        return (run.differences(integrals) - run.steps[:, None]) / run.sigma[:, None]
