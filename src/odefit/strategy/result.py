"""The result of a fit: estimates at once, statistics on first access."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from odefit.criteria.least_squares import has_absolute_sigma
from odefit.problem import Problem
from odefit.solve import SolverResult
from odefit.statistics import ParameterStatistics, linearised_statistics
from odefit.transcribe import SingleShooting

SCHEMA = "odefit-result-1"


class ParameterReport(NamedTuple):
    """One row of the table of estimates; None where a number does not exist."""

    estimate: float
    standard_error: float | None
    interval: tuple[float, float] | None
    verdict: str


class Notice(NamedTuple):
    """Something the user should know; `code` is for programs, `text` for people."""

    code: str
    text: str


@dataclass(frozen=True, eq=False)
class FitResult:
    """What a fit found.

    Attributes
    ----------
    problem
        What was fitted.
    solution
        The solver's own account, with the trace.
    method
        The strategy that was used.
    """

    problem: Problem
    solution: SolverResult
    objective_function: SingleShooting = field(repr=False)
    method: str = "single"

    @property
    def status(self) -> str:
        """The word "converged", or another one."""
        return self.solution.status

    @property
    def message(self) -> str:
        """The status in a sentence."""
        return self.solution.message

    @property
    def converged(self) -> bool:
        """Whether the fit converged."""
        return self.solution.converged

    @property
    def objective(self) -> float:
        """Half the weighted sum of squares; NaN if there is no value."""
        return self.solution.value

    @property
    def iterations(self) -> int:
        """Steps taken."""
        return self.solution.iterations

    @property
    def evaluations(self) -> int:
        """Evaluations of the objective."""
        return self.solution.evaluations

    @cached_property
    def estimates(self) -> dict[str, float]:
        """Natural values of all parameters with a value of their own, in file order."""
        return self.objective_function.compiled.natural(self.solution.x)

    @property
    def n_data(self) -> int:
        """Number of measured values that took part."""
        return self.objective_function.n_residuals

    @property
    def dof(self) -> int:
        """Data less determined directions."""
        return self.n_data - (self.statistics.rank if self.statistics else len(self.objective_function.names))

    @property
    def chi2(self) -> float | None:
        """Weighted sum of squares if standard deviations were given, else None."""
        return 2.0 * self.objective if has_absolute_sigma(self.problem.measurements) else None

    @cached_property
    def loglik(self) -> float | None:
        """Normal log likelihood; with its own best common variance where no sigma was given."""
        squares, n = 2.0 * self.objective, self.n_data
        if not math.isfinite(squares):
            return None
        roots = np.concatenate([o.root_weight for o in self.objective_function.observations])
        constant = float(np.log(roots).sum()) - 0.5 * n * math.log(2.0 * math.pi)
        if has_absolute_sigma(self.problem.measurements):
            return constant - 0.5 * squares
        return constant - 0.5 * n * (1.0 + math.log(squares / n)) if squares > 0 else None

    @cached_property
    def statistics(self) -> ParameterStatistics | None:
        """Linearised statistics on the solver's scale; None if there is no linearisation."""
        linear = self.solution.evaluation.linear
        if linear is None:
            return None
        return linearised_statistics(
            linear.reduce().R,
            self.solution.active,
            2.0 * self.objective,
            self.n_data,
            absolute=has_absolute_sigma(self.problem.measurements),
        )

    @cached_property
    def parameters(self) -> dict[str, ParameterReport]:
        """Estimate, standard error, 95 % interval and verdict per parameter, in file order."""
        compiled = self.objective_function.compiled
        place = {name: i for i, name in enumerate(compiled.theta_names)}
        return {
            name: self._row(place[name], estimate) if name in place else ParameterReport(estimate, None, None, "fixed")
            for name, estimate in self.estimates.items()
        }

    def _row(self, i: int, estimate: float) -> ParameterReport:
        if self.statistics is None:
            return ParameterReport(estimate, None, None, "unknown: the model could not be computed")
        error = float(self.statistics.standard_error[i])
        verdict = self.statistics.verdict[i]
        if not math.isfinite(error):
            return ParameterReport(estimate, None, None, verdict)
        compiled = self.objective_function.compiled
        _, slope, _ = compiled.to_natural(self.solution.x)
        reach = self.statistics.quantile * error
        ends = []
        for sign in (-1.0, 1.0):
            theta = self.solution.x.copy()
            theta[i] += sign * reach
            ends.append(float(compiled.to_natural(theta)[0][i]))
        interval = (ends[0], ends[1]) if all(map(math.isfinite, ends)) else None
        return ParameterReport(estimate, abs(float(slope[i])) * error, interval, verdict)

    @cached_property
    def warnings(self) -> tuple[Notice, ...]:
        """What the user should know, most important first."""
        found = []
        if not self.converged:
            found.append(Notice(f"convergence.{self.status}", f"The fit did not converge: {self.message}."))
        n = len(self.objective_function.names)
        if self.n_data < n:
            found.append(Notice("data.few", f"There are only {self.n_data} data for {n} free parameters."))
        for name, row in self.parameters.items():
            if row.verdict == "at its bound":
                found.append(Notice("parameter.bound", f"'{name}' is at its bound {row.estimate:g}."))
            elif row.verdict.startswith("not determined"):
                found.append(Notice("parameter.undetermined", f"'{name}' is {row.verdict}."))
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of result.json: plain types only, None where a number does not exist."""
        return {
            "schema": SCHEMA,
            "status": self.status,
            "message": self.message,
            "objective": _number(self.objective),
            "iterations": self.iterations,
            "evaluations": self.evaluations,
            "parameters": {
                name: {
                    "estimate": _number(row.estimate),
                    "standard_error": _number(row.standard_error),
                    "interval": None if row.interval is None else list(row.interval),
                    "verdict": row.verdict,
                }
                for name, row in self.parameters.items()
            },
            "derived": {},
            "loglik": _number(self.loglik),
            "chi2": _number(self.chi2),
            "n_data": self.n_data,
            "dof": self.dof,
            "method": self.method,
            "attempts": [{"method": self.method, "status": self.status, "objective": _number(self.objective)}],
            "warnings": [{"code": notice.code, "text": notice.text} for notice in self.warnings],
            "versions": {name: version(name) for name in ("odefit", "casadi", "numba", "numpy", "scipy")},
        }

    def summary(self) -> str:
        """Return the result as text for people."""
        from odefit.report.summary import summary

        return summary(self)


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
