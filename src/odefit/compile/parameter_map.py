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

from typing import NamedTuple

import numpy as np

from odefit.compile.scales import natural_value
from odefit.native.calls import call_model, call_second
from odefit.native.kernel import kernel
from odefit.native.records import Floats, Integers, Unsigned


class Unknowns(NamedTuple):
    """From theta to the slots: scale, natural bounds and slot of each entry; values of all slots, for fixed ones."""

    scale_codes: Integers
    lower: Floats
    upper: Floats
    free: Integers
    values: Floats


class Mapping(NamedTuple):
    """One experiment's map.

    Attributes
    ----------
    value, jacobian, second, row_ptr, col
        Addresses of the map, its Jacobian by q and its second derivative; CSR pattern.
    gather, constants
        Which slots are its inputs q, and the experiment's numbers.
    column
        For each entry of q its column among the seeds (-1: none).
    u
        Inputs, see `odefit.compile.table_inputs`.
    """

    value: int
    jacobian: int
    second: int
    row_ptr: Integers
    col: Unsigned
    gather: Integers
    constants: Floats
    column: Integers
    u: Floats


@kernel(inline=True)
def fill_slots(unknowns, theta, slots, slopes, bends):
    """Fill the natural values of all slots and their derivatives by theta; fixed slots keep their values."""
    codes, lower, upper, free, values = unknowns
    for i in range(values.size):
        slots[i], slopes[i], bends[i] = values[i], 0.0, 0.0
    for i in range(theta.size):
        slots[free[i]], slopes[free[i]], bends[free[i]] = natural_value(codes[i], theta[i], lower[i], upper[i])


@kernel(inline=True)
def _scatter(mapping, nonzeros, slope, n_parameters, n_columns, dp, dy0):
    """Turn derivatives by q into derivatives by the experiment's thetas."""
    for i in range(dp.size):
        dp[i] = 0.0
    for i in range(dy0.size):
        dy0[i] = 0.0
    for i in range(mapping.row_ptr.size - 1):
        for e in range(mapping.row_ptr[i], mapping.row_ptr[i + 1]):
            c = mapping.column[mapping.col[e]]
            if c >= 0:
                if i < n_parameters:
                    dp[i * n_columns + c] += nonzeros[e] * slope[mapping.col[e]]
                else:
                    dy0[(i - n_parameters) * n_columns + c] += nonzeros[e] * slope[mapping.col[e]]


@kernel(inline=True, allocating=True)
def _second_seeds(mapping, t0, q, nonzeros, slope, bend, n_parameters, d2p, d2y0):
    """Fill d2(p, y0)[a, b] = D2P[v_a, v_b] + (a = b) dP/dq_a d2q_a/dtheta_a^2, with v_a = e_a dq_a/dtheta_a."""
    n_q, n_out = q.size, mapping.row_ptr.size - 1
    out = np.empty(n_out)
    v, w = np.zeros(n_q), np.zeros(n_q)
    n_columns = 0
    position = np.empty(n_q, dtype=np.int64)
    for j in range(n_q):
        if mapping.column[j] >= 0:
            position[mapping.column[j]] = j
            n_columns += 1
    pair, n_pairs = 0, n_columns * (n_columns + 1) // 2
    for a in range(n_columns):
        ja = position[a]
        v[ja] = slope[ja]
        for b in range(a, n_columns):
            jb = position[b]
            w[jb] = slope[jb]
            call_second(mapping.second, t0, q, 0, mapping.constants, mapping.u, v, w, out, 0)
            w[jb] = 0.0
            for i in range(n_out):
                for e in range(mapping.row_ptr[i], mapping.row_ptr[i + 1]):
                    if a == b and mapping.col[e] == ja:
                        out[i] += nonzeros[e] * bend[ja]
                if i < n_parameters:
                    d2p[i * n_pairs + pair] = out[i]
                else:
                    d2y0[(i - n_parameters) * n_pairs + pair] = out[i]
            pair += 1
        v[ja] = 0.0


@kernel(inline=True, allocating=True)
def map_slots(mapping, t0, slots, n_columns, order, seeds):
    """Evaluate one experiment's map.

    Parameters
    ----------
    slots
        Natural values of all slots, with first and second derivatives by theta.
    n_columns
        Of the seeds.
    seeds
        p, y0, dp, dy0, d2p, d2y0, all flat, to be filled: see `Seeds`; pairs are numbered (0,0), (0,1), ..., (1,1), ...
    """
    p, y0, dp, dy0, d2p, d2y0 = seeds
    n_parameters, n_states, n_q = p.size, y0.size, mapping.gather.size
    pool = np.empty(3 * n_q + n_parameters + n_states + mapping.col.size)
    q, slope, bend = pool[:n_q], pool[n_q : 2 * n_q], pool[2 * n_q : 3 * n_q]
    out, nonzeros = pool[3 * n_q : 3 * n_q + n_parameters + n_states], pool[3 * n_q + n_parameters + n_states :]
    for j in range(n_q):
        at = mapping.gather[j]
        q[j], slope[j], bend[j] = slots[0][at], slots[1][at], slots[2][at]
    call_model(mapping.value, t0, q, 0, mapping.constants, mapping.u, out, 0)
    for i in range(n_parameters):
        p[i] = out[i]
    for i in range(n_states):
        y0[i] = out[n_parameters + i]
    if order >= 1:
        call_model(mapping.jacobian, t0, q, 0, mapping.constants, mapping.u, nonzeros, 0)
        _scatter(mapping, nonzeros, slope, n_parameters, n_columns, dp, dy0)
        if order == 2:
            _second_seeds(mapping, t0, q, nonzeros, slope, bend, n_parameters, d2p, d2y0)


@kernel
def map_parameters(mapping, unknowns, t0, theta, order, seeds):
    """Evaluate one experiment's map at `theta`, to the matrices `seeds`."""
    p, y0, dp, dy0, d2p, d2y0 = seeds
    n = unknowns.values.size
    slots = np.empty(n), np.empty(n), np.empty(n)
    fill_slots(unknowns, theta, slots[0], slots[1], slots[2])
    flat = p, y0, dp.reshape(dp.size), dy0.reshape(dy0.size), d2p.reshape(d2p.size), d2y0.reshape(d2y0.size)
    map_slots(mapping, t0, slots, dp.shape[1], order, flat)
