"""Solvers by name: which parts belong together."""

from __future__ import annotations

from dataclasses import dataclass

from odefit.errors import ProblemError, suggestion
from odefit.solve.continuation import WEIGHTS
from odefit.solve.freeze import FreezePolicy
from odefit.solve.globalisation import FullSteps, Globalisation, StepLength, Switching, TrustRegion
from odefit.solve.steps import LinearStep, Step, SubspaceStep, TrustStep


@dataclass(frozen=True)
class Solver:
    """A composition.

    Attributes
    ----------
    step, globalisation
        See their modules.
    freeze
        When step grids are renewed; None: as the problem's settings say.
    weights
        Stages in which very large weights are reached; empty: at once.
    name
        For reports.
    """

    step: Step = TrustStep()
    globalisation: Globalisation = TrustRegion()
    freeze: FreezePolicy | None = None
    weights: tuple[float, ...] = WEIGHTS
    name: str = "custom"


SOLVERS: dict[str, Solver] = {
    solver.name: solver
    for solver in (
        Solver(TrustStep(), TrustRegion(), name="trust"),
        Solver(LinearStep(), TrustRegion(), name="trust-linear"),
        Solver(SubspaceStep(), TrustRegion(), name="subspace"),
        Solver(SubspaceStep(), Switching(), name="diffpar"),
        Solver(LinearStep(), StepLength(), name="damped"),
        Solver(LinearStep(), FullSteps(), name="gauss-newton"),
    )
}
"""Solvers by the names that problem files use."""


def solver_named(name: str) -> Solver:
    """Return the solver `name`."""
    if name not in SOLVERS:
        raise ProblemError(f"there is no solver '{name}'{suggestion(name, SOLVERS)} There are: {', '.join(SOLVERS)}.")
    return SOLVERS[name]
