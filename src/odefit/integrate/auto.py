"""The choice between an explicit and a stiff method, made anew wherever steps are chosen.

An integration starts with an explicit method: `dopri5`, or `dop853` from rtol = 1e-8 on, where it is the cheaper one
at equal accuracy (docs/integrators.md has the figures).  It watches ``h |lambda|`` at no cost worth mentioning:
fifteen steps that stability seems to limit, and at least a hundred more ahead, and the model counts as stiff.  It is
then integrated by `ddm` from the start, so that one grid belongs to one method.  A grid is replayed by the method that
made it.  Equations in several derivatives are integrated by `ddm`: `limex` takes no less time at equal tolerances,
neither with many restarts (there it is the more accurate one) nor on large models, and has no second order.
"""

from __future__ import annotations

from odefit.errors import OdefitError
from odefit.integrate.ddm import Ddm
from odefit.integrate.dop853 import Dop853
from odefit.integrate.dopri5 import Dopri5
from odefit.integrate.explicit import DETECT
from odefit.integrate.selection import Candidate
from odefit.integrate.single_method import SingleMethod
from odefit.integrate.solving import Solves

_TIGHT = 1e-8  # rtol
_LOOSE_METHOD, _TIGHT_METHOD, _STIFF_METHOD = Dopri5(), Dop853(), Ddm()

_LOOSE_CANDIDATES, _TIGHT_CANDIDATES = (
    (Candidate(explicit, DETECT), Candidate(_STIFF_METHOD, 0)) for explicit in (_LOOSE_METHOD, _TIGHT_METHOD)
)


class Auto(Solves):
    """Begins explicitly and changes to `ddm` where the model is stiff; `Trajectory.grid.method` says which it was."""

    name = "auto"

    def candidates(self, rtol: float) -> tuple[Candidate, ...]:
        """See `Integrator.candidates`."""
        return _TIGHT_CANDIDATES if rtol <= _TIGHT else _LOOSE_CANDIDATES

    def maker(self, method: str) -> SingleMethod:
        """See `Integrator.maker`."""
        for one in (_LOOSE_METHOD, _TIGHT_METHOD, _STIFF_METHOD):
            if one.name == method:
                return one
        raise OdefitError(f"a step grid of '{method}' cannot be replayed by 'auto'")
