"""Absolute tolerances that follow the size of each state.

The error of state i in a step is held below ``atol_i + rtol |y_i|``.  One number atol for all states would depend on
their units.  Unless it is given, ``atol_i`` is a fraction of the *size* M_i of the state, the largest ``|y_i|`` along
the solution: 1e-9, and 1e-30 where a logarithm or a root of the state is observed, whose error then stays relative
however small the state becomes.

M_i is not known beforehand, and where ``y_i(0) = 0`` not even its order of magnitude is.  To hold the error relative to
what the state has reached so far does not do: what grows like t^m from zero has, in a method of an order below m, an
error as large as itself however short the step.  So a *pilot* goes ahead: the same method, without sensitivities and
output, at rtol 1e-3 and with tolerances that grow along with the states.  For a state that leaves zero, what the
rejected attempts reached counts as its size, so that steps cannot shrink to nothing.  Such an attempt may have reached
far too much; then the pilot is repeated with the sizes that the accepted steps show.

A pilot that fails, or takes too many steps, has seen a part of the solution; sizes too small are safe, since
tolerances are then too strict.  A state whose size is zero has not moved; should it do so in the real run after all,
attempts count there, too.

Everything is a product of states with numbers that have no unit: in other units (factors that are powers of two) the
same steps result, to the last bit.  Tolerances are kept with the grid: a replay measures its error by the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError, suggestion
from odefit.integrate.stepping import NO_SIZE
from odefit.native.kernel import kernel

Array = npt.NDArray[np.float64]

AUTO = "auto"
FRACTION, FRACTION_OF_LOGARITHM = 1e-9, 1e-30
"""Of the size of a state, that is its absolute tolerance; where its logarithm or a root of it is observed."""
PILOT_RTOL, PILOT_STEPS, MOST_PILOTS = 1e-3, 1000, 4
_FAR_TOO_MUCH = 10.0  # times its size, that attempts made of a state


def aims_of(
    atol: float | str | Mapping[str, float] | Array,
    states: Sequence[str],
    relative: Sequence[bool] | npt.NDArray[np.bool_] = (),
) -> Array:
    """Return what is asked for, per state: a tolerance if it is positive, else minus a fraction of the state's size.

    Parameters
    ----------
    atol
        "auto", a number for all states, numbers by name (the others are "auto"), or what this function returns.
    relative
        Which states must keep their relative accuracy, see `odefit.compile.edges`.
    """
    if isinstance(atol, np.ndarray):
        return atol
    if not isinstance(atol, str | Mapping):
        return np.full(len(states), float(atol))
    aims = np.full(len(states), -FRACTION)
    aims[np.flatnonzero(relative)] = -FRACTION_OF_LOGARITHM
    for name, value in atol.items() if isinstance(atol, Mapping) else ():
        if name not in states:
            raise ProblemError(f"'atol' names '{name}', which is no state{suggestion(name, states)}")
        if value != AUTO:
            aims[states.index(name)] = value
    return aims


def weighted_tolerance(atol: float | str | Mapping[str, float], norm: float, root: float) -> float:
    """Return the absolute tolerance of weighted values: `norm` is theirs, `root` that of the roots of their weights."""
    if not isinstance(atol, str | Mapping):
        return atol * root
    given = [value for value in atol.values() if value != AUTO] if isinstance(atol, Mapping) else []
    return FRACTION * norm + max(given, default=0.0) * root


@kernel(inline=True)
def any_automatic(aims):
    """Tell whether a tolerance follows the size of its state."""
    for i in range(aims.size):
        if aims[i] < 0.0:
            return True
    return False


@kernel(inline=True)
def set_tolerances(aims, sizes, atol):
    """Set the tolerances of states of these sizes."""
    for i in range(atol.size):
        atol[i] = aims[i] if aims[i] > 0.0 else max(-aims[i] * sizes[i], NO_SIZE)


@kernel(inline=True)
def begin_pilot(aims, y0, sizes, atol):
    """Set the tolerances that a pilot begins with: those of the sizes known so far."""
    for i in range(atol.size):
        atol[i] = aims[i] if aims[i] > 0.0 else max(PILOT_RTOL * max(sizes[i], abs(y0[i])), NO_SIZE)
        sizes[i] = abs(y0[i])


@kernel(inline=True)
def note_accepted(aims, y, sizes, atol):
    """Let sizes and tolerances of a pilot grow to those of a new point."""
    for i in range(atol.size):
        sizes[i] = max(sizes[i], abs(y[0, i]))
        if aims[i] < 0.0:
            atol[i] = max(atol[i], PILOT_RTOL * sizes[i])


@kernel(inline=True)
def note_rejected(aims, y, atol, pilot):
    """Let what was reached in vain count as the size of states that have none."""
    for i in range(atol.size):
        if aims[i] < 0.0 and atol[i] <= NO_SIZE and abs(y[0, i]) < np.inf:
            atol[i] = max((PILOT_RTOL if pilot else -aims[i]) * abs(y[0, i]), NO_SIZE)


@kernel(inline=True)
def any_without_size(aims, atol):
    """Tell whether a state has not left zero, so that its tolerance is not known."""
    for i in range(atol.size):
        if aims[i] < 0.0 and atol[i] <= NO_SIZE:
            return True
    return False


@kernel(inline=True)
def pilot_misled(aims, sizes, atol):
    """Tell whether a tolerance of a pilot was far above that of the size that its state has."""
    for i in range(atol.size):
        if aims[i] < 0.0 and sizes[i] > 0.0 and atol[i] > _FAR_TOO_MUCH * PILOT_RTOL * sizes[i]:
            return True
    return False
