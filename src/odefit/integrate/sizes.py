"""Absolute tolerances that follow the size of each state.

The error of state i in a step is held below ``atol_i + rtol |y_i|``.  One number atol for all states would depend on
their units.

**Unless something else is asked for**, atol_i is the *usual* number, 1e-9, or smaller for states that are small:

- A state that begins at ``|y_i(0)| < 1``, but not at zero: 1e-9 of that value.
- A state that begins at zero, where at all outputs no state at all is above 1e-3, so that amounts are counted in small
  units (a small intermediate among large states needs no such care): the run is repeated with 1e-9 of its largest
  value.
  (Not in implicit methods, see `time_loop`.)  In the first run its error may have been as large as itself, so this may
  happen again.  If the repeated run needs very many steps, rounding errors of larger states are all there is of the
  state, and the usual number is taken after all.

So no tolerance is ever looser than the usual one: large states are merely held more exactly, relative to their size.

**"auto"** is free of all units: ``atol_i`` is a fraction of the *size* of the state where it begins: 1e-9, and 1e-30
where a logarithm or a root of the state is observed (there without being asked for), whose error then stays relative
however small the state becomes.

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

import math
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
USUAL = 0.0
"""The aim of states for which nothing is asked for."""
GAINED = np.nan
"""The aim of integrals over time: what they gain in a step is held exactly, see `stepping.tolerance`."""
PART_OF_GAIN = 1e-3
USUAL_ATOL, PART_OF_RTOL = 1e-9, 1e-2  # the default of rtol is 1e-7
_SMALL = 1e-3  # where all states stay below this, those that begin at zero have tolerances of their own
MOST_REPEATS = 4


def aims_of(
    atol: float | str | Mapping[str, float] | Array | None,
    states: Sequence[str],
    relative: Sequence[bool] | npt.NDArray[np.bool_] = (),
    gained: Sequence[int] | npt.NDArray[np.int64] = (),
) -> Array:
    """Return what is asked for, per state: a tolerance if it is positive, minus a fraction of the state's size, or 0.

    Integrals over time, which may be `gained`, have an aim of their own, whatever is asked for.

    Parameters
    ----------
    atol
        "auto", None (the usual, 0), a number for all states, numbers by name (the others are "auto"), or what this
        function returns.
    relative, gained
        Which states must keep their relative accuracy, see `odefit.compile.edges`, and numbers of the integrals.
    """
    if isinstance(atol, np.ndarray):
        return atol
    if atol is not None and not isinstance(atol, str | Mapping):
        aims = np.full(len(states), float(atol))
    else:
        aims = np.full(len(states), USUAL if atol is None else -FRACTION)
        aims[np.flatnonzero(relative)] = -FRACTION_OF_LOGARITHM
    for name, value in atol.items() if isinstance(atol, Mapping) else ():
        if name not in states:
            raise ProblemError(f"'atol' names '{name}', which is no state{suggestion(name, states)}")
        if value != AUTO:
            aims[states.index(name)] = value
    aims[list(gained)] = GAINED
    return aims


@kernel(inline=True)
def needs_pilot(aims, y0):
    """Tell whether a state whose size is wanted begins at zero."""
    for i in range(aims.size):
        if aims[i] < 0.0 and y0[i] == 0.0:
            return True
    return False


@kernel(inline=True)
def usual_tolerance(rtol):
    """Return the absolute tolerance of states of ordinary size, which is tightened along with `rtol`."""
    return min(USUAL_ATOL, PART_OF_RTOL * rtol)


@kernel(inline=True)
def set_tolerances(aims, rtol, y0, sizes, atol):
    """Set the tolerances; `sizes` are those of states that begin at zero, if a pilot has found them."""
    for i in range(atol.size):
        size = abs(y0[i])
        if aims[i] > 0.0:
            atol[i] = aims[i]
        elif math.isnan(aims[i]):
            atol[i] = -PART_OF_GAIN * usual_tolerance(rtol)
        elif aims[i] == USUAL:
            atol[i] = usual_tolerance(rtol) * (min(1.0, size) if size > 0.0 else 1.0)
        else:
            if size == 0.0 and sizes.size > 0:
                size = sizes[i]
            atol[i] = max(-aims[i] * size, NO_SIZE)


@kernel(inline=True)
def may_be_small(aims, y0):
    """Tell whether a state for which nothing is asked begins at zero, so that its size is not known."""
    for i in range(aims.size):
        if aims[i] == USUAL and y0[i] == 0.0:
            return True
    return False


@kernel(inline=True)
def note_largest(y, largest):
    """Note the largest value of each state at outputs."""
    for i in range(largest.size):
        largest[i] = max(largest[i], abs(y[0, i]))


@kernel(inline=True)
def tighten_small(aims, rtol, y0, largest, atol):
    """Set the tolerances of states that were small beside theirs, if all states were; tell whether there were any."""
    all_small, found = True, False
    for i in range(largest.size):
        all_small = all_small and max(largest[i], abs(y0[i])) < _SMALL
    for i in range(largest.size):
        tolerance = usual_tolerance(rtol) * largest[i]
        if all_small and aims[i] == USUAL and y0[i] == 0.0 and NO_SIZE < tolerance < _SMALL * atol[i]:
            atol[i] = tolerance
            found = True
        largest[i] = 0.0
    return found


@kernel(inline=True)
def begin_pilot(aims, rtol, y0, slopes, sizes, atol):
    """Set the tolerances that a pilot begins with; sizes that are not wanted are 1."""
    set_tolerances(aims, rtol, y0, sizes, atol)
    for i in range(atol.size):
        if aims[i] < 0.0:
            unknown = NO_SIZE if slopes[i] == 0.0 else 2.0 * NO_SIZE
            atol[i] = max(PILOT_RTOL * abs(y0[i]), unknown)
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
