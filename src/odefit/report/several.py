"""Tables of the fits that a result is made of: horizons of a strategy, minima and failures of many starts."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence

from odefit.report.labels import time_unit, with_unit
from odefit.strategy import FitResult
from odefit.strategy.result import Attempt

_WIDTH = 100
_MOST_HORIZONS = 12
_FIRST_HORIZONS = 4  # of more, these and the last ones are shown
_MOST_MINIMA = 5
_MOST_CAUSES = 5
_LONGEST_EXAMPLE = 160  # characters


def horizons_table(result: FitResult) -> list[str]:
    """Return the horizons with iterations and estimates, and what they cost on all data; nothing for a single fit.

    Attempts without horizons are listed by their methods.
    """
    attempts = result.attempts
    if len(attempts) < 2:
        return []
    if not any(math.isfinite(attempt.horizon) for attempt in attempts):
        return _methods_table(result)
    left_out = max(len(attempts) - _MOST_HORIZONS, 0)
    shown: list[Attempt | None] = list(attempts)
    if left_out:
        shown[_FIRST_HORIZONS : _FIRST_HORIZONS + left_out + 1] = [None]
    names = list(result.plan.names)
    moved = any(attempt.relaxations for attempt in attempts)
    horizon = with_unit("horizon", time_unit(result.problem))
    head = [horizon, "data", "iterations", *(["bounds moved"] if moved else []), "objective"]
    rows = [[*head, *names], *(_horizon_row(attempt, names, len(head), moved) for attempt in shown)]
    total = f"{result.iterations} iterations, equivalent to {result.equivalent_iterations:.3g} on all data"
    return [*grid(rows, len(head)), total]


def _methods_table(result: FitResult) -> list[str]:
    """Return the fits by different methods, one after the other."""
    names = list(result.plan.names)
    head = ["method", "status", "iterations", "objective"]
    rows = [
        [one.method, str(one.status), str(one.iterations), f"{one.objective:.6g}", *_estimates(one.estimates, names)]
        for one in result.attempts
    ]
    return grid([[*head, *names], *rows], len(head))


def _horizon_row(attempt: Attempt | None, names: list[str], n_head: int, moved: bool) -> list[str]:
    if attempt is None:
        return ["..."] + [""] * (n_head - 1 + len(names))
    cells = [f"{attempt.horizon:g}", str(attempt.n_data), str(attempt.iterations)]
    cells += [str(attempt.relaxations)] if moved else []
    failed = attempt.status in ("failed", "interrupted")
    return [*cells, attempt.status if failed else f"{attempt.objective:.6g}", *_estimates(attempt.estimates, names)]


def multistart_tables(result: FitResult) -> list[str]:
    """Return the best minima with their counts, and the fits that did not converge by cause."""
    record = result.multistart
    if record is None:
        return []
    names = list(result.plan.names)
    lines = [record.headline]
    if record.minima:
        head = ["minimum", "objective", "fits", "spread"]
        rows = [
            [str(i), f"{m.objective:.6g}", str(m.count), f"{m.spread:.1g}", *_estimates(m.estimates, names)]
            for i, m in enumerate(record.minima[:_MOST_MINIMA], 1)
        ]
        lines += grid([[*head, *names], *rows], len(head))
        if len(record.minima) > _MOST_MINIMA:
            lines.append(f"and {len(record.minima) - _MOST_MINIMA} more")
        number = next((i for i, m in enumerate(record.minima, 1) if record.best in m.runs), 0)
        if number == 0 and (best := record.best_run) is not None:
            lines.append(f"The result is that of start {best.number}, lower than any minimum but {best.status}.")
        elif number > 1:
            lines.append(
                f"The result is that of start {record.best}, minimum {number}: the first one as good as the best."
            )
    if record.causes:
        lines.append("")
        head = ["not converged", "fits", "best objective"]
        rows = [
            [c.status, str(c.count), f"{c.objective:.6g}" if math.isfinite(c.objective) else "-"]
            for c in record.causes[:_MOST_CAUSES]
        ]
        lines += grid([head, *rows], len(head))
        for cause in record.causes[:_MOST_CAUSES]:
            message = textwrap.shorten(cause.message, _LONGEST_EXAMPLE, placeholder=" ...")
            lines += textwrap.wrap(f"start {cause.number}, {cause.status}: {message}", _WIDTH, subsequent_indent="  ")
    return lines


def _estimates(values: Mapping[str, float], names: list[str]) -> list[str]:
    return [f"{values[name]:.5g}" if name in values else "-" for name in names]


def grid(rows: Sequence[Sequence[str]], least: int) -> list[str]:
    """Align rows of cells to the right (the first one to the left); columns that do not fit are left out.

    The first `least` columns are always shown.
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    shown = least
    while shown < len(widths) and sum(widths[: shown + 1]) + 2 * shown <= _WIDTH:
        shown += 1
    text = []
    for row in rows:
        cells = [f"{row[0]:<{widths[0]}}", *(f"{row[i]:>{widths[i]}}" for i in range(1, shown))]
        text.append("  ".join(cells).rstrip())
    hidden = list(rows[0][shown:])
    note = [f"({', '.join(hidden)}: see result.json)"] if hidden else []
    note = [line for part in note for line in textwrap.wrap(part, _WIDTH)]
    return [text[0], "-" * max(map(len, text)), *text[1:], *note]
