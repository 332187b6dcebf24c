"""What a solver needs of a problem: an objective, its linearisation, and what it returns.

`solve/` sees arrays and functions; it knows no model and no integrator.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from odefit.native.orthogonal import norms_of_columns
from odefit.solve.status import SolverStatus

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_NO_ROWS = np.empty((0, 0))
_NO_WEIGHTS = np.empty(0)

FACTORS, SCALED, NODES = "factors", "scaled", "nodes"
"""Metrics in which steps are measured: that of the pivoted factors, that of the scaled unknowns, and the latter for
problems with nodes, whose states are eliminated."""


class Heavy(NamedTuple):
    """Rows of very large or infinite weight, kept apart from the others.

    A heavy row reads ``E_i dx = e_i`` and counts as ``w_i^2/2 (E_i dx - e_i)^2``; with an infinite w it is an equality
    and must hold exactly.  Weights are relative to those of the other rows, which are of order one.

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


class Triangle(NamedTuple):
    """A linearised problem after orthogonal reduction: min ||R dx - b||^2/2 + heavy rows.

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

    def rows(self) -> tuple[Array, Array]:
        """Return matrix and right-hand side of all rows of finite weight, weighted."""
        if not self.heavy.root.size:
            return self.R, self.b
        finite = np.isfinite(self.heavy.root)
        root = self.heavy.root[finite]
        above = root[:, None] * self.heavy.rows[finite]
        return np.vstack([above, self.R]), np.append(root * self.heavy.right[finite], self.b)

    def descent(self) -> Array:
        """Return the negative gradient of the rows of finite weight."""
        rows, right = self.rows()
        return rows.T @ right

    def column_norms(self) -> Array:
        """Return the norms of the columns, also where their squares are too large for a number."""
        rows = self.rows()[0]
        out = np.empty(rows.shape[1])
        norms_of_columns(rows, out)
        return out


class Reduced(NamedTuple):
    """A damped problem in scaled unknowns, of which only the retained ones are left: min ||R z - b||.

    Attributes
    ----------
    R, b
        Upper triangular (k, k), and (k,).
    removed
        Square of what the eliminated unknowns remove from the residual.
    rank, smallest, largest
        Determined directions among the eliminated unknowns; extreme diagonal elements of their factors.
    fixed
        Which of the retained unknowns stay, (k,).
    kept
        What the linear model needs to compute the eliminated unknowns from the others.
    """

    R: Array
    b: Array
    fixed: Flags
    removed: float
    rank: int
    smallest: float
    largest: float
    kept: Any


class LinearModel(Protocol):
    """The linearised problem at a point: ``residual(x + dx)`` is about ``r + J dx``.  Its structure is hidden.

    Reduced coordinates are those of ``Q' (r + J dx)``, in a shape of the model's own.
    """

    @property
    def heavy(self) -> Heavy:
        """Rows of very large or infinite weight."""
        ...

    def heavy_times(self, v: Array) -> Array:
        """Return what a step changes of the heavy rows, without their weights."""
        ...

    @property
    def right(self) -> Array:
        """``-Q' r`` in reduced coordinates, heavy rows left out."""
        ...

    @property
    def metric(self) -> str:
        """In which metric steps are measured unless a step asks for another one: `FACTORS` or `SCALED`."""
        ...

    @property
    def jacobian(self) -> Array:
        """All rows in the unknowns, (m, n), in the order of the residual: for statistics."""
        ...

    def factor(self) -> Array:
        """Return some F with F'F = J'J, heavy rows of finite weight left out."""
        ...

    def triangle(self) -> Triangle:
        """Return the triangular problem in all unknowns."""
        ...

    def reduce(self, damping: float, scale: Array, fixed: Flags, right: Array, negligible: float) -> Reduced:
        """Return the damped problem in scaled unknowns z = dx/scale, reduced to the retained ones.

        Damping rows sqrt(mu) z = 0 enter each block before its own unknowns are eliminated.

        Parameters
        ----------
        damping, scale
            mu, and the scales of all unknowns.
        fixed
            Unknowns that stay: z = 0.
        right
            Right-hand side in reduced coordinates.
        negligible
            Size of a diagonal element of a factor, up to which its unknown counts as not determined.
        """
        ...

    def expand(self, reduced: Reduced, z: Array) -> Array:
        """Return all scaled unknowns, from the retained ones."""
        ...

    def reduce_residual(self, residual: Array) -> Array:
        """Return ``-Q' residual``: what `right` would be with this residual at the same Jacobian."""
        ...

    def residual_in_triangle(self, residual: Array) -> Array:
        """Return what ``triangle().b`` would be with this residual at the same Jacobian."""
        ...

    def times(self, steps: Array) -> Array:
        """Return ``Q' J dx`` in reduced coordinates, heavy rows left out, for each row dx of `steps`."""
        ...

    def descent(self, right: Array | None = None) -> Array:
        """Return the negative gradient of the rows of finite weight, or what it would be with this `right`."""
        ...

    def column_norms(self) -> Array:
        """Return the norms of the columns of the rows of finite weight."""
        ...

    def all_column_norms(self) -> Array:
        """Return the norms of the columns, rows that must hold exactly counted as ordinary ones."""
        ...

    def reweighted(self, root: Array) -> LinearModel:
        """Return the same model with other weights of the heavy rows."""
        ...


class HeavyMisfit(NamedTuple):
    """What rows of very large weight miss at a point.

    Attributes
    ----------
    misfit
        (k,), without weights: ``-e`` of `Heavy`.
    root
        Roots of the weights, descending.
    light
        The part of the objective that these rows have no share in.
    resolution
        Norm of what the integration does not resolve of the rows of infinite weight; known at order 1.
    """

    misfit: Array
    root: Array
    light: float
    resolution: float = 0.0


class LeastSquares(NamedTuple):
    """An objective at one point whose linearisation is a least-squares problem.

    Attributes
    ----------
    x, generation
        Where, and on which grids.  Values of different generations are never compared.
    value
        The true objective, heavy rows of finite weight included.
    residual, linear
        Rows whose linearisation gives gradient and Fisher information of the objective; the linearisation if order 1
        was asked for.  Half their sum of squares need not be the objective.
    size
        What the part of the residual that a step could remove is compared with: the norm of the residual, heavy rows
        left out (data of great weight that contradict each other must not make all others look unimportant).
    error_ratio
        Largest local integration error over tolerance.
    heavy
        What the heavy rows miss; None if there are none.
    differences
        What reports are made from, and solvers do not look at: weighted differences of model and data.
    resolution
        Norm of what the integration does not resolve of them, heavy rows left out; known at order 1.
    """

    x: Array
    generation: int
    value: float
    residual: Array
    linear: LinearModel | None
    size: float
    error_ratio: float
    heavy: HeavyMisfit | None = None
    differences: Array = _NO_WEIGHTS
    resolution: float = 0.0


class Smooth(NamedTuple):
    """An objective at one point that is known by its value, gradient and Hessian.

    Attributes
    ----------
    linear
        The quadratic model, as a linear one (see `odefit.solve.quadratic`), if order 1 was asked for.
    size
        A step is of no consequence if the reduction that it promises is small against size^2/2; for a negative log
        likelihood of N data, the root of N.

    The others are those of `LeastSquares`.
    """

    x: Array
    generation: int
    value: float
    linear: LinearModel | None
    size: float
    error_ratio: float
    differences: Array = _NO_WEIGHTS
    resolution: float = 0.0


class Failed(NamedTuple):
    """A point at which there is no objective.

    Attributes
    ----------
    failure
        Why, in words.
    interrupted
        A stop was asked for.
    """

    x: Array
    generation: int
    failure: str
    interrupted: bool = False


Point = LeastSquares | Smooth
"""An objective at one point."""
Evaluation = Point | Failed
"""What an evaluation gives."""


def heavy_of(point: Evaluation) -> HeavyMisfit | None:
    """Return what heavy rows miss at a point; None if there are none."""
    return point.heavy if isinstance(point, LeastSquares) else None


def magnitude_of(point: Point) -> float:
    """Return what changes of the objective are compared with.

    For a sum of squares this is its value.  Other objectives may be zero or negative: then it is half the square of
    their size, but what rounding leaves of them depends on their value all the same.
    """
    return max(abs(point.value), 0.5 * point.size**2)


class Names(Protocol):
    """Names of the unknowns, for messages; they need not exist before they are asked for."""

    def __getitem__(self, i: int, /) -> str:
        """Return the name of unknown `i`."""
        ...


class Objective(Protocol):
    """A function, evaluated on frozen grids that are renewed only on request."""

    @property
    def names(self) -> Names:
        """Names of the unknowns, for messages."""
        ...

    def evaluate(self, x: Array, order: int) -> Evaluation:
        """Evaluate on the current grids; `order` 1 adds the linearisation.  Failure is a value."""
        ...

    def refresh(self, x: Array) -> int:
        """Adapt the grids to `x`; returns the new generation.  `evaluate` at `x` is free afterwards."""
        ...


class TraceRow(NamedTuple):
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

    status: SolverStatus
    message: str
    x: Array
    evaluation: Evaluation
    iterations: int
    evaluations: int
    refreshes: int
    active: Flags
    rank: int
    note: str = ""
    trace: tuple[TraceRow, ...] = field(default=(), repr=False)

    @property
    def converged(self) -> bool:
        """Whether a test of convergence was met."""
        return self.status == SolverStatus.CONVERGED

    @property
    def value(self) -> float:
        """The objective; NaN if there is none."""
        return np.nan if isinstance(self.evaluation, Failed) else self.evaluation.value

    @property
    def linear(self) -> LinearModel | None:
        """The linearisation; None if there is none."""
        return None if isinstance(self.evaluation, Failed) else self.evaluation.linear
