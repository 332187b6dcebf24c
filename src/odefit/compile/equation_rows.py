"""Equations in several derivatives as one function ``G(t, (y, y'), p, u) = f - B y'``.

A model with `Model.mass` is compiled as what must be zero, a function of states and rates: linear in the rates, with
their coefficients B(t, y, p), which may be singular.  Rows without rates are *algebraic*.  In a piece with moving ends
(see `odefit.compile.switches`), where x is the fraction of it and L its length, ``dy/dx = L y'`` is the rate, and

    L f - B dy/dx = 0  (rows with rates),    f = 0  (algebraic rows),

which has a meaning for pieces of length zero, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import casadi as ca
import numpy as np
import numpy.typing as npt

from odefit.model import Model


def algebraic_rows(model: Model) -> npt.NDArray[np.int64]:
    """Return 1 for each equation without a derivative; empty for a model of the form ``y' = f``."""
    if not model.mass:
        return np.empty(0, np.int64)
    return np.array([name in model.mass and not model.mass[name] for name in model.states], dtype=np.int64)


def words_of_rows(model: Model) -> tuple[str, ...]:
    """Return the words for each equation, text and line, or the state whose derivative it gives; see `algebraic_rows`.

    Empty for a model of the form ``y' = f``.
    """
    if not model.mass:
        return ()
    return tuple(model.written.get(name, f"that of {name}'") for name in model.states)


def balance(model: Model, f: Any, coefficients: Any, rates: Any, length: Any = 1) -> Any:
    """Return G from right sides, coefficients in the order of `Model.coefficients`, and rates, all of them columns."""
    place = {name: k for k, name in enumerate(model.states)}
    given, rows = iter(coefficients.elements()), []
    for k, name in enumerate(model.states):
        if name not in model.mass:
            rows.append(length * f[k] - rates[k])
        elif not model.mass[name]:
            rows.append(f[k])
        else:
            left = [next(given) * rates[place[other]] for other in model.mass[name]]
            rows.append(length * f[k] - _sum(left))
    return ca.vertcat(*rows)


def _sum(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
