"""Barnes' problem: one solution with sensitivities, and a whole fit, against SciPy.

    python -m benchmarks.barnes

SciPy's `least_squares` is given LSODA at the same tolerances, once with finite differences and once
with the augmented sensitivity equations.  All must reach the same objective to 1e-6 (absolute: at equal
tolerances LSODA's own error in the objective is 1e-7).
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.integrate import odeint
from scipy.optimize import least_squares

import odefit as of
from benchmarks.explicit import run_of
from benchmarks.timing import best_cpu_seconds, print_table
from odefit.gallery import path_of
from odefit.integrate import METHODS, integrator
from odefit.problem import Problem


def rhs(y, t, k):
    return [k[0] * y[0] - k[1] * y[0] * y[1], k[1] * y[0] * y[1] - k[2] * y[1]]


def augmented(z, t, k):
    y1, y2 = z[0], z[1]
    s = z[2:].reshape(2, 3)
    j = np.array([[k[0] - k[1] * y2, -k[1] * y1], [k[1] * y2, k[1] * y1 - k[2]]])
    jp = np.array([[y1, -y1 * y2, 0.0], [0.0, y1 * y2, -y2]])
    return np.concatenate([[k[0] * y1 - k[1] * y1 * y2, k[1] * y1 * y2 - k[2] * y2], (j @ s + jp).ravel()])


class ScipyFit:
    """The same problem by hand, as users do it today."""

    def __init__(self, problem: Problem, rtol: float, atol: float) -> None:
        data = problem.measurements
        self.times = np.unique(data.time)
        self.values = data.value.reshape(len(self.times), 2)
        self.tolerances = {"rtol": rtol, "atol": atol}

    def residual(self, k):
        return (odeint(rhs, [1.0, 0.3], self.times, args=(k,), **self.tolerances) - self.values).ravel()

    def solution(self, k):
        start = np.concatenate([[1.0, 0.3], np.zeros(6)])
        return odeint(augmented, start, self.times, args=(k,), **self.tolerances)

    def jacobian(self, k):
        return self.solution(k)[:, 2:].reshape(-1, 3)

    def fit(self, with_sensitivities: bool):
        jacobian = self.jacobian if with_sensitivities else "2-point"
        return least_squares(self.residual, np.ones(3), jac=jacobian, xtol=1e-10, ftol=1e-10, gtol=1e-10)


def one_solution(problem: Problem) -> None:
    rtol, atol = 1e-6, 1e-8
    model, run = run_of(problem)
    method = integrator("dopri5")
    peer = ScipyFit(problem, rtol, atol)
    best = best_cpu_seconds(
        {
            "odefit dopri5": lambda: method.solve(model, run, rtol=rtol, atol=atol, order=1),
            "SciPy LSODA, augmented": lambda: peer.solution(np.ones(3)),
        }
    )
    print_table("One solution with three sensitivities, rtol 1e-6, atol 1e-8", best, "odefit dopri5")


def moderate_accuracy(problem: Problem) -> None:
    """Compare the explicit methods where few digits are asked for: steps, and errors of y and S."""
    model, run = run_of(problem)
    exact = integrator("dopri5").solve(model, run, rtol=1e-12, atol=1e-13, order=1)
    for rtol in (1e-2, 1e-3, 1e-4):
        contestants, notes = {}, {}
        for name, method in METHODS.items():
            contestants[name] = partial(method.solve, model, run, rtol=rtol, atol=rtol, order=1)
            trajectory = contestants[name]()
            y, s = np.abs(trajectory.y - exact.y).max(), np.abs(trajectory.S - exact.S).max()
            counters = trajectory.counters
            notes[name] = f"{counters.steps} steps, {counters.rhs} calls of f, errors {y:.1e} and {s:.1e}"
        title = f"One solution with three sensitivities, rtol = atol = {rtol:g}"
        print_table(title, best_cpu_seconds(contestants), "dopri5", notes)


def whole_fit(problem: Problem) -> None:
    settings = problem.settings
    peer = ScipyFit(problem, settings.rtol, settings.atol)
    objectives = {
        "odefit fit": of.fit(problem).objective,
        "SciPy, finite differences": peer.fit(False).cost,
        "SciPy, augmented": peer.fit(True).cost,
    }
    for name, value in objectives.items():
        if abs(value - objectives["odefit fit"]) > 1e-6:
            raise SystemExit(f"{name} reached the objective {value}, not {objectives['odefit fit']}")
    best = best_cpu_seconds(
        {
            "odefit fit": lambda: of.fit(problem),
            "SciPy, finite differences": lambda: peer.fit(False),
            "SciPy, augmented": lambda: peer.fit(True),
        }
    )
    title = f"Whole warm fit from (1, 1, 1), rtol {settings.rtol:g}, atol {settings.atol:g}"
    print_table(title, best, "odefit fit", {k: f"objective {v:.10g}" for k, v in objectives.items()})


def main() -> None:
    problem = of.load(path_of("barnes"))
    one_solution(problem)
    moderate_accuracy(problem)
    whole_fit(problem)


if __name__ == "__main__":
    main()
