"""What a loop over time hands to its sink: states and directions at the output times, in their order.

An output at the time of an event means the state before it, unless it is marked (`Task.after`): then it waits for the
piece behind, or for the end.
"""

from __future__ import annotations

from typing import Any

from odefit.integrate.contract import Status
from odefit.integrate.gathering import follower, look_once, relate
from odefit.integrate.moving_output import directions_at_fixed_time, fraction_of_time
from odefit.integrate.sizes import note_largest
from odefit.integrate.task import call_sink, elimination_at, task_at
from odefit.native.kernel import kernel

_OK = int(Status.OK)


@kernel(inline=True)
def _is_initial(task, index, t):
    """Tell whether an output is at the beginning, and means the state before what happens there."""
    if task.n == 0:
        return True
    return task.times[index] <= t and (task.after.size == 0 or task.after[index] == 0)


@kernel(inline=True)
def write_initial(table, i, task, room, t, next_time, gathering, scratch):
    """Hand over what is wanted at the beginning, and tell which output is next."""
    if gathering[0] and next_time < task.times.size:
        look_once(table, i, room, scratch, t)
    while next_time < task.times.size and _is_initial(task, next_time, t):
        if gathering[0]:
            relate(table, i, room, scratch, next_time)
        call_sink(task.sink, (table, i, next_time, room.y_out, room.s_out, room.s2_out))
        next_time += 1
    return next_time


@kernel(inline=True)
def _waits(task, index, piece):
    """Tell whether an output means the state behind what happens at the end of a piece."""
    return task.after.size > 0 and task.after[index] != 0 and task.times[index] >= task.ends[piece]


def output_at_ends(method: Any) -> tuple[Any, Any, Any]:
    """Return the kernels for what is handed over where the loop over time begins and ends.

    The first one is called before all pieces, the second one where a piece begins, and the third one behind all of
    them, for what waits for the last event.  These are told `at`: time, whether it is the start, status and what to
    blame.  All return status, what to blame and which output is next.  States of equations in several derivatives are
    handed over once they are consistent: this needs what holds in the piece.
    """
    current, consistent = method.current, method.consistent

    @kernel(inline=True, allocating=True)
    def show(room):
        """Put the states where the method stands in the place of output."""
        y, s, s2, row = current(room)
        for j in range(room.y_out.shape[1]):
            room.y_out[0, j] = y[row, j]
        for j in range(room.s_out.shape[1]):
            room.s_out[0, j] = s[row, j]
        for j in range(room.s2_out.shape[1]):
            room.s2_out[0, j] = s2[row, j]

    @kernel(inline=True)
    def write_all(table, i, task, room, next_time, gathering, scratch):
        if next_time < task.times.size:
            show(room)
            if gathering[0]:
                look_once(table, i, room, scratch, task.times[next_time])
        while next_time < task.times.size:
            if gathering[0]:
                relate(table, i, room, scratch, next_time)
            call_sink(task.sink, (table, i, next_time, room.y_out, room.s_out, room.s2_out))
            next_time += 1
        return next_time

    if consistent is None:

        @kernel(inline=True)
        def begin_output(table, i, room, next_time, gathering, scratch):
            task = task_at(table, i)
            return _OK, -1, write_initial(table, i, task, room, task.start, next_time, gathering, scratch)

        @kernel(inline=True)
        def open_piece(table, i, room, at, next_time, gathering, scratch):
            return at[2], at[3], next_time

        @kernel(inline=True)
        def write_rest(table, i, room, at, next_time, gathering, scratch):
            return at[2], at[3], write_all(table, i, task_at(table, i), room, next_time, gathering, scratch)

        return begin_output, open_piece, write_rest

    @kernel(inline=True)
    def begin_output(table, i, room, next_time, gathering, scratch):
        task, elimination, status, cause = task_at(table, i), elimination_at(table, i), _OK, -1
        if task.ends.size == 0:  # there is no piece
            status, cause = consistent(task, elimination, room, task.start)
            if status == _OK:
                show(room)
                next_time = write_initial(table, i, task, room, task.start, next_time, gathering, scratch)
        return status, cause, next_time

    @kernel(inline=True)
    def open_piece(table, i, room, at, next_time, gathering, scratch):
        (_, is_start, status, cause), task = at, task_at(table, i)
        if status == _OK and is_start:
            show(room)
            next_time = write_initial(table, i, task, room, task.start, next_time, gathering, scratch)
        return status, cause, next_time

    @kernel(inline=True)
    def write_rest(table, i, room, at, next_time, gathering, scratch):
        (t, _, status, cause), task, elimination = at, task_at(table, i), elimination_at(table, i)
        if next_time < task.times.size:
            status, blamed = consistent(task, elimination, room, t)
            if status != _OK:
                return status, blamed, next_time
        return status, cause, write_all(table, i, task, room, next_time, gathering, scratch)

    return begin_output, open_piece, write_rest


def output_within_steps(name: str, interpolate: Any) -> Any:
    """Return the kernel that hands what is wanted in a step, `until` a time, to the sink, and tells which is next."""
    at_fixed_time = directions_at_fixed_time(name, interpolate)
    follow = follower(name, interpolate, at_fixed_time)

    @kernel(inline=True)
    def write_outputs(table, i, task, room, step, next_time, piece, gathering, scratch, largest):
        (t, h, t_new, until), times = step, task.times
        begin, watches = t, gathering[1] and next_time < times.size
        while next_time < times.size:
            time = times[next_time]
            if _waits(task, next_time, piece):
                break
            if task.moving != 0:
                time = fraction_of_time(task, time, piece)
            if not time <= until:
                break
            if watches:
                follow(table, i, room, t, h, t_new, begin, time, scratch)
                begin = time
            if task.moving != 0 and room.s_out.shape[1] > 0:
                at_fixed_time(task, room, t, h, t_new, time, scratch)
            else:
                interpolate(task, room, t, h, t_new, time, 0)
            if gathering[0]:
                relate(table, i, room, scratch, next_time)
            call_sink(task.sink, (table, i, next_time, room.y_out, room.s_out, room.s2_out))
            note_largest(room.y_out, largest)
            next_time += 1
        if watches:
            follow(table, i, room, t, h, t_new, begin, until, scratch)
        return next_time

    return write_outputs
