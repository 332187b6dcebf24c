"""``odefit demo NAME``."""

from __future__ import annotations

from typing import Annotated

import typer

from odefit.cli.fit import Json, Method, Out, SolverName
from odefit.cli.output import fit_and_report
from odefit.gallery import load, names


def demo(
    name: Annotated[str | None, typer.Argument(help="Name of a gallery problem; lists them if left out.")] = None,
    method: Method = None,
    solver: SolverName = None,
    json: Json = False,
    out: Out = None,
) -> None:
    """Fit a ready problem from the gallery.

    Example: odefit demo barnes
    """
    if name is None:
        print("\n".join(names()))
        return
    fit_and_report(load(name), method, solver, json, out)
