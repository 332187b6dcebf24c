"""BDF3 of diffpar: backward differentiation of order 3 in arcs of three equal steps, for stiff problems.

L. Edsberg and P.-A. Wedin, Optimization Methods and Software 6 (1995) 193-217, sections 3.3.4-3.3.6.  With backward
differences d y_i = y_i - y_{i-1} the formula is

    d y_{i+1} + d2 y_{i+1}/2 + d3 y_{i+1}/3 = h f(t_{i+1}, y_{i+1}).                                   (47)

Since d2 y_{i+1} = d2 y_i + d3 y_{i+1}, d y_{i+1} = d y_i + d2 y_i + d3 y_{i+1} and y_{i+1} = y_i + d y_{i+1}, it reads,
solved for the only unknown (1 + 1/2 + 1/3 = 11/6),

    d3 y_{i+1} = (6 h/11) [f(t_{i+1}, d3 y_{i+1} + d2 y_i + d y_i + y_i) - (3/2 d2 y_i + d y_i)/h],    (49)

and cumulative sums of [d3 y_{i+1}, d2 y_i, d y_i, y_i] are the differences (50) at the new point.  Newton's method
starts with d3 y_i and has the matrix I - (6 h/11) f_y, with f_y of the first point of the arc; it takes one iteration
at the first two steps and two at the last.  Output is the cubic through the four points of an arc, (51)-(53).  The
first arc of a segment is one of rk32, (34), (35), with its error estimate (36).

The estimate (54) at the end of an arc is d4 y_i/4: h y' is the sum of d^j y/j over all j, and d4 y/4 is the first term
that the formula leaves out.  (The error of y_{i+1} alone is 6/11 of it; 1/4 is what a step adds to the global error.)
It is taken state by state against ``atol + rtol |y|``.  Beyond the paper, the second Newton correction of the last
step must stay below the tolerance as well: nothing else would tell that Newton's method diverges.

As d4 y goes with h^4, the step 2h, h, h/2, h/4 or h/8 that comes next is the longest one below
0.9 h (tolerance/error)^(1/4), after the first arc (tolerance/error)^(1/3); at most h/2 for an arc that is rejected
(error above tolerance), h/8 where a value is not finite.  The global error goes with h^3, so with tolerance^(3/4).

For a step r h the differences are those of the same cubic, D = 1 - (1 - d)^r cut off behind d3; for r = 1/2 this is
(56) followed by (55).  The last arc of a segment takes r as it comes.  For 2h, values at t_i - 4h and t_i - 6h are
needed from the arc before: steps double only if its steps were not shorter, so at most at every second arc.

Derived anew, (47)-(56) hold as printed.  One slip is the reference behind (56): the differences of the interpolated
values come from the matrix in (55); (50) only names them.

Sensitivities solve (57)-(60) by the same formula on the same arcs once an arc is accepted.  One Newton iteration is
enough because these equations are linear; that takes f_y at the new point in its matrix, not at the first one of the
arc.  So S solves the discrete variational equations along the computed states to rounding, while these states solve
(49) only as well as one or two iterations do: S is the derivative of the computed solution up to the error of
Newton's method ("variational"), to rounding where f_y is constant.  There is no second order.
"""

from __future__ import annotations

import numpy as np

from odefit.compile import CompiledModel
from odefit.errors import OdefitError
from odefit.integrate.arcs import (
    bdf_arc,
    bdf_arc_directions,
    change_step,
    differences_of,
    interpolated_value,
    runge_kutta_arc,
)
from odefit.integrate.contract import Array, Counters, Run, Status, StepGrid, Trajectory, steps_to_take
from odefit.integrate.directions import in_blocks, write_start
from odefit.integrate.elimination import Index, dense_algebra
from odefit.integrate.stepping import append_step, fill_nan, first_nonfinite, initial_step
from odefit.integrate.system import System
from odefit.native.calls import call_model
from odefit.native.kernel import kernel
from odefit.native.stop import StopFlag

_OK, _NONFINITE_START, _NONFINITE, _UNDERFLOW, _TOO_MANY, _STOPPED, _NONFINITE_DERIVATIVE = (
    int(s) for s in tuple(Status)[:7]
)
_COUNTERS = len(Counters._fields)
_SAFETY = 0.9
_SMALLEST_RATIO = 1e-4
_SMALLEST_STEP = 1e-290
_TINY = 4.0 * float(np.finfo(float).eps)


@kernel(inline=True)
def _factor(ratio, exponent, most):
    """Return the largest of 2, 1, 1/2, 1/4, 1/8 up to `most` that the error allows; 1/8 if none does."""
    wanted = _SAFETY * max(ratio, _SMALLEST_RATIO) ** -exponent  # infinite ratio: 0
    factor = most
    while factor > 0.125 and not factor <= wanted:
        factor *= 0.5
    return factor


@kernel(inline=True)
def _copy(source, out):
    for j in range(source.shape[0]):
        for i in range(source.shape[1]):
            out[j, i] = source[j, i]


@kernel
def bdf3_solve(
    functions, pattern, t0, ends, y0, p, u, dy0, dp, times, y_out, s_out,
    steps, counts, replay, rtol, atol, max_steps, order, stop,
):  # fmt: skip
    """Integrate from `t0` through all segments.

    Parameters
    ----------
    functions
        Addresses of f, of its derivatives in directions of (y, p), and of its Jacobian by (y, p).
    pattern
        The pattern of that, see `odefit.native.linear_systems`.
    ends
        Ends of the segments; no step crosses one.
    y0, dy0, p, dp, u
        Initial state, parameters, inputs, and seeds (see `Run`).
    times, y_out, s_out
        Output times, and where to write: a row per time, (m,), (m, n), (m, n, q).
    steps, counts, replay
        With `replay` the steps to take again.  `counts` holds, behind room for the numbers of
        `Counters`, how many steps each segment has; it is filled.

    Returns
    -------
    status, t, cause, ratio, steps
        Status code, time reached, state to blame (-1: none), largest error over tolerance, steps taken.
    """
    n = y0.size
    q = dy0.shape[1] if order >= 1 else 0
    rhs = functions[0]
    system = System(rhs, functions[1], functions[2], 0, p, u, n)
    # differences at the end of the last arc, of the one before, and while an arc is computed; the points of an arc
    dif, before, now, path = np.empty((4, n)), np.empty((4, n)), np.empty((4, n)), np.empty((4, n))
    y, k, states = np.empty((1, n)), np.empty((4, n)), np.empty((4, n))
    rest, old, delta = np.empty(n), np.empty(n), np.empty(n)
    jac, a, pivots, work = np.empty(pattern[2].size), np.empty(n * n), np.empty(n, np.int64), np.empty(4)
    # the same for sensitivities in blocks; the flat names are the same memory
    s, seeds = in_blocks(dy0, q), in_blocks(dp, q)
    size = s.size
    z, r1, k1 = np.empty(s.shape), np.empty(s.shape), np.empty((4, size))
    s_row, z_row = s.reshape(1, size), z.reshape(1, size)
    s_now = np.empty((4, s.shape[0], n, 4))
    s_flat = s_now.reshape(4, size)
    s_dif, s_before, s_path = np.empty((4, size)), np.empty((4, size)), np.empty((4, size))

    status, cause, worst = _OK, -1, -1
    t, h = t0, 0.0
    ratio_most = 0.0
    rejected, attempts, n_taken, n_rhs, n_jac = 0, 0, 0, 0, 0
    taken = np.empty(steps.size if replay else 64)

    for i in range(n):
        dif[3, i] = y0[i]
    for i in range(size):
        s_dif[3, i] = s.reshape(size)[i]
    next_time = 0
    if times.size > 0 and times[0] <= t0:
        for i in range(n):
            y_out[0, i] = y0[i]
        write_start(s, n, q, s_out)
        next_time = 1

    for segment in range(ends.size):
        t_end = ends[segment]
        begun = n_taken
        last_step = n_taken + counts[_COUNTERS + segment] - 1 if replay else -1
        last_nonfinite = False
        for i in range(n):
            y[0, i] = dif[3, i]
        call_model(rhs, t, y, 0, p, u, k, 0)
        n_rhs += 1
        cause = max(first_nonfinite(k, 0, n), first_nonfinite(y, 0, n))
        if cause >= 0:
            status = _NONFINITE_START if segment == 0 else _NONFINITE
            break
        if not replay:
            h = initial_step(rhs, t, t_end, y, p, u, k, n, rtol, atol, 1.0 / 3.0, states)
            n_rhs += 1
        h_last, h_before = 0.0, 0.0  # steps of the last two arcs of this segment, 0 if there are none

        while True:
            if replay:
                if n_taken > last_step:
                    break
                h = steps[n_taken]
                last = n_taken + 2 == last_step
            else:
                if t >= t_end:
                    break
                last = t + 3.03 * h >= t_end
                if last:
                    h = (t_end - t) / 3.0  # may be below rounding: data that close to the start are no failure
                elif h <= _TINY * abs(t) or h < _SMALLEST_STEP:
                    status = _NONFINITE if last_nonfinite else _UNDERFLOW
                    break
                if attempts + 3 > max_steps:
                    status = _TOO_MANY
                    break
            if stop[0] != 0:
                status = _STOPPED
                break
            attempts += 3
            t_new = t_end if last else t + 3.0 * h
            first = h_last == 0.0
            r_before = 0.0 if h_before == 0.0 else h_last / h_before

            if first:
                for i in range(n):
                    path[0, i] = dif[3, i]
                ratio, worst, bad = runge_kutta_arc(
                    system, t, h, path, k, y, states, rtol, atol, False, s_path, s_row, z_row, seeds, k1
                )
                n_rhs += 10
            else:
                change_step(dif, before, h / h_last, r_before, path, now)
                ratio, worst, evaluations = bdf_arc(
                    functions, pattern, t, h, t_new, p, u, now, path, k, rest, old,
                    delta, jac, a, pivots, work, rtol, atol,
                )  # fmt: skip
                n_rhs += evaluations
                n_jac += 1
            exponent = 1.0 / 3.0 if first else 0.25
            if not replay and not ratio <= 1.0:
                rejected += 3
                cause = worst
                last_nonfinite = not np.isfinite(ratio)
                h *= _factor(ratio, exponent, 0.5)
                continue
            if replay and not np.isfinite(ratio):
                cause = worst
                status = _NONFINITE
                break
            if ratio > ratio_most:
                ratio_most = ratio
                cause = worst

            if q > 0:  # the arc is taken: now its derivatives, at the same points
                if first:
                    for i in range(size):
                        s_path[0, i] = s_dif[3, i]
                    _, _, bad = runge_kutta_arc(
                        system, t, h, path, k, y, states, rtol, atol, True, s_path, s_row, z_row, seeds, k1
                    )
                    n_rhs += 10
                    n_jac += 10
                else:
                    change_step(s_dif, s_before, h / h_last, r_before, s_path, s_flat)
                    bad = bdf_arc_directions(
                        functions, pattern, t, h, t_new, p, u, path, s_now, r1, z, seeds, jac, a, pivots
                    )
                    n_jac += 3
                if bad >= 0:
                    cause = bad // 4 % n
                    status = _NONFINITE_DERIVATIVE
                    break

            if first:
                differences_of(path, now, n)
                differences_of(s_path, s_flat, size)
            _copy(dif, before)
            _copy(now, dif)
            _copy(s_dif, s_before)
            _copy(s_flat, s_dif)
            while next_time < times.size and times[next_time] <= t_new:
                nu = (t_new - times[next_time]) / h
                for i in range(n):
                    y_out[next_time, i] = interpolated_value(dif, nu, i)
                    for c in range(q):
                        s_out[next_time, i, c] = interpolated_value(s_dif, nu, ((c // 4) * n + i) * 4 + c % 4)
                next_time += 1
            for _ in range(3):
                taken = append_step(taken, n_taken, h)
                n_taken += 1
            t = t_new
            h_before, h_last = h_last, h
            may_double = h_before >= 0.999 * h
            h *= _factor(ratio, exponent, 2.0 if may_double else 1.0)
            last_nonfinite = False

        if not replay:
            counts[_COUNTERS + segment] = n_taken - begun
        if status != _OK:
            break

    fill_nan(y_out, next_time)  # not reached: NaN, never zero
    fill_nan(s_out.reshape(times.size, s_out.shape[1] * s_out.shape[2]), next_time)
    counts[0], counts[1], counts[2], counts[3], counts[4] = attempts - rejected, rejected, n_rhs, n_jac, 0
    return status, t, cause, ratio_most, taken[:n_taken]


_STATUS = tuple(Status)
_NO_STEPS = np.empty(0)
_NEVER = StopFlag().array


def _pattern(model: CompiledModel) -> tuple[Index, ...]:
    """Return the pattern of the Jacobian for dense elimination, see `odefit.native.linear_systems`."""
    return model.kept.get("dense pattern", lambda: dense_algebra(model.rhs).pattern)


class Bdf3:
    """The backward differentiation formula of order 3 of diffpar; see the module for the mathematics."""

    name = "bdf3"

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
        """See `Integrator.solve`; `order` may be 0 or 1."""
        if order > 1:
            raise OdefitError(
                f"the integrator '{self.name}' has no second-order sensitivities, order = {order} was asked for; "
                "take 'dopri5' or 'rk32' for them, or order = 1"
            )
        t0, y0, p, u, times, ends, dy0, dp, _, _ = run
        steps, counts = self._grid_arrays(grid, ends.size)
        n, n_times, rhs = y0.size, times.size, model.rhs
        y = np.empty((n_times, n))
        s = np.empty((n_times, n, dy0.shape[1] if order >= 1 else 0))
        status, t_end, cause, ratio, taken = bdf3_solve(
            (rhs.value, rhs.directions, rhs.jacobian), _pattern(model), t0, ends if n else _NO_STEPS,
            y0, p, u, dy0, dp, times, y, s, steps, counts, grid is not None,
            rtol, atol, max_steps, order, _NEVER if stop is None else stop.array,
        )  # fmt: skip
        if grid is None:
            grid = StepGrid(self.name, taken, counts)
        return Trajectory(
            _STATUS[status], t_end, cause, y, s, np.empty((n_times, n, 0)), grid, ratio, "variational", counts
        )

    def _grid_arrays(self, grid: StepGrid | None, n_segments: int) -> tuple[Array, Index]:
        """Return steps and a copy of the counts of a grid that fits."""
        steps, counts = steps_to_take(grid, self.name, n_segments)
        if (counts[_COUNTERS:] % 3).any() or (np.diff(steps.reshape(-1, 3)) != 0.0).any():
            raise OdefitError(f"a step grid of '{self.name}' needs three equal steps in each arc")
        return steps, counts
