"""Products with a bordered block-diagonal matrix, as kernels."""

from __future__ import annotations

from odefit.native.kernel import kernel


@kernel
def bordered_product(r, local, n_local, shared, v, out):
    """Set ``out[b] = R_b v`` for all blocks."""
    n_blocks, width = out.shape
    most = local.shape[1]
    for b in range(n_blocks):
        for i in range(width):
            total = 0.0
            for j in range(n_local[b]):
                total += r[b, i, j] * v[local[b, j]]
            for j in range(width - most):
                total += r[b, i, most + j] * v[shared[j]]
            out[b, i] = total


@kernel
def bordered_transposed(r, c, local, n_local, shared, gradient, squares):
    """Set ``gradient = sum_b R_b' c_b`` and `squares` to the squared norms of the columns."""
    n_blocks, width = c.shape
    most = local.shape[1]
    for k in range(gradient.size):
        gradient[k] = 0.0
        squares[k] = 0.0
    for b in range(n_blocks):
        for j in range(width):
            if j >= n_local[b] and j < most:
                continue
            k = local[b, j] if j < most else shared[j - most]
            for i in range(width):
                gradient[k] += r[b, i, j] * c[b, i]
                squares[k] += r[b, i, j] ** 2
