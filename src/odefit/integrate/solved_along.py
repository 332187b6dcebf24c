"""Algebraic unknowns along an integration: which of their solutions the next ones begin from.

A method's steps are told when an attempt begins and ends, and when one is taken; what follows is told in
`odefit.native.implicit_solve`.  So the solutions in a step depend on the steps that were taken before it, and not on
attempts that were given up, on output or on derivatives.  Slots of tables have no use for a phase.
"""

from __future__ import annotations

from typing import Any

from odefit.native.implicit_solve import ALONG, ASIDE, BESIDE, GO_ON, IN_STEP, TAKE_BACK
from odefit.native.kernel import kernel
from odefit.native.table_slots import PHASE, REMEMBERED, SLOT


@kernel(inline=True)
def forget_solutions(task):
    """Begin with the guesses: an integration does not depend on the one before."""
    for slot in range(task.slots):
        at = 1 + SLOT * slot
        task.u[at + REMEMBERED], task.u[at + PHASE] = 0.0, ALONG


@kernel(inline=True)
def _end_beginning(task):
    """Let the first attempt in a piece begin with what was kept, whatever was asked for to choose a step size."""
    for slot in range(task.slots):
        at = 1 + SLOT * slot + PHASE
        if task.u[at] != GO_ON:  # then nobody has asked since
            task.u[at] = TAKE_BACK


@kernel(inline=True)
def _begin_attempt(task):
    """Let an attempt behind one that was not taken begin where that one began."""
    for slot in range(task.slots):
        at = 1 + SLOT * slot + PHASE
        if task.u[at] >= ASIDE:
            task.u[at] = TAKE_BACK


@kernel(inline=True)
def _end_differentiation(task):
    """Let output begin where the step ended, whether directions were computed or not."""
    for slot in range(task.slots):
        at = 1 + SLOT * slot + PHASE
        if task.u[at] == BESIDE:
            task.u[at] = ASIDE


@kernel(inline=True)
def _end_attempt(task):
    """Let solutions that others ask for leave no trace, unless nobody asked in the attempt."""
    for slot in range(task.slots):
        at = 1 + SLOT * slot + PHASE
        task.u[at] = ASIDE if task.u[at] == IN_STEP else ALONG


@kernel(inline=True)
def _take_attempt(task):
    """Let the next attempt begin where this one ended."""
    for slot in range(task.slots):
        task.u[1 + SLOT * slot + PHASE] = GO_ON


def noting_solutions(method: Any) -> Any:
    """Return a `Method` (see `odefit.integrate.time_loop`) whose steps note where they are."""
    begin, attempt, advance, differentiate = method.begin, method.attempt, method.advance, method.differentiate

    @kernel(inline=True)
    def begin_noting(task, elimination, room, t, t_end, h, replay):
        status, cause, first = begin(task, elimination, room, t, t_end, h, replay)
        _end_beginning(task)
        return status, cause, first

    @kernel(inline=True)
    def attempt_noting(task, elimination, room, t, h, t_new, t_out, step):
        _begin_attempt(task)
        outcome, ratio, worst = attempt(task, elimination, room, t, h, t_new, t_out, step)
        _end_attempt(task)
        return outcome, ratio, worst

    @kernel(inline=True)
    def differentiate_noting(task, elimination, room, t, h, t_new):
        status, cause, ratio = differentiate(task, elimination, room, t, h, t_new)
        _end_differentiation(task)
        return status, cause, ratio

    @kernel(inline=True)
    def advance_noting(task, room, t, h, t_new, ratio, replay):
        _take_attempt(task)
        return advance(task, room, t, h, t_new, ratio, replay)

    return method._replace(
        begin=begin_noting, attempt=attempt_noting, differentiate=differentiate_noting, advance=advance_noting
    )
