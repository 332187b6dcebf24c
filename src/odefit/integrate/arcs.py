"""Arcs of three equal steps: differences, step changes and the solution of one arc; `bdf3` has the mathematics.

A matrix of differences has the rows [third, second, first difference, value] at the last point of an arc, (50), and a
column for each state or, flat, for each sensitivity: every formula here is linear and serves both.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.integrate.directions import slopes_of
from odefit.integrate.explicit import shift_stages
from odefit.integrate.rk32 import error_norm, stages_of_directions, stages_of_states
from odefit.integrate.stepping import first_nonfinite
from odefit.native.calls import call_model
from odefit.native.kernel import kernel
from odefit.native.linear_systems import (
    FACTORISED,
    add_product,
    dense_factorise,
    dense_solve_block,
    solve_for_vector,
)

_LONGEST_STRETCH = 1.02  # steps at most so much longer stay with the polynomial of the arc
_ERROR_CONSTANT = 0.25  # (54)


@kernel(inline=True)
def interpolated_value(dif, nu, i):
    """Return the cubic through an arc, `nu` steps before its end: (51), (53)."""
    second = 0.5 * nu * (nu - 1.0)
    return dif[3, i] - nu * dif[2, i] + second * dif[1, i] - second * (nu - 2.0) / 3.0 * dif[0, i]


@kernel(inline=True)
def differences_of(path, out, size):
    """Set `out` to the differences of four equidistant values, oldest first: (55)."""
    for i in range(size):
        a, b, c, d = path[0, i], path[1, i], path[2, i], path[3, i]
        out[0, i] = (d - c) - 2.0 * (c - b) + (b - a)
        out[1, i] = (d - c) - (c - b)
        out[2, i] = d - c
        out[3, i] = d


@kernel
def change_step(dif, before, r, r_before, path, out):
    """Set `out` to the differences at the same point for steps `r` times as long.

    Shorter steps stay in the arc; longer ones reach back into the arc before, which ends three steps earlier and
    whose steps are 1/`r_before` times as long as those of `dif` (0: there is none).
    """
    size = dif.shape[1]
    if r <= _LONGEST_STRETCH or r_before == 0.0:
        # with D = 1 - (1 - d)^r for the new difference D in terms of the old one d: (56) and then (55)
        r11, r12, r13 = r, 0.5 * r * (1.0 - r), r * (1.0 - r) * (2.0 - r) / 6.0
        r22, r23, r33 = r * r, r * r * (1.0 - r), r * r * r
        for i in range(size):
            out[3, i] = dif[3, i]
            out[2, i] = r11 * dif[2, i] + r12 * dif[1, i] + r13 * dif[0, i]
            out[1, i] = r22 * dif[1, i] + r23 * dif[0, i]
            out[0, i] = r33 * dif[0, i]
        return
    for j in range(4):
        nu = (3 - j) * r
        for i in range(size):
            path[j, i] = (
                interpolated_value(dif, nu, i) if nu <= 3.0 else interpolated_value(before, (nu - 3.0) * r_before, i)
            )  # fmt: skip
    differences_of(path, out, size)


@kernel
def runge_kutta_arc(functions, t, h, p, u, path, k, y, states, rtol, atol, differentiate, s_path, s, z, seeds, k1):
    """Compute the first arc from ``path[0]`` by (34), (35); to `differentiate`, sensitivities from ``s_path[0]`` too.

    Returns
    -------
    ratio, cause, bad
        Largest error over tolerance (36) and its state; the first sensitivity that is not finite (-1: none).
    """
    rhs, directions, _ = functions
    n, size = path.shape[1], s.size
    s_flat, z_flat, k1_flat = s.reshape(1, size), z.reshape(1, size), k1.reshape(4, size)
    ratio_most, cause = 0.0, -1
    for i in range(n):
        y[0, i] = path[0, i]
    call_model(rhs, t, y, 0, p, u, k, 0)
    if differentiate:
        for i in range(size):
            s_flat[0, i] = s_path[0, i]
        slopes_of(directions, t, y, 0, p, u, s, seeds, n, k1, 0)
    for j in range(3):
        begin = t + j * h
        stages_of_states(rhs, begin, h, y, p, u, n, k, states)
        ratio, worst = error_norm(y, states, h, k, n, rtol, atol)
        if ratio > ratio_most:
            ratio_most, cause = ratio, worst
        if not math.isfinite(ratio):
            break
        if differentiate:
            stages_of_directions(directions, begin, h, s_flat, z_flat, z, seeds, p, u, n, states, k1_flat, k1)
            bad = max(first_nonfinite(z_flat, 0, size), first_nonfinite(k1_flat, 3, size))
            if bad >= 0:
                return ratio_most, cause, bad
            shift_stages(s_flat, z_flat, 0, k1_flat, 3, size)
            for i in range(size):
                s_path[j + 1, i] = s_flat[0, i]
        shift_stages(y, states, 3, k, 3, n)
        for i in range(n):
            path[j + 1, i] = y[0, i]
    return ratio_most, cause, -1


@kernel(inline=True)
def _add_up(dif, size):
    """Turn [new third, old second, old first difference, old value] into those of the new point."""
    for i in range(size):
        dif[1, i] += dif[0, i]
        dif[2, i] += dif[1, i]
        dif[3, i] += dif[2, i]


@kernel
def bdf_arc(functions, pattern, t, h, t_new, p, u, dif, path, f, rest, old, delta, jac, a, pivots, work, rtol, atol):
    """Compute an arc of states by (49), from the differences `dif` for its step, which move to its end.

    Returns
    -------
    ratio, cause, n_rhs
        Largest error over tolerance (inf: a value is not finite), its state, evaluations of f.
    """
    rhs, _, jacobian = functions
    n, shift, n_rhs = path.shape[1], 11.0 / (6.0 * h), 0
    for i in range(n):
        path[0, i] = dif[3, i]
    call_model(jacobian, t, path, 0, p, u, jac, 0)
    for e in range(jac.size):
        if not math.isfinite(jac[e]):
            jac[e] = 0.0  # it only helps to find the states, which may exist where their derivatives do not
    if dense_factorise(pattern[0], pattern[1], pattern[2], jac, shift, n, a, pivots) != FACTORISED:
        return np.inf, 0, n_rhs
    for j in range(1, 4):
        time = t_new if j == 3 else t + j * h
        for i in range(n):
            old[i] = dif[0, i]
            rest[i] = (1.5 * dif[1, i] + dif[2, i]) / h
            path[j, i] = dif[3, i] + (dif[2, i] + (dif[1, i] + dif[0, i]))
        for _ in range(2 if j == 3 else 1):
            call_model(rhs, time, path, j * n, p, u, f, 0)
            n_rhs += 1
            bad = max(first_nonfinite(f, 0, n), first_nonfinite(path, j, n))
            if bad >= 0:
                return np.inf, bad, n_rhs
            for i in range(n):
                delta[i] = f[0, i] - rest[i] - shift * dif[0, i]
            solve_for_vector(pattern, n, a, pivots, work, delta)
            for i in range(n):
                dif[0, i] += delta[i]
                path[j, i] = dif[3, i] + (dif[2, i] + (dif[1, i] + dif[0, i]))
        _add_up(dif, n)
        for i in range(n):
            path[j, i] = dif[3, i]
    ratio, cause = -1.0, 0
    for i in range(n):
        error = max(_ERROR_CONSTANT * abs(dif[0, i] - old[i]), abs(delta[i]))
        part = error / (atol + rtol * max(abs(path[2, i]), abs(path[3, i])))
        if math.isnan(part) or not math.isfinite(path[3, i]):
            return np.inf, i, n_rhs
        if part > ratio:
            ratio, cause = part, i
    return ratio, cause, n_rhs


@kernel
def bdf_arc_directions(functions, pattern, t, h, t_new, p, u, path, s, r, z, seeds, jac, a, pivots):
    """Move the differences `s` of sensitivities, (4, blocks, n, 4), through the arc `path` of states.

    Returns the flat index of the first value that is not finite, or -1.
    """
    jacobian = functions[2]
    n, size, shift = path.shape[1], r.size, 11.0 / (6.0 * h)
    s_flat, r_flat, z_flat = s.reshape(4, size), r.reshape(1, size), z.reshape(1, size)
    for j in range(1, 4):
        call_model(jacobian, t_new if j == 3 else t + j * h, path, j * n, p, u, jac, 0)
        for i in range(n):
            for e in range(pattern[0][i], pattern[0][i + 1]):
                if not math.isfinite(jac[e]):
                    return 4 * i
        if dense_factorise(pattern[0], pattern[1], pattern[2], jac, shift, n, a, pivots) != FACTORISED:
            return 0
        for i in range(size):
            z_flat[0, i] = s_flat[3, i] + (s_flat[2, i] + (s_flat[1, i] + s_flat[0, i]))
            r_flat[0, i] = -(1.5 * s_flat[1, i] + s_flat[2, i]) / h - shift * s_flat[0, i]
        add_product(pattern, jac, n, z_flat, 0, seeds, r_flat)
        for b in range(r.shape[0]):
            dense_solve_block(n, a, pivots, r_flat, 0, b * 4 * n)
        for i in range(size):
            s_flat[0, i] += r_flat[0, i]
        _add_up(s_flat, size)
        bad = first_nonfinite(s_flat, 3, size)
        if bad >= 0:
            return bad
    return -1
