"""Standard errors that do not assume equal variances: the sandwich.

With leverages h_i = ||q_i||^2, q_i the rows of Q = S W, the middle of the covariance is
sum_i q_i q_i' r_i^2/(1 - h_i)^2 ("HC3" of MacKinnon and White 1985), and priors add theirs.
"""

from __future__ import annotations

import numpy as np

from odefit.statistics.matrices import Matrix, scaled_rows, squared_rows
from odefit.statistics.residuals import Residuals


def unequal_variances(residuals: Residuals, q: Matrix, prior_image: Matrix | None = None) -> Matrix:
    """Return the middle of the covariance, (rank, rank), from Q = S W and the rows P W of priors."""
    # a datum that the model meets whatever its value is has leverage 1 and residual 0
    left = np.maximum(1.0 - squared_rows(q), 1e-8)
    rows = scaled_rows(q, residuals.value / left)
    middle = rows.T @ rows
    if prior_image is not None:
        middle = middle + prior_image.T @ prior_image
    return middle
