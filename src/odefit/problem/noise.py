"""Noise: how exact the data of an observable are.

``sigma`` is a standard deviation: a number is absolute, ``"5 %"`` is of the measured value, other text is an
expression of the time and of what is known before a fit (``"0.02 + 0.01*t"``), evaluated at each measurement by native
code.  It holds for values that have none of their own.  A value with a weight of its own (other than 0 and infinity,
which say nothing about its error) gets none.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from odefit.errors import ProblemError, UnsupportedError, suggestion
from odefit.problem.measurements import DEVIATION, Measurements, is_deviation
from odefit.problem.resolution import names_in, resolve_in_experiment, tables_in

if TYPE_CHECKING:
    from odefit.problem.problem import Problem

DEFAULT = "default"
"""The name under which the noise of all other observables is given."""

DISTRIBUTIONS = ("normal", "lognormal", "laplace", "student", "poisson", "negbinomial", "binomial")
_PERCENT = re.compile(r"([^%]*)%\s*")


def fraction_of(text: str) -> float | None:
    """Return 0.05 for ``"5 %"``, None for text that is no percentage.

    Raises
    ------
    ValueError
        If what stands before the sign is not a number.
    """
    match = _PERCENT.fullmatch(text)
    return None if match is None else float(match.group(1)) / 100


@dataclass(frozen=True)
class Noise:
    """The noise of one observable, or of all that have none of their own.

    Attributes
    ----------
    sigma
        Standard deviation: a number, text such as "5 %" (of the measured value), or the text of an expression
        of the time, of fixed parameters, and of definitions made of these.
    distribution
        "normal"; the others of the language are refused until their criteria exist.
    below, above, correlated
        Limits of what can be measured, and whether errors of successive values are correlated: refused until
        their methods exist.
    """

    sigma: float | str = math.nan
    distribution: str = "normal"
    below: float = -math.inf
    above: float = math.inf
    correlated: bool = False

    @classmethod
    def of(cls, entry: Any) -> Noise:
        """Return the noise that a bare entry is short for: a sigma, or the name of a distribution."""
        if isinstance(entry, Noise):
            return entry
        if isinstance(entry, str) and entry.strip() in DISTRIBUTIONS:
            return cls(distribution=entry.strip())
        return cls(entry)

    @property
    def fraction(self) -> float | None:
        """The standard deviation as a fraction of the measured value; None if it is none."""
        return fraction_of(self.sigma) if isinstance(self.sigma, str) else None

    @property
    def expression(self) -> str | None:
        """The text of the standard deviation if it is an expression, else None."""
        return self.sigma if isinstance(self.sigma, str) and self.fraction is None else None

    def check(self, where: str) -> None:
        """Refuse what is wrong or not built yet; `where` names the entry in messages."""
        if self.distribution != "normal":
            raise UnsupportedError(f'the distribution "{self.distribution}" in {where}')
        if isinstance(self.sigma, str):
            self._check_text(where, self.sigma)
        elif isinstance(self.sigma, bool) or not isinstance(self.sigma, int | float | np.number):
            raise ProblemError(f"{where} must be a number, a percentage or an expression, not {self.sigma!r}.")
        elif math.isnan(self.sigma):
            raise ProblemError(f"{where} has no sigma; write sigma = 0.1, or the number alone.")
        elif not is_deviation(self.sigma):
            raise ProblemError(f"{where} is {self.sigma:g}; {DEVIATION}.")
        for key, default in (("below", -math.inf), ("above", math.inf), ("correlated", False)):
            if getattr(self, key) != default:
                raise UnsupportedError(f"'{key}' in {where}")

    def _check_text(self, where: str, text: str) -> None:
        try:
            fraction = fraction_of(text)
        except ValueError:
            raise ProblemError(f'{where} = "{text}" is not a percentage; write "5 %".') from None
        if text.strip() == "estimate":
            raise UnsupportedError(f'an estimated sigma in {where} ("{text}"); give a number or a percentage')
        if fraction is not None and not (fraction > 0 and math.isfinite(fraction)):
            raise ProblemError(f'{where} = "{text}": {DEVIATION}.')


def check_measured(noise: Collection[str], measured: Sequence[str]) -> None:
    """Refuse noise of something that is not measured."""
    if noise and not measured:
        raise ProblemError("[noise] says how exact data are, but there are none; add [data] or remove [noise].")
    for name in noise:
        if name != DEFAULT and name not in measured:
            raise ProblemError(
                f"[noise] has an entry '{name}', but no such values are measured{suggestion(name, measured)}"
            )


def standard_deviations(data: Measurements, noise: Mapping[str, Noise]) -> npt.NDArray[np.float64]:
    """Return the standard deviation of each measurement: its own, else the number or percentage of its noise.

    It is NaN where there is none, where an expression says it, and where it is a parameter.

    Raises
    ------
    MeasurementError
        For a value that has no percentage (0), or none that is a number.
    """
    sigma, lacking = data.sigma_numbers.copy(), lacking_sigma(data)
    for name in dict.fromkeys(data.observable.tolist()) if noise else ():
        entry = noise.get(name, noise.get(DEFAULT))
        if entry is None or entry.expression is not None:
            continue
        rows = lacking & (data.observable == name)
        fraction = entry.fraction
        if fraction is None:
            sigma[rows] = entry.sigma
            continue
        data.refuse(
            rows & (data.value == 0) & np.isnan(data.weight),
            lambda i, share=fraction: (
                f"the value is 0, so its sigma cannot be {100 * share:g} % of it; give it a sigma of its own."
            ),
        )
        rows &= data.value != 0
        with np.errstate(over="ignore"):
            sigma[rows] = fraction * np.abs(data.value[rows])
        data.check_sigma(sigma)
    return sigma


def sigma_expressions(problem: Problem) -> dict[str, str]:
    """Return the text of the standard deviation for each observable where it is an expression."""
    default = problem.noise.get(DEFAULT)
    entries = {name: problem.noise.get(name, default) for name in problem.observables} if problem.noise else {}
    texts = {name: entry.expression for name, entry in entries.items() if entry is not None}
    return {name: text for name, text in texts.items() if text is not None}


def check_expressions(problem: Problem) -> None:
    """Refuse standard deviations that depend on what changes during a fit."""
    data = problem.measurements
    free = {p.name for p in problem.free}
    for name, text in sigma_expressions(problem).items():
        rows = lacking_sigma(data) & data.used & (data.observable == name)
        measured = {*data.experiment[rows].tolist()}
        where = f'an expression for sigma in [noise] {name if name in problem.noise else DEFAULT} ("{text}")'
        for experiment in problem.experiments:
            if experiment.name not in measured:
                continue
            sigma = resolve_in_experiment(problem, problem.expression(text), experiment)
            tables = [problem.table(table, experiment) for table in tables_in(sigma)]
            names = names_in(sigma).union(*(table.names for table in tables))
            for other in sorted(names & {*problem.model.states}):
                raise UnsupportedError(
                    f"{where} that depends on the state '{other}' (for '{name}' in experiment '{experiment.name}'); "
                    "give a number, a percentage of the measured value, or an expression of the time and of fixed "
                    "parameters"
                )
            for other in sorted(names & free):
                raise UnsupportedError(
                    f"{where} that depends on the parameter '{other}', which is estimated (for '{name}' in experiment "
                    f"'{experiment.name}'); fix the parameter, or give a number or a percentage"
                )


def lacking_sigma(data: Measurements) -> npt.NDArray[np.bool_]:
    """Tell which measurements get their standard deviation from the noise of their observable."""
    return ~data.has_sigma & ~(np.isfinite(data.weight) & (data.weight != 0))
