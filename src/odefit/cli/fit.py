"""``odefit fit FILE``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from odefit.cli.fit_options import FitOptions, takes_fit_options
from odefit.cli.output import fit_and_report
from odefit.formats import load_problem


@takes_fit_options
def fit(file: Annotated[Path, typer.Argument(help="Problem file (TOML).")], options: FitOptions) -> None:
    """Fit the problem in FILE and print estimates with their uncertainty.

    Exit code 0: converged, 2: bad input, 3: not converged.

    Examples: odefit fit barnes.toml --out results --plots

    odefit fit barnes.toml --from results --set k1=3 --fix k2

    odefit fit barnes.toml --starts 100 --seed 1
    """
    fit_and_report(load_problem(file), options)
