"""pydiffsol (diffsol's compiled solvers with forward sensitivities) and SciPy's minimisers."""

from __future__ import annotations

import numpy as np
import pydiffsol

from benchmarks.peers.contract import Outcome, Remembered, minimise
from benchmarks.peers.problems import ATOL, RTOL, Array, FitProblem

# minimiser, one integration for residual and Jacobian; tsit45 is the fastest of its solvers on all three
_BEST = {
    "Barnes a": ("leastsq", True),
    "Barnes b": ("leastsq", True),
    "pyridine": ("leastsq unscaled", False),
}
_SMALLEST_STEP = 1e-4  # ends hopeless trial points early, where the equations become stiff
_FAILED = 1e3  # residual where the integration fails: the minimisers know no failure


class PydiffsolScipy:
    """The model in DiffSL; sensitivities follow the steps of the states, as they do in odefit."""

    def __init__(self, problem: FitProblem) -> None:
        self.problem = problem
        self.method, together = _BEST[problem.name]
        self.ode = pydiffsol.Ode(_source(problem), matrix_type=pydiffsol.nalgebra_dense, ode_solver=pydiffsol.tsit45)
        self.ode.rtol, self.ode.atol = RTOL, ATOL
        self.ode.options.min_timestep = _SMALLEST_STEP
        if together:
            memory = Remembered(self.both)
            self.residual, self.jacobian = memory.residual, memory.jacobian
        else:
            self.residual, self.jacobian = self.alone, lambda x: self.both(x)[1]
        self.setup = f"tsit45, {self.method}"

    def alone(self, x: Array) -> Array:
        problem = self.problem
        try:
            solution = self.ode.solve_dense(problem.natural(x), problem.times)
        except RuntimeError:
            return np.full(problem.values.size, _FAILED)
        return (solution.ys.T - problem.values).ravel()

    def both(self, x: Array) -> tuple[Array, Array]:
        problem = self.problem
        k = problem.natural(x)
        try:
            solution = self.ode.solve_fwd_sens(k, problem.times)
        except RuntimeError:
            return np.full(problem.values.size, _FAILED), np.zeros((problem.values.size, k.size))
        jacobian = np.asarray(solution.sens).T.reshape(-1, k.size)
        return (solution.ys.T - problem.values).ravel(), jacobian * k if problem.in_logs else jacobian

    def fit(self) -> Outcome:
        return minimise(self.residual, self.jacobian, self.problem.x_start, self.method)


def _source(problem: FitProblem) -> str:
    inputs = ", ".join(f"{name} = 1" for name in problem.parameters)
    state = ", ".join(f"{name} = {value}" for name, value in problem.initial.items())
    return f"in_i {{ {inputs} }}\nu_i {{ {state} }}\nF_i {{ {', '.join(problem.rates.values())} }}\n"
