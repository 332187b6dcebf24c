"""Standard errors that do not assume equal variances: the sandwich.

With leverages h_i = ||q_i||^2, q_i the rows of Q = S W, the middle of the covariance is
sum_i q_i q_i' r_i^2/(1 - h_i)^2 ("HC3" of MacKinnon and White 1985), and priors add theirs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from odefit.statistics.covariance import Directions
from odefit.statistics.residuals import Residuals

Array = npt.NDArray[np.float64]


def unequal_variances(residuals: Residuals, directions: Directions, prior_rows: Array | None = None) -> Array | None:
    """Return the middle of the covariance, (rank, rank); None if there is no linearisation."""
    if residuals.jacobian is None:
        return None
    q = residuals.jacobian @ directions.root
    # a datum that the model meets whatever its value is has leverage 1 and residual 0
    left = np.maximum(1.0 - np.sum(q * q, axis=1), 1e-8)
    rows = q * (residuals.value / left)[:, None]
    middle = rows.T @ rows
    if prior_rows is not None and prior_rows.size:
        image = prior_rows @ directions.root
        middle += image.T @ image
    return middle
