"""Standard errors from the factors of a covariance, dense or sparse, of any size."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from odefit.statistics.spread import DenseSpread, SparseSpread, square_root


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_errors_are_numbers_where_variances_are_none(size: float) -> None:
    random = np.random.default_rng(3)
    root = random.standard_normal((5, 3))
    root[4] = 0.0
    middle = root.T @ root
    expected = np.sqrt(np.einsum("ij,jk,ik->i", root, middle, root))
    units = np.array([size, 1.0, size, 1.0, 1.0])
    left = units[:, None] * root
    np.testing.assert_allclose(DenseSpread(left @ square_root(middle)).errors, units * expected, rtol=1e-12)
    np.testing.assert_allclose(SparseSpread(csr_array(left), csr_array(middle)).errors, units * expected, rtol=1e-12)


def test_what_is_no_number_warns_nobody() -> None:
    root = np.array([[np.inf, 1.0], [1e200, 0.0]])
    assert not np.isfinite(DenseSpread(root).rows(slice(None))[0, 0])
    assert not DenseSpread(root).is_finite
