"""The result of a fit: estimates at once, statistics on first access."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from odefit.native.stop import StopFlag, raise_on_interrupt
from odefit.problem import Problem
from odefit.solve import Failed, SolverResult, SolverStatus
from odefit.statistics import (
    Criteria,
    Estimate,
    ParameterReport,
    ParameterStatistics,
    ResidualTests,
    derived_quantities,
    prediction_band,
)
from odefit.statistics.delta import Band
from odefit.statistics.quality import information_criteria, r_squared
from odefit.statistics.residuals import resolution_of
from odefit.statistics.verdicts import Unknowns, Verdicts, said_of_a_place, verdicts
from odefit.strategy.attempt import Attempt
from odefit.strategy.curvature import SecondOrder, second_order
from odefit.strategy.derivatives import DerivativeCheck, checked_derivatives, tighter
from odefit.strategy.node_curves import curves_at_nodes, strays
from odefit.strategy.notices import Notice, notices
from odefit.strategy.result_content import content_of, finite_or_none
from odefit.strategy.start_values import StartValues
from odefit.strategy.times import prediction_times
from odefit.strategy.uncertainty import Uncertainty
from odefit.transcribe import Plan, SingleShooting, plan_of
from odefit.transcribe.active_rules import RuleReport
from odefit.transcribe.extended import Placed

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from odefit.study import Multistart


NO_MINIMUM = "unknown: this is no minimum"
"""Verdict on every parameter where a fit crept, and the curvature of the objective shows no minimum."""


class Validation(NamedTuple):
    """Misfit of an experiment that was not fitted; `failure` says why there is none."""

    n_data: int
    sum_of_squares: float
    failure: str


@dataclass(frozen=True, eq=False)
class FitResult:
    """What a fit found: values, from which the rest is computed on first access.

    Attributes
    ----------
    problem
        What was fitted.
    solution
        The solver's own account, with the trace.
    integrators
        Which integrator was used, per experiment.
    method, solver
        The strategy and the solver that were used.
    attempts
        The fits that the strategy is made of, in order.
    start_values
        What the data told of the start values, if they were asked.
    multistart
        All fits, if this is the best one of several.
    rules
        What became of the rules of the problem, priors excepted: one entry for each place where one holds.
    placed
        Nodes with their states, and rules that hold, from which the linearisation is computed again; None without.
    """

    problem: Problem
    solution: SolverResult
    integrators: Mapping[str, str]
    method: str = "single"
    solver: str = "trust"
    attempts: tuple[Attempt, ...] = ()
    start_values: StartValues | None = None
    multistart: Multistart | None = None
    rules: tuple[RuleReport, ...] = ()
    placed: Placed | None = None

    def __post_init__(self) -> None:
        if not self.attempts:
            one = Attempt(self.method, self.status, self.objective, self.iterations, n_data=self.n_data)
            object.__setattr__(self, "attempts", (one,))

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: what was computed from them is computed again, native code is found again."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @cached_property
    def plan(self) -> Plan:
        """Functions and measurements of the problem; belongs to the compiled problem, and is shared."""
        return plan_of(self.problem)

    @property
    def equivalent_iterations(self) -> float:
        """Iterations weighted by how much of the whole time each integrated: what they cost."""
        return sum(attempt.iterations * attempt.share for attempt in self.attempts)

    @property
    def status(self) -> SolverStatus:
        """The word "converged", or another one; it knows its sentence and remedy."""
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
        """What was minimised, half the weighted sum of squares for least squares; NaN if there is no value."""
        return self.plan.in_units(self.solution.value)

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
        """Natural values of all parameters with a value of their own that play a part, in file order."""
        compiled = self.plan.compiled
        values = compiled.natural(self.solution.x)
        return {name: value for name, value in values.items() if name in compiled.used_slots}

    @property
    def n_data(self) -> int:
        """Number of measured values that took part; priors and values that must be met exactly do not count."""
        return self.plan.n_fitted

    @property
    def sum_of_squares(self) -> float:
        """Weighted sum of squares of the data, without priors."""
        with np.errstate(over="ignore", under="ignore"):
            return self.plan.in_units(float(self._differences @ self._differences))

    @cached_property
    def _differences(self) -> npt.NDArray[np.float64]:
        """Weighted differences between model and data of finite weight; NaN if there are none."""
        point = self.solution.evaluation
        if isinstance(point, Failed):
            return np.full(self.n_data, np.nan)
        return self.plan.finite(point.differences)

    @cached_property
    def uncertainty(self) -> Uncertainty | None:
        """Standard errors for errors of several kinds, tests of the residuals; None if there is no linearisation."""
        if self.solution.linear is None:
            return None
        known = self.second_order
        hessian = known.hessian if known is not None and known.is_minimum else None
        return Uncertainty(self.plan, self.derivatives.solution, hessian=hessian)

    @cached_property
    def strays(self) -> str:
        """What becomes of the trajectory from the start alone, "" if it follows the one through the nodes."""
        return "" if self.placed is None else strays(self.problem, self.solution, self.placed)

    @property
    def resolution(self) -> float:
        """Norm of the weighted residuals that integration and rounding cannot resolve; NaN if there are none."""
        point = self.solution.evaluation
        return math.nan if isinstance(point, Failed) else resolution_of(self.plan, point)

    @cached_property
    def derivatives(self) -> DerivativeCheck:
        """Whether the derivatives that standard errors are made of hold at tighter tolerances; else better ones."""
        if self.solution.linear is None:
            return DerivativeCheck(self.solution, self.problem.settings.rtol)
        uncertainty = Uncertainty(self.plan, self.solution)
        return checked_derivatives(self.problem, uncertainty, self.integrators.values(), self.placed)

    @cached_property
    def second_order(self) -> SecondOrder | None:
        """What the curvature of the objective says of the end of a fit that crept; None for other ends."""
        if self.solution.linear is None or self.status is not SolverStatus.SLOW or self.placed is not None:
            return None
        with np.errstate(all="ignore"):
            check = self.derivatives
            rtol = min(check.rtol, tighter(self.problem.settings.rtol))
            return second_order(self.problem, Uncertainty(self.plan, check.solution), self.integrators.values(), rtol)

    @cached_property
    def statistics(self) -> ParameterStatistics | None:
        """Statistics on the solver's scale; None if there is no linearisation, or the fit crept to no minimum."""
        if self.uncertainty is None or self._is_no_minimum:
            return None
        with np.errstate(all="ignore"):  # of a fit that ran away numbers overflow; what cannot be known is NaN
            return self.uncertainty.statistics()

    @property
    def _is_no_minimum(self) -> bool:
        return self.second_order is not None and not self.second_order.is_minimum

    @property
    def dof(self) -> int:
        """Data less determined directions."""
        if self.uncertainty is None:
            return self.n_data - len(self.plan.names)
        return self.uncertainty.dof

    @property
    def n_estimated(self) -> int:
        """Number of parameters as AIC counts them: determined directions, and parameters at their bounds."""
        if self.uncertainty is None:
            return len(self.plan.names)
        return self.uncertainty.directions.rank + int(self.solution.active.sum())

    @property
    def chi2(self) -> float | None:
        """Weighted sum of squares if standard deviations were given, else None."""
        return self.sum_of_squares if self.plan.absolute else None

    @cached_property
    def loglik(self) -> float | None:
        """Normal log likelihood; with its own best common variance where no sigma was given."""
        log_likelihood = self.plan.criterion.log_likelihood(
            self._differences, self.plan.root_weights, absolute=self.plan.absolute
        )
        return finite_or_none(log_likelihood)

    @cached_property
    def criteria(self) -> Criteria:
        """AIC, AICc and BIC, as statsmodels counts."""
        return information_criteria(self.loglik, self.n_data, self.n_estimated)

    @cached_property
    def r2(self) -> float | None:
        """Share of the data's variation about the means of their observables that the model explains."""
        return None if self.uncertainty is None else r_squared(self.uncertainty.residuals)

    @property
    def tests(self) -> ResidualTests | None:
        """Tests of the residuals: autocorrelation, runs, normality, equal variance."""
        return None if self.uncertainty is None else self.uncertainty.tests

    def covariance(self, kind: str | None = None) -> pd.DataFrame:
        """Return the covariance of the free parameters, on natural scales to first order.

        Parameters
        ----------
        kind
            "independent", "autocorrelated" or "robust" (unequal variances); None: the one that the standard errors of
            the report are from.
        """
        import pandas as pd

        names = list(self.plan.names)
        if self.uncertainty is None or self._is_no_minimum:
            return pd.DataFrame(np.nan, names, names)
        slope = self.plan.compiled.to_natural(self.solution.x)[1]
        covariance = self.uncertainty.statistics(kind).covariance * np.outer(slope, slope)
        return pd.DataFrame(covariance, names, names)

    def standard_errors(self, kind: str | None = None) -> dict[str, float]:
        """Return standard errors on natural scales for errors of this kind; see `covariance`."""
        if self.uncertainty is None or self._is_no_minimum:
            return dict.fromkeys(self.plan.names, math.nan)
        slope = self.plan.compiled.to_natural(self.solution.x)[1]
        errors = np.abs(slope) * self.uncertainty.statistics(kind).standard_error
        return dict(zip(self.plan.names, errors.tolist(), strict=True))

    @cached_property
    def verdicts(self) -> Verdicts | None:
        """What the data say of each free parameter; None if there are no statistics."""
        if self.statistics is None:
            return None
        compiled = self.plan.compiled
        value, slope, _ = compiled.to_natural(self.solution.x)
        start = compiled.to_natural(compiled.theta_start)[0]
        zero = (start == 0.0) & ~compiled.logarithmic
        if zero.any() and self.solution.linear is not None:  # then what would matter as much as all the data
            felt = self.solution.linear.column_norms()[zero]
            start[zero] = self.plan.data.norm / np.where(felt > 0.0, felt, np.inf)
        with np.errstate(all="ignore"):
            unknowns = Unknowns(compiled.theta_names, compiled.theta_scales, value, slope, start)
            found = verdicts(self.statistics, unknowns)
        on_plateau = self.status in (SolverStatus.FLAT, SolverStatus.NO_INFLUENCE)
        return said_of_a_place(found) if on_plateau else found

    @cached_property
    def derived(self) -> dict[str, Estimate]:
        """The problem's derived quantities, by the delta method."""
        return derived_quantities(self.problem, self.plan.compiled, self.solution.x, self.statistics)

    @cached_property
    def validation(self) -> dict[str, Validation]:
        """Misfit of the experiments with ``use = "validate"``: scored at the estimates, not fitted."""
        problem = self.problem
        if not any(e.use == "validate" for e in problem.experiments) or not math.isfinite(self.objective):
            return {}
        stop = StopFlag()
        scored = SingleShooting(problem.at(self.estimates), stop, use="validate")
        x = scored.compiled.theta_start
        with raise_on_interrupt(stop):
            scored.refresh(x)
        point = scored.evaluate(x, 0)
        result: dict[str, Validation] = {}
        first = 0
        for observation in scored.observations:
            n, name = observation.value.size, problem.experiments[observation.experiment].name
            so_far = result.get(name, Validation(0, 0.0, ""))  # steady states are observed apart
            if isinstance(point, Failed):
                result[name] = Validation(so_far.n_data + n, math.nan, point.failure)
            else:
                with np.errstate(over="ignore"):
                    squares = float(np.square(point.differences[first : first + n]).sum())
                total = so_far.sum_of_squares + scored.plan.in_units(squares)
                result[name] = Validation(so_far.n_data + n, total, "")
            first += n
        return result

    def predict(self, times: Any = None) -> pd.DataFrame:
        """Return states and definitions of all experiments at the estimates, with 95 % bands of the curves.

        Parameters
        ----------
        times
            Where; by default an even grid over each experiment's data (or to its `until`).

        Returns
        -------
        DataFrame
            Columns experiment, time, and for each name ``y``, ``y.se``, ``y.lower``, ``y.upper``.  The bands are
            those of the model's curve, not of new measurements.
        """
        import pandas as pd

        parts = []
        quantile = math.nan if self.statistics is None else self.statistics.quantile
        for number, experiment in enumerate(self.problem.experiments):
            grid = prediction_times(self.problem, experiment, times)
            band = prediction_band(self.problem, self.plan.compiled, self.solution.x, self.statistics, number, grid)
            band = self.through_nodes(band, number)
            columns: dict[str, Any] = {"experiment": band.experiment, "time": band.times}
            for i, name in enumerate(band.names):
                value, error = band.values[:, i], band.errors[:, i]
                columns |= {
                    name: value,
                    f"{name}.se": error,
                    f"{name}.lower": value - quantile * error,
                    f"{name}.upper": value + quantile * error,
                }
            parts.append(pd.DataFrame(columns))
        return pd.concat(parts, ignore_index=True)

    def through_nodes(self, band: Band, number: int) -> Band:
        """Return the curves of an experiment from node to node, without bands, where no other way leads on."""
        if not self.strays or self.placed is None or number not in self.placed.nodes:
            return band
        values = np.full_like(band.values, np.nan)
        model = self.problem.model
        names = [name for name in band.names if name in model.shown or name in model.definitions]
        found = curves_at_nodes(self.problem, self.placed, self.solution.x, number, band.times, names)
        if found is not None:
            values[:, [band.names.index(name) for name in names]] = found
        return band._replace(values=values, errors=np.full_like(values, np.nan))

    @cached_property
    def parameters(self) -> dict[str, ParameterReport]:
        """Estimate, standard error, 95 % interval and verdict per parameter, in file order."""
        compiled = self.plan.compiled
        estimated, unfitted = self._estimated, self.unfitted
        place = {name: i for i, name in enumerate(compiled.theta_names)}
        rows = {}
        for name, estimate in self.estimates.items():
            if name in place:
                rows[name] = estimated[place[name]]._replace(estimate=estimate)
            else:
                rows[name] = ParameterReport(estimate, None, None, "no data" if name in unfitted else "fixed")
        return rows

    @property
    def _estimated(self) -> list[ParameterReport]:
        """What is known of each unknown, but for its estimate."""
        statistics, compiled, x = self.statistics, self.plan.compiled, self.solution.x
        if statistics is None or self.verdicts is None:
            words = NO_MINIMUM if self._is_no_minimum else "unknown: the model could not be computed"
            return [ParameterReport(math.nan, None, None, words)] * x.size
        with np.errstate(all="ignore"):
            slope = compiled.to_natural(x)[1]
            reach = statistics.quantile * statistics.standard_error
            known = np.isfinite(statistics.standard_error)
            low, high = (compiled.to_natural(np.where(known, x + sign * reach, x))[0] for sign in (-1.0, 1.0))
        rows = []
        for i, verdict in enumerate(self.verdicts.words):
            if not known[i]:
                rows.append(ParameterReport(math.nan, None, None, verdict))
                continue
            interval = None
            if math.isfinite(low[i]) and math.isfinite(high[i]):  # the true value lies between the bounds
                interval = (max(float(low[i]), float(compiled.lower[i])), min(float(high[i]), float(compiled.upper[i])))
            error = abs(float(slope[i])) * float(statistics.standard_error[i])
            rows.append(ParameterReport(math.nan, error, interval, verdict))
        return rows

    @cached_property
    def warnings(self) -> tuple[Notice, ...]:
        """What the user should know, most important first."""
        return tuple(notices(self))

    @property
    def unfitted(self) -> set[str]:
        """Slots of free parameters that no fitted experiment uses."""
        slots = self.problem.slots.slots
        idle = {slot.name for slot in slots if not slot.parameter.fixed} - set(self.plan.names)
        return idle & self.plan.compiled.used_slots

    def to_dict(self) -> dict[str, Any]:
        """Return the content of result.json: plain types only, None where a number does not exist."""
        return content_of(self)

    def summary(self) -> str:
        """Return the result as text for people."""
        from odefit.report.summary import summary

        return summary(self)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        observable: str | list[str] | None = None,
        experiment: str | list[str] | None = None,
        band: bool = True,
    ) -> Any:
        """Draw data and model, with the 95 % band of the curve.

        Parameters
        ----------
        ax
            Where to draw the one panel that was chosen; by default a figure of its own with all panels.
        observable, experiment
            What to show, a name or several; by default all that is measured (a state or definition that is not
            measured may be asked for), and all experiments.
        band
            Whether to draw the band.

        Returns
        -------
        Axes
            An array of them if there are several panels.
        """
        from odefit.report.plots.fit import plot_fit

        return plot_fit(self, ax, observable=observable, experiment=experiment, band=band)

    def plot_nodes(self, *, observable: str | list[str] | None = None, experiment: str | None = None) -> Any:
        """Draw the trajectories between the nodes of multiple shooting, and how they were joined.

        Returns
        -------
        array of Axes
            A row for each observable, a column for the start, one of the first steps, and the end.
        """
        from odefit.report.plots.nodes import plot_nodes

        return plot_nodes(self, observable=observable, experiment=experiment)
