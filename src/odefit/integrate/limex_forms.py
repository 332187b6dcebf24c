"""The parts of a small step of `limex` that depend on the form of the equations.

A `Form` is what the rows (`odefit.integrate.limex_rows`) are built around, before anything is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from odefit.integrate.ddm_newton import leave_out_nonfinite
from odefit.integrate.directions import place_of, slopes_of
from odefit.integrate.limex_room import BEGINNING
from odefit.integrate.stepping import JACOBIAN, RHS, SECOND
from odefit.native.calls import call_model, call_second
from odefit.native.finite import all_finite
from odefit.native.kernel import kernel
from odefit.native.linear_systems import factorise_matrix


class Form(NamedTuple):
    """The four kernels in which forms of equations differ.

    Attributes
    ----------
    linearise(task, e, room, t)
        Compute what the matrices of all rows are made of, at the beginning of a step.
    factorise(task, e, room, shift, a, pivots)
        Factorise the matrix of a row whose small steps are 1/`shift` long; return how it went, as `factorise_matrix`
        does.
    right_hand(task, e, room, t, at)
        Set ``room.f[0]`` to the right-hand side of the small step to `t` from ``room.stage[0]``, whose increment will
        stand in ``room.d[at]``.
    right_hand_directions(task, e, room, t, at)
        Set ``room.ds[at]`` to the derivatives of this right-hand side and of the matrix times ``room.d[at]``, which is
        subtracted; states and directions stand in ``room.stage`` and ``room.z``.
    """

    linearise: Callable[..., Any]
    factorise: Callable[..., Any]
    right_hand: Callable[..., Any]
    right_hand_directions: Callable[..., Any]


@kernel(inline=True)
def _linearise(task, e, room, t):
    call_model(task.jacobian, t, room.y, 0, task.p, task.u, room.jac, 0)
    task.counts[JACOBIAN] += 1
    if not all_finite(room.jac):
        leave_out_nonfinite(room.jac)


@kernel(inline=True)
def _factorise(task, e, room, shift, a, pivots):
    return factorise_matrix(e, room.jac, shift, task.n, a, pivots, room.work, e.limit)


@kernel(inline=True)
def _right_hand(task, e, room, t, at):
    call_model(task.value, t, room.stage, 0, task.p, task.u, room.f, 0)
    task.counts[RHS] += 1


@kernel(inline=True)
def _right_hand_directions(task, e, room, t, at):
    n, q, t0 = task.n, room.along.shape[0], room.memory[BEGINNING]
    slopes_of(task, t, room.stage, 0, room.z, room.seeds, room.ds, at)
    for i in range(n):
        room.across[i] = room.d[at, i]
    for c in range(q):
        call_second(task.second, t0, room.y, 0, task.p, task.u, room.along[c], room.across, room.bend, 0)
        for i in range(n):
            room.ds[at, place_of(c, i, n)] += room.bend[i]
    task.counts[JACOBIAN] += 1
    task.counts[SECOND] += q


EXPLICIT = Form(_linearise, _factorise, _right_hand, _right_hand_directions)
"""y' = f(t, y, p)."""
