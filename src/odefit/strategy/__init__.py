"""Ways to reach the minimum: loops over fits."""

from odefit.strategy.comparison import Comparison, compare
from odefit.strategy.methods import METHODS, fit_by
from odefit.strategy.result import Attempt, FitResult
from odefit.strategy.synthetic import with_synthetic_data

__all__ = ["METHODS", "Attempt", "Comparison", "FitResult", "compare", "fit_by", "with_synthetic_data"]
