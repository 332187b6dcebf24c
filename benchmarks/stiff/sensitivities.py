"""Errors of sensitivities beside those of states, on stiff problems.

    python -m benchmarks.stiff.sensitivities [PROBLEM ...]

Step control looks at the states.  How much worse are the sensitivities that come with them?  Errors are the largest
at the output times, of each state and of its sensitivities to the logarithms of the parameters, relative to its own
largest value, over rtol.  The true solution is that of `ddm` at rtol 1e-12; SciPy's Radau on the variational equations
at 1e-11 must agree with it.

Where the error of S is more than ten times that of y, statistics must say so, or it must not matter: all states are
taken for measured, with errors of 1 % of their largest value, and standard errors from the sensitivities at hand are
compared with the true ones.  Those that a report would give are those of the last column; it warns where it had to
integrate more tightly than asked.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import odefit as of
from benchmarks.stiff.__main__ import errors
from benchmarks.stiff.methods import ScipyRadau, Solution
from benchmarks.stiff.problems import StiffProblem, hires, oregonator, robertson, van_der_pol
from benchmarks.tables import print_rows
from odefit.integrate import METHODS, Status
from odefit.solve import SolverResult, SolverStatus
from odefit.strategy.derivatives import LARGEST_CHANGE
from odefit.transcribe import SingleShooting

STIFF = ("ddm", "bdf3")
TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
MARK = 10.0
_NOISE = 0.01
_AGREE = 1e-6


class Row(NamedTuple):
    """One method on one problem at one tolerance.

    Attributes
    ----------
    y, s
        Errors over rtol.
    standard_error, reported
        Largest relative error of a standard error from these sensitivities, and of those in a report.
    said
        Whether the report warns.
    """

    problem: str
    method: str
    rtol: float
    y: float
    s: float
    standard_error: float
    reported: float
    said: bool

    @property
    def is_met(self) -> bool:
        """Whether the error of S is in proportion, or does not matter, or is said."""
        return self.s <= MARK * self.y or self.standard_error <= LARGEST_CHANGE or self.said


def problems() -> list[StiffProblem]:
    """Return the standard set."""
    return [*(van_der_pol(e) for e in (1e-3, 1e-4, 1e-5, 1e-6)), robertson(), hires(), oregonator()]


def truth(problem: StiffProblem) -> Solution:
    """Return the true solution, on which two programs agree."""
    scale = 1e-12 * problem.scale
    trajectory = METHODS["ddm"].solve(problem.model, problem.run, rtol=1e-12, atol=scale, order=1, max_steps=10**6)
    if trajectory.status is not Status.OK:
        raise RuntimeError(trajectory.sentence(problem.model))
    true = trajectory.y, trajectory.S
    other = max(errors(ScipyRadau(problem).at(1e-11)(), true))
    print(f"{problem.name}: two references differ by {other:.1e}", flush=True)
    if not other <= _AGREE:
        print(f"  more than {_AGREE:g}: errors below that are not to be believed")
    return true


def standard_errors(sensitivities: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return the standard errors of the logarithms for measurements of all states."""
    rows = (sensitivities / (_NOISE * size)[:, None]).reshape(-1, sensitivities.shape[2])
    norms = np.linalg.norm(rows, axis=0)
    _, values, right = np.linalg.svd(rows / norms, full_matrices=False)
    return np.linalg.norm(right.T / values, axis=1) / norms


def measure(problem: StiffProblem, true: Solution, method: str, rtol: float) -> Row | None:
    """Return the row of one run; None if it fails."""
    try:
        solution = METHODS[method].solve(
            problem.model, problem.run, rtol=rtol, atol=rtol * problem.scale, order=1, max_steps=10**6
        )
        if solution.status is not Status.OK:
            raise RuntimeError(solution.sentence(problem.model))
    except RuntimeError as error:
        print(f"  {method} on {problem.name} at {rtol:g}: {error}")
        return None
    y, s = errors((solution.y, solution.S), true)
    size = np.abs(true[0]).max(axis=0)
    right = standard_errors(true[1], size)
    own = standard_errors(solution.S, size)
    reported, said = report(problem, true, method, rtol)
    return Row(problem.name, method, rtol, y / rtol, s / rtol, _worst(own, right), _worst(reported, right), said)


def report(problem: StiffProblem, true: Solution, method: str, rtol: float) -> tuple[np.ndarray, bool]:
    """Return the standard errors of a report at the true values, and whether it warns."""
    size = np.abs(true[0]).max(axis=0)
    names = list(problem.rates)
    data = of.Measurements.from_columns(
        problem.times,
        {name: true[0][:, i] for i, name in enumerate(names)},
        sigma={name: _NOISE * size[i] for i, name in enumerate(names)},
    )
    task = problem.problem(data, rtol=rtol, atol=rtol * problem.scale, integrator=method, max_steps=10**6)
    objective = SingleShooting(task)
    x = objective.compiled.theta_start
    objective.refresh(x)
    point = objective.evaluate(x, 1)
    held = np.zeros(x.size, dtype=bool)
    solution = SolverResult(SolverStatus.CONVERGED, "", x, point, 0, 1, 1, held, x.size)
    result = of.FitResult(task, solution, objective.methods)
    said = any(notice.code.startswith("statistics.") for notice in result.warnings)
    assert result.uncertainty is not None
    order = [result.plan.names.index(name) for name in problem.parameters]
    return result.uncertainty.independent.standard_error[order], said  # data without errors look autocorrelated


def _worst(found: np.ndarray, right: np.ndarray) -> float:
    change = np.abs(found / right - 1.0)
    return float(np.max(change)) if np.isfinite(change).all() else math.inf


def show(rows: Sequence[Row]) -> None:
    """Print the table, and which marks are missed."""
    cells = [
        [
            row.problem, row.method, f"{row.rtol:.0e}", f"{row.y:.2g}", f"{row.s:.2g}", f"{row.s / row.y:.2g}",
            f"{100 * row.standard_error:.2g} %", f"{100 * row.reported:.2g} %", "warned" if row.said else "",
        ]
        for row in rows
    ]  # fmt: skip
    header = ["problem", "method", "rtol", "y/rtol", "S/rtol", "ratio", "wrong by", "in the report", ""]
    print_rows("Errors of states and sensitivities over rtol; standard errors", header, cells, text=2)
    missed = [row for row in rows if not row.is_met]
    print(f"\n{len(rows)} runs, ratio above {MARK:g}: {sum(row.s > MARK * row.y for row in rows)}, of these neither "
          f"harmless nor said: {len(missed)}")  # fmt: skip
    for row in missed:
        print(f"  {row.problem}, {row.method}, rtol {row.rtol:g}")


def main() -> None:
    """Measure all, or the problems whose names begin so."""
    wanted = tuple(sys.argv[1:]) or ("",)
    for problem in problems():
        if problem.name.startswith(wanted):
            true = truth(problem)
            found = (measure(problem, true, method, rtol) for method in STIFF for rtol in TOLERANCES)
            show([row for row in found if row is not None])


if __name__ == "__main__":
    main()
