"""Ways to reach the minimum: loops over fits."""

from odefit.strategy.comparison import Comparison, compare
from odefit.strategy.result import FitResult
from odefit.strategy.single import METHODS, fit_by
from odefit.strategy.synthetic import with_synthetic_data

__all__ = ["METHODS", "Comparison", "FitResult", "compare", "fit_by", "with_synthetic_data"]
