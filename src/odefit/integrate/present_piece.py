"""The piece that a method is in: its inputs and, with moving ends, its start and length, which are entries of p."""

from __future__ import annotations

from odefit.native.kernel import kernel
from odefit.native.table_slots import MIDDLE


@kernel(inline=True)
def time_in_task(task, t):
    """Return the time that a method calls `t` in the present piece: with moving ends, the fraction of it."""
    if task.moving != 0 and task.ends.size > 0 and task.n > 0:
        return task.p[task.n_parameters - 2] + task.p[task.n_parameters - 1] * t
    return t


@kernel(inline=True)
def mark_piece(task, order):
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
def enter_piece(task, sw, n_late, piece, order):
    """Set the inputs of a piece and, with moving ends, its start and length and their seeds.

    The last `n_late` inputs are those of conditions on states, which are not known yet.
    """
    begin, n_u = task.start if piece == 0 else task.ends[piece - 1], sw.kind.size
    if task.slots > 0:
        task.u[MIDDLE] = begin + 0.5 * (task.ends[piece] - begin)
    first = task.u.size - n_u - n_late  # behind tables
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
