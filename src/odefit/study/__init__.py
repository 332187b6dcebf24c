"""Many fits of one problem."""

from odefit.study.multistart import Cause, Minimum, Multistart, StartRun, fit_from_many

__all__ = ["Cause", "Minimum", "Multistart", "StartRun", "fit_from_many"]
