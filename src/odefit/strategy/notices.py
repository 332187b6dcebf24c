"""What the user should know about a fit, in plain words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from odefit.integrate.initial_changes import words_for_initial_values
from odefit.integrate.sizes import AUTO
from odefit.integrate.state_conditions import words_for_state_conditions
from odefit.problem.noise import DEFAULT, lacking_sigma
from odefit.solve import SolverStatus
from odefit.statistics.covariance import AT_BOUND, DETERMINED, UNDETERMINED
from odefit.statistics.quality import chi2_p
from odefit.statistics.residuals import AS_GOOD_AS_EXACT
from odefit.statistics.verdicts import HERE, WEAK, joined
from odefit.strategy.derivatives import LARGEST_SHIFT, tighter
from odefit.strategy.influence import values_with_influence
from odefit.strategy.notices_of_rules import findings
from odefit.strategy.uncertainty import Uncertainty

if TYPE_CHECKING:
    from odefit.strategy.curvature import SecondOrder
    from odefit.strategy.result import FitResult

_HOPELESS = 1e-6  # p-value of chi2
_SUSPICIOUS = 1e-3  # p-values of tests of residuals
_UNCONTROLLED = 1e-4  # of the largest datum of a state, below which atol has to be
_PULLED = 0.5  # standard errors by which percentages of measured values may pull the model without a word
_TOGETHER = 0.999  # correlation of estimates that is worth a word


class Notice(NamedTuple):
    """Something the user should know; `code` is for programs, `text` for people."""

    code: str
    text: str


def notices(result: FitResult) -> Iterator[Notice]:
    """Yield what the user should know, most important first."""
    if not result.converged:
        yield Notice(
            f"convergence.{result.status}",
            f"The fit did not converge: {result.message}. {result.status.remedy}".rstrip(),
        )
    if result.solution.note:
        yield Notice("solver.note", f"{result.solution.note[0].upper()}{result.solution.note[1:]}.")
    if result.start_values is not None and (result.start_values.missing or result.start_values.moved):
        yield Notice("start.values", result.start_values.text)
    if result.multistart is not None and result.multistart.ambiguity:
        yield Notice("multistart.equal", result.multistart.ambiguity)
    if result.multistart is not None and result.multistart.doubt:
        yield Notice("multistart.lower", result.multistart.doubt)
    yield from _of_data(result)
    for code, text in findings(result):
        yield Notice(code, text)
    if result.r2 is not None and result.r2 <= 0.0:
        text = (
            f"The model describes the data no better than their mean values do (R2 {result.r2:.3g}): this may be a "
            'wrong minimum (try start = "auto" or starts = 20), or a wrong model.'
        )
        yield Notice("fit.poor", text)
    if result.second_order is not None:
        yield _of_curvature(result.second_order)
    if result.uncertainty is not None and result.statistics is not None:
        yield from _of_residuals(result, result.uncertainty)
        yield from _of_derivatives(result)
    yield from _of_parameters(result)
    yield from _of_correlations(result)


def _of_curvature(known: SecondOrder) -> Notice:
    """Return what the curvature of the objective says of the end of a fit that crept."""
    if known.is_minimum:
        text = (
            "The objective has a regular minimum here: its slope vanishes to "
            f"{max(known.distance, 1e-9):.1g} standard errors, and it rises in every direction. The linearised model "
            "describes it badly, so standard errors and intervals are those of the curvature of the objective, and "
            "rough ones where they are long."
        )
        return Notice("statistics.curvature", text)
    why = (
        "the objective does not rise in every direction"
        if known.hessian is None
        else f"a minimum should be {known.distance:.2g} standard errors away"
    )
    return Notice("statistics.no-minimum", f"There are no standard errors and no intervals: {why}.")


def _of_derivatives(result: FitResult) -> Iterator[Notice]:
    """Yield what became of the standard errors when the tolerances of the integration were tightened."""
    check, rtol = result.derivatives, result.problem.settings.rtol
    if check.change is not None:
        size = np.abs(np.log(np.where(np.isfinite(check.change) & (check.change > 0.0), check.change, 1.0)))
        worst = int(np.argmax(size))
        how = (
            f"the standard error of '{result.plan.names[worst]}' is {check.change[worst]:.3g} times as large"
            if size[worst] > 0.0
            else "the data determine other parameters"
        )
        text = f"Sensitivities computed at rtol {rtol:g} are wrong: at {check.rtol:g} {how}. "
        text += (
            f"Standard errors and intervals are those at {check.rtol:g}."
            if check.settled
            else "Even there they have not settled: do not rely on standard errors and intervals."
        )
        yield Notice("statistics.sensitivities", text)
    elif check.settled is False:
        why = f" ({check.failure})" if check.failure else ""
        text = f"Standard errors could not be confirmed at a tighter tolerance than rtol {rtol:g}{why}."
        yield Notice("statistics.unconfirmed", text)
    crept = result.status is SolverStatus.SLOW and result.second_order is None
    if (result.converged or crept) and check.shift is not None:
        size = np.where(np.isfinite(check.shift), np.abs(check.shift), 0.0)
        worst = int(np.argmax(size))
        if size[worst] > LARGEST_SHIFT:
            text = (
                f"The error of the integration moves estimates: without it '{result.plan.names[worst]}' would be "
                f"{check.shift[worst]:+.2g} standard errors from here. Fit again with rtol = {tighter(rtol):g} in "
                "[integrator]."
            )
            yield Notice("integrator.bias", text)


def _of_data(result: FitResult) -> Iterator[Notice]:
    names = result.plan.names
    n = len(names)
    if result.n_data + result.plan.data.exact.size < n:
        yield Notice("data.few", f"There are only {result.n_data} data for {n} free parameters.")
    elif result.n_data and result.statistics is not None and math.isnan(result.statistics.variance):
        text = "There are as many data as parameters: nothing is left to estimate the noise, and standard errors, from."
        yield Notice("data.few", text)
    yield from _of_tolerance(result)
    yield from _of_percentages(result)
    if words := words_for_state_conditions(result.plan.compiled):
        yield Notice("model.state-condition", words)
    if words := words_for_initial_values(result.problem, result.plan.compiled, result.solution.x):
        yield Notice("model.initial-values", words)
    unfitted = result.unfitted
    idle = [name for name in result.plan.compiled.slot_names if name in unfitted]
    if idle:
        yield Notice("parameter.no-data", f"{', '.join(idle)}: no data tell the value; the start value was used.")


def _of_tolerance(result: FitResult) -> Iterator[Notice]:
    """Yield measured states that are so small that `atol` leaves their integration uncontrolled."""
    data, given = result.problem.measurements, result.problem.settings.atol
    if given is None:  # it follows the size of the states, unless that is below rounding
        size = result.plan.data.norm
        if size > 0.0 and result.resolution > _UNCONTROLLED * size:
            yield Notice(
                "integrator.atol",
                f"The tolerances of the integration leave {result.resolution / size:.1g} of the size of the data open: "
                "set smaller ones, atol by state, in [integrator].",
            )
        return
    for name in result.problem.observables:
        atol = given.get(name, AUTO) if isinstance(given, Mapping) else given
        if isinstance(atol, str):
            continue  # it follows the size of the state
        largest = float(np.max(np.abs(data.value[data.observable == name]), initial=0.0))
        if name in result.problem.model.shown and 0.0 < largest * _UNCONTROLLED < atol:
            digits = 10.0 ** math.floor(math.log10(result.problem.settings.rtol) + math.log10(largest))
            text = (
                f"'{name}' is at most {largest:.2g}, too small for the absolute tolerance {atol:g} of the integration: "
                f'set atol = "auto", or {digits:g} or less, in [integrator].'
            )
            yield Notice("integrator.atol", text)


def _of_percentages(result: FitResult) -> Iterator[Notice]:
    """Yield percentages of the measured value that pull the model down by a good part of a standard error.

    Where sigma is the fraction s of the measured value, the model is pulled down by the fraction 2 s^2
    (`python -m benchmarks.percent`), and n such values determine its size to s/sqrt(n).
    """
    problem, data = result.problem, result.problem.measurements
    rows = lacking_sigma(data) & (data.weight != 0.0)
    for name in problem.observables:
        entry = problem.noise.get(name, problem.noise.get(DEFAULT))
        fraction = None if entry is None else entry.fraction
        n = int(np.sum(rows & (data.observable == name)))
        if fraction is not None and 2.0 * fraction * math.sqrt(n) > _PULLED:
            pulled = min(200.0 * fraction * fraction, 100.0)  # no further than to zero
            text = (
                f"The standard deviation of '{name}' is {100 * fraction:g} % of the measured value. Values that came "
                f"out low then count more, which pulls the model down by about {pulled:.2g} %; fit their "
                f"logarithms with sigma = {fraction:g} instead, or give sigma as a number."
            )
            yield Notice("noise.percent", text)


def _of_residuals(result: FitResult, uncertainty: Uncertainty) -> Iterator[Notice]:
    if not uncertainty.independent.resolved:
        what = "residuals are no larger" if result.chi2 is None else "given standard deviations are smaller"
        limit = uncertainty.limit
        if limit != "rounding":
            limit += f" (rtol {result.problem.settings.rtol:g})"
        text = f"The {what} than {limit}: standard errors are those of that error, not of measurements."
        yield Notice("residuals.exact", text)
        return
    if result.chi2 is not None:
        p = chi2_p(result.chi2, result.dof)
        if p is not None and p < _HOPELESS:
            text = (
                "The model does not describe the data to within their standard deviations "
                f"(chi2 {result.chi2:.4g} for {result.dof} degrees of freedom)."
            )
            yield Notice("fit.chi2", text)
    if uncertainty.kind == "autocorrelated":
        yield Notice("residuals.autocorrelated", _autocorrelated(uncertainty))
    elif uncertainty.resembles and uncertainty.autocorrelation is not None:
        text = (
            f"Neighbouring residuals resemble each other (correlation {uncertainty.autocorrelation.rho:.2f}): the "
            "model may lack something, and standard errors may be too small. The series are too short to allow for it; "
            'result.standard_errors("autocorrelated") tries.'
        )
        yield Notice("residuals.resemble", text)
    tests = uncertainty.tests
    if tests.equal_variance_p is not None and tests.equal_variance_p < _SUSPICIOUS:
        text = (
            f"The residuals do not have equal variances (p {tests.equal_variance_p:.1g}): give sigma or weights, or "
            'look at result.standard_errors("robust").'
        )
        yield Notice("residuals.unequal", text)
    if tests.normality_p is not None and tests.normality_p < _SUSPICIOUS:
        text = f"The residuals are not normally distributed (p {tests.normality_p:.1g}): look for outliers."
        yield Notice("residuals.not-normal", text)


def _autocorrelated(uncertainty: Uncertainty) -> str:
    autocorrelation, plain = uncertainty.autocorrelation, uncertainty.independent
    rho = math.nan if autocorrelation is None else autocorrelation.rho
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = uncertainty.statistics().standard_error / plain.standard_error
    known = ratios[np.isfinite(ratios)]
    change = f"; they are {np.median(known):.2g} times those for independent errors" if known.size else ""
    return (
        f"The residuals are autocorrelated (correlation {rho:.2f} from one measurement to the next): standard errors "
        f"and intervals allow for it{change}."
    )


def _of_parameters(result: FitResult) -> Iterator[Notice]:
    silent = {name for name in _without_slope(result) if result.parameters[name].verdict in (UNDETERMINED, HERE)}
    elsewhere = _with_influence_elsewhere(result, silent)
    for name, row in result.parameters.items():
        if row.verdict == AT_BOUND:
            yield Notice("parameter.bound", f"'{name}' is at its bound {row.estimate:g}.")
        elif row.verdict in (UNDETERMINED, HERE) and name in elsewhere:
            text = (
                f"'{name}' is not determined here: small changes of it have no influence on the data, but "
                f"{name} = {elsewhere[name]:.4g} has; try other start values, or starts = 20."
            )
            yield Notice("parameter.undetermined", text)
        elif row.verdict in (UNDETERMINED, HERE) and name in silent:
            if elsewhere or row.verdict == HERE:
                text = f"'{name}' is not determined here: it has no influence on the data."
            else:
                text = f"'{name}' is not determined by these data: it has no influence on them."
            yield Notice("parameter.undetermined", text)
        elif row.verdict in (UNDETERMINED, HERE):
            tail = f" (95 % interval {row.interval[0]:.2g} .. {row.interval[1]:.2g})" if row.interval else ""
            yield Notice("parameter.undetermined", f"'{name}' is {row.verdict}{tail}.")
        elif row.verdict == WEAK and row.interval:
            text = f"'{name}' is known to its order of magnitude only ({row.interval[0]:.2g} .. {row.interval[1]:.2g})."
            yield Notice("parameter.weak", text)


def _with_influence_elsewhere(result: FitResult, silent: set[str]) -> dict[str, float]:
    """Return, of parameters without derivatives, those that another value changes the data of, with that value."""
    names = result.plan.names
    unknowns = [i for i, name in enumerate(names) if name in silent]
    found = values_with_influence(result.problem, result.solution.x, unknowns) if unknowns else {}
    return {names[i]: value for i, value in found.items()}


def _without_slope(result: FitResult) -> set[str]:
    """Return the parameters whose derivatives are all zero."""
    linear = result.solution.linear
    if linear is None:
        return set()
    norms = linear.column_norms()
    return {name for name, norm in zip(result.plan.names, norms, strict=True) if norm == 0.0}


def _of_correlations(result: FitResult) -> Iterator[Notice]:
    if result.verdicts is None or result.statistics is None:
        return
    names = result.plan.names
    for one in result.verdicts.combinations:
        members = [names[i] for i in one.members]
        number = _correlation(result, one.members)
        if one.formula:
            text = f"{joined(members)} move together{number}: the data fix only {one.formula}."
        else:
            text = f"{joined(members)} move together{number}: the data fix only a combination of them."
        yield Notice("parameter.combination", text)
    if result.verdicts.combinations or _confined(result):
        return
    determined = [word == DETERMINED for word in result.verdicts.words]
    i, j, _ = (part.tolist() for part in result.statistics.correlated_pairs(_TOGETHER))
    pairs = [(a, b) for a, b in zip(i, j, strict=True) if determined[a] and determined[b]]
    for group in _groups(pairs):
        which = "both" if len(group) == 2 else "all"
        who = joined([names[i] for i in group])
        text = f"{who} move together{_correlation(result, group)}, though {which} are determined."
        yield Notice("parameter.correlation", text)


def _confined(result: FitResult) -> bool:
    """Tell whether values that must be met exactly, or rules, tie parameters to each other."""
    return bool((result.plan.data.heavy_root >= AS_GOOD_AS_EXACT).any()) or any(rule.counts for rule in result.rules)


def _groups(pairs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, ...]]:
    """Yield the groups of parameters that are connected by pairs."""
    group_of: dict[int, set[int]] = {}
    for i, j in pairs:
        joint = group_of.get(i, {i}) | group_of.get(j, {j})
        group_of.update(dict.fromkeys(joint, joint))
    for i in sorted(group_of):
        if i == min(group_of[i]):
            yield tuple(sorted(group_of[i]))


def _correlation(result: FitResult, members: tuple[int, ...]) -> str:
    if len(members) != 2 or result.statistics is None:
        return ""
    value = result.statistics.correlation_of(members[0], members[1])
    if not math.isfinite(value):
        return ""
    # never "1.0000" for what is not quite 1
    digits = min(max(4, math.ceil(-math.log10(max(1.0 - abs(value), 1e-12)))), 12)
    return f" (correlation {math.trunc(value * 10**digits) / 10**digits:.{digits}f})"
