"""Nonlinear least squares: a solver is composed of step, globalisation, termination and freeze policy."""

from odefit.solve.compositions import SOLVERS, Solver, solver_named
from odefit.solve.continuation import solve_weighted
from odefit.solve.contract import Evaluation, Heavy, LinearModel, Objective, Reduced, SolverResult, TraceRow
from odefit.solve.freeze import POLICIES, Decision, ErrorGrowth, FreezePolicy, OmegaTolerance, Readapt
from odefit.solve.gauss_newton import solve
from odefit.solve.globalisation import FullSteps, Globalisation, StepLength, Switching, TrustRegion
from odefit.solve.scaling import Scaling
from odefit.solve.steps import LinearStep, Step, SubspaceStep, TrustStep
from odefit.solve.termination import Termination

__all__ = [
    "POLICIES",
    "SOLVERS",
    "Decision",
    "ErrorGrowth",
    "Evaluation",
    "FreezePolicy",
    "FullSteps",
    "Globalisation",
    "Heavy",
    "LinearModel",
    "LinearStep",
    "Objective",
    "OmegaTolerance",
    "Readapt",
    "Reduced",
    "Scaling",
    "Solver",
    "SolverResult",
    "Step",
    "StepLength",
    "SubspaceStep",
    "Switching",
    "Termination",
    "TraceRow",
    "TrustRegion",
    "TrustStep",
    "solve",
    "solve_weighted",
    "solver_named",
]
