"""``odefit fit FILE``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from odefit.cli.output import fit_and_report
from odefit.formats import load_problem
from odefit.solve import SOLVERS

Method = Annotated[str | None, typer.Option(help="Strategy; the file's own by default.")]
SolverName = Annotated[
    str | None, typer.Option("--solver", help=f"One of {', '.join(SOLVERS)}; the file's own by default.")
]
Start = Annotated[str | None, typer.Option(help='"auto": start values from the data; "given": those of the file.')]
Starts = Annotated[int | None, typer.Option(min=1, help="Fit from that many start values and keep the best.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Which start values are drawn.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the summary.")]
Out = Annotated[Path | None, typer.Option(help="Folder for result.json; made if needed.")]


def fit(
    file: Annotated[Path, typer.Argument(help="Problem file (TOML).")],
    method: Method = None,
    solver: SolverName = None,
    start: Start = None,
    starts: Starts = None,
    seed: Seed = None,
    json: Json = False,
    out: Out = None,
) -> None:
    """Fit the problem in FILE and print estimates with their uncertainty.

    Example: odefit fit barnes.toml --out results
    """
    fit_and_report(load_problem(file), method, solver, json, out, start=start, starts=starts, seed=seed)
