"""Initial value problems: one method a file, one contract (`Integrator`)."""

from odefit.errors import ProblemError, suggestion
from odefit.integrate.auto import Auto
from odefit.integrate.bdf3 import Bdf3
from odefit.integrate.contract import Counters, Integrator, Run, Status, StepGrid, Trajectory, ending, piece_ends
from odefit.integrate.ddm import Ddm
from odefit.integrate.dop853 import Dop853
from odefit.integrate.dopri5 import Dopri5
from odefit.integrate.limex import Limex
from odefit.integrate.rk32 import Rk32

METHODS: dict[str, Integrator] = {
    method.name: method for method in (Dopri5(), Dop853(), Rk32(), Ddm(), Bdf3(), Limex())
}
"""Integrators by name."""

CHOICES: dict[str, Integrator] = {"auto": Auto(), **METHODS}
"""What problem files may name."""


def integrator(name: str) -> Integrator:
    """Return the integrator `name`."""
    if name not in CHOICES:
        raise ProblemError(
            f"there is no integrator '{name}'{suggestion(name, CHOICES)} There are: {', '.join(CHOICES)}."
        )
    return CHOICES[name]


__all__ = [
    "CHOICES",
    "METHODS",
    "Auto",
    "Bdf3",
    "Counters",
    "Ddm",
    "Dop853",
    "Dopri5",
    "Integrator",
    "Limex",
    "Rk32",
    "Run",
    "Status",
    "StepGrid",
    "Trajectory",
    "ending",
    "integrator",
    "piece_ends",
]
