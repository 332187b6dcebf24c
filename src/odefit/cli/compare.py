"""``odefit compare FILE FILE ...``."""

from __future__ import annotations

import json as js
from pathlib import Path
from typing import Annotated

import typer

from odefit.cli.output import announce_compilation
from odefit.errors import OdefitError, plain
from odefit.formats import load_problem

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the table.")]


def compare(
    files: Annotated[list[Path], typer.Argument(help="Problem files (TOML) with different models of the same data.")],
    json: Json = False,
) -> None:
    """Fit several models to the same data and say which describes them best.

    AIC, AICc and BIC for all; a likelihood ratio test where the parameters of one are some of another's.

    Example: odefit compare first-order.toml second-order.toml
    """
    import odefit.api
    from odefit.strategy import compare as compare_results

    if len(files) < 2:
        raise OdefitError("compare needs two problem files or more.")
    announce_compilation()
    results = [odefit.api.fit(load_problem(file)) for file in files]
    stems = [file.stem for file in files]
    names = stems if len(set(stems)) == len(stems) else [str(file) for file in files]
    comparison = compare_results(*results, names=names)
    print(js.dumps(comparison.to_dict(), indent=2) if json else plain(str(comparison)))
