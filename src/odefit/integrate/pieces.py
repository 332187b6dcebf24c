"""The pieces of a task: where its conditions in time change, what they are in between, and how that moves.

The mathematics of inputs u and switches g(t, p, u) is at the top of `odefit.compile.switches`.  Here the ends of pieces
are found, at every evaluation, since they may depend on parameters.

**Ends.**  Level by level: between two ends that are known, the inputs of lower levels are constant, and the switches of
this level are smooth functions of t.  One that is affine in t has its zero (or the points where it is a whole number)
in closed form, polished by one step of Newton's method so that ``t >= 12`` ends a piece at 12 to the last bit.  Any
other is looked at in `SCAN` equal intervals of the whole horizon, at least `SCAN_LEAST` of a stretch.  An interval in
which its slope changes sign is divided at the extremum, so that two zeros in one interval are found as well; what is
missed is an interval with two extrema.  Zeros are bracketed and found by Newton's method with bisection.

**Derivatives.**  From g(tau(theta), p(theta), u) = 0 follow, with z_a = (dtau_a, dp_a),

    dtau_a = - g_p dp_a / g_t,        d2tau_ab = - (g_p d2p_ab + D2g[z_a, z_b]) / g_t .

**Equal times.**  Two conditions may change at one time: two lags that start with the same value.  With moving ends both
stay, with a piece of length zero between them, whose derivative dL = dtau_2 - dtau_1 is not zero; F_L dL = f dL is
then what the order of the two contributes.  In such a piece, inputs whose switch is yet to come have their value from
before, all others that from behind.  A condition that changes at the start of the task is kept in the same way: a lag
of zero has a derivative.  With fixed ends equal times are one, except where something happens: every event ends a
piece of its own, in the order in which they act.

**Replay.**  Steps belong to pieces.  If the order of the switches has changed, or their number, steps cannot be taken
again, and a status says so.
"""

from __future__ import annotations

import math

import numpy as np

from odefit.compile.switch_kinds import (
    CEIL,
    EQUAL,
    FLOOR,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    MINUS_SIGN,
    SIGN,
    TRUNCATE,
    UNEQUAL,
)
from odefit.integrate.contract import Counters, Status
from odefit.integrate.events import FIRST_OWNER, TOO_EARLY, moments_of, motion_of
from odefit.integrate.stepping import longer
from odefit.integrate.task import KEEPING, Switching, Task, switching_at, task_at
from odefit.native.calls import call_model, call_second
from odefit.native.kernel import kernel
from odefit.native.table_slots import MIDDLE

_COUNTERS = len(Counters._fields)
_OK, _SWITCHED, _ROOM, _TOO_MANY, _UNDEFINED, _TOO_EARLY, _UNDEFINED_EVENT = (
    int(one)
    for one in (
        Status.OK,
        Status.SWITCHED,
        Status.ROOM_FOR_PIECES,
        Status.TOO_MANY_PIECES,
        Status.UNDEFINED_CONDITION,
        Status.EVENT_TOO_EARLY,
        Status.UNDEFINED_EVENT,
    )
)
SCAN, SCAN_LEAST = 2000, 16
MOST_PIECES = 100_000
_HALVINGS = 100
_BEFORE = 1e-6  # of the horizon: how long before the start it is told what a condition was that changes there

_write_pieces = KEEPING.writer(Task, "ends", "u")
_write_inputs = KEEPING.writer(Switching, "inputs", "end_slopes", "end_bends")


@kernel(inline=True)
def _input_of(kind, g):
    """Return the value of an input whose switch is `g`."""
    if kind == LESS:
        value = 1.0 if g < 0.0 else 0.0
    elif kind == LESS_EQUAL:
        value = 1.0 if g <= 0.0 else 0.0
    elif kind == GREATER:
        value = 1.0 if g > 0.0 else 0.0
    elif kind == GREATER_EQUAL:
        value = 1.0 if g >= 0.0 else 0.0
    elif kind == EQUAL:
        value = 1.0 if g == 0.0 else 0.0
    elif kind == UNEQUAL:
        value = 1.0 if g != 0.0 else 0.0
    elif kind == SIGN:
        value = math.copysign(1.0, g) if g != 0.0 else 0.0
    elif kind == MINUS_SIGN:
        value = -math.copysign(1.0, g) if g != 0.0 else 0.0
    elif kind == FLOOR:
        value = np.floor(g)
    elif kind == CEIL:
        value = np.ceil(g)
    else:
        assert kind == TRUNCATE
        value = np.trunc(g)
    return value


@kernel
def _switches_at(sw, t, p, u, work):
    """Compute all switches and their slopes at `t`: they stand in ``work[1:]``."""
    work[0] = t
    call_model(sw.value, 0.0, work, 0, p, u, work, 1)


@kernel
def _set_inputs(sw, t, p, u, levels, work):
    """Set the inputs of levels 1 to `levels` to what they are at `t`."""
    for level in range(1, levels + 1):
        _switches_at(sw, t, p, u, work)
        for j in range(sw.kind.size):
            if sw.level[sw.switch_of[j]] == level:
                u[j] = _input_of(sw.kind[j], work[1 + sw.switch_of[j]])


@kernel
def _polished(sw, j, p, u, aim, lower, upper, rising, t, work):
    """Return where switch `j` is `aim` between two times, by Newton's method from `t`, with bisection."""
    n = sw.level.size
    for _ in range(_HALVINGS):
        _switches_at(sw, t, p, u, work)
        miss, slope = work[1 + j] - aim, work[1 + n + j]
        if miss == 0.0:
            break
        if (miss > 0.0) == rising:
            upper = t
        else:
            lower = t
        new = t - miss / slope if slope != 0.0 else np.nan
        if not lower < new < upper:
            new = lower + 0.5 * (upper - lower)
        if new == t or not lower < new < upper:
            break
        t = new
    return t


@kernel
def _extremum(sw, j, p, u, lower, upper, rising, work):
    """Return where the slope of switch `j` changes its sign between two times; `rising`: it is positive before."""
    n = sw.level.size
    for _ in range(_HALVINGS):
        t = lower + 0.5 * (upper - lower)
        if not lower < t < upper:
            break
        _switches_at(sw, t, p, u, work)
        if (work[1 + n + j] > 0.0) == rising:
            lower = t
        else:
            upper = t
    return lower


@kernel
def _note(found, owners, count, t, j):
    """Note that switch `j` ends a piece at `t`; return the arrays, longer ones if needed, and the count."""
    if count == found.size:
        found, owners = longer(found), longer(owners)
    found[count], owners[count] = t, j
    return found, owners, count + 1


@kernel
def _crossings(sw, j, p, u, begin, end, stretch_end, found, owners, count, work):
    """Note where switch `j`, monotonic from `begin` to `end`, reaches zero or a whole number behind `begin`.

    Nothing is noted at `stretch_end`, where a piece ends anyway; a switch that is not a number is noted as NaN.
    """
    n = sw.level.size
    _switches_at(sw, begin, p, u, work)
    first, slope = work[1 + j], work[1 + n + j]
    _switches_at(sw, end, p, u, work)
    last = work[1 + j]
    if math.isnan(first) or math.isnan(last):
        return _note(found, owners, count, np.nan, j)
    if first == last:
        return found, owners, count
    rising = last > first
    if sw.whole[j] != 0:
        if not (math.isfinite(first) and math.isfinite(last)):
            return _note(found, owners, count, np.nan, j)
        aim = np.floor(first) + 1.0 if rising else np.ceil(first) - 1.0
    elif first * (1.0 if rising else -1.0) < 0.0:
        aim = 0.0
    else:
        return found, owners, count
    while count <= MOST_PIECES and (aim <= last if rising else aim >= last):
        if sw.affine[j] != 0:
            guess = begin + (aim - first) / slope
            _switches_at(sw, guess, p, u, work)
            t = guess - (work[1 + j] - aim) / slope
            t = min(max(t, begin), end)
        elif aim == last:
            t = end
        else:
            t = _polished(sw, j, p, u, aim, begin, end, rising, begin + 0.5 * (end - begin), work)
        if begin < t < stretch_end:
            found, owners, count = _note(found, owners, count, t, j)
        if sw.whole[j] == 0:
            break
        aim += 1.0 if rising else -1.0
    return found, owners, count


@kernel
def _ends_in(sw, j, p, u, begin, end, horizon, found, owners, count, work):
    """Note where switch `j` ends a piece between two times, inputs of lower levels being `u`."""
    if sw.affine[j] != 0:
        return _crossings(sw, j, p, u, begin, end, end, found, owners, count, work)
    n = sw.level.size
    n_scan = max(SCAN_LEAST, int(math.ceil(SCAN * (end - begin) / horizon)))
    _switches_at(sw, begin, p, u, work)
    a, slope_a = begin, work[1 + n + j]
    for k in range(1, n_scan + 1):
        b = end if k == n_scan else begin + (end - begin) * (k / n_scan)
        _switches_at(sw, b, p, u, work)
        slope_b = work[1 + n + j]
        if slope_a * slope_b < 0.0:
            middle = _extremum(sw, j, p, u, a, b, slope_a > 0.0, work)
            found, owners, count = _crossings(sw, j, p, u, a, middle, end, found, owners, count, work)
            a = middle
        found, owners, count = _crossings(sw, j, p, u, a, b, end, found, owners, count, work)
        a, slope_a = b, slope_b
    return found, owners, count


@kernel
def _starts_there(sw, j, t, p, u, work):
    """Tell whether switch `j`, which depends on parameters, changes at `t` exactly, the start of a task."""
    if sw.col[sw.row_ptr[j + 1] - 1] == 0:  # columns are sorted, and time comes first
        return False
    _switches_at(sw, t, p, u, work)
    g, slope = work[1 + j], work[1 + sw.level.size + j]
    return slope != 0.0 and (g == np.floor(g) if sw.whole[j] != 0 else g == 0.0)


@kernel
def _all_ends(task, sw, u, levels, work):
    """Return the ends of the pieces, sorted, the switch of each (-1: none), and their number."""
    start, p, stops, n_stops = task.start, task.p, sw.stops, sw.stops.size
    t_end = stops[n_stops - 1]
    room = n_stops + sw.event_kind.size + 8
    found, owners = np.empty(room), np.empty(room, np.int64)
    for k in range(n_stops):
        found[k], owners[k] = stops[k], -1
    count = n_stops
    if sw.event_kind.size > 0:
        count = moments_of(task, sw, t_end, found, owners, count)
        by_time = np.argsort(found[:count], kind="mergesort")  # what happens at one time stays in its order
        found, owners = found[:count][by_time], owners[:count][by_time]
        if not found[0] >= start:
            return found, owners, count
    for level in range(1, levels + 1):
        known = count
        for k in range(known):
            begin, end = start if k == 0 else found[k - 1], found[k]
            if not begin < end:
                continue
            _set_inputs(sw, begin + 0.5 * (end - begin), p, u, level - 1, work)
            for j in range(sw.level.size):
                if sw.level[j] == level:
                    if task.moving != 0 and begin == start and _starts_there(sw, j, start, p, u, work):
                        found, owners, count = _note(found, owners, count, start, j)
                    found, owners, count = _ends_in(
                        sw, j, p, u, begin, end, t_end - start, found, owners, count, work
                    )  # fmt: skip
                    if count > MOST_PIECES:
                        return found, owners, count
        by_time = np.argsort(found[:count], kind="mergesort")
        found, owners = found[:count][by_time], owners[:count][by_time]
    if task.moving == 0:
        kept = 0
        for k in range(count):
            if kept == 0 or owners[k] <= FIRST_OWNER or not found[k] <= found[kept - 1]:  # what is not a number stays
                found[kept], owners[kept] = found[k], owners[k]
                kept += 1
        count = kept
    return found, owners, count


@kernel
def _all_inputs(sw, start, p, u, levels, ends, owners, inputs, work):
    """Fill the inputs of all pieces, a row of `inputs` each: those at the middle."""
    n_u, m = sw.kind.size, ends.size
    for k in range(m):
        begin = start if k == 0 else ends[k - 1]
        if begin < ends[k]:
            _set_inputs(sw, begin + 0.5 * (ends[k] - begin), p, u, levels, work)
            for j in range(n_u):
                inputs[k * n_u + j] = u[j]
    first = 0
    while first < m:  # pieces of length zero, a group after the other
        if ends[first] > (start if first == 0 else ends[first - 1]):
            first += 1
            continue
        behind = first
        while behind < m and not ends[behind] > (start if behind == 0 else ends[behind - 1]):
            behind += 1
        if first == 0:
            _set_inputs(sw, start - _BEFORE * (ends[m - 1] - start), p, u, levels, work)
        for k in range(first, behind):
            for j in range(n_u):
                ahead = False
                for other in range(k, behind):
                    ahead = ahead or owners[other] == sw.switch_of[j]
                if ahead:
                    inputs[k * n_u + j] = u[j] if first == 0 else inputs[(first - 1) * n_u + j]
                elif behind < m:
                    inputs[k * n_u + j] = inputs[behind * n_u + j]
        first = behind


@kernel
def _derivatives(task, sw, ends, owners, inputs, order, slopes, bends, work):
    """Fill the derivatives of the ends of pieces by all directions, and by all pairs of these."""
    q, n_columns, n_u = task.n_directions, task.n_columns, sw.kind.size
    n_pairs, n_p = q * (q + 1) // 2, task.n_parameters
    nonzeros, out = np.empty(sw.col.size), np.empty(sw.row_ptr.size - 1)
    v, w = np.empty(1 + n_p), np.empty(1 + n_p)
    for k in range(ends.size):
        j = owners[k]
        for a in range(q):
            slopes[k * q + a] = 0.0
        for pair in range(n_pairs if order == 2 else 0):
            bends[k * n_pairs + pair] = 0.0
        if j <= FIRST_OWNER:
            motion_of(task, sw, FIRST_OWNER - j, order, slopes[k * q : (k + 1) * q], bends[k * n_pairs :])
        if j < 0:
            continue
        work[0], u = ends[k], inputs[k * n_u : (k + 1) * n_u]
        call_model(sw.jacobian, 0.0, work, 0, task.p, u, nonzeros, 0)
        rate = 0.0
        for e in range(sw.row_ptr[j], sw.row_ptr[j + 1]):
            i = np.int64(sw.col[e]) - 1
            if i < 0:
                rate = nonzeros[e]
            else:
                for a in range(q):
                    slopes[k * q + a] -= nonzeros[e] * task.dp[i * n_columns + a]
        for a in range(q):
            slopes[k * q + a] /= rate
        pair = 0
        for a in range(q if order == 2 else 0):
            _stack(task, slopes[k * q + a], a, v)
            for b in range(a, q):
                _stack(task, slopes[k * q + b], b, w)
                call_second(sw.second, 0.0, work, 0, task.p, u, v, w, out, 0)
                total = out[j]
                for e in range(sw.row_ptr[j], sw.row_ptr[j + 1]):
                    if sw.col[e] > 0:
                        total += nonzeros[e] * task.d2p[(np.int64(sw.col[e]) - 1) * n_pairs + pair]
                bends[k * n_pairs + pair] = -total / rate
                pair += 1


@kernel
def _stack(task, slope, a, v):
    """Set `v` to the direction `a` of (time, p)."""
    v[0] = slope
    for i in range(task.n_parameters):
        v[1 + i] = task.dp[i * task.n_columns + a]


@kernel
def lay_pieces(table, i, order, replay):
    """Find the pieces of task `i`, which has switches, at its present parameters, and write them into its row.

    Returns
    -------
    status, count, memory
        OK; UNDEFINED_CONDITION if a switch is not a number; SWITCHED if the grid to `replay` has other pieces;
        EVENT_TOO_EARLY, UNDEFINED_EVENT; ROOM_FOR_PIECES if counts and `passed` are too short for `count` pieces;
        TOO_MANY_PIECES.  `memory` must be kept alive as long as the row is used.
    """
    task, sw = task_at(table, i), switching_at(table, i)
    n_s, n_u, q = sw.level.size, sw.kind.size, task.n_directions if order >= 1 and task.moving != 0 else 0
    levels = 0
    for j in range(n_s):
        levels = max(levels, sw.level[j])
    work, u = np.empty(1 + 2 * n_s), np.zeros(n_u)
    if sw.stops.size == 0:
        _write_pieces(table, i, (work[:0], task.u if task.slots > 0 else u))
        return _OK, 0, u
    found, owners, m = _all_ends(task, sw, u, levels, work)
    for k in range(m):
        if math.isnan(found[k]):
            return (_UNDEFINED_EVENT if owners[k] <= FIRST_OWNER else _UNDEFINED), m, u
        if found[k] == TOO_EARLY:
            return _TOO_EARLY, m, u
    if m > MOST_PIECES:
        return _TOO_MANY, m, u
    if replay and (sw.passed.size == 0 or sw.passed[0] != m):
        return _SWITCHED, m, u
    if sw.passed.size <= m or task.counts.size < _COUNTERS + m:
        return _ROOM, m, u
    for k in range(m):
        if replay and sw.passed[1 + k] != owners[k]:
            return _SWITCHED, m, u
        sw.passed[1 + k] = owners[k]
    sw.passed[0] = m
    n_pairs = q * (q + 1) // 2 if order == 2 else 0
    memory = np.empty(m * (1 + n_u + q + n_pairs) + n_u)
    ends, inputs = memory[:m], memory[m : m * (1 + n_u)]
    slopes = memory[m * (1 + n_u) : m * (1 + n_u + q)]
    bends, now = memory[m * (1 + n_u + q) : m * (1 + n_u + q + n_pairs)], memory[m * (1 + n_u + q + n_pairs) :]
    ends[:] = found[:m]
    _all_inputs(sw, task.start, task.p, u, levels, ends, owners, inputs, work)
    if q > 0:
        _derivatives(task, sw, ends, owners, inputs, order, slopes, bends, work)
    _write_pieces(table, i, (ends, task.u if task.slots > 0 else now))
    _write_inputs(table, i, (inputs, slopes, bends))
    if task.moving != 0:
        _mark_piece(task, order)
    return _OK, m, memory


@kernel(inline=True)
def time_in_task(task, t):
    """Return the time that a method calls `t` in the present piece: with moving ends, the fraction of it."""
    if task.moving != 0 and task.ends.size > 0 and task.n > 0:
        return task.p[task.n_parameters - 2] + task.p[task.n_parameters - 1] * t
    return t


@kernel(inline=True)
def _mark_piece(task, order):
    """Set start and length of the piece, and their seeds, to numbers that are not zero: rooms are made for those."""
    n_p = task.n_parameters
    for row in range(n_p - 2, n_p):
        task.p[row] = 1.0
        for a in range(task.n_columns if order >= 1 else 0):
            task.dp[row * task.n_columns + a] = 1.0 if a < task.n_directions else 0.0
    n_pairs = task.n_directions * (task.n_directions + 1) // 2 if order == 2 else 0
    for e in range((n_p - 2) * n_pairs, n_p * n_pairs):
        task.d2p[e] = 1.0


@kernel(inline=True)
def enter_piece(task, sw, piece, order):
    """Set the inputs of a piece and, with moving ends, its start and length and their seeds."""
    begin, n_u = task.start if piece == 0 else task.ends[piece - 1], sw.kind.size
    if task.slots > 0:
        task.u[MIDDLE] = begin + 0.5 * (task.ends[piece] - begin)
    first = task.u.size - n_u  # behind tables
    for j in range(n_u):
        task.u[first + j] = sw.inputs[piece * n_u + j]
    if task.moving == 0:
        return
    n_p, q, n_columns = task.n_parameters, task.n_directions, task.n_columns
    task.p[n_p - 2], task.p[n_p - 1] = begin, task.ends[piece] - begin
    for a in range(q if order >= 1 else 0):
        before = 0.0 if piece == 0 else sw.end_slopes[(piece - 1) * q + a]
        task.dp[(n_p - 2) * n_columns + a] = before
        task.dp[(n_p - 1) * n_columns + a] = sw.end_slopes[piece * q + a] - before
    n_pairs = q * (q + 1) // 2 if order == 2 else 0
    for pair in range(n_pairs):
        before = 0.0 if piece == 0 else sw.end_bends[(piece - 1) * n_pairs + pair]
        task.d2p[(n_p - 2) * n_pairs + pair] = before
        task.d2p[(n_p - 1) * n_pairs + pair] = sw.end_bends[piece * n_pairs + pair] - before
