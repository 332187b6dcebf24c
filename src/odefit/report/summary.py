"""The result as plain text, at most 100 columns."""

from __future__ import annotations

import textwrap

from odefit.strategy import FitResult

_WIDTH = 100


def summary(result: FitResult) -> str:
    """Return estimates with their uncertainty, the verdicts, and warnings last."""
    problem = result.problem
    lines = [problem.title] if problem.title else []
    lines.append(f"{result.status}: {result.message}")
    lines.append(
        f"objective {result.objective:.9g} (half the weighted sum of squares), {result.n_data} data, "
        f"{result.iterations} iterations, {result.evaluations} evaluations"
    )
    lines = [wrapped for line in lines for wrapped in textwrap.wrap(line, _WIDTH, subsequent_indent="  ")]
    lines += ["", *_table(result)]
    if result.derived:
        lines += ["", *_aligned(_derived_rows(result))]
    if result.validation:
        lines += ["", *_validation(result)]
    if result.warnings:
        lines += ["", "Warnings"]
        for notice in result.warnings:
            lines += textwrap.wrap(notice.text, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines)


def _table(result: FitResult) -> list[str]:
    own = {slot.name: slot.parameter for slot in result.problem.slots.slots}
    units = {name: p.unit or result.problem.units.get(p.name, "") for name, p in own.items()}
    rows = [("parameter", "estimate", "std. error", "95 % interval", "verdict")]
    for name, row in result.parameters.items():
        label = f"{name} [{units[name]}]" if units.get(name) else name
        rows.append((label, f"{row.estimate:.8g}", _error(row.standard_error), _interval(row.interval), row.verdict))
    return _aligned(rows)


def _derived_rows(result: FitResult) -> list[tuple[str, ...]]:
    rows = [("derived", "estimate", "std. error", "95 % interval", "")]
    units = result.problem.units
    for name, row in result.derived.items():
        label = f"{name} [{units[name]}]" if name in units else name
        rows.append((label, f"{row.estimate:.8g}", _error(row.standard_error), _interval(row.interval), ""))
    return rows


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
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    align = ("<", ">", ">", ">", "<")
    text = ["  ".join(f"{cell:{a}{w}}" for cell, a, w in zip(row, align, widths, strict=True)).rstrip() for row in rows]
    return [text[0], "-" * max(map(len, text)), *text[1:]]
