"""From the solver's vector theta to what an experiment runs with: parameters p and initial state y0.

    theta --scale--> slots --gather--> q --compiled map--> (p, y0)

The slots hold the natural values of all parameters of the problem, fixed ones included; an experiment
uses one slot of each parameter.  Its map is a compiled function of the parameters and of its own
constants (numbers it overrides), so that experiments which override the same names share one piece of
code, and neither start values nor fixing a parameter compile anything.  Derivatives come out as *seeds*:
with respect to the columns of theta that the experiment depends on, so that nobody applies a chain rule
later.
"""

from __future__ import annotations

import numpy as np

from odefit.compile.scales import natural_value
from odefit.native.calls import call_model, call_second
from odefit.native.kernel import kernel


@kernel(inline=True)
def fill_slots(theta, codes, lower, upper, free, values, slots, slopes, bends):
    """Fill the natural values of all slots and their derivatives by theta; fixed slots keep their `values`."""
    for i in range(values.size):
        slots[i], slopes[i], bends[i] = values[i], 0.0, 0.0
    for i in range(theta.size):
        slots[free[i]], slopes[free[i]], bends[free[i]] = natural_value(codes[i], theta[i], lower[i], upper[i])


@kernel(inline=True)
def _scatter(row_ptr, col, nonzeros, column, slope, n_parameters, dp, dy0):
    """Turn derivatives by q into derivatives by the experiment's thetas."""
    for c in range(dp.shape[1]):
        for i in range(dp.shape[0]):
            dp[i, c] = 0.0
        for i in range(dy0.shape[0]):
            dy0[i, c] = 0.0
    for i in range(row_ptr.size - 1):
        for e in range(row_ptr[i], row_ptr[i + 1]):
            c = column[col[e]]
            if c >= 0:
                if i < n_parameters:
                    dp[i, c] += nonzeros[e] * slope[col[e]]
                else:
                    dy0[i - n_parameters, c] += nonzeros[e] * slope[col[e]]


@kernel(inline=True, allocating=True)
def _second_seeds(second, t0, q, constants, row_ptr, col, nonzeros, column, slope, bend, n_parameters, d2p, d2y0):
    """Fill d2(p, y0)[a, b] = D2P[v_a, v_b] + (a = b) dP/dq_a d2q_a/dtheta_a^2, with v_a = e_a dq_a/dtheta_a."""
    n_q, n_out = q.size, row_ptr.size - 1
    nothing = np.empty(0)
    out = np.empty(n_out)
    v, w = np.zeros(n_q), np.zeros(n_q)
    n_columns = 0
    position = np.empty(n_q, dtype=np.int64)
    for j in range(n_q):
        if column[j] >= 0:
            position[column[j]] = j
            n_columns += 1
    pair = 0
    for a in range(n_columns):
        ja = position[a]
        v[ja] = slope[ja]
        for b in range(a, n_columns):
            jb = position[b]
            w[jb] = slope[jb]
            call_second(second, t0, q, 0, constants, nothing, v, w, out, 0)
            w[jb] = 0.0
            for i in range(n_out):
                for e in range(row_ptr[i], row_ptr[i + 1]):
                    if a == b and col[e] == ja:
                        out[i] += nonzeros[e] * bend[ja]
                if i < n_parameters:
                    d2p[i, pair] = out[i]
                else:
                    d2y0[i - n_parameters, pair] = out[i]
            pair += 1
        v[ja] = 0.0


@kernel
def map_slots(
    functions, row_ptr, col, t0, slots, slopes, bends, gather, constants, column, order, p, y0, dp, dy0, d2p, d2y0
):
    """Evaluate one experiment's map.

    Parameters
    ----------
    functions, row_ptr, col
        Addresses of the map, its Jacobian by q and its second derivative; CSR pattern.
    slots, slopes, bends, gather
        Natural values of all slots with their derivatives by theta, and which of them are the map's inputs q.
    constants
        The experiment's numbers.
    column
        For each entry of q its column among the experiment's thetas (-1: none).
    p, y0, dp, dy0, d2p, d2y0
        Filled: see `Seeds`; pairs are numbered (0,0), (0,1), ..., (1,1), ...
    """
    n_parameters, n_states = p.size, y0.size
    n_q = gather.size
    q, slope, bend = np.empty(n_q), np.empty(n_q), np.empty(n_q)
    for j in range(n_q):
        q[j], slope[j], bend[j] = slots[gather[j]], slopes[gather[j]], bends[gather[j]]
    out = np.empty(n_parameters + n_states)
    nothing = np.empty(0)
    call_model(functions[0], t0, q, 0, constants, nothing, out, 0)
    for i in range(n_parameters):
        p[i] = out[i]
    for i in range(n_states):
        y0[i] = out[n_parameters + i]
    if order >= 1:
        nonzeros = np.empty(col.size)
        call_model(functions[1], t0, q, 0, constants, nothing, nonzeros, 0)
        _scatter(row_ptr, col, nonzeros, column, slope, n_parameters, dp, dy0)
        if order == 2:
            _second_seeds(
                functions[2], t0, q, constants, row_ptr, col, nonzeros, column, slope, bend, n_parameters, d2p, d2y0
            )


@kernel
def map_parameters(
    functions, row_ptr, col, t0, theta, codes, lower, upper, free, values, gather, constants, column, order,
    p, y0, dp, dy0, d2p, d2y0,
):  # fmt: skip
    """Evaluate one experiment's map at `theta`.

    Parameters
    ----------
    theta, codes, lower, upper, free
        The solver's vector, scale and bounds of each entry, and its position among the slots.
    values
        Natural values of all slots, of which the fixed ones are used.

    The others are those of `map_slots`.
    """
    n = values.size
    slots, slopes, bends = np.empty(n), np.empty(n), np.empty(n)
    fill_slots(theta, codes, lower, upper, free, values, slots, slopes, bends)
    map_slots(
        functions, row_ptr, col, t0, slots, slopes, bends, gather, constants, column, order, p, y0, dp, dy0, d2p, d2y0
    )
