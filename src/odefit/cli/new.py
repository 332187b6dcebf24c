"""``odefit new NAME``."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from odefit.cli.output import write_text
from odefit.errors import OdefitError

_STARTING_FILES = Path(__file__).parent / "starting"
_NAME = "NAME"  # in these files and their names


class Kind(StrEnum):
    """What a problem may begin with: the folders of starting files."""

    KINETICS = "kinetics"
    PK = "pk"
    EPI = "epi"
    INPUT = "input"


def new(
    name: Annotated[str, typer.Argument(help="Name of the problem: letters, digits, '-' and '_'.")] = "problem",
    kind: Annotated[
        Kind, typer.Option(help="Reactions; doses given to people; an epidemic with an event; a recorded input.")
    ] = Kind.KINETICS,
) -> None:
    """Write a commented problem file NAME.toml with its data NAME.csv that fits as it is.

    Examples: odefit new growth; odefit fit growth.toml

    odefit new tablets --kind pk
    """
    stem = name.removesuffix(".toml")
    if not re.fullmatch(r"[A-Za-z0-9_-]+", stem):
        raise OdefitError(f"'{name}' is not a name for a problem; use letters, digits, '-' and '_'.")
    sources = sorted((_STARTING_FILES / kind).glob(f"{_NAME}*"), key=lambda path: (path.suffix != ".toml", path.stem))
    files = {
        Path(source.name.replace(_NAME, stem)): source.read_text(encoding="utf-8").replace(_NAME, stem)
        for source in sources
    }
    for path in files:
        if path.exists():
            raise OdefitError(f"'{path}' is there already; nothing was written. Give another name.")
    for path, text in files.items():
        write_text(path, text)
    *first, last = map(str, files)
    print(f"wrote {', '.join(first)} and {last}; now run: odefit fit {stem}.toml")
