"""How sure the estimates are."""

from odefit.statistics.covariance import ParameterStatistics, linearised_statistics

__all__ = ["ParameterStatistics", "linearised_statistics"]
