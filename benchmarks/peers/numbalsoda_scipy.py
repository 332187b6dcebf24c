"""numbalsoda (compiled integrators; here DOP853) with augmented sensitivity equations, and SciPy's minimisers.

Right-hand sides are straight-line numba callbacks; residuals and Jacobians are assembled in numba too, so that
Python is entered once for each evaluation.
"""

from __future__ import annotations

import numba
import numpy as np
from numbalsoda import dop853, lsoda_sig

from benchmarks.peers.contract import Outcome, Remembered, minimise
from benchmarks.peers.problems import ATOL, RTOL, Array, FitProblem, compiled_source, straight_line

# Minimiser, one integration for both residual and Jacobian: the fastest of those that reach the minimum.  At these
# tolerances DOP853 takes a third (Barnes) to four fifths (pyridine) of LSODA's time.
_BEST = {
    "Barnes a": ("leastsq", True),
    "Barnes b": ("leastsq", True),
    "pyridine": ("leastsq unscaled", False),
}
_MAX_STEPS = 500  # ends hopeless trial points early, where the equations become stiff
_FAILED = 1e3  # residual where the integration fails: the minimisers know no failure


class NumbalsodaScipy:
    """Both integrations compiled; see `_BEST` for the choice."""

    def __init__(self, problem: FitProblem) -> None:
        self.method, together = _BEST[problem.name]
        self.start = problem.x_start
        self._callbacks = [_callback(problem, True), _callback(problem, False)]  # the addresses live with these
        both, alone = _evaluations(problem, *(c.address for c in self._callbacks))
        both(self.start), alone(self.start)
        if together:
            memory = Remembered(both)
            self.residual, self.jacobian = memory.residual, memory.jacobian
        else:
            self.residual, self.jacobian = alone, lambda x: both(x)[1]
        self.setup = f"dop853, {self.method}"

    def fit(self) -> Outcome:
        return minimise(self.residual, self.jacobian, self.start, self.method)


def _callback(problem: FitProblem, with_sensitivities: bool):
    state, slope = problem.augmented[:2] if with_sensitivities else (problem.y, problem.f)
    source = straight_line("rhs", "t, u, du, p", {"u": state, "p": problem.k}, "du", slope)
    return numba.cfunc(lsoda_sig)(compiled_source(source, "rhs"))


def _evaluations(problem: FitProblem, augmented_address: int, address: int):
    """Return the functions x -> (residual, Jacobian) and x -> residual."""
    source = straight_line("initial", "k, u", {"k": problem.k}, "u", problem.augmented[2])
    initial = numba.njit(compiled_source(source, "initial"))
    times, values, in_logs = problem.times, problem.values, problem.in_logs
    m, n, q = times.size, problem.n_states, problem.n_parameters

    @numba.njit
    def both(x: Array):
        k = np.exp(x) if in_logs else x.copy()
        u = np.empty(n * (q + 1))
        initial(k, u)
        solution, ok = dop853(augmented_address, u, times, k, RTOL, ATOL, _MAX_STEPS)
        residual = np.full(m * n, _FAILED)
        jacobian = np.zeros((m * n, q))
        if ok:
            for i in range(m):
                for j in range(n):
                    residual[i * n + j] = solution[i, j] - values[i, j]
                    for c in range(q):
                        jacobian[i * n + j, c] = solution[i, n + j * q + c] * (k[c] if in_logs else 1.0)
        return residual, jacobian

    @numba.njit
    def alone(x: Array):
        k = np.exp(x) if in_logs else x.copy()
        u = np.empty(n * (q + 1))
        initial(k, u)
        solution, ok = dop853(address, u[:n].copy(), times, k, RTOL, ATOL, _MAX_STEPS)
        return (solution - values).ravel() if ok else np.full(m * n, _FAILED)

    return both, alone
