"""The Typer application that the commands register with."""

from __future__ import annotations

import signal
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from odefit.cli.check import check
from odefit.cli.compare import compare
from odefit.cli.demo import demo
from odefit.cli.fit import fit
from odefit.cli.new import new
from odefit.cli.simulate import simulate
from odefit.native.stop import exit_code


class _Commands(TyperGroup):
    """The commands; a signal that ends one of them is answered in a sentence."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            print("odefit: interrupted", file=sys.stderr)
            raise typer.Exit(exit_code() or 128 + signal.SIGINT) from None


app = typer.Typer(
    name="odefit",
    cls=_Commands,
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
