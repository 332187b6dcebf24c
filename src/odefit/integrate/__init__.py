"""Initial value problems: one method a file, one contract (`Integrator`)."""

from odefit.errors import ProblemError, suggestion
from odefit.integrate.bdf3 import Bdf3
from odefit.integrate.contract import Counters, Integrator, Run, Status, StepGrid, Trajectory, segment_ends
from odefit.integrate.dopri5 import Dopri5
from odefit.integrate.rk32 import Rk32

METHODS: dict[str, Integrator] = {method.name: method for method in (Dopri5(), Rk32(), Bdf3())}
"""Integrators by the name that problem files use."""


def integrator(name: str) -> Integrator:
    """Return the integrator `name`."""
    if name not in METHODS:
        raise ProblemError(
            f"there is no integrator '{name}'{suggestion(name, METHODS)} There are: {', '.join(METHODS)}."
        )
    return METHODS[name]


__all__ = [
    "METHODS",
    "Bdf3",
    "Counters",
    "Dopri5",
    "Integrator",
    "Rk32",
    "Run",
    "Status",
    "StepGrid",
    "Trajectory",
    "integrator",
    "segment_ends",
]
