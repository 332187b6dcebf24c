"""Backward differentiation formulas of order 1 to 5 with sensitivities by the decoupled direct method.

A step of order k solves, with coefficients from the actual time points (see `odefit.integrate.multistep`),

    c_0 (y_n - y_{n-1}) + sum_{j=2..k} c_j (y_{n-j} - y_{n-1}) = f(t_n, y_n, p).

Step sizes and orders determine the solution; the predictor is only a start for Newton's method.  With z = (y, p) the
derivatives of this equation are linear, all with the matrix c_0 I - f_y at the solution,

    (c_0 I - f_y) S_n  = c_0 S_{n-1}  - sum_j c_j (S_{n-j} - S_{n-1})   + f_p dp,
    (c_0 I - f_y) S2_n = c_0 S2_{n-1} - sum_j c_j (S2_{n-j} - S2_{n-1}) + f_p d2p + D2f[z_a, z_b],

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
from odefit.integrate.contract import Array, Counters, Run, Status, StepGrid, Trajectory, steps_to_take
from odefit.integrate.ddm_control import first_step, next_step, power_of, retry_step
from odefit.integrate.ddm_directions import SOLVED, directions_of_step, slopes_at_start
from odefit.integrate.ddm_newton import CONVERGED, NOT_FINITE, SLOW, TOO_LARGE, newton_step
from odefit.integrate.directions import in_blocks, write_start
from odefit.integrate.elimination import Index, LinearAlgebra, exchanging, linear_algebra, reordered
from odefit.integrate.multistep import (
    MAX_ORDER,
    add_node,
    bdf_formula,
    interpolated_value,
    past_point,
    ratio_of_error,
    registers_of,
    weights_at,
    write_blocks,
)
from odefit.integrate.stepping import append_step, fill_nan, first_nonfinite
from odefit.native.calls import call_model
from odefit.native.kernel import kernel
from odefit.native.linear_systems import seed_products
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

_FLOOR = 1e-9  # of the absolute tolerance: corrections below are rounding too
_ALWAYS_FRESH = 4.0  # where a factorisation costs less than this many solutions, every step gets one
_MOST_DRIFT = 0.3  # relative change of c_0 that a factorisation survives


@kernel(inline=True)
def _point_before(y, s_flat, slot, h, slope, slopes):
    """Add a point before the first one, so that the prediction is y + h f."""
    for i in range(y.shape[1]):
        y[slot[2], i] = y[slot[1], i] - h * slope[1, i]
    for i in range(slopes.size):
        s_flat[slot[2], i] = s_flat[slot[1], i] - h * slopes[i]


@kernel(inline=True)
def _predict(y, slot, c, w, base, start):
    """Set the known part of the formula and the prediction; return the largest size of a state."""
    rows, coefficients = registers_of(slot, c)
    rows, weights = registers_of(slot, w)
    largest = 0.0
    for i in range(base.size):
        base[i] = past_point(y, rows, coefficients, i)
        start[i] = y[rows[1], i] + past_point(y, rows, weights, i)
        largest = max(largest, abs(y[rows[1], i]))
    return largest


@kernel(inline=True)
def _write_outputs(times, next_time, t_new, psi, k, slot, c, y, s1_flat, s2_flat, y_out, s1_out, s2_out):
    """Write what was asked for up to `t_new`; return the next one."""
    n = y.shape[1]
    while next_time < times.size and times[next_time] <= t_new:
        weights_at(psi, k, times[next_time] - t_new, c)
        rows, weights = registers_of(slot, c)
        for i in range(n):
            y_out[next_time, i] = interpolated_value(y, rows, weights, i)
        write_blocks(s1_flat, rows, weights, n, s1_out.shape[2], s1_out, next_time)
        write_blocks(s2_flat, rows, weights, n, s2_out.shape[2], s2_out, next_time)
        next_time += 1
    return next_time


@kernel(inline=True)
def _make_newest(psi, past, slot):
    """Let the new point be the newest of the past ones; the row of the oldest is free for the next."""
    for j in range(1, slot.size):
        past[j] = psi[j]
    freed = slot[slot.size - 1]
    for j in range(slot.size - 1, 0, -1):
        slot[j] = slot[j - 1]
    slot[0] = freed


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
    rhs, jacobian, _ = functions
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
    s1_flat, s2_flat = np.zeros((depth, n1)), np.zeros((depth, n2))
    s1, r1, d2 = s1_flat.reshape(depth, b1, n, 4), np.empty((1, n1)), np.empty((1, b2, n, 4))
    d2_flat = d2.reshape(n2)
    start1, start2 = in_blocks(dy0, q), in_blocks(d2y0, m2)
    p1, p2 = in_blocks(dp, q), in_blocks(d2p, m2)
    seeds1, seeds2 = seed_products(pattern, n, p1), seed_products(pattern, n, p2)
    v1, v2, v3 = np.empty(n + n_p), np.empty(n + n_p), np.empty(n)
    a1, pivots1 = (np.empty(n_values), np.empty(n_pivots, np.int64)) if q > 0 else (a[:0], pivots[:0])
    slopes = np.empty(n1 if test else 0)
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
        write_start(start1, n, q, s1_out)
        write_start(start2, n, m2, s2_out)
        next_time = 1

    for segment in range(ends.size):
        t_end = ends[segment]
        begun = n_taken
        last_step = n_taken + counts[_COUNTERS + segment] - 1 if replay else -1
        call_model(rhs, t, y, slot[1] * n, p, u, f, 0)
        n_rhs += 1
        cause = max(first_nonfinite(f, 0, n), first_nonfinite(y, slot[1], n))
        if cause >= 0:
            status = _NONFINITE_START if segment == 0 else _NONFINITE
            break
        for i in range(n):
            work_rows[0, i] = y[slot[1], i]
        if not replay:
            h = first_step(rhs, t, t_end, work_rows, p, u, f, n, rtol, atol, work_rows)
            n_rhs += 1
        for i in range(n):
            work_rows[1, i] = f[0, i]  # the slope at the beginning predicts the first step
        k, points, since, fails = 1, 1, 1, 0
        must_divide, last_nonfinite, iterations = True, False, 0
        if test:
            cause = slopes_at_start(jacobian, pattern, t, y, p, u, n, jac, slot, s1_flat, p1, r1, slopes)
            n_jac += 1
            if cause >= 0:
                status = _NONFINITE_DERIVATIVE
                break

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
            if points == 1:
                past[1] = h
                _point_before(y, s1_flat, slot, h, work_rows, slopes)
            psi[1] = h
            for j in range(2, depth):
                psi[j] = h + past[j - 1]
            bdf_formula(psi, k, w, c)
            nodes = k if k == points > 1 else k + 1
            if nodes > k:
                add_node(psi, nodes, w)
            largest = _predict(y, slot, c, w, base, start)
            if replay:
                fresh = shift == 0.0 or (orders[n_taken] & FRESH) != 0
            else:
                drift = abs(c[0] - shift) > _MOST_DRIFT * shift
                fresh = must_divide or cost < _ALWAYS_FRESH or shift == 0.0 or drift or iterations > patience
            outcome, worst, shift, rate, iterations, matrices = newton_step(
                functions, pattern, t_new, y, slot[0], slot[1], p, u, n, c[0], base, start, f, delta, jac, a, pivots,
                work, fresh, shift, limit, patience, min(_FLOOR * atol, _EPS * largest), rtol, atol,
            )  # fmt: skip
            n_rhs += iterations
            n_jac += matrices
            if outcome == TOO_LARGE:
                status, trouble[jac.size] = _REORDER, c[0]
                break
            scale = (2.0 if points == 1 else 1.0) / (psi[nodes] * (c[0] - (1.0 / psi[k] if nodes == k else 0.0)))
            exponent = power_of(k, power)
            ratio = np.inf
            if outcome == CONVERGED:
                ratio, worst = ratio_of_error(y, slot, w, n, scale, rtol, atol, exponent)

            # derivatives, once the step is taken
            if q > 0 and outcome == CONVERGED and (replay or ratio <= 1.0):
                solved, bad = directions_of_step(
                    functions, pattern, cost, limit, t_new, y, p, u, n, q, c, w, slot, rate, shift, worst, jac,
                    a, pivots, a1, pivots1, work, s1_flat, s1, p1, seeds1, r1, s2_flat, seeds2, d2, d2_flat,
                    v1, v2, v3,
                )  # fmt: skip
                n_jac += 1
                if solved == TOO_LARGE:
                    status, trouble[jac.size] = _REORDER, c[0]
                    break
                if solved != SOLVED:
                    status, cause = _NONFINITE_DERIVATIVE, bad
                    break
                n_second += m2
                if test:
                    other, bad = ratio_of_error(s1_flat, slot, w, n1, scale, rtol, atol, exponent)
                    if other > ratio:
                        ratio, worst = other, bad // 4 % n

            if not ratio <= 1.0:
                cause = worst
                if replay and not math.isfinite(ratio):
                    status = _NOT_SOLVED if outcome == SLOW else _NONFINITE
                    break
            if not replay and not ratio <= 1.0:
                rejected += 1
                fails += 1
                since = 0
                must_divide = True
                last_nonfinite = outcome == NOT_FINITE or (outcome == CONVERGED and not math.isfinite(ratio))
                k, factor = retry_step(k, fails, ratio, outcome == CONVERGED, not last_nonfinite)
                h *= factor
                continue
            if ratio > ratio_most:
                ratio_most = ratio
                cause = worst

            next_time = _write_outputs(
                times, next_time, t_new, psi, k, slot, c, y, s1_flat, s2_flat, y_out, s1_out, s2_out
            )
            taken = append_step(taken, n_taken, h)
            taken_orders = append_step(taken_orders, n_taken, float(k + (FRESH if fresh else 0)))
            n_taken += 1
            t = t_new
            since += 1
            fails, must_divide, last_nonfinite = 0, False, False

            if not replay and since > k:
                k, factor = next_step(
                    psi, k, points, ratio, y, s1_flat, slot, w, c, rtol, atol, power, test, n_taken - begun
                )
                if factor != 1.0:
                    h *= factor
                    since = 0
            _make_newest(psi, past, slot)
            points = min(points + 1, depth - 1)

        if not replay:
            counts[_COUNTERS + segment] = n_taken - begun
        if status != _OK:
            break

    if status == _REORDER:
        for e in range(jac.size):
            trouble[e] = jac[e]
    fill_nan(y_out, next_time)  # not reached: NaN, never zero
    fill_nan(s1_out.reshape(times.size, s1_out.shape[1] * s1_out.shape[2]), next_time)
    fill_nan(s2_out.reshape(times.size, s2_out.shape[1] * s2_out.shape[2]), next_time)
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

        def integrate(algebra: LinearAlgebra) -> tuple[Any, ...]:
            return ddm_solve(
                (rhs.value, rhs.jacobian, rhs.second if order == 2 else 0), algebra.pattern, _room(algebra),
                t0, ends if n else _NO_STEPS, y0, p, u, dy0, dp, d2y0, d2p, times, y, s1, s2, steps, orders, counts,
                grid is not None, rtol, atol, max_steps, order, self._test, self._power, algebra.limit, trouble,
                _NEVER if stop is None else stop.array,
            )  # fmt: skip

        algebra = linear_algebra(model) if grid is None or grid.algebra is None else grid.algebra
        outcome = integrate(algebra)
        if outcome[0] == _REORDER:
            algebra = reordered(model, trouble[:-1], trouble[-1])
            outcome = integrate(algebra)
        if outcome[0] == _REORDER:
            algebra = exchanging(model, instead=algebra)
            outcome = integrate(algebra)
        status, t_end, cause, ratio, taken, taken_orders = outcome
        if status == _BAD_ORDERS:
            raise OdefitError(f"the orders of a step grid of '{self.name}' do not fit: a step has too few before it")
        if grid is None:
            grid = StepGrid(self.name, taken, counts, taken_orders.astype(np.int64), algebra)
        elif grid.algebra is not algebra:
            grid = grid._replace(algebra=algebra)
        return Trajectory(_STATUS[status], t_end, cause, y, s1, s2, grid, ratio, "discrete", counts)

    def _grid_arrays(self, grid: StepGrid | None, n_segments: int) -> tuple[Array, Index, Index]:
        """Return steps, orders and a copy of the counts of a grid that fits."""
        steps, counts = steps_to_take(grid, self.name, n_segments)
        orders = _NO_ORDERS if grid is None else grid.orders
        if orders.size != steps.size:
            raise OdefitError(f"a step grid of '{self.name}' needs the order of each of its {steps.size} steps")
        return steps, orders, counts


def _room(algebra: LinearAlgebra) -> tuple[int, int, int, float]:
    """Return what a kernel needs beside the pattern."""
    return algebra.n_values, algebra.n_pivots, algebra.n_work, algebra.patience
