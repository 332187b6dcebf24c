"""What a solver needs of a problem: an objective, its linearisation, and what it returns.

`solve/` sees arrays and functions; it knows no model and no integrator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


_NO_ROWS = np.empty((0, 0))
_NO_WEIGHTS = np.empty(0)


class Heavy(NamedTuple):
    """Rows of very large or infinite weight, kept apart from the others.

    A heavy row reads ``E_i dx = e_i`` and counts as ``w_i^2/2 (E_i dx - e_i)^2``; with an infinite w it must
    hold exactly.  Weights are relative to those of the other rows, which are of order one.

    Attributes
    ----------
    rows, right
        E (k, n) and e (k,), without their weights.
    root
        w (k,), the roots of the weights, descending; infinity is allowed.
    """

    rows: Array
    right: Array
    root: Array


NO_HEAVY = Heavy(_NO_ROWS, _NO_WEIGHTS, _NO_WEIGHTS)


class Reduced(NamedTuple):
    """A linearised least-squares problem after orthogonal reduction: min ||R dx - b||^2/2 + heavy rows.

    Attributes
    ----------
    R
        Upper triangular, (n, n).
    b
        (n,); the residual norm that no step can remove is left out.
    heavy
        Rows that are not in R.
    """

    R: Array
    b: Array
    heavy: Heavy = NO_HEAVY


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


class Evaluation(NamedTuple):
    """An objective at one point, on one generation of step grids.

    Attributes
    ----------
    x, generation
        Where, and on which grids.  Values of different generations are never compared.
    value
        Half the weighted sum of squares, heavy rows of finite weight included; NaN if `failure` is not empty.
    residual, linear
        Residual vector, and the linearisation if order 1 was asked for.
    misfit
        What the heavy rows miss (k,), without their weights: ``-e`` at dx = 0.
    light
        The part of `value` that heavy rows have no share in.
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
    misfit: Array = _NO_WEIGHTS
    light: float = math.nan


class Objective(Protocol):
    """A sum of squares, evaluated on frozen grids that are renewed only on request.

    Attributes
    ----------
    names
        Names of the unknowns, for messages.
    heavy_root
        Roots of the weights of the heavy rows, descending; empty if there are none.
    """

    names: tuple[str, ...]
    heavy_root: Array

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
    """What a solver returns; `evaluation` is the best point, with its linearisation where it exists.

    `note` says what else the user should know of the way there.
    """

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
    note: str = ""
    trace: tuple[TraceRow, ...] = field(default=(), repr=False)

    @property
    def converged(self) -> bool:
        """Whether a test of convergence was met."""
        return self.status == "converged"
