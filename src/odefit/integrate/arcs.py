"""Arcs of three equal steps: differences, step changes and the solution of one arc; `bdf3` has the mathematics.

A matrix of differences has the rows [third, second, first difference, value] at the last point of an arc, (50), and a
column for each state or, flat, for each sensitivity: every formula here is linear and serves both.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.integrate.directions import slopes_of
from odefit.integrate.explicit import shift_stages
from odefit.integrate.rk32 import SCHEME
from odefit.integrate.stepping import first_nonfinite, tolerance
from odefit.native.calls import call_model
from odefit.native.kernel import kernel
from odefit.native.linear_systems import (
    FACTORISED,
    add_product,
    factorise_matrix,
    solve_blocks,
    solve_for_vector,
)

_state_stages, _direction_stages, _error = SCHEME.state_stages, SCHEME.direction_stages, SCHEME.error  # (34)-(36)
_LONGEST_STRETCH = 1.02  # steps at most so much longer stay with the polynomial of the arc
_ERROR_CONSTANT = 0.25  # (54)


@kernel(inline=True)
def interpolated_value(dif, nu, i):
    """Return the cubic through an arc, `nu` steps before its end: (51), (53)."""
    second = 0.5 * nu * (nu - 1.0)
    return dif[3, i] - nu * dif[2, i] + second * dif[1, i] - second * (nu - 2.0) / 3.0 * dif[0, i]


@kernel(inline=True)
def interpolated_slope(dif, nu, i):
    """Return its derivative by `nu`."""
    return -dif[2, i] + (nu - 0.5) * dif[1, i] - (0.5 * nu * (nu - 2.0) + 1.0 / 3.0) * dif[0, i]


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


@kernel(inline=True)
def runge_kutta_arc(task, room, t, h, differentiate):
    """Compute the first arc from ``path[0]`` by (34), (35); to `differentiate`, sensitivities from ``s_path[0]`` too.

    Returns
    -------
    ratio, cause, bad
        Largest error over tolerance (36) and its state; the first sensitivity that is not finite (-1: none).
    """
    n, size, y, path = task.n, room.s.shape[1], room.y, room.path
    ratio_most, cause = 0.0, -1
    for i in range(n):
        y[0, i] = path[0, i]
    call_model(task.value, t, y, 0, task.p, task.u, room.k, 0)
    if differentiate:
        for i in range(size):
            room.s[0, i] = room.s_path[0, i]
        slopes_of(task, t, y, 0, room.s, room.seeds, room.slopes, 0)
    for j in range(3):
        begin = t + j * h
        _state_stages(task, begin, h, y, room.k, room.states)
        ratio, worst = _error(y, room.states, h, room.k, n, task.rtol, task.atol)
        if ratio > ratio_most:
            ratio_most, cause = ratio, worst
        if not math.isfinite(ratio):
            break
        if differentiate:
            _direction_stages(task, begin, h, room.states, room.s, room.z, room.seeds, room.slopes)
            bad = max(first_nonfinite(room.z, 0, size), first_nonfinite(room.slopes, 3, size))
            if bad >= 0:
                return ratio_most, cause, bad
            shift_stages(room.s, room.z, 0, room.slopes, 3, size)
            for i in range(size):
                room.s_path[j + 1, i] = room.s[0, i]
        shift_stages(y, room.states, 3, room.k, 3, n)
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


@kernel(inline=True)
def bdf_arc(task, e, room, t, h, t_new):
    """Compute an arc of states by (49), from the differences `now` for its step, which move to its end.

    Returns
    -------
    ratio, cause, n_rhs
        Largest error over tolerance (inf: a value is not finite), its state, evaluations of f.
    """
    n, shift, n_rhs = task.n, 11.0 / (6.0 * h), 0
    dif, path, jac, delta = room.now, room.path, room.jac, room.delta
    for i in range(n):
        path[0, i] = dif[3, i]
    call_model(task.jacobian, t, path, 0, task.p, task.u, jac, 0)
    for g in range(jac.size):
        if not math.isfinite(jac[g]):
            jac[g] = 0.0  # it only helps to find the states, which may exist where their derivatives do not
    if factorise_matrix(e, jac, shift, n, room.a, room.pivots, room.work, e.limit) != FACTORISED:
        return np.inf, 0, n_rhs
    for j in range(1, 4):
        time = t_new if j == 3 else t + j * h
        for i in range(n):
            room.old[i] = dif[0, i]
            room.rest[i] = (1.5 * dif[1, i] + dif[2, i]) / h
            path[j, i] = dif[3, i] + (dif[2, i] + (dif[1, i] + dif[0, i]))
        for _ in range(2 if j == 3 else 1):
            call_model(task.value, time, path, j * n, task.p, task.u, room.k, 0)
            n_rhs += 1
            bad = max(first_nonfinite(room.k, 0, n), first_nonfinite(path, j, n))
            if bad >= 0:
                return np.inf, bad, n_rhs
            for i in range(n):
                delta[i] = room.k[0, i] - room.rest[i] - shift * dif[0, i]
            solve_for_vector(e, n, room.a, room.pivots, room.work, delta)
            for i in range(n):
                dif[0, i] += delta[i]
                path[j, i] = dif[3, i] + (dif[2, i] + (dif[1, i] + dif[0, i]))
        _add_up(dif, n)
        for i in range(n):
            path[j, i] = dif[3, i]
    ratio, cause = -1.0, 0
    for i in range(n):
        error = max(_ERROR_CONSTANT * abs(dif[0, i] - room.old[i]), abs(delta[i]))
        part = error / tolerance(task.atol[i], task.rtol, path[2, i], path[3, i])
        if math.isnan(part) or not math.isfinite(path[3, i]):
            return np.inf, i, n_rhs
        if part > ratio:
            ratio, cause = part, i
    return ratio, cause, n_rhs


@kernel(inline=True)
def bdf_arc_directions(task, e, room, t, h, t_new):
    """Move the differences `s_now` of sensitivities through the arc `path` of states.

    Returns the flat index of the first value that is not finite, or -1.
    """
    n, shift, path, jac = task.n, 11.0 / (6.0 * h), room.path, room.jac
    s, r, z = room.s_now, room.r, room.z
    size = r.shape[1]
    for j in range(1, 4):
        call_model(task.jacobian, t_new if j == 3 else t + j * h, path, j * n, task.p, task.u, jac, 0)
        for i in range(n):
            for g in range(e.row_ptr[i], e.row_ptr[i + 1]):
                if not math.isfinite(jac[g]):
                    return 4 * i
        if factorise_matrix(e, jac, shift, n, room.a, room.pivots, room.work, e.limit) != FACTORISED:
            return 0
        for i in range(size):
            z[0, i] = s[3, i] + (s[2, i] + (s[1, i] + s[0, i]))
            r[0, i] = -(1.5 * s[1, i] + s[2, i]) / h - shift * s[0, i]
        add_product(e, jac, n, z, 0, room.seeds, r)
        solve_blocks(e, n, room.a, room.pivots, room.work, r, 0)
        for i in range(size):
            s[0, i] += r[0, i]
        _add_up(s, size)
        bad = first_nonfinite(s, 3, size)
        if bad >= 0:
            return bad
    return -1
