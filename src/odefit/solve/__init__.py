"""Nonlinear least squares: a solver is composed of step, globalisation, termination and freeze policy."""

from odefit.solve.comeback import idle_unknowns, solve_with_comeback
from odefit.solve.compositions import SOLVERS, Solver, solver_named
from odefit.solve.continuation import solve_weighted
from odefit.solve.contract import (
    FACTORS,
    SCALED,
    Evaluation,
    Failed,
    Heavy,
    HeavyMisfit,
    LeastSquares,
    LinearModel,
    Objective,
    Point,
    Reduced,
    Smooth,
    SolverResult,
    TraceRow,
    Triangle,
    heavy_of,
)
from odefit.solve.freeze import POLICIES, Decision, ErrorGrowth, FreezePolicy, OmegaTolerance, Readapt
from odefit.solve.gauss_newton import FROM_HERE, solve
from odefit.solve.globalisation import FullSteps, Globalisation, StepLength, Switching, TrustRegion
from odefit.solve.quadratic import quadratic_model, smooth_point
from odefit.solve.scaling import Scaling
from odefit.solve.status import SolverStatus
from odefit.solve.steps import LinearStep, Step, SubspaceStep, TrustStep
from odefit.solve.termination import Termination

__all__ = [
    "FACTORS",
    "FROM_HERE",
    "POLICIES",
    "SCALED",
    "SOLVERS",
    "Decision",
    "ErrorGrowth",
    "Evaluation",
    "Failed",
    "FreezePolicy",
    "FullSteps",
    "Globalisation",
    "Heavy",
    "HeavyMisfit",
    "LeastSquares",
    "LinearModel",
    "LinearStep",
    "Objective",
    "OmegaTolerance",
    "Point",
    "Readapt",
    "Reduced",
    "Scaling",
    "Smooth",
    "Solver",
    "SolverResult",
    "SolverStatus",
    "Step",
    "StepLength",
    "SubspaceStep",
    "Switching",
    "Termination",
    "TraceRow",
    "Triangle",
    "TrustRegion",
    "TrustStep",
    "heavy_of",
    "idle_unknowns",
    "quadratic_model",
    "smooth_point",
    "solve",
    "solve_weighted",
    "solve_with_comeback",
    "solver_named",
]
