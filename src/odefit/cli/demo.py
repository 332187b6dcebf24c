"""``odefit demo NAME``."""

from __future__ import annotations

from typing import Annotated

import typer

from odefit.cli.fit_options import FitOptions, takes_fit_options
from odefit.cli.output import fit_and_report
from odefit.gallery import load, names


@takes_fit_options
def demo(
    name: Annotated[str | None, typer.Argument(help="Name of a gallery problem; lists them if left out.")] = None,
    *,
    options: FitOptions,
) -> None:
    """Fit a ready problem from the gallery.

    Examples: odefit demo

    odefit demo barnes --set k1=3 --solver diffpar

    odefit demo lotka_volterra_iss --starts 100 --seed 1
    """
    if name is None:
        print("\n".join(names()))
    else:
        fit_and_report(load(name), options)
