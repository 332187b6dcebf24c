"""What a solver needs of a problem: an objective, its linearisation, and what it returns.

`solve/` sees arrays and functions; it knows no model and no integrator.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Reduced:
    """A linearised least-squares problem after orthogonal reduction: min ||R dx - b||.

    Attributes
    ----------
    R
        Upper triangular, (n, n).
    b
        (n,); the residual norm that no step can remove is left out.
    equality
        Rows that a step must satisfy exactly, (k, n + 1), the right-hand side last; None if there are none.
    """

    R: Array
    b: Array
    equality: Array | None = None


class LinearModel(Protocol):
    """The linearised least-squares problem at a point; its structure is hidden.

    ``residual(x + dx)`` is approximately ``r + J dx``.  The solver works with the reduced problem only.
    """

    def reduce(self) -> Reduced:
        """Return the triangular problem in the variables that the solver sees."""
        ...

    def reduce_residual(self, residual: Array) -> Array:
        """Return ``-Q' residual``: what `b` would be with this residual at the same Jacobian."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """An objective at one point, on one generation of step grids.

    Attributes
    ----------
    x, generation
        Where, and on which grids.  Values of different generations are never compared.
    value
        Half the squared norm of the residual; NaN if `failure` is not empty.
    residual, linear
        Residual vector, and the linearisation if order 1 was asked for.
    error_ratio
        Largest local integration error over tolerance.
    failure
        Why there is no value, in words; empty on success.
    interrupted
        A stop was asked for.
    """

    x: Array
    generation: int
    value: float
    residual: Array
    linear: LinearModel | None
    error_ratio: float
    failure: str = ""
    interrupted: bool = False


class Objective(Protocol):
    """A sum of squares, evaluated on frozen grids that are renewed only on request."""

    names: tuple[str, ...]

    def evaluate(self, x: Array, order: int) -> Evaluation:
        """Evaluate on the current grids; `order` 1 adds the linearisation.  Failure is a value."""
        ...

    def refresh(self, x: Array) -> int:
        """Adapt the grids to `x`; returns the new generation.  `evaluate` at `x` is free afterwards."""
        ...


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One iteration, for reports."""

    iteration: int
    objective: float
    decrement: float
    step: float
    radius: float
    rank: int
    damping: float
    generation: int


@dataclass(frozen=True, slots=True, eq=False)
class SolverResult:
    """What a solver returns; `evaluation` is the best point, with its linearisation where it exists."""

    status: str
    message: str
    x: Array
    value: float
    evaluation: Evaluation
    iterations: int
    evaluations: int
    refreshes: int
    active: npt.NDArray[np.bool_]
    rank: int
    trace: tuple[TraceRow, ...] = field(default=(), repr=False)

    @property
    def converged(self) -> bool:
        """Whether a test of convergence was met."""
        return self.status == "converged"
