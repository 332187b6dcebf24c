"""Dormand-Prince 5(4) with first- and second-order sensitivities on the steps of the states.

With z = (y, p) the directions solve the variational equations

    S_a'  = f_z z_a,                         z_a  = (S_a, dp_a)
    S_ab' = f_z z_ab + D2f[z_a, z_b],        z_ab = (S_ab, d2p_ab)

and every stage of the Runge-Kutta method is differentiated exactly: the stages of S are those of the
same method applied to the variational equations, at the stage states.  So S is the derivative of the
*discrete* solution on a fixed step sequence, to rounding, in first and second order; the continuous
extension is linear in the stages and keeps this.  Step control looks at the states alone, and the
sensitivities of a step are computed only once it is accepted.

Step-size control is the PI controller of Hairer's DOPRI5 (beta = 0.04), the first step size is found
by his algorithm HINIT.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.compile import CompiledModel
from odefit.errors import OdefitError
from odefit.integrate.contract import Counters, Run, Status, StepGrid, Trajectory
from odefit.integrate.directions import _add_second, _in_blocks, _slopes, _write_start
from odefit.integrate.stepping import _append, _fill_nan, _first_nonfinite, _initial_step
from odefit.integrate.tableau import A, B, C, D, E
from odefit.native.calls import call_model
from odefit.native.kernel import kernel
from odefit.native.stop import StopFlag

_OK, _NONFINITE_START, _NONFINITE, _UNDERFLOW, _TOO_MANY, _STOPPED, _NONFINITE_DERIVATIVE = map(int, tuple(Status)[:7])
_SAFETY, _BETA, _SHRINK_MOST, _GROW_MOST = 0.9, 0.04, 0.2, 10.0
_EXPONENT = 0.2 - 0.75 * _BETA
_SMALLEST_RATIO = 1e-4  # of error to tolerance, that step control distinguishes
_LOG_SMALLEST_RATIO = math.log(_SMALLEST_RATIO)
_COUNTERS = len(Counters._fields)
_SMALLEST_STEP = 1e-290
_TINY = 4.0 * float(np.finfo(float).eps)


@kernel
def _stage(s, y, h, k, n, out, row):
    """Set ``out[row, :n] = y + h sum_j A[s, j] k_j``, written out so that each is one pass over memory.

    Everywhere in this module `y` has one row, so that states and directions share these helpers.
    """
    if s == 1:
        for i in range(n):
            out[row, i] = y[0, i] + h * (A[1, 0] * k[0, i])
    elif s == 2:
        for i in range(n):
            out[row, i] = y[0, i] + h * (A[2, 0] * k[0, i] + A[2, 1] * k[1, i])
    elif s == 3:
        for i in range(n):
            out[row, i] = y[0, i] + h * (A[3, 0] * k[0, i] + A[3, 1] * k[1, i] + A[3, 2] * k[2, i])
    elif s == 4:
        for i in range(n):
            out[row, i] = y[0, i] + h * (A[4, 0] * k[0, i] + A[4, 1] * k[1, i] + A[4, 2] * k[2, i] + A[4, 3] * k[3, i])
    elif s == 5:
        for i in range(n):
            out[row, i] = y[0, i] + h * (
                A[5, 0] * k[0, i] + A[5, 1] * k[1, i] + A[5, 2] * k[2, i] + A[5, 3] * k[3, i] + A[5, 4] * k[4, i]
            )
    else:
        for i in range(n):
            out[row, i] = y[0, i] + h * (
                A[6, 0] * k[0, i] + A[6, 2] * k[2, i] + A[6, 3] * k[3, i] + A[6, 4] * k[4, i] + A[6, 5] * k[5, i]
            )


@kernel
def _state_stages(rhs, t, h, y, p, u, n, k, states):
    """Compute the stages of a step.  Written out: constant rows spare the machine a dozen running pointers."""
    _stage(1, y, h, k, n, states, 1)
    call_model(rhs, t + C[1] * h, states, n, p, u, k, n)
    _stage(2, y, h, k, n, states, 2)
    call_model(rhs, t + C[2] * h, states, 2 * n, p, u, k, 2 * n)
    _stage(3, y, h, k, n, states, 3)
    call_model(rhs, t + C[3] * h, states, 3 * n, p, u, k, 3 * n)
    _stage(4, y, h, k, n, states, 4)
    call_model(rhs, t + C[4] * h, states, 4 * n, p, u, k, 4 * n)
    _stage(5, y, h, k, n, states, 5)
    call_model(rhs, t + h, states, 5 * n, p, u, k, 5 * n)
    _stage(6, y, h, k, n, states, 6)
    call_model(rhs, t + h, states, 6 * n, p, u, k, 6 * n)


@kernel
def _direction_stages(directions, t, h, c_flat, z_flat, z, seeds, p, u, n, states, k_flat, k):
    """Compute the stages of the first-order sensitivities at the stages of the states."""
    size = c_flat.shape[1]
    _stage(1, c_flat, h, k_flat, size, z_flat, 0)
    _slopes(directions, t + C[1] * h, states, n, p, u, z, seeds, n, k, 1)
    _stage(2, c_flat, h, k_flat, size, z_flat, 0)
    _slopes(directions, t + C[2] * h, states, 2 * n, p, u, z, seeds, n, k, 2)
    _stage(3, c_flat, h, k_flat, size, z_flat, 0)
    _slopes(directions, t + C[3] * h, states, 3 * n, p, u, z, seeds, n, k, 3)
    _stage(4, c_flat, h, k_flat, size, z_flat, 0)
    _slopes(directions, t + C[4] * h, states, 4 * n, p, u, z, seeds, n, k, 4)
    _stage(5, c_flat, h, k_flat, size, z_flat, 0)
    _slopes(directions, t + h, states, 5 * n, p, u, z, seeds, n, k, 5)
    _stage(6, c_flat, h, k_flat, size, z_flat, 0)
    _slopes(directions, t + h, states, 6 * n, p, u, z, seeds, n, k, 6)


@kernel
def _pair_stages(
    functions, t, h, c1_flat, z1_flat, z1, k1_flat, p1, c2_flat, z2_flat, z2, k2_flat, p2,
    p, u, n, q, states, v, w, d2, k2,
):  # fmt: skip
    """Compute the stages of the second-order sensitivities; those of first order are there already."""
    for s in range(1, 7):
        _stage(s, c1_flat, h, k1_flat, c1_flat.shape[1], z1_flat, 0)
        _stage(s, c2_flat, h, k2_flat, c2_flat.shape[1], z2_flat, 0)
        _slopes(functions[1], t + C[s] * h, states, s * n, p, u, z2, p2, n, k2, s)
        _add_second(functions[2], t + C[s] * h, states, s * n, p, u, z1, p1, n, q, v, w, d2, k2, s)


@kernel
def _interpolation_weights(x, w):
    """Fill the weights of the stages at the fraction `x` of a step."""
    r = 1.0 - x
    for i in range(7):
        first = 1.0 if i == 0 else 0.0
        last = 1.0 if i == 6 else 0.0
        w[i] = x * (B[i] + r * ((first - B[i]) + x * ((2.0 * B[i] - first - last) + r * D[i])))


@kernel
def _interpolate(y, h, k, n, w, out, row):
    for i in range(n):
        out[row, i] = y[0, i] + h * (
            w[0] * k[0, i] + w[2] * k[2, i] + w[3] * k[3, i] + w[4] * k[4, i] + w[5] * k[5, i] + w[6] * k[6, i]
        )


@kernel
def _error(y, states, h, k, n, rtol, atol):
    """Return the largest error over tolerance (inf if one is not finite), and the state it belongs to.

    The maximum, not the mean: in a large model a mean lets single states miss the tolerance by far.
    """
    ratio = -1.0
    cause = 0
    for i in range(n):
        e = E[0] * k[0, i] + E[2] * k[2, i] + E[3] * k[3, i] + E[4] * k[4, i] + E[5] * k[5, i] + E[6] * k[6, i]
        part = abs(h * e / (atol + rtol * max(abs(y[0, i]), abs(states[6, i]))))
        if math.isnan(part):
            return np.inf, i
        if part > ratio:
            ratio = part
            cause = i
    return ratio, cause


@kernel
def _interpolate_directions(z, h, k, n, q, w, out, row):
    for b in range(z.shape[0]):
        lanes = min(4, q - 4 * b)
        for i in range(n):
            for r in range(lanes):
                out[row, i, 4 * b + r] = z[b, i, r] + h * (
                    w[0] * k[0, b, i, r] + w[2] * k[2, b, i, r] + w[3] * k[3, b, i, r]
                    + w[4] * k[4, b, i, r] + w[5] * k[5, b, i, r] + w[6] * k[6, b, i, r]
                )  # fmt: skip


@kernel
def _shift(current, new, row, k, n):
    """Begin the next step: the new values become the current ones, the last stage the first."""
    for i in range(n):
        current[0, i] = new[row, i]
        k[0, i] = k[6, i]


@kernel
def dopri5_solve(
    functions, t0, ends, y0, p, u, dy0, dp, d2y0, d2p, times, y_out, s1_out, s2_out,
    steps, counts, replay, rtol, atol, max_steps, order, stop,
):  # fmt: skip
    """Integrate from `t0` through all segments.

    Parameters
    ----------
    functions
        Addresses of f, of its derivatives in directions of (y, p), and of its second derivative.
    ends
        Ends of the segments; no step crosses one.
    y0, dy0, d2y0, p, dp, d2p, u
        Initial state, parameters, inputs, and seeds (see `Run`).
    times, y_out, s1_out, s2_out
        Output times, and where to write: a row per time, (m,), (m, n), (m, n, q), (m, n, pairs).
    steps, counts, replay
        With `replay` the steps to take again.  `counts` holds, behind room for the numbers of
        `Counters`, how many steps each segment has; it is filled.

    Returns
    -------
    status, t, cause, ratio, steps
        Status code, time reached, state to blame (-1: none), largest error over tolerance, steps taken.
    """
    n, n_p = y0.size, p.size
    q = dy0.shape[1] if order >= 1 else 0
    m = d2y0.shape[1] if order == 2 else 0
    rhs, directions, second = functions
    y = np.empty((1, n))
    k = np.empty((7, n))
    states = np.empty((7, n))  # of the stages; the last one is the new state
    weights = np.empty(7)
    # sensitivities: c1, c2 at the beginning of the step, z1, z2 at a stage; the flat names are the same memory
    c1, p1 = _in_blocks(dy0, q), _in_blocks(dp, q)
    z1, k1 = np.empty(c1.shape), np.empty((7, c1.shape[0], n, 4))
    if m > 0:
        c2, p2 = _in_blocks(d2y0, m), _in_blocks(d2p, m)
        z2, k2 = np.empty(c2.shape), np.empty((7, c2.shape[0], n, 4))
        v, w, d2 = np.empty(n + n_p), np.empty(n + n_p), np.empty(n)
    else:  # views of nothing: allocating nothing seven times would cost as much as two steps
        c2, p2, z2, k2 = c1[:0], p1[:0], z1[:0], k1[:0]
        v, w, d2 = weights[:0], weights[:0], weights[:0]
    n1, n2 = c1.size, c2.size
    c1_flat, c2_flat = c1.reshape(1, n1), c2.reshape(1, n2)
    z1_flat, z2_flat = z1.reshape(1, n1), z2.reshape(1, n2)
    k1_flat, k2_flat = k1.reshape(7, n1), k2.reshape(7, n2)

    status, cause, worst = _OK, -1, -1
    t, h = t0, 0.0
    ratio_most, log_old_ratio, factor = 0.0, 0.0, 1.0
    rejected, attempts, n_taken, n_rhs, n_jac = 0, 0, 0, 0, 0
    taken = np.empty(steps.size if replay else 64)

    for i in range(n):
        y[0, i] = y0[i]
    next_time = 0
    if times.size > 0 and times[0] <= t0:
        for i in range(n):
            y_out[0, i] = y0[i]
        _write_start(c1, n, q, s1_out)
        _write_start(c2, n, m, s2_out)
        next_time = 1

    for segment in range(ends.size):
        t_end = ends[segment]
        begun = n_taken
        last_step = n_taken + counts[_COUNTERS + segment] - 1 if replay else -1
        log_old_ratio = _LOG_SMALLEST_RATIO
        after_reject, last_nonfinite = False, False
        call_model(rhs, t, y, 0, p, u, k, 0)
        n_rhs += 1
        cause = max(_first_nonfinite(k, 0, n), _first_nonfinite(y, 0, n))
        if cause >= 0:
            status = _NONFINITE_START if segment == 0 else _NONFINITE
            break
        if q > 0:
            _slopes(directions, t, y, 0, p, u, c1, p1, n, k1, 0)
            n_jac += 1
        if m > 0:
            _slopes(directions, t, y, 0, p, u, c2, p2, n, k2, 0)
            _add_second(second, t, y, 0, p, u, c1, p1, n, q, v, w, d2, k2, 0)
        if not replay:
            h = _initial_step(rhs, t, t_end, y, p, u, k, n, rtol, atol, states)
            n_rhs += 1

        while True:
            if replay:
                if n_taken > last_step:
                    break
                h = steps[n_taken]
                last = n_taken == last_step
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

            _state_stages(rhs, t, h, y, p, u, n, k, states)
            n_rhs += 6
            ratio, worst = _error(y, states, h, k, n, rtol, atol)
            if not replay:
                log_ratio = math.log(max(ratio, _SMALLEST_RATIO))
                if not ratio <= 1.0:
                    rejected += 1
                    cause = worst
                    last_nonfinite = not math.isfinite(ratio)
                    h *= 0.1 if last_nonfinite else max(_SHRINK_MOST, _SAFETY * math.exp(-_EXPONENT * log_ratio))
                    after_reject = True
                    continue
                grow = _SAFETY * math.exp(_BETA * log_old_ratio - _EXPONENT * log_ratio)
                factor = max(_SHRINK_MOST, min(1.0 if after_reject else _GROW_MOST, grow))
                log_old_ratio = log_ratio
            elif not math.isfinite(ratio):
                cause = worst
                status = _NONFINITE
                break
            if ratio > ratio_most:
                ratio_most = ratio
                cause = worst

            if q > 0:  # the step is taken: now its derivatives, at the same stages
                _direction_stages(directions, t, h, c1_flat, z1_flat, z1, p1, p, u, n, states, k1_flat, k1)
                if m > 0:
                    _pair_stages(
                        functions, t, h, c1_flat, z1_flat, z1, k1_flat, p1, c2_flat, z2_flat, z2, k2_flat, p2,
                        p, u, n, q, states, v, w, d2, k2,
                    )  # fmt: skip
                n_jac += 6
                # new values and last slopes; earlier slopes that are not finite have spoilt the values
                bad = max(_first_nonfinite(z1_flat, 0, n1), _first_nonfinite(k1_flat, 6, n1))
                if m > 0:
                    bad = max(bad, _first_nonfinite(z2_flat, 0, n2), _first_nonfinite(k2_flat, 6, n2))
                if bad >= 0:
                    cause = bad // 4 % n
                    status = _NONFINITE_DERIVATIVE
                    break

            t_new = t_end if last else t + h
            while next_time < times.size and times[next_time] <= t_new:
                _interpolation_weights((times[next_time] - t) / h, weights)
                _interpolate(y, h, k, n, weights, y_out, next_time)
                _interpolate_directions(c1, h, k1, n, q, weights, s1_out, next_time)
                _interpolate_directions(c2, h, k2, n, m, weights, s2_out, next_time)
                next_time += 1

            _shift(y, states, 6, k, n)
            _shift(c1_flat, z1_flat, 0, k1_flat, n1)
            _shift(c2_flat, z2_flat, 0, k2_flat, n2)
            taken = _append(taken, n_taken, h)
            n_taken += 1
            t = t_new
            h *= factor
            after_reject, last_nonfinite = False, False

        if not replay:
            counts[_COUNTERS + segment] = n_taken - begun
        if status != _OK:
            break

    _fill_nan(y_out, next_time)  # not reached: NaN, never zero
    _fill_nan(s1_out.reshape(times.size, s1_out.shape[1] * s1_out.shape[2]), next_time)
    _fill_nan(s2_out.reshape(times.size, s2_out.shape[1] * s2_out.shape[2]), next_time)
    counts[0], counts[1], counts[2], counts[3], counts[4] = attempts - rejected, rejected, n_rhs, n_jac, n_jac * m
    return status, t, cause, ratio_most, taken[:n_taken]


_STATUS = tuple(Status)
_NO_STEPS = np.empty(0)
_NEVER = StopFlag().array


class Dopri5:
    """The explicit Runge-Kutta method of order 5 of Dormand and Prince; see the module for the mathematics."""

    name = "dopri5"

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
        if grid is None:
            steps, counts = _NO_STEPS, np.zeros(_COUNTERS + ends.size, np.int64)
        elif grid.method != self.name:
            raise OdefitError(f"a step grid of '{grid.method}' cannot be replayed by '{self.name}'")
        elif grid.counts.size != _COUNTERS + ends.size:
            n_segments = grid.counts.size - _COUNTERS
            raise OdefitError(f"a step grid of {n_segments} segments cannot be replayed in a run of {ends.size}")
        else:
            steps, counts = grid.steps, grid.counts.copy()
        n, n_times, rhs = y0.size, times.size, model.rhs
        y = np.empty((n_times, n))
        s1 = np.empty((n_times, n, dy0.shape[1] if order >= 1 else 0))
        s2 = np.empty((n_times, n, d2y0.shape[1] if order == 2 else 0))
        status, t_end, cause, ratio, taken = dopri5_solve(
            (rhs.value, rhs.directions, rhs.second if order == 2 else 0), t0, ends if n else _NO_STEPS,
            y0, p, u, dy0, dp, d2y0, d2p, times, y, s1, s2, steps, counts, grid is not None,
            rtol, atol, max_steps, order, _NEVER if stop is None else stop.array,
        )  # fmt: skip
        if grid is None:
            grid = StepGrid(self.name, taken, counts)
        return Trajectory(_STATUS[status], t_end, cause, y, s1, s2, grid, ratio, "discrete", counts)
