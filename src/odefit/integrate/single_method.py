"""Integrators that are one method: they differ in their kernel and in what it can do."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from odefit.compile import CompiledModel
from odefit.errors import OdefitError
from odefit.integrate.contract import Counters, StepGrid
from odefit.integrate.elimination import LinearAlgebra, linear_algebra
from odefit.integrate.selection import Candidate
from odefit.integrate.solving import Solves
from odefit.integrate.task import METHOD
from odefit.native.kernel_calls import kernel_address

_COUNTERS = len(Counters._fields)


class SingleMethod(Solves):
    """What integrators of one method have in common.

    Attributes
    ----------
    name
        Of the method; its step grids carry it.
    kernel, equations_kernel
        What `odefit.integrate.time_loop.time_loop` made of its steps; the second one for equations in several
        derivatives, None if it does not solve such.
    derivatives
        See `Trajectory`.
    implicit
        Whether it solves linear systems.
    variable_order
        Whether its step grids note orders.
    highest_order
        Of derivatives.
    needs_second
        Whether sensitivities of first order need the second derivatives of the model.
    choices
        `Task.choices`.
    """

    name: str
    kernel: Any
    equations_kernel: Any = None
    derivatives: str = "discrete"
    implicit: bool = False
    variable_order: bool = False
    highest_order: int = 2
    needs_second: bool = False
    choices: int = 0

    @cached_property
    def address(self) -> int:
        """Where the kernel is; it is compiled, or read from the cache, on first access."""
        return kernel_address(self.kernel, METHOD)

    @cached_property
    def _equations_address(self) -> int:
        return kernel_address(self.equations_kernel, METHOD)

    def address_for(self, model: CompiledModel) -> int:
        """Return where the kernel is that solves the equations of a model."""
        return self._equations_address if model.in_equations else self.address

    def solves(self, model: CompiledModel) -> bool:
        """Tell whether it solves equations of this form."""
        return not model.in_equations or self.equations_kernel is not None

    def algebra(self, model: CompiledModel) -> LinearAlgebra:
        """Return the linear algebra that an implicit method begins with."""
        return linear_algebra(model)

    def candidates(self, rtol: float) -> tuple[Candidate, ...]:
        """See `Integrator.candidates`."""
        return (Candidate(self, self.choices),)

    def maker(self, method: str) -> SingleMethod:
        """See `Integrator.maker`."""
        if method != self.name:
            raise OdefitError(f"a step grid of '{method}' cannot be replayed by '{self.name}'")
        return self

    def check(self, grid: StepGrid, n_pieces: int) -> None:
        """Refuse a grid that does not fit a task of so many pieces."""
        grid_pieces = grid.counts.size - _COUNTERS
        if grid_pieces != n_pieces:
            raise OdefitError(f"a step grid of {grid_pieces} pieces cannot be replayed in a run of {n_pieces}")
