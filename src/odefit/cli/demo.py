"""``odefit demo NAME``."""

from __future__ import annotations

from typing import Annotated

import typer

from odefit.cli.changes import Fix, Free, Set, changed
from odefit.cli.fit import Json, Method, Out, Plots, Quiet, Seed, SolverName, Start, Starts, Workers
from odefit.cli.output import fit_and_report
from odefit.gallery import load, names


def demo(
    name: Annotated[str | None, typer.Argument(help="Name of a gallery problem; lists them if left out.")] = None,
    method: Method = None,
    solver: SolverName = None,
    start: Start = None,
    starts: Starts = None,
    seed: Seed = None,
    workers: Workers = None,
    values: Set = None,
    fix: Fix = None,
    free: Free = None,
    json: Json = False,
    quiet: Quiet = False,
    out: Out = None,
    plots: Plots = False,
) -> None:
    """Fit a ready problem from the gallery.

    Examples: odefit demo

    odefit demo barnes --set k1=3 --solver diffpar

    odefit demo lotka_volterra_iss --starts 100 --seed 1
    """
    if name is None:
        print("\n".join(names()))
        return
    problem = changed(load(name), values, fix, free, None)
    fit_and_report(
        problem, method, solver, json=json, quiet=quiet, out=out, plots=plots,
        start=start, starts=starts, seed=seed, workers=workers,
    )  # fmt: skip
