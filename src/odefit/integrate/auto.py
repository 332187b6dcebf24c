"""The choice between an explicit and a stiff method, made anew wherever steps are chosen.

An integration starts with an explicit method: `dopri5`, or `dop853` from rtol = 1e-8 on, where it is the cheaper one
at equal accuracy (docs/integrators.md has the figures).  It watches ``h |lambda|`` at no cost worth mentioning:
fifteen steps at the limit of its stability, and at least a hundred more ahead, and the model counts as stiff.  It is
then integrated by `ddm` from the start, so that one grid belongs to one method; the explicit steps that were lost are
few.  A grid is replayed by the method that made it.
"""

from __future__ import annotations

from odefit.compile import CompiledModel
from odefit.errors import OdefitError
from odefit.integrate.contract import Integrator, Run, Status, StepGrid, Trajectory
from odefit.integrate.ddm import Ddm
from odefit.integrate.dop853 import Dop853
from odefit.integrate.dopri5 import Dopri5
from odefit.native.stop import StopFlag

_EXPLICIT, _EXPLICIT_TIGHT, _STIFF = Dopri5(), Dop853(), Ddm()
_TIGHT = 1e-8  # rtol


class Auto:
    """Begins explicitly and changes to `ddm` where the model is stiff; `Trajectory.grid.method` says which it was."""

    name = "auto"

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
            return self._maker(grid).solve(
                model, run, grid=grid, rtol=rtol, atol=atol, order=order, max_steps=max_steps, stop=stop
            )
        explicit = _EXPLICIT_TIGHT if rtol <= _TIGHT else _EXPLICIT
        found = explicit.solve(
            model, run, rtol=rtol, atol=atol, order=order, max_steps=max_steps, stop=stop, detect=True
        )
        if found.status is Status.STIFF or found.status is Status.TOO_MANY_STEPS:
            return _STIFF.solve(model, run, rtol=rtol, atol=atol, order=order, max_steps=max_steps, stop=stop)
        return found

    @staticmethod
    def _maker(grid: StepGrid) -> Integrator:
        for method in (_EXPLICIT, _EXPLICIT_TIGHT, _STIFF):
            if grid.method == method.name:
                return method
        raise OdefitError(f"a step grid of '{grid.method}' cannot be replayed by 'auto'")
