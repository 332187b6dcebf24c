"""What the commands print, and where."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TextIO

import typer

from odefit.cli.changes import changed, integrated_by
from odefit.cli.fit_options import FitOptions
from odefit.cli.progress import LiveTable, StartsBar
from odefit.errors import OdefitError, plain
from odefit.formats import write_result
from odefit.formats.result_file import result_json
from odefit.native.places import write_atomically
from odefit.native.stop import StopFlag, exit_code, stop_on_interrupt
from odefit.problem import Problem
from odefit.strategy import FitResult

NOT_CONVERGED = 3


class _Stderr(logging.Handler):
    """Print messages on the present standard error (which may be replaced during a run)."""

    def emit(self, record: logging.LogRecord) -> None:
        stream: TextIO = sys.stderr
        print(plain(f"odefit: {self.format(record)}"), file=stream, flush=True)


def announce_compilation(*, quiet: bool = False) -> None:
    """Tell on standard error what is compiled, since it takes seconds the first time, and what else is noteworthy."""
    if not quiet:
        logging.getLogger("odefit.compile").setLevel(logging.INFO)
    for name in ("odefit.compile", "odefit.study"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler() if quiet else _Stderr())


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
    problem = integrated_by(problem, options.integrator, options.rtol, options.atol, options.max_step)
    if quiet and json:
        raise OdefitError("--quiet prints nothing and --json a document; choose one of them.")
    if options.plots and out is None:
        raise OdefitError("--plots writes pictures beside result.json; say where with --out.")
    announce_compilation(quiet=quiet)
    silent = quiet or json
    n = options.starts or problem.settings.starts
    with LiveTable(quiet=silent) as callback, StartsBar(n, quiet=silent) as progress:
        result: FitResult = odefit.api.fit(
            problem, method=options.method, solver=options.solver, start=options.start, starts=options.starts,
            seed=options.seed, workers=options.workers, callback=callback, progress=progress,
        )  # fmt: skip
    lines, unwritten = _written(result, options)
    if not quiet:
        print(result_json(result) if json else plain(result.summary()), end="" if json else "\n")
        if result.start_values is not None:
            print(plain(f"odefit: {result.start_values.text}"), file=sys.stderr)
        print("".join(plain(f"odefit: {line}\n") for line in lines), end="", file=sys.stderr)
    if unwritten is not None:
        raise unwritten
    if (code := exit_code()) is not None:
        raise typer.Exit(code)
    if not result.converged:
        raise typer.Exit(NOT_CONVERGED)


def _written(result: FitResult, options: FitOptions) -> tuple[list[str], OdefitError | None]:
    """Write what was asked for, before anything is printed: a terminal may be gone, and another signal may come.

    Returns
    -------
    lines, failure
        What was written; why something could not be, which is said after the result.
    """
    lines: list[str] = []
    if options.out is None:
        return lines, None
    try:
        with stop_on_interrupt(StopFlag()):
            lines.append(f"wrote {write_result(result, options.out)}")
        if options.plots:
            lines += _write_plots(result, options.out)
    except OdefitError as error:
        return lines, error
    return lines, None


def _write_plots(result: FitResult, folder: Path) -> list[str]:
    from odefit.report.plots.files import write_plots  # matplotlib: only for those who want pictures

    return write_plots(result, folder)
