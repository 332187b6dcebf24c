"""Statistics for independent errors of one variance, put together from plain arrays."""

from __future__ import annotations

import numpy as np

from odefit.statistics.covariance import ParameterStatistics, find_directions, independent_errors, statistics_of


def statistics_of_rows(
    factor: np.ndarray,
    active: np.ndarray,
    squares: float,
    n_data: int,
    *,
    absolute: bool,
    prior_rows: np.ndarray | None = None,
    equality_rows: np.ndarray | None = None,
) -> ParameterStatistics:
    """Return what `Uncertainty` makes of a factor of the Jacobian and a sum of squares."""
    directions = find_directions(factor, active, equality_rows)
    dof = n_data - directions.rank
    variance = 1.0 if absolute else (squares / dof if dof > 0 else np.nan)
    image = None if prior_rows is None else prior_rows @ directions.root
    return statistics_of(
        directions, independent_errors(directions.rank, variance, image), variance, dof, absolute=absolute
    )
