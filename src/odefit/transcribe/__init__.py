"""From a compiled problem to an objective that a solver can minimise."""

from odefit.transcribe.plan import Plan, plan_of
from odefit.transcribe.single import SingleShooting

__all__ = ["Plan", "SingleShooting", "plan_of"]
