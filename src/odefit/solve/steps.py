"""Kinds of steps, and what the loop may ask of a step problem."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from odefit.solve.contract import FACTORS, LeastSquares, LinearModel

Array = npt.NDArray[np.float64]

DAMPED, SUBSPACE = 0, 1
"""Filters: the ordinary trust region (28), the subspace trust region (30)."""


class StepInfo(NamedTuple):
    """What is known of a step before it is tried.

    Attributes
    ----------
    x, v
        Where it leads, and the step itself.
    rank
        Determined directions of the linear problem.
    damping
        How much it was restricted: mu of (28), the share of the promise given up by (30), 0 for a full step.
    length
        In the metric of the trust region.
    decrement
        ||S d|| of the full step d: what the linear model could remove.
    promised
        Reduction of the objective by the linear model.
    condition
        Smallest over largest diagonal element of the factor, 0 if the rank is deficient.
    settled
        Directions that are determined, and unknowns that stay at a bound.
    """

    x: Array
    v: Array
    rank: int
    damping: float
    length: float
    decrement: float
    promised: float
    condition: float
    settled: int = 0


class StepProblem(Protocol):
    """The linearised problem at the present point, in one metric, for linear models of any structure.

    Owned by one minimisation, which moves it along.

    Attributes
    ----------
    held
        Unknowns that stay at a bound they have reached.
    """

    held: npt.NDArray[np.bool_]

    def move(self, linear: LinearModel, x: Array) -> None:
        """Become the step problem at this point."""
        ...

    def step(self, radius: float, filter: int = DAMPED) -> StepInfo:
        """Return the step for this radius."""
        ...

    def shortened(self, step: StepInfo, alpha: float) -> StepInfo:
        """Return the fraction `alpha` of a step."""
        ...

    def correction(self, step: StepInfo, trial: LeastSquares) -> tuple[Array, float]:
        """Return the second-order corrected point and the length of the correction, from the trial point."""
        ...


@dataclass(frozen=True)
class Step:
    """A kind of step.

    Attributes
    ----------
    filter
        Which restriction of the Gauss-Newton step a trust region uses.
    metric
        In which metric steps are measured: `FACTORS`, `SCALED`, or None for what suits the structure of the problem
        (the scaled unknowns where many experiments have unknowns of their own: see `odefit.solve.bordered`).
    correct_below, correct_above
        A second-order correction is tried if real over predicted reduction is below the first, and the
        predicted reduction above this fraction of the objective.
    """

    filter: int = DAMPED
    metric: str | None = None
    correct_below: float = 0.9
    correct_above: float = 1e-2

    def wants_correction(self, ratio: float, promised: float, level: float) -> bool:
        """Tell whether a correction is worth an evaluation, where the objective is of this level."""
        return ratio < self.correct_below and promised > self.correct_above * level


@dataclass(frozen=True)
class TrustStep(Step):
    """The ordinary trust-region step (28) with second-order correction."""


@dataclass(frozen=True)
class SubspaceStep(Step):
    """The subspace step (30), as published: no correction.  Subspaces are those of the pivoted factors."""

    filter: int = SUBSPACE
    metric: str | None = FACTORS
    correct_below: float = -math.inf


@dataclass(frozen=True)
class LinearStep(Step):
    """The step of the linear model alone, without correction."""

    correct_below: float = -math.inf
