"""Ways to reach the minimum: loops over fits."""

from odefit.strategy.result import FitResult
from odefit.strategy.single import METHODS, fit_by
from odefit.strategy.synthetic import with_synthetic_data

__all__ = ["METHODS", "FitResult", "fit_by", "with_synthetic_data"]
