"""The result as plain text, at most 100 columns."""

from __future__ import annotations

import math
import textwrap

from odefit.native.norm import unit_of
from odefit.report.labels import with_unit, words_for_time
from odefit.report.rules import rules_table
from odefit.report.several import horizons_table, multistart_tables
from odefit.statistics.quality import Misfit, chi2_p, misfits
from odefit.strategy import FitResult

_WIDTH = 100
_MOST_MISFITS = 12
_LOG_NAMES = {"log": "ln", "log10": "log10", "logit": "logit"}


def summary(result: FitResult) -> str:
    """Return how good the fit is, estimates with their uncertainty, the verdicts, and warnings last."""
    problem = result.problem
    lines = [problem.title] if problem.title else []
    lines.append(f"{result.status}: {result.message}")
    lines.append(
        f"objective {result.objective:.9g} ({result.plan.criterion.words}), {result.iterations} iterations, "
        f"{result.evaluations} evaluations"
    )
    if result.placed is not None and result.placed.nodes:
        lines.append(f"multiple shooting with {sum(map(len, result.placed.nodes.values()))} nodes")
    lines += _quality(result)
    lines = [wrapped for line in lines for wrapped in textwrap.wrap(line, _WIDTH, subsequent_indent="  ")]
    lines += ["", *_table(result)]
    logarithmic = _logarithmic_rows(result)
    if len(logarithmic) > 1:
        lines += ["", *_aligned(logarithmic)]
    if result.derived:
        lines += ["", *_aligned(_derived_rows(result))]
    if result.rules:
        lines += ["", *_aligned(rules_table(result))]
    if result.uncertainty is not None:
        lines += _misfit(result)
    if result.validation:
        lines += ["", *_validation(result)]
    for table in (horizons_table(result), multistart_tables(result)):
        lines += ["", *table] if table else []
    if result.warnings:
        lines += ["", "Warnings"]
        for notice in result.warnings:
            lines += textwrap.wrap(notice.text, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines)


def _quality(result: FitResult) -> list[str]:
    counts = f"{result.n_data} data, {result.n_estimated} estimated, {result.dof} degrees of freedom"
    if result.statistics is None or result.uncertainty is None:
        return [f"{result.n_data} data"]
    words = [counts]
    if result.chi2 is None:
        deviation = result.uncertainty.independent.deviation
        if math.isfinite(deviation) and result.uncertainty.independent.resolved:
            words.append(f"residual std. error {deviation:.4g}")
    else:
        p = chi2_p(result.chi2, result.dof)
        words.append(f"chi2 {result.chi2:.5g}" + ("" if p is None else f" (p {_p(p)})"))
    if result.r2 is not None:
        words.append(f"R2 {result.r2:.6g}")
    lines = [", ".join(words)]
    if not result.uncertainty.independent.resolved:
        return lines  # likelihood and tests would be those of the integration error
    if result.loglik is not None:
        aic, aicc, bic = result.criteria
        named = {"log likelihood": result.loglik, "AIC": aic, "AICc": aicc, "BIC": bic}
        lines.append(", ".join(f"{name} {value:.5g}" for name, value in named.items() if value is not None))
    return lines + _tests(result)


def _tests(result: FitResult) -> list[str]:
    tests = result.tests
    if tests is None:
        return []
    words = []
    if tests.durbin_watson is not None and tests.autocorrelation_p is not None:
        words.append(f"Durbin-Watson {tests.durbin_watson:.3g} (p {_p(tests.autocorrelation_p)})")
    for name, p in (
        ("runs", tests.runs_p), ("normality", tests.normality_p), ("equal variance", tests.equal_variance_p),
    ):  # fmt: skip
        if p is not None:
            words.append(f"{name} p {_p(p)}")
    return [f"residuals: {', '.join(words)}"] if words else []


def _p(p: float) -> str:
    return f"{p:.2f}" if p >= 0.095 else f"{p:.1g}"


def _labels(result: FitResult) -> dict[str, str]:
    parameter_of_slot = {slot.name: slot.parameter for slot in result.problem.slots.slots}
    units = {name: p.unit or result.problem.units.get(p.name, "") for name, p in parameter_of_slot.items()}
    return {name: with_unit(name, units.get(name, "")) for name in result.parameters}


def _table(result: FitResult) -> list[str]:
    labels = _labels(result)
    rows = [("parameter", "estimate", "std. error", "95 % interval", "verdict")]
    for name, row in result.parameters.items():
        cells = (labels[name], f"{row.estimate:.8g}", _error(row.standard_error), _interval(row.interval), row.verdict)
        rows.append(cells)
    return _aligned(rows)


def _logarithmic_rows(result: FitResult) -> list[tuple[str, ...]]:
    """Return the parameters on logarithmic scales, as the solver sees them."""
    rows = [("on its scale", "estimate", "std. error", "95 % interval", "")]
    compiled, statistics = result.plan.compiled, result.statistics
    for i, (name, scale) in enumerate(zip(compiled.theta_names, compiled.theta_scales, strict=True)):
        if scale == "linear" or name not in result.parameters or statistics is None:
            continue
        value, error = float(result.solution.x[i]), float(statistics.standard_error[i])
        reach = statistics.quantile * error
        known = math.isfinite(reach)
        interval = _interval((value - reach, value + reach)) if known else "-"
        label = f"{_LOG_NAMES[scale]} {name}"
        rows.append((label, f"{value:.6g}", _error(error if known else None), interval, ""))
    return rows


def _derived_rows(result: FitResult) -> list[tuple[str, ...]]:
    rows = [("derived", "estimate", "std. error", "95 % interval", "")]
    units = result.problem.units
    for name, row in result.derived.items():
        label = with_unit(name, units.get(name, ""))
        rows.append((label, f"{row.estimate:.8g}", _error(row.standard_error), _interval(row.interval), ""))
    return rows


def _misfit(result: FitResult) -> list[str]:
    """Return what experiments (observables, if there is one experiment only) contribute to the sum of squares."""
    if result.uncertainty is None:
        return []
    residuals = result.uncertainty.residuals
    unit = unit_of(residuals.value)  # squares of very small and very large residuals are no numbers
    residuals = residuals.in_units_of(unit)
    several = len({o.experiment for o in result.plan.data.of_experiment}) > 1
    contributions = misfits(residuals, by_observable=not several)
    total = sum(row.sum_of_squares for row in contributions)
    if len(contributions) < 2 or not total > 0:
        return []
    shown = sorted(contributions, key=lambda row: -row.sum_of_squares / row.n_data)[:_MOST_MISFITS]
    left = len(contributions) - len(shown)
    rows = [("misfit", "data", "rms", "share", "largest residual")]
    rows += [_misfit_row(result, row, total, unit) for row in contributions if row in shown]
    text = _aligned(rows)
    return ["", *text, *([f"and {left} more with smaller residuals"] if left else [])]


def _misfit_row(result: FitResult, row: Misfit, total: float, unit: float) -> tuple[str, ...]:
    observables = result.problem.observables
    name = result.problem.experiments[row.experiment].name if row.observable is None else observables[row.observable]
    observable, time, value = row.worst
    place = f"{unit * value:+.3g} at {words_for_time(result.problem, time)}"
    place += f", {observables[observable]}" if row.observable is None else ""
    rms = unit * math.sqrt(row.sum_of_squares / row.n_data)
    return (name, str(row.n_data), f"{rms:.3g}", f"{100.0 * row.sum_of_squares / total:.0f} %", place)


def _validation(result: FitResult) -> list[str]:
    lines = ["Not fitted, only scored"]
    for name, row in result.validation.items():
        if row.failure:
            lines.append(f"  {name}: could not be computed ({row.failure})")
        else:
            mean = row.sum_of_squares / row.n_data
            lines.append(f"  {name}: {row.n_data} data, mean square of the weighted residuals {mean:.4g}")
    return lines


def _error(error: float | None) -> str:
    return "-" if error is None else f"{error:.3g}"


def _interval(interval: tuple[float, float] | None) -> str:
    return "-" if interval is None else f"{interval[0]:.5g} .. {interval[1]:.5g}"


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Align the columns; the last one is wrapped where a line would be too long."""
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    align = ("<", ">", ">", ">", "<")
    room = max(_WIDTH - sum(widths[:4]) - 8, 20)
    text = []
    for row in rows:
        head = "  ".join(f"{cell:{a}{w}}" for cell, a, w in zip(row[:4], align, widths, strict=False))
        words = textwrap.wrap(row[4], room) or [""]
        text += [f"{head}  {words[0]}".rstrip(), *(" " * (len(head) + 4) + line for line in words[1:])]
    return [text[0], "-" * max(map(len, text)), *text[1:]]
