"""What the commands print, and where."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any, TextIO

import typer

from odefit.formats import write_result
from odefit.formats.result_file import result_json
from odefit.problem import Problem
from odefit.strategy import FitResult

NOT_CONVERGED = 3


class _Stderr(logging.Handler):
    """Print messages on the present standard error (which may be replaced during a run)."""

    def emit(self, record: logging.LogRecord) -> None:
        stream: TextIO = sys.stderr
        print(f"odefit: {self.format(record)}", file=stream, flush=True)


def announce_compilation() -> None:
    """Tell on standard error what is compiled, since it takes seconds the first time."""
    logger = logging.getLogger("odefit.compile")
    logger.setLevel(logging.INFO)
    if not logger.handlers:
        logger.addHandler(_Stderr())


def fit_and_report(
    problem: Problem, method: str | None, solver: str | None, json: bool, out: Path | None, **options: Any
) -> None:
    """Fit, print, write ``result.json`` if asked to, and leave with the right exit code."""
    import odefit.api

    announce_compilation()
    result: FitResult = odefit.api.fit(problem, method=method, solver=solver, **options)
    print(result_json(result) if json else result.summary(), end="" if json else "\n")
    for record in (result.start_values, result.multistart):
        if record is not None:
            print(f"odefit: {record.text}", file=sys.stderr)
    if out is not None:
        path = write_result(result, out)
        print(f"odefit: wrote {path}", file=sys.stderr)
    if not result.converged:
        raise typer.Exit(NOT_CONVERGED)
