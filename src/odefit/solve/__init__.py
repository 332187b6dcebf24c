"""Nonlinear least squares: a solver is composed of step, globalisation, termination and freeze policy."""

from odefit.solve.contract import Evaluation, LinearModel, Objective, Reduced, SolverResult, TraceRow
from odefit.solve.freeze import Decision, FreezePolicy, OmegaTolerance
from odefit.solve.gauss_newton import solve
from odefit.solve.globalisation import TrustRegion
from odefit.solve.scaling import Scaling
from odefit.solve.termination import Termination
from odefit.solve.trust_step import TrustStep

__all__ = [
    "Decision",
    "Evaluation",
    "FreezePolicy",
    "LinearModel",
    "Objective",
    "OmegaTolerance",
    "Reduced",
    "Scaling",
    "SolverResult",
    "Termination",
    "TraceRow",
    "TrustRegion",
    "TrustStep",
    "solve",
]
