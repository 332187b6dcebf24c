"""What the commands print, and where."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TextIO

import typer

from odefit.cli.changes import changed
from odefit.cli.fit_options import FitOptions
from odefit.cli.progress import LiveTable, StartsBar
from odefit.errors import OdefitError
from odefit.formats import write_result
from odefit.formats.result_file import result_json
from odefit.native.places import write_atomically
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


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise OdefitError(f"'{path}' cannot be written: {error.strerror}.") from error


def fit_and_report(problem: Problem, options: FitOptions) -> None:
    """Fit, print, write ``result.json`` and pictures if asked to, and leave with the right exit code."""
    import odefit.api

    json, quiet, out = options.json, options.quiet, options.out
    problem = changed(problem, options.values, options.fix, options.free, options.source)
    if quiet and json:
        raise OdefitError("--quiet prints nothing and --json a document; choose one of them.")
    if options.plots and out is None:
        raise OdefitError("--plots writes pictures beside result.json; say where with --out.")
    if not quiet:
        announce_compilation()
    silent = quiet or json
    n = options.starts or problem.settings.starts
    with LiveTable(quiet=silent) as callback, StartsBar(n, quiet=silent) as progress:
        result: FitResult = odefit.api.fit(
            problem, method=options.method, solver=options.solver, start=options.start, starts=options.starts,
            seed=options.seed, workers=options.workers, callback=callback, progress=progress,
        )  # fmt: skip
    written = None if out is None else write_result(result, out)  # before anything else can go wrong
    if not quiet:
        print(result_json(result) if json else result.summary(), end="" if json else "\n")
        if result.start_values is not None:
            print(f"odefit: {result.start_values.text}", file=sys.stderr)
    if out is not None:
        lines = [f"wrote {written}", *(_write_plots(result, out) if options.plots else ())]
        if not quiet:
            print("\n".join(f"odefit: {line}" for line in lines), file=sys.stderr)
    if not result.converged:
        raise typer.Exit(NOT_CONVERGED)


def _write_plots(result: FitResult, folder: Path) -> list[str]:
    from odefit.report.plots.files import write_plots  # matplotlib: only for those who want pictures

    return write_plots(result, folder)
