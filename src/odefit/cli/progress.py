"""What is shown while fits run: on a terminal, and only if they take long enough to be read."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from types import TracebackType

from odefit.solve import TraceRow
from odefit.study import StartRun

PATIENCE = 0.5
"""Seconds before anything is shown."""
_ROWS = 12


class LiveTable:
    """Shows the last iterations on standard error; a context manager whose value is the callback of a fit."""

    def __init__(self, *, quiet: bool) -> None:
        self._shown = not quiet and sys.stderr.isatty()
        self._rows: list[TraceRow] = []
        self._live = None
        self._begun = time.monotonic()

    def __enter__(self) -> Callable[[TraceRow], None] | None:
        return self._add if self._shown else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def _add(self, row: TraceRow) -> None:
        self._rows.append(row)
        if self._live is None:
            if time.monotonic() - self._begun < PATIENCE:
                return
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(stderr=True), transient=True, refresh_per_second=8)
            self._live.start()
        self._live.update(self._table())

    def _table(self):
        from rich.table import Table

        table = Table(title="Ctrl-C stops and keeps the best point", title_style="dim", box=None, pad_edge=False)
        for name in ("iteration", "objective", "step", "rank", "damping", "grids"):
            table.add_column(name, justify="right")
        for row in self._rows[-_ROWS:]:
            table.add_row(
                str(row.iteration), f"{row.objective:.8g}", f"{row.step:.3g}", str(row.rank),
                f"{row.damping:.3g}", str(row.generation),
            )  # fmt: skip
        return table


class StartsBar:
    """Shows how many of several fits are done; a context manager whose value is their callback.

    Parameters
    ----------
    n
        How many fits there are; nothing is shown for a single one.
    """

    def __init__(self, n: int, *, quiet: bool) -> None:
        self._n = n
        self._shown = n > 1 and not quiet and sys.stderr.isatty()
        self._best = math.inf
        self._converged = 0
        self._bar = None
        self._begun = time.monotonic()

    def __enter__(self) -> Callable[[StartRun, int], None] | None:
        return self._add if self._shown else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _add(self, run: StartRun, done: int) -> None:
        if run.converged:
            self._converged += 1
            self._best = min(self._best, run.objective)
        if self._bar is None:
            if time.monotonic() - self._begun < PATIENCE:
                return
            self._bar = self._started()
        self._bar.update(self._bar.task_ids[0], completed=done, found=self._found())

    def _found(self) -> str:
        best = f", best objective {self._best:.6g}" if self._converged else ""
        return f"{self._converged} converged{best}"

    def _started(self):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        bar = Progress(
            TextColumn("starts"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
            TextColumn("{task.fields[found]}"), TextColumn("[dim]Ctrl-C stops and keeps the best"),
            console=Console(stderr=True), transient=True,
        )  # fmt: skip
        bar.add_task("starts", total=self._n, found="")
        bar.start()
        return bar
