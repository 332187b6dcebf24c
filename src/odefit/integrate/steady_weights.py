"""Weights of conserved totals that depend on parameters.

A law is w'f(y, p) = 0 for all y: where A reacts to B and to C at the rates k1 A and k2 A, it is k2 B - k1 C.  With
w = 1 for one of its states, the lead d, and unknown w_j for the others, as many *samples* y_k as there are unknowns
give

    sum_j w_j f_j(y_k, p) = -f_d(y_k, p),

and, differentiated by a parameter,

    sum_j dw_j f_j(y_k, p) = -(f_p dp)_d - sum_j w_j (f_p dp)_j        at the samples.

Samples may be anything, since the law holds everywhere: numbers of the size of the states.  States that stay as they
begin are at their initial values in them, and the derivatives of these count as those of parameters do.
"""

from __future__ import annotations

import numpy as np

from odefit.native.calls import call_model
from odefit.native.dense_lu import factorise_dense, solve_dense
from odefit.native.kernel import kernel

_FIRST, _SECOND, _BOTH = 0.7548776662466927, 0.5698402909980532, 0.38196601125010515


@kernel
def _sample(task, e, size, k, y):
    """Set `y` to sample number `k`."""
    largest = 0.0
    for j in range(task.n):
        largest = max(largest, size[j])
    for j in range(task.n):
        if e.stays[j] != 0:
            y[j] = task.y0[j]
        else:
            part = ((k + 1) * _FIRST + (j + 1) * _SECOND + (k + 1) * (j + 1) * _BOTH) % 1.0
            scale = size[j] if size[j] > 0.0 else largest if largest > 0.0 else 1.0
            y[j] = (0.5 + part) * scale
    return 0


@kernel
def _others(task, laws, law, lead):
    """Return the states with a weight in a law, all but its lead."""
    n, count = task.n, 0
    others = np.empty(n, np.int64)
    for j in range(n):
        if j != lead and laws[law * n + j] != 0.0:
            others[count] = j
            count += 1
    return others[:count]


@kernel
def _factorised(task, e, size, others, lead, right, factors, pivots, scale):
    """Factorise the equations of a law's weights, and fill their right side; tell whether they are regular."""
    s, y, f = others.size, np.empty(task.n), np.empty(task.n)
    matrix = np.empty((s, s))
    for b in range(s):
        scale[b] = 0.0
    for k in range(s):
        _sample(task, e, size, k, y)
        call_model(task.value, task.start, y, 0, task.p, task.u, f, 0)
        right[k] = -f[lead]
        for b in range(s):
            matrix[k, b] = f[others[b]]
            scale[b] = max(scale[b], abs(matrix[k, b]))
    for b in range(s):
        scale[b] = 1.0 / scale[b] if scale[b] > 0.0 else 1.0
    return factorise_dense(matrix, scale, factors, pivots)


@kernel
def weigh(task, e, laws, size):
    """Fill the weights of the laws that vary, in `laws`; tell whether they could be found."""
    n = task.n
    for v in range(e.varying.size):
        law, lead = e.varying[v], e.lead[v]
        others = _others(task, laws, law, lead)
        s = others.size
        right, factors, pivots, scale = np.empty(s), np.empty((s, s)), np.empty(s, np.int64), np.empty(s)
        if not _factorised(task, e, size, others, lead, right, factors, pivots, scale):
            return False
        solve_dense(factors, pivots, scale, right)
        for b in range(s):
            laws[law * n + others[b]] = right[b]
    return True


@kernel
def _along(task, e, jac, row, c):
    """Return the derivative of a row of f by column `c` of the seeds, states that stay included."""
    n, q, total = task.n, task.n_columns, 0.0
    for entry in range(e.row_ptr[row], e.row_ptr[row + 1]):
        j = np.int64(e.col[entry])
        if j >= n:
            total += jac[entry] * task.dp[(j - n) * q + c]
        elif e.stays[j] != 0:
            total += jac[entry] * task.dy0[j * q + c]
    return total


@kernel
def motion_of_totals(task, e, laws, y, size, motion):
    """Fill ``-dW (y - y0)`` for the laws that vary, (laws, q)."""
    n, q = task.n, task.n_columns
    for v in range(e.varying.size):
        law, lead = e.varying[v], e.lead[v]
        others = _others(task, laws, law, lead)
        s = others.size
        right, factors, pivots, scale = np.empty(s), np.empty((s, s)), np.empty(s, np.int64), np.empty(s)
        _factorised(task, e, size, others, lead, right, factors, pivots, scale)
        jacs, sample = np.empty((s, e.col.size)), np.empty(n)
        for k in range(s):
            _sample(task, e, size, k, sample)
            call_model(task.jacobian, task.start, sample, 0, task.p, task.u, jacs, k * e.col.size)
        for c in range(q):
            for k in range(s):
                right[k] = -_along(task, e, jacs[k], lead, c)
                for b in range(s):
                    right[k] -= laws[law * n + others[b]] * _along(task, e, jacs[k], others[b], c)
            solve_dense(factors, pivots, scale, right)
            motion[law, c] = 0.0
            for b in range(s):
                motion[law, c] -= right[b] * (y[others[b]] - task.y0[others[b]])
    return 0
