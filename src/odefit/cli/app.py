"""The Typer application that the commands register with."""

from __future__ import annotations

import typer

from odefit.cli.check import check
from odefit.cli.compare import compare
from odefit.cli.demo import demo
from odefit.cli.fit import fit
from odefit.cli.new import new
from odefit.cli.simulate import simulate

app = typer.Typer(
    name="odefit",
    help="Fit differential-equation models to data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(fit)
app.command()(check)
app.command()(demo)
app.command()(simulate)
app.command()(compare)
app.command()(new)


@app.callback()
def _commands() -> None:
    """Fit differential-equation models to data."""
