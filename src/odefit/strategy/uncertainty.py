"""Which standard errors a fit gets: those of independent errors, unless its residuals say otherwise."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError, suggestion
from odefit.solve import Heavy, Reduced, SolverResult
from odefit.statistics import Autocorrelation, ParameterStatistics, Residuals, ResidualTests, residual_series
from odefit.statistics.autocorrelation import LagTest, first_order_errors, lag_test
from odefit.statistics.covariance import (
    Directions,
    find_directions,
    independent_errors,
    quantile_of,
    residual_variance,
    statistics_of,
)
from odefit.statistics.residual_tests import residual_tests
from odefit.statistics.residuals import AS_GOOD_AS_EXACT
from odefit.statistics.sandwich import unequal_variances
from odefit.transcribe import SingleShooting
from odefit.transcribe.bordered import BorderedLinear
from odefit.transcribe.dense import DenseLinear

Array = npt.NDArray[np.float64]

KINDS = ("independent", "autocorrelated", "robust")
_SIGNIFICANT = 1.96  # standard deviations: 2.5 % one-sided


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Statistics of a solution with a linearisation, each computed on first access.

    Attributes
    ----------
    absolute
        Standard deviations were given.
    resolution
        Norm of the residuals that the integration cannot resolve.
    """

    objective: SingleShooting = field(repr=False)
    solution: SolverResult = field(repr=False)
    absolute: bool
    resolution: float

    @cached_property
    def residuals(self) -> Residuals:
        """The weighted residuals as time series."""
        return residual_series(self.objective, self.solution.evaluation)

    @cached_property
    def directions(self) -> Directions:
        """What the data, the priors and the values to be met exactly determine."""
        linear = self.solution.evaluation.linear
        if linear is None:
            raise ValueError("a solution without a linearisation has no statistics")
        reduced, exact = linear.reduce(), None
        if isinstance(reduced, Reduced) and (reduced.heavy.root >= AS_GOOD_AS_EXACT).any():
            heavy, is_exact = reduced.heavy, reduced.heavy.root >= AS_GOOD_AS_EXACT
            exact = heavy.rows[is_exact]
            rest = Heavy(heavy.rows[~is_exact], heavy.right[~is_exact], heavy.root[~is_exact])
            reduced = reduced._replace(heavy=rest)
        return find_directions(reduced.rows()[0], self.solution.active, exact)

    @property
    def dof(self) -> int:
        """Random data less determined directions."""
        return self.residuals.value.size - self.directions.rank

    @property
    def _prior_rows(self) -> Array | None:
        linear = self.solution.evaluation.linear
        if self.objective.n_residuals == self.objective.n_data:
            return None
        return linear.jacobian[self.objective.n_data :] if isinstance(linear, DenseLinear | BorderedLinear) else None

    @cached_property
    def independent(self) -> ParameterStatistics:
        """Statistics for independent errors of one variance."""
        r = self.residuals.value
        variance, resolved = residual_variance(
            float(r @ r), self.dof, absolute=self.absolute, resolution=self.resolution
        )
        middle = independent_errors(self.directions, variance, self._prior_rows)
        quantile = quantile_of(self.dof, absolute=self.absolute)
        return statistics_of(self.directions, middle, variance, quantile, resolved=resolved)

    @cached_property
    def lag_test(self) -> LagTest | None:
        """How much a residual resembles the next one."""
        return lag_test(self.residuals, self.directions)

    @cached_property
    def tests(self) -> ResidualTests:
        """Tests of the residuals."""
        return residual_tests(self.residuals, self.lag_test)

    @cached_property
    def autocorrelation(self) -> Autocorrelation | None:
        """Errors of first order, where they can be estimated."""
        return first_order_errors(self.residuals, self.directions, absolute=self.absolute, prior_rows=self._prior_rows)

    @cached_property
    def kind(self) -> str:
        """Which errors the residuals suggest: "independent" or "autocorrelated".

        Neighbours that *differ* more than they should are left alone: standard errors are then too large, if
        anything.  So are residuals that show the error of the integration only.
        """
        test = self.lag_test
        if test is None or test.z < _SIGNIFICANT or not self.independent.resolved:
            return "independent"
        return "autocorrelated"

    def statistics(self, kind: str | None = None) -> ParameterStatistics:
        """Return the statistics for errors of this kind (None: what the residuals suggest).

        Where the residuals show the error of the integration only, the kind makes no difference.
        """
        wanted = self.kind if kind is None else kind
        if wanted not in KINDS:
            raise ProblemError(f"there is no covariance for '{wanted}' errors{suggestion(wanted, KINDS)}")
        if wanted == "independent" or not self.independent.resolved:
            return self.independent
        if wanted == "autocorrelated":
            found = self.autocorrelation
            if found is None:
                raise ProblemError("there are too few data in a row to tell how their errors are correlated.")
            return statistics_of(self.directions, found.middle, found.variance, quantile_of(found.dof))
        middle = unequal_variances(self.residuals, self.directions, self._prior_rows)
        if middle is None or self.dof <= 0:
            raise ProblemError("robust standard errors need more data than parameters.")
        return statistics_of(self.directions, middle, math.nan, quantile_of(self.dof))
