"""``odefit check FILE``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from odefit.cli.output import NOT_CONVERGED, announce_compilation
from odefit.errors import plain
from odefit.formats import load_problem


def check(file: Annotated[Path, typer.Argument(help="Problem file (TOML).")]) -> None:
    """Say in words what FILE holds, and compare its derivatives with finite differences.

    Example: odefit check barnes.toml
    """
    from odefit.report.check import check as describe

    announce_compilation()
    report = describe(load_problem(file))
    print(plain(report.text))
    if not report.ok:
        raise typer.Exit(NOT_CONVERGED)
