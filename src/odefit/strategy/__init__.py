"""Ways to reach the minimum: loops over fits."""

from odefit.strategy.methods import METHODS, fit_by
from odefit.strategy.result import Attempt, FitResult

__all__ = ["METHODS", "Attempt", "FitResult", "fit_by"]
