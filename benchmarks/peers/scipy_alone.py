"""SciPy alone: `odeint` (LSODA) with Python right-hand sides, as most users do it today."""

from __future__ import annotations

import casadi as ca
import numpy as np
from scipy.integrate import odeint
from scipy.optimize import least_squares

from benchmarks.peers.contract import Outcome, minimise
from benchmarks.peers.problems import ATOL, RTOL, Array, FitProblem, compiled_source, straight_line

_METHOD = {"Barnes a": "leastsq", "Barnes b": "leastsq", "pyridine": "trf"}


class ScipyAugmented:
    """Residuals by one integration, Jacobians by another of the augmented equations."""

    def __init__(self, problem: FitProblem) -> None:
        self.problem = problem
        self.shape = (problem.n_states, problem.n_parameters)
        self.f = _function(problem, problem.y, problem.f)
        self.small = problem.n_states * problem.n_parameters <= 20  # then scalars are faster than NumPy's arrays
        self.whole = _function(problem, *problem.augmented[:2])
        self.slopes = _function(problem, problem.y, _by_rows(problem))
        self.initial = _function(problem, problem.y, problem.augmented[2])
        self.setup = f"odeint, {_METHOD[problem.name]}"

    def rhs(self, y: Array, t: float, k: Array) -> list[float]:
        return self.f(y.tolist(), k)

    def augmented(self, z: Array, t: float, k: Array) -> Array | list[float]:
        if self.small:
            return self.whole(z.tolist(), k)
        n, q = self.shape
        slopes = np.array(self.slopes(z.tolist(), k))
        sensitivity = slopes[: n * n].reshape(n, n) @ z[n:].reshape(n, q)
        sensitivity += slopes[n * n : n * (n + q)].reshape(n, q)
        return np.concatenate([slopes[n * (n + q) :], sensitivity.ravel()])

    def residual(self, x: Array) -> Array:
        problem = self.problem
        k = problem.natural(x).tolist()
        start = self.initial([0.0] * problem.n_states, k)[: problem.n_states]
        states = odeint(self.rhs, start, problem.times, args=(k,), rtol=RTOL, atol=ATOL, mxstep=5000)
        return (states - problem.values).ravel()

    def jacobian(self, x: Array) -> Array:
        problem = self.problem
        n, q = self.shape
        natural = problem.natural(x)
        k = natural.tolist()
        start = self.initial([0.0] * n, k)
        rows = odeint(self.augmented, start, problem.times, args=(k,), rtol=RTOL, atol=ATOL, mxstep=5000)
        jacobian = rows[:, n:].reshape(-1, q)
        return jacobian * natural if problem.in_logs else jacobian

    def fit(self) -> Outcome:
        return minimise(self.residual, self.jacobian, self.problem.x_start, _METHOD[self.problem.name])


class ScipyDifferences(ScipyAugmented):
    """The same with finite differences, the step matched to the integration error."""

    def __init__(self, problem: FitProblem) -> None:
        super().__init__(problem)
        self.setup = "odeint, trf"

    def fit(self) -> Outcome:
        result = least_squares(
            self.residual, self.problem.x_start, diff_step=1e-5, xtol=1e-8, ftol=1e-8, gtol=1e-8, max_nfev=500
        )
        return Outcome(float(result.cost), int(result.njev))


def _by_rows(problem: FitProblem):
    """Return df/dy and df/dk, each row by row, then f."""
    dy, dk = ca.jacobian(problem.f, problem.y), ca.jacobian(problem.f, problem.k)
    return ca.vertcat(ca.vec(dy.T), ca.vec(dk.T), problem.f)


def _function(problem: FitProblem, state, expression):
    """Return (state, k) -> list of the elements of `expression`."""
    source = straight_line("fill", "y, k, out", {"y": state, "k": problem.k}, "out", expression)
    source = source.replace("(y, k, out):", f"(y, k):\n    out = [0.0] * {expression.numel()}") + "    return out\n"
    return compiled_source(source, "fill")
