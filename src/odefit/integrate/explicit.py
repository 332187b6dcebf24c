"""Explicit Runge-Kutta methods with sensitivities: the loop over steps, the same for every method.

With z = (y, p) the directions solve the variational equations

    S_a'  = f_z z_a,                         z_a  = (S_a, dp_a)
    S_ab' = f_z z_ab + D2f[z_a, z_b],        z_ab = (S_ab, d2p_ab)

and every stage of the Runge-Kutta method is differentiated exactly: the stages of S are those of the
same method applied to the variational equations, at the stage states.  So S is the derivative of the
*discrete* solution on a fixed step sequence, to rounding, in first and second order; the continuous
extension is linear in the stages and keeps this.  Step control looks at the states alone, and the
sensitivities of a step are computed only once it is accepted.

A method is a `Tableau` of coefficients.  `scheme_of` writes them out as the small kernels of a `Scheme`, and
`explicit_kernel` compiles the loop with these, one kernel a method.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np

from odefit.compile import CompiledModel
from odefit.integrate.contract import Array, Counters, Run, Status, StepGrid, Trajectory, steps_to_take
from odefit.integrate.directions import add_second, in_blocks, slopes_of, write_directions, write_start
from odefit.integrate.stepping import append_step, fill_nan, first_nonfinite, initial_step
from odefit.integrate.system import System
from odefit.native.calls import call_model
from odefit.native.kernel import kernel, named
from odefit.native.stop import StopFlag

_OK, _NONFINITE_START, _NONFINITE, _UNDERFLOW, _TOO_MANY, _STOPPED, _NONFINITE_DERIVATIVE = map(int, tuple(Status)[:7])
_SAFETY, _SHRINK_MOST = 0.9, 0.2
_COUNTERS = len(Counters._fields)
_SMALLEST_STEP = 1e-290
_TINY = 4.0 * float(np.finfo(float).eps)


class Scheme(NamedTuple):
    """An explicit Runge-Kutta method whose last stage is the first one of the next step.

    States and directions share the kernels `stage` and `interpolate`: everywhere `y`, `c` and `z` have one row, `k` and
    `states` a row a stage.  Directions are flat: a row holds all blocks (n, 4), one behind the other.

    Attributes
    ----------
    nodes
        The fractions c of the step where the stages stand, the first one 0.
    n_stages
        How many of these make a step.  The others serve the continuous extension alone, and are computed only
        in steps with output inside.
    error_order
        The power of h that the error estimate goes with.
    beta, grow_most
        The next step is h 0.9 r^-a r_old^beta, at most `grow_most` times as long, with the ratio r of error to
        tolerance, that of the step before, and a = 1/error_order - 0.75 beta.
    smallest_ratio
        Of error to tolerance, that step control distinguishes.
    stiff_from
        ``h |lambda|`` from which stability, not accuracy, seems to limit a step; infinite if the last two stages do not
        tell it.
    stage(s, y, h, k, n, out, row)
        Set ``out[row, :n] = y + h sum_j a_sj k_j``; at the last stage this is the new value.
    state_stages(system, t, h, y, k, states)
        Compute all stages behind the first one, which stands in ``k[0]``.
    direction_stages(system, t, h, states, c, z, seeds, k)
        The same for first-order sensitivities `c`, at the stages of the states; the new ones are left in `z`.
    error(y, states, h, k, n, rtol, atol)
        Return the largest error over tolerance (inf if anything is not finite), and the state it belongs to.
    weights(x, w)
        Fill the weights of the stages in the continuous extension at the fraction `x` of a step.
    interpolate(y, h, k, n, w, out, row)
        Evaluate it with these weights.
    extension_stages, extension_direction_stages
        As `state_stages` and `direction_stages`, for the stages of the continuous extension alone; None if there are
        none.
    """

    nodes: Array
    n_stages: int
    error_order: int
    beta: float
    grow_most: float
    smallest_ratio: float
    stiff_from: float
    stage: Callable[..., Any]
    state_stages: Callable[..., Any]
    direction_stages: Callable[..., Any]
    error: Callable[..., Any]
    weights: Callable[..., Any]
    interpolate: Callable[..., Any]
    extension_stages: Any = None
    extension_direction_stages: Any = None


_STIFF = int(Status.STIFF)
_STEPS_TO_BELIEVE, _STEPS_TO_FORGET = 15, 6
_STEPS_WORTH_A_CHANGE = 100  # more steps of this size, for which another method pays


@kernel(inline=True)
def _spectral_radius(h, k, states, last, n):
    """Estimate ``h |lambda|`` from the last two stages, which are at the same time (Hairer and Wanner II, IV.2)."""
    slopes, values = 0.0, 0.0
    for i in range(n):
        slopes += (k[last, i] - k[last - 1, i]) ** 2
        values += (states[last, i] - states[last - 1, i]) ** 2
    return h * math.sqrt(slopes / values) if values > 0.0 else 0.0


@kernel(inline=True)
def shift_stages(current, new, row, k, last, n):
    """Begin the next step: the new values become the current ones, the last stage the first."""
    for i in range(n):
        current[0, i] = new[row, i]
        k[0, i] = k[last, i]


def explicit_kernel(name: str, scheme: Scheme) -> Any:
    """Return the kernel `name` that integrates with `scheme`.

    What depends on `n_extension` alone is decided before anything is compiled: a method without such stages
    does not pay for them.
    """
    nodes, n_stages, error_order, beta, grow_most, smallest_ratio, stiff_from = scheme[:7]
    stage, state_stages, direction_stages, error, fill_weights, interpolate = scheme[7:13]
    extension_stages, extension_direction_stages = scheme[13:]
    n_all, last_stage = nodes.size, n_stages - 1
    n_extension = n_all - n_stages
    log_smallest_ratio = math.log(smallest_ratio)
    guess_exponent = 1.0 / error_order
    exponent = guess_exponent - 0.75 * beta

    @kernel
    @named(name)
    def solve(
        functions, t0, ends, y0, p, u, dy0, dp, d2y0, d2p, times, y_out, s1_out, s2_out,
        steps, counts, replay, rtol, atol, max_steps, order, detect, stop,
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
        detect
            End with the status "stiff" where many more steps at the limit of stability lie ahead.

        Returns
        -------
        status, t, cause, ratio, steps
            Status code, time reached, state to blame (-1: none), largest error over tolerance, steps taken.
        """
        n, n_p = y0.size, p.size
        q = dy0.shape[1] if order >= 1 else 0
        m = d2y0.shape[1] if order == 2 else 0
        rhs, directions, second = functions
        system = System(rhs, directions, 0, second, p, u, n)
        y = np.empty((1, n))
        k = np.empty((n_all, n))
        states = np.empty((n_all, n))  # of the stages; that of the last one of a step is the new state
        weights = np.empty(n_all)
        # sensitivities: c1, c2 at the beginning of the step, z1, z2 at a stage, x1, x2 at an output time; the flat
        # names are the same memory
        c1, p1 = in_blocks(dy0, q), in_blocks(dp, q)
        z1, x1, k1 = np.empty(c1.shape), np.empty(c1.shape), np.empty((n_all, c1.shape[0], n, 4))
        if m > 0:
            c2, p2 = in_blocks(d2y0, m), in_blocks(d2p, m)
            z2, x2, k2 = np.empty(c2.shape), np.empty(c2.shape), np.empty((n_all, c2.shape[0], n, 4))
            v, w, d2 = np.empty(n + n_p), np.empty(n + n_p), np.empty(n)
        else:  # views of nothing: allocating nothing seven times would cost as much as two steps
            c2, p2, z2, x2, k2 = c1[:0], p1[:0], z1[:0], x1[:0], k1[:0]
            v, w, d2 = weights[:0], weights[:0], weights[:0]
        n1, n2 = c1.size, c2.size
        c1_flat, c2_flat = c1.reshape(1, n1), c2.reshape(1, n2)
        z1_flat, z2_flat = z1.reshape(1, n1), z2.reshape(1, n2)
        x1_flat, x2_flat = x1.reshape(1, n1), x2.reshape(1, n2)
        k1_flat, k2_flat = k1.reshape(n_all, n1), k2.reshape(n_all, n2)

        status, cause, worst = _OK, -1, -1
        t, h = t0, 0.0
        ratio_most, log_old_ratio, factor = 0.0, 0.0, 1.0
        rejected, attempts, n_taken, n_rhs, n_jac = 0, 0, 0, 0, 0
        n_stiff, n_free = 0, 0  # steps at the limit of stability, and steps in a row that are not
        taken = np.empty(steps.size if replay else 64)

        for i in range(n):
            y[0, i] = y0[i]
        next_time = 0
        if times.size > 0 and times[0] <= t0:
            for i in range(n):
                y_out[0, i] = y0[i]
            write_start(c1, n, q, s1_out)
            write_start(c2, n, m, s2_out)
            next_time = 1

        for segment in range(ends.size):
            t_end = ends[segment]
            begun = n_taken
            last_step = n_taken + counts[_COUNTERS + segment] - 1 if replay else -1
            log_old_ratio = log_smallest_ratio
            after_reject, last_nonfinite = False, False
            call_model(rhs, t, y, 0, p, u, k, 0)
            n_rhs += 1
            cause = max(first_nonfinite(k, 0, n), first_nonfinite(y, 0, n))
            if cause >= 0:
                status = _NONFINITE_START if segment == 0 else _NONFINITE
                break
            if q > 0:
                slopes_of(system, t, y, 0, c1_flat, p1, k1_flat, 0)
                n_jac += 1
            if m > 0:
                slopes_of(system, t, y, 0, c2_flat, p2, k2_flat, 0)
                add_second(second, t, y, 0, p, u, c1, p1, n, q, v, w, d2, k2, 0)
            if not replay:
                h = initial_step(rhs, t, t_end, y, p, u, k, n, rtol, atol, guess_exponent, states)
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

                state_stages(system, t, h, y, k, states)
                n_rhs += last_stage
                ratio, worst = error(y, states, h, k, n, rtol, atol)
                t_new = t_end if last else t + h
                inside = False  # whether there is output between the ends of the step
                if n_extension > 0 and next_time < times.size and times[next_time] < t_new and (replay or ratio <= 1.0):
                    inside = True
                    extension_stages(system, t, h, y, k, states)
                    n_rhs += n_extension
                    for s in range(n_stages, n_all):
                        bad = first_nonfinite(k, s, n)
                        if bad >= 0:
                            ratio, worst = np.inf, bad
                if not replay:
                    log_ratio = math.log(max(ratio, smallest_ratio))
                    if not ratio <= 1.0:
                        rejected += 1
                        cause = worst
                        last_nonfinite = not math.isfinite(ratio)
                        h *= 0.1 if last_nonfinite else max(_SHRINK_MOST, _SAFETY * math.exp(-exponent * log_ratio))
                        after_reject = True
                        continue
                    grow = _SAFETY * math.exp(beta * log_old_ratio - exponent * log_ratio)
                    factor = max(_SHRINK_MOST, min(1.0 if after_reject else grow_most, grow))
                    log_old_ratio = log_ratio
                    if detect:
                        if _spectral_radius(h, k, states, last_stage, n) > stiff_from:
                            n_stiff, n_free = n_stiff + 1, 0
                        else:
                            n_free += 1
                            if n_free == _STEPS_TO_FORGET:
                                n_stiff = 0
                        if n_stiff >= _STEPS_TO_BELIEVE and ends[ends.size - 1] - t > _STEPS_WORTH_A_CHANGE * h:
                            status, cause = _STIFF, worst
                            break
                elif not math.isfinite(ratio):
                    cause = worst
                    status = _NONFINITE
                    break
                if ratio > ratio_most:
                    ratio_most = ratio
                    cause = worst

                if q > 0:  # the step is taken: now its derivatives, at the same stages
                    direction_stages(system, t, h, states, c1_flat, z1_flat, p1, k1_flat)
                    if n_extension > 0 and inside:
                        extension_direction_stages(system, t, h, states, c1_flat, z1_flat, p1, k1_flat)
                    if m > 0:
                        for i in range(1, n_all + 1 if inside else n_stages):
                            s = i if i < n_all else last_stage  # behind those of the extension: the new values again
                            stage(s, c1_flat, h, k1_flat, n1, z1_flat, 0)
                            stage(s, c2_flat, h, k2_flat, n2, z2_flat, 0)
                            if i == n_all:
                                break
                            slopes_of(system, t + nodes[s] * h, states, s * n, z2_flat, p2, k2_flat, s)
                            add_second(second, t + nodes[s] * h, states, s * n, p, u, z1, p1, n, q, v, w, d2, k2, s)
                    n_jac += n_all - 1 if inside else last_stage
                    # new values and last slopes; earlier slopes that are not finite have spoilt the values
                    bad = max(first_nonfinite(z1_flat, 0, n1), first_nonfinite(k1_flat, last_stage, n1))
                    if m > 0:
                        bad = max(bad, first_nonfinite(z2_flat, 0, n2), first_nonfinite(k2_flat, last_stage, n2))
                    if n_extension > 0 and inside:
                        for s in range(n_stages, n_all):
                            bad = max(bad, first_nonfinite(k1_flat, s, n1))
                            if m > 0:
                                bad = max(bad, first_nonfinite(k2_flat, s, n2))
                    if bad >= 0:
                        cause = bad // 4 % n
                        status = _NONFINITE_DERIVATIVE
                        break

                while next_time < times.size and times[next_time] <= t_new:
                    if n_extension > 0 and times[next_time] == t_new:  # no need of the extension, nor of its stages
                        for i in range(n):
                            y_out[next_time, i] = states[last_stage, i]
                        write_directions(z1, n, q, s1_out, next_time)
                        write_directions(z2, n, m, s2_out, next_time)
                        next_time += 1
                        continue
                    fill_weights((times[next_time] - t) / h, weights)
                    interpolate(y, h, k, n, weights, y_out, next_time)
                    interpolate(c1_flat, h, k1_flat, n1, weights, x1_flat, 0)
                    write_directions(x1, n, q, s1_out, next_time)
                    if m > 0:
                        interpolate(c2_flat, h, k2_flat, n2, weights, x2_flat, 0)
                        write_directions(x2, n, m, s2_out, next_time)
                    next_time += 1

                shift_stages(y, states, last_stage, k, last_stage, n)
                shift_stages(c1_flat, z1_flat, 0, k1_flat, last_stage, n1)
                shift_stages(c2_flat, z2_flat, 0, k2_flat, last_stage, n2)
                taken = append_step(taken, n_taken, h)
                n_taken += 1
                t = t_new
                h *= factor
                after_reject, last_nonfinite = False, False

            if not replay:
                counts[_COUNTERS + segment] = n_taken - begun
            if status != _OK:
                break

        fill_nan(y_out, next_time)  # not reached: NaN, never zero
        fill_nan(s1_out.reshape(times.size, s1_out.shape[1] * s1_out.shape[2]), next_time)
        fill_nan(s2_out.reshape(times.size, s2_out.shape[1] * s2_out.shape[2]), next_time)
        counts[0], counts[1], counts[2], counts[3], counts[4] = attempts - rejected, rejected, n_rhs, n_jac, n_jac * m
        return status, t, cause, ratio_most, taken[:n_taken]

    return solve


_STATUS = tuple(Status)
_NO_STEPS = np.empty(0)
_NEVER = StopFlag().array


class ExplicitRungeKutta:
    """What explicit methods have in common: they differ in name and kernel."""

    name: ClassVar[str]
    kernel: ClassVar[Callable[..., Any]]

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
        detect: bool = False,
    ) -> Trajectory:
        """See `Integrator.solve`; with `detect` the integration ends where the model is recognised as stiff."""
        t0, y0, p, u, times, ends, dy0, dp, d2y0, d2p = run
        steps, counts = steps_to_take(grid, self.name, ends.size)
        n, n_times, rhs = y0.size, times.size, model.rhs
        y = np.empty((n_times, n))
        s1 = np.empty((n_times, n, dy0.shape[1] if order >= 1 else 0))
        s2 = np.empty((n_times, n, d2y0.shape[1] if order == 2 else 0))
        status, t_end, cause, ratio, taken = self.kernel(
            (rhs.value, rhs.directions, rhs.second if order == 2 else 0), t0, ends if n else _NO_STEPS,
            y0, p, u, dy0, dp, d2y0, d2p, times, y, s1, s2, steps, counts, grid is not None,
            rtol, atol, max_steps, order, detect, _NEVER if stop is None else stop.array,
        )  # fmt: skip
        if grid is None:
            grid = StepGrid(self.name, taken, counts)
        return Trajectory(_STATUS[status], t_end, cause, y, s1, s2, grid, ratio, "discrete", counts)
