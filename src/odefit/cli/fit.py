"""``odefit fit FILE``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from odefit.cli.changes import Fix, Free, From, Set, changed
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
Workers = Annotated[int | None, typer.Option(min=1, help="Processes that share the starts; one per core by default.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the summary.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors; the exit code tells.")]
Out = Annotated[Path | None, typer.Option(help="Folder for result.json; made if needed.")]
Plots = Annotated[bool, typer.Option("--plots", help="Write pictures (PNG) of the fit beside result.json, too.")]


def fit(
    file: Annotated[Path, typer.Argument(help="Problem file (TOML).")],
    method: Method = None,
    solver: SolverName = None,
    start: Start = None,
    starts: Starts = None,
    seed: Seed = None,
    workers: Workers = None,
    values: Set = None,
    fix: Fix = None,
    free: Free = None,
    source: From = None,
    json: Json = False,
    quiet: Quiet = False,
    out: Out = None,
    plots: Plots = False,
) -> None:
    """Fit the problem in FILE and print estimates with their uncertainty.

    Exit code 0: converged, 2: bad input, 3: not converged.

    Examples: odefit fit barnes.toml --out results --plots

    odefit fit barnes.toml --from results --set k1=3 --fix k2

    odefit fit barnes.toml --starts 100 --seed 1
    """
    problem = changed(load_problem(file), values, fix, free, source)
    fit_and_report(
        problem, method, solver, json=json, quiet=quiet, out=out, plots=plots,
        start=start, starts=starts, seed=seed, workers=workers,
    )  # fmt: skip
