"""``[noise]`` and ``[data] sigma``: the standard deviations of values that have none of their own.

A number is absolute; ``"5 %"`` is of the measured value.  A value with a weight of its own (other than 0
and infinity, which say nothing about its error) gets no sigma from here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError, UnsupportedError, suggestion
from odefit.formats.data_values import Values
from odefit.formats.sections import check_keys, number, text
from odefit.model.names import normal_form

DISTRIBUTIONS = ("normal", "lognormal", "laplace", "student", "poisson", "negbinomial", "binomial")
_KEYS = ("sigma", "distribution", "below", "above", "correlated", "phi", "n", "nu")
_PERCENT = re.compile(r"([^%]*)%")


@dataclass(frozen=True)
class Spread:
    """A standard deviation: absolute, or a fraction of the measured value."""

    size: float
    relative: bool = False


@dataclass(frozen=True)
class Noise:
    """Standard deviations by observable, with one for all others.

    Attributes
    ----------
    default
        For observables that are not in `own`; None if there is none.
    own
        Observable to its standard deviation.
    """

    default: Spread | None = None
    own: Mapping[str, Spread] = field(default_factory=dict)

    @classmethod
    def of(cls, section: Mapping[str, Any], sigma: Any = None) -> Noise:
        """Read ``[noise]``, and ``[data] sigma``, which is short for its default."""
        if sigma is not None and "default" in section:
            raise ProblemError("[data] sigma is short for [noise] default; both are given: keep one.")
        default = None if sigma is None else _spread("[data] sigma", sigma)
        own = {}
        for name, entry in section.items():
            spread = _spread(f"[noise] {name}", entry)
            if name == "default":
                default = spread
            else:
                own[normal_form(name)] = spread
        return cls(default, own)

    def check(self, measured: Iterable[str]) -> None:
        """Refuse an entry for something that is not measured."""
        known = list(dict.fromkeys(measured))
        for name in self.own:
            if name not in known:
                raise ProblemError(
                    f"[noise] has an entry '{name}', but no such values are measured{suggestion(name, known)}"
                )

    def sigmas(self, values: Values) -> npt.NDArray[np.float64]:
        """Return the standard deviations of `values` with those that had none of their own filled in."""
        sigma = values.sigma
        open_ = np.isnan(sigma) & ~(np.isfinite(values.weight) & (values.weight != 0))
        taken = np.zeros(len(sigma), dtype=bool)
        for name, spread in self.own.items():
            chosen = values.observable == name
            taken |= chosen
            sigma = _filled(values, sigma, open_ & chosen, spread)
        return sigma if self.default is None else _filled(values, sigma, open_ & ~taken, self.default)


def _filled(
    values: Values, sigma: npt.NDArray[np.float64], where: npt.NDArray[np.bool_], spread: Spread
) -> npt.NDArray[np.float64]:
    if not spread.relative:
        return np.where(where, spread.size, sigma)
    values.refuse(
        where & (values.value == 0) & np.isnan(values.weight),
        lambda i: f"the value is 0, so its sigma cannot be {100 * spread.size:g} % of it; give it a sigma of its own.",
    )
    with np.errstate(over="ignore"):
        size = spread.size * np.abs(values.value)
    return np.where(where & (values.value != 0), size, sigma)


def _spread(where: str, given: Any) -> Spread:
    if isinstance(given, str):
        return _from_text(where, given)
    if isinstance(given, dict):
        return _from_table(where, given)
    size = number(where, given)
    if not (size > 0 and math.isfinite(size)):
        raise ProblemError(f"{where} is {size:g}; a standard deviation is positive and finite.")
    return Spread(size)


def _from_text(where: str, given: str) -> Spread:
    match = _PERCENT.fullmatch(given.strip())
    if match is None:
        word = given.strip()
        if word in DISTRIBUTIONS:
            raise UnsupportedError(f'the distribution "{word}" in {where}')
        kind = "an estimated sigma" if word == "estimate" else "an expression for sigma"
        raise UnsupportedError(f'{kind} in {where} ("{given}"); give a number or a percentage')
    try:
        percent = float(match.group(1))
    except ValueError:
        raise ProblemError(f'{where} = "{given}" is not a percentage; write "5 %".') from None
    if not (percent > 0 and math.isfinite(percent)):
        raise ProblemError(f'{where} = "{given}": a standard deviation is positive and finite.')
    return Spread(percent / 100, relative=True)


def _from_table(where: str, given: dict[str, Any]) -> Spread:
    check_keys(where, given, _KEYS)
    spread = None
    for key, value in given.items():
        if key == "sigma":
            if isinstance(value, dict):
                raise ProblemError(f"{where} sigma must be a number or a percentage, not a table.")
            spread = _spread(where, value)
        elif key != "distribution":
            raise UnsupportedError(f"'{key}' in {where}")
        elif text(f"{where} distribution", value) != "normal":
            raise UnsupportedError(f'the distribution "{value}" in {where}')
    if spread is None:
        raise ProblemError(f"{where} has no sigma; write sigma = 0.1, or the number alone.")
    return spread
