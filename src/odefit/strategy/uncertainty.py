"""Which standard errors a fit gets: those of independent errors, unless its residuals say otherwise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError, suggestion
from odefit.native.norm import unit_of
from odefit.solve import Failed, LinearModel, Point, SolverResult
from odefit.solve.bordered import BorderedLinear
from odefit.statistics import Autocorrelation, ParameterStatistics, Residuals, ResidualTests, residual_series
from odefit.statistics.autocorrelation import LagTest, first_order_errors, lag_test
from odefit.statistics.blocks import directions_in_blocks, sparse_jacobian
from odefit.statistics.covariance import (
    Directions,
    directions_of_hessian,
    find_directions,
    independent_errors,
    resolved_variance,
    statistics_of,
)
from odefit.statistics.matrices import Matrix, is_dense
from odefit.statistics.residual_tests import residual_tests
from odefit.statistics.residuals import AS_GOOD_AS_EXACT, exact_rows, resolution_of
from odefit.statistics.sandwich import unequal_variances
from odefit.transcribe import Plan

Array = npt.NDArray[np.float64]

KINDS = ("independent", "autocorrelated", "robust")
_ENOUGH = 20  # values in a series, from which its autocorrelation is estimated unless asked for
_SIGNIFICANT = 1.96  # standard deviations: 2.5 % one-sided
_MANY = 200  # unknowns, from which their blocks are worth the trouble


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Statistics of a solution with a linearisation, each computed on first access.

    Attributes
    ----------
    floored
        Whether residuals below what can be resolved are no estimate of the noise.
    hessian
        That of the objective, where it is to take the place of J'J; then errors count as independent.
    """

    plan: Plan = field(repr=False)
    solution: SolverResult = field(repr=False)
    floored: bool = True
    hessian: Array | None = field(default=None, repr=False)

    @property
    def _point(self) -> Point:
        if isinstance(self.solution.evaluation, Failed):
            raise ValueError("a fit that failed has no residuals")
        return self.solution.evaluation

    @cached_property
    def residuals(self) -> Residuals:
        """The weighted residuals as time series."""
        return residual_series(self.plan, self._point)

    @cached_property
    def _values(self) -> Array:
        """The weighted residuals of what is random, in no order that matters."""
        differences = self._point.differences[: self.plan.n_data]
        return np.delete(differences, exact_rows(self.plan)) if self.plan.data.heavy.size else differences

    @property
    def _linear(self) -> LinearModel:
        if self.solution.linear is None:
            raise ValueError("a solution without a linearisation has no statistics")
        return self.solution.linear

    @cached_property
    def directions(self) -> Directions:
        """What the data, the priors and the values to be met exactly determine."""
        if self.hessian is None:
            return self._linearised
        return directions_of_hessian(self.hessian)

    @cached_property
    def _linearised(self) -> Directions:
        """The same in the linearised problem."""
        linear = self._linear
        if isinstance(linear, BorderedLinear) and self.solution.x.size > _MANY:
            return directions_in_blocks(linear, self.solution.active)
        factor, heavy = linear.factor(), linear.heavy
        if not heavy.root.size:
            return find_directions(factor, self.solution.active)
        exact = heavy.root >= AS_GOOD_AS_EXACT
        weighted = heavy.root[~exact, None] * heavy.rows[~exact]
        equality_rows = heavy.rows[exact] if exact.any() else None
        return find_directions(np.vstack([weighted, factor]), self.solution.active, equality_rows)

    @property
    def dof(self) -> int:
        """Random data less determined directions."""
        return self._values.size - self.directions.rank

    @cached_property
    def jacobian(self) -> Matrix:
        """The rows of the data and of the priors, as sparse as the directions are."""
        linear = self._linear
        if isinstance(linear, BorderedLinear) and not is_dense(self.directions.root):
            return sparse_jacobian(linear)
        return linear.jacobian

    @cached_property
    def _image(self) -> Matrix:
        """Q = S W: the directions, as the data see them."""
        if self.plan.criterion.joint:
            raise ValueError("a criterion of all data together has no rows of single ones")
        return self.jacobian[self.residuals.row] @ self._linearised.root

    @cached_property
    def _prior_image(self) -> Matrix | None:
        if self.plan.n_residuals == self.plan.n_data or self.plan.criterion.joint:
            return None
        return self._priors_in(self._linearised)

    def _priors_in(self, directions: Directions) -> Matrix:
        return self.jacobian[self.plan.n_data :] @ directions.root

    @cached_property
    def _unit(self) -> float:
        """What residuals are divided by before they are squared; 1 where the variance of others is known to be 1."""
        if self.plan.absolute or self._prior_image is not None:
            return 1.0
        return unit_of(self._values, self.resolution if self.floored else 0.0)

    @property
    def resolution(self) -> float:
        """Norm of the residuals that integration and rounding cannot resolve."""
        return resolution_of(self.plan, self._point)

    @property
    def limit(self) -> str:
        """What limits the resolution, in words."""
        return "rounding" if self._point.resolution < 0.5 * self.resolution else "the error of the integration"

    @cached_property
    def independent(self) -> ParameterStatistics:
        """Statistics for independent errors of one variance."""
        unit = self._unit
        variance = self.plan.criterion.variance(self._values / unit, self.dof, absolute=self.plan.absolute)
        variance, resolved = resolved_variance(variance, self.resolution / unit if self.floored else 0.0)
        sparse = not is_dense(self.directions.root)
        priors = None if self._prior_image is None else self._priors_in(self.directions)
        middle = independent_errors(self.directions.rank, variance, priors, sparse=sparse)
        return statistics_of(
            self.directions, middle, variance, self.dof, absolute=self.plan.absolute, resolved=resolved, unit=unit
        )

    @cached_property
    def lag_test(self) -> LagTest | None:
        """How much a residual resembles the next one."""
        return lag_test(self.residuals, self._image)

    @cached_property
    def tests(self) -> ResidualTests:
        """Tests of the residuals."""
        return residual_tests(self.residuals, self.lag_test)

    @cached_property
    def autocorrelation(self) -> Autocorrelation | None:
        """Errors of first order, where they can be estimated."""
        if self.lag_test is None:
            return None
        return first_order_errors(
            self.residuals.in_units_of(self._unit),
            self._image,
            self.lag_test.lag1,
            absolute=self.plan.absolute,
            prior_image=self._prior_image,
        )

    @cached_property
    def kind(self) -> str:
        """Which errors the residuals suggest: "independent" or "autocorrelated".

        Neighbours that *differ* more than they should are left alone: standard errors are then too large, if
        anything.  So are residuals that show the error of the integration only, and short series: a correlation
        from a dozen values is so uncertain that intervals which allow for it say next to nothing.
        """
        allowed_for = self.resembles and self.longest_series >= _ENOUGH and self.hessian is None
        return "autocorrelated" if allowed_for else "independent"

    @property
    def resembles(self) -> bool:
        """Whether neighbouring residuals resemble each other more than independent ones would."""
        test = self.lag_test
        return test is not None and test.z >= _SIGNIFICANT and self.independent.resolved

    @property
    def longest_series(self) -> int:
        """Most values of one observable in one experiment."""
        return int(np.diff(self.residuals.first).max(initial=0))

    def statistics(self, kind: str | None = None) -> ParameterStatistics:
        """Return the statistics for errors of this kind (None: what the residuals suggest).

        Where the residuals show the error of the integration only, the kind makes no difference.
        """
        kind = self.kind if kind is None else kind
        if kind not in KINDS:
            raise ProblemError(f"there is no covariance for '{kind}' errors{suggestion(kind, KINDS)}")
        if kind == "independent" or not self.independent.resolved:
            return self.independent
        return self._autocorrelated if kind == "autocorrelated" else self._robust

    @cached_property
    def _autocorrelated(self) -> ParameterStatistics:
        autocorrelation = self.autocorrelation
        if autocorrelation is None:
            raise ProblemError("there are too few data in a row to tell how their errors are correlated.")
        return statistics_of(
            self._linearised, autocorrelation.middle, autocorrelation.variance, autocorrelation.dof, unit=self._unit
        )

    @cached_property
    def _robust(self) -> ParameterStatistics:
        if self.dof <= 0:
            raise ProblemError("robust standard errors need more data than parameters.")
        middle = unequal_variances(self.residuals.in_units_of(self._unit), self._image, self._prior_image)
        return statistics_of(self._linearised, middle, math.nan, self.dof, unit=self._unit)
