"""The choice between an explicit and a stiff method, made anew wherever steps are chosen.

An integration starts with an explicit method: `dopri5`, or `dop853` from rtol = 1e-8 on, where it is the cheaper one
at equal accuracy (docs/integrators.md has the figures).  It watches ``h |lambda|`` at no cost worth mentioning:
fifteen steps that stability seems to limit, and at least a hundred more ahead, and the model counts as stiff.  It is
then integrated by `ddm` from the start, so that one grid belongs to one method.  A grid is replayed by the method that
made it.
"""

from __future__ import annotations

from typing import ClassVar

from odefit.compile import CompiledModel
from odefit.errors import OdefitError
from odefit.integrate.contract import Integrator, Run, Status, StepGrid, Trajectory
from odefit.integrate.ddm import Ddm
from odefit.integrate.dop853 import Dop853
from odefit.integrate.dopri5 import Dopri5
from odefit.integrate.explicit import ExplicitRungeKutta
from odefit.native.stop import StopFlag

_TIGHT = 1e-8  # rtol
_LOOSE_METHOD, _TIGHT_METHOD, _STIFF_METHOD = Dopri5(), Dop853(), Ddm()


class Auto:
    """Begins explicitly and changes to `ddm` where the model is stiff; `Trajectory.grid.method` says which it was."""

    name = "auto"
    stiff = _STIFF_METHOD
    gives_up = (Status.STIFF, Status.TOO_MANY_STEPS)
    _makers: ClassVar[dict[str, Integrator]] = {one.name: one for one in (_LOOSE_METHOD, _TIGHT_METHOD, _STIFF_METHOD)}

    @staticmethod
    def explicit(rtol: float) -> ExplicitRungeKutta:
        """Return the method to begin with."""
        return _TIGHT_METHOD if rtol <= _TIGHT else _LOOSE_METHOD

    def solve(
        self,
        model: CompiledModel,
        run: Run,
        *,
        grid: StepGrid | None = None,
        rtol: float,
        atol: float,
        order: int = 0,
        max_steps: int = 100_000,
        stop: StopFlag | None = None,
    ) -> Trajectory:
        """See `Integrator.solve`."""
        if grid is not None:
            if (maker := self._makers.get(grid.method)) is None:
                raise OdefitError(f"a step grid of '{grid.method}' cannot be replayed by 'auto'")
            return maker.solve(model, run, grid=grid, rtol=rtol, atol=atol, order=order, max_steps=max_steps, stop=stop)
        trajectory = self.explicit(rtol).solve(
            model, run, rtol=rtol, atol=atol, order=order, max_steps=max_steps, stop=stop, detect=True
        )
        if trajectory.status in self.gives_up:
            return self.stiff.solve(model, run, rtol=rtol, atol=atol, order=order, max_steps=max_steps, stop=stop)
        return trajectory
