"""How sure the estimates are, and what is computed from them."""

from odefit.statistics.covariance import ParameterStatistics, linearised_statistics
from odefit.statistics.delta import Band, Estimate, prediction_band
from odefit.statistics.derived import derived_quantities

__all__ = [
    "Band",
    "Estimate",
    "ParameterStatistics",
    "derived_quantities",
    "linearised_statistics",
    "prediction_band",
]
