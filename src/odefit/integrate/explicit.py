"""Explicit Runge-Kutta methods with sensitivities: what a step is, the same for every method.

With z = (y, p) the directions solve the variational equations

    S_a'  = f_z z_a,                         z_a  = (S_a, dp_a)
    S_ab' = f_z z_ab + D2f[z_a, z_b],        z_ab = (S_ab, d2p_ab)

and every stage of the Runge-Kutta method is differentiated exactly: the stages of S are those of the
same method applied to the variational equations, at the stage states.  So S is the derivative of the
*discrete* solution on a fixed step sequence, to rounding, in first and second order; the continuous
extension is linear in the stages and keeps this.  Step control looks at the states alone, and the
sensitivities of a step are computed only once it is accepted.

A method is a `Tableau` of coefficients.  `scheme_of` writes them out as the small kernels of a `Scheme`, and
`explicit_method` makes of these the steps of a `Method`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from odefit.integrate.contract import Array, Status
from odefit.integrate.directions import (
    add_second,
    n_blocks,
    n_pairs,
    put_seeds,
    put_seeds_of_piece,
    put_states,
    slopes_of,
)
from odefit.integrate.present_piece import time_in_task
from odefit.integrate.single_method import SingleMethod
from odefit.integrate.stepping import JACOBIAN, RHS, SECOND, continued_step, first_nonfinite, initial_step, nonfinite_in
from odefit.integrate.time_loop import NOT_FINITE, SOLVED, Method, time_loop
from odefit.native.calls import call_model
from odefit.native.kernel import kernel
from odefit.native.pool import SLACK, cut

_OK, _NONFINITE_START, _NONFINITE_DERIVATIVE, _STIFF = (
    int(one) for one in (Status.OK, Status.NONFINITE_START, Status.NONFINITE_DERIVATIVE, Status.STIFF)
)
DETECT = 1
"""Bit of `Task.choices`: end with the status "stiff" where many more steps at the limit of stability lie ahead."""
_SAFETY, _SHRINK_MOST = 0.9, 0.2
_STEPS_TO_BELIEVE, _STEPS_TO_FORGET = 15, 6
_STEPS_WORTH_A_CHANGE = 100  # more steps of this size, for which another method pays
# places in `Room.memory`
_LOG_OLD_RATIO, _AFTER_REJECT, _N_STIFF, _N_FREE, _INSIDE = range(5)


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
    weight_slopes(x, derivative, h, w)
        Fill those of its first or second derivative by time.
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
    weight_slopes: Callable[..., Any]
    interpolate: Callable[..., Any]
    extension_stages: Any = None
    extension_direction_stages: Any = None


class Room(NamedTuple):
    """What an explicit method works with.  Directions are flat: a row holds all blocks (n, 4), one behind the other.

    Attributes
    ----------
    y, k, states
        State at the beginning of a step; slopes and states of the stages, the last one of a step being the new one.
    weights
        Of the stages in the continuous extension.
    c, z, slopes, seeds
        Directions of first order: at the beginning of a step, at a stage, slopes of the stages; seeds of p.
    c2, z2, slopes2, seeds2, vectors
        Those of second order, and room for two directions and a second derivative.
    y_out, s_out, s2_out
        At an output time.
    memory
        Numbers that are remembered from step to step.
    pool
        What the others are cut from.
    """

    y: Array
    k: Array
    states: Array
    weights: Array
    c: Array
    z: Array
    slopes: Array
    seeds: Array
    c2: Array
    z2: Array
    slopes2: Array
    seeds2: Array
    vectors: tuple[Array, Array, Array]
    y_out: Array
    s_out: Array
    s2_out: Array
    memory: Array
    pool: Array


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


def _room_maker(n_all: int) -> Any:
    """Return `Method.make_room` of a method with so many stages."""

    @kernel(inline=True, allocating=True)
    def make_room(task, elimination, order):
        n, n_p = task.n, task.n_parameters
        q = task.n_directions if order >= 1 else 0
        m = q * (q + 1) // 2 if order == 2 else 0
        b1, b2 = n_blocks(q), n_blocks(m)
        n1, n2, n_z = b1 * n * 4, b2 * n * 4, n + n_p if m > 0 else 0
        states = (3 + 2 * n_all) * n + n_all + 5
        first, second = n1 + 4 * b1 * n_p, (3 + n_all) * n2 + 4 * b2 * n_p
        # of their own: cut from the pool, loops over these took a third longer for two states
        c, z, slopes = np.empty((1, n1)), np.empty((1, n1)), np.empty((n_all, n1))
        pool = np.empty(states + first + second + 2 * n_z + 16 * SLACK)
        at, y = cut(pool, 0, (1, n))
        at, k = cut(pool, at, (n_all, n))
        at, stage_states = cut(pool, at, (n_all, n))
        at, y_out = cut(pool, at, (1, n))
        at, weights = cut(pool, at, (n_all,))
        at, memory = cut(pool, at, (5,))
        at, s_out = cut(pool, at, (1, n1))
        at, seeds = cut(pool, at, (b1, n_p, 4))
        at, c2 = cut(pool, at, (1, n2))
        at, z2 = cut(pool, at, (1, n2))
        at, s2_out = cut(pool, at, (1, n2))
        at, slopes2 = cut(pool, at, (n_all, n2))
        at, seeds2 = cut(pool, at, (b2, n_p, 4))
        at, v = cut(pool, at, (n_z,))
        at, w = cut(pool, at, (n_z,))
        at, d2 = cut(pool, at, (n,))
        memory[_N_STIFF] = memory[_N_FREE] = 0.0
        for i in range(n):
            y[0, i] = y_out[0, i] = task.y0[i]
        put_states(task.dy0, task.n_columns, q, n, c)
        put_seeds(task.dp, task.n_columns, q, n_p, seeds)
        put_states(task.d2y0, m, m, n, c2)
        put_seeds(task.d2p, m, m, n_p, seeds2)
        for i in range(n1):
            s_out[0, i] = c[0, i]
        for i in range(n2):
            s2_out[0, i] = c2[0, i]
        return Room(
            y, k, stage_states, weights, c, z, slopes, seeds, c2, z2, slopes2, seeds2, (v, w, d2),
            y_out, s_out, s2_out, memory, pool,
        )  # fmt: skip

    return make_room


@kernel(inline=True)
def _seed(task, elimination, room):
    q, n_p = task.n_directions if room.seeds.size > 0 else 0, task.n_parameters
    put_seeds_of_piece(task.dp, task.n_columns, q, n_p, room.seeds)
    m = q * (q + 1) // 2 if room.seeds2.size > 0 else 0
    put_seeds_of_piece(task.d2p, m, m, n_p, room.seeds2)


@kernel(inline=True, allocating=True)
def _current(room):
    return room.y, room.c, room.c2, 0


def _beginner(scheme: Scheme) -> Any:
    """Return `Method.begin`."""
    log_smallest_ratio, exponent = math.log(scheme.smallest_ratio), 1.0 / scheme.error_order

    @kernel(inline=True)
    def begin(task, elimination, room, t, t_end, h, replay):
        n, counts = task.n, task.counts
        room.memory[_LOG_OLD_RATIO] = log_smallest_ratio
        room.memory[_AFTER_REJECT] = room.memory[_INSIDE] = 0.0
        call_model(task.value, t, room.y, 0, task.p, task.u, room.k, 0)
        counts[RHS] += 1
        cause = max(first_nonfinite(room.k, 0, n), first_nonfinite(room.y, 0, n))
        if cause >= 0:
            return _NONFINITE_START, cause, 0.0
        if room.c.shape[1] > 0:
            slopes_of(task, t, room.y, 0, room.c, room.seeds, room.slopes, 0)
            counts[JACOBIAN] += 1
        if room.c2.shape[1] > 0:
            slopes_of(task, t, room.y, 0, room.c2, room.seeds2, room.slopes2, 0)
            add_second(task, t, room.y, 0, room.c, 0, room.seeds, room.vectors, room.slopes2, 0)
            counts[SECOND] += n_pairs(task)
        if replay:
            return _OK, -1, 0.0
        counts[RHS] += 1
        guess = initial_step(task, t, t_end, room.y, room.k, exponent, room.states)
        return _OK, -1, continued_step(guess, h)

    return begin


def _attempter(scheme: Scheme) -> Any:
    """Return `Method.attempt`: the stages of the states, those of the continuous extension where output needs them."""
    state_stages, extension_stages, error = scheme.state_stages, scheme.extension_stages, scheme.error
    n_stages, n_all = scheme.n_stages, scheme.nodes.size
    n_extension = n_all - n_stages

    @kernel(inline=True)
    def attempt(task, elimination, room, t, h, t_new, t_out, step):
        n = task.n
        state_stages(task, t, h, room.y, room.k, room.states)
        task.counts[RHS] += n_stages - 1
        ratio, worst = error(room.y, room.states, h, room.k, n, task.rtol, task.atol)
        if n_extension > 0:
            inside = t_out < t_new and (step >= 0 or ratio <= 1.0)
            room.memory[_INSIDE] = 1.0 if inside else 0.0
            if inside:
                extension_stages(task, t, h, room.y, room.k, room.states)
                task.counts[RHS] += n_extension
                for s in range(n_stages, n_all):
                    bad = first_nonfinite(room.k, s, n)
                    if bad >= 0:
                        ratio, worst = np.inf, bad
        return (SOLVED if math.isfinite(ratio) else NOT_FINITE), ratio, worst

    return attempt


def _differentiator(scheme: Scheme) -> Any:
    """Return `Method.differentiate`: the stages of the directions, at those of the states."""
    direction_stages, extension_direction_stages = scheme.direction_stages, scheme.extension_direction_stages
    n_stages, n_all = scheme.n_stages, scheme.nodes.size
    n_extension, last = n_all - n_stages, n_stages - 1
    second_order = _second_order(scheme)

    @kernel(inline=True)
    def differentiate(task, elimination, room, t, h, t_new):
        n1, n2 = room.c.shape[1], room.c2.shape[1]
        inside = n_extension > 0 and room.memory[_INSIDE] > 0.0
        direction_stages(task, t, h, room.states, room.c, room.z, room.seeds, room.slopes)
        if n_extension > 0 and inside:
            extension_direction_stages(task, t, h, room.states, room.c, room.z, room.seeds, room.slopes)
        if n2 > 0:
            second_order(task, room, t, h, inside)
        n_slopes = n_all - 1 if inside else last
        task.counts[JACOBIAN] += n_slopes
        task.counts[SECOND] += n_slopes * n_pairs(task) if n2 > 0 else 0
        # new values and last slopes; earlier slopes that are not finite have spoilt the values
        bad = max(nonfinite_in(room.z, 0, n1), nonfinite_in(room.slopes, last, n1))
        if n2 > 0:
            bad = max(bad, nonfinite_in(room.z2, 0, n2), nonfinite_in(room.slopes2, last, n2))
        if n_extension > 0 and inside:
            for s in range(n_stages, n_all):
                bad = max(bad, nonfinite_in(room.slopes, s, n1))
                if n2 > 0:
                    bad = max(bad, nonfinite_in(room.slopes2, s, n2))
        return (_OK if bad < 0 else _NONFINITE_DERIVATIVE), (bad // 4 % task.n if bad >= 0 else -1), 0.0

    return differentiate


def _second_order(scheme: Scheme) -> Any:
    """Return the stages of the directions of second order, with those of first order computed along."""
    stage, nodes, n_all, last = scheme.stage, scheme.nodes, scheme.nodes.size, scheme.n_stages - 1

    @kernel(inline=True)
    def second_order(task, room, t, h, inside):
        n, n1, n2 = task.n, room.c.shape[1], room.c2.shape[1]
        for i in range(1, n_all + 1 if inside else last + 1):
            s = i if i < n_all else last  # behind those of the extension: the new values again
            stage(s, room.c, h, room.slopes, n1, room.z, 0)
            stage(s, room.c2, h, room.slopes2, n2, room.z2, 0)
            if i < n_all:
                slopes_of(task, t + nodes[s] * h, room.states, s * n, room.z2, room.seeds2, room.slopes2, s)
                add_second(
                    task, t + nodes[s] * h, room.states, s * n, room.z, 0, room.seeds, room.vectors, room.slopes2, s
                )

    return second_order


@kernel(inline=True)
def _slope_of_extension(k, n, w, out):
    """Set `out` to the sum of the stages with these weights; those without a weight need not have been computed."""
    for i in range(n):
        out[0, i] = 0.0
    for s in range(k.shape[0]):
        if w[s] != 0.0:
            for i in range(n):
                out[0, i] += w[s] * k[s, i]


def _interpolators(scheme: Scheme) -> tuple[Any, Any]:
    """Return `Method.interpolate` and `Method.peek`."""
    fill_weights, interpolate_with, fill_weight_slopes = scheme.weights, scheme.interpolate, scheme.weight_slopes
    last, has_extension = scheme.n_stages - 1, scheme.nodes.size > scheme.n_stages

    @kernel(inline=True)
    def parts(task, room, t, h, t_new, t_out, derivative, n1, n2):
        n = task.n
        if derivative > 0:
            fill_weight_slopes((t_out - t) / h, derivative, h, room.weights)
            _slope_of_extension(room.k, n, room.weights, room.y_out)
            _slope_of_extension(room.slopes, n1, room.weights, room.s_out)
            _slope_of_extension(room.slopes2, n2, room.weights, room.s2_out)
            return
        if has_extension and t_out == t_new:  # no need of the extension, nor of its stages
            for i in range(n):
                room.y_out[0, i] = room.states[last, i]
            for i in range(n1):
                room.s_out[0, i] = room.z[0, i]
            for i in range(n2):
                room.s2_out[0, i] = room.z2[0, i]
            return
        fill_weights((t_out - t) / h, room.weights)
        interpolate_with(room.y, h, room.k, n, room.weights, room.y_out, 0)
        interpolate_with(room.c, h, room.slopes, n1, room.weights, room.s_out, 0)
        if n2 > 0:
            interpolate_with(room.c2, h, room.slopes2, n2, room.weights, room.s2_out, 0)

    @kernel(inline=True)
    def interpolate(task, room, t, h, t_new, t_out, derivative):
        parts(task, room, t, h, t_new, t_out, derivative, room.c.shape[1], room.c2.shape[1])

    @kernel(inline=True)
    def peek(task, room, t, h, t_new, t_out, derivative):
        parts(task, room, t, h, t_new, t_out, derivative, 0, 0)

    return interpolate, peek


@kernel(inline=True)
def _is_worth_a_change(task, t, h):
    """Tell whether so many more steps of this size lie ahead that another method pays."""
    if task.moving != 0:
        return task.ends[-1] - time_in_task(task, t) > _STEPS_WORTH_A_CHANGE * h * task.p[task.n_parameters - 1]
    return task.ends[-1] - t > _STEPS_WORTH_A_CHANGE * h


def _controllers(scheme: Scheme) -> tuple[Any, Any]:
    """Return `Method.retry` and `Method.advance`: step-size control, and the watch for stiffness."""
    beta, grow_most, smallest_ratio, stiff_from = (
        scheme.beta,
        scheme.grow_most,
        scheme.smallest_ratio,
        scheme.stiff_from,
    )
    exponent, last = 1.0 / scheme.error_order - 0.75 * beta, scheme.n_stages - 1

    @kernel(inline=True)
    def retry(task, room, ratio, outcome):
        room.memory[_AFTER_REJECT] = 1.0
        log_ratio = math.log(max(ratio, smallest_ratio))
        return 0.1 if outcome == NOT_FINITE else max(_SHRINK_MOST, _SAFETY * math.exp(-exponent * log_ratio))

    @kernel(inline=True)
    def advance(task, room, t, h, t_new, ratio, replay):
        memory, status, factor = room.memory, _OK, 1.0
        if not replay:
            log_ratio = math.log(max(ratio, smallest_ratio))
            grow = _SAFETY * math.exp(beta * memory[_LOG_OLD_RATIO] - exponent * log_ratio)
            factor = max(_SHRINK_MOST, min(1.0 if memory[_AFTER_REJECT] > 0.0 else grow_most, grow))
            memory[_LOG_OLD_RATIO], memory[_AFTER_REJECT] = log_ratio, 0.0
            if (task.choices & DETECT) != 0:
                if _spectral_radius(h, room.k, room.states, last, task.n) > stiff_from:
                    memory[_N_STIFF] += 1.0
                    memory[_N_FREE] = 0.0
                else:
                    memory[_N_FREE] += 1.0
                    if memory[_N_FREE] == _STEPS_TO_FORGET:
                        memory[_N_STIFF] = 0.0
                if memory[_N_STIFF] >= _STEPS_TO_BELIEVE and _is_worth_a_change(task, t, h):
                    status = _STIFF
        shift_stages(room.y, room.states, last, room.k, last, task.n)
        shift_stages(room.c, room.z, 0, room.slopes, last, room.c.shape[1])
        shift_stages(room.c2, room.z2, 0, room.slopes2, last, room.c2.shape[1])
        return status, factor, 0

    return retry, advance


def explicit_method(scheme: Scheme) -> Method:
    """Return the steps of a Runge-Kutta method.

    What depends on the scheme alone is decided before anything is compiled: a method whose continuous extension needs
    no stages of its own does not pay for them.
    """
    retry, advance = _controllers(scheme)
    interpolate, peek = _interpolators(scheme)
    return Method(
        stride=1,
        make_room=_room_maker(scheme.nodes.size),
        seed=_seed,
        begin=_beginner(scheme),
        attempt=_attempter(scheme),
        differentiate=_differentiator(scheme),
        retry=retry,
        interpolate=interpolate,
        advance=advance,
        current=_current,
        peek=peek,
    )


def explicit_kernel(name: str, scheme: Scheme) -> Any:
    """Return the kernel `name` that integrates with `scheme`."""
    return time_loop(name, explicit_method(scheme))


class ExplicitRungeKutta(SingleMethod):
    """What explicit methods have in common: they differ in name and kernel."""
