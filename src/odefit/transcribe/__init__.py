"""From a compiled problem to an objective that a solver can minimise, odefit's own or another one."""

from odefit.transcribe.evaluator import Evaluator, PointEvaluation
from odefit.transcribe.plan import Plan, plan_of
from odefit.transcribe.single import SingleShooting

__all__ = ["Evaluator", "Plan", "PointEvaluation", "SingleShooting", "plan_of"]
