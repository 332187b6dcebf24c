"""Absolute tolerances that follow the size of each state.

The error of state i in a step is held below ``atol_i + rtol |y_i|``.  One number atol for all states would depend on
their units.  Unless it is given, ``atol_i`` is a fraction of the *size* of the state where it begins: 1e-9, and 1e-30
where a logarithm or a root of the state is observed, whose error then stays relative however small the state becomes.

The size is ``|y_i(0)|``, not the largest value along the solution: of what grows by many decades, an error that is
small beside its end may be large beside its beginning, and grows along with it.

Where ``y_i(0) = 0``, the size is what the state has after its first step.  To hold the error of that very step
relative to it does not do: what grows like t^m from zero has, in a method of an order below m, an error as large as
itself however short the step.  So a *pilot* goes ahead: the same method at rtol 1e-3, without sensitivities and output,
until all states have left zero.  In it, what the first rejected attempt reached counts as the size of a state
that has not left zero, so that steps cannot shrink to nothing; but not of a state whose slope is not zero, which
needs no such help, and may reach anything in a step that is too long for it.

A state that has not left zero when the pilot ends may do so in the real run; there, too, a rejected attempt counts.

Everything is a product of states with numbers that have no unit: with states in other units (factors that are powers of
two) the same steps result, to the last bit.  Tolerances are kept with the grid: a replay measures its error by the same
ones.
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
PILOT_RTOL, PILOT_STEPS = 1e-3, 200


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


@kernel(inline=True)
def needs_pilot(aims, y0):
    """Tell whether a state whose size is wanted begins at zero."""
    for i in range(aims.size):
        if aims[i] < 0.0 and y0[i] == 0.0:
            return True
    return False


@kernel(inline=True)
def set_tolerances(aims, y0, sizes, atol):
    """Set the tolerances; `sizes` are those of states that begin at zero, if a pilot has found them."""
    for i in range(atol.size):
        size = abs(y0[i])
        if size == 0.0 and sizes.size > 0:
            size = sizes[i]
        atol[i] = aims[i] if aims[i] > 0.0 else max(-aims[i] * size, NO_SIZE)


@kernel(inline=True)
def begin_pilot(aims, y0, slopes, sizes, atol):
    """Set the tolerances that a pilot begins with; sizes that are not wanted are 1."""
    for i in range(atol.size):
        unknown = NO_SIZE if slopes[i] == 0.0 else 2.0 * NO_SIZE
        atol[i] = aims[i] if aims[i] > 0.0 else max(PILOT_RTOL * abs(y0[i]), unknown)
        sizes[i] = abs(y0[i]) if aims[i] < 0.0 else 1.0


@kernel(inline=True)
def note_accepted(aims, y, sizes, atol):
    """Note the sizes of states that have left zero; let the tolerances of a pilot grow to those of a new point."""
    for i in range(atol.size):
        if sizes[i] == 0.0:
            sizes[i] = abs(y[0, i])
        if aims[i] < 0.0:
            atol[i] = max(atol[i], PILOT_RTOL * abs(y[0, i]))


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
def is_complete(sizes):
    """Tell whether a pilot has found all sizes; the real run looks for none."""
    for i in range(sizes.size):
        if sizes[i] == 0.0:
            return False
    return sizes.size > 0
