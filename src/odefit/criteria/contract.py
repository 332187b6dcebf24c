"""What a criterion is: from weighted differences of model and data to the objective.

A measurement i has the weighted difference z_i = sqrt(w_i) (g_i - d_i) between model value and datum.  A criterion is
either *per datum*: a sum of losses, handed on as rows of a Gauss-Newton problem,

    objective = sum_i loss_i(z_i),   rows r_i with slopes s_i = dr_i/dz_i:   s_i r_i = loss_i',   s_i^2 about loss_i'' ,

or *joint*: one function of all z, handed on with its gradient and Hessian (exact or Gauss-Newton's).  Priors are added
by the transcription; they are penalties whatever the criterion is.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Rows(NamedTuple):
    """An objective as rows of a Gauss-Newton problem.

    Attributes
    ----------
    value
        The objective; half the sum of squares of the rows only where that is what it is.
    residual
        r (N,).
    slope
        dr/dz (N,); None where it is 1.
    """

    value: float
    residual: Array
    slope: Array | None = None


class Quadratic(NamedTuple):
    """An objective with its derivatives by the unknowns.

    Attributes
    ----------
    value, gradient, hessian
        (n,) and (n, n); None below order 1.
    size
        A reduction small against size^2/2 is of no consequence.
    """

    value: float
    gradient: Array | None
    hessian: Array | None
    size: float


class Criterion(Protocol):
    """What is minimised, and what its minimum says of the noise.  Instances hold no state."""

    @property
    def name(self) -> str:
        """Its name in problem files."""
        ...

    @property
    def words(self) -> str:
        """What the objective is, for reports."""
        ...

    @property
    def joint(self) -> bool:
        """Whether `assess` returns a `Quadratic`; such a criterion gets the whole Jacobian."""
        ...

    @property
    def takes_heavy(self) -> bool:
        """Whether data of very large or infinite weight may be kept apart from the others, as equalities."""
        ...

    def assess(self, differences: Array, half_square: float, jacobian: Array | None) -> Rows | Quadratic:
        """Return the objective.

        Parameters
        ----------
        differences
            z (N,).
        half_square
            Half their sum of squares, which is known already.
        jacobian
            dz/dx (N, n) for a joint criterion at order 1, else None.
        """
        ...

    def change(self, distance: float) -> float:
        """Return the change of the objective that differences of this norm make."""
        ...

    def log_likelihood(self, differences: Array, roots: Array, *, absolute: bool) -> float:
        """Return the log likelihood of the data; NaN if there is none.

        Parameters
        ----------
        roots
            Square roots of the weights.
        absolute
            Standard deviations were given.
        """
        ...

    def score(self, differences: Array, roots: Array, *, absolute: bool) -> Array:
        """Return the derivatives of `log_likelihood` by the differences, (N,); NaN if there is no likelihood."""
        ...

    def variance(self, differences: Array, dof: float, *, absolute: bool) -> float:
        """Return the factor between the inverse of the information and the covariance; NaN if it is unknown."""
        ...
