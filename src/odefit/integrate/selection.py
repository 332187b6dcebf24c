"""Who integrates a task, and with which linear algebra: the one place where statuses that ask for something get it.

A kernel that cannot go on as it was told ends with a status: an explicit method that meets a stiff model (STIFF, or too
many steps), or an elimination whose entries grow (REORDER).  `Selection.answer` says whether it is worth while to try
again, and `method`, `choices`, `algebra` and `max_steps` then hold how.

An explicit method that gave up on a task is next time allowed no more steps than the method after it took: at tight
tolerances those that show stiffness anew would cost more than the whole stiff solution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from odefit.compile import CompiledModel
from odefit.errors import OdefitError
from odefit.integrate.contract import Array, Integrator, Status, StepGrid
from odefit.integrate.elimination import LinearAlgebra, exchanging, pattern_of, reordered
from odefit.native.linear_systems import Elimination

if TYPE_CHECKING:
    from odefit.integrate.single_method import SingleMethod

GIVES_UP = (Status.STIFF, Status.TOO_MANY_STEPS, Status.NOT_AT_REST)
"""Statuses after which the next candidate is tried, if there is one."""


_NO_ALGEBRA = Elimination()


class Candidate(NamedTuple):
    """A method that may integrate a task, and the bits it is told (`Task.choices`)."""

    method: SingleMethod
    choices: int


class Selection:
    """The choice for one task, from call to call.

    Attributes
    ----------
    method, choices
        Who integrates.
    algebra
        The linear algebra of an implicit method.
    max_steps
        Its limit on attempted steps.
    """

    __slots__ = (
        "_candidates", "_choice", "_limit", "_model", "_number", "_patience", "_tried", "_trouble", "algebra",
        "choices", "max_steps", "method",
    )  # fmt: skip
    method: SingleMethod
    choices: int
    algebra: LinearAlgebra | None
    max_steps: int

    def __init__(self, choice: Integrator, model: CompiledModel, rtol: float, max_steps: int) -> None:
        self._choice, self._model = choice, model
        self._candidates = tuple(one for one in choice.candidates(rtol) if one.method.solves(model))
        if not self._candidates:
            raise OdefitError(
                f"the integrator '{choice.name}' cannot solve equations in several derivatives; take 'auto', 'ddm' or "
                "'limex'"
            )
        self._limit = self._patience = max_steps
        self._number = 0
        self._trouble: Array | None = None

    def choose(self) -> None:
        """Begin anew: steps are to be chosen, by the first candidate."""
        self._number = 0
        self._take(*self._candidates[0])
        if len(self._candidates) > 1:
            self.max_steps = self._patience

    def replay(self, grid: StepGrid) -> None:
        """Let the method that made `grid` take its steps again."""
        self._number = len(self._candidates)
        maker = self._choice.maker(grid.method)
        self._take(maker, maker.choices, grid.algebra)

    def _take(self, method: SingleMethod, choices: int, algebra: LinearAlgebra | None = None) -> None:
        self.method, self.choices, self.max_steps = method, choices, self._limit
        self._tried = 0
        if method.implicit:
            self.algebra = method.algebra(self._model) if algebra is None else algebra
        else:
            self.algebra = None

    @property
    def address(self) -> int:
        """Where the kernel of the method is."""
        return self.method.address_for(self._model)

    @property
    def elimination(self) -> Elimination:
        """What the kernel is told of the linear algebra.

        The matrix whose entries grow is noted in one array as long as the selection lives: tables hold its address.
        """
        if self.algebra is None:
            return _NO_ALGEBRA
        if self._trouble is None:
            self._trouble = np.empty(pattern_of(self._model).col.size + 1)
        return self.algebra.told(self._trouble)

    def second(self, order: int) -> int:
        """Return the address of the model's second derivatives, if they are needed for sensitivities of this order."""
        return self._model.rhs.second if order == 2 or (order == 1 and self.method.needs_second) else 0

    def answer(self, status: int) -> bool:
        """Tell whether a task that ended with `status` is to be tried again, and change what must be changed."""
        if status == Status.REORDER and self.algebra is not None and self._trouble is not None:
            if self._tried == 0:
                self.algebra = reordered(self._model, self._trouble[:-1], float(self._trouble[-1]))
            else:
                self.algebra = exchanging(self._model, instead=self.algebra)
            self._tried += 1
            return True
        if status in GIVES_UP and self._number + 1 < len(self._candidates):
            self._number += 1
            self._take(*self._candidates[self._number])
            return True
        return False

    def remember(self, n_steps: int) -> None:
        """Note how many steps the task took in the end."""
        self._patience = n_steps if self._number > 0 else self._limit

    def forget(self) -> None:
        """Let go of that: the task failed, or the next choice is not to depend on it."""
        self._patience = self._limit
