"""The options of a fit, declared once for all commands that fit."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from odefit.cli.changes import Atol, Fix, Free, From, Integrator, MaxStep, Rtol, Set
from odefit.solve import SOLVERS
from odefit.strategy import METHODS


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """What the user asked for; the fields are the options, in the order in which ``--help`` lists them."""

    method: Annotated[str | None, typer.Option(help=f"One of {', '.join(METHODS)}; the file's own by default.")] = None
    solver: Annotated[str | None, typer.Option(help=f"One of {', '.join(SOLVERS)}; the file's own by default.")] = None
    start: Annotated[
        str | None, typer.Option(help='"auto": start values from the data; "given": those of the file.')
    ] = None
    starts: Annotated[int | None, typer.Option(min=1, help="Fit from that many start values and keep the best.")] = None
    seed: Annotated[int | None, typer.Option(min=0, help="Which start values are drawn.")] = None
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that share the starts; one per core by default.")
    ] = None
    integrator: Integrator = None
    rtol: Rtol = None
    atol: Atol = None
    max_step: MaxStep = None
    values: Set = None
    fix: Fix = None
    free: Free = None
    source: From = None
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of the summary.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors; the exit code tells.")] = False
    out: Annotated[Path | None, typer.Option(help="Folder for result.json; made if needed.")] = None
    plots: Annotated[bool, typer.Option("--plots", help="Write pictures (PNG) of the fit beside result.json, too.")] = (
        False
    )


def takes_fit_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return `command` with an option for each field of its argument ``options: FitOptions``.

    Typer reads options from signatures only, and so the signature is made here.
    """
    types = get_type_hints(FitOptions, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    offered = [
        inspect.Parameter(field.name, kind, default=field.default, annotation=types[field.name])
        for field in fields(FitOptions)
    ]
    signature = inspect.signature(command, eval_str=True)
    arguments = [parameter for name, parameter in signature.parameters.items() if name != "options"]

    @functools.wraps(command)
    def command_with_options(**values: Any) -> None:
        options = FitOptions(**{parameter.name: values.pop(parameter.name) for parameter in offered})
        command(**values, options=options)

    command_with_options.__signature__ = signature.replace(parameters=[*arguments, *offered])  # pyright: ignore
    return command_with_options
