"""Backward differentiation formulas of order 1 to 5 with sensitivities by the decoupled direct method.

A step of order k solves, with coefficients from the actual time points (see `odefit.integrate.multistep`),

    c_0 (y_n - y_{n-1}) + sum_{j=2..k} c_j (y_{n-j} - y_{n-1}) = f(t_n, y_n, p).

Step sizes and orders determine the solution; the predictor is only a start for Newton's method.  With z = (y, p) the
derivatives of this equation are linear, all with the matrix c_0 I - f_y at the solution,

    (c_0 I - f_y) (S_n - S_{n-1})   = f_y S_{n-1} + f_p dp - sum_j c_j (S_{n-j} - S_{n-1}),
    (c_0 I - f_y) (S2_n - S2_{n-1}) = f_y S2_{n-1} + f_p d2p + D2f[z_a, z_b] - sum_j c_j (S2_{n-j} - S2_{n-1}),

and are solved once a step is accepted.  Newton's method goes on to rounding, on chosen steps as on replayed ones,
with an old factorisation as long as it contracts fast enough; the sensitivities are solved with the Jacobian at the
solution, by a factorisation of their own, or by refinement to rounding where that is dear.  So S is the derivative
of the *discrete* solution on a fixed sequence of steps and orders, to rounding, in first and second order; output
between the steps is the polynomial through t_n, .., t_{n-k}, linear in the values, and keeps this.

Steps and orders are chosen as in LSODE.  A step that was accepted keeps a mark in its order (`FRESH`) if the matrix of
the states was factorised anew for it: so a replay repeats a run to the last bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from odefit.compile import CompiledModel
from odefit.errors import OdefitError
from odefit.integrate.contract import Array, Counters, Run, Status, StepGrid, Trajectory
from odefit.integrate.directions import _add_second, _in_blocks, _write_start
from odefit.integrate.elimination import Index, LinearAlgebra, exchanging, linear_algebra, reordered
from odefit.integrate.multistep import (
    MAX_ORDER,
    _add_node,
    _error_ratio,
    _formula,
    _interpolated,
    _interpolation_weights,
    _inverse_sum,
    _past,
    _registers,
    _write_blocks,
)
from odefit.integrate.stepping import _append, _fill_nan, _first_nonfinite, _scaled_norm
from odefit.native.calls import call_model
from odefit.native.kernel import kernel
from odefit.native.linear_systems import (
    FACTORISED,
    GROWN,
    GROWTH_LIMIT,
    _factorise,
    _solve_vector,
    add_product,
    solve_blocks,
)
from odefit.native.stop import StopFlag

_OK, _NONFINITE_START, _NONFINITE, _UNDERFLOW, _TOO_MANY, _STOPPED, _NONFINITE_DERIVATIVE, _NOT_SOLVED = (
    int(one) for one in tuple(Status)[:8]
)
_REORDER, _BAD_ORDERS = 100, 101  # for the shell, not for the user
_COUNTERS = len(Counters._fields)
_ORDER_BITS, FRESH = 7, 8
_SMALLEST_STEP = 1e-290
_EPS = float(np.finfo(float).eps)
_TINY = 4.0 * _EPS

_CONVERGED, _SLOW, _NAN, _GROWN = 0, 1, 2, 3  # how Newton's method ends
_MOST_ITERATIONS, _MOST_MATRICES = 40, 4
_ROUNDING = 1e3  # corrections below this many roundings that no longer shrink are rounding
_FLOOR = 1e-9  # of the absolute tolerance: corrections below are rounding too
_ALWAYS_FRESH = 4.0  # where a factorisation costs less than this many solutions, every step gets one
_MOST_DRIFT = 0.3  # relative change of c_0 that a factorisation survives

_GROW_FIRST, _GROW_MOST, _WORTH_A_CHANGE = 10.0, 4.0, 1.15
_BIAS_DOWN, _BIAS_SAME, _BIAS_UP = 1.3, 1.2, 1.4
_SMALLEST_RATIO = 1e-10


@kernel
def _first_step(rhs, t, t_end, y, p, u, f, n, rtol, atol, work):
    """Guess a step size whose local error at order 1, h^2 y''/2, is about a tenth of the tolerance.

    ``f(t, y)`` stands in ``f[0]``; y'' is estimated by an explicit step.
    """
    size, slope = _scaled_norm(y, 0, y, n, rtol, atol), _scaled_norm(f, 0, y, n, rtol, atol)
    h = 1e-6 if size < 1e-10 or slope < 1e-10 else 0.01 * size / slope
    h = min(h, t_end - t)
    bend = np.inf
    for _ in range(20):
        for i in range(n):
            work[1, i] = y[0, i] + h * f[0, i]
        call_model(rhs, t + h, work, n, p, u, f, n)
        for i in range(n):
            work[2, i] = f[1, i] - f[0, i]
        bend = _scaled_norm(work, 2, y, n, rtol, atol) / h
        if math.isfinite(bend):
            break
        h *= 0.1
    wanted = 100.0 * h if bend <= 1e-30 else math.sqrt(0.2 / bend)
    h = min(100.0 * h, wanted, t_end - t)
    return h if h > 0.0 and math.isfinite(h) else (t_end - t) * 1e-6


@kernel
def _corrections(delta, relax, y, new, old, n, floor):
    """Add the corrections to the state; return the largest in units of rounding, and whose it is (inf: not finite)."""
    size, worst = 0.0, 0
    for i in range(n):
        d = relax * delta[i]
        y[new, i] += d
        if not math.isfinite(y[new, i]):
            return np.inf, i
        if d != 0.0:
            part = abs(d) / (_EPS * max(abs(y[new, i]), abs(y[old, i])) + floor)
            if part > size:
                size, worst = part, i
    return size, worst


@kernel
def _is_small(delta, y, row, n, rtol, atol):
    """Tell whether corrections are far below the tolerance."""
    for i in range(n):
        if not abs(delta[i]) <= 1e-4 * (atol + rtol * abs(y[row, i])):
            return False
    return True


@kernel
def _newton(
    functions, pattern, t, y, new, old, p, u, n, c0, base, start, f, delta, jac, a, pivots, work,
    fresh, shift, limit, patience, floor, rtol, atol,
):  # fmt: skip
    """Solve for the new state, from the prediction `start`.

    Returns
    -------
    outcome, cause, shift, rate, iterations, matrices
        How it ended, the state to blame, the shift of the matrix now in `a`, how fast it contracted, and what it cost.
    """
    rhs, jacobian, _ = functions
    worst, matrices, iterations = 0, 0, 0
    rate, old_size, divided = 0.0, np.inf, fresh
    for i in range(n):
        y[new, i] = start[i]
    while iterations < _MOST_ITERATIONS:
        if divided:
            call_model(jacobian, t, y, new * n, p, u, jac, 0)
            for e in range(jac.size):
                if not math.isfinite(jac[e]):
                    jac[e] = 0.0  # it only helps to find the state, which may exist where its derivative does not
            outcome = _factorise(pattern, jac, c0, n, a, pivots, work, limit)
            shift = c0
            matrices += 1
            if outcome != FACTORISED:
                return (
                    (_GROWN if outcome == GROWN and limit < np.inf else _SLOW),
                    worst,
                    0.0,
                    rate,
                    iterations,
                    matrices,
                )
            divided, old_size = False, np.inf
        call_model(rhs, t, y, new * n, p, u, f, 0)
        iterations += 1
        for i in range(n):
            delta[i] = f[0, i] - c0 * (y[new, i] - y[old, i]) - base[i]
        _solve_vector(pattern, n, a, pivots, work, delta)
        size, worst = _corrections(delta, 2.0 * shift / (shift + c0), y, new, old, n, floor)
        if size <= 1.0:
            return _CONVERGED, worst, shift, rate, iterations, matrices
        rate = size / old_size
        old_size = size
        if not math.isfinite(size) or (rate >= 2.0 and size > _ROUNDING):
            if matrices > 0:
                bad = _first_nonfinite(f, 0, n)  # the solution spreads what one equation has spoilt
                return (
                    (_SLOW if math.isfinite(size) else _NAN),
                    worst if bad < 0 else bad,
                    0.0,
                    rate,
                    iterations,
                    matrices,
                )
            for i in range(n):
                y[new, i] = start[i]
            divided = True
        elif rate > 0.0:
            noise = size < _ROUNDING and rate > (0.9 if matrices == 0 else 0.5)  # an old matrix may just be slow
            if size * rate <= 1.0 - rate or noise:
                return _CONVERGED, worst, shift, rate, iterations, matrices
            if rate > 0.9 or math.log(size) > -math.log(rate) * (patience - iterations):
                divided = matrices < _MOST_MATRICES
                if rate > 0.9 and not divided:
                    break
    small = _is_small(delta, y, new, n, rtol, atol)  # a limit of rounding that is far above that of a number
    return (_CONVERGED if small else _SLOW), worst, shift if small else 0.0, rate, iterations, matrices


@kernel
def _solve_directions(pattern, jac, n, c, a, pivots, work, s, s_flat, slot, seeds, d2, r, r_flat):
    """Set the new sensitivities ``s[slot[0]]``; ``d2`` is added to the right-hand side if it is not empty."""
    size = r_flat.size
    rows, weights = _registers(slot, c)
    for i in range(size):
        r_flat[i] = -_past(s_flat, rows, weights, i)
    for i in range(d2.size):
        r_flat[i] += d2[i]
    add_product(pattern, jac, n, s, slot[1], seeds, r)
    solve_blocks(pattern, n, a, pivots, work, r)
    new, old = slot[0], slot[1]
    for i in range(size):
        s_flat[new, i] = s_flat[old, i] + r_flat[i]


@kernel
def _refine_directions(
    pattern, jac, n, c, w, relax, passes, a, pivots, work, s, s_flat, slot, seeds, r, r_flat
):  # fmt: skip
    """Solve for ``s[slot[0]]`` with an old factorisation, by refinement to rounding; tell whether it was reached.

    What counts as rounding is told for each entry, but not below a thousandth of that of the largest in its direction.
    """
    rows, coefficients = _registers(slot, c)
    rows, weights = _registers(slot, w)
    new, old = rows[0], rows[1]
    c0, size = c[0], r_flat.size
    for i in range(size):
        s_flat[new, i] = s_flat[old, i] + _past(s_flat, rows, weights, i)
    old_largest = np.inf
    for _ in range(passes):
        for i in range(size):
            r_flat[i] = -_past(s_flat, rows, coefficients, i) - c0 * (s_flat[new, i] - s_flat[old, i])
        add_product(pattern, jac, n, s, new, seeds, r)
        solve_blocks(pattern, n, a, pivots, work, r)
        largest = 0.0
        for b in range(r.shape[0]):
            for lane in range(4):
                top = 0.0
                for i in range(n):
                    s[new, b, i, lane] += relax * r[b, i, lane]
                    top = max(top, abs(s[new, b, i, lane]))
                for i in range(n):
                    limit = _EPS * (max(abs(s[new, b, i, lane]), abs(s[old, b, i, lane])) + 1e-3 * top)
                    if not abs(r[b, i, lane]) <= limit * largest:
                        largest = abs(r[b, i, lane]) / limit
        rate = largest / old_largest
        old_largest = largest
        if largest <= 1.0 or (0.0 < rate < 0.5 and largest * rate <= 1.0 - rate):
            return True
        if not rate <= 0.5:
            return False
    return False


@kernel
def ddm_solve(
    functions, pattern, room, t0, ends, y0, p, u, dy0, dp, d2y0, d2p, times, y_out, s1_out, s2_out,
    steps, orders, counts, replay, rtol, atol, max_steps, order, test, power, limit, trouble, stop,
):  # fmt: skip
    """Integrate from `t0` through all segments.

    Parameters
    ----------
    functions
        Addresses of f, of its Jacobian by (y, p), and of its second derivative.
    pattern, room
        Linear algebra (see `LinearAlgebra`): its pattern, and n_values, n_pivots, n_work and patience.
    steps, orders, counts, replay
        With `replay` the steps to take again.  `counts` holds, behind room for the numbers of
        `Counters`, how many steps each segment has; it is filled.
    test, power
        Whether sensitivities take part in the error test, and whether the tolerance of a step of order k is raised to
        the power (k + 1)/k.
    limit, trouble
        Growth of entries at which another order of elimination is asked for; then `trouble` holds the Jacobian and
        the shift.

    Returns
    -------
    status, t, cause, ratio, steps, orders
        Status code, time reached, state to blame (-1: none), largest error over tolerance, steps taken.
    """
    n, n_p = y0.size, p.size
    q = dy0.shape[1] if order >= 1 else 0
    m2 = d2y0.shape[1] if order == 2 else 0
    test = test and q > 0
    rhs, jacobian, second = functions
    n_values, n_pivots, n_work, cost = room
    depth = MAX_ORDER + 2  # rows of past values, the new one among them; zero weights need numbers, hence zeros
    y, f, work_rows = np.zeros((depth, n)), np.empty((2, n)), np.empty((3, n))
    base, start, delta = np.empty(n), np.empty(n), np.empty(n)
    jac, work = np.empty(trouble.size - 1), np.empty(n_work)
    a, pivots = np.empty(n_values), np.empty(n_pivots, np.int64)
    psi, past, w, c = np.empty(depth + 1), np.zeros(depth + 1), np.empty(depth + 1), np.empty(depth + 1)
    slot = np.empty(depth, np.int64)
    # sensitivities: the flat names are the same memory
    b1, b2 = (q + 3) // 4, (m2 + 3) // 4
    n1, n2 = b1 * n * 4, b2 * n * 4
    s1, r1 = np.zeros((depth, b1, n, 4)), np.empty((b1, n, 4))
    s2, r2, d2 = np.zeros((depth, b2, n, 4)), np.empty((b2, n, 4)), np.zeros((1, b2, n, 4))
    s1_flat, r1_flat = s1.reshape(depth, n1), r1.reshape(n1)
    s2_flat, r2_flat, d2_flat = s2.reshape(depth, n2), r2.reshape(n2), d2.reshape(n2)
    start1, start2 = _in_blocks(dy0, q), _in_blocks(d2y0, m2)
    p1, p2 = _in_blocks(dp, q), _in_blocks(d2p, m2)
    v1, v2, v3 = np.empty(n + n_p), np.empty(n + n_p), np.empty(n)
    a1, pivots1 = (np.empty(n_values), np.empty(n_pivots, np.int64)) if q > 0 else (a[:0], pivots[:0])
    slopes, nothing = np.empty(n1 if test else 0), base[:0]
    taken = np.empty(steps.size if replay else 64)
    taken_orders = np.empty(steps.size if replay else 64)

    status, cause, worst = _OK, -1, -1
    t, h, k = t0, 0.0, 1
    shift, ratio_most = 0.0, 0.0
    rejected, attempts, n_taken, n_rhs, n_jac, n_second = 0, 0, 0, 0, 0, 0
    patience = min(4.0 + 0.5 * cost, 14.0)

    for j in range(depth):
        slot[j] = j
    for i in range(n):
        y[1, i] = y0[i]
    for i in range(n1):
        s1_flat[1, i] = start1.reshape(n1)[i]
    for i in range(n2):
        s2_flat[1, i] = start2.reshape(n2)[i]
    next_time = 0
    if times.size > 0 and times[0] <= t0:
        for i in range(n):
            y_out[0, i] = y0[i]
        _write_start(start1, n, q, s1_out)
        _write_start(start2, n, m2, s2_out)
        next_time = 1

    for segment in range(ends.size):
        t_end = ends[segment]
        begun = n_taken
        last_step = n_taken + counts[_COUNTERS + segment] - 1 if replay else -1
        call_model(rhs, t, y, slot[1] * n, p, u, f, 0)
        n_rhs += 1
        cause = max(_first_nonfinite(f, 0, n), _first_nonfinite(y, slot[1], n))
        if cause >= 0:
            status = _NONFINITE_START if segment == 0 else _NONFINITE
            break
        for i in range(n):
            work_rows[0, i] = y[slot[1], i]
        if not replay:
            h = _first_step(rhs, t, t_end, work_rows, p, u, f, n, rtol, atol, work_rows)
            n_rhs += 1
        for i in range(n):
            work_rows[1, i] = f[0, i]  # the slope at the beginning predicts the first step
        k, points, since, fails = 1, 1, 1, 0
        must_divide, last_nonfinite, iterations = True, False, 0
        if test:
            call_model(jacobian, t, y, slot[1] * n, p, u, jac, 0)
            n_jac += 1
            for i in range(n1):
                r1_flat[i] = 0.0
            add_product(pattern, jac, n, s1, slot[1], p1, r1)
            cause = _first_nonfinite(r1.reshape(1, n1), 0, n1) // 4
            if cause >= 0:
                cause %= n
                status = _NONFINITE_DERIVATIVE
                break
            for i in range(n1):
                slopes[i] = r1_flat[i]

        while True:
            if replay:
                if n_taken > last_step:
                    break
                h, k = steps[n_taken], orders[n_taken] & _ORDER_BITS
                last = n_taken == last_step
                if k < 1 or k > min(points, MAX_ORDER):
                    status = _BAD_ORDERS
                    break
            else:
                if t >= t_end:
                    break
                last = t + 1.01 * h >= t_end
                if last:
                    h = t_end - t  # may be as short as rounding: data that close to the start are no failure
                elif h <= _TINY * abs(t) or h < _SMALLEST_STEP:
                    status = _NONFINITE if last_nonfinite else _UNDERFLOW
                    break
                if attempts >= max_steps:
                    status = _TOO_MANY
                    break
            if stop[0] != 0:
                status = _STOPPED
                break
            attempts += 1
            t_new = t_end if last else t + h

            # the formula, the prediction, and the new state
            if points == 1:  # a point before the first one, so that the prediction is y + h f
                past[1] = h
                for i in range(n):
                    y[slot[2], i] = y[slot[1], i] - h * work_rows[1, i]
                for i in range(slopes.size):
                    s1_flat[slot[2], i] = s1_flat[slot[1], i] - h * slopes[i]
            psi[1] = h
            for j in range(2, depth):
                psi[j] = h + past[j - 1]
            _formula(psi, k, w, c)
            nodes = k if k == points > 1 else k + 1
            if nodes > k:
                _add_node(psi, nodes, w)
            rows, coefficients = _registers(slot, c)
            rows, weights = _registers(slot, w)
            largest = 0.0
            for i in range(n):
                base[i] = _past(y, rows, coefficients, i)
                start[i] = y[rows[1], i] + _past(y, rows, weights, i)
                largest = max(largest, abs(y[rows[1], i]))
            if replay:
                fresh = shift == 0.0 or (orders[n_taken] & FRESH) != 0
            else:
                drift = abs(c[0] - shift) > _MOST_DRIFT * shift
                fresh = must_divide or cost < _ALWAYS_FRESH or shift == 0.0 or drift or iterations > patience
            outcome, worst, shift, rate, iterations, matrices = _newton(
                functions, pattern, t_new, y, slot[0], slot[1], p, u, n, c[0], base, start, f, delta, jac, a, pivots,
                work, fresh, shift, limit, patience, min(_FLOOR * atol, _EPS * largest), rtol, atol,
            )  # fmt: skip
            n_rhs += iterations
            n_jac += matrices
            if outcome == _GROWN:
                status, trouble[jac.size] = _REORDER, c[0]
                break
            scale = (2.0 if points == 1 else 1.0) / (psi[nodes] * (c[0] - (1.0 / psi[k] if nodes == k else 0.0)))
            exponent = (k + 1.0) / k if power else 1.0
            ratio = np.inf
            if outcome == _CONVERGED:
                ratio, worst = _error_ratio(y, slot, w, n, scale, rtol, atol, exponent)

            # derivatives, once the step is taken
            if q > 0 and outcome == _CONVERGED and (replay or ratio <= 1.0):
                call_model(jacobian, t_new, y, slot[0] * n, p, u, jac, 0)
                n_jac += 1
                bad = -1
                for i in range(n):
                    for e in range(pattern[0][i], pattern[0][i + 1]):
                        if not math.isfinite(jac[e]):
                            bad = i
                solved = False
                if bad < 0 and m2 == 0 and rate < 0.3:  # where factorising is dear: refine with the matrix of the state
                    passes = 2 + int(27.0 / max(1.0, -math.log(max(rate, 1e-10))))
                    if passes * (1.0 + 2.0 * b1) < cost:
                        solved = _refine_directions(
                            pattern, jac, n, c, w, 2.0 * shift / (shift + c[0]), passes, a, pivots, work,
                            s1, s1_flat, slot, p1, r1, r1_flat,
                        )  # fmt: skip
                matrix = FACTORISED
                if not solved:
                    matrix = _factorise(pattern, jac, c[0], n, a1, pivots1, work, limit)
                if matrix == GROWN and limit < np.inf and bad < 0:
                    status, trouble[jac.size] = _REORDER, c[0]
                    break
                if matrix == FACTORISED and bad < 0:
                    if not solved:
                        _solve_directions(
                            pattern, jac, n, c, a1, pivots1, work, s1, s1_flat, slot, p1, nothing, r1, r1_flat
                        )
                    bad = _first_nonfinite(s1_flat, slot[0], n1) // 4
                    if m2 > 0 and bad < 0:
                        for i in range(n2):
                            d2_flat[i] = 0.0
                        _add_second(
                            second, t_new, y, slot[0] * n, p, u, s1[slot[0]], p1, n, q, v1, v2, v3, d2, 0
                        )  # fmt: skip
                        n_second += m2
                        _solve_directions(
                            pattern, jac, n, c, a1, pivots1, work, s2, s2_flat, slot, p2, d2_flat, r2, r2_flat
                        )  # fmt: skip
                        bad = _first_nonfinite(s2_flat, slot[0], n2) // 4
                elif bad < 0:
                    bad = worst
                if bad >= 0:
                    cause = bad % n
                    status = _NONFINITE_DERIVATIVE
                    break
                if test:
                    other, bad = _error_ratio(s1_flat, slot, w, n1, scale, rtol, atol, exponent)
                    if other > ratio:
                        ratio, worst = other, bad // 4 % n

            if not ratio <= 1.0:
                cause = worst
                if replay and not math.isfinite(ratio):
                    status = _NOT_SOLVED if outcome == _SLOW else _NONFINITE
                    break
            if not replay and not ratio <= 1.0:
                rejected += 1
                fails += 1
                since = 0
                must_divide = True
                last_nonfinite = outcome == _NAN or (outcome == _CONVERGED and not math.isfinite(ratio))
                if last_nonfinite:
                    h *= 0.1
                elif outcome != _CONVERGED:
                    h *= 0.25
                else:
                    h *= max(0.1, min(0.9, 1.0 / (_BIAS_SAME * ratio ** (1.0 / (k + 1)))))
                    if fails > 1:
                        h *= 0.5
                if fails > 2:
                    k = 1
                elif fails > 1 and k > 1:
                    k -= 1
                continue
            if ratio > ratio_most:
                ratio_most = ratio
                cause = worst

            while next_time < times.size and times[next_time] <= t_new:
                _interpolation_weights(psi, k, times[next_time] - t_new, c)
                rows, weights = _registers(slot, c)
                for i in range(n):
                    y_out[next_time, i] = _interpolated(y, rows, weights, i)
                _write_blocks(s1_flat, rows, weights, n, q, s1_out, next_time)
                _write_blocks(s2_flat, rows, weights, n, m2, s2_out, next_time)
                next_time += 1

            taken = _append(taken, n_taken, h)
            taken_orders = _append(taken_orders, n_taken, float(k + (FRESH if fresh else 0)))
            n_taken += 1
            t = t_new
            since += 1
            fails, must_divide, last_nonfinite = 0, False, False

            # step size and order of the next step
            if not replay and since > k:
                up = down = 0.0
                same = 1.0 / (_BIAS_SAME * max(ratio, _SMALLEST_RATIO) ** (1.0 / (k + 1)))
                if k < MAX_ORDER and points >= k + 2:
                    _add_node(psi, k + 2, w)
                    scale = 1.0 / (psi[k + 2] * _inverse_sum(psi, k + 1))
                    exponent = (k + 2.0) / (k + 1.0) if power else 1.0
                    other, _ = _error_ratio(y, slot, w, n, scale, rtol, atol, exponent)
                    if test:
                        more, _ = _error_ratio(s1_flat, slot, w, n1, scale, rtol, atol, exponent)
                        other = max(other, more)
                    up = 1.0 / (_BIAS_UP * max(other, _SMALLEST_RATIO) ** (1.0 / (k + 2)))
                if k > 1:
                    _formula(psi, k, w, c)
                    scale = 1.0 / (psi[k] * _inverse_sum(psi, k - 1))
                    exponent = k / (k - 1.0) if power else 1.0
                    other, _ = _error_ratio(y, slot, w, n, scale, rtol, atol, exponent)
                    if test:
                        more, _ = _error_ratio(s1_flat, slot, w, n1, scale, rtol, atol, exponent)
                        other = max(other, more)
                    down = 1.0 / (_BIAS_DOWN * max(other, _SMALLEST_RATIO) ** (1.0 / k))
                best = max(same, up, down)
                if best >= _WORTH_A_CHANGE:
                    if best == up:
                        k += 1
                    elif best == down and best != same:
                        k -= 1
                    h *= min(best, _GROW_FIRST if n_taken - begun < 10 else _GROW_MOST)
                    since = 0

            # the new point becomes the newest of the past ones
            for j in range(1, depth):
                past[j] = psi[j]
            freed = slot[depth - 1]
            for j in range(depth - 1, 0, -1):
                slot[j] = slot[j - 1]
            slot[0] = freed
            points = min(points + 1, depth - 1)

        if not replay:
            counts[_COUNTERS + segment] = n_taken - begun
        if status != _OK:
            break

    if status == _REORDER:
        for e in range(jac.size):
            trouble[e] = jac[e]
    _fill_nan(y_out, next_time)  # not reached: NaN, never zero
    _fill_nan(s1_out.reshape(times.size, s1_out.shape[1] * s1_out.shape[2]), next_time)
    _fill_nan(s2_out.reshape(times.size, s2_out.shape[1] * s2_out.shape[2]), next_time)
    counts[0], counts[1], counts[2], counts[3], counts[4] = attempts - rejected, rejected, n_rhs, n_jac, n_second
    return status, t, cause, ratio_most, taken[:n_taken], taken_orders[:n_taken]


_STATUS = tuple(Status)
_NO_STEPS = np.empty(0)
_NO_ORDERS = np.empty(0, dtype=np.int64)
_NEVER = StopFlag().array


class Ddm:
    """Variable-order BDF with the decoupled direct method; see the module for the mathematics.

    Parameters
    ----------
    test_sensitivities
        Whether first-order sensitivities take part in the error test, with the tolerances of the states.
    scale_tolerance
        Whether a step of order k is held to ``tolerance^((k + 1)/k)``, (37) of Guay and McLean (1993), which makes the
        error more nearly proportional to the tolerance.
    """

    name = "ddm"

    def __init__(self, *, test_sensitivities: bool = False, scale_tolerance: bool = False) -> None:
        self._test = test_sensitivities
        self._power = scale_tolerance

    def solve(
        self,
        model: CompiledModel,
        run: Run,
        *,
        grid: StepGrid | None = None,
        rtol: float,
        atol: float,
        order: int = 0,
        max_steps: int = 100_000,
        stop: StopFlag | None = None,
    ) -> Trajectory:
        """See `Integrator.solve`."""
        t0, y0, p, u, times, ends, dy0, dp, d2y0, d2p = run
        steps, orders, counts = self._grid_arrays(grid, ends.size)
        n, n_times, rhs = y0.size, times.size, model.rhs
        y = np.empty((n_times, n))
        s1 = np.empty((n_times, n, dy0.shape[1] if order >= 1 else 0))
        s2 = np.empty((n_times, n, d2y0.shape[1] if order == 2 else 0))
        trouble = np.empty(rhs.col.size + 1)

        def integrate(algebra: LinearAlgebra, limit: float) -> tuple[Any, ...]:
            return ddm_solve(
                (rhs.value, rhs.jacobian, rhs.second if order == 2 else 0), algebra.pattern, _room(algebra),
                t0, ends if n else _NO_STEPS, y0, p, u, dy0, dp, d2y0, d2p, times, y, s1, s2, steps, orders, counts,
                grid is not None, rtol, atol, max_steps, order, self._test, self._power, limit, trouble,
                _NEVER if stop is None else stop.array,
            )  # fmt: skip

        algebra = linear_algebra(model)
        found = integrate(algebra, GROWTH_LIMIT)
        if found[0] == _REORDER:
            algebra = reordered(model, trouble[:-1], trouble[-1])
            found = integrate(algebra, GROWTH_LIMIT)
        if found[0] == _REORDER:  # where no order serves, growth is left to Newton's method, which shortens steps
            found = integrate(exchanging(model) or algebra, np.inf)
        status, t_end, cause, ratio, taken, taken_orders = found
        if status == _BAD_ORDERS:
            raise OdefitError(f"the orders of a step grid of '{self.name}' do not fit: a step has too few before it")
        if grid is None:
            grid = StepGrid(self.name, taken, counts, taken_orders.astype(np.int64))
        return Trajectory(_STATUS[status], t_end, cause, y, s1, s2, grid, ratio, "discrete", counts)

    def _grid_arrays(self, grid: StepGrid | None, n_segments: int) -> tuple[Array, Index, Index]:
        """Return steps, orders and a copy of the counts of a grid that fits."""
        if grid is None:
            return _NO_STEPS, _NO_ORDERS, np.zeros(_COUNTERS + n_segments, np.int64)
        if grid.method != self.name:
            raise OdefitError(f"a step grid of '{grid.method}' cannot be replayed by '{self.name}'")
        if grid.counts.size != _COUNTERS + n_segments:
            found = grid.counts.size - _COUNTERS
            raise OdefitError(f"a step grid of {found} segments cannot be replayed in a run of {n_segments}")
        if grid.orders.size != grid.steps.size:
            raise OdefitError(f"a step grid of '{self.name}' needs the order of each of its {grid.steps.size} steps")
        return grid.steps, grid.orders, grid.counts.copy()


def _room(algebra: LinearAlgebra) -> tuple[int, int, int, float]:
    """Return what a kernel needs beside the pattern."""
    return algebra.n_values, algebra.n_pivots, algebra.n_work, algebra.patience
