"""Ways to reach the minimum: loops over fits."""

from odefit.strategy.result import FitResult
from odefit.strategy.single import METHODS, fit_by

__all__ = ["METHODS", "FitResult", "fit_by"]
