"""The choice between an explicit and a stiff method, made anew wherever steps are chosen.

An integration starts with `dopri5`, which watches ``h |lambda|`` at no cost worth mentioning: fifteen steps at
the limit of its stability, and at least a hundred more ahead, and the model counts as stiff.  It is then integrated
by `ddm` from the start, so that one grid belongs to one method; the explicit steps that were lost are few.  A grid
is replayed by the method that made it.
"""

from __future__ import annotations

from typing import ClassVar

from odefit.compile import CompiledModel
from odefit.errors import OdefitError
from odefit.integrate.contract import Integrator, Run, Status, StepGrid, Trajectory
from odefit.integrate.ddm import Ddm
from odefit.integrate.dopri5 import Dopri5
from odefit.native.stop import StopFlag


class Auto:
    """Begins explicitly and changes to `ddm` where the model is stiff; `Trajectory.grid.method` says which it was."""

    name = "auto"
    explicit, stiff = Dopri5(), Ddm()
    gives_up = (Status.STIFF, Status.TOO_MANY_STEPS)
    _makers: ClassVar[dict[str, Integrator]] = {explicit.name: explicit, stiff.name: stiff}

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
        found = self.explicit.solve(
            model, run, rtol=rtol, atol=atol, order=order, max_steps=max_steps, stop=stop, detect=True
        )
        if found.status in self.gives_up:
            return self.stiff.solve(model, run, rtol=rtol, atol=atol, order=order, max_steps=max_steps, stop=stop)
        return found
