"""How sure the estimates are, and what is computed from them."""

from odefit.statistics.autocorrelation import Autocorrelation, first_order_errors, lag_test
from odefit.statistics.covariance import ParameterStatistics
from odefit.statistics.delta import Band, Estimate, prediction_band
from odefit.statistics.derived import derived_quantities
from odefit.statistics.quality import Criteria, Misfit
from odefit.statistics.residual_tests import ResidualTests
from odefit.statistics.residuals import Residuals, residual_series
from odefit.statistics.verdicts import ParameterReport

__all__ = [
    "Autocorrelation",
    "Band",
    "Criteria",
    "Estimate",
    "Misfit",
    "ParameterReport",
    "ParameterStatistics",
    "ResidualTests",
    "Residuals",
    "derived_quantities",
    "first_order_errors",
    "lag_test",
    "prediction_band",
    "residual_series",
]
