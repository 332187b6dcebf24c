"""Where the solution crosses a border within a step, found on the method's own interpolant P.

Along a step, g(t, P(t)) is watched at its ends and in the middle, with its slope.  Where the cubic through two points
with these slopes may leave the region, the stretch is looked at more closely, in `_FINE` parts: a part at whose end g
is beyond the border has a crossing; so may one in which g turns around, which is decided at the turning point.  The
crossing is then found by Newton's method with bisection.  What is missed is g going there and back between two of the
points in a way that values and slopes at both do not show.

The earliest crossing counts; of several at one time (to rounding), the border that comes first in the text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from odefit.compile.border_functions import EVENTS
from odefit.integrate.borders import sets_off
from odefit.integrate.course import DIRECTION, bound_of, course_of, remember_regions
from odefit.integrate.task import bordering_at, task_at
from odefit.native.calls import call_model
from odefit.native.kernel import kernel, named

_COARSE, _FINE = 2, 8
_HALVINGS, _BISECTIONS = 60, 100
_SAME = 1e-13  # of a step: crossings that are no further apart are at one time
_ROUNDING = 4.0 * float(np.finfo(float).eps)  # of a time
_SMALL, _MOST_STALLED = 1e-8, 2  # corrections below this part of a step that shrink no more are rounding of the border
_MOST_SILENT = 1000
ENDLESS = -2
"""In place of a border: this less its number, if it is crossed to and fro without end within a step."""


@kernel(inline=True)
def _beyond(c, j, g):
    """Return where to `g` has left the region of border `j`: 1 up, -1 down, 0 nowhere."""
    g -= c.shift[j]
    if g > c.upper[j] + c.ignored[j]:
        return 1.0
    return -1.0 if g < c.lower[j] - c.ignored[j] else 0.0


@kernel(inline=True)
def _may_leave(c, j, width, left, right, nb):
    """Return where to the cubic between two points may leave the region of border `j`, judged by its control points."""
    end = _beyond(c, j, c.points[right + j])
    if end != 0.0:
        return end
    first = _beyond(c, j, c.points[left + j] + width * c.points[left + nb + j] / 3.0)
    return first if first != 0.0 else _beyond(c, j, c.points[right + j] - width * c.points[right + nb + j] / 3.0)


@kernel(inline=True)
def _just_leaves(c, j, direction, left, right, nb):
    """Tell whether border `j` goes outward at both points, and is beyond at the second."""
    outward = direction * c.points[left + nb + j] > 0.0 and direction * c.points[right + nb + j] > 0.0
    return outward and _beyond(c, j, c.points[right + j]) == direction


@kernel(inline=True)
def _keep_point(c, at):
    for k in range(c.values.size):
        c.points[at + k] = c.values[k]


def _looker(name: str, peek: Any) -> Any:
    """Return the kernel that computes borders and their slopes somewhere in a step."""

    @kernel
    @named(f"{name}_borders_at")
    def look(table, i, room, t, h, t_new, x, order, pool):
        """Compute borders and their slopes, by the method's time, at `x`."""
        task, b = task_at(table, i), bordering_at(table, i)
        c, n, length = course_of(task, b, order, pool), task.n, task.p[task.n_parameters - 1]
        peek(task, room, t, h, t_new, x, 1)
        for k in range(n):
            c.work[1 + n + k] = room.y_out[0, k] / length if length > 0.0 else 0.0
        peek(task, room, t, h, t_new, x, 0)
        for k in range(n):
            c.work[1 + k] = room.y_out[0, k]
        c.work[0] = task.p[task.n_parameters - 2] + length * x
        call_model(b.value, 0.0, c.work, 0, task.p, task.u, c.values, 0)
        for j in range(b.level.size):
            c.values[b.level.size + j] *= length
        return 0

    return look


def _finders(name: str, look: Any) -> tuple[Any, Any]:
    """Return the kernels that find where a border turns around, and where it is crossed."""

    @kernel
    @named(f"{name}_turn")
    def turn(table, i, room, t, h, t_new, order, pool, j, a, b, direction):
        """Return where the slope of border `j`, outward at `a` and inward at `b`, changes its sign."""
        task, record = task_at(table, i), bordering_at(table, i)
        c, nb = course_of(task, record, order, pool), record.level.size
        for _ in range(_HALVINGS):
            x = a + 0.5 * (b - a)
            if not a < x < b:
                break
            look(table, i, room, t, h, t_new, x, order, pool)
            if _beyond(c, j, c.values[j]) == direction:
                return x
            if direction * c.values[nb + j] > 0.0:
                a = x
            else:
                b = x
        return a

    @kernel
    @named(f"{name}_place")
    def place(table, i, room, t, h, t_new, order, pool, j, a, b, direction):
        """Return where border `j` is crossed between `a` and `b`, where it is beyond."""
        task, record = task_at(table, i), bordering_at(table, i)
        c, nb = course_of(task, record, order, pool), record.level.size
        bound = bound_of(c, j, direction) + c.shift[j]
        look(table, i, room, t, h, t_new, a, order, pool)
        if c.ignored[j] > 0.0 and direction * (c.values[j] - bound) > 0.0:
            b, a = a, t  # it was beyond before, but not by so much that it counted
            look(table, i, room, t, h, t_new, a, order, pool)
        if direction * (c.values[j] - bound) >= 0.0:
            if direction * c.values[nb + j] >= 0.0:
                return a  # it leaves at once
            width, inside = b - a, False
            for _ in range(_HALVINGS):  # it goes inward first: look for a point there
                width *= 0.5
                look(table, i, room, t, h, t_new, a + width, order, pool)
                inside = direction * (c.values[j] - bound) < 0.0
                if inside:
                    break
            if not inside:
                return a
            a += width
        x, smallest, stalled = b, np.inf, 0
        for _ in range(_BISECTIONS):
            look(table, i, room, t, h, t_new, x, order, pool)
            miss, slope = direction * (c.values[j] - bound), direction * c.values[nb + j]
            if miss == 0.0:
                break
            if miss > 0.0:
                b = x
            else:
                a = x
            correction = miss / slope if slope != 0.0 else np.nan
            stalled += 1 if abs(correction) > 0.5 * smallest and smallest < _SMALL * (t_new - t) else 0
            if abs(correction) <= _ROUNDING * abs(x) or stalled == _MOST_STALLED:
                break
            smallest = min(smallest, abs(correction))
            new = x - correction
            if not a < new < b:
                new = a + 0.5 * (b - a)
            if not a < new < b:
                break
            x = new
        return x

    return turn, place


def crosser(name: str, peek: Any) -> Any:
    """Return the kernel ``cross(table, i, room, t, h, t_new, order, pool)`` that looks for a crossing in a step.

    It returns the border (-1: none is crossed) and the place, in the method's time.
    """
    look = _looker(name, peek)
    turn, place = _finders(name, look)

    @kernel
    @named(f"{name}_first_crossing")
    def first_crossing(table, i, room, t, h, t_new, order, pool, a, b, parts):
        """Return the border that is crossed first between `a` and `b`, the place, and the direction.

        The stretch is divided into equal parts; with more than a few of them crossings are found, else only where a
        border just leaves, and -2 tells in its place that there may be one, in the part that begins at the place.
        """
        task, record = task_at(table, i), bordering_at(table, i)
        c, nb = course_of(task, record, order, pool), record.level.size
        found, best, way = -1, b, 0.0
        look(table, i, room, t, h, t_new, a, order, pool)
        left, right = 0, 2 * nb
        _keep_point(c, left)
        for part in range(parts):
            x0 = a + (b - a) * (part / parts)
            x1 = b if part == parts - 1 else a + (b - a) * ((part + 1) / parts)
            look(table, i, room, t, h, t_new, x1, order, pool)
            _keep_point(c, right)
            for j in range(nb):
                direction = _may_leave(c, j, x1 - x0, left, right, nb)
                if direction == 0.0:
                    continue
                if parts < _FINE and not _just_leaves(c, j, direction, left, right, nb):
                    return -2, x0, 0.0
                x = x1
                if _beyond(c, j, c.points[right + j]) == 0.0:
                    if not (direction * c.points[left + nb + j] > 0.0 and direction * c.points[right + nb + j] < 0.0):
                        continue
                    x = turn(table, i, room, t, h, t_new, order, pool, j, x0, x1, direction)
                    look(table, i, room, t, h, t_new, x, order, pool)
                    if _beyond(c, j, c.values[j]) != direction:
                        continue
                x = place(table, i, room, t, h, t_new, order, pool, j, x0, x, direction)
                if found < 0 or x < best - _SAME * (t_new - t):
                    found, best, way = j, x, direction
            if found >= 0:
                return found, best, way
            left, right = right, left
        return -1, b, 0.0

    @kernel
    @named(f"{name}_cross")
    def cross(table, i, room, t, h, t_new, order, pool):
        task, b = task_at(table, i), bordering_at(table, i)
        if b.level.size == 0:
            return -1, t_new
        c, a, found = course_of(task, b, order, pool), t, np.int64(-1)
        remember_regions(c)
        for _ in range(_MOST_SILENT):
            found, x, way = first_crossing(table, i, room, t, h, t_new, order, pool, a, t_new, np.int64(_COARSE))
            while found == -2:
                half = a + 0.5 * (t_new - a)
                end = half if x < half else t_new
                found, x, way = first_crossing(table, i, room, t, h, t_new, order, pool, x, end, np.int64(_FINE))
                if found < 0 and end < t_new:
                    found, x = -2, half
            if found < 0:
                return -1, t_new
            if b.role[found] == EVENTS:
                look(table, i, room, t, h, t_new, x, order, pool)
                if not sets_off(table, i, order, found, way, pool):
                    a = x
                    continue
            c.memory[DIRECTION] = way
            return found, x
        return ENDLESS - found, t

    return cross
