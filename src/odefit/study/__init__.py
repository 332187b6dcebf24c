"""Many fits of one problem."""

from odefit.study.multistart import fit_from_many
from odefit.study.record import Cause, Minimum, Multistart, StartRun

__all__ = ["Cause", "Minimum", "Multistart", "StartRun", "fit_from_many"]
