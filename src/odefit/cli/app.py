"""The Typer application that the commands register with."""

from __future__ import annotations

import typer

from odefit.cli.check import check
from odefit.cli.demo import demo
from odefit.cli.fit import fit

app = typer.Typer(
    name="odefit",
    help="Fit differential-equation models to data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(fit)
app.command()(check)
app.command()(demo)


@app.callback()
def _commands() -> None:
    """Fit differential-equation models to data."""
