"""One fit of a family, looked at from outside: what it says, and what is true.

best
    The objective, computed by the case itself at the estimates, is the best known (to 1e-3, or the case's floor).
other
    Converged higher, and it is a minimum: neither SciPy nor small random changes lead lower from there.
false
    Converged higher, and it is no minimum.
wrong
    Converged at a minimum, but something that is reported there is not true: the objective, a standard error (by more
    than a factor of 1.5), a parameter that the data determine called undetermined, or what the family adds.
warned
    What would be false or wrong, with a warning that says so; where no step was taken at all, no warning helps.
not converged
    Its status; "refused" for an `OdefitError`, "crashed" for any other exception, "hung" beyond the time limit.

False successes are those of the kinds false and wrong.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

import odefit as of
from benchmarks.reliability.case import Case, Family, random_for
from benchmarks.reliability.reference import Known, descend, standard_errors
from odefit.strategy import FitResult
from odefit.strategy.notices import Notice

Array = npt.NDArray[np.float64]

CONVERGED = "converged"
REFUSED, CRASHED, HUNG = "refused", "crashed", "hung"
BEST, OTHER, FALSE, WRONG, WARNED = "best", "other", "false", "wrong", "warned"

SAME = 1e-3  # relative difference of objectives that is of no consequence
_FACTOR = 1.5  # standard errors may differ by this much
_DETERMINED = 0.2  # relative standard error of a parameter that the data determine beyond doubt
_PROBES = 40
_HERE = ".here"  # added to the code of a warning that speaks of the place, not of the data
_ADMITS_HEIGHT = ("fit.poor", "multistart.lower", "integrator", f"parameter.undetermined{_HERE}")
_ADMITS_STATEMENTS = ("integrator", "residuals.exact", "statistics")


@dataclass(frozen=True)
class FamilyEnd:
    """How one fit of a family ended.

    Attributes
    ----------
    family, seed, data
        Which fit, and which data it shares with others.
    status
        The word of the fit, or one of `REFUSED`, `CRASHED`, `HUNG`.
    value, reference
        Objective at the estimates and the best one found by SciPy, both by the case's own residuals.
    lower
        The lowest objective that was found from the end on; NaN where nothing was looked for.
    floor
        Difference of objectives that is of no consequence.
    wrong
        Statements that are not true.
    silent
        Parameters without an interval, at the best objective, where there is one.
    warnings
        Codes of the warnings, with ".here" after those that speak of the place and not of the data.
    excused, unexcused
        Codes that say, in this family more or less than in others, that the answer may be wrong.
    """

    family: str
    seed: int
    data: int
    status: str
    value: float = math.inf
    reference: float = math.nan
    lower: float = math.nan
    floor: float = 0.0
    iterations: int = 0
    wrong: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    excused: tuple[str, ...] = ()
    unexcused: tuple[str, ...] = ()
    message: str = ""
    seconds: float = 0.0

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> FamilyEnd:
        """Return the end that a line of results tells of."""
        known = {one.name: entries[one.name] for one in fields(cls) if one.name in entries}
        return cls(**{name: tuple(x) if isinstance(x, list) else x for name, x in known.items()})

    def is_at(self, best: float) -> bool:
        """Tell whether the objective is the best known."""
        return self.value <= best * (1.0 + SAME) + self.floor

    def is_minimum(self) -> bool:
        """Tell whether nothing lower was found around the end."""
        return not self.lower < self.value * (1.0 - SAME) - self.floor

    def kind(self, best: float) -> str:
        """Say what kind of end this is, knowing the best objective."""
        if self.status != CONVERGED:
            return self.status
        at_best = self.is_at(best)
        if not at_best and not self.is_minimum():
            return WARNED if self.iterations and self._says(_ADMITS_HEIGHT) else FALSE
        if self.wrong:
            admitted = _ADMITS_STATEMENTS if at_best else _ADMITS_STATEMENTS + _ADMITS_HEIGHT
            return WARNED if self._says(admitted) else WRONG
        return BEST if at_best else OTHER

    def _says(self, codes: tuple[str, ...]) -> bool:
        admitted = tuple(code for code in codes if code not in self.unexcused) + self.excused
        return any(code.startswith(admitted) for code in self.warnings)


def fitted(family: Family, seed: int, case: Case, known: Known) -> tuple[FamilyEnd, FitResult | None]:
    """Fit, and ask for everything that a user sees."""
    end = FamilyEnd(
        family.name, seed, family.data_of(seed), CRASHED, reference=known.objective, floor=case.floor,
        excused=case.excused, unexcused=case.unexcused,
    )  # fmt: skip
    started = time.perf_counter()
    try:
        result = of.fit(case.problem.with_settings(**case.settings), **case.options)
        codes = tuple(_code(notice) for notice in result.warnings)
        result.summary()
        result.to_dict()
    except of.OdefitError as error:
        return replace(end, status=REFUSED, message=str(error)), None
    except Exception as error:  # whatever a user would see as a traceback
        return replace(end, message=f"{type(error).__name__}: {error}"), None
    seconds = time.perf_counter() - started
    end = replace(
        end, status=str(result.status), iterations=result.iterations, warnings=codes, message=result.message,
        seconds=seconds,
    )  # fmt: skip
    return end, result


def _code(notice: Notice) -> str:
    return notice.code + (_HERE if " here" in notice.text else "")


def looked_at(end: FamilyEnd, result: FitResult | None, case: Case, known: Known) -> FamilyEnd:
    """Say of the end of a fit what is true: its objective, and if it converged what lies around, what is not so."""
    if result is None:
        return end
    x = case.nice(result.estimates)
    end = replace(end, value=case.objective(x))
    if case.statistics and end.is_at(known.objective):
        end = replace(end, silent=tuple(without_interval(result, case, known)))
    if not result.converged:
        return end
    lower = math.nan
    if not end.is_at(known.objective):
        lower = lowest_around(case, x, random_for(end.family, end.seed, 1))
    return replace(end, lower=lower, wrong=tuple(untrue(result, case, x, known)))


def lowest_around(case: Case, x: Array, random: np.random.Generator) -> float:
    """Return the lowest objective that SciPy or small changes lead to from `x`."""
    size = np.maximum(np.abs(case.truth), 1e-3)
    found = [descend(case, x, size).objective]
    if case.positive and (x > 0).all():
        found.append(descend(case, x, size, logarithms=True).objective)
    lower, upper = case.bounds
    for _ in range(_PROBES):
        change = 10.0 ** random.uniform(-12, -2) * random.standard_normal(x.size)
        found.append(case.objective(np.clip(x * (1.0 + change), lower, upper)))
    return min(found)


def untrue(result: FitResult, case: Case, x: Array, known: Known) -> list[str]:
    """Return what the report of a converged fit says that is not true."""
    found = [_objective(result, case, x)]
    if case.statistics:
        found.append(_undetermined(result, case, known))
    if case.statistics and case.objective(x) <= known.objective * (1.0 + SAME) + case.floor:
        found.append(_errors(result, case, x))
    found += [claim(result, case) for claim in case.claims]
    return [text for text in found if text]


def _objective(result: FitResult, case: Case, x: Array) -> str:
    """Compare the objective that is reported with that at the estimates."""
    settings, true = result.problem.settings, math.sqrt(2.0 * case.objective(x))
    if not 1e-150 < case.unit < 1e150:  # squares are no numbers
        return ""
    said = math.sqrt(2.0 * max(result.objective, 0.0)) / case.unit
    resolved = 100.0 * settings.rtol * result.plan.data.norm / case.unit
    if abs(said - true) <= 0.01 * true + resolved + math.sqrt(2.0 * case.floor):
        return ""
    return f"the norm of the residuals is {true:.3g}, not {said:.3g}"


def _errors(result: FitResult, case: Case, x: Array) -> str:
    """Compare standard errors for independent errors with those of the case's own derivatives."""
    said = result.standard_errors("independent")
    true = standard_errors(case, x, result.solution.active)
    for name, value, right in zip(case.names, x, true, strict=True):
        mine = said[name] * case.to_nice.get(name, 1.0)
        if not right < abs(value):
            continue
        if not mine <= _FACTOR * right:
            return f"the standard error of {name} is {right:.3g}, not {mine:.3g}"
        if right > _FACTOR * mine:
            return f"the standard error of {name} is {right:.3g}, not {mine:.3g}"
    return ""


def determined(case: Case, known: Known, within: float = math.inf) -> list[str]:
    """Return the parameters whose relative standard error at the best known point is finite, and so small."""
    lower, upper = case.bounds
    close = 1e-9 * np.maximum(np.abs(case.truth), 1e-3)
    errors = standard_errors(case, known.x, (known.x <= lower + close) | (known.x >= upper - close))
    rows = zip(case.names, known.x, errors, strict=True)
    return [name for name, value, error in rows if error < within * abs(value)]


def without_interval(result: FitResult, case: Case, known: Known) -> list[str]:
    """Return parameters that have a standard error, and the report gives no interval for."""
    return [name for name in determined(case, known) if result.parameters[name].interval is None]


def _undetermined(result: FitResult, case: Case, known: Known) -> str:
    """Look for parameters that the data determine, but not according to the report."""
    texts = [notice.text for notice in result.warnings if _code(notice) == "parameter.undetermined"]
    for name in determined(case, known, _DETERMINED):
        if any(f"'{name}'" in text for text in texts):
            return f"{name} is determined by the data"
    return ""
