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
    if result.warnings:
        lines += ["", "Warnings"]
        for notice in result.warnings:
            lines += textwrap.wrap(notice.text, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
    return "\n".join(lines)


def _table(result: FitResult) -> list[str]:
    units = {p.name: p.unit or result.problem.units.get(p.name, "") for p in result.problem.parameters}
    rows = [("parameter", "estimate", "std. error", "95 % interval", "verdict")]
    for name, row in result.parameters.items():
        label = f"{name} [{units[name]}]" if units.get(name) else name
        error = "-" if row.standard_error is None else f"{row.standard_error:.3g}"
        interval = "-" if row.interval is None else f"{row.interval[0]:.5g} .. {row.interval[1]:.5g}"
        rows.append((label, f"{row.estimate:.8g}", error, interval, row.verdict))
    widths = [max(len(row[i]) for row in rows) for i in range(5)]
    align = ("<", ">", ">", ">", "<")
    text = ["  ".join(f"{cell:{a}{w}}" for cell, a, w in zip(row, align, widths, strict=True)).rstrip() for row in rows]
    return [text[0], "-" * max(map(len, text)), *text[1:]]
