"""Rules that are affine in the parameters, and cannot be met together: found before anything is integrated.

Such rules and the bounds of the parameters are the rows of a linear program without nodes or data, in natural
values: the nearest point to the start values that meets all of them.  Where there is none, the multipliers that prove
it are those of the rules and bounds to be named (see `odefit.solve.quadratic_program`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError
from odefit.problem import Problem
from odefit.problem.constrained import constrained
from odefit.problem.constraints import read_constraints
from odefit.problem.resolution import names_in, resolve_in_experiment, symbol_of
from odefit.problem.slots import Slot
from odefit.solve.quadratic_program import CONTRADICTORY, solve_program

Array = npt.NDArray[np.float64]

_AFFINE = 1e-12  # of what a rule is made of: so near to its linearisation it must be elsewhere
_OPEN_SCALES = ("log", "log10")  # whose values are positive


class _Row(NamedTuple):
    """A rule ``slope * slots + constant``: zero, or at least zero."""

    text: str
    slope: dict[int, float]
    constant: float
    at_least: bool


def check_affine_rules(problem: Problem) -> None:
    """Refuse rules about parameters that contradict each other, or the bounds, whatever the data are."""
    if problem.structure.restrictions:
        problem.kept.get("affine rules", lambda: _check(problem))


def _check(problem: Problem) -> bool:
    rows = _affine_rows(problem)
    used = sorted({index for row in rows for index in row.slope})
    if not used:
        return True
    slots = [problem.slots.slots[index] for index in used]
    start = np.array([problem.starts.get(one.name, one.parameter.start) for one in slots])
    lower, upper = np.array([_least(one) for one in slots]), np.array([one.parameter.upper for one in slots])
    start = np.where(np.isfinite(start), start, 1.0)
    size = np.where(start != 0.0, np.abs(start), 1.0)
    matrix = np.array([[row.slope.get(index, 0.0) for index in used] for row in rows]) * size
    right = -np.array([row.constant for row in rows]) - matrix @ (start / size)
    at_least = np.array([row.at_least for row in rows])
    eye, bounds = np.eye(len(used)), np.concatenate([(lower - start) / size, (start - upper) / size])
    inequality = np.vstack([matrix[at_least], eye, -eye])
    below = np.concatenate([right[at_least], bounds])
    equality_multiplier, pressure = np.zeros(int(np.sum(~at_least))), np.zeros(below.size)
    status, _ = solve_program(
        eye, np.zeros(len(used)), np.ascontiguousarray(matrix[~at_least]), right[~at_least], inequality, below,
        np.zeros(len(used)), equality_multiplier, pressure, np.zeros(below.size, dtype=bool),
    )  # fmt: skip
    if status == CONTRADICTORY:
        multiplier = np.zeros(len(rows))
        multiplier[~at_least], multiplier[at_least] = equality_multiplier, pressure[: int(at_least.sum())]
        named = [f'"{row.text}"' for row, one in zip(rows, multiplier, strict=True) if one != 0.0]
        of_bounds = pressure[int(at_least.sum()) :].reshape(2, -1) > 0.0
        named += [_words_for(one, "lower") for one, felt in zip(slots, of_bounds[0], strict=True) if felt]
        named += [_words_for(one, "upper") for one, felt in zip(slots, of_bounds[1], strict=True) if felt]
        words = ", ".join(dict.fromkeys(named))
        raise ProblemError(f"these rules contradict each other: {words}; change or remove one of them.")
    return True


def _least(slot: Slot) -> float:
    """Return the smallest value of a slot."""
    lower = slot.parameter.lower
    return max(lower, 0.0) if slot.parameter.scale in _OPEN_SCALES else lower


def _words_for(slot: Slot, side: str) -> str:
    """Return a bound in words."""
    value = getattr(slot.parameter, side)
    if not math.isfinite(value):
        return f"the scale '{slot.parameter.scale}' of {slot.name}"
    return f"the bound {slot.name} {'>=' if side == 'lower' else '<='} {value:g}"


def _affine_rows(problem: Problem) -> list[_Row]:
    """Return the rules of parameters that are affine in them."""
    with_rules, read, found = constrained(problem), read_constraints(problem).constraints, []
    assert with_rules is not None
    for row in with_rules.rows:
        if not math.isnan(row.time):
            continue
        one = read[row.constraint]
        affine = _affine(problem, one.expression, row.experiment)
        if affine is not None:
            found.append(_Row(one.constraint.text, *affine, one.constraint.at_least))
    return found


def _affine(problem: Problem, expression: ca.SX, e: int) -> tuple[dict[int, float], float] | None:
    """Return slopes by slot, and the value at zero, of what a rule is made of; None if it is not affine."""
    resolved = ca.SX(resolve_in_experiment(problem, expression, problem.experiments[e], at_start=True))
    of_slot, slots = problem.slots.of_experiment[e], problem.slots.slots
    names = sorted(names_in(resolved))
    if not names or any(name not in of_slot for name in names):
        return None
    free = [name for name in names if not slots[of_slot[name]].parameter.fixed]
    given = [name for name in names if name not in free]
    values = [problem.starts.get(slots[of_slot[n]].name, slots[of_slot[n]].parameter.start) for n in given]
    symbols = ca.vertcat(*(symbol_of(problem, name) for name in free)) if free else ca.SX(0, 1)
    if given:
        old = ca.vertcat(*(symbol_of(problem, name) for name in given))
        resolved = ca.substitute(resolved, old, ca.SX(ca.DM(values)))
    slope = ca.jacobian(resolved, symbols)
    if ca.symvar(slope) or not free:
        return None
    function = ca.Function("rule", [symbols], [resolved, slope])
    constant, slopes = (np.asarray(part, np.float64).ravel() for part in function(np.zeros(len(free))))
    there = np.array([1.37 + 0.61 * i for i in range(len(free))])
    value, terms = float(function(there)[0]), slopes * there
    if not abs(value - constant[0] - terms.sum()) <= _AFFINE * (abs(constant[0]) + np.abs(terms).sum()):
        return None  # one with steps, as floor(k), has a slope of zero
    return {of_slot[name]: float(one) for name, one in zip(free, slopes, strict=True)}, float(constant[0])
