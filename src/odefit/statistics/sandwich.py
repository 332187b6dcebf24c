"""Standard errors that do not assume equal variances: the sandwich.

With leverages h_i = ||q_i||^2, q_i the rows of Q = S W, the middle of the covariance is
sum_i q_i q_i' r_i^2/(1 - h_i)^2 ("HC3" of MacKinnon and White 1985), and priors add theirs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from odefit.statistics.residuals import Residuals

Array = npt.NDArray[np.float64]


def unequal_variances(residuals: Residuals, q: Array, prior_image: Array | None = None) -> Array:
    """Return the middle of the covariance, (rank, rank), from Q = S W and the rows P W of priors."""
    # a datum that the model meets whatever its value is has leverage 1 and residual 0
    left = np.maximum(1.0 - np.sum(q * q, axis=1), 1e-8)
    rows = q * (residuals.value / left)[:, None]
    middle = rows.T @ rows
    if prior_image is not None:
        middle += prior_image.T @ prior_image
    return middle
