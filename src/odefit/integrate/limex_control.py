"""Orders and step sizes of `limex`: the least work for a unit of time.

P. Deuflhard, Numer. Math. 41 (1983) 399-422, in the form that E. Hairer and G. Wanner give it (Solving Ordinary
Differential Equations II, IV.9).  The error of row j, T_jj - T_j,j-1, goes with H^j.  So the row allows the step
H_j = H 0.93 (0.6/error)^(1/j), and needs the work W_j = A_j/H_j for a unit of time, where A_j is what the rows 1..j
cost.  A step aims at the order k, and may be accepted at k - 1, k or k + 1, or be given up at k - 1 or k where rows of
higher order will not bring the error down.  The next one aims at the order with the least work.

A factorisation costs `Elimination.patience` solutions; a call of the model is counted as one.  Sensitivities are not
counted: steps shall not depend on whether they are asked for.
"""

from __future__ import annotations

import math

from odefit.integrate.extrapolation import MOST_ROWS
from odefit.integrate.limex_room import ASKED, REJECTED, ROWS, TARGET, TRIED
from odefit.native.kernel import kernel

_COST_OF_DERIVATIVES = 2.0
_SAFETY, _PART, _SHRINK, _GROW = 0.93, 0.6, 0.25, 10.0
_WORTH_LESS, _WORTH_MORE = 0.7, 0.9  # work at the next lower and higher order, from which it is aimed at
_FEWEST = 2


@kernel(inline=True)
def set_costs(e, costs):
    """Set what the rows up to each cost."""
    costs[0] = _COST_OF_DERIVATIVES
    for j in range(1, MOST_ROWS + 1):
        costs[j] = costs[j - 1] + e.patience + 2.0 * j


@kernel(inline=True)
def first_target(rtol):
    """Return the order that is aimed at first."""
    return max(_FEWEST, min(MOST_ROWS - 1, int(1.5 - 0.6 * math.log10(max(rtol, 1e-15)))))


@kernel(inline=True)
def allowed_size(error, j):
    """Return the step size that the error of row `j` over tolerance allows, relative to the present one."""
    slowest = _GROW ** (1.0 / j)
    return min(slowest, max(_SHRINK / slowest, _SAFETY * (_PART / max(error, 1e-30)) ** (1.0 / j)))


@kernel(inline=True)
def _work(room, j):
    return room.costs[j] / room.sizes[j]


@kernel(inline=True)
def is_hopeless(j, target, error, before, lenient):
    """Tell whether rows behind `j` will not bring the error down; `before` is that of the row before."""
    if j > _FEWEST and error > max(4.0 * before, 1.0):
        return True
    if j == target - 1 and not lenient:
        return error > 4.0 * (j + 1.0) * (j + 2.0)
    return j == target and error > 2.0 * (j + 1.0)


@kernel(inline=True)
def retry_step(room, finite):
    """Return by how much to shorten a step that was rejected, and aim at the order that suits it."""
    state, factor = room.state, 0.25
    if finite:
        k = min(state[TARGET], state[ROWS])
        if k > _FEWEST and _work(room, k - 1) < _WORTH_LESS * _work(room, k):
            k -= 1
        state[TARGET], factor = max(_FEWEST, k), min(0.9, room.sizes[k])
    else:
        state[TARGET] = max(_FEWEST, state[TARGET] - 1)
    state[REJECTED] = 1
    room.memory[ASKED] = room.memory[TRIED] * factor
    return factor


@kernel(inline=True)
def _best_order(room, used, target):
    """Return the order to aim at behind a step that was accepted at the order `used`."""
    if used == _FEWEST:
        return 3 if room.state[REJECTED] == 0 else _FEWEST
    best = used
    if used <= target:
        if _work(room, used - 1) < _WORTH_LESS * _work(room, used):
            best = used - 1
        elif _work(room, used) < _WORTH_MORE * _work(room, used - 1):
            best = min(used + 1, MOST_ROWS - 1)
        return best
    best = used - 1
    if used > 3 and _work(room, used - 2) < _WORTH_LESS * _work(room, used - 1):
        best = used - 2
    if _work(room, used) < _WORTH_MORE * _work(room, best):
        best = min(used, MOST_ROWS - 1)
    return best


@kernel(inline=True)
def next_step(room, h):
    """Return the factor of the next step size behind a step that was accepted, and aim at its order."""
    state, sizes, costs = room.state, room.sizes, room.costs
    used, target = state[ROWS], state[TARGET]
    if h < 0.99 * room.memory[ASKED] < math.inf:  # cut short: this tells nothing of the order
        return sizes[used]
    best = _best_order(room, used, target)
    if state[REJECTED] != 0:
        best = min(best, used)
        factor = min(1.0, sizes[best])
    elif best <= used:
        factor = sizes[best]
    elif used < target and _work(room, used) < _WORTH_MORE * _work(room, used - 1):
        factor = sizes[used] * costs[min(best + 1, MOST_ROWS)] / costs[used]
    else:
        factor = sizes[used] * costs[best] / costs[used]
    state[TARGET], state[REJECTED] = best, 0
    room.memory[ASKED] = h * factor
    return factor
