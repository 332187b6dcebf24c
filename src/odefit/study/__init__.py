"""Many fits of one problem."""

from odefit.study.multistart import Minimum, Multistart, StartRun, fit_from_many

__all__ = ["Minimum", "Multistart", "StartRun", "fit_from_many"]
